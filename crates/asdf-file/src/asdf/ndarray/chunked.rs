//! Arrays in chunks: `zarr-1.x` of asdf-zarr, whose chunks are blocks, and `chunked-ndarray-1.x` of asdf-cxx and
//! ASDF.jl, whose chunks are ndarrays in blocks or in the tree.
//!
//! ```text
//! !<asdf://asdf-format.org/zarr/tags/zarr-1.0.0>
//!   .zarray: {zarr_format: 2, shape: [6, 9], chunks: [2, 3], dtype: <f8, compressor: null, …}
//!   chunk_block_map: 9
//!
//! !core/chunked-ndarray-1.0.0
//!   shape: [4, 4]
//!   datatype: float32
//!   chunks:
//!   - !core/ndarray-chunk-1.0.0 {start: [0, 0], ndarray: !core/ndarray-1.0.0 {source: 0, shape: [4, 2], …}}
//!   - !core/ndarray-chunk-1.0.0 {start: [0, 2], ndarray: !core/ndarray-1.0.0 {source: 1, shape: [4, 2], …}}
//! ```
//!
//! Block `chunk_block_map` holds the number of a block for each chunk, in C order, as a little-endian `int32`: -1 for
//! a chunk that was never written, all of whose elements are the fill value.

use std::collections::{BTreeSet, HashMap};

use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::{NodeContent, TreeNode};
use base64::prelude::{BASE64_STANDARD, Engine};
use seekable::codec::Codec;
use seekable::error::to_json;

use super::{ByteOrder, Datatype, MAX_DIMENSIONS, Mask, Ndarray, Result, Scalar, Shape, Source, fault};
use crate::array::{Division, half};

const ZARR_TAG: &str = "asdf://asdf-format.org/zarr/tags/zarr-1.";
const CHUNKED_TAG: &str = "tag:stsci.edu:asdf/core/chunked-ndarray-1.";

/// Maximum number of chunks of an array.
pub(crate) const MAX_CHUNKS: u64 = 1 << 20;

/// True if a resolved tag is that of an array in chunks.
pub(crate) fn is_tag(tag: &str) -> bool {
    tag.starts_with(ZARR_TAG) || tag.starts_with(CHUNKED_TAG)
}

/// An array in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunked {
    /// How each dimension is divided.
    pub divisions: Vec<Division>,
    /// The chunks.
    pub chunks: ArrayChunks,
}

/// The chunks of an array, in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayChunks {
    /// A block each.
    Blocks(ChunkBlocks),
    /// An ndarray each.
    Arrays(Vec<Ndarray>),
}

/// Chunks of one shape, each in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkBlocks {
    /// The shape of each chunk. Those at the far edges are as large as the others.
    pub shape: Vec<u64>,
    /// The number of the block with the numbers of the chunks' blocks.
    pub map: i64,
    /// The codec of a chunk within the block. Of Blosc, the block is one buffer.
    pub compressor: Option<Compressor>,
    /// True if the first index varies fastest within a chunk.
    pub is_fortran: bool,
    /// The element of the chunks that are not there; `None` if it is not known.
    pub fill: Option<Fill>,
}

/// The codec of numcodecs that a chunk is compressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// A codec that blocks have, too.
    OfBlocks(Codec),
    /// One gzip stream (RFC 1952).
    Gzip,
    /// One LZ4 block after its decoded length in 32 bits, little-endian.
    Lz4Block,
}

impl Compressor {
    /// Returns the codec in numcodecs, with its parameters in JSON.
    pub fn numcodec(self) -> &'static str {
        match self {
            Self::OfBlocks(codec) => codec.numcodec(),
            Self::Gzip => r#"{"id":"gzip","level":1}"#,
            Self::Lz4Block => Codec::Lz4.numcodec(),
        }
    }
}

/// The element of chunks that are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The `fill_value` of Zarr version 2, in JSON.
    pub json: String,
}

