//! The array that the metadata of a frame describe.
//!
//! The metalayer `b2nd` has `[version, dimensions, shape, chunk shape, block shape, 0, dtype]`. The array is cut into
//! chunks, and each chunk into blocks, both padded at the far edges and in C order. The chunks of the frame are those
//! chunks, and the blocks of Blosc are those blocks.
//!
//! `blosc2.save_array` and `pack_tensor` keep kind, shape and dtype in the variable-length metalayer
//! `__pack_tensor__` instead, and the elements in C order.

use std::sync::Arc;

use asdf_file::array::tile::{Tiled, Tiling};
use asdf_file::array::{ByteOrder, Datatype, Division, Grid, GridChunks, Scalar};
use seekable::codec::blosc::metalayer::Layer;
use seekable::codec::blosc::{FrameChunks, Payload};
use seekable::content::{Content, Text};
use seekable::error::{Error, Result};
use serde_json::Value;

use super::{meta, msgpack};
use crate::format::dtype::{dtype, elements, shape};

/// The metalayer of an array in chunks and blocks.
pub(super) const B2ND: &str = "b2nd";
/// The metalayer of an array that was packed as it is.
const PACKED: &str = "__pack_tensor__";

/// Maximum number of dimensions: Blosc2's own.
const MAX_DIMENSIONS: usize = 16;

/// An array whose elements are the chunks of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    /// The type of an element.
    pub(super) datatype: Datatype,
    pub(super) byteorder: ByteOrder,
    /// The size of an element in bytes.
    pub(super) item: u64,
    /// Elements along each axis.
    pub(super) shape: Vec<u64>,
    /// The chunks and blocks; `None` if the elements are in C order.
    pub(super) cut: Option<Cut>,
}

/// How an array is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Elements of a chunk along each axis.
    pub(super) chunk: Vec<u64>,
    /// Elements of a block along each axis.
    pub(super) block: Vec<u64>,
}

impl Array {
    /// Returns the array that the metalayers describe, or why it can't be shown; `None` if they describe no array.
    pub(super) fn of(chunks: &FrameChunks, trailing: &[Layer]) -> Option<std::result::Result<Self, String>> {
        let layer = chunks.frame().layers.iter().find(|layer| layer.name == B2ND);
        if let (Some(why), Some(_)) = (chunks.lack(), layer) {
            return Some(Err(why.to_owned()));
        }
        if let Some(layer) = layer {
            return Some(Self::in_blocks(&layer.value, chunks));
        }
        match meta::trailing_value(trailing, PACKED) {
            Ok(None) => None,
            Ok(Some(packed)) => Some(Self::packed(&packed, chunks)),
            Err(why) => Some(Err(format!("is not known: {why}"))),
        }
    }

    fn new(
        dtype: Option<(Datatype, ByteOrder)>,
        shape: Vec<u64>,
        cut: Option<Cut>,
    ) -> std::result::Result<Self, String> {
        let (datatype, byteorder) = dtype.ok_or("has a dtype that can't be shown as an array")?;
        let item = datatype.size().unwrap_or_default();
        Ok(Self { datatype, byteorder, item, shape, cut })
    }

    fn in_blocks(layer: &[u8], chunks: &FrameChunks) -> std::result::Result<Self, String> {
        let value = msgpack::value(layer).ok_or("has a broken description")?;
        let value = value.as_array().map_or(&[][..], Vec::as_slice);
        let [_, dimensions, of_array, of_chunk, of_block, rest @ ..] = value else {
            return Err("has a broken description".to_owned());
        };
        let lens = |part| shape(part).filter(|lens| dimensions.as_u64() == Some(lens.len() as u64));
        let (Some(shape), Some(chunk), Some(block)) = (lens(of_array), lens(of_chunk), lens(of_block)) else {
            return Err("has an invalid shape".to_owned());
        };
        if shape.len() > MAX_DIMENSIONS {
            return Err(format!("has {} dimensions, more than {MAX_DIMENSIONS}", shape.len()));
        }
        let dtype = match rest {
            // Before the type was kept, an element was a text of bytes.
            [] => Some((Datatype::Scalar(Scalar::Ascii(chunks.frame().typesize.into())), ByteOrder::Little)),
            [format, dtype, ..] if format.as_u64() == Some(0) => self::dtype(dtype),
            _ => None,
        };
        let array = Self::new(dtype, shape, Some(Cut { chunk, block }))?;
        array.check_chunks(chunks)?;
        Ok(array)
    }

