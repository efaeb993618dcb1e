//! ASDF's own LZ4 framing.
//!
//! ```text
//! repeated: [ n: u32 BE ][ n bytes: [ size: u32 LE ][ LZ4 block of n - 4 bytes ] ]
//! ```
//!
//! The positions of the pieces are found by skipping from header to header, only as far as needed. Python
//! writes pieces of 4 MiB. Smaller ones are joined into chunks of 64 KiB or more, so that the table stays
//! small for any file.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::input::Input;
use super::super::part::{ExternalPart, Take};
use super::block::{self, Block};
use super::whole;
use crate::content::Content;
use crate::decode::Decoder;
use crate::decode::{Chunk, Chunks};
use crate::error::{Error, Kind, Result};

/// Size of a header: `n` and `size`.
const HEADER: u64 = 8;

/// Bytes read at a time to get headers: the headers of small pieces are read together.
const HEADER_READ: usize = 4 << 10;

/// Bounds for the decoded length of joined pieces.
const MIN_PIECE: u64 = 64 << 10;
const MAX_PIECE: u64 = 1 << 20;

/// Maximum number of chunks of a stream, while they are shorter than [`MAX_PIECE`].
const CHUNKS: u64 = 1 << 16;

/// Maximum number of buffers for compressed pieces that are kept for reuse.
const SPARES: usize = 4;

/// Memory for decoding a piece as a stream, in bytes.
const STREAM: u64 = 1 << 20;

/// Maximum number of headers that are requested from a server at a time.
const AHEAD: u64 = 16;

/// Stored length of pieces from which their headers are requested from a server one by one.
const APART: u64 = 256 << 10;

/// Maximum distance of a header from the place where pieces of equal length would have it.
const SLACK: u64 = 32 << 10;

/// Compressed pieces up to this length are decoded directly from the read buffer.
const AT_HAND: usize = 32 << 10;

/// LZ4 pieces in ASDF's framing.
pub(in crate::codec) struct Lz4Pieces {
    stored: Arc<dyn Content>,
    /// Minimum of decoded bytes in a chunk other than the last.
    least: u64,
    table: Mutex<PieceTable>,
    /// Reusable buffers for compressed pieces.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// A position both in the decoded and in the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceStart {
    offset: u64,
    stored: u64,
}

struct PieceTable {
    /// The start of each chunk.
    chunks: Vec<PieceStart>,
    /// The end of the last known chunk, where the next one begins.
    next: PieceStart,
    /// Set if `next` is the end of the stream: `Ok`, or the error there.
    end: Option<Result<()>>,
    headers: Input,
    /// Offset of `headers` in the stored bytes.
    at: u64,
    /// Offset in the stored bytes up to which headers were requested ahead.
    ahead: u64,
}

/// The header of a piece.
#[derive(Clone, Copy)]
struct Piece {
    /// Size of the LZ4 block in bytes.
    stored: u64,
    /// Decoded size in bytes.
    size: u64,
}

impl Lz4Pieces {
    /// Returns the pieces in `stored`, which together decode to `data_size` bytes.
    pub(in crate::codec) fn new(stored: Arc<dyn Content>, data_size: u64) -> Self {
        let table = PieceTable {
            chunks: Vec::new(),
            next: PieceStart { offset: 0, stored: 0 },
            end: None,
            headers: Input::range(&stored, 0, u64::MAX).in_reads_of(HEADER_READ),
            at: 0,
            ahead: 0,
        };
        let least = (data_size / CHUNKS).clamp(MIN_PIECE, MAX_PIECE);
        Self { stored, least, table: Mutex::new(table), spare: Mutex::default() }
    }

    /// Requests the headers of the next pieces up to the one at `wanted` from a server, as if they were as long as the
    /// last ones. A wrong guess costs a request; only headers at the end of the piece before are used.
    fn request_ahead(&self, table: &mut PieceTable, wanted: u64) {
        let Some((source, offset)) = self.stored.stored() else { return };
        if !source.is_slow() {
            return;
        }
        let [.., before, last] = table.chunks[..] else { return };
        let next = table.next;
        let step = next.stored - last.stored;
        let decoded = (next.offset - last.offset).max(1);
        let slack = step.abs_diff(last.stored - before.stored).saturating_mul(2);
        if step < APART || slack > SLACK {
            return;
        }
        let hops = (wanted.saturating_sub(next.offset) / decoded + 1).min(AHEAD);
        for at in (0..hops).map(|hop| next.stored.saturating_add(hop * step)) {
            if at > table.ahead.saturating_add(step / 2) && at < self.stored.len() {
                let from = at - slack.min(at);
                source.will_need(offset.saturating_add(from), (at - from) + slack + HEADER);
                table.ahead = at;
            }
        }
    }

