//! A block of a file.

use std::sync::Arc;

use asdf_file::container;
use asdf_file::container::{Container, Facts, Verified};
use seekable::content::read_exact_at;
use seekable::error::Result;

/// A block: its facts, and its decoded bytes.
#[derive(Clone, Debug)]
pub struct Block {
    container: Arc<dyn Container>,
    number: usize,
    block: container::Block,
}

impl Block {
    pub(super) fn of(container: &Arc<dyn Container>, number: usize) -> Result<Self> {
        Ok(Self { container: container.clone(), number, block: container.block(number)? })
    }

    /// Returns the number of the block, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the offset of the block in the file.
    pub fn offset(&self) -> u64 {
        self.block.facts.offset
    }

    /// Returns the number of decoded bytes, according to the file.
    pub fn len(&self) -> u64 {
        self.block.content.as_ref().map_or(self.block.facts.data_size, |content| content.len())
    }

    /// True if the block has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the block extends to the end of the file, and grows with it.
    pub fn is_streamed(&self) -> bool {
        self.block.streamed
    }

    /// Returns what the block's header says, by the keys of `blocks.yaml` in a mount, such as `compression`.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.block.facts.iter().map(|fact| (fact.key(), fact.value.to_string()))
    }

    /// Returns the facts with their types.
    pub fn typed_facts(&self) -> &Facts {
        &self.block.facts
    }

    /// Reads decoded bytes from `offset` on into `buf`, and returns how many. Only a read at the end of the
    /// block, or before bytes that can't be decoded, is short.
    ///
    /// # Errors
    /// The bytes at `offset` can't be read or decoded.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let content = self.block.content.as_ref().map_err(Clone::clone)?;
        content.read_at(offset, buf).map_err(|error| error.in_block(self.number as u64))
    }

    /// Reads as many decoded bytes as `buf` holds, like [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// A byte can't be read or decoded, or the block ends before.
    pub fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let content = self.block.content.as_ref().map_err(Clone::clone)?;
        read_exact_at(&**content, offset, buf).map_err(|error| error.in_block(self.number as u64))
    }

    /// Reads the whole block.
    ///
    /// # Errors
    /// A byte can't be read or decoded, or the block does not fit in memory.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let content = self.block.content.as_ref().map_err(Clone::clone)?;
        super::read_all(&**content).map_err(|error| error.in_block(self.number as u64))
    }

    /// Reads the whole block and compares its checksum.
    ///
    /// # Errors
    /// The block can't be read.
    pub fn verify(&self) -> Result<Verified> {
        self.container.verify(self.number)
    }
}
