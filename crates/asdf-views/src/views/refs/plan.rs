//! The chunks of an array in its block.

use std::sync::Arc;

use asdf_file::array::Division;
use asdf_file::array::zarr::{MAX_CHUNKS, NO_COMPRESSOR, References, ZarrArray, chunks_of, usual_chunks};
use asdf_file::asdf::arrays::{block_of_chunk, elements_of};
use asdf_file::asdf::ndarray::chunked::{ArrayChunks, ChunkBlocks, Chunked, Compressor};
use asdf_file::asdf::ndarray::{ByteOrder, Datatype, Mask, Ndarray, Scalar, Source};
use asdf_file::asdf::view::AsdfFile;
use asdf_file::container::references::{self, Left};
use seekable::codec::Codec;
use seekable::codec::external::{self, ExternalPart};
use seekable::content::{Content, read_exact_at};
use seekable::error::Result;

/// Maximum length of the elements of an array in the tree, which are copied into the text.
const MAX_INLINE: u64 = 1 << 20;

/// The codecs of our Python package for whole blocks whose parts are not whole rows, and the remarks.
const WHOLE_LZ4: &str = r#"{"id":"asdf-lz4"}"#;
const NEEDS_LZ4: &str = "the chunks of its block are not whole rows, so it has one chunk, whose codec asdf-lz4 is in \
                         the Python package asdf-mount";
const WHOLE_BLOSC: &str = r#"{"id":"asdf-blsc"}"#;
const NEEDS_BLOSC: &str = "the chunks of its block are not whole rows, so it has one chunk, whose codec asdf-blsc is in \
                           the Python package asdf-mount";

/// An array with the places of its chunks.
#[derive(Debug)]
pub(super) struct Plan {
    array: ZarrArray,
    places: ChunkPlaces,
    remark: Option<&'static str>,
}

/// The places of an array's chunks in the file.
#[derive(Debug)]
enum ChunkPlaces {
    /// The chunks are contiguous, with `len` bytes each.
    Row { start: u64, len: u64, count: u64 },
    /// Each chunk is a part of the stored bytes, which begin at `start`. `None` for a chunk that was never written.
    Parts { start: u64, parts: Vec<Option<ExternalPart>> },
    /// The only chunk, not in the file.
    Inline(Vec<u8>),
}

