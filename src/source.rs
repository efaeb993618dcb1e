//! The file under the mount: who it is, reading at an offset, a mapping for the kernel's eyes.
//!
//! [`Source`] is the only way through which bytes come, so that something else than a local file can
//! be one later.

#![allow(unsafe_code)] // the mapping, in `FileSource::map`

mod memory;
pub mod storage;
mod window;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use memmap2::{Advice, Mmap, MmapOptions, UncheckedAdvice};

use crate::error::{Error, Kind, Result};

pub use memory::MemorySource;
pub use window::Window;

/// After this many bytes were lent from the mapping its pages are let go, so that the daemon's
/// resident size does not grow with the file. The bytes stay in the kernel's page cache.
const LENT_BEFORE_LETTING_GO: u64 = 16 << 20;
/// What statfs calls tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// Who a file is; when any of it changes, what was parsed is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time: seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
}

impl Identity {
    /// Takes the identity out of what stat answered.
    pub fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec() as u32),
        }
    }

    /// Whether both are the same file, whatever was written to it meanwhile.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Bytes that are to be handed to the kernel and never looked at here.
///
/// They lie in a mapping: when another program cuts the file, touching them in user space kills the
/// process (SIGBUS), while a system call that is given them fails with EFAULT.
#[derive(Debug)]
pub struct Lent<'a> {
    map: Arc<Mmap>,
    range: std::ops::Range<usize>,
    source: &'a FileSource,
}

impl Lent<'_> {
    /// The bytes, for a system call only.
    pub fn for_kernel(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.source.returned(&self.map, self.range.len() as u64);
    }
}

/// Where bytes come from.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// The name it was opened by, for messages.
    fn path(&self) -> &Path;

    /// Who it is now; asks the system each time.
    fn identity(&self) -> Result<Identity>;

    /// Reads at `offset` into `buf`; fewer bytes than asked only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// `len` bytes from `offset` on for the kernel, if they can be lent without a copy.
    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let _ = (offset, len);
        None
    }

    /// Says that these ranges (offset, length) will be read soon.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// What keeps its bytes where they are, if somebody may move them.
    fn gate(&self) -> Option<&Gate> {
        None
    }
}

/// Locked for reading it keeps the bytes of a source where they are; who moves them locks it for writing.
///
/// Whoever has a reader wait for him works under that reader's lock. Who works ahead of one needs his own.
pub type Gate = Arc<RwLock<()>>;

/// A local file.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    file: File,
    /// Whether a mapping may be read: on tmpfs each page of a hole that is looked at takes up memory from
    /// then on, and a sparse file would be sparse no more.
    lends: bool,
    map: RwLock<Option<Arc<Mmap>>>,
    lent: AtomicU64,
    gate: Option<Gate>,
}

impl FileSource {
    /// The same, with what keeps its bytes where they are.
    #[must_use]
    pub fn with_gate(self, gate: Gate) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Opens a regular file for reading. Never blocks on a FIFO or a device: those are refused.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = opened.map_err(|error| Error::from(error).of(path))?;
        Self::from_file(file, path)
    }

    /// Takes an open file; `path` is for messages.
    pub fn from_file(file: File, path: &Path) -> Result<Self> {
        let meta = file.metadata().map_err(|error| Error::from(error).of(path))?;
        if !meta.is_file() {
            return Err(Error::new(Kind::Unrecognised, "is not a regular file").of(path));
        }
        // Where address space is limited a mapping would leave none for what must be had.
        let limited = rustix::process::getrlimit(rustix::process::Resource::As).current.is_some();
        let lends = !limited && !rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
        let (map, lent) = (RwLock::new(None), AtomicU64::new(0));
        Ok(Self { path: path.to_owned(), file, lends, map, lent, gate: None })
    }

    /// A mapping that reaches at least to `end`, made anew when the file has grown; `None` if the
    /// file ends before or can't be mapped.
    fn map(&self, end: u64) -> Option<Arc<Mmap>> {
        let size = self.file.metadata().ok()?.len();
        if end > size {
            return None;
        }
        if let Some(map) = self.map.read().ok()?.as_ref().filter(|map| map.len() as u64 >= end) {
            return Some(map.clone());
        }
        let mut slot = self.map.write().ok()?;
        // SAFETY: a file can be changed or cut by others while it is mapped, which nobody can rule
        // out. The bytes are reached only through `Lent`, whose contract is that they are handed to
        // the kernel and not touched here; the kernel answers EFAULT for a page that is gone.
        let map = unsafe { MmapOptions::new().map(&self.file) }.ok()?;
        let _ = map.advise(Advice::Sequential);
        let map = Arc::new(map);
        *slot = Some(map.clone());
        (map.len() as u64 >= end).then_some(map)
    }

    fn returned(&self, map: &Mmap, len: u64) {
        let lent = self.lent.fetch_add(len, Ordering::Relaxed).saturating_add(len);
        if lent >= LENT_BEFORE_LETTING_GO {
            self.lent.store(0, Ordering::Relaxed);
            // SAFETY: the mapping is shared and backed by the file, so dropping its pages loses
            // nothing: the next access maps the same bytes again.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

impl Source for FileSource {
    fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn identity(&self) -> Result<Identity> {
        let meta = self.file.metadata().map_err(|error| Error::from(error).of(&self.path))?;
        Ok(Identity::of(&meta))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // pread takes a signed offset.
        if offset > i64::MAX as u64 {
            return Ok(0);
        }
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before the failing sector is right; the next read meets the error again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(Error::from(error).at(offset).of(&self.path)),
            }
        }
        Ok(done)
    }

    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let end = offset.checked_add(len as u64).filter(|_| self.lends)?;
        let map = self.map(end)?;
        let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
        Some(Lent { map, range, source: self })
    }

    fn will_need(&self, offset: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::WillNeed);
    }
}

/// Reads as many bytes as there are from `offset` on, up to the length of `buf`.
pub fn read_up_to(source: &dyn Source, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match source.read_at(offset.saturating_add(done as u64), &mut buf[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lends_what_is_there_and_follows_growth() {
        // Not in /tmp, which may be in memory: there nothing is lent.
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
