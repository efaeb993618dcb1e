//! The chunks of an array that are blocks.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use lru::LruCache;
use seekable::codec::blosc::{HEADER_SIZE, OneBuffer, Payload, header};
use seekable::codec::{self, Codec};
use seekable::content::{Content, Pieces, Text, read_exact_at};
use seekable::error::{Error, Result};
use seekable::sync::locked;

use super::super::ndarray::Source;
use super::super::ndarray::chunked::{ChunkBlocks, Compressor};
use super::super::view::AsdfFile;
use crate::array::{Gather, GridChunks};

/// Maximum number of chunks of an array that are kept open.
const MAX_OPEN: usize = 64;
/// Length of a number in the map of chunks.
const NUMBER: usize = 4;
/// The number of a chunk that is not there.
const MISSING: i32 = -1;

/// Returns the chunks of an array that are blocks. `item` is the size of an element.
pub(super) fn in_blocks(
    file: &Arc<AsdfFile>,
    blocks: &ChunkBlocks,
    item: u64,
) -> Result<Arc<dyn GridChunks>> {
    let len = blocks.shape.iter().try_fold(item, |len, one| len.checked_mul(*one));
    let len = len.ok_or_else(|| Error::damaged("a chunk of the array is too large"))?;
    let open = Mutex::new(LruCache::new(NonZeroUsize::new(MAX_OPEN).unwrap_or(NonZeroUsize::MIN)));
    Ok(Arc::new(StoredChunks { file: file.clone(), blocks: blocks.clone(), len, item, open }))
}

/// Returns the number of the block of chunk `n`, in C order; `None` if the chunk is not there.
pub fn block_of_chunk(file: &AsdfFile, blocks: &ChunkBlocks, n: u64) -> Result<Option<usize>> {
    let count = file.block_count()?;
    let map = Source::Block(blocks.map).block(count);
    let map = map.ok_or_else(|| Error::damaged("the block with the numbers of the chunks does not exist"))?;
    let mut number = [0; NUMBER];
    read_exact_at(&*file.block(map)?.content?, n.saturating_mul(NUMBER as u64), &mut number)?;
    match i32::from_le_bytes(number) {
        MISSING => Ok(None),
        block => match usize::try_from(block) {
            Ok(block) if block < count => Ok(Some(block)),
            _ => {
                Err(Error::damaged(format!("a chunk of the array is in block {block}, which does not exist")))
            }
        },
    }
}

/// Chunks in blocks.
#[derive(Debug)]
struct StoredChunks {
    file: Arc<AsdfFile>,
    blocks: ChunkBlocks,
    /// Length of a chunk in bytes.
    len: u64,
    /// Length of an element in bytes.
    item: u64,
    open: Mutex<LruCache<usize, Arc<dyn Content>>>,
}

impl StoredChunks {
    fn opened(&self, number: usize) -> Result<Arc<dyn Content>> {
        let stored = self.file.block(number)?.content?;
        let cache = &self.file.context.cache;
        let content = match self.blocks.compressor {
            None => stored,
            Some(Compressor::OfBlocks(Codec::Blosc)) => {
                let mut bytes = [0; HEADER_SIZE as usize];
                read_exact_at(&*stored, 0, &mut bytes)?;
                let header = header::Header::parse(&bytes)?;
                if u64::from(header.nbytes()) != self.len {
                    let what = format!("a chunk takes {} bytes, not {}", header.nbytes(), self.len);
                    return Err(Error::damaged(what));
                }
                let buffer = Arc::new(OneBuffer { stored, at: 0, header });
                return Ok(Payload::new(buffer, self.len, cache).content());
            }
            Some(Compressor::OfBlocks(codec)) => codec::open(codec, stored, self.len, cache)?,
            Some(Compressor::Gzip) => codec::open_gzip(stored, self.len, cache)?,
            Some(Compressor::Lz4Block) => {
                // With its length before it, the block is a piece of ASDF's framing.
                let Ok(stored_len) = u32::try_from(stored.len()) else {
                    return Err(Error::damaged("a chunk of the array is longer than an LZ4 block can be"));
                };
                let before: Arc<dyn Content> = Arc::new(Text::new(stored_len.to_be_bytes().to_vec()));
                let piece = Arc::new(Pieces::new([before, stored])?);
                codec::open(Codec::Lz4, piece, self.len, cache)?
            }
        };
        if content.len() < self.len {
            let what = format!(
                "a chunk of the array takes {} bytes, but block {number} has {}",
                self.len,
                content.len()
            );
            return Err(Error::damaged(what));
        }
        Ok(content)
    }
}

impl GridChunks for StoredChunks {
    fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>> {
        let Some(number) = block_of_chunk(&self.file, &self.blocks, n)? else {
            let unknown = "a chunk of the array is not there, and its fill value is none that is read here";
            return self.blocks.fill.as_ref().map(|_| None).ok_or_else(|| Error::unsupported(unknown));
        };
        if let Some(open) = locked(&self.open).get(&number) {
            return Ok(Some(open.clone()));
        }
        let mut content = self.opened(number)?;
        if self.blocks.is_fortran {
            content = Arc::new(Gather::in_c_order(content, self.item, &self.blocks.shape)?);
        }
        locked(&self.open).put(number, content.clone());
        Ok(Some(content))
    }
}
