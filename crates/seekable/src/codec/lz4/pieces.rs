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
use std::sync::{Arc, Mutex};

use super::super::input::Input;
use super::super::part::{ExternalPart, Take};
use super::block::{self, Block};
use super::scout::{HEADER, PieceStart, Scout, StoredPiece, StreamSizes};
use super::whole;
use crate::content::{Content, on_server};
use crate::decode::{Chunk, Chunks, Decoder};
use crate::error::{Error, Kind, Result};
use crate::sync::{MutexGuard, locked};

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

/// Number of chunks after which the table is kept again.
const KEPT_EVERY: usize = 8;

/// Compressed pieces up to this length are decoded directly from the read buffer.
const AT_HAND: usize = 32 << 10;

/// LZ4 pieces in ASDF's framing.
pub(in crate::codec) struct Lz4Pieces {
    stored: Arc<dyn Content>,
    /// Minimum of decoded bytes in a chunk other than the last.
    least: u64,
    data_size: u64,
    table: Mutex<PieceTable>,
    /// Reusable buffers for compressed pieces.
    spare: Mutex<Vec<Vec<u8>>>,
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
    /// The headers that were requested from a server.
    scout: Scout,
    /// Number of chunks when the table was kept last; `None` before it was looked for.
    kept: Option<usize>,
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
            scout: Scout::default(),
            kept: None,
        };
        let least = (data_size / CHUNKS).clamp(MIN_PIECE, MAX_PIECE);
        Self { stored, least, data_size, table: Mutex::new(table), spare: Mutex::default() }
    }

    /// Reads the header at `here`; `None` at the end. From a server, headers up to that of the piece at decoded offset
    /// `wanted` are requested with it.
    fn header_at(
        &self,
        table: &mut PieceTable,
        here: PieceStart,
        wanted: u64,
    ) -> Result<Option<StoredPiece>> {
        let end = self.stored.len();
        if let Some((source, offset)) = on_server(&*self.stored)
            && here.stored.saturating_add(HEADER) <= end
        {
            let mut bytes = table.scout.header(here.stored);
            if bytes.is_none() {
                let sizes = StreamSizes { stored: end, decoded: self.data_size };
                let windows = table.scout.plan(here, wanted, sizes);
                let place = |at: u64| offset.saturating_add(at);
                let ranges: Vec<_> =
                    windows.iter().map(|window| place(window.range.start)..place(window.range.end)).collect();
                if !ranges.is_empty() {
                    let read = source.read_ranges(&ranges)?;
                    table.scout.add(windows, read);
                    bytes = table.scout.header(here.stored);
                }
            }
            if let Some(bytes) = bytes {
                return parse(bytes, &Input::range(&self.stored, here.stored, end)).map(Some);
            }
        }
        table.headers.skip(here.stored - table.at);
        table.at = here.stored;
        header(&mut table.headers)
    }

    /// Takes over the table that an earlier mount kept, at the first call.
    fn take_kept(&self, table: &mut PieceTable) {
        if table.kept.is_some() {
            return;
        }
        table.kept = Some(0);
        let Some((source, offset)) = on_server(&*self.stored) else { return };
        let Some(bytes) = source.kept(&table_name(offset, self.stored.len())) else { return };
        let Some(starts) = starts(&bytes, self.least, self.stored.len()) else { return };
        if let Some((next, chunks)) = starts.split_last() {
            table.kept = Some(chunks.len());
            table.chunks = chunks.to_vec();
            table.next = *next;
        }
    }

    /// Keeps the table for later mounts if it has grown.
    fn keep(&self, table: &mut PieceTable) {
        let Some((source, offset)) = on_server(&*self.stored) else { return };
        let len = table.chunks.len();
        let grown = len - table.kept.unwrap_or(0).min(len);
        if grown == 0 || grown < KEPT_EVERY && table.end.is_none() {
            return;
        }
        table.kept = Some(len);
        let mut bytes = self.least.to_le_bytes().to_vec();
        for start in table.chunks.iter().chain([&table.next]) {
            bytes.extend_from_slice(&start.offset.to_le_bytes());
            bytes.extend_from_slice(&start.stored.to_le_bytes());
        }
        source.keep(&table_name(offset, self.stored.len()), &bytes);
    }

    /// Finds one more chunk: skips its pieces, header by header.
    fn find_chunk(&self, table: &mut PieceTable, wanted: u64) -> Result<()> {
        let start = table.next;
        let mut here = start;
        while here.offset - start.offset < self.least {
            match self.header_at(table, here, wanted) {
                Ok(Some(piece)) if here.offset > start.offset && piece.size > MAX_PIECE => break,
                Ok(Some(piece)) => {
                    table.scout.note(piece);
                    let stored = here.stored.saturating_add(HEADER).saturating_add(piece.stored);
                    here = PieceStart { offset: here.offset.saturating_add(piece.size), stored };
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
    fn decode_piece(
        &self,
        input: &mut Input,
        piece: StoredPiece,
        out: &mut Vec<u8>,
        at: usize,
    ) -> Result<()> {
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
            let spare = || locked(&self.spare);
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
        locked(&self.table)
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
fn header(input: &mut Input) -> Result<Option<StoredPiece>> {
    match input.at_least(HEADER as usize)?.first_chunk().copied() {
        Some(bytes) => parse(bytes, input).map(Some),
        None if input.is_exactly_at_end() => Ok(None),
        None => Err(input.cut_off()),
    }
}

/// Parses the header at `input`.
fn parse([a, b, c, d, e, f, g, h]: [u8; HEADER as usize], input: &Input) -> Result<StoredPiece> {
    let n = u64::from(u32::from_be_bytes([a, b, c, d]));
    let size = u64::from(u32::from_le_bytes([e, f, g, h]));
    let Some(stored) = n.checked_sub(4) else {
        return Err(input.damaged(format!("a piece of {n} bytes has no room for its size")));
    };
    if !block::is_possible(stored, size) {
        return Err(input.place(block::impossible(stored, size)));
    }
    Ok(StoredPiece { stored, size })
}

/// Returns the name under which the table of a stream is kept.
fn table_name(offset: u64, len: u64) -> String {
    format!("lz4 pieces {offset} {len}")
}

/// Parses a kept table: the starts of the chunks, and the end of the last one.
fn starts(bytes: &[u8], least: u64, stored: u64) -> Option<Vec<PieceStart>> {
    let number = |field: &[u8]| field.first_chunk().map(|eight| u64::from_le_bytes(*eight));
    let (first, rest) = bytes.split_at_checked(8)?;
    if number(first)? != least {
        return None;
    }
    let mut starts = Vec::new();
    for entry in rest.chunks_exact(16) {
        starts.push(PieceStart { offset: number(entry)?, stored: number(entry.get(8..)?)? });
    }
    let begins = *starts.first()? == PieceStart { offset: 0, stored: 0 };
    let ascends = starts.is_sorted_by(|a, b| a.offset < b.offset && a.stored < b.stored);
    (begins && ascends && starts.last()?.stored <= stored).then_some(starts)
}

/// Decodes a block into `room`; true if it fills the room.
fn decode_whole(bytes: &[u8], room: &mut [u8]) -> bool {
    whole::decode(bytes, room, 0) == Some(room.len())
}

impl Chunks for Lz4Pieces {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        let mut table = self.table();
        self.take_kept(&mut table);
        while table.next.offset <= offset && table.end.is_none() {
            self.find_chunk(&mut table, offset)?;
        }
        self.keep(&mut table);
        if table.next.offset <= offset {
            return table.end.clone().unwrap_or(Ok(())).map(|()| None);
        }
        let after = table.chunks.partition_point(|start| start.offset <= offset);
        let Some(start) = after.checked_sub(1).and_then(|index| table.chunks.get(index)) else {
            return Ok(None);
        };
        let end = table.chunks.get(after).map_or(table.next.offset, |next| next.offset);
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
        if let Some((source, offset)) = on_server(&*self.stored) {
            // One request for all pieces.
            source.will_need(offset.saturating_add(input.position()), input.len());
        }
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

    fn is_cheaper_in_part(&self) -> bool {
        on_server(&*self.stored).is_some()
    }

    fn decode_start(&self, chunk: Chunk, len: u64, out: &mut Vec<u8>) -> Result<bool> {
        let Some((source, offset)) = on_server(&*self.stored) else { return Ok(false) };
        if chunk.len <= MAX_PIECE {
            return Ok(false);
        }
        // One request for the stored bytes that are probably needed.
        let input = self.input(chunk)?;
        let share = u128::from(input.len()) * u128::from(len) / u128::from(chunk.len);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let probably = share.saturating_add((share / 4).saturating_add(4096).min(input.len() / 16));
        source.will_need(offset.saturating_add(input.position()), probably);
        let mut decoder = self.block(chunk, input.position().saturating_add(probably))?;
        let wanted = usize::try_from(len.min(chunk.len)).unwrap_or(usize::MAX);
        out.resize(wanted, 0);
        let mut done = 0;
        while done < wanted {
            match decoder.read(&mut out[done..])? {
                0 => return Ok(false),
                read => done += read,
            }
        }
        Ok(true)
    }

    fn start(&self, chunk: Chunk) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(self.block(chunk, u64::MAX)?))
    }

    fn weight(&self, _: Chunk) -> u64 {
        STREAM
    }
}

impl Lz4Pieces {
    /// Returns a decoder of a long piece, whose stored bytes a server reads ahead to an offset.
    fn block(&self, chunk: Chunk, ahead_end: u64) -> Result<Block> {
        let mut input = self.input(chunk)?.reading_ahead_to(ahead_end);
        loop {
            let piece = header(&mut input)?.ok_or_else(|| input.cut_off())?;
            input.take(HEADER as usize);
            // A long piece is a chunk of its own, together with any empty pieces before it.
            if piece.size > 0 {
                let begin = input.position();
                let end = begin.saturating_add(piece.stored);
                let block = Input::range(&self.stored, begin, end).reading_ahead_to(ahead_end.min(end));
                return Ok(Block::new(block, piece.size));
            }
            input.skip(piece.stored);
        }
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
