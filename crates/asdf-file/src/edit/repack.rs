//! Makes a tidy file of a sound one, for `--repack`.
//!
//! [`Repack::plan`] finds the arrays of the tree, and the bytes that they take of each block. [`Repack::write`] writes the
//! new file: header line, comments and tree, padding, the blocks without gaps, the index. Blocks that no array uses are
//! left out. A block of which arrays take separate parts becomes several blocks, and the elements of an array with gaps
//! between them are written without the gaps. The text of the tree differs only in the numbers of `source`, `offset`,
//! `strides` and `chunk_block_map`.

mod chunk_maps;
mod old_block;
mod pieces;
mod users;

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use md5::{Digest, Md5};
use seekable::codec::Codec;
use seekable::codec::encode::encode;
use seekable::content::{Content, each_piece, read_exact_at};
use seekable::error::{Error, Kind, Result};
use serde::Serialize;

use super::index;
use super::plan::usual_padding;
use super::repair::remade;
use crate::asdf::header::{MAX_FIELDS, header_bytes};
use crate::asdf::stored::label_of;
use crate::container::Container;
use chunk_maps::ChunkMaps;
use old_block::OldBlock;
use pieces::divide;
use users::{ArrayUser, NewNumbers};

/// The codec of the new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewCodec {
    /// Each block has the codec of the old one.
    Kept,
    /// No block is compressed.
    None,
    /// All blocks have this codec.
    Of(Codec),
}

/// The plan of a tidy file.
#[derive(Debug, Default)]
pub struct Repack {
    text: Vec<u8>,
    padding: u64,
    blocks: Vec<NewBlock>,
    /// The changes of blocks that do not stay as they are.
    pub changes: Vec<BlockChange>,
    /// True if the tree names other files by relative paths, which lead to them only from the same directory.
    pub refers_beside: bool,
}

/// The change of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockChange {
    /// The number of the block in the old file.
    pub block: usize,
    /// The change, in words.
    pub what: String,
}

/// A block of the new file.
#[derive(Clone, Debug)]
struct NewBlock {
    data: NewData,
    streamed: bool,
}

#[derive(Clone, Debug)]
enum NewData {
    /// Stored bytes of the old file, with their label and their decoded size.
    Copied { stored: Arc<dyn Content>, label: Vec<u8>, size: u64 },
    /// Decoded bytes, and the codec that they get, with the length of its parts.
    Encoded { decoded: Arc<dyn Content>, codec: Option<Codec>, part: u64 },
}

impl NewBlock {
    fn bytes(&self) -> &Arc<dyn Content> {
        match &self.data {
            NewData::Copied { stored, .. } => stored,
            NewData::Encoded { decoded, .. } => decoded,
        }
    }
}

impl Repack {
    /// Plans the new file of a sound one. Only headers, and the maps of Zarr arrays, are read. `padding` is the number of
    /// bytes after the tree, by default as many as in the old file, but no more than a save leaves.
    ///
    /// # Errors
    /// The file is not one that can be repacked, or can't be read now. The message says what to do.
    pub fn plan(container: &dyn Container, codec: NewCodec, padding: Option<u64>) -> Result<Self> {
        let file = remade(container, "repacked")?;
        let count = file.block_count()?;
        let mut text = vec![0; usize::try_from(file.head.end).unwrap_or(usize::MAX)];
        read_exact_at(&*file.tree(), 0, &mut text)?;
        let users = users::find(&text, count)?;
        if count > 0 && users.arrays.is_empty() && users.maps.is_empty() {
            let what =
                "no array of the tree is in a block: the blocks may belong to the tree of another file";
            return Err(Error::new(Kind::Refused, what));
        }
        let maps = ChunkMaps::read(file, &users.maps)?;
        let mut of_blocks: BTreeMap<usize, Vec<&ArrayUser>> = BTreeMap::new();
        for user in &users.arrays {
            of_blocks.entry(user.block).or_default().push(user);
        }
        let mut plan = Self { refers_beside: users.refers_beside, ..Self::default() };
        let mut numbers = NewNumbers::default();
        let mut sources = Vec::new();
        let mut of_whole = BTreeMap::new();
        for n in 0..count {
            let of_block = of_blocks.get(&n).map(Vec::as_slice).unwrap_or_default();
            let is_whole = maps.is_used(n);
            if of_block.is_empty() && !is_whole {
                plan.tell(n, "left out: no array is in it".to_owned());
                continue;
            }
            if is_whole {
                of_whole.insert(n, plan.blocks.len());
            }
            let in_block = |error: Error| error.in_block(n as u64);
            let old = OldBlock::of(file, n).map_err(in_block)?;
            let pieces = divide(of_block, old.size, is_whole || old.is_streamed());
            for piece in &pieces {
                let number = plan.blocks.len();
                sources.extend(piece.users.iter().map(|user| (user.source, number)));
                plan.blocks.push(old.piece(piece, &maps, codec).map_err(in_block)?);
                piece.place(&mut numbers)?;
            }
            plan.tell_of_pieces(&old, &pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>());
        }
        for map in &users.maps {
            sources.extend(of_whole.get(&map.block).map(|number| (map.number, *number)));
        }
        maps.renumber(&of_whole, &mut plan.blocks)?;
        for (source, number) in sources {
            numbers.set(source, in_tree(source.value, number, plan.blocks.len())?)?;
        }
        plan.text = numbers.write(&text);
        let first = if count > 0 { file.offset(0)? } else { 0 };
        let old_padding = first.saturating_sub(file.head.end);
        plan.padding = padding.unwrap_or_else(|| old_padding.min(usual_padding(plan.text.len() as u64)));
        Ok(plan)
    }

