//! What an ndarray node of the tree says: which block, which shape, which type; and which bytes of the
//! block that takes.
//!
//! The rules are those of the standard's schema `core/ndarray-1.x`, read as Python asdf reads them, and
//! those of the 0.1.0 forms (`core/ndarray` without a version, `dtype` for `datatype`).

use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::leaves::is_complex;
use crate::yaml::survey::{self, Node, Value};

mod complex;
mod datatype;
mod elements;
mod extent;
mod inline;
mod masks;
mod records;

pub use complex::{complex, with_j};
pub use datatype::{Byteorder, Datatype, Field, Scalar};
pub use extent::{Extent, TooLarge};
pub use inline::Inline;

/// The key below which an array is written in the tree.
pub const INLINE_KEY: &str = "data";
/// The key of a mapping that stands for another node.
pub const REFERENCE: &str = "$ref";
/// Keys that an ndarray in a block has, by which it is known when its tag is gone.
pub const TELLING_KEYS: [&str; 2] = ["source", "shape"];
/// More dimensions than numpy can have.
const MOST_DIMENSIONS: usize = 64;

const TAG: &str = "tag:stsci.edu:asdf/core/ndarray-";
const OLD_TAG: &str = "tag:stsci.edu:asdf/0.1.0/core/ndarray";
/// Files of 2014 and 2015 have this one.
const OLD_VERSION: &str = "0.1.0";

/// Whether a resolved tag is that of an ndarray.
pub fn is_tag(tag: &str) -> bool {
    tag.strip_prefix(TAG).is_some_and(|version| version.starts_with("1.")) || is_old(tag)
}

/// Whether a resolved tag is that of an ndarray in a version that was published.
pub fn is_known_tag(tag: &str) -> bool {
    is_old(tag) || tag.strip_prefix(TAG).is_some_and(|version| matches!(version, "1.0.0" | "1.1.0" | "1.2.0"))
}

/// Whether the node may have a `dtype`, and no byte order.
fn is_old(tag: &str) -> bool {
    tag == OLD_TAG || tag.strip_prefix(TAG) == Some(OLD_VERSION)
}

/// What a survey is to look for, to find all ndarrays.
pub const WANTED: survey::Wanted<'static> =
    survey::Wanted { tag: &is_tag, telling: &TELLING_KEYS, array: INLINE_KEY, ..survey::Wanted::NOTHING };

/// An ndarray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ndarray {
    /// Where its elements are.
    pub source: Source,
    /// How long its dimensions are; `None` if that is not written, for an array in the tree.
    pub shape: Option<Shape>,
    /// The type of its elements; `None` if that is not written, for an array in the tree.
    pub datatype: Option<Datatype>,
    /// The order of the bytes of an element, unless a field says otherwise.
    pub byteorder: Option<Byteorder>,
    /// Where in the block's data the first element is, in bytes.
    pub offset: u64,
    /// From one element to the next in each dimension, in bytes; `None` for one after the other in C
    /// order.
    pub strides: Option<Vec<i64>>,
    /// Which elements are not to be taken for data.
    pub mask: Mask,
}

/// Where an array's elements are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the data of this block of the same file; -1 is the last one, -2 the one before it.
    Block(i64),
    /// In the first block of another file, by its URI.
    External(String),
    /// Where a reference into another file leads.
    Elsewhere(Box<Elsewhere>),
    /// In the tree.
    Inline(Inline),
}

/// Where a reference into another file leads (`$ref: other.asdf#/path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The reference.
    pub uri: String,
    /// From the node that it leads to on to the array: the names in `arrays/`.
    pub path: Vec<String>,
}

/// The lengths of an array's dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether the first dimension is `*`: as long as the block has data for.
    pub streamed: bool,
    /// The dimensions, the outermost first, without `*`.
    pub dimensions: Vec<u64>,
}

/// Which elements of an array are not to be taken for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All are data.
    None,
    /// Those of this value, if it is a number; where it is written.
    Value(Mark, Option<Number>),
    /// Those where another ndarray is true, which has its own node.
    Ndarray(Mark),
}

/// A number that stands for elements that are not to be taken for data.
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

/// What is wrong with an ndarray, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Where.
    pub place: Mark,
    /// What.
    pub what: String,
}

type Result<T> = std::result::Result<T, Trouble>;

