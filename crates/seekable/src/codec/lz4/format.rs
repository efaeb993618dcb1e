//! The format of LZ4 frames, with the names of its specification (lz4_Frame_format.md, version 1.6.4).
//!
//! ```text
//! frame:  [ magic: u32 ][ FLG ][ BD ][ content size: u64 ]? [ dictionary: u32 ]? [ HC ] blocks [ 0: u32 ][ content checksum: u32 ]?
//! block:  [ size: u32, highest bit: uncompressed ][ data ][ block checksum: u32 ]?
//! ```
//!
//! All numbers are little-endian. All checksums are XXH32 with seed 0; HC is the second byte of the header's
//! checksum.

use twox_hash::XxHash32;

use crate::codec::input::Input;
use crate::error::{Error, Result};

/// Magic of a frame.
pub(super) const MAGIC: u32 = u32::from_le_bytes(super::FRAME);
/// Magic of a frame written by `lz4 -l`. Such a frame has no end mark.
pub(super) const LEGACY: u32 = 0x184C_2102;
/// Magics of skippable frames; their length follows.
pub(super) const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// Maximum size of a frame header in bytes.
const MAX_HEADER: usize = 19;

/// The properties of a frame's blocks; they are the state of a part start between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameBlocks {
    /// True if matches may reach into earlier blocks.
    pub(super) linked: bool,
    /// True if a checksum follows each block.
    pub(super) checked: bool,
    /// True if a checksum of the content follows the end mark.
    pub(super) content_checked: bool,
    /// Code of the maximum block size: 4 to 7 for 64 KiB, 256 KiB, 1 MiB, 4 MiB.
    code: u8,
}

impl FrameBlocks {
    /// Returns the maximum decoded size of a block.
    pub(super) fn longest(self) -> usize {
        1 << (2 * self.code + 8)
    }

    /// Returns the number of bytes after a block's data.
    pub(super) fn after(self) -> u64 {
        if self.checked { 4 } else { 0 }
    }

    /// Returns the properties as the state of a part start, never 0.
    pub(super) fn to_state(self) -> u32 {
        u32::from(self.code) << 4
            | u32::from(self.linked) << 2
            | u32::from(self.checked) << 1
            | u32::from(self.content_checked)
    }

    /// Returns the properties from the state of a part start; `None` if the part starts between two frames.
    pub(super) fn from_state(state: u32) -> Option<Self> {
        let code = u8::try_from(state >> 4).ok().filter(|code| (4..=7).contains(code))?;
        let is = |bit: u32| state >> bit & 1 == 1;
        Some(Self { linked: is(2), checked: is(1), content_checked: is(0), code })
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) blocks: FrameBlocks,
    pub(super) content_size: Option<u64>,
}

/// The data at a position where a frame may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameStart {
    Frame(Header),
    /// A skippable frame, which was skipped.
    Skipped,
    /// A frame without an end mark.
    Legacy,
    Nothing,
}

impl FrameStart {
    /// Reads the data at a position where a frame may begin.
    pub(super) fn read(input: &mut Input) -> Result<Self> {
        let magic = u32::from_le_bytes(input.magic()?);
        match magic {
            MAGIC => Header::read(input).map(Self::Frame),
            LEGACY => Ok(Self::Legacy),
            _ if SKIPPABLE.contains(&magic) => {
                input.take(4);
                let len = u32::from_le_bytes(input.magic()?);
                input.skip(u64::from(len) + 4);
                Ok(Self::Skipped)
            }
            _ => Ok(Self::Nothing),
        }
    }
}

impl Header {
    fn read(input: &mut Input) -> Result<Self> {
        let available = input.at_least(MAX_HEADER)?;
        let &[_, _, _, _, flags, descriptor, ..] = available else { return Err(input.cut_off()) };
        let has = |bit: u8| flags >> bit & 1 == 1;
        let sized = has(3);
        let keyed = has(0);
        let len = 6 + if sized { 8 } else { 0 } + if keyed { 4 } else { 0 };
        let (Some(described), Some(check)) = (available.get(4..len), available.get(len)) else {
            return Err(input.cut_off());
        };
        let code = descriptor >> 4 & 7;
        let wrong = flags >> 6 != 1 || has(1) || descriptor & 0x8f != 0 || code < 4;
        if wrong || XxHash32::oneshot(0, described).to_le_bytes()[1] != *check {
            return Err(input.damaged("the header of an LZ4 frame is broken"));
        }
        if keyed {
            return Err(input.place(Error::unsupported("the LZ4 frame needs a dictionary")));
        }
        let content_size = available.get(6..14).filter(|_| sized).and_then(|size| size.first_chunk());
        let content_size = content_size.map(|&size| u64::from_le_bytes(size));
        input.take(len + 1);
        let blocks = FrameBlocks { linked: !has(5), checked: has(4), content_checked: has(2), code };
        Ok(Self { blocks, content_size })
    }
}

/// The size field of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockSize {
    /// Number of data bytes.
    pub(super) stored: usize,
    /// True if the data are stored uncompressed.
    pub(super) raw: bool,
}

impl BlockSize {
    /// Reads the size field of a block; `None` is the end mark.
    pub(super) fn read(input: &mut Input, blocks: FrameBlocks) -> Result<Option<Self>> {
        if input.at_least(4)?.len() < 4 {
            return Err(input.cut_off());
        }
        let word = u32::from_le_bytes(input.magic()?);
        let stored = (word & 0x7fff_ffff) as usize;
        let raw = word >> 31 == 1;
        if stored > blocks.longest() {
            return Err(input.damaged("a block of the LZ4 frame is longer than its header allows"));
        }
        input.take(4);
        Ok((word != 0).then_some(Self { stored, raw }))
    }
}

/// Reads a length that begins with the 4 bits of a token.
fn length(bytes: &mut std::slice::Iter<'_, u8>, code: u8) -> Option<u64> {
    let mut length = u64::from(code);
    if code == 15 {
        loop {
            let more = *bytes.next()?;
            length += u64::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Some(length)
}

/// Returns the decoded size of a block, computed from the lengths in it without decoding; `None` if the
/// lengths are invalid.
pub(super) fn decoded_len(block: &[u8]) -> Option<u64> {
    let mut bytes = block.iter();
    let mut len = 0_u64;
    loop {
        let token = *bytes.next()?;
        let literals = length(&mut bytes, token >> 4)?;
        len += literals;
        bytes = bytes.as_slice().get(usize::try_from(literals).ok()?..)?.iter();
        if bytes.as_slice().is_empty() {
            return Some(len);
        }
        bytes = bytes.as_slice().get(2..)?.iter();
        len += length(&mut bytes, token & 15)? + 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_measured_without_decoding_it() {
        let mut dice = crate::codec::samples::Dice(5);
        for round in 0..200 {
            let bytes: Vec<u8> = (0..dice.roll(70_000)).map(|at| (at / (1 + round)) as u8).collect();
            let block = lz4_flex::block::compress(&bytes);
            assert_eq!(decoded_len(&block), Some(bytes.len() as u64));
            for _ in 0..20 {
                let mut broken = block.clone();
                let at = dice.roll(broken.len());
                broken[at] ^= 1 << dice.roll(8);
                broken.truncate(dice.roll(broken.len() + 1));
                let _ = decoded_len(&broken);
            }
        }
    }

    #[test]
    fn a_state_is_what_it_was_made_of() {
        for state in 0x40..0x80 {
            assert_eq!(FrameBlocks::from_state(state).unwrap().to_state() | state & 8, state);
        }
        assert_eq!((FrameBlocks::from_state(0), FrameBlocks::from_state(0x80)), (None, None));
    }
}
