//! The parts of a compressed block (RFC 8878, 3.1.1.3) on which later blocks depend.
//!
//! ```text
//! literals:  [ header: 1-5 bytes ][ Huffman tree ]? [ literals ]
//! sequences: [ count: 1-3 bytes ][ modes: 2 bits each of literal lengths, offsets, match lengths; 2 bits 0 ]
//!            [ description of each table, if it has one ][ bits ]
//! ```

use super::fse::{CodeKind, Counts};

/// The sections of a compressed block.
#[derive(Debug)]
pub(super) struct Sections<'a> {
    /// The description of the Huffman tree, if there is one.
    pub(super) tree: Option<&'a [u8]>,
    pub(super) sequences: Option<Sequences<'a>>,
}

/// A sequences section with sequences.
#[derive(Debug)]
pub(super) struct Sequences<'a> {
    pub(super) count: usize,
    /// Modes of the tables of literal lengths, of offsets and of match lengths.
    pub(super) modes: [Mode<'a>; 3],
    pub(super) bits: &'a [u8],
}

/// The source of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode<'a> {
    Predefined,
    /// A single code.
    One(u8),
    Described(&'a [u8]),
    /// The table of the block before.
    Repeat,
}

/// The tables, in the order in which a block describes them.
pub(super) const TABLES: [CodeKind; 3] =
    [CodeKind::LiteralLengths, CodeKind::Offsets, CodeKind::MatchLengths];

impl<'a> Sections<'a> {
    /// Returns the sections in the bytes of a block; `None` if the block is broken.
    pub(super) fn read(block: &'a [u8]) -> Option<Self> {
        let literals = Literals::read(block)?;
        let rest = block.get(literals.end..)?;
        let tree = match literals.tree {
            Some(start) => Some(described_tree(block.get(start..literals.end)?)?),
            None => None,
        };
        Some(Self { tree, sequences: sequences(rest)? })
    }
}

/// The end of the literals section, and the start of its tree's description.
struct Literals {
    end: usize,
    tree: Option<usize>,
}

impl Literals {
    fn read(block: &[u8]) -> Option<Self> {
        let first = *block.first()?;
        let kind = first & 3;
        let format = first >> 2 & 3;
        let header = match (kind, format) {
            (0 | 1, 0 | 2) => 1,
            (0 | 1, 1) => 2,
            (0 | 1, _) | (_, 0 | 1) => 3,
            (_, 2) => 4,
            _ => 5,
        };
        let word = block.get(..header)?.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        // Raw literals have one size; compressed ones have the decoded and the stored size.
        let stored = match (kind, header) {
            (0, 1) => word >> 3,
            (0, _) => word >> 4,
            (1, _) => 1,
            (_, 3) => word >> 14,
            (_, 4) => word >> 18,
            _ => word >> 22,
        };
        let end = header.checked_add(usize::try_from(stored).ok()?)?;
        Some(Self { end, tree: (kind == 2).then_some(header) })
    }
}

/// Returns the description of a Huffman tree (RFC 8878, 4.2.1) at the start of `bytes`.
fn described_tree(bytes: &[u8]) -> Option<&[u8]> {
    let first = usize::from(*bytes.first()?);
    // The first byte is the size of compressed weights; plain weights take half a byte each.
    let len = if first < 128 { first } else { (first - 127).div_ceil(2) };
    bytes.get(..1 + len)
}

fn sequences(section: &[u8]) -> Option<Option<Sequences<'_>>> {
    let (&first, rest) = section.split_first()?;
    let (count, rest) = match first {
        0 => return rest.is_empty().then_some(None),
        1..128 => (usize::from(first), rest),
        128..255 => {
            let (&second, rest) = rest.split_first()?;
            (usize::from(first - 128) << 8 | usize::from(second), rest)
        }
        255 => {
            let (two, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*two)) + 0x7f00, rest)
        }
    };
    if count == 0 {
        // Like libzstd, accepts the longer form of a count of 0.
        return rest.is_empty().then_some(None);
    }
    let (&modes, mut rest) = rest.split_first()?;
    let mut found = [Mode::Predefined; 3];
    for ((mode, of), shift) in found.iter_mut().zip(TABLES).zip([6, 4, 2]) {
        *mode = match modes >> shift & 3 {
            0 => Mode::Predefined,
            1 => {
                let (&code, after) = rest.split_first()?;
                rest = after;
                Mode::One(code)
            }
            2 => {
                let (description, after) = rest.split_at_checked(Counts::read(rest, of)?.len)?;
                rest = after;
                Mode::Described(description)
            }
            _ => Mode::Repeat,
        };
    }
    Some(Some(Sequences { count, modes: found, bits: rest }))
}
