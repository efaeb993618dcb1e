//! Blosc 1 and 2: blocks of shuffled and compressed elements, which decode independently.
//!
//! ASDF stores Blosc in two framings under one label:
//!
//! ```text
//! asdf-compression, asdf-cxx   one buffer
//! abacusutils                  repeated to the end: [u32 size, big-endian][buffer of that size]
//! ```
//!
//! A buffer gives its own size at byte 12 of its header, and this tells the framings apart. The size is
//! either that of all stored bytes, or equal to the number before the header.
//!
//! A chunk is a block of a buffer, or several small blocks, or several small buffers. Data that are stored
//! uncompressed (memcpyed) are cut into chunks. [`buffer`] describes a buffer, and [`header`] its header. The
//! decoder is our own and safe, because the C library writes past its output for a crafted stream (c-blosc
//! issue 405).
//!
//! Blosc 2 has buffers with longer headers (its *chunks*), and frames of many of them ([`frame`]). ASDF stores
//! either under the labels `bls2` and `bsc2`:
//!
//! ```text
//! abacusutils, asdf-cxx   one contiguous frame
//! asdf-compression        one chunk, as blosc2.compress returns it
//! ```

mod blosclz;
pub mod buffer;
mod filter;
pub mod frame;
mod frame_chunks;
#[cfg(test)]
mod frame_tests;
pub mod header;
mod inner;
pub mod metalayer;
mod payload;
mod scratch;
mod shuffle;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock};

pub use buffer::Buffer;
pub use frame::Frame;
pub use frame_chunks::{FrameChunk, FrameChunks, NotStored, OneBuffer};
pub use header::{HEADER_SIZE, Header, Inner, Shuffle, Special, codec_name};
pub use payload::{Buffers, DecodedRun, Payload, RUN_BUFFERS, RUN_BYTES};
pub use scratch::Scratch;

use super::part::{ExternalPart, Take};
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::{Chunk, Chunks};
use crate::error::{Error, Kind, Result};
use crate::sync::locked;
use buffer::MIN_PIECE;
use payload::PayloadChunks;
use scratch::{ScratchWindow, placed};
use table::{Span, SpanStart, Table};

/// Headers closer together than this are read together, this many bytes at a time.
const CLOSE: u64 = 64 << 10;
/// A run of small buffers ends after this many stored bytes, because all of them might be empty.
const MAX_RUN: u64 = 1 << 20;

/// Opens the chunks of `stored` (ASDF label `blsc`). Nothing is read before the first lookup of a chunk.
///
/// `data_size` only helps to choose a framing if neither matches the stored bytes.
pub fn open(stored: Arc<dyn Content>, data_size: u64) -> impl Chunks + 'static {
    BufferChunks { stored, data_size, state: Mutex::default() }
}

/// Opens the frame or the single chunk of Blosc 2 in `stored` (ASDF labels `bls2` and `bsc2`). Nothing is read before
/// the first lookup of a chunk.
pub(super) fn open_frame(stored: Arc<dyn Content>, cache: &Arc<Cache>) -> impl Chunks + use<> + 'static {
    LazyFrame { stored, cache: cache.clone(), chunks: OnceLock::new() }
}

/// A frame, or a single chunk, whose header is read by the first lookup.
#[derive(Debug)]
struct LazyFrame {
    stored: Arc<dyn Content>,
    cache: Arc<Cache>,
    chunks: OnceLock<PayloadChunks>,
}

impl LazyFrame {
    fn chunks(&self) -> Result<&PayloadChunks> {
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        let mut head = Vec::new();
        scratch::fill(&mut head, &*self.stored, 0, 16)?;
        let buffers: Arc<dyn Buffers> = if frame::is_frame(&head) {
            let frame = Frame::read(&*self.stored)?;
            Arc::new(FrameChunks::new(self.stored.clone(), frame, &self.cache)?)
        } else {
            let header = frame_chunks::header_at(&*self.stored, 0, self.stored.len())?;
            Arc::new(OneBuffer { stored: self.stored.clone(), at: 0, header })
        };
        Ok(self.chunks.get_or_init(|| PayloadChunks::new(buffers)))
    }
}