/// The trouble that `value` is.
fn trouble<T>(value: &Value, what: impl Into<String>) -> Result<T> {
    Err(Trouble { place: value.place, what: what.into() })
}

impl Ndarray {
    /// Reads a node with this tag. If `strict`, it has to be one that Python asdf reads.
    fn read_unmasked(tag: &str, node: &Value, strict: bool) -> Result<Self> {
        if let Node::Sequence(_, shape) | Node::LargeSequence(shape) = &node.target().node {
            return Self::inline(node, shape.clone(), (None, None), strict);
        }
        let Node::Mapping(_) = &node.target().node else {
            return trouble(node, "an ndarray is neither a mapping nor a sequence");
        };
        let old = is_old(tag);
        let datatype = node.get("datatype").or_else(|| node.get("dtype").filter(|_| old));
        let datatype = datatype.map(|value| Datatype::read(value, old)).transpose()?;
        let shape = node.get("shape").map(Shape::read).transpose()?;
        let byteorder = node.get("byteorder").map(Byteorder::read).transpose()?;
        let mut array = match (node.get("source"), node.get(INLINE_KEY)) {
            (Some(source), Some(_)) => return trouble(source, "an ndarray has both \"source\" and \"data\""),
            (None, None) => return trouble(node, "an ndarray has neither \"source\" nor \"data\""),
            (None, Some(data)) => match &data.target().node {
                Node::Sequence(_, lengths) | Node::LargeSequence(lengths) => {
                    Self::inline(data, lengths.clone(), (shape, datatype), strict)?
                }
                _ => return trouble(data, "the \"data\" of an ndarray is not a sequence"),
            },
            (Some(source), None) => {
                for (missing, key) in [
                    (shape.is_none(), "shape"),
                    (datatype.is_none(), "datatype"),
                    (byteorder.is_none(), "byteorder"),
                ] {
                    if missing && !(old && key == "byteorder") {
                        return trouble(node, format!("an ndarray has a \"source\" and no \"{key}\""));
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

    /// Reads a node with this tag, and what it is masked by, as strictly as Python asdf.
    pub fn read(tag: &str, node: &Value) -> Result<Self> {
        let mut array = Self::read_unmasked(tag, node, true)?;
        if let (Node::Mapping(_), Some(mask)) = (&node.target().node, node.get("mask")) {
            array.mask = Mask::read(mask)?;
            masks::fits(&array, mask)?;
        }
        Ok(array)
    }

    /// Reads a node with this tag, whatever it is masked by, and also if Python asdf does not read it: with strides of
    /// 0, or a table in the tree with as many rows as fields. And what is wrong with its mask.
    pub fn read_leniently(tag: &str, node: &Value) -> Result<(Self, Option<Trouble>)> {
        let mut array = Self::read_unmasked(tag, node, false)?;
        let mut wrong = None;
        if let (Node::Mapping(_), Some(mask)) = (&node.target().node, node.get("mask")) {
            match Mask::read(mask) {
                Ok(mask) => array.mask = mask,
                // Document 002 has masks that stand elsewhere.
                Err(_) if mask.get(REFERENCE).is_some() => {}
                Err(trouble) => wrong = Some(trouble),
            }
        }
        Ok((array, wrong))
    }

    fn inline(
        data: &Value,
        lengths: survey::Shape,
        (shape, datatype): (Option<Shape>, Option<Datatype>),
        strict: bool,
    ) -> Result<Self> {
        let structured = matches!(datatype, Some(Datatype::Structured(_) | Datatype::Unknown));
        match (&lengths, &shape) {
            (survey::Shape::Ragged, _) if !structured => {
                return trouble(data, "the rows of an array in the tree are not of the same length");
            }
            (survey::Shape::Array(lengths), Some(shape)) if !structured => {
                let empty = |lengths: &[u64]| lengths.contains(&0);
                let equal = *lengths == shape.dimensions || (empty(lengths) && empty(&shape.dimensions));
                if shape.streamed || !equal {
                    let shape = &shape.dimensions;
                    return trouble(
                        data,
                        format!(
                            "an array in the tree has the shape {lengths:?}, and its \"shape\" is {shape:?}"
                        ),
                    );
                }
            }
            _ => {}
        }
        let mut shape = shape;
        // With aliases of rows there may be far more of them than the text is long.
        if let (Some(Datatype::Structured(fields)), false) = (&datatype, lengths == survey::Shape::Unknown)
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

    fn dimensions_fit(&self, node: &Value) -> Result<()> {
        let Some(shape) = &self.shape else { return Ok(()) };
        let dimensions = shape.dimensions.len() + usize::from(shape.streamed);
        if dimensions > MOST_DIMENSIONS {
            return trouble(node, format!("an ndarray has more than {MOST_DIMENSIONS} dimensions"));
        }
        match &self.strides {
            Some(strides) if strides.len() != dimensions && !matches!(self.source, Source::Inline(_)) => {
                trouble(
                    node,
                    format!("an ndarray of {dimensions} dimensions has strides for {}", strides.len()),
                )
            }
            _ => Ok(()),
        }
    }
}

impl Source {
    fn read(value: &Value) -> Result<Self> {
        if let Some(uri) = value.text() {
            if !uri.is_empty() && uri.bytes().all(|byte| byte.is_ascii_digit()) {
                return trouble(value, "the \"source\" of an ndarray is the number of a block in quotes");
            }
            return Ok(Self::External(uri.to_owned()));
        }
        match value.integer().map(i64::try_from) {
            Some(Ok(n)) => Ok(Self::Block(n)),
            _ => trouble(value, "the \"source\" of an ndarray is neither the number of a block nor a URI"),
        }
    }

    /// The number of the block meant, in a file of `count` blocks; `None` if there is none.
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
    fn read(value: &Value) -> Result<Self> {
        let Some(items) = value.items() else {
            return trouble(value, "the \"shape\" of an ndarray is not a list");
        };
        let mut shape = Self { streamed: false, dimensions: Vec::with_capacity(items.len()) };
        for (n, item) in items.iter().enumerate() {
            match item.integer().map(u64::try_from) {
                Some(Ok(len)) => shape.dimensions.push(len),
                _ if item.text() == Some("*") && n == 0 => shape.streamed = true,
                _ if item.text() == Some("*") => {
                    return trouble(item, "only the first dimension of an ndarray may be '*'");
                }
                _ => return trouble(item, "a dimension of an ndarray is not a number from 0 on"),
            }
        }
        Ok(shape)
    }
}

impl Mask {
    fn read(value: &Value) -> Result<Self> {
        let target = value.target();
        match (&target.node, value.scalar_type()) {
            (Node::Scalar { text, .. }, Some(Type::Int)) => {
                let number =
                    value.integer().map(Number::Int).or_else(|| scalar::float(text).map(Number::Float));
                Ok(Self::Value(value.place, number))
            }
            (Node::Scalar { text, .. }, Some(Type::Float)) => {
                Ok(Self::Value(value.place, scalar::float(text).map(Number::Float)))
            }
            // A complex number has a tag of its own.
            (Node::Scalar { text, .. }, Some(Type::Other)) => {
                let tag = target.tag.as_deref();
                let number = if is_complex(tag) { complex(&with_j(text)) } else { None };
                Ok(Self::Value(value.place, number.map(|(re, im)| Number::Complex(re, im))))
            }
            (_, Some(_)) => trouble(value, "the \"mask\" of an ndarray is neither a number nor an ndarray"),
            _ if target.tag.as_deref().is_some_and(is_tag) => Ok(Self::Ndarray(target.place)),
            (Node::Sequence(..) | Node::LargeSequence(_), None) => Ok(Self::Value(value.place, None)),
            _ => trouble(value, "the \"mask\" of an ndarray is a mapping without the tag of an ndarray"),
        }
    }
}

fn offset(value: &Value) -> Result<u64> {
    match value.integer().map(u64::try_from) {
        Some(Ok(offset)) => Ok(offset),
        _ => trouble(value, "the \"offset\" of an ndarray is not a number from 0 on"),
    }
}

fn strides(value: &Value, strict: bool) -> Result<Vec<i64>> {
    let Some(items) = value.items() else {
        return trouble(value, "the \"strides\" of an ndarray are not a list");
    };
    let stride = |item: &Value| match item.integer().map(i64::try_from) {
        Some(Ok(stride)) if stride != 0 || !strict => Ok(stride),
        _ => trouble(item, "a stride of an ndarray is not a number other than 0"),
    };
    items.iter().map(stride).collect()
}

#[cfg(test)]
mod tests;
