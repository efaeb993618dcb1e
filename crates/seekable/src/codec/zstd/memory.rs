//! The state that a zstd decoder keeps from block to block, and a dictionary that gives it to libzstd.
//!
//! A block may refer to the Huffman tree and the FSE tables of earlier blocks, to the last three offsets, and
//! to the preceding output within the window. A dictionary (RFC 8878, 5) holds just this state, and describes
//! the tables in the format that blocks use:
//!
//! ```text
//! [ magic: u32 ][ id: u32 ][ Huffman tree ][ offsets ][ match lengths ][ literal lengths ]
//! [ repeated offsets: 3 × u32 ][ content: the output ]
//! ```
//!
//! The descriptions are therefore copied from the blocks. The offsets have to be followed through the
//! sequences of the blocks (`sequences.rs`). This is done only for a few blocks before a checkpoint: after
//! three new offsets, earlier ones no longer matter.
//!
//! If anything is found broken here, all state is dropped up to the next frame. The verdict on damage is
//! libzstd's.

use super::block::{Mode, Sections, Sequences};
use super::fse::{CodeKind, Counts, Table};
use super::sequences::{self, Offsets};

/// Magic of a dictionary, and our id.
const MAGIC: u32 = 0xEC30_A437;
const ID: u32 = 1;

/// Up to this number, the sequences of a block are always followed, at next to no cost. Blocks with so few
/// may be followed by many blocks without sequences, which leave the offsets unchanged.
const FEW: usize = 200;

/// A Huffman tree for two literals, for dictionaries before the first block with a tree. No block refers to
/// it.
const ANY_TREE: &[u8] = &[0x80, 0x10];

/// The decoder state between two blocks.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// True if the state is unknown because a block was not understood.
    lost: bool,
    /// Description of the last Huffman tree.
    tree: Option<Box<[u8]>>,
    /// The last tables: literal lengths, offsets, match lengths.
    tables: [TableDescription; 3],
    offsets: Offsets,
    /// The last block with sequences, if they are still to be followed; `offsets` are those before it.
    unread: Option<Box<[u8]>>,
}

/// The treatment of the offsets of a block's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Now,
    /// When the offsets are asked for, unless another block with sequences comes first.
    Later,
    /// Skipped, unless the sequences are few.
    Not,
}

/// The description of a table.
#[derive(Clone, Debug)]
enum TableDescription {
    /// Not used yet.
    Unused,
    Predefined,
    One(u8),
    Described(Box<[u8]>),
}

impl Default for Memory {
    /// Returns the state at the start of a frame.
    fn default() -> Self {
        let tables = [const { TableDescription::Unused }; 3];
        Self { lost: false, tree: None, tables, offsets: Offsets::FIRST, unread: None }
    }
}

impl Memory {
    /// Updates the state after a compressed block.
    pub(super) fn pass(&mut self, block: &[u8], follow: Follow) {
        if !self.lost {
            self.lost = self.pass_sections(block, follow).is_none();
        }
    }

    fn pass_sections(&mut self, block: &[u8], follow: Follow) -> Option<()> {
        let sections = Sections::read(block)?;
        if let Some(tree) = sections.tree {
            self.tree = Some(tree.into());
        }
        let Some(sequences) = sections.sequences else { return Some(()) };
        for (known, mode) in self.tables.iter_mut().zip(sequences.modes) {
            match mode {
                Mode::Predefined => *known = TableDescription::Predefined,
                Mode::One(code) => *known = TableDescription::One(code),
                Mode::Described(bytes) => *known = TableDescription::Described(bytes.into()),
                Mode::Repeat => {}
            }
        }
        if self.unread.take().is_some() {
            self.offsets = Offsets::UNKNOWN;
        }
        match follow {
            _ if sequences.count <= FEW => return self.pass_sequences(&sequences),
            Follow::Now => return self.pass_sequences(&sequences),
            Follow::Later => self.unread = Some(block.into()),
            Follow::Not => self.offsets = Offsets::UNKNOWN,
        }
        Some(())
    }

    /// Follows the postponed sequences. The tables are still those of these sequences, because only a block
    /// with sequences changes them.
    fn read_later(&mut self) -> Option<()> {
        let Some(block) = self.unread.take() else { return Some(()) };
        self.pass_sequences(&Sections::read(&block)?.sequences?)
    }

    fn pass_sequences(&mut self, sequences: &Sequences<'_>) -> Option<()> {
        let [lengths, offsets, matches] = &self.tables;
        let tables = [
            lengths.table(CodeKind::LiteralLengths)?,
            offsets.table(CodeKind::Offsets)?,
            matches.table(CodeKind::MatchLengths)?,
        ];
        self.offsets = sequences::follow(sequences, &tables, self.offsets)?;
        Some(())
    }

    /// Returns the head of a dictionary with which libzstd can decode from here on. Its `content` is the
    /// preceding output; `next` is the next block, if it is a compressed one. `None` if no dictionary can
    /// give this state.
    pub(super) fn head(&mut self, content: &[u8], next: Option<&[u8]>) -> Option<Vec<u8>> {
        self.lost |= self.read_later().is_none();
        let offsets = self.offsets.known().filter(|_| !self.lost)?;
        if offsets.iter().any(|offset| *offset == 0 || u64::from(*offset) > content.len() as u64) {
            return None;
        }
        let [lengths, codes, matches] = &self.tables;
        if [lengths, codes, matches].iter().any(|known| matches!(known, TableDescription::One(_)))
            && !redefines(next?)?
        {
            return None;
        }
        let mut dictionary = Vec::new();
        dictionary.extend_from_slice(&MAGIC.to_le_bytes());
        dictionary.extend_from_slice(&ID.to_le_bytes());
        dictionary.extend_from_slice(self.tree.as_deref().unwrap_or(ANY_TREE));
        dictionary.extend_from_slice(codes.description(CodeKind::Offsets));
        dictionary.extend_from_slice(matches.description(CodeKind::MatchLengths));
        dictionary.extend_from_slice(lengths.description(CodeKind::LiteralLengths));
        for offset in &offsets {
            dictionary.extend_from_slice(&offset.to_le_bytes());
        }
        Some(dictionary)
    }
}

/// True if a block reuses no table. A table of a single code can't be in a dictionary.
fn redefines(block: &[u8]) -> Option<bool> {
    let sequences = Sections::read(block)?.sequences?;
    Some(!sequences.modes.contains(&Mode::Repeat))
}

impl TableDescription {
    fn table(&self, of: CodeKind) -> Option<Table> {
        match self {
            Self::Unused => None,
            Self::Predefined => Table::new(&Counts::read(of.predefined(), of)?),
            Self::One(code) => Some(Table::of_one(*code)),
            Self::Described(bytes) => Table::new(&Counts::read(bytes, of)?),
        }
    }

    /// Returns the table's description, or any description for a table that is never used.
    fn description(&self, of: CodeKind) -> &[u8] {
        match self {
            Self::Described(bytes) => bytes,
            Self::Unused | Self::Predefined | Self::One(_) => of.predefined(),
        }
    }
}
