//! The blocks of Zarr arrays: a map with the number of a block for each chunk, and the chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seekable::content::{Content, ContentWindow, Pieces, Text, read_exact_at};
use seekable::error::{Error, Result};

use super::users::MapUser;
use super::{NewBlock, NewData};
use crate::asdf::view::AsdfFile;

/// Maximum number of chunks of all Zarr arrays.
const MAX_CHUNKS: usize = 16 << 20;

/// The blocks of all Zarr arrays.
#[derive(Debug, Default)]
pub(super) struct ChunkMaps {
    /// The numbers in each block that is a map.
    maps: BTreeMap<usize, Vec<i32>>,
    /// The blocks that are chunks.
    chunks: BTreeSet<usize>,
    /// The chunks that the array itself has compressed.
    encoded: BTreeSet<usize>,
}

impl ChunkMaps {
    pub(super) fn read(file: &AsdfFile, users: &[MapUser]) -> Result<Self> {
        let mut maps = Self::default();
        let count = file.block_count()?;
        for user in users {
            let in_map = |error: Error| error.in_block(user.block as u64);
            let known = maps.maps.values().map(Vec::len).sum::<usize>();
            let chunks = usize::try_from(user.chunks)
                .ok()
                .filter(|chunks| *chunks <= MAX_CHUNKS - known.min(MAX_CHUNKS));
            let chunks = chunks.ok_or_else(|| Error::unsupported("the Zarr arrays have too many chunks"))?;
            let mut bytes = vec![0; chunks * 4];
            let content = file.block(user.block)?.content?;
            read_exact_at(&*content, 0, &mut bytes).map_err(in_map)?;
            let numbers: Vec<i32> =
                bytes.as_chunks::<4>().0.iter().map(|number| i32::from_le_bytes(*number)).collect();
            for number in numbers.iter().filter(|number| **number >= 0) {
                let block = usize::try_from(*number).ok().filter(|block| *block < count);
                let no_block = || Error::damaged(format!("it names block {number}, which does not exist"));
                let block = block.ok_or_else(|| in_map(no_block()))?;
                maps.chunks.insert(block);
                if user.blocks.compressor.is_some() {
                    maps.encoded.insert(block);
                }
            }
            let longest = maps.maps.entry(user.block).or_default();
            if longest.len() < numbers.len() {
                *longest = numbers;
            }
        }
        Ok(maps)
    }

    /// True if a block is a map or a chunk, and is therefore kept as it is.
    pub(super) fn is_used(&self, block: usize) -> bool {
        self.chunks.contains(&block) || self.is_map(block)
    }

    pub(super) fn is_map(&self, block: usize) -> bool {
        self.maps.contains_key(&block)
    }

    /// True if the data of a block are compressed without its header saying so.
    pub(super) fn is_encoded(&self, block: usize) -> bool {
        self.encoded.contains(&block)
    }

    /// Writes the new numbers of the chunks' blocks into the maps. `numbers` leads from an old number to the new one.
    pub(super) fn renumber(&self, numbers: &BTreeMap<usize, usize>, blocks: &mut [NewBlock]) -> Result<()> {
        let new = |old: &i32| {
            let number = usize::try_from(*old).ok().and_then(|old| numbers.get(&old));
            number.and_then(|number| i32::try_from(*number).ok()).unwrap_or(*old)
        };
        for (block, old) in &self.maps {
            let Some(made) = numbers.get(block).and_then(|number| blocks.get_mut(*number)) else { continue };
            let map: Vec<u8> = old.iter().flat_map(|old| new(old).to_le_bytes()).collect();
            // A map is not copied as it is stored.
            if let NewData::Encoded { decoded, .. } = &mut made.data {
                let len = map.len() as u64;
                let rest = ContentWindow::new(decoded.clone(), len, decoded.len().saturating_sub(len));
                *decoded =
                    Arc::new(Pieces::new([Arc::new(Text::new(map)) as Arc<dyn Content>, Arc::new(rest)])?);
            }
        }
        Ok(())
    }
}