    fn packed(packed: &Value, chunks: &FrameChunks) -> std::result::Result<Self, String> {
        let [_, lens, dtype] = packed.as_array().map_or(&[][..], Vec::as_slice) else {
            return Err("has a broken description".to_owned());
        };
        let shape = shape(lens).ok_or("has an invalid shape")?;
        let array = Self::new(self::dtype(dtype), shape, None)?;
        if array.size() == Some(chunks.frame().nbytes) {
            Ok(array)
        } else {
            Err("has another size than the chunks".to_owned())
        }
    }

    /// Returns the size of all elements in bytes.
    fn size(&self) -> Option<u64> {
        elements(&self.shape)?.checked_mul(self.item)
    }

    /// Fails unless the chunks of the frame are those of the array.
    fn check_chunks(&self, chunks: &FrameChunks) -> std::result::Result<(), String> {
        let Some(cut) = self.cut.as_ref().filter(|_| self.size() != Some(0)) else { return Ok(()) };
        let wrong = || "has other chunks than the frame".to_owned();
        let tiling = Tiling::new(&cut.chunk, &cut.block, self.item).map_err(|_| wrong())?;
        let mut count = 1_u64;
        for (len, chunk) in self.shape.iter().zip(&cut.chunk) {
            count = count.checked_mul(len.div_ceil((*chunk).max(1))).ok_or_else(wrong)?;
        }
        let is_right = tiling.encoded_len() == u64::from(chunks.frame().chunksize) && count == chunks.count();
        if is_right { Ok(()) } else { Err(wrong()) }
    }

    /// Returns the elements in C order.
    pub(super) fn elements(&self, payload: &Payload) -> Result<Arc<dyn Content>> {
        let size = self.size().ok_or_else(|| Error::damaged("the array is larger than any file"))?;
        let Some(cut) = self.cut.as_ref().filter(|cut| size > 0 && !cut.keeps_order(&self.shape)) else {
            return Ok(if size == 0 { Arc::new(Text::default()) } else { payload.part(0, size) });
        };
        let tiling = Tiling::new(&cut.chunk, &cut.block, self.item)?;
        let divisions = cut.chunk.iter().map(|len| Division::Every(*len)).collect();
        let item = usize::try_from(self.item).map_err(|_| Error::unsupported("an element is too large"))?;
        let chunks = BlockedChunks { payload: payload.clone(), tiling };
        Ok(Arc::new(Grid::new(&self.shape, divisions, vec![0; item], Arc::new(chunks))?))
    }
}

impl Cut {
    /// True if the chunks and blocks have the elements of an array of this shape in C order, as rows of it.
    fn keeps_order(&self, shape: &[u64]) -> bool {
        let whole = self.chunk == self.block
            || self.chunk.iter().zip(&self.block).skip(1).all(|(one, other)| one == other);
        let rows = shape.iter().zip(&self.chunk).skip(1).all(|(len, chunk)| len == chunk);
        let is_even =
            self.chunk.iter().zip(&self.block).take(1).all(|(chunk, block)| chunk.is_multiple_of(*block));
        whole && rows && is_even
    }
}

/// The chunks of an array, each of which consists of blocks.
#[derive(Debug)]
struct BlockedChunks {
    payload: Payload,
    tiling: Tiling,
}

impl GridChunks for BlockedChunks {
    fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>> {
        let len = self.tiling.encoded_len();
        let start = n.checked_mul(len).ok_or_else(|| Error::damaged("the array has too many chunks"))?;
        Ok(Some(Arc::new(Tiled::new(self.payload.part(start, len), self.tiling.clone()))))
    }
}