impl ChunkPlaces {
    /// Returns the shape and the places of uncompressed chunks. Their elements, `len` bytes, begin at `start`.
    fn in_row(
        dimensions: &[u64],
        item: u64,
        start: u64,
        len: u64,
    ) -> std::result::Result<(Vec<u64>, Self), Left> {
        let chunks = usual_chunks(dimensions, item);
        let bytes = chunks.iter().try_fold(item, |bytes, chunk| bytes.checked_mul(*chunk));
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or("it is too large")?;
        Ok((chunks, Self::Row { start, len: bytes, count: len / bytes }))
    }
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
            Source::Inline(_) => return Self::inline(file, array, path),
            Source::Chunked(chunked) => return Self::in_chunks(file, chunked, array, path),
            Source::Hdu(source) => return Self::in_hdu(file, source, array, path),
            Source::External(_) | Source::Elsewhere(_) => return Err("it is in another file".into()),
        };
        let Some(Datatype::Scalar(scalar)) = array.datatype else {
            return Err("its type is structured".into());
        };
        let item = scalar.size().ok_or("its elements are too large")?;
        if array.mask != Mask::None {
            return Err("it has a mask".into());
        }
        let (stored, codec, data_size) = file.stored_as(number)?;
        let extent = array
            .extent(data_size)
            .and_then(std::result::Result::ok)
            .ok_or("it does not fit in its block")?;
        if item == 0 {
            return Self::empty_strings(scalar, extent.dimensions, path);
        }
        if !is_contiguous(array, &extent.dimensions, item) {
            return Err("its strides are not those of C order".into());
        }
        let (source, place) = stored.stored().ok_or("its block is cut off")?;
        let stored_len = stored.len();
        let end = place.checked_add(stored_len);
        if end.is_none_or(|end| end > file.source_stat.size) {
            return Err("its block is cut off".into());
        }
        let place = place.checked_add(source.start_in_file()).ok_or("its block is cut off")?;
        let len = extent.end - extent.start;
        // Without data there is no chunk to decompress.
        let mut remark = None;
        let (chunks, compressor, places) = match codec.filter(|_| len > 0) {
            None => {
                let (chunks, places) =
                    ChunkPlaces::in_row(&extent.dimensions, item, place + extent.start, len)?;
                (chunks, NO_COMPRESSOR, places)
            }
            Some(_) if (extent.start, extent.end) != (0, data_size) => {
                return Err("it is a part of a compressed block".into());
            }
            Some(codec) => {
                let parts = external::parts(codec, &(Arc::new(stored) as Arc<dyn Content>), data_size)?;
                match chunks_of_parts(&extent.dimensions, item, &parts) {
                    Ok(chunks) => {
                        let parts = parts.into_iter().map(Some).collect();
                        (chunks, codec.numcodec(), ChunkPlaces::Parts { start: place, parts })
                    }
                    Err(_) if matches!(codec, Codec::Lz4 | Codec::Blosc) => {
                        let is_blosc = codec == Codec::Blosc;
                        remark = Some(if is_blosc { NEEDS_BLOSC } else { NEEDS_LZ4 });
                        let whole = ExternalPart { offset: 0, stored: stored_len, len: data_size };
                        let places = ChunkPlaces::Parts { start: place, parts: vec![Some(whole)] };
                        (extent.dimensions.clone(), if is_blosc { WHOLE_BLOSC } else { WHOLE_LZ4 }, places)
                    }
                    Err(why) => return Err(why.into()),
                }
            }
        };
        let dtype = scalar.in_numpy(array.byteorder.unwrap_or(ByteOrder::Big));
        let shape = extent.dimensions;
        let zarr = ZarrArray::new(path, dtype, shape, chunks, compressor);
        Ok(Self { array: zarr, places, remark })
    }

    /// Finds the chunks of an array in an extension of a FITS file.
    fn in_hdu(
        file: &Arc<AsdfFile>,
        source: &str,
        array: &Ndarray,
        path: Vec<String>,
    ) -> std::result::Result<Self, Left> {
        let fits = file.fits.as_ref().ok_or("it is in a FITS file")?;
        let in_hdu = fits.array(source).map_err(|why| Left::Out(why.into()))?;
        let Datatype::Scalar(scalar) = in_hdu.datatype else {
            return Err("its type is structured".into());
        };
        if array.mask != Mask::None {
            return Err("it has a mask".into());
        }
        let (place, len) =
            in_hdu.place_of_elements().ok_or("its numbers are stored with BZERO, BSCALE or BLANK")?;
        if place.checked_add(len).is_none_or(|end| end > fits.stat.size) {
            return Err("its extension is cut off".into());
        }
        let item = scalar.size().filter(|size| *size > 0).ok_or("its elements have no bytes")?;
        let (chunks, places) = ChunkPlaces::in_row(&in_hdu.dimensions, item, place, len)?;
        let dtype = scalar.in_numpy(ByteOrder::Big);
        let shape = in_hdu.dimensions.clone();
        let zarr = ZarrArray::new(path, dtype, shape, chunks, NO_COMPRESSOR);
        Ok(Self { array: zarr, places, remark: None })
    }

    /// Finds the chunks of an array in chunks.
    fn in_chunks(
        file: &Arc<AsdfFile>,
        chunked: &Chunked,
        array: &Ndarray,
        path: Vec<String>,
    ) -> std::result::Result<Self, Left> {
        let (Some(Datatype::Scalar(scalar)), Some(shape)) = (&array.datatype, &array.shape) else {
            return Err("its type is structured".into());
        };
        let shape = shape.dimensions.clone();
        let item = scalar.size().ok_or("its elements are too large")?;
        let numbers = stored_chunks(file, chunked, &shape)?;
        let chunks: Vec<u64> = match &chunked.chunks {
            ArrayChunks::Blocks(blocks) if blocks.is_fortran => {
                return Err("the first index of its chunks varies fastest".into());
            }
            ArrayChunks::Blocks(blocks) => blocks.shape.clone(),
            ArrayChunks::Arrays(arrays) if arrays.iter().any(|chunk| chunk.byteorder != array.byteorder) => {
                return Err("its chunks have different byte orders".into());
            }
            ArrayChunks::Arrays(_) => {
                // Zarr has no chunk at the end that is shorter.
                let even = |(division, len): (&Division, &u64)| {
                    division.regular(*len).filter(|chunk| len.is_multiple_of(*chunk))
                };
                chunked
                    .divisions
                    .iter()
                    .zip(&shape)
                    .map(even)
                    .collect::<Option<_>>()
                    .ok_or("its chunks differ in shape")?
            }
        };
        let len = chunks.iter().try_fold(item, |len, one| len.checked_mul(*one)).ok_or("it is too large")?;
        let (declared, fill) = match &chunked.chunks {
            ArrayChunks::Blocks(ChunkBlocks { compressor, fill, .. }) => {
                (compressor.map(Compressor::numcodec), fill.as_ref().map(|fill| fill.json.clone()))
            }
            ArrayChunks::Arrays(_) => (None, None),
        };
        let is_complete = numbers.iter().all(Option::is_some);
        if !is_complete && fill.is_none() {
            return Err(
                "some of its chunks are not there, and its fill value is none that is read here".into()
            );
        }
        let mut used = declared;
        let mut parts = Vec::with_capacity(numbers.len());
        let mut is_first = true;
        for number in numbers {
            let Some(number) = number else {
                parts.push(None);
                continue;
            };
            let (stored, codec, data_size) = file.stored_as(number)?;
            let stored_len = stored.len();
            let (source, place) = stored.stored().ok_or("a block of its chunks is cut off")?;
            let place =
                place.checked_add(source.start_in_file()).ok_or("a block of its chunks is cut off")?;
            let part = match (codec, declared) {
                (Some(_), Some(_)) => return Err("its chunks are compressed twice".into()),
                (Some(codec), None) if data_size == len => {
                    let all = external::parts(codec, &(Arc::new(stored) as Arc<dyn Content>), data_size)?;
                    let [part] = all[..] else {
                        return Err("the blocks of its chunks are compressed in several parts".into());
                    };
                    let name = codec.numcodec();
                    if !is_first && used != Some(name) {
                        return Err("the blocks of its chunks have different codecs".into());
                    }
                    used = Some(name);
                    ExternalPart { offset: place + part.offset, ..part }
                }
                (None, None) if stored_len < len || used.is_some() => {
                    return Err("the blocks of its chunks differ".into());
                }
                (None, None) => ExternalPart { offset: place, stored: len, len },
                (None, Some(_)) => ExternalPart { offset: place, stored: stored_len, len },
                (Some(_), None) => return Err("the blocks of its chunks differ".into()),
            };
            if part.offset.checked_add(part.stored).is_none_or(|end| end > file.source_stat.size) {
                return Err("a block of its chunks is cut off".into());
            }
            is_first = false;
            parts.push(Some(part));
        }
        let dtype = scalar.in_numpy(array.byteorder.unwrap_or(ByteOrder::Big));
        let compressor = used.unwrap_or(NO_COMPRESSOR);
        let fill = fill.filter(|_| !is_complete);
        let zarr = ZarrArray { fill, ..ZarrArray::new(path, dtype, shape, chunks, compressor) };
        Ok(Self { array: zarr, places: ChunkPlaces::Parts { start: 0, parts }, remark: None })
    }

    /// Copies an array that is written in the tree.
    fn inline(file: &Arc<AsdfFile>, array: &Ndarray, path: Vec<String>) -> std::result::Result<Self, Left> {
        let Some(Datatype::Scalar(scalar)) = array.datatype else {
            return Err("its type is structured".into());
        };
        let has_nulls = match &array.source {
            Source::Inline(inline) => inline.seen.as_deref().is_some_and(|seen| seen.nulls),
            _ => false,
        };
        if array.mask != Mask::None || has_nulls {
            return Err("it has a mask".into());
        }
        let elements = elements_of(file, array)?;
        let len = elements.content.len();
        if len > MAX_INLINE {
            return Err("it is written in the tree, and takes more than 1 MiB".into());
        }
        if scalar.size() == Some(0) {
            return Self::empty_strings(scalar, elements.dimensions, path);
        }
        let mut bytes = vec![0; len as usize];
        read_exact_at(&*elements.content, 0, &mut bytes)?;
        let dtype = scalar.in_numpy(elements.byteorder);
        let shape = elements.dimensions;
        // Zarr has no chunks of length 0.
        let chunks = shape.iter().map(|side| (*side).max(1)).collect();
        let zarr = ZarrArray::new(path, dtype, shape, chunks, NO_COMPRESSOR);
        Ok(Self { array: zarr, places: ChunkPlaces::Inline(bytes), remark: None })
    }

    /// Describes an array of strings without characters. Zarr has no elements without bytes, so the strings get
    /// one character each, a NUL, with which NumPy pads strings.
    fn empty_strings(scalar: Scalar, shape: Vec<u64>, path: Vec<String>) -> std::result::Result<Self, Left> {
        let (dtype, width) = if matches!(scalar, Scalar::Ascii(_)) { ("|S1", 1) } else { ("<U1", 4) };
        let len = shape.iter().try_fold(width, |len: u64, dimension| len.checked_mul(*dimension));
        let len = len.filter(|len| *len <= MAX_INLINE).ok_or("its elements have no bytes")?;
        let chunks = shape.iter().map(|side| (*side).max(1)).collect();
        let dtype = dtype.to_owned();
        let zarr = ZarrArray::new(path, dtype, shape, chunks, NO_COMPRESSOR);
        Ok(Self { array: zarr, places: ChunkPlaces::Inline(vec![0; len as usize]), remark: None })
    }

    /// Returns offset and length of a chunk in the file; `None` if it is not there.
    fn range(&self, chunk: u64) -> Option<(u64, u64)> {
        match &self.places {
            ChunkPlaces::Row { start, len, count } => (chunk < *count).then(|| (start + chunk * len, *len)),
            ChunkPlaces::Parts { start, parts } => {
                let part = parts.get(usize::try_from(chunk).ok()?)?.as_ref()?;
                Some((start + part.offset, part.stored))
            }
            ChunkPlaces::Inline(_) => None,
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
            ChunkPlaces::Inline(bytes) => u64::from(!bytes.is_empty()),
        }
    }

    fn remark(&self) -> Option<&'static str> {
        self.remark
    }

    fn write(&self, chunk: u64, references: &References, out: &mut Vec<u8>) -> Result<Option<u64>> {
        if chunk >= self.count() {
            return Ok(None);
        }
        if let ChunkPlaces::Inline(bytes) = &self.places {
            references.inline_chunk(&self.array, bytes, out);
            return Ok(None);
        }
        if let Some(range) = self.range(chunk) {
            references.chunk(&self.array, chunk, range, out);
        }
        Ok(Some(chunk + 1))
    }

    fn weight(&self) -> u64 {
        match &self.places {
            ChunkPlaces::Row { .. } => 0,
            ChunkPlaces::Parts { parts, .. } => std::mem::size_of_val(&parts[..]) as u64,
            ChunkPlaces::Inline(bytes) => 3 * bytes.len() as u64,
        }
    }
}

