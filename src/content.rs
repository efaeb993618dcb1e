//! Random-access bytes of known length. Everything that can be read in the mount is a [`Content`].

pub(crate) mod base64;
pub mod folder;
mod gather;
mod interleaved;
pub mod names;
pub mod npy;
pub mod parquet;
pub mod path_folder;
pub mod path_tree;
mod pieces;
pub mod png;
mod recoded;
mod slice;
mod text;
mod window;

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::source::Source;

pub use gather::Gather;
pub use interleaved::Interleaved;
pub use pieces::Pieces;
pub use recoded::{Change, Recoded, float16};
pub use slice::Slice;
pub use text::Text;
pub use window::Window;

/// Whether all bytes of a content can be read, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Not all of it has been read yet.
    Unknown,
    /// All of it has been read, and nothing was wrong.
    Sound,
    /// Bytes from this offset on can't be read. If it is the content's length, all bytes can be read, but the
    /// stream does not end there as it should (truncated, or longer than the header says).
    Broken(u64),
}

/// Bytes of a content that lie in a source as they are.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The source.
    pub source: &'a Arc<dyn Source>,
    /// Where they begin in it.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

/// The owner of buffers that readers share.
pub trait BufferPool: Send + Sync + std::fmt::Debug {
    /// Takes back a buffer that a reader is done with.
    fn take_back(&self, buffer: Arc<Vec<u8>>);
}

/// Bytes of a content in a buffer that other readers may share.
#[derive(Debug)]
pub struct Shared {
    /// Always there, until it is dropped.
    buffer: Option<Arc<Vec<u8>>>,
    range: Range<usize>,
    pool: Arc<dyn BufferPool>,
}

impl Shared {
    /// A range of a buffer of the pool.
    pub(crate) fn new(buffer: Arc<Vec<u8>>, range: Range<usize>, pool: Arc<dyn BufferPool>) -> Self {
        Self { buffer: Some(buffer), range, pool }
    }

    /// All of the buffer.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| buffer.as_slice())
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer().get(self.range.clone()).unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.buffer.take().into_iter().for_each(|buffer| self.pool.take_back(buffer));
    }
}

/// Random-access bytes of known length.
pub trait Content: Send + Sync + std::fmt::Debug {
    /// Bytes in all; what `ls -l` shows. Known without decoding anything.
    fn len(&self) -> u64;

    /// Whether there is nothing to read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buf` from `offset` on and returns the number of bytes read.
    ///
    /// A read is short only at the end of the content, or before a byte that can't be read: a read that
    /// starts there returns the error. A read at the very end returns an error if all bytes were right but
    /// the stream is longer than its header says. Never returns wrong bytes.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Where all its bytes lie in a source, if they lie there as they are, in one piece: `len()` bytes from
    /// the offset on.
    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        None
    }

    /// The ranges of the source whose bytes it is made of, in the order of its own bytes. None for generated
    /// text. A content without bytes may have an empty range: where they would lie.
    fn ranges(&self) -> Vec<Range<u64>> {
        self.stored().map(|(_, start)| start..start.saturating_add(self.len())).into_iter().collect()
    }

    /// Where the bytes from `offset` on lie in a source as they are: as many as lie there in one piece.
    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (source, start) = self.stored()?;
        let len = self.len().checked_sub(offset).filter(|len| *len > 0)?;
        Some(Stored { source, offset: start.checked_add(offset)?, len })
    }

    /// The bytes that [`read_at`](Self::read_at) would copy out of one buffer, without the copy; `None` if they
    /// do not lie in one buffer, or can't be read. Bytes that are not decoded yet are decoded only
    /// `at_any_cost`.
    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<Shared> {
        let _ = (offset, len, at_any_cost);
        None
    }

    /// Whether reads take long (decoding, a server), so that no thread that answers requests makes them.
    fn is_slow(&self) -> bool {
        false
    }

    /// Whether all bytes can be read, as far as is known.
    fn soundness(&self) -> Soundness {
        Soundness::Sound
    }

    /// Whether the first read at its end decodes all of it. The seek table that this leaves spares the next
    /// mount the pass, if tables can be kept.
    fn costs_a_pass(&self) -> bool {
        false
    }

    /// The first defect that was found while reading, even if all bytes were right.
    fn trouble(&self) -> Option<Error> {
        None
    }

    /// Takes over what another content of the same bytes has found: nothing can be read from `from` on.
    fn inherit(&self, from: u64, trouble: &Error) {
        let _ = (from, trouble);
    }
}

/// Fills a buffer step by step. `step` writes to the start of what it is given, with the number of bytes that are
/// there already, and returns how many it wrote; 0 ends the reading. An error after the first bytes ends it, too:
/// these bytes are right, and the next read meets the error again.
pub(crate) fn fill(buf: &mut [u8], mut step: impl FnMut(usize, &mut [u8]) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match step(done, &mut buf[done..]) {
            Ok(0) => break,
            Ok(written) => done += written,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads exactly `buf.len()` bytes; an error if there are fewer.
pub fn read_exact_at(content: &dyn Content, offset: u64, buf: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(done as u64);
        match content.read_at(at, rest)? {
            0 => {
                return Err(Error::damaged(format!(
                    "the data ends at byte {at}, {} bytes early",
                    rest.len()
                )));
            }
            read => done += read,
        }
    }
    Ok(())
}
