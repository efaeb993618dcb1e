//! Recognises a file that has only grown, because its last block is streamed.
//!
//! A program that appends to the stream changes neither the tree nor the header of the block. Both are
//! remembered when the header is first read.

use std::sync::Arc;

use super::head::Head;
use super::header::{Header, MAX_FIELDS};
use crate::content::Slice;
use crate::format::editor::TextVersion;
use crate::source::{Source, read_up_to};

/// The parts of a file that stay the same while its last block grows.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    tree: TextVersion,
    header: Header,
}

impl Growing {
    /// Remembers the tree, which ends at `tree_end`, and the header of a streamed block.
    pub(super) fn of(source: &Arc<dyn Source>, tree_end: u64, header: &Header) -> Option<Self> {
        let tree = TextVersion::of(&Slice::new(source.clone(), 0, tree_end)).ok()?;
        Some(Self { tree, header: header.clone() })
    }

    /// True if `file` has the same tree and header. `head` is the head of the older file.
    pub(super) fn is_in(&self, file: &Arc<dyn Source>, head: &Head) -> bool {
        let offset = self.header.offset;
        let mut bytes = [0; MAX_FIELDS];
        let header = read_up_to(&**file, offset, &mut bytes)
            .and_then(|read| Header::parse(head.generation, offset, &bytes[..read]));
        header.is_ok_and(|header| header == self.header)
            && TextVersion::of(&Slice::new(file.clone(), 0, head.end)).is_ok_and(|tree| tree == self.tree)
    }
}
