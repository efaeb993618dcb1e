//! Recognises a file that has only grown, because its last block is streamed.
//!
//! A program that appends to the stream changes neither the tree, nor the header of the block, nor the data so far. Tree
//! and header are remembered when the header is first read, and a sample of the data in each version: a program that
//! truncates the file and writes it anew may write the same tree.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use seekable::error::Result;
use seekable::source::{Source, read_up_to};

use seekable::content::Slice;

use super::head::Head;
use super::header::{Header, MAX_FIELDS};
use crate::container::text_version::TextVersion;

/// Number of pieces of the data that are sampled, at equal distances from the first to the last byte, and bytes in each.
const PIECES: u64 = 16;
const PIECE: u64 = 4096;

/// The parts of a file that stay the same while its last block grows.
#[derive(Clone, Debug)]
pub(crate) struct Growing {
    tree: TextVersion,
    header: Header,
    data: DataSample,
}

/// A hash of pieces of the data in a range of the file; `None` if reading them is slow.
#[derive(Clone, Debug)]
struct DataSample {
    range: Range<u64>,
    hash: Option<u64>,
}

impl DataSample {
    fn of(source: &Arc<dyn Source>, range: Range<u64>) -> Result<Self> {
        let hash = if source.is_slow() { None } else { Some(hash(&**source, &range)?) };
        Ok(Self { range, hash })
    }

    fn is_in(&self, file: &Arc<dyn Source>) -> bool {
        self.hash.is_none_or(|known| hash(&**file, &self.range).is_ok_and(|now| now == known))
    }
}

fn hash(source: &dyn Source, range: &Range<u64>) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let len = range.end.saturating_sub(range.start);
    let last = len.saturating_sub(PIECE);
    for n in 0..PIECES {
        let at = if n + 1 == PIECES { last } else { last / (PIECES - 1) * n };
        let mut piece = [0; PIECE as usize];
        let piece = &mut piece[..len.min(PIECE) as usize];
        let read = read_up_to(source, range.start + at, piece)?;
        piece[..read].hash(&mut hasher);
    }
    Ok(hasher.finish())
}

impl Growing {
    /// Remembers the tree, which ends at `tree_end`, and the header and data of a streamed block, in a file of `size` bytes.
    pub(crate) fn of(source: &Arc<dyn Source>, tree_end: u64, header: &Header, size: u64) -> Option<Self> {
        let tree = TextVersion::of(&Slice::new(source.clone(), 0, tree_end)).ok()?;
        let data = DataSample::of(source, header.data_offset()..size).ok()?;
        Some(Self { tree, header: header.clone(), data })
    }

    /// Returns what is to be remembered of a later version of the file, `size` bytes long, with more data.
    pub(crate) fn grown(&self, source: &Arc<dyn Source>, size: u64) -> Option<Self> {
        let data = DataSample::of(source, self.data.range.start..size).ok()?;
        Some(Self { data, ..self.clone() })
    }

    /// True if `file` has the same tree, header and data. `head` is the head of the older file.
    pub(crate) fn is_in(&self, file: &Arc<dyn Source>, head: &Head) -> bool {
        let offset = self.header.offset;
        let mut bytes = [0; MAX_FIELDS];
        let header = read_up_to(&**file, offset, &mut bytes)
            .and_then(|read| Header::parse(head.generation, offset, &bytes[..read]));
        header.is_ok_and(|header| header == self.header)
            && TextVersion::of(&Slice::new(file.clone(), 0, head.end)).is_ok_and(|tree| tree == self.tree)
            && self.data.is_in(file)
    }
}
