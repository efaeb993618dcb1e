//! Random-access bytes of known length. Everything that can be read in the mount is a [`Content`].

mod checksum;
mod pieces;
mod slice;
mod text;
mod through;
mod window;

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::source::Source;

pub use checksum::{checksum, md5_of};
pub use pieces::Pieces;
pub use slice::Slice;
pub use text::Text;
pub use text::{Borrowed, UnreadableText, is_printable, short_number};
pub use through::{each_piece, read_through};
pub use window::ContentWindow;

/// The readability of a content, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Some bytes have not been read yet.
    Unknown,
    /// All bytes have been read without an error.
    Sound,
    /// Bytes from this offset on can't be read. If the offset is the content's length, all bytes can be read,
    /// but the stream does not end there as it should (truncated, or longer than its header says).
    Broken(u64),
}

impl Soundness {
    /// Returns the readability of bytes for which two contents are needed.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Broken(one), Self::Broken(two)) => Self::Broken(one.min(two)),
            (Self::Broken(at), _) | (_, Self::Broken(at)) => Self::Broken(at),
            (Self::Sound, Self::Sound) => Self::Sound,
            _ => Self::Unknown,
        }
    }
}

/// Bytes of a content that lie unencoded in a source.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The source.
    pub source: &'a Arc<dyn Source>,
    /// The offset of the first byte in the source.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Elements with strides, where they lie.
#[derive(Clone, Debug)]
pub struct Strided {
    /// The bytes in which they lie.
    pub whole: Arc<dyn Content>,
    /// The offset of the first element.
    pub start: u64,
    /// The stride of each dimension in bytes. All elements lie in `whole`.
    pub strides: Vec<i64>,
    /// The number of bytes from the lowest element to the end of the highest.
    pub span: u64,
}

/// The owner of buffers that readers share.
pub trait BufferPool: Send + Sync + std::fmt::Debug {
    /// Returns a buffer to the pool.
    fn take_back(&self, buffer: Arc<Vec<u8>>);
}

/// Bytes of a content in a buffer that other readers may share.
#[derive(Debug)]
pub struct SharedBytes {
    /// `Some` until the value is dropped.
    buffer: Option<Arc<Vec<u8>>>,
    range: Range<usize>,
    pool: Arc<dyn BufferPool>,
}

impl SharedBytes {
    /// Refers to a range of a buffer of the pool.
    pub fn new(buffer: Arc<Vec<u8>>, range: Range<usize>, pool: Arc<dyn BufferPool>) -> Self {
        Self { buffer: Some(buffer), range, pool }
    }

    /// Returns the whole buffer.
    pub fn buffer(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| buffer.as_slice())
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer().get(self.range.clone()).unwrap_or_default()
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.take_back(buffer);
        }
    }
}

/// Random-access bytes of known length.
pub trait Content: Send + Sync + std::fmt::Debug {
    /// Returns the length in bytes, which `ls -l` shows. Nothing is decoded for it.
    fn len(&self) -> u64;

    /// True if the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buf` from `offset` on and returns the number of bytes read.
    ///
    /// A read is short only at the end of the content or before an unreadable byte. A read that starts at an
    /// unreadable byte returns the error. A read at the very end returns an error if all bytes are right but
    /// the stream is longer than its header says. Wrong bytes are never returned.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Returns the contents from which the bytes are made. The methods below ask them, unless a content answers itself.
    fn made_of(&self) -> &[Arc<dyn Content>] {
        &[]
    }

    /// Returns the first byte that can't be read if nothing can be read from byte `at` on of content `n` of
    /// [`made_of`](Self::made_of).
    fn first_broken(&self, n: usize, at: u64) -> u64 {
        let _ = (n, at);
        0
    }

