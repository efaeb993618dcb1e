//! Whether names can be made in a directory, and taken away again.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags};

/// Asks the kernel, which knows permissions, read-only mounts and immutable directories, and looks for
/// the attribute that lets names be made and never taken away (`chattr +a`).
pub(super) fn may_change(dir: &Path) -> io::Result<()> {
    rustix::fs::accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
    match rustix::fs::statx(CWD, dir, AtFlags::empty(), StatxFlags::empty()) {
        Ok(stat) if stat.stx_attributes.contains(StatxAttributes::APPEND) => {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
        // A kernel that does not know is no reason.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_ones_own_can_be_changed_and_one_that_is_not_there_can_not() {
        let folder = tempfile::tempdir().unwrap();
        may_change(folder.path()).unwrap();
        let error = may_change(&folder.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
