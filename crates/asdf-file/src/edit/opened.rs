//! Locks a source, and opens it for writing.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use seekable::error::{Error, Kind, Result};
use seekable::source::storage::{Rights, Storage};

use super::lock::{self, Holder};
use super::sidecar::HeldSource;

/// The number of attempts to open a file that other programs keep replacing.
const ATTEMPTS: usize = 8;
/// The number of attempts to take a lock or a lease that another program prevents, and the pause between
/// the attempts.
const LOCK_ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(10);
/// How many times [`LOCK_ATTEMPTS`] are made while the lock is not that of a mount, which keeps it.
const LOCK_ROUNDS: usize = 10;
/// The number of attempts to open a file for writing on which another program has a lease. The kernel ends such a lease
/// after 45 s (`/proc/sys/fs/lease-break-time`), or when the program gives it up.
const LEASE_ATTEMPTS: usize = 6000;

const LEASED: &str = "another program has a lease on the file, such as a file server for one of its clients: try again \
                      when that program has closed the file";

/// How long to wait for the lock that another program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// While a short save of another program may have it.
    ForSave,
}

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

/// Locks the file if its file system has locks, and opens it for writing.
///
/// The lock is taken through a descriptor that is open for reading only: a program that saves the file may need a lease,
/// which no writing descriptor may stand beside.
pub(super) fn open_locked<S: Storage>(
    storage: &S,
    source: &HeldSource<S>,
    patience: Patience,
) -> Result<Opened<S::File>> {
    let label = || source.label(storage);
    for _ in 0..ATTEMPTS {
        let apart = source.open(storage, false).map_err(|error| not_writable(error).of(label()))?;
        let identity = storage.meta(&apart)?.identity;
        // Returns the reason why the file is not locked, if its file system has no locks.
        let lock = |file: &S::File| {
            let locked = lock_patiently(storage, file, patience, || {
                lock::holder(&identity, &label(), &source.note(), source.state.as_deref())
            });
            match locked {
                Ok(None) => Ok(None),
                Ok(Some(holder)) => Err(Error::new(Kind::Busy, holder.to_string()).of(label())),
                Err(error) if lock::unsupported(&error) => Ok(Some(error.to_string())),
                Err(error) => Err(Error::from(error).within("can't lock the file").of(label())),
            }
        };
        // On NFS only a writing descriptor can be locked.
        let locks_reader = lock(&apart);
        let locks_writer = matches!(&locks_reader, Err(error) if error.errno() == libc::EBADF);
        let mut lock_error = if locks_writer { None } else { locks_reader? };
        let file = open_to_write(storage, source, patience).map_err(|error| error.of(label()))?;
        if locks_writer {
            lock_error = lock(&file)?;
        }
        // The previous holder of the lock may have replaced the file.
        let is_named = match source.meta(storage) {
            Ok(named) => named.identity.same_file(&identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::from(error).of(label())),
        };
        if is_named && storage.meta(&file)?.identity.same_file(&identity) {
            let lock = (!locks_writer && lock_error.is_none()).then_some(apart);
            return Ok(Opened { file, lock, lock_error });
        }
    }
    let why = "is replaced by other programs again and again: try again when they are done";
    Err(Error::new(Kind::Busy, why).of(label()))
}

/// Opens the source for writing. A patient caller waits for a program that has a lease on it to give it up.
pub(super) fn open_to_write<S: Storage>(
    storage: &S,
    source: &HeldSource<S>,
    patience: Patience,
) -> Result<S::File> {
    for _ in 0..if patience == Patience::None { 1 } else { LEASE_ATTEMPTS } {
        match source.open(storage, true) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => storage.wait(PAUSE),
            opened => return opened.map_err(not_writable),
        }
    }
    Err(Error::new(Kind::Busy, LEASED))
}

/// Fails with ESTALE if the file has other rights than these.
pub(super) fn check_rights<S: Storage>(storage: &S, file: &S::File, rights: Option<Rights>) -> Result<()> {
    match rights {
        Some(rights) if storage.meta(file)?.rights() != rights => Err(rustix::io::Errno::STALE.into()),
        _ => Ok(()),
    }
}

/// Locks an open file, which has this name, through a second descriptor. That one is open for reading only, so that the
/// writing descriptor can be closed for a while. Returns `None` where only a writing descriptor can be locked (NFS):
/// `file` itself is locked then.
pub(super) fn lock_apart<S: Storage>(
    storage: &S,
    dir: &S::Dir,
    name: &OsStr,
    file: &S::File,
    lock: impl Fn(&S::File) -> io::Result<()>,
) -> io::Result<Option<S::File>> {
    let apart = storage.open(dir, name, false)?;
    if !storage.meta(&apart)?.identity.same_file(&storage.meta(file)?.identity) {
        return Err(io::ErrorKind::NotFound.into());
    }
    match lock(&apart) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => lock(file).map(|()| None),
        answer => answer.map(|()| Some(apart)),
    }
}

/// Locks the file. Returns the holder of the lock if another program keeps it.
///
/// A program that has just closed the file may still seem to hold the lock: if another thread of the program
/// forks, the child keeps the program's descriptors, the lock's included, until exec. A program that saves the file holds
/// the lock for the time of the save, a mount for its whole life.
fn lock_patiently<S: Storage>(
    storage: &S,
    file: &S::File,
    patience: Patience,
    holder: impl Fn() -> Holder,
) -> io::Result<Option<Holder>> {
    let rounds = if patience == Patience::None { 0 } else { LOCK_ROUNDS };
    for _ in 0..rounds {
        for _ in 0..LOCK_ATTEMPTS {
            match storage.lock(file) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                answer => return answer.map(|()| None),
            }
        }
        let holder = holder();
        if holder.mount_point.is_some() {
            return Ok(Some(holder));
        }
    }
    match storage.lock(file) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(holder())),
        answer => answer.map(|()| None),
    }
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
        Some(libc::EAGAIN) => Error::new(Kind::Busy, LEASED),
        Some(libc::EINVAL) => Error::new(Kind::Unrecognised, "is not a regular file"),
        Some(libc::ELOOP) => Error::new(Kind::Unrecognised, "is a link now; give the path of the file"),
        _ => error.into(),
    }
}