/// Reads a node with a tag of [`is_tag`].
///
/// # Errors
/// The node is not valid, or is stored in a way that is not read here.
pub(crate) fn read(tag: &str, node: &TreeNode) -> Result<Ndarray> {
    if tag.starts_with(ZARR_TAG) { of_zarr(node) } else { of_ndarrays(node) }
}

fn wanted<'n>(node: &'n TreeNode, key: &str) -> Result<&'n TreeNode> {
    match node.get(key) {
        Some(value) => Ok(value),
        None => fault(node, format!("an array in chunks has no \"{key}\"")),
    }
}

/// Reads a list of numbers.
fn lengths(node: &TreeNode, key: &str) -> Result<Vec<u64>> {
    let value = wanted(node, key)?;
    let shape = Shape::read(value)?;
    if shape.streamed || shape.dimensions.is_empty() || shape.dimensions.len() > MAX_DIMENSIONS {
        return fault(
            value,
            format!("the \"{key}\" of an array in chunks has no fixed number of dimensions"),
        );
    }
    Ok(shape.dimensions)
}

fn array(
    node: &TreeNode,
    shape: Vec<u64>,
    datatype: Scalar,
    byteorder: ByteOrder,
    of: Chunked,
) -> Result<Ndarray> {
    let Some(item) = datatype.size().filter(|item| (1..=MAX_ELEMENT).contains(item)) else {
        return fault(
            node,
            format!("the elements of an array in chunks take none or more than {MAX_ELEMENT} bytes"),
        );
    };
    let len = shape.iter().try_fold(item, |len, one| len.checked_mul(*one));
    if len.is_none_or(|len| len > i64::MAX as u64) {
        return fault(node, "an array in chunks is larger than any file can be");
    }
    Ok(Ndarray {
        source: Source::Chunked(Box::new(of)),
        shape: Some(Shape { streamed: false, dimensions: shape }),
        datatype: Some(Datatype::Scalar(datatype)),
        byteorder: Some(byteorder),
        offset: 0,
        strides: None,
        mask: Mask::None,
    })
}

fn of_zarr(node: &TreeNode) -> Result<Ndarray> {
    let Some(meta) = node.get(".zarray") else {
        return fault(node, "a Zarr array is not in this file: its chunks are in a store of their own");
    };
    if wanted(meta, "zarr_format")?.integer() != Some(2) {
        return fault(meta, "only version 2 of Zarr is read");
    }
    let shape = lengths(meta, "shape")?;
    let chunk_shape = lengths(meta, "chunks")?;
    if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
        return fault(meta, "the chunks of a Zarr array do not fit its shape");
    }
    let dtype = wanted(meta, "dtype")?;
    let Some((datatype, byteorder)) = dtype.text().and_then(of_dtype) else {
        return fault(dtype, "the dtype of a Zarr array is none that is read here");
    };
    if meta
        .get("filters")
        .is_some_and(|filters| !is_null(filters) && filters.items().is_none_or(|all| !all.is_empty()))
    {
        return fault(meta, "the chunks of a Zarr array have filters, which are not read here");
    }
    let compressor = match meta.get("compressor") {
        Some(compressor) if !is_null(compressor) => Some(compressor_of(compressor)?),
        _ => None,
    };
    let is_fortran = match meta.get("order").and_then(TreeNode::text) {
        None | Some("C") => false,
        Some("F") => true,
        Some(_) => return fault(meta, "the order of a Zarr array is neither C nor F"),
    };
    let map = wanted(node, "chunk_block_map")?;
    let Some(Ok(map)) = map.integer().map(i64::try_from) else {
        return fault(map, "a \"chunk_block_map\" is not the number of a block");
    };
    let counts = shape.iter().zip(&chunk_shape).map(|(len, chunk)| len.div_ceil(*chunk));
    let total = counts.clone().try_fold(1_u64, |total, one| total.checked_mul(one.max(1)));
    if total.is_none_or(|total| total > MAX_CHUNKS) {
        return fault(meta, format!("an array has more than {MAX_CHUNKS} chunks"));
    }
    let padded = chunk_shape.iter().zip(counts).map(|(chunk, count)| chunk.checked_mul(count));
    let padded = padded.fold(datatype.size(), |len, one| len?.checked_mul(one?));
    if padded.is_none_or(|len| len > i64::MAX as u64) {
        return fault(meta, "the chunks of a Zarr array are larger than any file can be");
    }
    let divisions = chunk_shape.iter().map(|chunk| Division::Every(*chunk)).collect();
    let fill = fill(meta.get("fill_value"), datatype, byteorder);
    let json = fill_in_json(meta.get("fill_value"), datatype);
    let fill = fill.zip(json).map(|(bytes, json)| Fill { bytes, json });
    let blocks = ChunkBlocks { shape: chunk_shape, map, compressor, is_fortran, fill };
    array(node, shape, datatype, byteorder, Chunked { divisions, chunks: ArrayChunks::Blocks(blocks) })
}

