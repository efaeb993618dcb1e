//! The defects of ASDF files, and their messages.

use std::fmt;

use seekable::error::Error;

use crate::container::{self, Severity};

/// A defect with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AsdfDefect {
    /// The header line names a version above 1.x.
    NewerVersion(String),
    /// The header line names no version.
    NoVersion(String),
    /// The header line has no end.
    EndlessHeaderLine,
    /// A comment before the tree has no end.
    EndlessComment,
    /// The tree has no end.
    EndlessTree(TreeCut),
    /// The file has more blocks than can be shown.
    TooManyBlocks(usize),
    /// A block's header can't be read.
    Header(Error),
    /// The data of a block can't be read.
    Data(Error),
    /// The tree is not valid YAML.
    NotYaml(Error),
    /// The tree exceeds a limit of this program.
    UncheckedTree(Error),
    /// The tree has an array in a block that does not exist.
    MissingBlock {
        /// The number of the block.
        block: i64,
        /// The number of the last block.
        last: Option<usize>,
    },
    /// The flags have unknown bits.
    UnknownFlags(u32),
    /// A block is flagged as streamed, but other data follow the end that its size gives.
    StreamEnds {
        /// The block's `allocated_size`.
        allocated_size: u64,
    },
    /// `header_size` does not lead to the data.
    HeaderSize(u16),
    /// More bytes are used than allocated.
    UsedSize {
        /// The block's `used_size`.
        used: u64,
        /// The block's `allocated_size`.
        allocated: u64,
    },
    /// A block is not compressed, but its `data_size` differs from its `used_size`.
    DataSize {
        /// The block's `data_size`.
        data: u64,
        /// The block's `used_size`.
        used: u64,
    },
    /// A block or the index begins inside the allocated space.
    AllocatedSize(u64),
    /// The file ends within a block.
    CutBlock {
        /// Bytes of the block that are there.
        there: u64,
        /// Bytes that should be there.
        size: u64,
        /// True if data are missing, or other programs can't read the file. False if only unused space is
        /// missing.
        lost: bool,
    },
    /// Padding lies between two blocks.
    Padding(u64),
    /// The padding holds a block's magic.
    MagicInPadding,
    /// Bytes that belong to no block precede a block that the index lists.
    BridgedBytes,
    /// The header of a block that the index lists is damaged. The texts describe further defects of the
    /// block.
    LostBlock(Vec<String>),
    /// The next block or the index is not where it should be: the block has lost or gained bytes.
    Shifted {
        /// The actual offset of the next block or the index.
        at: u64,
        /// The expected offset, computed from the block's header or the index.
        expected: u64,
    },
    /// Another ASDF file follows.
    AnotherFile,
    /// After the last block comes a further block whose header is damaged. The number is the count of bytes
    /// that can't be read.
    LostTail(u64),
    /// Bytes that belong to no block follow the last block, then a further block.
    JunkBeforeBlock {
        /// The number of bytes that belong to no block.
        bytes: u64,
        /// The offset of the further block.
        at: u64,
    },
    /// Bytes that belong to no block follow the last block.
    TrailingBytes(u64),
    /// The file has an index but no blocks.
    IndexWithoutBlocks,
    /// The index can't be read.
    BadIndex(String),
    /// The index is not in ascending order.
    UnsortedIndex,
    /// The index lists another offset for a block than the chain.
    StaleOffset {
        /// The number of the first such block.
        block: usize,
        /// The offset in the index.
        listed: u64,
        /// The actual offset.
        found: u64,
    },
    /// The index lists another number of blocks than there are.
    StaleCount {
        /// The number of blocks in the index.
        listed: usize,
        /// The number of blocks in the file.
        found: usize,
    },
}

/// The place where the search for the end of the tree stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeCut {
    /// A byte that is not text.
    Binary,
    /// The limit of 4 GiB.
    TooLong,
    /// The end of the file.
    EndOfFile,
}

impl AsdfDefect {
    /// Converts the defect to the common form, with its offset in the file and, if given, its block.
    pub(crate) fn at(&self, offset: u64, block: Option<usize>) -> container::Defect {
        container::Defect { severity: self.severity(), offset, block, what: self.to_string() }
    }

    fn severity(&self) -> Severity {
        match self {
            Self::EndlessHeaderLine
            | Self::EndlessComment
            | Self::EndlessTree(_)
            | Self::TooManyBlocks(_)
            | Self::NotYaml(_)
            | Self::MissingBlock { .. }
            | Self::StreamEnds { .. }
            | Self::HeaderSize(_)
            | Self::UsedSize { .. }
            | Self::AllocatedSize(_)
            | Self::CutBlock { lost: true, .. }
            | Self::LostBlock(_)
            | Self::Shifted { .. }
            | Self::LostTail(_)
            | Self::JunkBeforeBlock { .. } => Severity::Damage,
            Self::Header(error) | Self::Data(error) => Severity::of(error),
            Self::NewerVersion(_)
            | Self::NoVersion(_)
            | Self::UncheckedTree(_)
            | Self::UnknownFlags(_)
            | Self::DataSize { .. }
            | Self::CutBlock { lost: false, .. }
            | Self::Padding(_)
            | Self::MagicInPadding
            | Self::BridgedBytes
            | Self::AnotherFile
            | Self::TrailingBytes(_)
            | Self::IndexWithoutBlocks
            | Self::BadIndex(_)
            | Self::UnsortedIndex
            | Self::StaleOffset { .. }
            | Self::StaleCount { .. } => Severity::Note,
        }
    }

