//! Where bytes come from: size and version, reads at an offset.
//!
//! All bytes come through a [`Source`], so that something else than a local file can be one. Only a local file
//! ([`FileSource`]) has a mapping, from which it lends bytes to the kernel.

mod buffered;
mod file;
mod memory;
mod readers;
pub mod storage;
mod version;
mod window;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

pub use buffered::BufferedSource;
pub use file::{FileSource, Held, Lent};
pub use memory::MemorySource;
pub use readers::{Moved, NoReaders, Readers};
pub use version::{Identity, Provenance, SourceStat, SourceVersion, Time};
pub use window::Window;

/// Bytes that can be read at any offset.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// The name it was opened by, for messages.
    fn path(&self) -> &Path;

    /// Its state now, for which the system or the server is asked each time; of a generation, its state at that time.
    fn stat(&self) -> Result<SourceStat>;

    /// Its bytes now; a generation may have grown.
    fn size_now(&self) -> Result<u64> {
        Ok(self.stat()?.size)
    }

    /// Reads at `offset` into `buf`; fewer bytes than asked only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Lends `len` bytes from `offset` on to a system call, without a copy; `None` if that can't be done.
    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let _ = (offset, len);
        None
    }

    /// Whether a read may take long, as from a server. Then no thread that answers requests waits for it.
    fn is_slow(&self) -> bool {
        false
    }

    /// Where it finds other files that it names, if it lies somewhere.
    fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        None
    }

    /// Who may write to it, and when it was changed.
    fn provenance(&self) -> Provenance {
        Provenance::default()
    }

    /// Announces that this range (offset, length) will be read soon.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// Where a source lies: it may name other files.
pub trait Surroundings: Send + Sync + std::fmt::Debug {
    /// Opens the regular file at a path from the source's folder on, as far as `reach` goes.
    ///
    /// # Errors
    /// There is none, it can't be read, or it lies too far away: the error says which.
    fn open(&self, path: &Path, reach: &Reach) -> Result<Arc<dyn Source>>;
}

/// How far away from its own folder a source may name files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// In the folder and below.
    #[default]
    Below,
    /// Anywhere but in a mount of this program.
    Anywhere,
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