fn compressor_of(node: &TreeNode) -> Result<Compressor> {
    match node.get("id").and_then(TreeNode::text) {
        Some("zlib") => Ok(Compressor::OfBlocks(Codec::Zlib)),
        Some("bz2") => Ok(Compressor::OfBlocks(Codec::Bzip2)),
        Some("zstd") => Ok(Compressor::OfBlocks(Codec::Zstd)),
        Some("blosc") => Ok(Compressor::OfBlocks(Codec::Blosc)),
        Some("gzip") => Ok(Compressor::Gzip),
        Some("lz4") => Ok(Compressor::Lz4Block),
        name => {
            let name = name.unwrap_or("?").escape_debug();
            fault(
                node,
                format!("the chunks of a Zarr array are compressed by {name}, which is not read here"),
            )
        }
    }
}

/// Returns the type with a name of NumPy, as `<f8`.
fn of_dtype(name: &str) -> Option<(Scalar, ByteOrder)> {
    let byteorder = if name.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let name = name.strip_prefix(['<', '>', '|'])?;
    let size: u64 = name.get(1..)?.parse().ok()?;
    let scalar = match (name.as_bytes().first()?, size) {
        (b'i', 1) => Scalar::Int8,
        (b'i', 2) => Scalar::Int16,
        (b'i', 4) => Scalar::Int32,
        (b'i', 8) => Scalar::Int64,
        (b'u', 1) => Scalar::Uint8,
        (b'u', 2) => Scalar::Uint16,
        (b'u', 4) => Scalar::Uint32,
        (b'u', 8) => Scalar::Uint64,
        (b'f', 2) => Scalar::Float16,
        (b'f', 4) => Scalar::Float32,
        (b'f', 8) => Scalar::Float64,
        (b'c', 8) => Scalar::Complex64,
        (b'c', 16) => Scalar::Complex128,
        (b'b', 1) => Scalar::Bool8,
        (b'S', 1..=MAX_STRING) => Scalar::Ascii(size),
        (b'U', 1..=MAX_STRING) => Scalar::Ucs4(size),
        _ => return None,
    };
    Some((scalar, byteorder))
}

/// Maximum length of a string in a Zarr array, in characters.
const MAX_STRING: u64 = 1 << 20;
/// Maximum size of an element, in bytes.
const MAX_ELEMENT: u64 = 4 << 20;

/// Returns a fill value whose bytes are not all zero; `None` for any other.
fn not_zero(value: Option<&TreeNode>) -> Option<&TreeNode> {
    let value = value.filter(|value| !is_null(value) && value.text() != Some(""))?;
    let is_zero = number(value).is_some_and(|number| number == 0.0 && number.is_sign_positive());
    (!is_zero).then_some(value)
}

/// Returns a float of Zarr's metadata.
fn float(value: &TreeNode) -> Option<f64> {
    match value.text() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => number(value),
    }
}

/// Returns the parts of a complex number of Zarr's metadata.
fn complex(value: &TreeNode) -> Option<[f64; 2]> {
    let [re, im] = value.items()? else { return None };
    Some([float(re)?, float(im)?])
}

