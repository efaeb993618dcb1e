//! Patterns in PATHs, as a shell would expand them in a mount: `arrays/*.npy`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use super::Look;
use crate::local::stat::FileKind;

/// Maximum number of paths that a pattern stands for.
const MAX_PATHS: usize = 1 << 20;

impl Look {
    /// Replaces each path that does not exist, and is a pattern, by the paths that match it. A pattern that matches
    /// nothing is kept.
    pub(super) fn expanded(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for path in paths {
            let found = if is_pattern(path.as_os_str()) && self.find(path, false).is_err() {
                self.matches(path)
            } else {
                Vec::new()
            };
            if found.is_empty() { all.push(path.clone()) } else { all.extend(found) }
        }
        all
    }

    fn matches(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        let parts: Vec<&OsStr> = pattern.iter().collect();
        for (n, part) in parts.iter().enumerate() {
            let is_last = n + 1 == parts.len();
            let mut next = Vec::new();
            for above in found {
                if !is_pattern(part) {
                    let path = above.join(part);
                    if self.find(&path, true).is_ok() {
                        next.push(path);
                    }
                    continue;
                }
                let Some(regex) = compiled(part) else { continue };
                let directory = if above.as_os_str().is_empty() { Path::new(".") } else { &above };
                let mut names = self.matching(directory, &regex, part, is_last);
                names.sort();
                next.extend(names.into_iter().map(|name| above.join(name)));
                next.truncate(MAX_PATHS);
            }
            found = next;
        }
        found
    }

    /// Returns the names in a directory that match; of directories only, unless the pattern ends there.
    fn matching(&self, directory: &Path, regex: &Regex, part: &OsStr, is_last: bool) -> Vec<OsString> {
        let Ok(found) = self.find(directory, true) else { return Vec::new() };
        if found.attr.kind != FileKind::Directory {
            return Vec::new();
        }
        let names = self.names(found.attr.ino).unwrap_or_default();
        // A pattern matches names that begin with a dot only if it begins with one.
        let is_shown =
            |name: &OsString| part.as_bytes().starts_with(b".") || !name.as_bytes().starts_with(b".");
        let is_entered = |name: &OsString| {
            is_last
                || self
                    .find(&directory.join(name), true)
                    .is_ok_and(|entered| entered.attr.kind == FileKind::Directory)
        };
        names
            .into_iter()
            .filter(|name| is_shown(name) && regex.is_match(name.as_bytes()) && is_entered(name))
            .collect()
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
