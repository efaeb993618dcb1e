//! The report of the files that a mount keeps at its end. `asdf-mount -u` or the next mount prints it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::fs::{Access, AtFlags};
use seekable::error::one_line;
use seekable::sync::locked;
use seekable::user_dirs;

use crate::overlay::paths::top;
use crate::overlay::state_dir::StateDir;

/// Maximum number of names in a line.
const MAX_NAMES: usize = 20;

impl StateDir {
    /// Returns the path of the report that is written at the end of the mount if files are kept.
    pub(crate) fn report_path(&self) -> PathBuf {
        self.path.join(&self.report)
    }

    /// Adds a line about a kept file to the log and to the report.
    pub(crate) fn tell(&self, line: String) {
        tracing::warn!("{line}");
        locked(&self.news).push(line);
    }

    /// Writes the report, if it has lines.
    pub(crate) fn write_report(&self) {
        self.tell_refused();
        let lines: Vec<String> = locked(&self.news).iter().map(|line| one_line(line) + "\n").collect();
        if !lines.is_empty()
            && let Err(error) = user_dirs::write(self.dir(), &self.report, lines.concat().as_bytes())
        {
            tracing::warn!("{}: {error}", self.report_path().display());
        }
    }

    /// Adds lines about the refused texts that stay here.
    fn tell_refused(&self) {
        let dir = self.dir();
        for (label, mut names) in std::mem::take(&mut *locked(&self.refused)) {
            names.retain(|name| rustix::fs::accessat(&dir, name, Access::EXISTS, AtFlags::empty()).is_ok());
            if !names.is_empty() {
                let names = listed(names.iter().map(OsString::as_os_str));
                self.tell(format!(
                    "{}: refused texts are kept: {names} in {}",
                    label.display(),
                    self.path.display()
                ));
            }
        }
    }
}

/// Returns the names in a line; only the first ones if there are many. Files in a directory are told by its name.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a OsStr>) -> String {
    let mut names: Vec<&OsStr> = paths.map(top).collect();
    names.dedup();
    let more = names.len().saturating_sub(MAX_NAMES);
    let first: Vec<_> = names.into_iter().take(MAX_NAMES).map(|name| name.display().to_string()).collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_told() {
        let names: Vec<OsString> = (0..23).map(|n| format!("f{n}").into()).collect();
        let line = listed(names.iter().map(OsString::as_os_str));
        assert!(line.starts_with("f0, f1, ") && line.ends_with("f19 and 3 more"), "{line}");
        assert_eq!(listed(names[..1].iter().map(OsString::as_os_str)), "f0");
    }
}