    fn tell(&mut self, block: usize, what: String) {
        self.changes.push(BlockChange { block, what });
    }

    fn tell_of_pieces(&mut self, old: &OldBlock<'_>, lens: &[u64]) {
        let kept = lens.iter().fold(0_u64, |sum, len| sum.saturating_add(*len));
        if lens.len() > 1 || kept < old.size {
            let of_all = format!("{kept} of {} bytes are in use", old.size);
            let divided = if lens.len() > 1 { format!(", in {} blocks", lens.len()) } else { String::new() };
            self.tell(old.number, of_all + &divided);
        }
    }

    /// Returns the number of blocks of the new file.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of bytes that [`write`](Self::write) reads.
    pub fn size(&self) -> u64 {
        self.blocks.iter().fold(0, |size, block| size.saturating_add(block.bytes().len()))
    }

    /// Writes the new file. `count` gets the numbers of bytes read.
    ///
    /// # Errors
    /// A block can't be read, or `out` can't be written.
    pub fn write(&self, out: &mut (impl Write + Seek), count: &dyn Fn(u64)) -> Result<()> {
        out.write_all(&self.text)?;
        io::copy(&mut io::Read::take(io::repeat(b' '), self.padding), out)?;
        let mut offset = self.text.len() as u64 + self.padding;
        let mut offsets = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            offsets.push(offset);
            out.write_all(&[0; MAX_FIELDS])?;
            let mut data = DataWriter { out: &mut *out, md5: Md5::new(), len: 0 };
            let (label, size) = block.write(&mut data, count)?;
            let DataWriter { md5, len, .. } = data;
            let end = offset + MAX_FIELDS as u64 + len;
            out.seek(SeekFrom::Start(offset))?;
            // The end of a streamed block is that of the file.
            let header = if block.streamed {
                header_bytes(true, &label, 0, 0, [0; 16])
            } else {
                header_bytes(false, &label, len, size, md5.finalize().into())
            };
            out.write_all(&header)?;
            out.seek(SeekFrom::Start(end))?;
            offset = end;
        }
        if self.blocks.last().is_some_and(|last| !last.streamed) {
            out.write_all(&index::text(&offsets))?;
        }
        Ok(())
    }
}

impl NewBlock {
    /// Writes the data, and returns the label and the decoded size.
    fn write(&self, out: &mut dyn Write, count: &dyn Fn(u64)) -> Result<(Vec<u8>, u64)> {
        let copy = |content: &dyn Content, out: &mut dyn Write| {
            each_piece(content, &mut |piece| {
                count(piece.len() as u64);
                Ok(out.write_all(piece)?)
            })
        };
        match &self.data {
            NewData::Copied { stored, label, size } => {
                copy(&**stored, out)?;
                Ok((label.clone(), *size))
            }
            NewData::Encoded { decoded, codec: None, .. } => {
                copy(&**decoded, out)?;
                Ok((vec![0; 4], decoded.len()))
            }
            NewData::Encoded { decoded, codec: Some(codec), part } => {
                encode(*codec, &**decoded, *part, out, count)?;
                Ok((label_of(*codec).to_vec(), decoded.len()))
            }
        }
    }
}

/// Counts and hashes the data of a block.
struct DataWriter<'w, W> {
    out: &'w mut W,
    md5: Md5,
    len: u64,
}

impl<W: Write> Write for DataWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.md5.update(&bytes[..written]);
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the number of a block as the tree names it: counted from the end if that is what the tree does, and its number
/// stays right.
fn in_tree(old: i64, number: usize, count: usize) -> Result<i64> {
    let as_number =
        |n: usize| i64::try_from(n).map_err(|_| Error::unsupported("the file has too many blocks"));
    let from_end = as_number(number)? - as_number(count)?;
    if old == from_end { Ok(old) } else { as_number(number) }
}
