//! Patterns in PATHs, as a shell would expand them in a mount: `arrays/*.npy`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use asdf_access::local::stat::FileKind;
use regex::bytes::Regex;
use seekable::error::Error;

use super::Look;
use super::path::FoundPath;

/// Maximum number of paths that a pattern stands for.
const MAX_PATHS: usize = 1 << 20;

/// The paths that patterns stand for.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) paths: Vec<PathBuf>,
    /// Paths of which it can't be known if they match, or what matches below them.
    pub(super) unsearched: Vec<(PathBuf, Error)>,
}

impl Look {
    /// Replaces each path that does not exist, and is a pattern, by the paths that match it. A pattern that matches
    /// nothing is kept.
    pub(super) fn expanded(&self, paths: &[PathBuf]) -> Expanded {
        let mut all = Expanded::default();
        for path in paths {
            if !is_pattern(path.as_os_str()) || self.find(path, false).is_ok() {
                all.paths.push(path.clone());
                continue;
            }
            let known = all.unsearched.len();
            let found = self.matches(path, &mut all.unsearched);
            if found.is_empty() && all.unsearched.len() == known {
                all.paths.push(path.clone());
            }
            all.paths.extend(found);
        }
        all
    }

    fn matches(&self, pattern: &Path, unsearched: &mut Vec<(PathBuf, Error)>) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        let parts: Vec<&OsStr> = pattern.iter().collect();
        for (n, part) in parts.iter().enumerate() {
            let is_last = n + 1 == parts.len();
            let mut next = Vec::new();
            for above in found {
                if !is_pattern(part) {
                    let path = above.join(part);
                    if self.entered(&path, unsearched).is_some() {
                        next.push(path);
                    }
                    continue;
                }
                let Some(regex) = compiled(part) else { continue };
                let directory = if above.as_os_str().is_empty() { Path::new(".") } else { &above };
                let mut names = self.matching(directory, &regex, part, is_last, unsearched);
                names.sort();
                next.extend(names.into_iter().map(|name| above.join(name)));
                next.truncate(MAX_PATHS);
            }
            found = next;
        }
        found
    }

    /// Returns the names in a directory that match; of directories only, unless the pattern ends there.
    fn matching(
        &self,
        directory: &Path,
        regex: &Regex,
        part: &OsStr,
        is_last: bool,
        unsearched: &mut Vec<(PathBuf, Error)>,
    ) -> Vec<OsString> {
        let is_directory = |found: &FoundPath| found.attr.kind == FileKind::Directory;
        let Some(found) = self.entered(directory, unsearched).filter(is_directory) else { return Vec::new() };
        // A pattern matches names that begin with a dot only if it begins with one.
        let shows_dots = part.as_bytes().starts_with(b".");
        let mut names = Vec::new();
        let listed = self.each_name(found.attr.ino, &mut |name, _| {
            let is_shown = shows_dots || !name.as_bytes().starts_with(b".");
            if is_shown && regex.is_match(name.as_bytes()) {
                names.push(name.to_owned());
            }
        });
        if let Err(error) = listed {
            unsearched.push((directory.to_owned(), error));
        }
        if !is_last {
            names.retain(|name| {
                self.entered(&directory.join(name), unsearched).is_some_and(|found| is_directory(&found))
            });
        }
        names
    }

    /// Returns what is at a path; `None` if there is nothing, or a link that leads out of the file (EINVAL), or if that
    /// can't be known.
    fn entered(&self, path: &Path, unsearched: &mut Vec<(PathBuf, Error)>) -> Option<FoundPath> {
        match self.find(path, true) {
            Ok(found) => Some(found),
            Err(error)
                if [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EINVAL].contains(&error.errno()) =>
            {
                None
            }
            Err(error) => {
                unsearched.push((path.to_owned(), error));
                None
            }
        }
    }
}

fn is_pattern(text: &OsStr) -> bool {
    text.as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// Returns the regular expression of a pattern; `None` if it is not valid.
fn compiled(pattern: &OsStr) -> Option<Regex> {
    let mut regex = String::from("(?s-u)^");
    let mut bytes = pattern.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        match byte {
            b'*' => regex += ".*",
            b'?' => regex += "(?u:.)",
            b'[' => match class(rest) {
                Some((class, after)) => {
                    regex += &class;
                    bytes = after;
                }
                None => regex += "\\[",
            },
            byte => regex += &format!("\\x{byte:02x}"),
        }
    }
    Regex::new(&(regex + "$")).ok()
}

/// Converts a class such as `[!a-z]`, of which the bracket is read already. Returns it and the rest of the pattern.
fn class(pattern: &[u8]) -> Option<(String, &[u8])> {
    let (is_negated, inner) = match pattern.split_first()? {
        (b'!' | b'^', inner) => (true, inner),
        _ => (false, pattern),
    };
    // A bracket that comes first is a member.
    let end = inner.iter().skip(1).position(|byte| *byte == b']')? + 1;
    let mut class = String::from(if is_negated { "[^" } else { "[" });
    for (at, byte) in inner.get(..end)?.iter().enumerate() {
        match byte {
            b'-' if at > 0 && at + 1 < end => class.push('-'),
            byte => class += &format!("\\x{byte:02x}"),
        }
    }
    class.push(']');
    Some((class, inner.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_in_a_shell() {
        for (pattern, name, is_match) in [
            ("*.npy", "a.npy", true),
            ("*.npy", "a.npz", false),
            ("a?c", "a\u{e9}c", true),
            ("a?c", "ac", false),
            ("[a-c]1", "b1", true),
            ("[!a-c]1", "b1", false),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("a+(b)|c", "a+(b)|c", true),
            ("*", "", true),
            ("[b-a]", "a", false),
        ] {
            let regex = compiled(OsStr::new(pattern));
            assert_eq!(
                regex.is_some_and(|regex| regex.is_match(name.as_bytes())),
                is_match,
                "{pattern} {name}"
            );
        }
    }
}
