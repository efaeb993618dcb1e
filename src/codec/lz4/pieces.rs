//! ASDF's own LZ4 framing.
//!
//! ```text
//! repeated: [ n: u32 BE ][ n bytes: [ size: u32 LE ][ LZ4 block of n - 4 bytes ] ]
//! ```
//!
//! Where the pieces lie is found by hopping from header to header, as far as was asked for. Python
//! writes pieces of 4 MiB; smaller ones are taken together into chunks of 64 KiB or more, so that
//! the table stays small whatever the file holds.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::input::Input;
use super::super::{Chunk, Chunks};
use super::block::{self, Block};
use crate::content::{Content, Decoder};
use crate::error::{Error, Kind, Result};

/// A header: `n` and `size`.
const HEADER: u64 = 8;

/// Bytes read to get at a header, and at those of small pieces behind it.
const HOP: usize = 4 << 10;

/// Bounds of the decoded length that is gathered into a chunk.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 1 << 20;

/// Chunks that a block is cut into at most, while they are shorter than [`MOST`].
const CHUNKS: u64 = 1 << 16;

/// Compressed pieces up to this length are decoded from where they were read to.
const AT_HAND: usize = 32 << 10;

/// LZ4 pieces in ASDF's framing.
pub(in crate::codec) struct Pieces {
    stored: Arc<dyn Content>,
    /// Decoded bytes that a chunk has at least, unless it is the last.
    least: u64,
    table: Mutex<Table>,
    /// A buffer for a compressed piece, to be used again.
    spare: Mutex<Vec<u8>>,
}

/// A place that is known in both: in the decoded bytes and in the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: u64,
    stored: u64,
}

struct Table {
    /// Where each chunk begins.
    chunks: Vec<Place>,
    /// Where the one after them does.
    next: Place,
    /// Whether that is the end, and in order.
    end: Option<Result<()>>,
    headers: Input,
    /// Where `headers` stands.
    at: u64,
}

/// What a header says.
#[derive(Clone, Copy)]
struct Piece {
    /// Bytes of the LZ4 block.
    stored: u64,
    /// Bytes that it decodes to.
    size: u64,
}

impl Pieces {
    /// The pieces in `stored`, of `data_size` bytes together.
    pub(in crate::codec) fn new(stored: Arc<dyn Content>, data_size: u64) -> Self {
        let table = Table {
            chunks: Vec::new(),
            next: Place { offset: 0, stored: 0 },
            end: None,
            headers: Input::range(&stored, 0, u64::MAX).in_reads_of(HOP),
            at: 0,
        };
        let least = (data_size / CHUNKS).clamp(LEAST, MOST);
        Self { stored, least, table: Mutex::new(table), spare: Mutex::default() }
    }

