//! A search for blocks, from the compressed bits alone.
//!
//! A dynamic block begins with counts and code lengths, which few bit patterns satisfy. Three filters narrow
//! the candidates down. The first 13 bits are tested at 48 positions at once. Then the code lengths of the
//! precode must make a complete code; a table sums up four lengths at a time. The remaining candidates are
//! parsed as headers. Stored and fixed blocks, and the last block, are not searched for: almost any bits
//! could be one.

use super::bits::low;
use super::header::{self, HEADER_BYTES};
use super::input::Input;
use crate::content::Content;
use crate::error::Result;

/// Number of bytes tested at once: a word less the 13 bits that the last position needs.
const STRIDE: usize = 6;

/// A finder of blocks. It keeps the compressed bytes of a search, so that the next search need not read them
/// again.
#[derive(Debug, Default)]
pub struct BlockFinder {
    input: Input,
}

impl BlockFinder {
    /// Returns a finder that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the first bit from `from` on, and before `until`, where a dynamic block that is not the last
    /// may begin. About one in 10^10 bits is a false hit.
    ///
    /// Each call must be given the same content.
    pub fn find(&mut self, stored: &dyn Content, from: u64, until: u64) -> Result<Option<u64>> {
        let mut at = from;
        while at < until {
            let byte = at >> 3;
            let bytes = self.input.from(stored, byte, 2 * HEADER_BYTES);
            let ended = bytes.len() < 2 * HEADER_BYTES;
            let last = if ended { bytes.len() } else { bytes.len() - HEADER_BYTES };
            let found = scan(bytes, (at & 7) as usize, last);
            if let Some(bit) = found.map(|bit| byte * 8 + bit as u64) {
                return Ok((bit < until).then_some(bit));
            }
            if ended {
                return self.input.take_error().map_or(Ok(None), Err);
            }
            at = (byte + last as u64) * 8;
        }
        Ok(None)
    }
}

/// Returns the first bit from `from` on, and before byte `last`, where a block may begin.
fn scan(bytes: &[u8], from: usize, last: usize) -> Option<usize> {
    let mut unwanted = from & 7;
    for byte in (from >> 3..last).step_by(STRIDE) {
        let mut hits = may_begin(super::bits::peek(bytes, byte * 8)) & (!0 << unwanted);
        unwanted = 0;
        while hits != 0 {
            let bit = byte * 8 + hits.trailing_zeros() as usize;
            hits &= hits - 1;
            if bit >= last * 8 {
                return None;
            }
            if precode_is_complete(bytes, bit) && header::is_plausible(bytes, bit) {
                return Some(bit);
            }
        }
    }
    None
}

/// Returns a word in which each of the first 48 bits is set if a header may begin at this bit of `word`: not
/// the last block (0), dynamic (10, lowest first), up to 286 literals and lengths and 30 distances (counts
/// below 30).
fn may_begin(word: u64) -> u64 {
    let kind = !word & !(word >> 1) & (word >> 2);
    // A count of five bits is 30 or 31 if its upper four bits are set.
    let count = |at: u32| (word >> at) & (word >> (at + 1)) & (word >> (at + 2)) & (word >> (at + 3));
    kind & !count(4) & !count(9) & ((1 << (8 * STRIDE)) - 1)
}

/// True if the code lengths of the precode make a complete code.
fn precode_is_complete(bytes: &[u8], bit: usize) -> bool {
    const COUNT_AT: usize = 13;
    let codes = low(super::bits::peek(bytes, bit + COUNT_AT), 4) as u32 + 4;
    // All lengths together have at most 57 bits, which one peek gives.
    let lengths = low(super::bits::peek(bytes, bit + COUNT_AT + 4), 3 * codes);
    let shares = (0..5).map(|group| SHARES[low(lengths >> (12 * group), 12) as usize]);
    shares.map(u32::from).sum::<u32>() == WHOLE
}

/// The sum of a complete code, if a code of `length` bits counts `WHOLE >> length`.
const WHOLE: u32 = 128;

/// For four code lengths of three bits each (the first one lowest), the sum of `WHOLE >> length`; 255 for any
/// higher sum.
static SHARES: [u8; 4096] = shares();

const fn shares() -> [u8; 4096] {
    let mut table = [0; 4096];
    let mut four = 0;
    while four < table.len() {
        let mut sum = 0;
        let mut at = 0;
        while at < 12 {
            let length = four >> at & 7;
            if length > 0 {
                sum += WHOLE >> length;
            }
            at += 3;
        }
        table[four] = if sum > 255 { 255 } else { sum as u8 };
        four += 1;
    }
    table
}
