//! A check that names can be created and removed in a directory.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags};

/// Fails if the kernel would refuse to change the directory: for lack of permission, on a read-only mount, or
/// if it is immutable. Also fails if it is append-only (`chattr +a`): names can then be created, not removed.
pub(super) fn may_change(dir: &Path) -> io::Result<()> {
    rustix::fs::accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
    match rustix::fs::statx(CWD, dir, AtFlags::empty(), StatxFlags::empty()) {
        Ok(stat) if stat.stx_attributes.contains(StatxAttributes::APPEND) => {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
        // A failed statx does not count as a refusal.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_folder_can_be_changed_and_a_missing_one_can_not() {
        let folder = tempfile::tempdir().unwrap();
        may_change(folder.path()).unwrap();
        let error = may_change(&folder.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
