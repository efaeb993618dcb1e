//! Recognises a file that has only grown, because its last block is streamed.
//!
//! A program that appends to the stream changes neither the tree nor the header of the block. Both are
//! remembered when the header is first read.

use std::sync::Arc;

use super::AsdfFile;
use super::header::{Header, LONGEST_FIELDS};
use crate::content::Slice;
use crate::format::editor::TextVersion;
use crate::source::{Source, read_up_to};

/// The parts of a file that stay the same while its last block grows.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    tree: TextVersion,
    header: Header,
}

impl AsdfFile {
    /// Remembers the tree and the header of a streamed block.
    pub(super) fn note_growing(&self, header: &Header) {
        self.growing.get_or_init(|| {
            let tree = TextVersion::of(&Slice::new(self.source.clone(), 0, self.head.end)).ok()?;
            Some(Growing { tree, header: header.clone() })
        });
    }

    /// Takes over what an older generation remembered, of which this one is a longer version.
    pub(super) fn grow_on_from(&self, older: &Self) {
        if let Some(growing) = older.growing.get() {
            let _ = self.growing.set(growing.clone());
        }
    }

    /// True if `file` has only grown since; see [`Container::still_has`](crate::format::Container::still_has).
    pub(super) fn has_only_grown(&self, file: &Arc<dyn Source>) -> bool {
        let Some(growing) = self.growing.get().and_then(Option::as_ref) else { return false };
        let tree = Slice::new(file.clone(), 0, self.head.end);
        let offset = growing.header.offset;
        let mut bytes = [0; LONGEST_FIELDS];
        let header = read_up_to(&**file, offset, &mut bytes)
            .and_then(|read| Header::parse(self.head.generation, offset, &bytes[..read]));
        file.stat().is_ok_and(|stat| stat.size >= self.source_stat.size)
            && header.is_ok_and(|header| header == growing.header)
            && TextVersion::of(&tree).is_ok_and(|tree| tree == growing.tree)
    }
}
