//! A local file as a source. Its mapping ([`lent`](super::lent)) lends bytes to the kernel without a copy.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use super::lease::wait_for_lease;
use super::lent::{Lendable, Lent};
use super::storage::{close_later, is_remote};
use super::writes::WriteCount;
use super::{Identity, Provenance, Source, SourceStat, Surroundings};
use crate::error::{Error, Kind, Result};
use crate::sync::{locked_to_read, locked_to_write};
use crate::workers::while_waiting;

/// The type of tmpfs in statfs.
const TMPFS: u64 = 0x0102_1994;

/// A local file.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    /// `None` only while the source is dropped.
    file: Option<File>,
    /// True if reads may wait for a server or another program.
    is_remote: bool,
    /// True if the mapping may be used. It is not used on tmpfs: reading a hole through a mapping allocates
    /// its pages there, so reading a sparse file would fill up memory.
    lends: bool,
    map: RwLock<Option<Arc<Lendable>>>,
    surroundings: Option<Arc<dyn Surroundings>>,
    /// `None` if writes are not counted.
    writes: Option<WriteCount>,
}

impl FileSource {
    /// Adds access to other files that this file may refer to.
    #[must_use]
    pub fn with_surroundings(mut self, surroundings: Arc<dyn Surroundings>) -> Self {
        self.surroundings = Some(surroundings);
        self
    }

    /// Counts the writes to the file from now on, in a program that [counts](super::count_writes).
    #[must_use]
    pub fn counting_writes(mut self) -> Self {
        self.writes = if self.is_remote { None } else { WriteCount::of(self.file()) };
        self
    }

    /// Opens a regular file for reading. Never blocks on a FIFO or a device: both are refused.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let opened = wait_for_lease(open, |error| error.kind() == std::io::ErrorKind::WouldBlock);
        let file = opened.map_err(|error| Error::from(error).of(path))?;
        Self::from_file(file, path)
    }

    /// Uses an open file; `path` is for messages.
    pub fn from_file(file: File, path: &Path) -> Result<Self> {
        let meta = file.metadata().map_err(|error| Error::from(error).of(path))?;
        if !meta.is_file() {
            return Err(Error::new(Kind::Unrecognised, "is not a regular file").of(path));
        }
        // Under a limit on the address space, a mapping would leave too little for everything else.
        let limited = rustix::process::getrlimit(rustix::process::Resource::As).current.is_some();
        let lends = !limited && !rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
        let is_remote = is_remote(&file);
        let path = path.to_owned();
        let file = Some(file);
        let map = RwLock::new(None);
        Ok(Self { path, file, is_remote, lends, map, surroundings: None, writes: None })
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("taken only when dropped")
    }

    /// Runs a system call. If the call may wait for a server, another thread works in place of this one.
    fn call<T>(&self, call: impl FnOnce(&File) -> T) -> T {
        if self.is_remote { while_waiting(|| call(self.file())) } else { call(self.file()) }
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.call(File::metadata)
    }

    /// Returns the current version of the file.
    pub fn identity(&self) -> Result<Identity> {
        let meta = self.metadata().map_err(|error| Error::from(error).of(&self.path))?;
        Ok(Identity::of(&meta))
    }

    /// Returns a mapping that reaches at least to `end`, renewed if the file has grown; `None` if the file is
    /// shorter or can't be mapped.
    fn map(&self, end: u64) -> Option<Arc<Lendable>> {
        let size = self.metadata().ok()?.len();
        if end > size {
            return None;
        }
        if let Some(map) = locked_to_read(&self.map).as_ref().filter(|map| map.len() as u64 >= end) {
            return Some(map.clone());
        }
        let mut slot = locked_to_write(&self.map);
        let map = Arc::new(Lendable::of(self.file())?);
        *slot = Some(map.clone());
        (map.len() as u64 >= end).then_some(map)
    }
}

impl AsFd for FileSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl Drop for FileSource {
    /// Closes the file. A file on a server is closed on a separate thread, because the server is notified and
    /// may not answer.
    fn drop(&mut self) {
        if let Some(file) = self.file.take_if(|_| self.is_remote) {
            close_later(file);
        }
    }
}

impl Source for FileSource {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        self.surroundings.as_ref()
    }

    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let end = offset.checked_add(len as u64).filter(|_| self.lends)?;
        let map = self.map(end)?;
        let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
        Some(Lent::new(map, range))
    }

    fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        let found = self.call(|file| {
            let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
                // There is no data up to the end.
                Err(rustix::io::Errno::NXIO) => return file.metadata().map(|meta| meta.len()..meta.len()),
                start => start?,
            };
            Ok(start..rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?)
        });
        found.ok().filter(|data| data.start >= offset)
    }

    fn provenance(&self) -> Provenance {
        self.metadata().map_or_else(|_| Provenance::default(), |meta| Provenance::of(&meta))
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.identity()?.into())
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // pread takes a signed offset.
        if offset > i64::MAX as u64 {
            return Ok(0);
        }
        let mut done = 0;
        while done < buf.len() {
            let at = offset.saturating_add(done as u64);
            match self.call(|file| file.read_at(&mut buf[done..], at)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The bytes before the failing sector are valid; the next read returns the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(Error::from(error).at(offset).of(&self.path)),
            }
        }
        Ok(done)
    }

    fn is_unlinked(&self) -> bool {
        self.metadata().is_ok_and(|meta| meta.nlink() == 0)
    }

    fn writes(&self) -> Option<u64> {
        self.writes.as_ref().map(WriteCount::now)
    }

    fn is_slow(&self) -> bool {
        self.is_remote
    }

    fn will_need(&self, offset: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(self.file(), offset, len, rustix::fs::Advice::WillNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lends_what_is_there_and_follows_growth() {
        // Not in /tmp, which may be a tmpfs: nothing is lent there.
        let test = std::env::current_exe().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(test.parent().unwrap()).unwrap();
        file.write_all(b"0123456789").unwrap();
        let source = FileSource::open(file.path()).unwrap();
        assert_eq!(source.lend(3, 4).unwrap().for_kernel(), b"3456");
        assert!(source.lend(3, 8).is_none());
        file.write_all(&[b'x'; 100_000]).unwrap();
        assert_eq!(source.lend(9, 3).unwrap().for_kernel(), b"9xx");
        let mut buf = [0; 16];
        assert_eq!(source.read_at(100_008, &mut buf).unwrap(), 2);
        assert_eq!(source.read_at(u64::MAX, &mut buf).unwrap(), 0);
    }

    #[test]
    fn a_directory_or_fifo_is_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FileSource::open(dir.path()).unwrap_err().kind(), Kind::Unrecognised);
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert_eq!(FileSource::open(&fifo).unwrap_err().kind(), Kind::Unrecognised);
    }
}
