//! An ndarray node of the tree: its block, shape and type, and the bytes of the block that it takes.
//!
//! The rules are those of the standard's schema `core/ndarray-1.x`, read as Python asdf reads them, and those
//! of version 0.1.0 (`core/ndarray` without a version, `dtype` for `datatype`).

use std::sync::Arc;

use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::leaves::is_complex;
use asdf_tree::yaml::survey::{self, NodeContent, TreeNode};

pub mod chunked;
mod complex;
mod datatype;
mod elements;
mod extent;
mod inline;
mod masks;
mod records;

pub use crate::array::{ByteOrder, Scalar};
pub use complex::{complex, with_j};
pub use datatype::{Datatype, Field};
pub(crate) use extent::TooLarge;
pub(crate) use inline::Inline;

/// The key of the data of an array in the tree.
pub const INLINE_KEY: &str = "data";
/// The key of a reference, a mapping that stands for another node.
pub(crate) const REFERENCE: &str = "$ref";
/// The keys of an ndarray in a block. They identify an ndarray that has lost its tag.
pub(crate) const TELLING_KEYS: [&str; 2] = ["source", "shape"];
/// Prefix of a `source` that is an extension of a FITS file.
pub(crate) const FITS: &str = "fits:";
/// Maximum number of dimensions: as many as numpy allows.
const MAX_DIMENSIONS: usize = 64;

const TAG: &str = "tag:stsci.edu:asdf/core/ndarray-";
const OLD_TAG: &str = "tag:stsci.edu:asdf/0.1.0/core/ndarray";
/// The version in files of 2014 and 2015.
const OLD_VERSION: &str = "0.1.0";

/// True if a resolved tag is that of an ndarray.
pub fn is_tag(tag: &str) -> bool {
    tag.strip_prefix(TAG).is_some_and(|version| version.starts_with("1.")) || is_old(tag)
}

/// True if a resolved tag is that of an ndarray in a published version.
pub(crate) fn is_known_tag(tag: &str) -> bool {
    is_old(tag) || tag.strip_prefix(TAG).is_some_and(|version| matches!(version, "1.0.0" | "1.1.0" | "1.2.0"))
}

/// True if nodes with this tag may have `dtype` for `datatype`, and no byte order.
fn is_old(tag: &str) -> bool {
    tag == OLD_TAG || tag.strip_prefix(TAG) == Some(OLD_VERSION)
}

/// The search criteria with which a survey of the tree finds all ndarrays.
pub(crate) const WANTED: survey::Wanted<'static> =
    survey::Wanted { tag: &is_tag, telling: &TELLING_KEYS, array: INLINE_KEY, ..survey::Wanted::NOTHING };

/// An ndarray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ndarray {
    /// The place of the array's elements.
    pub source: Source,
    /// The lengths of the dimensions. `None` if an array in the tree does not state them.
    pub shape: Option<Shape>,
    /// The type of the elements. `None` if an array in the tree does not state it.
    pub datatype: Option<Datatype>,
    /// The byte order of the elements, unless a field has its own.
    pub byteorder: Option<ByteOrder>,
    /// The offset of the first element in the block's data, in bytes.
    pub offset: u64,
    /// The distance in bytes from one element to the next in each dimension; `None` for contiguous elements
    /// in C order.
    pub strides: Option<Vec<i64>>,
    /// The mask, which marks elements as invalid.
    pub mask: Mask,
}

/// The place of an array's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The data of this block in the same file; -1 is the last block, -2 the one before it.
    Block(i64),
    /// The first block of another file, given by its URI.
    External(String),
    /// An extension of the FITS file that has the tree in one of its extensions: `fits:SCI,1`.
    Hdu(String),
    /// The target of a reference into another file.
    Elsewhere(Box<ReferredArray>),
    /// The tree itself.
    Inline(Inline),
    /// Chunks, each in a block or an array of its own.
    Chunked(Box<chunked::Chunked>),
}

/// The target of a reference into another file (`$ref: other.asdf#/path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferredArray {
    /// The reference.
    pub uri: Arc<str>,
    /// The path from the target node to the array, as names in `arrays/`.
    pub path: Vec<String>,
}

