//! What a zstd decoder remembers from block to block, and a dictionary that says it to libzstd.
//!
//! A block may be decoded with the Huffman tree and the FSE tables of blocks before it, with the last three
//! offsets, and with the output before it, as far as the window reaches. A dictionary (RFC 8878, 5) has just
//! that, its tables described in the same words as in a block:
//!
//! ```text
//! [ magic: u32 ][ id: u32 ][ Huffman tree ][ offsets ][ match lengths ][ literal lengths ]
//! [ repeated offsets: 3 × u32 ][ content: the output ]
//! ```
//!
//! So the descriptions are copied from the blocks. The offsets have to be followed through the sequences of
//! the blocks (`sequences.rs`); that is done for a few blocks before a place only, for after three real
//! offsets it is the same whatever was before.
//!
//! Whatever is found broken here makes it forget all up to the next frame: what is broken indeed libzstd
//! says.

use super::block::{Mode, Sections, Sequences};
use super::fse::{Counts, Of, Table};
use super::sequences::{self, Offsets};

/// What a dictionary begins with, and an id.
const MAGIC: u32 = 0xEC30_A437;
const ID: u32 = 1;

/// Sequences of a block that cost next to nothing to follow. Where there are no more, many blocks may have none.
const FEW: usize = 200;

/// A Huffman tree for two literals, where no block has given one: it is never used.
const ANY_TREE: &[u8] = &[0x80, 0x10];

/// What is remembered at a place between two blocks.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Something was not understood.
    lost: bool,
    /// The description of the last tree.
    tree: Option<Box<[u8]>>,
    /// The last tables: literal lengths, offsets, match lengths.
    tables: [TableDescription; 3],
    offsets: Offsets,
    /// The last block with sequences, if those were left for later; the offsets are those before it.
    unread: Option<Box<[u8]>>,
}

/// What is done about the offsets of a block's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Now,
    /// When they are asked for, if no other block with sequences comes before.
    Later,
    /// Not at all, unless they are so few that it costs nothing.
    Not,
}

/// What is known of a table.
#[derive(Clone, Debug)]
enum TableDescription {
    /// It was not used yet.
    Unused,
    Predefined,
    One(u8),
    Described(Box<[u8]>),
}

impl Default for Memory {
    /// What is known at the start of a frame.
    fn default() -> Self {
        let tables = [const { TableDescription::Unused }; 3];
        Self { lost: false, tree: None, tables, offsets: Offsets::FIRST, unread: None }
    }
}

impl Memory {
    /// Goes on over a compressed block.
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

    /// Follows the sequences that were left; the tables are still theirs, as only such a block has others.
    fn read_later(&mut self) -> Option<()> {
        let Some(block) = self.unread.take() else { return Some(()) };
        self.pass_sequences(&Sections::read(&block)?.sequences?)
    }

    fn pass_sequences(&mut self, sequences: &Sequences<'_>) -> Option<()> {
        let [lengths, offsets, matches] = &self.tables;
        let tables = [
            lengths.table(Of::LiteralLengths)?,
            offsets.table(Of::Offsets)?,
            matches.table(Of::MatchLengths)?,
        ];
        self.offsets = sequences::follow(sequences, &tables, self.offsets)?;
        Some(())
    }

    /// The head of a dictionary with which libzstd decodes on from here, its content being the output before
    /// it; `next` is the compressed block that follows, if it is one. `None` where there is no such
    /// dictionary.
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
        dictionary.extend_from_slice(codes.description(Of::Offsets));
        dictionary.extend_from_slice(matches.description(Of::MatchLengths));
        dictionary.extend_from_slice(lengths.description(Of::LiteralLengths));
        offsets.iter().for_each(|offset| dictionary.extend_from_slice(&offset.to_le_bytes()));
        Some(dictionary)
    }
}

/// Whether no table of one code, which a dictionary can't have, can be used again behind a block.
fn redefines(block: &[u8]) -> Option<bool> {
    let sequences = Sections::read(block)?.sequences?;
    Some(!sequences.modes.contains(&Mode::Repeat))
}

impl TableDescription {
    fn table(&self, of: Of) -> Option<Table> {
        match self {
            Self::Unused => None,
            Self::Predefined => Table::new(&Counts::read(of.predefined(), of)?),
            Self::One(code) => Some(Table::of_one(*code)),
            Self::Described(bytes) => Table::new(&Counts::read(bytes, of)?),
        }
    }

    /// Its description; any description for a table that is never used.
    fn description(&self, of: Of) -> &[u8] {
        match self {
            Self::Described(bytes) => bytes,
            Self::Unused | Self::Predefined | Self::One(_) => of.predefined(),
        }
    }
}
