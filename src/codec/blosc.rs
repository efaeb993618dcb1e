//! Blosc 1: blocks of elements, shuffled and compressed, that can be decoded one by one.
//!
//! ASDF stores Blosc in two framings under one label:
//!
//! ```text
//! asdf-compression, asdf-cxx   one buffer
//! abacusutils                  [u32 size, big-endian][buffer of that size] and again, to the end
//! ```
//!
//! They are told apart by the buffer's own size, which stands at byte 12 of its header: it is the size of
//! all that is stored, or the number that stands before the header.
//!
//! A chunk is a block of a buffer, or several blocks that are small, or several buffers that are; data
//! that are stored as they are (memcpyed) are cut. What a buffer looks like is told in [`buffer`], its
//! header in [`header`]. The decoder is our own and safe, because the C library writes past its output
//! when a stream is made for it to (c-blosc issue 405).
//!
//! Blosc 2 (`bls2`, `bsc2`) is another format and is not read.

mod blosclz;
pub mod buffer;
pub mod header;
mod inner;
mod payload;
mod scratch;
mod shuffle;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

pub use buffer::{Buffer, MAX_BLOCK, Memory};
pub use header::{HEADER_SIZE, Header, Inner, Shuffle};
pub use payload::{Buffers, Payload, RUN_BUFFERS, RUN_BYTES, Run};
pub use scratch::Scratch;

use crate::content::Content;
use crate::decode::{Chunk, Chunks};
use crate::error::{Error, Kind, Result};
use buffer::MIN_PIECE;
use scratch::{Window, placed};
use table::{Span, SpanStart, Table};

/// How far is read ahead between headers that stand close together.
const CLOSE: u64 = 64 << 10;
/// A run of small buffers ends after this many stored bytes: they might all be empty.
const MAX_RUN: u64 = 1 << 20;

/// The chunks of `stored`, which ASDF calls `blsc`; nothing is read before the first chunk is looked for.
///
/// `data_size` only helps to tell the framings apart where neither fits what is stored.
pub fn open(stored: Arc<dyn Content>, data_size: u64) -> impl Chunks + 'static {
    Row { stored, data_size, state: Mutex::default() }
}

/// One buffer, or a row of them.
#[derive(Debug)]
struct Row {
    stored: Arc<dyn Content>,
    data_size: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    framing: Option<Framing>,
    table: Table,
}

/// What stands around a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Nothing: there is one, and whatever follows it is no part of it.
    Bare,
    /// Its size stands before it, and another may follow.
    Sized,
}

/// A buffer with its framing.
#[derive(Clone, Copy, Debug)]
struct Frame {
    header: Header,
    /// Where the buffer begins.
    at: u64,
    /// Where the next frame begins.
    end: u64,
}

impl Chunks for Row {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        Ok(self.span(offset)?.and_then(|(_, span)| span.chunk(offset)))
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let found = self.span(chunk.offset)?.filter(|(_, span)| span.chunk(chunk.offset) == Some(chunk));
        let Some((framing, span)) = found else {
            return Err(Error::new(Kind::Changed, "the Blosc data are no longer what they were"));
        };
        Scratch::lend(|scratch| match span.header {
            Some(header) => {
                let at = span.start.stored + framing.prefix();
                let piece = u32::try_from(chunk.index - span.start.chunks).unwrap_or(u32::MAX);
                Buffer::new(&*self.stored, at, header).decode_piece(piece, scratch, out)
            }
            None => {
                let mut at = span.start.stored;
                let mut window = Window::default();
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

impl Row {
    /// The span that holds decoded byte `offset`; `None` past the end.
    fn span(&self, offset: u64) -> Result<Option<(Framing, Span)>> {
        if self.stored.is_empty() {
            return Ok(None);
        }
        // A panic elsewhere leaves the state as it was before or after a step: both are right.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let framing = match state.framing {
            Some(framing) => framing,
            None => *state.framing.insert(self.framing()?),
        };
        let mut window = Window::default();
        let span = state.table.find(offset, |mark| self.hop(framing, mark, &mut window))?;
        Ok(span.map(|span| (framing, span)))
    }

    /// Tells the framings apart by the first bytes.
    fn framing(&self) -> Result<Framing> {
        let mut start = Vec::new();
        scratch::fill(&mut start, &*self.stored, 0, 20)?;
        let little = |at: usize| {
            start.get(at..).and_then(|rest| rest.first_chunk()).map(|&word| u32::from_le_bytes(word))
        };
        let big = start.first_chunk().map(|&word| u32::from_be_bytes(word));
        let (bare, sized) = (start.first() == Some(&2), start.get(4) == Some(&2));
        if bare && little(12).map(u64::from) == Some(self.stored.len()) {
            return Ok(Framing::Bare);
        }
        if sized && big == little(16) {
            return Ok(Framing::Sized);
        }
        // Neither fits: the data are cut off, padded, or broken. What is there may still be read.
        if bare && (!sized || little(4).map(u64::from) == Some(self.data_size)) {
            return Ok(Framing::Bare);
        }
        if sized {
            return Ok(Framing::Sized);
        }
        let error = Error::damaged("the data are neither a Blosc buffer nor a row of Blosc buffers");
        Err(placed(error, &*self.stored, 0))
    }

    /// The span that begins at a mark.
    fn hop(&self, framing: Framing, start: SpanStart, window: &mut Window) -> Result<Option<Span>> {
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
                Ok(Some(frame)) if frame.header.nbytes() < MIN_PIECE => {
                    len += u64::from(frame.header.nbytes());
                    end = frame.end;
                }
                // It stands on its own.
                Ok(_) => break,
                // The next hop meets it again.
                Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Unsupported) => break,
                Err(error) => return Err(error),
            }
        }
        whole(len, end, len.max(1), None)
    }

    /// The frame at `at`, if one is due there.
    fn next(&self, framing: Framing, at: u64, window: &mut Window) -> Result<Option<Frame>> {
        if at == self.stored.len() || (framing == Framing::Bare && at > 0) {
            return Ok(None);
        }
        self.frame(framing, at, window).map(Some)
    }

    /// The frame at `at`, which need not be there whole.
    fn frame(&self, framing: Framing, at: u64, window: &mut Window) -> Result<Frame> {
        let prefix = framing.prefix();
        let overflow = || Error::damaged("an offset overflows");
        let buffer = at.checked_add(prefix).ok_or_else(overflow)?;
        if framing == Framing::Bare {
            let bytes = window.array(&*self.stored, buffer, 0)?;
            let header = Header::parse(&bytes).map_err(|error| placed(error, &*self.stored, at))?;
            return Ok(Frame { header, at: buffer, end: self.stored.len() });
        }
        // Small frames are met many at a time; between large ones only a header is read.
        let ahead = if window.is_before(at, CLOSE) { CLOSE } else { 0 };
        let [s0, s1, s2, s3, header @ ..]: [u8; 20] = window.array(&*self.stored, at, ahead)?;
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        let header = Header::parse(&header).and_then(|header| match header.cbytes() {
            cbytes if cbytes == size => Ok(header),
            cbytes => Err(Error::damaged(format!(
                "a Blosc buffer of {cbytes} bytes stands where one of {size} is announced"
            ))),
        });
        let header = header.map_err(|error| placed(error, &*self.stored, at))?;
        let end = buffer.checked_add(size.into()).ok_or_else(overflow)?;
        Ok(Frame { header, at: buffer, end })
    }
}

impl Framing {
    /// Bytes before a buffer.
    fn prefix(self) -> u64 {
        match self {
            Self::Bare => 0,
            Self::Sized => 4,
        }
    }
}
