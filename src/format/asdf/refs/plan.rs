//! The chunks of an array in its block.

use std::sync::Arc;

use super::super::arrays::scalar_descr;
use super::super::ndarray::{Byteorder, Datatype, Mask, Ndarray, Source};
use super::super::view::AsdfFile;
use crate::codec::foreign::{self, ForeignPart};
use crate::content::Content;
use crate::content::zarr::{NO_COMPRESSOR, References, ZarrArray, chunks_of, usual_chunks};
use crate::error::Result;
use crate::format::references::{self, Left};

/// An array with the places of its chunks.
#[derive(Debug)]
pub(super) struct Plan {
    array: ZarrArray,
    places: ChunkPlaces,
}

/// The places of an array's chunks in the file.
#[derive(Debug)]
enum ChunkPlaces {
    /// The chunks are contiguous, with `len` bytes each.
    Row { start: u64, len: u64, count: u64 },
    /// Each chunk is a part of the stored bytes, which begin at `start`.
    Parts { start: u64, parts: Vec<ForeignPart> },
}

impl Plan {
    /// Finds the chunks of an array. Reads only the headers of a compressed block.
    pub(super) fn of(
        file: &Arc<AsdfFile>,
        array: &Ndarray,
        path: Vec<String>,
    ) -> std::result::Result<Self, Left> {
        let number = match &array.source {
            Source::Block(_) => array.source.block(file.block_count()?).ok_or("its block does not exist")?,
            Source::Inline(_) => return Err("it is written in the tree".into()),
            Source::External(_) | Source::Elsewhere(_) => return Err("it is in another file".into()),
        };
        let Some(Datatype::Scalar(scalar)) = array.datatype else {
            return Err("its type is structured".into());
        };
        let item = scalar.size().filter(|size| *size > 0).ok_or("its elements have no bytes")?;
        if array.mask != Mask::None {
            return Err("it has a mask".into());
        }
        let (stored, codec, data_size) = file.stored_as(number)?;
        let extent = array
            .extent(data_size)
            .and_then(std::result::Result::ok)
            .ok_or("it does not fit in its block")?;
        if !is_contiguous(array, &extent.dimensions, item) {
            return Err("its strides are not those of C order".into());
        }
        let (_, place) = stored.stored().ok_or("its block is cut off")?;
        let end = place.checked_add(stored.len());
        if end.is_none_or(|end| end > file.source_stat.size) {
            return Err("its block is cut off".into());
        }
        let len = extent.end - extent.start;
        // Without data there is no chunk to decompress.
        let (chunks, compressor, places) = match codec.filter(|_| len > 0) {
            None => {
                let chunks = usual_chunks(&extent.dimensions, item);
                let bytes = chunks.iter().try_fold(item, |bytes, chunk| bytes.checked_mul(*chunk));
                let bytes = bytes.filter(|bytes| *bytes > 0).ok_or("it is too large")?;
                let places = ChunkPlaces::Row { start: place + extent.start, len: bytes, count: len / bytes };
                (chunks, NO_COMPRESSOR, places)
            }
            Some(_) if (extent.start, extent.end) != (0, data_size) => {
                return Err("it is a part of a compressed block".into());
            }
            Some(codec) => {
                let parts = foreign::parts(codec, &(Arc::new(stored) as Arc<dyn Content>), data_size)?;
                let first = parts.first().map_or(item, |part| part.len);
                if parts.iter().any(|part| part.len != first) {
                    return Err("the chunks of its block differ in length".into());
                }
                let chunks = chunks_of(&extent.dimensions, item, first);
                let chunks = chunks.ok_or("the chunks of its block are not whole rows")?;
                (chunks, foreign::numcodec(codec), ChunkPlaces::Parts { start: place, parts })
            }
        };
        let dtype = scalar_descr(scalar, array.byteorder.unwrap_or(Byteorder::Big));
        let shape = extent.dimensions;
        Ok(Self { array: ZarrArray { path, dtype, shape, chunks, compressor, has_frames: false }, places })
    }

    /// Returns offset and length of a chunk in the file; `None` after the last one.
    fn range(&self, chunk: u64) -> Option<(u64, u64)> {
        match &self.places {
            ChunkPlaces::Row { start, len, count } => (chunk < *count).then(|| (start + chunk * len, *len)),
            ChunkPlaces::Parts { start, parts } => {
                let part = parts.get(usize::try_from(chunk).ok()?)?;
                Some((start + part.offset, part.stored))
            }
        }
    }
}

impl references::Plan for Plan {
    fn array(&self) -> &ZarrArray {
        &self.array
    }

    fn count(&self) -> u64 {
        match &self.places {
            ChunkPlaces::Row { count, .. } => *count,
            ChunkPlaces::Parts { parts, .. } => parts.len() as u64,
        }
    }

    fn write(&self, chunk: u64, references: &References, out: &mut Vec<u8>) -> Result<Option<u64>> {
        Ok(self.range(chunk).map(|range| {
            references.chunk(&self.array, chunk, range, out);
            chunk + 1
        }))
    }

    fn weight(&self) -> u64 {
        match &self.places {
            ChunkPlaces::Row { .. } => 0,
            ChunkPlaces::Parts { parts, .. } => std::mem::size_of_val(&parts[..]) as u64,
        }
    }
}

/// True if the elements are contiguous in C order.
fn is_contiguous(array: &Ndarray, dimensions: &[u64], item: u64) -> bool {
    let Some(strides) = &array.strides else { return true };
    let mut step = Some(item);
    dimensions.contains(&0)
        || dimensions.iter().zip(strides).rev().all(|(len, stride)| {
            let fits = *len == 1 || step.is_some_and(|step| i128::from(*stride) == i128::from(step));
            step = step.and_then(|step| step.checked_mul(*len));
            fits
        })
}
