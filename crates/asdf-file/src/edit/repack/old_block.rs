//! A block of the old file, and the new blocks that are made of it.

use std::sync::Arc;

use seekable::codec::Codec;
use seekable::codec::encode::MAX_PART;
use seekable::codec::external;
use seekable::content::{Content, ContentWindow, Slice};
use seekable::error::{Error, Result, if_readable};

use super::chunk_maps::ChunkMaps;
use super::pieces::{Piece, part_len};
use super::{NewBlock, NewCodec, NewData};
use crate::array::Gather;
use crate::array::zarr::chunks_of;
use crate::asdf::header::Header;
use crate::asdf::stored::codec_of;
use crate::asdf::view::AsdfFile;

/// A block of the old file.
pub(super) struct OldBlock<'f> {
    file: &'f AsdfFile,
    pub(super) number: usize,
    header: Header,
    stored: Slice,
    /// The size of the decoded data in bytes.
    pub(super) size: u64,
}

impl<'f> OldBlock<'f> {
    pub(super) fn of(file: &'f AsdfFile, number: usize) -> Result<Self> {
        let header = file.header_of(number)?;
        let stored = file.stored(number, &header)?;
        let size = if header.label_text().is_empty() { stored.len() } else { header.data_size };
        Ok(Self { file, number, header, stored, size })
    }

    pub(super) fn is_streamed(&self) -> bool {
        self.header.streamed()
    }

    /// Returns the codec; `None` if the block is not compressed.
    fn codec(&self) -> Result<Option<Codec>> {
        let label = self.header.label_text();
        if label.is_empty() { Ok(None) } else { codec_of(label).map(Some) }
    }

    fn copied(&self) -> NewBlock {
        let stored = Arc::new(self.stored.clone());
        let data = NewData::Copied { stored, label: self.header.label.clone(), size: self.size };
        NewBlock { data, streamed: self.is_streamed() }
    }

    /// Returns the block for a piece of the data.
    pub(super) fn piece(&self, piece: &Piece<'_>, maps: &ChunkMaps, codec: NewCodec) -> Result<NewBlock> {
        if self.is_streamed() {
            return Ok(self.copied());
        }
        // Chunks that a Zarr array has compressed are not compressed twice.
        let is_encoded = maps.is_encoded(self.number);
        let is_chunk = maps.is_used(self.number) || piece.users.iter().any(|user| user.is_chunk);
        // The numbers in a map change.
        let is_all = piece.bytes == (0..self.size) && !piece.has_gaps() && !maps.is_map(self.number);
        let own = self.codec();
        let wanted = match codec {
            NewCodec::Kept if is_all && own.is_err() => return Ok(self.copied()),
            NewCodec::Of(codec) if !is_encoded => Some(codec),
            NewCodec::None => None,
            _ => own.clone()?,
        };
        let rows = piece.rows();
        if is_all
            && own.as_ref().ok() == Some(&wanted)
            && self.is_well_cut(wanted, rows.as_ref(), is_chunk)?
        {
            return Ok(self.copied());
        }
        own.map_err(|error| error.advise("its data can only be copied as a whole: leave --codec out"))?;
        if wanted.is_some_and(|codec| !codec.is_encoded()) {
            let what = "it is used in part, and is compressed by Blosc, which is not written: give a --codec";
            return Err(Error::unsupported(what));
        }
        let data = self.file.block(self.number)?.content?;
        let decoded: Arc<dyn Content> = match &piece.layout {
            Some(layout) if piece.has_gaps() => {
                Arc::new(Gather::new(data, layout.offset, layout.item, layout.axes.clone())?)
            }
            _ => Arc::new(ContentWindow::new(data, piece.bytes.start, piece.bytes.end - piece.bytes.start)),
        };
        // Readers need no codec for nothing.
        let codec = wanted.filter(|_| !decoded.is_empty());
        let part = if is_chunk { decoded.len().clamp(1, MAX_PART) } else { part_len(rows.as_ref()) };
        Ok(NewBlock { data: NewData::Encoded { decoded, codec, part }, streamed: false })
    }

    /// True if the parts of the stored data are those that references and other readers need.
    fn is_well_cut(
        &self,
        codec: Option<Codec>,
        rows: Option<&(Vec<u64>, u64)>,
        is_chunk: bool,
    ) -> Result<bool> {
        let Some(codec @ (Codec::Lz4 | Codec::Zstd)) = codec else { return Ok(true) };
        let stored: Arc<dyn Content> = Arc::new(self.stored.clone());
        let Some(parts) = if_readable(external::parts(codec, &stored, self.size))? else { return Ok(false) };
        // Python reads a single frame of zstd.
        if codec == Codec::Zstd || is_chunk && self.size <= MAX_PART {
            return Ok(parts.len() <= 1);
        }
        let Some((dimensions, item)) = rows else { return Ok(true) };
        let first = parts.first().map_or(*item, |part| part.len);
        Ok(parts.iter().all(|part| part.len == first) && chunks_of(dimensions, *item, first).is_some())
    }
}