/// Returns a fill value as Zarr writes it; `None` if it is not known how.
fn fill_in_json(value: Option<&TreeNode>, scalar: Scalar) -> Option<String> {
    let in_json = |float: f64| match float {
        _ if float.is_nan() => "\"NaN\"".to_owned(),
        f64::INFINITY => "\"Infinity\"".to_owned(),
        f64::NEG_INFINITY => "\"-Infinity\"".to_owned(),
        _ => format!("{float:?}"),
    };
    let value = not_zero(value);
    Some(match (scalar, value) {
        (Scalar::Bool8, None) => "false".to_owned(),
        (Scalar::Ascii(_) | Scalar::Ucs4(_), None) => "\"\"".to_owned(),
        (Scalar::Complex64 | Scalar::Complex128, None) => "[0.0,0.0]".to_owned(),
        (_, None) => "0".to_owned(),
        (Scalar::Bool8, Some(value)) => truth(value)?.to_string(),
        (Scalar::Float16 | Scalar::Float32 | Scalar::Float64, Some(value)) => in_json(float(value)?),
        (Scalar::Complex64 | Scalar::Complex128, Some(value)) => {
            let [re, im] = complex(value)?;
            format!("[{},{}]", in_json(re), in_json(im))
        }
        (Scalar::Ascii(_) | Scalar::Ucs4(_), Some(value)) => to_json(value.text()?),
        (_, Some(value)) => value.integer()?.to_string(),
    })
}

