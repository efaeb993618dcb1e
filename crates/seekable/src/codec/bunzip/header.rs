//! The header of a block: CRC, origin, symbol map, selectors and code lengths.

use super::bits::Bits;
use super::fault::Fault;
use super::huffman::{Code, MAX_LENGTH, SYMBOLS};
use super::magic::Magic;
use super::mtf::MoveToFront;

/// Maximum number of codes in a block.
pub(super) const CODES: usize = 6;

/// Maximum number of selectors that a block can use; libbz2 reads further ones and ignores them.
const SELECTORS: usize = 18_002;

/// Maximum number of steps by 1 in which the code lengths of one code are stored: twelve times the most that
/// an encoder needs. The format has no limit, so a header could be as long as the file.
const STEPS: u32 = 12 * SYMBOLS as u32 * MAX_LENGTH;

/// Number by which libbz2 lets the origin exceed the block size while it reads the header.
const ORIGIN_SLACK: usize = 10;

/// A block's header, without the codes.
#[derive(Debug)]
pub(super) struct Header {
    /// The CRC of the decoded block.
    pub(super) crc: u32,
    /// The row of the sorted rotations that is the data; to be checked against the block's length.
    pub(super) origin: usize,
    /// The move-to-front list at the start of the block.
    pub(super) values: MoveToFront,
    /// The symbol that ends the block.
    pub(super) last_symbol: u16,
    /// Maximum number of bytes in the last column.
    pub(super) block_size: usize,
}

/// The codes of a block's symbols.
#[derive(Debug)]
pub(super) struct SymbolCodes {
    /// The number of the code of each group of symbols.
    pub(super) selectors: Vec<u8>,
    pub(super) codes: [Code; CODES],
}

impl Default for SymbolCodes {
    fn default() -> Self {
        Self { selectors: Vec::new(), codes: [Code::EMPTY; CODES] }
    }
}

/// Reads a block's header from its magic on, and sets `codes`.
pub(super) fn read(bits: &mut Bits<'_>, block_size: usize, codes: &mut SymbolCodes) -> Result<Header, Fault> {
    let start = bits.bit();
    let magic = u64::from(bits.take(24)?) << 24 | u64::from(bits.take(24)?);
    if Magic::of(magic) != Some(Magic::Block) {
        return Err(Fault::Broken { bit: start, reason: "no block begins there" });
    }
    let crc = bits.take(32)?;
    if bits.take(1)? == 1 {
        return Err(Fault::Unsupported {
            bit: start,
            reason: "the block is randomised, an obsolete form of bzip2 0.9.0",
        });
    }
    let origin_at = bits.bit();
    let origin = bits.take(24)? as usize;
    if origin > block_size + ORIGIN_SLACK {
        return Err(Fault::Broken { bit: origin_at, reason: "the origin of the block is beyond its end" });
    }
    let (values, occurring) = read_symbol_map(bits)?;
    let count_at = bits.bit();
    let code_count = bits.take(3)? as usize;
    if !(2..=CODES).contains(&code_count) {
        return Err(Fault::Broken { bit: count_at, reason: "the block does not have 2 to 6 codes" });
    }
    read_selectors(bits, code_count, &mut codes.selectors)?;
    for code in codes.codes.iter_mut().take(code_count) {
        read_code(bits, occurring + 2, code)?;
    }
    let values = MoveToFront::new(values);
    let last_symbol = occurring as u16 + 1;
    Ok(Header { crc, origin, values, last_symbol, block_size })
}

/// Reads the byte values that occur, and their number.
fn read_symbol_map(bits: &mut Bits<'_>) -> Result<([u8; 256], usize), Fault> {
    let at = bits.bit();
    let rows = bits.take(16)?;
    let mut values = [0; 256];
    let mut count = 0;
    for row in (0..16).filter(|row| rows << row & 0x8000 != 0) {
        let columns = bits.take(16)?;
        for column in (0..16).filter(|column| columns << column & 0x8000 != 0) {
            values[count] = row * 16 + column;
            count += 1;
        }
    }
    match count {
        0 => Err(Fault::Broken { bit: at, reason: "no byte value occurs in the block" }),
        _ => Ok((values, count)),
    }
}

/// Reads the code of each group of symbols.
fn read_selectors(bits: &mut Bits<'_>, code_count: usize, selectors: &mut Vec<u8>) -> Result<(), Fault> {
    let at = bits.bit();
    let count = bits.take(15)? as usize;
    if count == 0 {
        return Err(Fault::Broken { bit: at, reason: "the block has no selectors" });
    }
    selectors.clear();
    let mut list: [u8; CODES] = std::array::from_fn(|code| code as u8);
    for _ in 0..count {
        // The index in the list, in unary: as many ones as the index says, then a zero.
        let position = (bits.peek(CODES as u32) << (32 - CODES as u32)).leading_ones() as usize;
        let bit = bits.bit();
        bits.move_to(bit + (position + 1).min(code_count) as u64)?;
        if position >= code_count {
            return Err(Fault::Broken { bit, reason: "a selector names a code that the block doesn't have" });
        }
        list[..=position].rotate_right(1);
        if selectors.len() < SELECTORS {
            selectors.push(list[0]);
        }
    }
    Ok(())
}

/// Reads the code lengths of `symbols` symbols.
fn read_code(bits: &mut Bits<'_>, symbols: usize, code: &mut Code) -> Result<(), Fault> {
    let mut lengths = [0; SYMBOLS];
    let mut length = bits.take(5)?;
    let mut steps = 0;
    for of_symbol in &mut lengths[..symbols] {
        loop {
            if !(1..=MAX_LENGTH).contains(&length) {
                return Err(Fault::Broken { bit: bits.bit(), reason: "a code does not have 1 to 20 bits" });
            }
            if bits.take(1)? == 0 {
                break;
            }
            length = if bits.take(1)? == 0 { length + 1 } else { length - 1 };
            steps += 1;
            if steps > STEPS {
                return Err(Fault::Unsupported {
                    bit: bits.bit(),
                    reason: "the code lengths are encoded in too many steps",
                });
            }
        }
        *of_symbol = length as u8;
    }
    code.set(&lengths[..symbols]);
    Ok(())
}