    /// Finds one more chunk: skips its pieces, header by header.
    fn find_chunk(&self, table: &mut PieceTable) -> Result<()> {
        let start = table.next;
        let mut here = start;
        while here.offset - start.offset < self.least {
            table.headers.skip(here.stored - table.at);
            table.at = here.stored;
            match header(&mut table.headers) {
                Ok(Some(piece)) if here.offset > start.offset && piece.size > MAX_PIECE => break,
                Ok(Some(piece)) => {
                    let stored = here.stored.saturating_add(HEADER).saturating_add(piece.stored);
                    here = PieceStart { offset: here.offset.saturating_add(piece.size), stored };
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
                    // The next call tries again, from the start of the chunk.
                    table.headers =
                        Input::range(&self.stored, start.stored, u64::MAX).in_reads_of(HEADER_READ);
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

    /// Returns the stored bytes of a chunk.
    fn input(&self, chunk: Chunk) -> Result<Input> {
        let table = self.table();
        let index = usize::try_from(chunk.index).unwrap_or(usize::MAX);
        match table.chunks.get(index) {
            Some(start) if start.offset == chunk.offset => {
                let end = table.chunks.get(index + 1).unwrap_or(&table.next).stored;
                Ok(Input::range(&self.stored, start.stored, end))
            }
            _ => Err(Error::damaged("there is no such piece")),
        }
    }

    /// Decodes the next piece of `input`, whose header has been taken, into `out` at byte `at`; `out` has
    /// room for it. After an error `out` ends with the bytes before the damage.
    fn decode_piece(&self, input: &mut Input, piece: Piece, out: &mut Vec<u8>, at: usize) -> Result<()> {
        let impossible = || block::impossible(piece.stored, piece.size);
        let len = usize::try_from(piece.stored).map_err(|_| impossible())?;
        let size = usize::try_from(piece.size).map_err(|_| impossible())?;
        let begin = input.position();
        let room = at.checked_add(size).and_then(|end| out.get_mut(at..end)).ok_or_else(impossible)?;
        let done = if len <= AT_HAND {
            let ready = match input.at_least(len) {
                Ok(ready) => ready,
                Err(error) => {
                    // The room that was made for the piece holds no data.
                    out.truncate(at);
                    return Err(error);
                }
            };
            let done = ready.get(..len).is_some_and(|bytes| decode_whole(bytes, room));
            input.take(len);
            done
        } else {
            let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = spare().pop().unwrap_or_default();
            let done = input.gather(len, &mut bytes).is_ok_and(|bytes| decode_whole(bytes, room));
            let mut spare = spare();
            if spare.len() < SPARES {
                spare.push(bytes);
            }
            done
        };
        if done {
            return Ok(());
        }
        // The incremental decoder is slower, but it gives the bytes before the damage, and the reason.
        out.truncate(at);
        block::decode(Input::range(&self.stored, begin, begin.saturating_add(piece.stored)), piece.size, out)
    }

    fn table(&self) -> MutexGuard<'_, PieceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes each piece to `take` as a part. The part begins with the decoded size, the four bytes before the
/// LZ4 block.
pub(in crate::codec) fn each_piece(stored: &Arc<dyn Content>, take: Take<'_>) -> Result<()> {
    let mut input = Input::range(stored, 0, u64::MAX).in_reads_of(HEADER_READ);
    while let Some(piece) = header(&mut input)? {
        let offset = input.position().saturating_add(4);
        take(ExternalPart { offset, stored: piece.stored.saturating_add(4), len: piece.size })?;
        input.skip(HEADER.saturating_add(piece.stored));
    }
    Ok(())
}

/// Reads the header at `input` without taking it; `None` at the end.
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

/// Decodes a block into `room`; true if it fills the room.
fn decode_whole(bytes: &[u8], room: &mut [u8]) -> bool {
    whole::decode(bytes, room, 0) == Some(room.len())
}

impl Chunks for Lz4Pieces {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        let mut table = self.table();
        while table.next.offset <= offset && table.end.is_none() {
            self.request_ahead(&mut table, offset);
            self.find_chunk(&mut table)?;
        }
        if table.next.offset <= offset {
            return table.end.clone().unwrap_or(Ok(())).map(|()| None);
        }
        let after = table.chunks.partition_point(|start| start.offset <= offset);
        let Some(start) = after.checked_sub(1).and_then(|index| table.chunks.get(index)) else {
            return Ok(None);
        };
        let end = table.chunks.get(after).map_or(table.next.offset, |start| start.offset);
        Ok(Some(Chunk { index: after as u64 - 1, offset: start.offset, len: end - start.offset }))
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        let found = usize::try_from(chunk.len).map_err(|_| Error::damaged("a piece is too long"));
        let (len, mut input) = match found.and_then(|len| Ok((len, self.input(chunk)?))) {
            Ok(found) => found,
            Err(error) => {
                out.clear();
                return Err(error);
            }
        };
        out.resize(len, 0);
        let mut at = 0;
        while at < len {
            let piece = match header(&mut input).and_then(|piece| piece.ok_or_else(|| input.cut_off())) {
                Ok(piece) if piece.size <= (len - at) as u64 => piece,
                other => {
                    out.truncate(at);
                    let changed = |_| input.damaged("the pieces changed while they were read");
                    return Err(other.map_or_else(|error| error, changed));
                }
            };
            input.take(HEADER as usize);
            self.decode_piece(&mut input, piece, out, at)?;
            at += piece.size as usize;
        }
        Ok(())
    }

    fn start(&self, chunk: Chunk) -> Result<Box<dyn Decoder>> {
        let mut input = self.input(chunk)?;
        loop {
            let piece = header(&mut input)?.ok_or_else(|| input.cut_off())?;
            input.take(HEADER as usize);
            // A long piece is a chunk of its own, together with any empty pieces before it.
            if piece.size > 0 {
                let begin = input.position();
                let block = Input::range(&self.stored, begin, begin.saturating_add(piece.stored));
                return Ok(Box::new(Block::new(block, piece.size)));
            }
            input.skip(piece.stored);
        }
    }

    fn weight(&self, _: Chunk) -> u64 {
        STREAM
    }
}

impl fmt::Debug for Lz4Pieces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        out.debug_struct("Lz4Pieces")
            .field("stored", &self.stored.len())
            .field("chunks", &table.chunks.len())
            .field("next", &table.next)
            .finish_non_exhaustive()
    }
}