    /// Returns the source and the offset in it, if all `len()` bytes lie there unencoded, in one piece.
    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        None
    }

    /// Returns the ranges of the source that the content is made of, in the order of the content's bytes.
    /// Generated text has none. An empty content may have an empty range: the place of its data.
    fn ranges(&self) -> Vec<Range<u64>> {
        match self.stored() {
            Some((_, start)) => std::iter::once(start..start.saturating_add(self.len())).collect(),
            None => self.made_of().iter().flat_map(|content| content.ranges()).collect(),
        }
    }

    /// Returns the longest piece from `offset` on that lies unencoded in a source.
    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (source, start) = self.stored()?;
        let len = self.len().checked_sub(offset).filter(|len| *len > 0)?;
        Some(Stored { source, offset: start.checked_add(offset)?, len })
    }

    /// Returns the bytes that [`read_at`](Self::read_at) would copy from a single buffer, without the copy.
    /// `None` if they span several buffers or can't be read. Bytes that are not decoded yet are decoded only
    /// if `at_any_cost` is true.
    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let _ = (offset, len, at_any_cost);
        None
    }

    /// Reads like [`read_at`](Self::read_at), but possibly fewer bytes: those that one read of the underlying bytes gives.
    /// For readers of a few places far from each other, for whom nothing else is to be gathered.
    fn read_few(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_at(offset, buf)
    }

    /// Returns where the elements of an array lie, if the content gathers them by their strides.
    fn strided(&self) -> Option<Strided> {
        None
    }

    /// Returns the number of bytes that are decoded to read any one: 1 if none is, `u64::MAX` if all before it are.
    fn decoded_at_once(&self) -> u64 {
        self.made_of().iter().map(|content| content.decoded_at_once()).max().unwrap_or(1)
    }

    /// Returns the shape of the chunks in which the elements of an array are stored, if they are.
    fn chunk_shape(&self) -> Option<Vec<u64>> {
        None
    }

    /// Returns the value that the bytes are a file of, such as an array, for readers that need no file.
    fn written(&self) -> Option<&dyn Any> {
        None
    }

    /// True if reads may take long (decoding, a server) and must not run on a thread that answers requests.
    fn is_slow(&self) -> bool {
        self.made_of().iter().any(|content| content.is_slow())
    }

    /// Returns the known readability of the content.
    fn soundness(&self) -> Soundness {
        let mut whole = Soundness::Sound;
        for (n, content) in self.made_of().iter().enumerate() {
            whole = whole.and(match content.soundness() {
                Soundness::Broken(at) => Soundness::Broken(self.first_broken(n, at)),
                known => known,
            });
        }
        whole
    }

    /// True if the first read at the end decodes the whole content. That pass leaves a seek table, which
    /// spares the next mount the pass if tables can be stored.
    fn costs_a_pass(&self) -> bool {
        self.made_of().iter().any(|content| content.costs_a_pass())
    }

    /// Returns the first damage found while reading, even if all bytes can be read.
    fn damage(&self) -> Option<Error> {
        self.made_of().iter().find_map(|content| content.damage())
    }

    /// Adopts a defect found in another content with the same bytes: nothing can be read from `from` on.
    fn inherit(&self, from: u64, damage: &Error) {
        let _ = (from, damage);
    }
}

/// Fills a buffer by repeated calls of `step`. Each call gets the number of bytes filled so far and the rest
/// of the buffer, writes to the start of that rest, and returns how many bytes it wrote. 0 ends the read. An
/// error after the first bytes also ends it, without being returned: the bytes before it are right, and the
/// next read meets the error again.
pub fn fill(buf: &mut [u8], mut step: impl FnMut(usize, &mut [u8]) -> Result<usize>) -> Result<usize> {
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

/// Returns the source and the offset in it, if all bytes lie unencoded in a source whose reads may be slow, as from a
/// server.
pub fn on_server(content: &dyn Content) -> Option<(&Arc<dyn Source>, u64)> {
    content.stored().filter(|(source, _)| source.is_slow())
}

/// Length of the pieces of [`any_piece`].
pub const PIECE: usize = 256 << 10;

/// Calls `is_match` for the pieces of a content until it returns true; the second argument is true for the last
/// piece. Each piece begins with the last 64 bytes of the one before it, so that a match is not cut in two.
pub fn any_piece(content: &dyn Content, is_match: impl Fn(&[u8], bool) -> bool) -> Result<bool> {
    const OVERLAP: usize = 64;
    let mut piece = vec![0; content.len().min(PIECE as u64) as usize];
    let mut at = 0;
    let mut kept = 0;
    while at < content.len() {
        let more = (content.len() - at).min((piece.len() - kept) as u64) as usize;
        let read = kept + more;
        read_exact_at(content, at, &mut piece[kept..read])?;
        at += more as u64;
        if is_match(&piece[..read], at == content.len()) {
            return Ok(true);
        }
        kept = read.min(OVERLAP);
        piece.copy_within(read - kept..read, 0);
    }
    Ok(false)
}

/// Returns the next data at or after `offset` if the content lies unencoded in a source: all bytes before are a hole.
/// `None` if holes are unknown.
pub fn next_data(content: &dyn Content, offset: u64) -> Option<Range<u64>> {
    let stored = content.stored_at(offset)?;
    let data = stored.source.next_data(stored.offset)?;
    let here = |place: u64| offset + place.saturating_sub(stored.offset).min(stored.len);
    Some(here(data.start)..here(data.end))
}

/// Copies the bytes from `offset` on to `buf`, as many as fit, and returns their number.
pub fn copy_from(bytes: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let len = rest.len().min(buf.len());
    buf[..len].copy_from_slice(&rest[..len]);
    len
}

/// Reads exactly `buf.len()` bytes; an error if there are fewer.
pub fn read_exact_at(content: &dyn Content, offset: u64, buf: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(done as u64);
        match content.read_at(at, rest)? {
            0 => {
                return Err(Error::damaged(format!("the data end at byte {at}, {} bytes early", rest.len())));
            }
            read => done += read,
        }
    }
    Ok(())
}