/// Returns the blocks of all chunks, each of which is one chunk; `None` for a chunk that was never written. Each is
/// looked up by itself, so there must not be too many.
fn stored_chunks(
    file: &AsdfFile,
    chunked: &Chunked,
    shape: &[u64],
) -> std::result::Result<Vec<Option<usize>>, Left> {
    let counts = chunked.divisions.iter().zip(shape).map(|(division, len)| division.count(*len));
    let chunk_count = counts.fold(1, u64::saturating_mul);
    if chunk_count > MAX_CHUNKS {
        return Err(Left::Out(format!("it has more than {MAX_CHUNKS} chunks").into()));
    }
    match &chunked.chunks {
        ArrayChunks::Blocks(blocks) => {
            let mut numbers = Vec::with_capacity(chunk_count as usize);
            for n in 0..chunk_count {
                numbers.push(block_of_chunk(file, blocks, n)?);
            }
            Ok(numbers)
        }
        ArrayChunks::Arrays(arrays) => {
            let count = file.block_count()?;
            let number = |array: &Ndarray| {
                let is_plain = array.offset == 0 && array.strides.is_none();
                let number = array.source.block(count).filter(|_| is_plain);
                number.map(Some).ok_or_else(|| Left::from("a chunk of it is not a whole block"))
            };
            arrays.iter().map(number).collect()
        }
    }
}

/// Returns the shape of chunks that are the parts of a block.
fn chunks_of_parts(
    dimensions: &[u64],
    item: u64,
    parts: &[ExternalPart],
) -> std::result::Result<Vec<u64>, &'static str> {
    let first = parts.first().map_or(item, |part| part.len);
    if parts.iter().any(|part| part.len != first) {
        return Err("the chunks of its block differ in length");
    }
    chunks_of(dimensions, item, first).ok_or("the chunks of its block are not whole rows")
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
