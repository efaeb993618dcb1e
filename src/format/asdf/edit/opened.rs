//! Opens a source for writing and locks it.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use super::lock;
use super::sidecar::HeldSource;
use crate::error::{Error, Kind, Result};
use crate::source::storage::{Rights, Storage};

/// The number of attempts to open a file that other programs keep replacing.
const ATTEMPTS: usize = 8;
/// The number of attempts to take a lock or a lease that another program prevents, and the pause between
/// the attempts.
const LOCK_ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(10);

/// A file that is open for writing.
#[derive(Debug)]
pub(super) struct Opened<F> {
    /// The file.
    pub(super) file: F,
    /// The descriptor that holds the lock, if that is not `file`.
    pub(super) lock: Option<F>,
    /// The reason why the file is not locked.
    pub(super) lock_error: Option<String>,
}

/// Opens the file, and locks it if its file system has locks.
pub(super) fn open_locked<S: Storage>(storage: &S, source: &HeldSource<S>) -> Result<Opened<S::File>> {
    let label = || source.label(storage);
    for _ in 0..ATTEMPTS {
        let file = source.open(storage, true).map_err(|error| not_writable(error).of(label()))?;
        let identity = storage.meta(&file)?.identity;
        let locked =
            lock_apart(storage, &source.dir, &source.name, &file, |file| lock_patiently(storage, file));
        let (lock, lock_error) = match locked {
            Ok(lock) => (lock, None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let holder = lock::holder(&identity, &label(), &source.note(), source.state.as_deref());
                return Err(Error::new(Kind::Busy, holder.to_string()).of(label()));
            }
            Err(error) if lock::unsupported(&error) => (None, Some(error.to_string())),
            Err(error) => return Err(Error::from(error).within("can't lock the file").of(label())),
        };
        // The previous holder of the lock may have replaced the file.
        if source.meta(storage).is_ok_and(|meta| meta.identity.same_file(&identity)) {
            return Ok(Opened { file, lock, lock_error });
        }
    }
    let why = "is replaced by other programs again and again: try again when they are done";
    Err(Error::new(Kind::Busy, why).of(label()))
}

/// Fails with ESTALE if the file has other rights than these.
pub(super) fn check_rights<S: Storage>(storage: &S, file: &S::File, rights: Option<Rights>) -> Result<()> {
    match rights {
        Some(rights) if storage.meta(file)?.rights() != rights => Err(rustix::io::Errno::STALE.into()),
        _ => Ok(()),
    }
}

/// Locks an open file through a second descriptor, which is open for reading only, so that the writing
/// descriptor can be closed for a while. Returns `None` where only a writing descriptor can be locked (NFS):
/// `file` itself is locked then.
pub(super) fn lock_apart<S: Storage>(
    storage: &S,
    dir: &S::Dir,
    name: &OsStr,
    file: &S::File,
    lock: impl Fn(&S::File) -> io::Result<()>,
) -> io::Result<Option<S::File>> {
    let apart = storage.open(dir, name, false)?;
    match lock(&apart) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => lock(file).map(|()| None),
        answer => answer.map(|()| Some(apart)),
    }
}

/// Locks the file. While another program holds the lock, retries for a moment.
///
/// A program that has just closed the file may still seem to hold the lock: if another thread of the program
/// forks, the child keeps the program's descriptors, the lock's included, until exec.
fn lock_patiently<S: Storage>(storage: &S, file: &S::File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        match storage.lock(file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    storage.lock(file)
}

/// Takes a lease on the file. While a program has the file open for writing, retries for a moment, for the
/// reason given at [`lock_patiently`].
pub(super) fn lease_patiently<S: Storage>(storage: &S, file: &S::File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        match storage.lease(file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => storage.wait(PAUSE),
            answer => return answer,
        }
    }
    storage.lease(file)
}

/// Converts an error of opening a file for writing: to [`Kind::ReadOnly`] if the file can't be written.
pub(super) fn not_writable(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY) => {
            Error::new(Kind::ReadOnly, format!("can't be written: {}", Error::from(error).message()))
        }
        Some(libc::EINVAL) => Error::new(Kind::Unrecognised, "is not a regular file"),
        Some(libc::ELOOP) => Error::new(Kind::Unrecognised, "is a link now; give the path of the file"),
        _ => error.into(),
    }
}
