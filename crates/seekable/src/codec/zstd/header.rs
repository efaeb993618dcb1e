//! The headers of zstd frames, with the names of RFC 8878.
//!
//! ```text
//! frame:  [ magic: u32 ][ descriptor ][ window ]? [ dictionary: 0-4 ] [ content size: 0-8 ] blocks [ checksum: u32 ]?
//! block:  [ header: u24, last: 1 bit, type: 2, size: 21 ][ data ]
//! ```
//!
//! All numbers are little-endian.

use crate::codec::input::Input;
use crate::error::Result;

/// Magic of a frame.
pub(super) const MAGIC: u32 = 0xFD2F_B528;
/// Magics of skippable frames; their length follows.
pub(in crate::codec) const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// Maximum size of a frame header in bytes.
const MAX_HEADER: usize = 18;

/// Maximum decoded size of a block.
pub(super) const BLOCK: u64 = 128 << 10;

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Maximum distance of a match in bytes; a decoder holds this much output.
    pub(super) window: u64,
    pub(super) content_size: Option<u64>,
    pub(super) checked: bool,
    /// True if the frame needs a dictionary, or sets a reserved bit.
    pub(super) needs_more: bool,
}

impl Header {
    /// Returns the byte that describes the smallest window of at least this size.
    pub(super) fn described_window(self) -> u8 {
        let described = |byte: &u8| described_window(*byte) >= self.window;
        (0..=u8::MAX).find(described).unwrap_or(u8::MAX)
    }

    pub(super) fn read(input: &mut Input) -> Result<Self> {
        let available = input.at_least(MAX_HEADER)?;
        let Some(descriptor) = available.get(4).copied() else { return Err(input.cut_off()) };
        let single = descriptor >> 5 & 1 == 1;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = match descriptor >> 6 {
            0 => usize::from(single),
            n => 1 << n,
        };
        let at = 5 + usize::from(!single) + dictionary;
        let id = available.get(at - dictionary..at).unwrap_or_default();
        let needs_more = id.iter().any(|byte| *byte != 0) || descriptor >> 3 & 1 == 1;
        let Some(bytes) = available.get(at..at + size) else { return Err(input.cut_off()) };
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let content_size = match size {
            0 => None,
            2 => Some(number + 256),
            _ => Some(number),
        };
        let described = available.get(5).map_or(0, |byte| described_window(*byte));
        let window =
            content_size.filter(|content_size| single || *content_size < described).unwrap_or(described);
        input.take(at + size);
        Ok(Self { window, content_size, checked: descriptor >> 2 & 1 == 1, needs_more })
    }
}

/// Returns the window that a header byte describes.
fn described_window(byte: u8) -> u64 {
    let base = 1_u64 << (10 + (byte >> 3));
    base + base / 8 * u64::from(byte & 7)
}