    /// Hops over the pieces of one more chunk.
    fn hop(&self, table: &mut Table) -> Result<()> {
        let start = table.next;
        let mut here = start;
        while here.offset - start.offset < self.least {
            table.headers.skip(here.stored - table.at);
            table.at = here.stored;
            match header(&mut table.headers) {
                Ok(Some(piece)) if here.offset > start.offset && piece.size > MOST => break,
                Ok(Some(piece)) => {
                    let stored = here.stored.saturating_add(HEADER).saturating_add(piece.stored);
                    here = Place { offset: here.offset.saturating_add(piece.size), stored };
                    table.headers.skip(HEADER.saturating_add(piece.stored));
                    table.at = stored;
                }
                Ok(None) => {
                    table.end = Some(Ok(()));
                    break;
                }
                Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Unsupported) => {
                    table.end = Some(Err(error));
                    break;
                }
                Err(error) => {
                    // Tried again at the next call, from the start of the chunk.
                    table.headers = Input::range(&self.stored, start.stored, u64::MAX).in_reads_of(HOP);
                    table.at = start.stored;
                    return Err(error);
                }
            }
        }
        if here.offset > start.offset {
            table.chunks.push(start);
        }
        table.next = here;
        Ok(())
    }

    /// The stored bytes from where a chunk begins.
    fn input(&self, chunk: Chunk) -> Result<Input> {
        let table = self.table();
        let index = usize::try_from(chunk.index).unwrap_or(usize::MAX);
        match table.chunks.get(index) {
            Some(place) if place.offset == chunk.offset => {
                let end = table.chunks.get(index + 1).unwrap_or(&table.next).stored;
                Ok(Input::range(&self.stored, place.stored, end))
            }
            _ => Err(Error::damaged("there is no such piece")),
        }
    }

    /// Decodes the piece that `input` stands at, behind its header.
    fn decode_piece(&self, input: &mut Input, piece: Piece, out: &mut Vec<u8>) -> Result<()> {
        let len = usize::try_from(piece.stored).map_err(|_| block::impossible(piece.stored, piece.size))?;
        let begin = input.position();
        let done = if len <= AT_HAND {
            let there = input.at_least(len)?;
            let done = there.get(..len).is_some_and(|bytes| decode_whole(bytes, piece.size, out));
            input.take(len);
            done
        } else {
            let mut bytes = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
            bytes.clear();
            let gathered = input.gather(len, &mut bytes);
            let done = gathered.is_ok() && decode_whole(&bytes, piece.size, out);
            *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
            done
        };
        if done {
            return Ok(());
        }
        // Slower, but it gives what comes before the damage, and the reason.
        block::decode(Input::range(&self.stored, begin, begin.saturating_add(piece.stored)), piece.size, out)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the header that `input` stands at, which stays at hand; `None` at the end.
fn header(input: &mut Input) -> Result<Option<Piece>> {
    let &[a, b, c, d, e, f, g, h, ..] = input.at_least(HEADER as usize)? else {
        return if input.is_exactly_at_end() { Ok(None) } else { Err(input.cut_off()) };
    };
    let n = u64::from(u32::from_be_bytes([a, b, c, d]));
    let size = u64::from(u32::from_le_bytes([e, f, g, h]));
    let Some(stored) = n.checked_sub(4) else {
        return Err(input.damaged(format!("a piece of {n} bytes has no room for its size")));
    };
    if !block::is_possible(stored, size) {
        return Err(input.place(block::impossible(stored, size)));
    }
    Ok(Some(Piece { stored, size }))
}

/// Decodes a block to the end of `out`; leaves it as it was if that is not exactly `size` bytes.
fn decode_whole(bytes: &[u8], size: u64, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    out.resize(before + size as usize, 0);
    let done =
        lz4_flex::block::decompress_into(bytes, &mut out[before..]).is_ok_and(|got| got as u64 == size);
    if !done {
        out.truncate(before);
    }
    done
}

impl Chunks for Pieces {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        let mut table = self.table();
        while table.next.offset <= offset && table.end.is_none() {
            self.hop(&mut table)?;
        }
        if table.next.offset <= offset {
            return table.end.clone().unwrap_or(Ok(())).map(|()| None);
        }
        let after = table.chunks.partition_point(|place| place.offset <= offset);
        let Some(start) = after.checked_sub(1).and_then(|index| table.chunks.get(index)) else {
            return Ok(None);
        };
        let end = table.chunks.get(after).map_or(table.next.offset, |place| place.offset);
        Ok(Some(Chunk { index: after as u64 - 1, offset: start.offset, len: end - start.offset }))
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        let mut input = self.input(chunk)?;
        let len = usize::try_from(chunk.len).map_err(|_| Error::damaged("a piece is too long"))?;
        out.reserve_exact(len);
        while out.len() < len {
            let piece = header(&mut input)?.ok_or_else(|| input.cut_off())?;
            if piece.size > (len - out.len()) as u64 {
                return Err(input.damaged("the pieces changed while they were read"));
            }
            input.take(HEADER as usize);
            self.decode_piece(&mut input, piece, out)?;
        }
        Ok(())
    }

    fn start(&self, chunk: Chunk) -> Result<Box<dyn Decoder>> {
        let mut input = self.input(chunk)?;
        loop {
            let piece = header(&mut input)?.ok_or_else(|| input.cut_off())?;
            input.take(HEADER as usize);
            // A long piece is a chunk by itself, save for empty ones before it.
            if piece.size > 0 {
                let begin = input.position();
                let block = Input::range(&self.stored, begin, begin.saturating_add(piece.stored));
                return Ok(Box::new(Block::new(block, piece.size)));
            }
            input.skip(piece.stored);
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        out.debug_struct("Pieces")
            .field("stored", &self.stored.len())
            .field("chunks", &table.chunks.len())
            .field("next", &table.next)
            .finish_non_exhaustive()
    }
}