/// The lengths of an array's dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// True if the first dimension is `*`: it is as long as the block has data for.
    pub streamed: bool,
    /// The dimensions, the outermost first, without `*`.
    pub dimensions: Vec<u64>,
}

/// The mask of an array, which says which elements are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All elements are valid.
    None,
    /// Elements with this value are masked. The value is `None` if it is not a number. [`Mark`] is the
    /// position of the value in the tree's text.
    Value(Mark, Option<Number>),
    /// Elements for which another ndarray is true are masked. [`Mark`] is the position of the other ndarray
    /// in the tree's text.
    Ndarray(Mark),
    /// Values that equal the null of their field, as the table of a FITS file has it.
    Fields,
}

/// A number that marks elements as masked.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// A number with a decimal point.
    Float(f64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::Float(one), Self::Float(other)) => one.to_bits() == other.to_bits(),
            (Self::Complex(re, im), Self::Complex(other_re, other_im)) => {
                (re.to_bits(), im.to_bits()) == (other_re.to_bits(), other_im.to_bits())
            }
            _ => false,
        }
    }
}

impl Eq for Number {}

/// A fault in an ndarray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFault {
    /// The place in the text.
    pub place: Mark,
    /// The message.
    pub what: String,
}

type Result<T> = std::result::Result<T, NodeFault>;

/// Returns an error at the place of `value`.
fn fault<T>(value: &TreeNode, what: impl Into<String>) -> Result<T> {
    Err(NodeFault { place: value.place, what: what.into() })
}

impl Ndarray {
    /// Returns this array of another file as one that a reference leads to; `path` leads to it from the reference's target.
    pub fn in_file(&self, uri: &Arc<str>, path: Vec<String>) -> Self {
        let elsewhere = ReferredArray { uri: uri.clone(), path };
        Self { source: Source::Elsewhere(Box::new(elsewhere)), ..self.clone() }
    }

    /// Reads a node with this tag without its mask. If `strict`, fails if Python asdf can't read the array.
    fn read_unmasked(tag: &str, node: &TreeNode, strict: bool) -> Result<Self> {
        if let NodeContent::Sequence(_, shape) | NodeContent::LargeSequence(shape) = &node.target().node {
            return Self::inline(node, shape.clone(), (None, None), strict);
        }
        let NodeContent::Mapping(_) = &node.target().node else {
            return fault(node, "an ndarray is neither a mapping nor a sequence");
        };
        let old = is_old(tag);
        let datatype = node.get("datatype").or_else(|| node.get("dtype").filter(|_| old));
        let datatype = datatype.map(|value| Datatype::read(value, old)).transpose()?;
        let shape = node.get("shape").map(Shape::read).transpose()?;
        let byteorder = node.get("byteorder").map(ByteOrder::read).transpose()?;
        let mut array = match (node.get("source"), node.get(INLINE_KEY)) {
            (Some(source), Some(_)) => return fault(source, "an ndarray has both \"source\" and \"data\""),
            (None, None) => return fault(node, "an ndarray has neither \"source\" nor \"data\""),
            (None, Some(data)) => match &data.target().node {
                NodeContent::Sequence(_, lengths) | NodeContent::LargeSequence(lengths) => {
                    Self::inline(data, lengths.clone(), (shape, datatype), strict)?
                }
                _ => return fault(data, "the \"data\" of an ndarray is not a sequence"),
            },
            (Some(source), None) => {
                for (missing, key) in [
                    (shape.is_none(), "shape"),
                    (datatype.is_none(), "datatype"),
                    (byteorder.is_none(), "byteorder"),
                ] {
                    if missing && !(old && key == "byteorder") {
                        return fault(node, format!("an ndarray has a \"source\" but no \"{key}\""));
                    }
                }
                let source = Source::read(source)?;
                Self { source, shape, datatype, byteorder, offset: 0, strides: None, mask: Mask::None }
            }
        };
        array.byteorder = byteorder;
        array.offset = node.get("offset").map_or(Ok(0), offset)?;
        array.strides = node.get("strides").map(|value| strides(value, strict)).transpose()?;
        array.dimensions_fit(node)?;
        Ok(array)
    }