impl Chunks for LazyFrame {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        self.chunks()?.find(offset)
    }

    fn stand_alone(&self) -> bool {
        true
    }

    fn lost_end(&self, chunk: Chunk, from: u64) -> u64 {
        match self.chunks() {
            Ok(chunks) => chunks.lost_end(chunk, from),
            Err(_) => chunk.offset.saturating_add(chunk.len),
        }
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        self.chunks()?.decode(chunk, out)
    }
}

/// Fails if numcodecs can't decode a buffer.
pub fn check_external(header: &Header) -> Result<()> {
    match header.inner() {
        Some(Inner::Snappy) => Err(Error::unsupported("Zarr's Blosc has no Snappy")),
        _ => Ok(()),
    }
}

/// Passes each buffer to `take`.
pub(super) fn each_buffer(stored: &Arc<dyn Content>, data_size: u64, take: Take<'_>) -> Result<()> {
    let chunks = BufferChunks { stored: stored.clone(), data_size, state: Mutex::default() };
    let framing = chunks.framing()?;
    let mut window = ScratchWindow::default();
    let mut at = 0;
    while let Some(Framed { header, at: offset, end }) = chunks.next(framing, at, &mut window)? {
        let len = u64::from(header.cbytes());
        check_external(&header)?;
        if offset.checked_add(len).is_none_or(|buffer_end| buffer_end > stored.len()) {
            return Err(Error::damaged("a Blosc buffer is cut off"));
        }
        take(ExternalPart { offset, stored: len, len: header.nbytes().into() })?;
        at = end;
    }
    Ok(())
}

/// One buffer, or several in a row.
#[derive(Debug)]
struct BufferChunks {
    stored: Arc<dyn Content>,
    data_size: u64,
    state: Mutex<BufferTable>,
}

#[derive(Debug, Default)]
struct BufferTable {
    framing: Option<Framing>,
    table: Table,
}

/// The framing of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No framing: a single buffer. Bytes after it are ignored.
    Bare,
    /// Each buffer is preceded by its size.
    Sized,
}

/// A buffer with its framing.
#[derive(Clone, Copy, Debug)]
struct Framed {
    header: Header,
    /// Offset of the buffer.
    at: u64,
    /// Offset of the next frame.
    end: u64,
}

impl Chunks for BufferChunks {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        Ok(self.span(offset)?.and_then(|(_, span)| span.chunk(offset)))
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let found = self.span(chunk.offset)?.filter(|(_, span)| span.chunk(chunk.offset) == Some(chunk));
        let Some((framing, span)) = found else {
            return Err(Error::new(Kind::Changed, "the Blosc data have changed"));
        };
        Scratch::lend(|scratch| match span.header {
            Some(header) => {
                let at = span.start.stored + framing.prefix();
                let piece = u32::try_from(chunk.index - span.start.chunks).unwrap_or(u32::MAX);
                Buffer::new(&*self.stored, at, header).decode_piece(piece, scratch, out)
            }
            None => {
                let mut at = span.start.stored;
                let mut window = ScratchWindow::default();
                while at < span.end.stored {
                    let frame = self.frame(framing, at, &mut window)?;
                    Buffer::new(&*self.stored, frame.at, frame.header).decode(scratch, out)?;
                    at = frame.end;
                }
                Ok(())
            }
        })?;
        if out.len() as u64 == chunk.len {
            Ok(())
        } else {
            out.clear();
            Err(Error::new(Kind::Changed, "the Blosc data changed while they were read"))
        }
    }
}

impl BufferChunks {
    /// Returns the span that holds decoded byte `offset`; `None` past the end.
    fn span(&self, offset: u64) -> Result<Option<(Framing, Span)>> {
        if self.stored.is_empty() {
            return Ok(None);
        }
        // A thread that panicked has left a valid state: the one before or after a step.
        let mut state = locked(&self.state);
        let framing = match state.framing {
            Some(framing) => framing,
            None => *state.framing.insert(self.framing()?),
        };
        let mut window = ScratchWindow::default();
        let span = state.table.find(offset, |mark| self.span_at(framing, mark, &mut window))?;
        Ok(span.map(|span| (framing, span)))
    }

