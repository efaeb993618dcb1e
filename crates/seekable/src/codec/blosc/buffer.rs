//! One Blosc buffer (a "chunk" in Blosc's terms), decoded block by block.
//!
//! ```text
//! header                16 bytes; 32 in Blosc 2
//! bstarts               i32 per block: its start, from the start of the header
//! dictionary            in Blosc 2, if the header says so: [i32 size][size bytes]
//! blocks, in any order  each: 1 or typesize times  [i32 size][size bytes]
//! ```
//!
//! A size and the bytes after it are a split. A split whose size equals its decoded length is stored
//! uncompressed. A memcpyed buffer has neither bstarts nor splits: its data follow the header. All numbers
//! are little-endian.
//!
//! In Blosc 2 a size of 0 stands for a split of zeros, and a negative one, which a byte of flags follows, for a
//! split of that byte, negated. A chunk whose elements are all alike has no blocks at all.
//!
//! At most one block is decoded at a time. Tiny blocks are joined, and memcpyed data are cut, into *pieces*
//! of a useful size; a buffer's last piece may be shorter.

use std::ops::Range;

use super::filter::{self, FilterStep};
use super::header::{Header, Special};
use super::scratch::{Scratch, SplitReader, cut_off, fill, placed};
use super::{inner, shuffle};
use crate::content::Content;
use crate::error::{Error, Result};

/// Maximum size of a block that is decoded. A block has to be held whole, and the C library never chooses
/// more than a few MiB.
pub const MAX_BLOCK: u32 = 256 << 20;

/// Number of bytes by which a stream may exceed twice its decoded size.
const MAX_OVERHEAD: usize = 1 << 10;

/// Maximum size of a dictionary, which is the C library's.
const MAX_DICTIONARY: u32 = 128 << 10;

/// The flag after a negative size: the split is a run of one byte.
const RUN: u8 = 1;

/// Smaller blocks are joined until they reach this size.
pub(super) const MIN_PIECE: u32 = 256 << 10;
/// Size of the pieces of memcpyed data.
const STORED_PIECE: u32 = 1 << 20;

/// The first `len` bytes of a buffer; bytes after them may be overwritten.
struct Filled<'a> {
    bytes: &'a mut Vec<u8>,
    len: usize,
}

/// One Blosc buffer in a content.
#[derive(Clone, Debug)]
pub struct Buffer<'a> {
    stored: &'a dyn Content,
    offset: u64,
    header: Header,
}

impl<'a> Buffer<'a> {
    /// Reads and checks the header at `offset`; the rest of the buffer may be missing.
    #[cfg(test)]
    pub fn open(stored: &'a dyn Content, offset: u64) -> Result<Self> {
        let bytes = super::scratch::ScratchWindow::default().array(stored, offset, 0)?;
        let header = Header::parse(&bytes).map_err(|error| placed(error, stored, offset))?;
        Ok(Self { stored, offset, header })
    }

