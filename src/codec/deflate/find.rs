//! Where blocks may begin, found from the compressed bits alone.
//!
//! A dynamic block begins with counts and code lengths that few bit patterns could be. Of each bit
//! the first 13 are tested for 48 bits at once; then the lengths of the precode's codes must make a
//! complete code, which is summed up four lengths at a time out of a table; the few that are left are
//! read as a header. A block that is stored, or of the fixed kind, or the last, is not looked for:
//! almost any bits could be one.

use super::bits::low;
use super::header::{self, HEADER_BYTES};
use super::input::Input;
use crate::content::Content;
use crate::error::Result;

/// How many bits are tested at once: a word less the 13 bits that the last one needs, in bytes.
const STRIDE: usize = 6;

/// Looks for blocks. Holds a piece of the compressed bytes, which it keeps for the next search.
#[derive(Debug, Default)]
pub struct Finder {
    input: Input,
}

impl Finder {
    /// A finder that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first bit from `from` on, and before `until`, where a dynamic block that isn't the last one
    /// may begin. What is found may be none in rare cases: about one in 10^10 bits.
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
                return self.input.trouble().map_or(Ok(None), Err);
            }
            at = (byte + last as u64) * 8;
        }
        Ok(None)
    }
}

/// The first bit from `from` on, and before byte `last`, where a block may begin.
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

/// For each of the first 48 bits of `word` whether these are right: not the last block (0), dynamic
/// (10, lowest first), up to 286 literals and lengths and 30 distances (counts below 30).
fn may_begin(word: u64) -> u64 {
    let kind = !word & !(word >> 1) & (word >> 2);
    // A count of five bits is 30 or 31 if its upper four are set.
    let count = |at: u32| (word >> at) & (word >> (at + 1)) & (word >> (at + 2)) & (word >> (at + 3));
    kind & !count(4) & !count(9) & ((1 << (8 * STRIDE)) - 1)
}

/// Whether the lengths of the precode's codes make a complete code.
fn precode_is_complete(bytes: &[u8], bit: usize) -> bool {
    const COUNT_AT: usize = 13;
    let codes = low(super::bits::peek(bytes, bit + COUNT_AT), 4) as u32 + 4;
    // 57 bits at most: what a peek gives.
    let lengths = low(super::bits::peek(bytes, bit + COUNT_AT + 4), 3 * codes);
    let shares = (0..5).map(|group| SHARES[low(lengths >> (12 * group), 12) as usize]);
    shares.map(u32::from).sum::<u32>() == WHOLE
}

/// What a complete code adds up to, if a code of `length` bits counts `WHOLE >> length`.
const WHOLE: u32 = 128;

/// What four lengths of three bits each add up to, the lowest first; 255 for anything above.
static SHARES: [u8; 4096] = shares();

const fn shares() -> [u8; 4096] {
    let mut table = [0; 4096];
    let mut four = 0;
    while four < table.len() {
        let (mut sum, mut at) = (0, 0);
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