/// Returns the bytes of a fill value; `None` if it is not known how they are written.
fn fill(value: Option<&TreeNode>, scalar: Scalar, byteorder: ByteOrder) -> Option<Vec<u8>> {
    let Some(value) = not_zero(value) else {
        return Some(vec![0; usize::try_from(scalar.size()?).ok()?]);
    };
    let ordered = |little: &[u8]| {
        let mut bytes = little.to_vec();
        if byteorder == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    let integer = || {
        let (least, greatest) = scalar.range()?;
        let value = value.integer().filter(|value| (least..=greatest).contains(value))?;
        value.to_le_bytes().get(..usize::try_from(scalar.size()?).ok()?).map(ordered)
    };
    let padded = |mut bytes: Vec<u8>, len: u64| {
        let len = usize::try_from(len).ok().filter(|len| bytes.len() <= *len)?;
        bytes.resize(len, 0);
        Some(bytes)
    };
    Some(match scalar {
        Scalar::Bool8 => vec![u8::from(truth(value)?)],
        Scalar::Float16 => ordered(&half(float(value)?).to_le_bytes()),
        Scalar::Float32 => ordered(&(float(value)? as f32).to_le_bytes()),
        Scalar::Float64 => ordered(&float(value)?.to_le_bytes()),
        Scalar::Complex64 => {
            complex(value)?.iter().flat_map(|part| ordered(&(*part as f32).to_le_bytes())).collect()
        }
        Scalar::Complex128 => complex(value)?.iter().flat_map(|part| ordered(&part.to_le_bytes())).collect(),
        Scalar::Ascii(len) => padded(BASE64_STANDARD.decode(value.text()?).ok()?, len)?,
        Scalar::Ucs4(len) => {
            let characters = value.text()?.chars().flat_map(|c| ordered(&u32::from(c).to_le_bytes()));
            padded(characters.collect(), len.checked_mul(4)?)?
        }
        _ => integer()?,
    })
}

/// Returns the text of a scalar of a type.
fn text_of(node: &TreeNode, wanted: Type) -> Option<&str> {
    match &node.target().node {
        NodeContent::Scalar { text, .. } if node.scalar_type() == Some(wanted) => Some(text),
        _ => None,
    }
}

fn is_null(node: &TreeNode) -> bool {
    text_of(node, Type::Null).is_some()
}

fn truth(node: &TreeNode) -> Option<bool> {
    scalar::boolean(text_of(node, Type::Bool)?)
}

fn number(node: &TreeNode) -> Option<f64> {
    match node.integer() {
        Some(integer) => Some(integer as f64),
        None => scalar::float(text_of(node, Type::Float)?),
    }
}

fn of_ndarrays(node: &TreeNode) -> Result<Ndarray> {
    let shape = lengths(node, "shape")?;
    let Some(Datatype::Scalar(datatype)) =
        node.get("datatype").map(|value| Datatype::read(value, false)).transpose()?
    else {
        return fault(node, "an array in chunks has no simple \"datatype\"");
    };
    let list = wanted(node, "chunks")?;
    let Some(items) = list.items() else {
        return fault(list, "the \"chunks\" of an array are not a list, or are too many");
    };
    let mut chunks = Vec::new();
    for item in items {
        let start = lengths(item, "start")?;
        let of_chunk = wanted(item, "ndarray")?;
        let tag = of_chunk.target().tag.as_deref().unwrap_or_default();
        let mut chunk = Ndarray::read(tag, of_chunk)?;
        if let Source::Inline(inline) = &chunk.source {
            if inline.has_aliases() {
                return fault(item, "a chunk of an array contains aliases, which are not followed here");
            }
            chunk.datatype.get_or_insert(Datatype::Scalar(datatype));
            if let Err(why) = chunk.infer_inline() {
                return fault(item, format!("a chunk of an array can't be read: {why}"));
            }
        }
        let is_alike = chunk.datatype == Some(Datatype::Scalar(datatype)) && chunk.mask == Mask::None;
        if !matches!(chunk.source, Source::Block(_) | Source::Inline(_)) || !is_alike {
            return fault(
                item,
                "a chunk of an array is not an ndarray of its type in a block or in the tree",
            );
        }
        // The default of the standard.
        let byteorder = *chunk.byteorder.get_or_insert(ByteOrder::Big);
        chunks.push((start, byteorder, chunk));
    }
    // Chunks of another byte order are swapped while they are read.
    let Some(byteorder) = chunks.first().map(|(_, byteorder, _)| *byteorder) else {
        return fault(list, "an array in chunks has none");
    };
    let starts: Vec<Vec<u64>> = (0..shape.len())
        .map(|axis| {
            let starts: BTreeSet<u64> =
                chunks.iter().filter_map(|(start, ..)| start.get(axis).copied()).collect();
            starts.into_iter().collect()
        })
        .collect();
    let chunks =
        in_grid(&shape, &starts, chunks.into_iter().map(|(start, _, chunk)| (start, chunk)).collect());
    let Some(chunks) = chunks else {
        return fault(list, "the chunks of an array do not fill it as a grid");
    };
    let divisions = starts.into_iter().map(Division::At).collect();
    array(node, shape, datatype, byteorder, Chunked { divisions, chunks: ArrayChunks::Arrays(chunks) })
}

/// Returns the chunks in C order; `None` if they do not fill the array, or not as a grid.
fn in_grid(shape: &[u64], starts: &[Vec<u64>], chunks: Vec<(Vec<u64>, Ndarray)>) -> Option<Vec<Ndarray>> {
    let count = starts.iter().try_fold(1_usize, |count, of_axis| count.checked_mul(of_axis.len()))?;
    if count != chunks.len() || starts.iter().any(|of_axis| of_axis.first() != Some(&0)) {
        return None;
    }
    let mut at: HashMap<Vec<u64>, Ndarray> = chunks.into_iter().collect();
    let mut ordered = Vec::with_capacity(count);
    for n in 0..count {
        let mut rest = n;
        let mut start = vec![0; shape.len()];
        let mut lens = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            let of_axis = starts.get(axis)?;
            let k = rest % of_axis.len();
            rest /= of_axis.len();
            let end = of_axis.get(k + 1).or(shape.get(axis)).copied()?;
            start[axis] = *of_axis.get(k)?;
            lens[axis] = end.checked_sub(start[axis])?;
        }
        let chunk = at.remove(&start)?;
        if chunk.shape.as_ref().is_none_or(|own| own.streamed || own.dimensions != lens) {
            return None;
        }
        ordered.push(chunk);
    }
    Some(ordered)
}
