//! Opens a source for writing, and locks it.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::lock;
use crate::error::{Error, Kind, Result};
use crate::source::storage::Storage;

/// Attempts at a file that other programs replace all the time.
const ATTEMPTS: usize = 8;
/// How often, and after which pauses, a lock is asked for that another program has.
const LOCK_ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(10);
/// With these pauses, how often a lease is asked for while another program seems to write.
const LEASE_ATTEMPTS: usize = 5;

/// A file that is open for writing.
#[derive(Debug)]
pub(super) struct Opened<F> {
    /// The file.
    pub(super) file: F,
    /// What holds the lock, if that is another descriptor.
    pub(super) lock: Option<F>,
    /// Why it is not locked.
    pub(super) lock_trouble: Option<String>,
}

/// Opens the file and locks it, where there are locks.
pub(super) fn open_locked<S: Storage>(
    storage: &S,
    path: &Path,
    state: Option<&Path>,
) -> Result<Opened<S::File>> {
    for _ in 0..ATTEMPTS {
        let file = storage.open(path, true).map_err(|error| not_writable(error).of(path))?;
        let identity = storage.meta(&file)?.identity;
        let locked = lock_apart(storage, path, &file, |file| lock_patiently(storage, file));
        let (lock, lock_trouble) = match locked {
            Ok(lock) => (lock, None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let holder = lock::holder(&identity, path, state);
                return Err(Error::new(Kind::Busy, holder.to_string()).of(path));
            }
            Err(error) if lock::unsupported(&error) => (None, Some(error.to_string())),
            Err(error) => return Err(Error::from(error).within("locking").of(path)),
        };
        // The process that had it may have put another file in its place.
        if storage.meta_at(path).is_ok_and(|meta| meta.identity.same_file(&identity)) {
            return Ok(Opened { file, lock, lock_trouble });
        }
    }
    Err(Error::new(Kind::Busy, "is replaced by other programs all the time").of(path))
}

/// Locks an open file by a descriptor of its own, which is open for reading only, so that the one that
/// writes can be closed for a while. `None` where only one that writes can be locked (NFS): that one is.
pub(super) fn lock_apart<S: Storage>(
    storage: &S,
    path: &Path,
    file: &S::File,
    lock: impl Fn(&S::File) -> io::Result<()>,
) -> io::Result<Option<S::File>> {
    let apart = storage.open(path, false)?;
    match lock(&apart) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => lock(file).map(|()| None),
        answer => answer.map(|()| Some(apart)),
    }
}

/// Locks the file; one that is locked is asked for again for a moment.
///
/// A program that has just closed the file may still be seen to have it: another of its threads was
/// about to start a program, which had all its files until it began.
fn lock_patiently<S: Storage>(storage: &S, file: &S::File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        match storage.lock(file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    storage.lock(file)
}

/// Takes a lease on the file; one that is refused is asked for again for a moment: a program that another
/// thread was about to start had all files of this one until it began.
pub(super) fn lease_patiently<S: Storage>(storage: &S, file: &S::File) -> io::Result<()> {
    for _ in 0..LEASE_ATTEMPTS {
        match storage.lease(file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => storage.wait(PAUSE),
            answer => return answer,
        }
    }
    storage.lease(file)
}

/// Why a file that can't be opened for writing is read-only.
pub(super) fn not_writable(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY) => {
            Error::new(Kind::ReadOnly, format!("can't be written: {}", Error::from(error).message()))
        }
        _ => error.into(),
    }
}
