//! Sources of bytes: size, version, and reads at an offset.
//!
//! All bytes are read through a [`Source`], which need not be a local file. Only a local file
//! ([`FileSource`]) has a mapping, from which it lends bytes to the kernel.

mod buffered;
#[cfg(test)]
#[path = "../../../tests/common/counted.rs"]
pub(crate) mod counted;
mod file;
mod lease;
mod lent;
mod memory;
mod place;
mod readers;
mod section;
pub mod storage;
mod version;
mod window;
mod writes;

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

pub use buffered::BufferedSource;
pub use file::FileSource;
pub use lease::wait_for_lease;
pub use lent::Lent;
pub use memory::MemorySource;
pub use place::{ListedStat, MAX_DEPTH, PlaceEntry, SCHEMES};
pub use place::{Place, PlaceKind, PlaceStat};
pub use readers::{Moved, NoReaders, Readers};
pub use section::SourceSection;
pub use version::{Identity, SourceStat, SourceVersion};
pub use version::{Provenance, Revision, Time};
pub use window::Window;
pub use writes::count_writes;

/// Bytes that can be read at any offset.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// Returns the name that the source was opened by, for messages. A source that wraps none has one of its own.
    fn path(&self) -> &Path {
        self.inner().map_or(Path::new(""), Source::path)
    }

    /// Returns the source that this one wraps. What follows without a method of its own is then that source's,
    /// except for the reads.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    /// Returns the current state, asking the system or the server each time. The source of a generation
    /// returns the fixed state of that generation.
    fn stat(&self) -> Result<SourceStat>;

    /// Returns the current size in bytes; the file of a generation may have grown.
    fn size_now(&self) -> Result<u64> {
        Ok(self.stat()?.size)
    }

    /// Reads at `offset` into `buf`; returns fewer bytes than asked only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Reads like [`read_at`](Self::read_at), for a reader whose bytes lie in `extent`: nothing beyond its end is read
    /// ahead.
    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let _ = extent;
        self.read_at(offset, buf)
    }

    /// Reads several short ranges, in ascending order, which are not read again soon: a server is asked for all of them
    /// at once. Each is shorter than asked only at the end of the source.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        ranges.iter().map(|range| read_range(self, range)).collect()
    }

    /// Returns the bytes that were kept under a name for this version of the source; `None` if there are none.
    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        self.inner()?.kept(name)
    }

    /// Keeps bytes that were computed from this version of the source for later mounts, if reading it is expensive.
    fn keep(&self, name: &str, bytes: &[u8]) {
        if let Some(inner) = self.inner() {
            inner.keep(name, bytes);
        }
    }

    /// Returns the next data at or after `offset`; all bytes before are a hole, which reads as zeros. A range without
    /// length means that more is known from its position on. `None` if holes are unknown.
    fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        self.inner()?.next_data(offset)
    }

    /// Lends `len` bytes from `offset` on to a system call, without a copy; `None` if not supported.
    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let _ = (offset, len);
        None
    }

    /// Returns the descriptor of a local file, for a program that maps it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner()?.descriptor()
    }

    /// Returns the offset of the first byte in the file that users know.
    fn start_in_file(&self) -> u64 {
        0
    }

    /// True if the source is a local file that no longer has a name.
    fn is_unlinked(&self) -> bool {
        self.inner().is_some_and(Source::is_unlinked)
    }

    /// Returns the number of writes to a local file since it was opened; `None` if they are not counted. Several writes
    /// may count as one. A write through a mapping, or by another machine, is not counted.
    fn writes(&self) -> Option<u64> {
        self.inner().and_then(Source::writes)
    }

    /// True if a read may be slow, as from a server. Threads that answer requests do not wait for such a
    /// read.
    fn is_slow(&self) -> bool {
        self.inner().is_some_and(Source::is_slow)
    }

    /// Returns access to the other files that the source may refer to, if it has a location.
    fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        self.inner()?.surroundings()
    }

    /// Returns the possible writers of the source and the time of its last change.
    fn provenance(&self) -> Provenance {
        self.inner().map(Source::provenance).unwrap_or_default()
    }

    /// Returns the revision that a server gave to the bytes, or that of bytes in memory; `None` for a local file.
    fn revision(&self) -> Option<Revision> {
        self.inner()?.revision()
    }

    /// Announces that this range (offset, length) will be read soon.
    fn will_need(&self, offset: u64, len: u64) {
        if let Some(inner) = self.inner() {
            inner.will_need(offset, len);
        }
    }
}

/// The location of a source, from which it may refer to other files.
pub trait Surroundings: Send + Sync + std::fmt::Debug {
    /// Opens the regular file at a path relative to the source's directory, within `reach`.
    ///
    /// # Errors
    /// There is no such file, it can't be read, or it is out of reach; the message says which.
    fn open(&self, path: &Path, reach: &Reach) -> Result<Arc<dyn Source>>;

    /// True if the source is on a server, and the files that it refers to, too.
    fn is_on_server(&self) -> bool {
        false
    }

    /// Opens the file that a URI in the tree names; `None` if the source is local.
    fn open_reference(&self, uri: &str) -> Option<Result<Arc<dyn Source>>> {
        let _ = uri;
        None
    }
}

/// Access to the files on servers that local trees may name.
pub trait UrlOpener: Send + Sync + std::fmt::Debug {
    /// Opens the file at an http or https URL.
    ///
    /// # Errors
    /// The URL is not valid, must not be requested, or can't be read; the message says which.
    fn open(&self, url: &str) -> Result<Arc<dyn Source>>;
}

/// The limit on the location of files that a source may refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The source's own directory and those below.
    #[default]
    Below,
    /// Anywhere except in a mount of this program.
    Anywhere,
}

/// Returns the bytes in a range, fewer at the end of the source.
pub fn read_range<S: Source + ?Sized>(source: &S, range: &Range<u64>) -> Result<Vec<u8>> {
    let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match source.read_at(range.start.saturating_add(done as u64), &mut bytes[done..])? {
            0 => break,
            read => done += read,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Reads from `offset` on until `buf` is full or the source ends; returns the number of bytes.
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