    /// Reads a node with this tag and its mask. Fails if Python asdf can't read it.
    pub fn read(tag: &str, node: &TreeNode) -> Result<Self> {
        let mut array = Self::read_unmasked(tag, node, true)?;
        if let (NodeContent::Mapping(_), Some(mask)) = (&node.target().node, node.get("mask")) {
            array.mask = Mask::read(mask)?;
            masks::fits(&array, mask)?;
        }
        Ok(array)
    }

    /// Reads a node with this tag. Accepts three kinds of arrays that Python asdf can't read: a stride is 0,
    /// an inline table has as many rows as fields, or the mask is faulty. Returns the fault of the mask as
    /// well.
    pub fn read_leniently(tag: &str, node: &TreeNode) -> Result<(Self, Option<NodeFault>)> {
        let mut array = Self::read_unmasked(tag, node, false)?;
        let mut wrong = None;
        if let (NodeContent::Mapping(_), Some(mask)) = (&node.target().node, node.get("mask")) {
            match Mask::read(mask) {
                Ok(mask) => array.mask = mask,
                // The 2014 standard has an example with a mask that is a reference.
                Err(_) if mask.get(REFERENCE).is_some() => {}
                Err(fault) => wrong = Some(fault),
            }
        }
        Ok((array, wrong))
    }

    fn inline(
        data: &TreeNode,
        lengths: survey::SequenceShape,
        (shape, datatype): (Option<Shape>, Option<Datatype>),
        strict: bool,
    ) -> Result<Self> {
        let structured = matches!(datatype, Some(Datatype::Structured(_) | Datatype::Unknown));
        match (&lengths, &shape) {
            (survey::SequenceShape::Ragged, _) if !structured => {
                return fault(data, "the rows of an array in the tree are not of the same length");
            }
            (survey::SequenceShape::Array(lengths), Some(shape)) if !structured => {
                let empty = |lengths: &[u64]| lengths.contains(&0);
                let equal = *lengths == shape.dimensions || (empty(lengths) && empty(&shape.dimensions));
                if shape.streamed || !equal {
                    let shape = &shape.dimensions;
                    return fault(
                        data,
                        format!(
                            "an array in the tree has the shape {lengths:?}, but its \"shape\" is {shape:?}"
                        ),
                    );
                }
            }
            _ => {}
        }
        let mut shape = shape;
        // With aliases, an array may have far more rows than its text has bytes.
        if let (Some(Datatype::Structured(fields)), false) =
            (&datatype, lengths == survey::SequenceShape::Unknown)
            && let Some(dimensions) = records::fit(data, shape.as_ref(), fields, strict)?
        {
            shape = Some(Shape { streamed: false, dimensions });
        }
        let leaves = data.target().leaves.as_deref();
        if let Some(leaves) = leaves {
            elements::fit(leaves, datatype.as_ref())?;
        }
        let seen = leaves.map(|leaves| Box::new(leaves.seen.clone()));
        let source = Source::Inline(Inline { shape: lengths, place: data.target().place, seen });
        Ok(Self { source, shape, datatype, byteorder: None, offset: 0, strides: None, mask: Mask::None })
    }

    fn dimensions_fit(&self, node: &TreeNode) -> Result<()> {
        let Some(shape) = &self.shape else { return Ok(()) };
        let dimensions = shape.dimensions.len() + usize::from(shape.streamed);
        if dimensions > MAX_DIMENSIONS {
            return fault(node, format!("an ndarray has more than {MAX_DIMENSIONS} dimensions"));
        }
        match &self.strides {
            Some(strides) if strides.len() != dimensions && !matches!(self.source, Source::Inline(_)) => {
                fault(
                    node,
                    format!("an ndarray of {dimensions} dimensions has strides for {}", strides.len()),
                )
            }
            _ => Ok(()),
        }
    }
}

