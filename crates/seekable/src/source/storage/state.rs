//! The state directory of this user, for journals and images that can't lie beside their source.

use std::io;
use std::path::{Path, PathBuf};

use super::HeldDir;
use crate::error::{Error, Kind};
use crate::user_dirs::STATE;

/// Opens the state directory. If `makes` is true, creates it if it is missing, durably.
pub(super) fn open(path: &Path, makes: bool) -> io::Result<HeldDir> {
    if !makes {
        return STATE.open_existing(path).map(HeldDir::from).map_err(system_error);
    }
    let is_new = STATE.open_existing(path).is_err_and(|error| error.errno() == libc::ENOENT);
    let dir = STATE.open(path).map_err(system_error)?;
    if is_new {
        HeldDir::from(rustix::fs::openat(&dir, "..", HeldDir::FLAGS, rustix::fs::Mode::empty())?).sync()?;
    }
    Ok(dir.into())
}

/// Fails if the kernel would refuse to change the state directory, or the directory in which it, or its first
/// missing parent, would be created.
pub(super) fn may_use(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    for dir in path.ancestors() {
        match HeldDir::open(dir).and_then(|dir| dir.may_change()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            answer => return answer.map_err(|error| (dir.to_owned(), error)),
        }
    }
    Ok(())
}

fn system_error(error: Error) -> io::Error {
    match error.kind() {
        Kind::System(errno) => io::Error::from_raw_os_error(errno),
        _ => io::Error::new(io::ErrorKind::PermissionDenied, error.message()),
    }
}
