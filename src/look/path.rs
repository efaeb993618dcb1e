//! Lookup of a PATH from the command line, name by name, as the kernel walks through a mount.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use asdf_access::local::stat::FileKind;
use seekable::error::{Error, Kind, Result, one_line};

use super::{Look, as_system_says};
use crate::vfs::{Attr, Ino};

/// Maximum number of links followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// Maximum number of names in the error for an unknown path.
const NAMED: usize = 8;

/// A node found at a path.
#[derive(Clone, Debug)]
pub(super) struct FoundPath {
    pub(super) attr: Attr,
    /// Directory and name of the node; the name is empty for the root.
    pub(super) parent: Ino,
    pub(super) name: OsString,
}

impl Look {
    /// Returns the node at a path. A link at its end is followed if `follow` is true or the path ends in a
    /// slash.
    pub(super) fn find(&self, path: &Path, follow: bool) -> Result<FoundPath> {
        let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
        let root = self.vfs.attr(Ino::ROOT)?;
        let mut walked = vec![FoundPath { attr: root, parent: Ino::ROOT, name: OsString::new() }];
        let mut remaining: VecDeque<OsString> = components(path)?;
        let mut links = 0;
        while let Some(name) = remaining.pop_front() {
            let here = walked.last().map_or(root, |found| found.attr);
            if name == ".." {
                if walked.len() == 1 {
                    return Err(leads_out());
                }
                walked.pop();
                continue;
            }
            if here.kind != FileKind::Directory {
                return Err(as_system_says(libc::ENOTDIR, "Not a directory"));
            }
            let attr = self.lookup(here.ino, &name).map_err(|error| match error.kind() {
                Kind::NotFound => self.unknown(&walked),
                _ => error,
            })?;
            if attr.kind == FileKind::Link && (follow || ends_in_slash || !remaining.is_empty()) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let text = PathBuf::from(self.vfs.read_link(attr.ino)?);
                if text.is_absolute() {
                    return Err(leads_out().advise(format!("name {} itself", text.display())));
                }
                for name in components(&text)?.into_iter().rev() {
                    remaining.push_front(name);
                }
                continue;
            }
            walked.push(FoundPath { attr, parent: here.ino, name });
        }
        let found = walked.pop().ok_or_else(leads_out)?;
        if ends_in_slash && found.attr.kind != FileKind::Directory {
            Err(as_system_says(libc::ENOTDIR, "Not a directory"))
        } else {
            Ok(found)
        }
    }

    /// Returns the error for a name that is not in the last directory of `walked`.
    fn unknown(&self, walked: &[FoundPath]) -> Error {
        let within: PathBuf = walked.iter().map(|found| &found.name).collect();
        let ino = walked.last().map_or(Ino::ROOT, |found| found.attr.ino);
        let mut names = self.names(ino).unwrap_or_default();
        names.sort();
        let more = names.len().saturating_sub(NAMED);
        let shown: Vec<_> = names.iter().take(NAMED).map(|name| one_line(&name.to_string_lossy())).collect();
        let place = if within.as_os_str().is_empty() {
            "names there".to_owned()
        } else {
            format!("names in {}", within.display())
        };
        let shown = match (shown.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => shown.join(", "),
            (false, more) => format!("{} and {more} more", shown.join(", ")),
        };
        Error::new(Kind::NotFound, format!("No such file or directory; {place}: {shown}"))
    }
}

/// Returns the names of a path. An absolute path begins at the root of the mount.
fn components(path: &Path) -> Result<VecDeque<OsString>> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(Ok(name.to_owned())),
        Component::ParentDir => Some(Ok("..".into())),
        Component::CurDir | Component::RootDir => None,
        Component::Prefix(_) => Some(Err(leads_out())),
    };
    path.components().filter_map(name).collect()
}

/// Returns a path relative to the root, without `.` and `..`. Fails if it leads out of the root.
pub(super) fn normalized(path: &Path) -> Result<PathBuf> {
    let mut names = PathBuf::new();
    for name in components(path)? {
        if name != OsStr::new("..") {
            names.push(name);
        } else if !names.pop() {
            return Err(leads_out());
        }
    }
    Ok(names)
}

fn leads_out() -> Error {
    Error::new(Kind::Usage, "leads out of what a mount would show")
}