    /// Detects the framing from the first bytes.
    fn framing(&self) -> Result<Framing> {
        let mut start = Vec::new();
        scratch::fill(&mut start, &*self.stored, 0, 20)?;
        let little = |at: usize| {
            start.get(at..).and_then(|rest| rest.first_chunk()).map(|&word| u32::from_le_bytes(word))
        };
        let big = start.first_chunk().map(|&word| u32::from_be_bytes(word));
        let bare = start.first() == Some(&2);
        let sized = start.get(4) == Some(&2);
        if bare && little(12).map(u64::from) == Some(self.stored.len()) {
            return Ok(Framing::Bare);
        }
        if sized && big == little(16) {
            return Ok(Framing::Sized);
        }
        // Neither framing matches: the data are cut off, padded, or broken. The remaining data may still be
        // readable.
        if bare && (!sized || little(4).map(u64::from) == Some(self.data_size)) {
            return Ok(Framing::Bare);
        }
        if sized {
            return Ok(Framing::Sized);
        }
        let error = Error::damaged("the data are neither a Blosc buffer nor a sequence of Blosc buffers");
        Err(placed(error, &*self.stored, 0))
    }

    /// Returns the span that begins at `start`; `None` at the end.
    fn span_at(
        &self,
        framing: Framing,
        start: SpanStart,
        window: &mut ScratchWindow,
    ) -> Result<Option<Span>> {
        let Some(frame) = self.next(framing, start.stored, window)? else { return Ok(None) };
        let whole = |len: u64, stored, piece: u64, header| {
            let decoded = start.decoded.checked_add(len).ok_or_else(|| Error::damaged("a size overflows"))?;
            let end = SpanStart { stored, decoded, chunks: start.chunks + len.div_ceil(piece) };
            Ok(Some(Span { start, end, piece, header }))
        };
        let mut len = u64::from(frame.header.nbytes());
        if framing == Framing::Bare || len >= MIN_PIECE.into() {
            return whole(len, frame.end, buffer::piece_len(&frame.header).into(), Some(frame.header));
        }
        let mut end = frame.end;
        while len < MIN_PIECE.into() && end - start.stored < MAX_RUN {
            match self.next(framing, end, window) {
                Ok(Some(next)) if next.header.nbytes() < MIN_PIECE => {
                    len += u64::from(next.header.nbytes());
                    end = next.end;
                }
                // A large buffer makes a span of its own.
                Ok(_) => break,
                // The next call reports the error.
                Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Unsupported) => break,
                Err(error) => return Err(error),
            }
        }
        whole(len, end, len.max(1), None)
    }

    /// Returns the frame at `at`; `None` after the last one.
    fn next(&self, framing: Framing, at: u64, window: &mut ScratchWindow) -> Result<Option<Framed>> {
        if at == self.stored.len() || (framing == Framing::Bare && at > 0) {
            return Ok(None);
        }
        self.frame(framing, at, window).map(Some)
    }

    /// Reads the header of the frame at `at`; the rest of the frame may be missing.
    fn frame(&self, framing: Framing, at: u64, window: &mut ScratchWindow) -> Result<Framed> {
        let prefix = framing.prefix();
        let overflow = || Error::damaged("an offset overflows");
        let buffer = at.checked_add(prefix).ok_or_else(overflow)?;
        if framing == Framing::Bare {
            let bytes = window.array(&*self.stored, buffer, 0)?;
            let header = Header::parse(&bytes).map_err(|error| placed(error, &*self.stored, at))?;
            return Ok(Framed { header, at: buffer, end: self.stored.len() });
        }
        // Small frames are read many at a time; between large ones only a header is read.
        let ahead = if window.is_before(at, CLOSE) { CLOSE } else { 0 };
        let [s0, s1, s2, s3, header @ ..]: [u8; 20] = window.array(&*self.stored, at, ahead)?;
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        let header = Header::parse(&header).and_then(|header| match header.cbytes() {
            cbytes if cbytes == size => Ok(header),
            cbytes => Err(Error::damaged(format!(
                "a Blosc buffer has {cbytes} bytes, but the size before it says {size}"
            ))),
        });
        let header = header.map_err(|error| placed(error, &*self.stored, at))?;
        let end = buffer.checked_add(size.into()).ok_or_else(overflow)?;
        Ok(Framed { header, at: buffer, end })
    }
}

impl Framing {
    /// Returns the number of bytes before a buffer.
    fn prefix(self) -> u64 {
        match self {
            Self::Bare => 0,
            Self::Sized => 4,
        }
    }
}
