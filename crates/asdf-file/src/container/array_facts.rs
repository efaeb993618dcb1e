//! The facts of an array in the catalogue.

use std::fmt;

use crate::array::{ByteOrder, Datatype, Scalar};

/// An array of a file, as the catalogue describes it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ArrayFacts {
    /// The path, as in `arrays/`.
    pub path: String,
    /// The type of an element, in the format's words.
    pub datatype: ElementType,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The place of the elements.
    pub source: ArraySource,
}

/// The type of an array's elements, in JSON as ASDF writes it: `"float32"`, `["ascii", 5]`, or a list of fields.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum ElementType {
    /// The name of a type.
    Named(String),
    /// A text: `ascii` or `ucs4`, and its length.
    Text(&'static str, u64),
    /// The fields of a record.
    Fields(Vec<FieldType>),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FieldType {
    /// The name.
    pub name: String,
    /// The type.
    pub datatype: ElementType,
    /// `big` or `little`.
    pub byteorder: &'static str,
    /// The lengths of its dimensions; empty for a single element.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
}

impl ElementType {
    /// Returns a type as ASDF writes it.
    pub fn of(datatype: &Datatype) -> Self {
        match datatype {
            Datatype::Scalar(Scalar::Ascii(len)) => Self::Text("ascii", *len),
            Datatype::Scalar(Scalar::Ucs4(len)) => Self::Text("ucs4", *len),
            Datatype::Record(fields) => {
                let field = |field: &crate::array::Field| FieldType {
                    name: field.name.clone(),
                    datatype: Self::of(&field.datatype),
                    byteorder: match field.byteorder {
                        ByteOrder::Big => "big",
                        ByteOrder::Little => "little",
                    },
                    shape: field.shape.clone(),
                };
                Self::Fields(fields.iter().map(field).collect())
            }
            Datatype::Other(name) => Self::Named(name.clone()),
            Datatype::Scalar(scalar) => Self::Named(scalar.name().to_owned()),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => out.write_str(name),
            Self::Text(kind, len) => write!(out, "[{kind}, {len}]"),
            Self::Fields(fields) => {
                out.write_str("[")?;
                for (n, field) in fields.iter().enumerate() {
                    let comma = if n == 0 { "" } else { ", " };
                    write!(out, "{comma}{}: {}", field.name, field.datatype)?;
                    if !field.shape.is_empty() {
                        write!(out, " {:?}", field.shape)?;
                    }
                }
                out.write_str("]")
            }
        }
    }
}

/// The source of an array that is in all blocks of its file.
pub const IN_BLOCKS: &str = "blocks";

/// The place of an array's elements: in JSON a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum ArraySource {
    /// The number of a block.
    Block(usize),
    /// The URI of another file, `inline` for elements in the tree, or `blocks` for those of all blocks.
    Text(String),
}