impl Source {
    fn read(value: &TreeNode) -> Result<Self> {
        if let Some(uri) = value.text() {
            if !uri.is_empty() && uri.bytes().all(|byte| byte.is_ascii_digit()) {
                return fault(value, "the \"source\" of an ndarray is the number of a block in quotes");
            }
            let is_hdu = uri.starts_with(FITS);
            return Ok(if is_hdu { Self::Hdu(uri.to_owned()) } else { Self::External(uri.to_owned()) });
        }
        match value.integer().map(i64::try_from) {
            Some(Ok(n)) => Ok(Self::Block(n)),
            _ => fault(value, "the \"source\" of an ndarray is neither the number of a block nor a URI"),
        }
    }

    /// Returns the number of the block in a file of `count` blocks; `None` if there is no such block.
    pub fn block(&self, count: usize) -> Option<usize> {
        let Self::Block(n) = self else { return None };
        let n = match n {
            0.. => usize::try_from(*n).ok()?,
            _ => count.checked_sub(usize::try_from(n.unsigned_abs()).ok()?)?,
        };
        (n < count).then_some(n)
    }
}

impl Shape {
    fn read(value: &TreeNode) -> Result<Self> {
        let Some(items) = value.items() else {
            return fault(value, "the \"shape\" of an ndarray is not a list");
        };
        let mut shape = Self { streamed: false, dimensions: Vec::with_capacity(items.len()) };
        for (n, item) in items.iter().enumerate() {
            match item.integer().map(u64::try_from) {
                Some(Ok(len)) => shape.dimensions.push(len),
                _ if item.text() == Some("*") && n == 0 => shape.streamed = true,
                _ if item.text() == Some("*") => {
                    return fault(item, "only the first dimension of an ndarray may be '*'");
                }
                _ => return fault(item, "a dimension of an ndarray is not a number from 0 on"),
            }
        }
        Ok(shape)
    }
}

impl Mask {
    fn read(value: &TreeNode) -> Result<Self> {
        let target = value.target();
        match (&target.node, value.scalar_type()) {
            (NodeContent::Scalar { text, .. }, Some(Type::Int)) => {
                let number =
                    value.integer().map(Number::Int).or_else(|| scalar::float(text).map(Number::Float));
                Ok(Self::Value(value.place, number))
            }
            (NodeContent::Scalar { text, .. }, Some(Type::Float)) => {
                Ok(Self::Value(value.place, scalar::float(text).map(Number::Float)))
            }
            // A complex number has its own tag.
            (NodeContent::Scalar { text, .. }, Some(Type::Other)) => {
                let tag = target.tag.as_deref();
                let number = if is_complex(tag) { complex(&with_j(text)) } else { None };
                Ok(Self::Value(value.place, number.map(|(re, im)| Number::Complex(re, im))))
            }
            (_, Some(_)) => fault(value, "the \"mask\" of an ndarray is neither a number nor an ndarray"),
            _ if target.tag.as_deref().is_some_and(is_tag) => Ok(Self::Ndarray(target.place)),
            (NodeContent::Sequence(..) | NodeContent::LargeSequence(_), None) => {
                Ok(Self::Value(value.place, None))
            }
            _ => fault(value, "the \"mask\" of an ndarray is a mapping without the tag of an ndarray"),
        }
    }
}

fn offset(value: &TreeNode) -> Result<u64> {
    match value.integer().map(u64::try_from) {
        Some(Ok(offset)) => Ok(offset),
        _ => fault(value, "the \"offset\" of an ndarray is not a number from 0 on"),
    }
}

fn strides(value: &TreeNode, strict: bool) -> Result<Vec<i64>> {
    let Some(items) = value.items() else {
        return fault(value, "the \"strides\" of an ndarray are not a list");
    };
    let stride = |item: &TreeNode| match item.integer().map(i64::try_from) {
        Some(Ok(stride)) if stride != 0 || !strict => Ok(stride),
        _ => fault(item, "a stride of an ndarray is not a number other than 0"),
    };
    items.iter().map(stride).collect()
}

#[cfg(test)]
mod tests;
