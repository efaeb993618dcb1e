//! One Blosc buffer (a "chunk" in Blosc's terms), decoded block by block.
//!
//! ```text
//! header                16 bytes
//! bstarts               i32 per block: its start, from the start of the header
//! blocks, in any order  each: 1 or typesize times  [i32 size][size bytes]
//! ```
//!
//! A size and the bytes after it are a split. A split whose size equals its decoded length is stored
//! uncompressed. A memcpyed buffer has neither bstarts nor splits: its data follow the header. All numbers
//! are little-endian.
//!
//! At most one block is decoded at a time. Tiny blocks are joined, and memcpyed data are cut, into *pieces*
//! of a useful size; a buffer's last piece may be shorter.

use std::ops::Range;

use super::header::{HEADER_SIZE, Header, Shuffle};
use super::inner;
use super::scratch::{Scratch, SplitReader, cut_off, fill, placed};
use super::shuffle;
use crate::content::Content;
use crate::error::{Error, Result};

/// Maximum size of a block that is decoded. A block has to be held whole, and the C library never chooses
/// more than a few MiB.
pub(crate) const MAX_BLOCK: u32 = 256 << 20;

/// Number of bytes by which a stream may exceed twice its decoded size.
const MAX_OVERHEAD: usize = 1 << 10;

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
pub(crate) struct Buffer<'a> {
    stored: &'a dyn Content,
    offset: u64,
    header: Header,
}

impl<'a> Buffer<'a> {
    /// Reads and checks the header at `offset`; the rest of the buffer may be missing.
    #[cfg(test)]
    pub(crate) fn open(stored: &'a dyn Content, offset: u64) -> Result<Self> {
        let bytes = super::scratch::ScratchWindow::default().array(stored, offset, 0)?;
        let header = Header::parse(&bytes).map_err(|error| placed(error, stored, offset))?;
        Ok(Self { stored, offset, header })
    }

    /// Returns the buffer at `offset` with a header that was read before.
    pub(crate) fn new(stored: &'a dyn Content, offset: u64, header: Header) -> Self {
        Self { stored, offset, header }
    }

    /// Returns the number of pieces.
    pub(crate) fn pieces(&self) -> u32 {
        self.header.nbytes().div_ceil(piece_len(&self.header))
    }

    /// Returns the decoded bytes of each piece but the last, which may be shorter.
    pub(crate) fn piece_len(&self) -> u32 {
        piece_len(&self.header)
    }

    /// Appends the decoded piece `index` to `out`.
    ///
    /// After an error, `out` ends with the right bytes before the damage.
    pub(crate) fn decode_piece(&self, index: u32, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let start = u64::from(index) * u64::from(self.piece_len());
        let len = u64::from(self.header.nbytes()).saturating_sub(start).min(self.piece_len().into());
        let end = start + len;
        if len == 0 {
            return Ok(());
        }
        if self.header.is_memcpyed() {
            return self.copy(start, len, out);
        }
        let blocksize = u64::from(self.header.blocksize());
        // Both block numbers fit into 32 bits: pieces are whole blocks, and `end` is at most `nbytes`.
        self.decode_blocks((start / blocksize) as u32..end.div_ceil(blocksize) as u32, scratch, out)
    }

    /// Appends the whole decoded buffer, as [`Buffer::decode_piece`] does.
    pub(crate) fn decode(&self, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        (0..self.pieces()).try_for_each(|index| self.decode_piece(index, scratch, out))
    }

    /// True if the buffer decodes to the size in its header, and its first block directly follows the table
    /// of blocks, which proves the number of blocks. Then the buffer's length can be trusted even if its
    /// checksum is wrong.
    pub(crate) fn has_its_length(&self, scratch: &mut Scratch) -> Result<bool> {
        if self.header.is_memcpyed() || self.header.nbytes() == 0 {
            return Ok(true);
        }
        let mut table = Vec::new();
        let len = u64::from(self.header.blocks()) * 4;
        fill(&mut table, self.stored, self.at(HEADER_SIZE.into())?, len)?;
        let first = table.as_chunks::<4>().0.iter().map(|&start| u32::from_le_bytes(start)).min();
        if first.map(u64::from) != Some(u64::from(HEADER_SIZE) + len) {
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

    fn copy(&self, start: u64, len: u64, out: &mut Vec<u8>) -> Result<()> {
        let at = self.at(u64::from(HEADER_SIZE) + start)?;
        let before = out.len();
        fill(out, self.stored, at, len)?;
        if (out.len() - before) as u64 == len { Ok(()) } else { Err(cut_off(self.stored, at, len)) }
    }

    fn decode_blocks(&self, blocks: Range<u32>, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        scratch.reader.window.forget();
        // The start of the next block is read too: a block usually ends where the next begins.
        let count = (blocks.end + 1).min(self.header.blocks()) - blocks.start;
        let table = self.at(u64::from(HEADER_SIZE) + u64::from(blocks.start) * 4)?;
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
        if u64::from(start) < u64::from(HEADER_SIZE) + u64::from(header.blocks()) * 4
            || start > header.cbytes()
        {
            return Err(Error::damaged(format!("it begins at byte {start}, outside of its buffer's data")));
        }
        let Scratch { reader, shuffled, planes, .. } = scratch;
        let typesize = header.typesize() as usize;
        match header.shuffle() {
            Shuffle::None => {
                let mut good = Filled { len: out.len(), bytes: out };
                let result = self.decode_splits(index, stored, reader, &mut good);
                good.bytes.truncate(good.len);
                result
            }
            Shuffle::Bytes => {
                self.decode_splits(index, stored, reader, &mut Filled { len: 0, bytes: shuffled })?;
                let before = out.len();
                out.resize(before + len, 0);
                shuffle::unshuffle_bytes(typesize, &shuffled[..len], &mut out[before..]);
                Ok(())
            }
            Shuffle::Bits => {
                self.decode_splits(index, stored, reader, &mut Filled { len: 0, bytes: shuffled })?;
                let before = out.len();
                out.resize(before + len, 0);
                shuffle::unshuffle_bits(typesize, &shuffled[..len], &mut out[before..], planes);
                Ok(())
            }
        }
    }

    /// Adds the decoded splits of block `index` to `out`, up to the first one that is damaged.
    fn decode_splits(
        &self,
        index: u32,
        stored: Range<u32>,
        reader: &mut SplitReader,
        out: &mut Filled<'_>,
    ) -> Result<()> {
        let SplitReader { decoders, window } = reader;
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
            let end = out.len + each;
            if out.bytes.len() < end {
                out.bytes.resize(end, 0);
            }
            let decoded = &mut out.bytes[out.len..end];
            if stored_as_it_is {
                decoded.copy_from_slice(bytes);
            } else {
                decoders.decode(inner, bytes, decoded)?;
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
    if header.is_memcpyed() || header.blocksize() == 0 {
        return STORED_PIECE;
    }
    let blocksize = header.blocksize();
    // No overflow: the result is less than one block above MIN_PIECE, and a block is below 2 GiB.
    blocksize * MIN_PIECE.div_ceil(blocksize)
}
