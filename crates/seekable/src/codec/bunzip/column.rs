//! The decoding of a block's symbols to the last column of its sorted rotations: Huffman codes, runs of the
//! front value, and move-to-front, in one loop.

use super::bits::{Bits, load};
use super::fault::Fault;
use super::header::{Header, SymbolCodes};
use super::huffman::MAX_LENGTH;

/// Symbols that share a selector.
const GROUP: usize = 50;

/// Number of codes that fit into 57 bits even if all have the maximum length.
const CODES_IN_A_LOAD: usize = 2;

/// Number of run symbols: the digits 1 and 2 of a run's length, least significant first, in base 2 without
/// zero.
const RUN_SYMBOLS: u16 = 2;

/// Maximum number of digits in a run's length, as in libbz2. The length is at most 2 · 2²¹.
const RUN_DIGITS: u32 = 21;

/// Bytes after the block that a short run may overwrite.
const SLACK: usize = 16;

/// The last column of a block's sorted rotations.
#[derive(Debug, Default)]
pub(super) struct LastColumn {
    /// The column's bytes, with spare room after them.
    pub(super) bytes: Vec<u8>,
    /// Number of bytes in the column.
    pub(super) len: usize,
    /// The frequency of each byte value in the column.
    pub(super) counts: Counts,
}

/// The frequency of each byte value.
#[derive(Debug)]
pub(super) struct Counts(pub(super) [u32; 256]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl LastColumn {
    /// Makes room for a block of this size, and zeroes the counts.
    fn prepare(&mut self, block_size: usize) -> (&mut [u8], &mut [u32; 256]) {
        if self.bytes.len() < block_size + SLACK {
            self.bytes = vec![0; block_size + SLACK];
        }
        self.counts.0.fill(0);
        (&mut self.bytes[..block_size + SLACK], &mut self.counts.0)
    }
}

/// Moves to `bit`, after a group of symbols. Fails if `reason` is an error found there.
fn continue_at(bits: &mut Bits<'_>, bit: u64, reason: Option<&'static str>) -> Result<(), Fault> {
    bits.check(bit)?;
    match reason {
        Some(reason) => Err(Fault::Broken { bit, reason }),
        None => bits.move_to(bit),
    }
}

/// Reads a block's symbols up to its end; `bits` begins with the first one.
pub(super) fn read(
    bits: &mut Bits<'_>,
    header: &Header,
    codes: &SymbolCodes,
    column: &mut LastColumn,
) -> Result<(), Fault> {
    let selectors = &codes.selectors[..];
    let codes = &codes.codes;
    let block_size = header.block_size;
    let (out, counts) = column.prepare(block_size);
    let mut values = header.values.clone();
    let mut len = 0;
    let mut run = 0usize;
    let mut digits = 0;
    for &selector in selectors {
        let code = &codes[usize::from(selector)];
        let start = bits.bit();
        let (window, skip) = bits.window();
        let mut at = skip;
        let mut reason = None;
        let mut ended = false;
        'group: for _ in 0..GROUP / CODES_IN_A_LOAD {
            let mut next = load(window, at);
            for _ in 0..CODES_IN_A_LOAD {
                let Some((symbol, length)) = code.symbol(next) else {
                    // No code begins here. Only as many bits as the longest code has can show this, so these
                    // bits must exist.
                    at += u64::from(MAX_LENGTH);
                    reason = Some("no code begins with these bits");
                    break 'group;
                };
                next <<= length;
                at += u64::from(length);
                if symbol < RUN_SYMBOLS {
                    if digits == RUN_DIGITS {
                        reason = Some("a run is longer than any block");
                        break 'group;
                    }
                    run += (usize::from(symbol) + 1) << digits;
                    digits += 1;
                    continue;
                }
                if digits > 0 {
                    if run > block_size - len {
                        reason = Some("a run exceeds the block size");
                        break 'group;
                    }
                    let value = values.front();
                    counts[usize::from(value)] += run as u32;
                    repeat(&mut out[len..], value, run);
                    len += run;
                    (run, digits) = (0, 0);
                }
                if symbol == header.last_symbol {
                    ended = true;
                    break 'group;
                }
                if len == block_size {
                    reason = Some("the block is longer than the block size");
                    break 'group;
                }
                // The symbol is less than the last one, which is at most 257.
                let value = values.take((symbol - 1) as u8);
                counts[usize::from(value)] += 1;
                out[len] = value;
                len += 1;
            }
        }
        continue_at(bits, start - skip + at, reason)?;
        if ended {
            column.len = len;
            return Ok(());
        }
    }
    Err(Fault::Broken { bit: bits.bit(), reason: "the selectors run out before the block ends" })
}

/// Writes `value` `count` times; `out` has [`SLACK`] bytes more than that.
#[inline(always)]
fn repeat(out: &mut [u8], value: u8, count: usize) {
    match out.first_chunk_mut::<SLACK>() {
        Some(few) if count <= SLACK => *few = [value; SLACK],
        _ => out[..count].fill(value),
    }
}