    /// Writes the message of a defect in a block or between blocks.
    fn write_of_block(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBlocks(most) => {
                write!(out, "there are more than {most} blocks; the rest is not shown")
            }
            Self::Header(error) | Self::Data(error) => out.write_str(&error.message_in_block()),
            Self::UnknownFlags(flags) => {
                write!(out, "the flags {flags:#x} have bits that no version of ASDF knows")
            }
            Self::StreamEnds { allocated_size } => write!(
                out,
                "the flags say that the data reach to the end of the file, but allocated_size is \
                 {allocated_size}, and something follows there"
            ),
            Self::HeaderSize(size) => {
                write!(
                    out,
                    "header_size is {size}, but the data and the next block are where another header_size puts them"
                )
            }
            Self::UsedSize { used, allocated } => {
                write!(out, "used_size {used} is more than allocated_size {allocated}")
            }
            Self::DataSize { data, used } => {
                write!(out, "data_size is {data}, but {used} bytes are stored uncompressed; these are shown")
            }
            Self::AllocatedSize(size) => {
                write!(out, "allocated_size is {size}, but something follows the data")
            }
            Self::CutBlock { there, size, .. } => {
                write!(out, "the file is cut off: {there} bytes of the block's {size} are there")
            }
            Self::Padding(bytes) => write!(out, "{bytes} bytes of padding before the next block"),
            Self::LostBlock(further) => {
                out.write_str("the block index lists a block here, but its header is damaged")?;
                if further.is_empty() { Ok(()) } else { write!(out, ": {}", further.join("; ")) }
            }
            Self::Shifted { at, expected } => {
                let what = if at < expected { "short" } else { "long" };
                let bytes = at.abs_diff(*expected);
                write!(
                    out,
                    "it is {bytes} bytes too {what}: the next block or index should be at {expected}, and is at {at}"
                )
            }
            other => other.write_of_file(out),
        }
    }

    /// Writes the message of a defect in the head, in the index, or after the blocks.
    fn write_of_file(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerVersion(version) => {
                write!(out, "version {} is newer than 1.x and is read as that", version.escape_debug())
            }
            Self::NoVersion(word) => {
                write!(out, "the header line has no version: \"{}\"", word.escape_debug())
            }
            Self::NotYaml(error) => write!(out, "the tree is not valid YAML: {}", error.message()),
            Self::UncheckedTree(error) => {
                write!(out, "the tree is too complex to be checked: {}", error.message())
            }
            Self::MissingBlock { block, last: None } => {
                write!(
                    out,
                    "the tree has an array in block {block}, but there are no blocks: the file is a tree alone"
                )
            }
            Self::MissingBlock { block, last: Some(last) } => {
                write!(out, "the tree has an array in block {block}, but the last block is {last}")
            }
            Self::EndlessTree(cut) => out.write_str(match cut {
                TreeCut::Binary => "the tree has no line '...': a block or binary data begins before one",
                TreeCut::TooLong => "the tree has no line '...' within 4 GiB",
                TreeCut::EndOfFile => "the file ends within the tree: there is no line '...'",
            }),
            Self::LostTail(bytes) => {
                write!(out, "the header of a further block is damaged: {bytes} bytes can't be read")
            }
            Self::JunkBeforeBlock { bytes, at } => write!(
                out,
                "{bytes} bytes follow that belong to no block, then at {at} a block whose number is unknown"
            ),
            Self::TrailingBytes(bytes) => {
                write!(out, "{bytes} bytes follow the last block that are neither a block nor an index")
            }
            Self::BadIndex(why) => write!(out, "the block index can't be read: {why}"),
            Self::StaleOffset { block, listed, found } => write!(
                out,
                "the block index is stale: it says {listed} for block {block}, which is at {found}"
            ),
            Self::StaleCount { listed, found } => {
                write!(out, "the block index is stale: it lists {listed} blocks of {found}")
            }
            other => out.write_str(other.fixed_words()),
        }
    }

    /// Returns the message of a defect without details.
    fn fixed_words(&self) -> &'static str {
        match self {
            Self::EndlessHeaderLine => "the header line does not end: the file is cut off, or is not text",
            Self::EndlessComment => {
                "a comment does not end: the file is cut off, or binary data begin within it"
            }
            Self::MagicInPadding => {
                "the padding holds a block's magic: other programs may take it for the first block"
            }
            Self::BridgedBytes => {
                "bytes that belong to no block follow; the block index says where the next one is"
            }
            Self::AnotherFile => "another ASDF file begins here; only the first one is shown",
            Self::IndexWithoutBlocks => "there is a block index, but there are no blocks",
            Self::UnsortedIndex => "the block index is stale: its offsets are not in ascending order",
            _ => "",
        }
    }
}

impl fmt::Display for AsdfDefect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_of_block(out)
    }
}