    /// Returns the buffer at `offset` with a header that was read before.
    pub fn new(stored: &'a dyn Content, offset: u64, header: Header) -> Self {
        Self { stored, offset, header }
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> u32 {
        self.header.nbytes().div_ceil(piece_len(&self.header))
    }

    /// Returns the decoded bytes of each piece but the last, which may be shorter.
    pub fn piece_len(&self) -> u32 {
        piece_len(&self.header)
    }

    /// Appends the decoded piece `index` to `out`.
    ///
    /// After an error, `out` ends with the right bytes before the damage.
    pub fn decode_piece(&self, index: u32, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let start = u64::from(index) * u64::from(self.piece_len());
        let len = u64::from(self.header.nbytes()).saturating_sub(start).min(self.piece_len().into());
        let end = start + len;
        if len == 0 {
            return Ok(());
        }
        if let Some(special) = self.header.special() {
            return self.repeat(special, start, len, out);
        }
        if self.header.is_memcpyed() {
            return self.copy(start, len, out);
        }
        let blocksize = u64::from(self.header.blocksize());
        // Both block numbers fit into 32 bits: pieces are whole blocks, and `end` is at most `nbytes`.
        self.decode_blocks((start / blocksize) as u32..end.div_ceil(blocksize) as u32, scratch, out)
    }

    /// Appends the whole decoded buffer, as [`Buffer::decode_piece`] does.
    pub fn decode(&self, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        (0..self.pieces()).try_for_each(|index| self.decode_piece(index, scratch, out))
    }

    /// True if the buffer decodes to the size in its header, and its first block directly follows the table
    /// of blocks, which proves the number of blocks. Then the buffer's length can be trusted even if its
    /// checksum is wrong.
    pub fn has_its_length(&self, scratch: &mut Scratch) -> Result<bool> {
        if self.header.is_memcpyed() || self.header.nbytes() == 0 || self.header.special().is_some() {
            return Ok(true);
        }
        let mut table = Vec::new();
        let len = u64::from(self.header.blocks()) * 4;
        fill(&mut table, self.stored, self.at(self.header.size().into())?, len)?;
        let first = table.as_chunks::<4>().0.iter().map(|&start| u32::from_le_bytes(start)).min();
        if first.map(u64::from) != Some(self.header.table_end()) {
            return Ok(false);
        }
        let mut out = Vec::new();
        let result = (0..self.pieces()).try_for_each(|piece| {
            out.clear();
            self.decode_piece(piece, scratch, &mut out)
        });
        match result {
            Err(error) if !error.lasts() => Err(error),
            result => Ok(result.is_ok()),
        }
    }

    /// Returns the offset in the content of byte `offset` of the buffer.
    fn at(&self, offset: u64) -> Result<u64> {
        self.offset.checked_add(offset).ok_or_else(|| Error::damaged("an offset overflows"))
    }

    /// Appends `len` bytes of elements that are all alike, from byte `start` on.
    fn repeat(&self, special: Special, start: u64, len: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut value = Vec::new();
        match special {
            Special::Zeros | Special::Unset => value.push(0),
            Special::Nan if self.header.typesize() == 8 => value.extend(f64::NAN.to_le_bytes()),
            Special::Nan => value.extend(f32::NAN.to_le_bytes()),
            Special::Value => {
                let at = self.at(self.header.size().into())?;
                let value_len = u64::from(self.header.cbytes() - self.header.size());
                fill(&mut value, self.stored, at, value_len)?;
                if value.len() as u64 != value_len || value.is_empty() {
                    return Err(cut_off(self.stored, at, value_len));
                }
            }
        }
        let end = out.len() + len as usize;
        if let [byte] = value[..] {
            out.resize(end, byte);
            return Ok(());
        }
        let skip = (start % value.len() as u64) as usize;
        out.extend_from_slice(&value[skip.min(value.len())..]);
        while out.len() < end {
            out.extend_from_slice(&value);
        }
        out.truncate(end);
        Ok(())
    }

    fn copy(&self, start: u64, len: u64, out: &mut Vec<u8>) -> Result<()> {
        let at = self.at(u64::from(self.header.size()) + start)?;
        let before = out.len();
        fill(out, self.stored, at, len)?;
        if (out.len() - before) as u64 == len { Ok(()) } else { Err(cut_off(self.stored, at, len)) }
    }

    /// Appends some blocks, after what they depend on was read: the dictionary, and the first block of the chunk.
    fn decode_blocks(&self, blocks: Range<u32>, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        scratch.reader.window.forget();
        self.read_dictionary(scratch)?;
        if self.is_delta()? {
            let mut first = std::mem::take(&mut scratch.first);
            first.clear();
            let result = if blocks.start > 0 { self.decode_row(0..1, scratch, &mut first) } else { Ok(()) };
            scratch.first = first;
            result?;
        }
        self.decode_row(blocks, scratch, out)
    }

    /// True if blocks are stored as differences to the first one.
    fn is_delta(&self) -> Result<bool> {
        Ok(self.steps()?.any(|step| step == FilterStep::Delta))
    }

    /// Returns the steps that undo the filters.
    fn steps(&self) -> Result<impl Iterator<Item = FilterStep> + Clone> {
        filter::steps(self.header.filters(), self.header.typesize() as usize)
    }

    fn read_dictionary(&self, scratch: &mut Scratch) -> Result<()> {
        let SplitReader { dictionary, window, .. } = &mut scratch.reader;
        dictionary.clear();
        if !self.header.has_dictionary() {
            return Ok(());
        }
        let at = self.at(self.header.table_end())?;
        let room = u64::from(self.header.cbytes()).saturating_sub(self.header.table_end() + 4);
        let size = u32::from_le_bytes(window.array(self.stored, at, 0)?);
        if size == 0 || size > MAX_DICTIONARY || u64::from(size) > room {
            let what = format!("a Blosc2 chunk says that its dictionary has {size} bytes");
            return Err(placed(Error::damaged(what), self.stored, at));
        }
        dictionary.extend_from_slice(window.get(self.stored, at.saturating_add(4), size, 0)?);
        Ok(())
    }

    fn decode_row(&self, blocks: Range<u32>, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        // The start of the next block is read too: a block usually ends where the next begins.
        let count = (blocks.end + 1).min(self.header.blocks()) - blocks.start;
        let table = self.at(u64::from(self.header.size()) + u64::from(blocks.start) * 4)?;
        let mut starts = std::mem::take(&mut scratch.starts);
        starts.clear();
        let mut result = fill(&mut starts, self.stored, table, u64::from(count) * 4);
        let (words, _) = starts.as_chunks::<4>();
        for (row, index) in blocks.enumerate() {
            let Some(&start) = words.get(row) else {
                result = result.and(Err(cut_off(self.stored, table, u64::from(count) * 4)));
                break;
            };
            let start = u32::from_le_bytes(start);
            let next = words.get(row + 1).map_or(self.header.cbytes(), |&next| u32::from_le_bytes(next));
            // Blocks need not be in order.
            let end = if next > start { next.min(self.header.cbytes()) } else { self.header.cbytes() };
            result = self.decode_block(index, start..end, scratch, out).map_err(|error| {
                let position = self.offset.saturating_add(start.into());
                placed(error.within(format_args!("Blosc block {index}")), self.stored, position)
            });
            if result.is_err() {
                break;
            }
        }
        scratch.starts = starts;
        result
    }

    /// Appends block `index`, which begins at `stored.start`. It ends at `stored.end` if blocks are in order.
    fn decode_block(
        &self,
        index: u32,
        stored: Range<u32>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let header = &self.header;
        let len = header.block_len(index);
        if len > MAX_BLOCK {
            return Err(Error::unsupported(format!(
                "it has {len} bytes, but blocks of more than {} MiB are not decoded",
                MAX_BLOCK >> 20
            )));
        }
        let len = len as usize;
        let start = stored.start;
        if u64::from(start) < header.table_end() || start > header.cbytes() {
            return Err(Error::damaged(format!("it begins at byte {start}, outside of its buffer's data")));
        }
        let Scratch { reader, shuffled, turned, planes, first, .. } = scratch;
        let typesize = header.typesize() as usize;
        let steps = self.steps()?;
        let before = out.len();
        let mut moves = steps.clone().filter(|step| step.moves()).count();
        if moves == 0 {
            let mut good = Filled { len: before, bytes: out };
            let result = self.decode_splits(index, stored, reader, &mut good);
            let good = good.len;
            if let Err(error) = result {
                // Bytes whose filters are not undone are not right.
                out.truncate(if steps.clone().next().is_none() { good } else { before });
                return Err(error);
            }
            out.truncate(good);
        } else {
            self.decode_splits(index, stored, reader, &mut Filled { len: 0, bytes: shuffled })?;
            shuffled.truncate(len);
        }
        for step in steps {
            if step.moves() {
                moves -= 1;
                let target = if moves == 0 {
                    out.resize(before + len, 0);
                    &mut out[before..]
                } else {
                    turned.clear();
                    turned.resize(len, 0);
                    &mut turned[..]
                };
                match step {
                    FilterStep::Unshuffle(width) => shuffle::unshuffle_bytes(width, shuffled, target),
                    _ if header.is_of_blosc2() => filter::unshuffle_bits(typesize, shuffled, target, planes),
                    _ => shuffle::unshuffle_bits(typesize, shuffled, target, planes),
                }
                if moves > 0 {
                    std::mem::swap(shuffled, turned);
                }
                continue;
            }
            let block = if moves == 0 { &mut out[before..] } else { &mut shuffled[..] };
            match step {
                FilterStep::ByteDelta(width) => {
                    if let Err(error) = filter::undo_byte_delta(width, block) {
                        out.truncate(before);
                        return Err(error);
                    }
                }
                _ if index == 0 => filter::undo_delta_within(typesize, block),
                _ => filter::undo_delta(typesize, first, block),
            }
        }
        if index == 0 && first.is_empty() && self.is_delta()? {
            first.extend_from_slice(&out[before..]);
        }
        Ok(())
    }

    /// Adds the decoded splits of block `index` to `out`, up to the first one that is damaged.
    fn decode_splits(
        &self,
        index: u32,
        stored: Range<u32>,
        reader: &mut SplitReader,
        out: &mut Filled<'_>,
    ) -> Result<()> {
        let SplitReader { decoders, window, dictionary } = reader;
        let header = &self.header;
        let splits = header.splits(index);
        let each = (header.block_len(index) / splits) as usize;
        let inner = header.inner().ok_or_else(|| Error::damaged("its header names no codec"))?;
        // Maximum stored size of the block as written by Blosc.
        let most = u64::from(header.block_len(index)) + u64::from(splits) * 4;
        let mut at = stored.start;
        for _ in 0..splits {
            let ahead = u64::from(stored.end.saturating_sub(at)).min(most);
            let rest = header.cbytes() - at;
            if rest < 4 {
                return Err(Error::damaged("it reaches past the end of its buffer"));
            }
            let size = u32::from_le_bytes(window.array(self.stored, self.at(at.into())?, ahead)?);
            let end = out.len + each;
            if header.is_of_blosc2() && (size == 0 || size > i32::MAX as u32) {
                let mut byte = 0;
                if size > 0 {
                    let [flags] = window.array(self.stored, self.at(u64::from(at) + 4)?, ahead)?;
                    let run = u8::try_from(size.wrapping_neg()).ok().filter(|_| rest > 4 && flags & RUN != 0);
                    byte = run.ok_or_else(|| {
                        Error::damaged(format!(
                            "a stream has the size {}, which is no run of a byte",
                            size.cast_signed()
                        ))
                    })?;
                    at += 1;
                }
                at += 4;
                out.bytes.resize(out.bytes.len().max(end), 0);
                out.bytes[out.len..end].fill(byte);
                out.len = end;
                continue;
            }
            // The size is signed in the format: a negative one is a large number here.
            if size > rest - 4 {
                return Err(Error::damaged(format!(
                    "a stream says that it is {size} bytes long, but its buffer has {}",
                    rest - 4
                )));
            }
            // No writer makes a stream much longer than its output, so a longer one is not read.
            if size as usize > each.saturating_mul(2).saturating_add(MAX_OVERHEAD) {
                return Err(Error::damaged(format!(
                    "a stream of {size} bytes is too long for {each} decoded \
                                                   bytes"
                )));
            }
            let bytes = window.get(self.stored, self.at(u64::from(at) + 4)?, size, ahead)?;
            let stored_as_it_is = bytes.len() == each;
            if !stored_as_it_is && !inner::may_hold(inner, bytes, each) {
                let name = inner.name();
                return Err(Error::damaged(format!(
                    "a {name} stream of {size} bytes can't decode to {each} bytes"
                )));
            }
            if out.bytes.len() < end {
                out.bytes.resize(end, 0);
            }
            let decoded = &mut out.bytes[out.len..end];
            if stored_as_it_is {
                decoded.copy_from_slice(bytes);
            } else {
                decoders.decode(inner, bytes, dictionary, decoded)?;
            }
            out.len = end;
            // No overflow: the position is within the buffer, below 2 GiB.
            at += 4 + size;
        }
        Ok(())
    }
}

/// Returns the decoded bytes of each piece but the last; never 0.
pub(super) fn piece_len(header: &Header) -> u32 {
    if header.is_memcpyed() || header.special().is_some() || header.blocksize() == 0 {
        return STORED_PIECE;
    }
    let blocksize = header.blocksize();
    // No overflow: the result is less than one block above MIN_PIECE, and a block is below 2 GiB.
    blocksize * MIN_PIECE.div_ceil(blocksize)
}
