//! The datatypes of an ndarray's elements, with the standard's names.

use std::borrow::Cow;
use std::collections::HashSet;

use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::{Result, fault};
use crate::array::{ByteOrder, Scalar};

/// Maximum nesting of datatypes that are read.
const MAX_DEPTH: usize = 64;

/// The type of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// A number or a string.
    Scalar(Scalar),
    /// Fields, packed without gaps.
    Structured(Vec<Field>),
    /// A datatype with too many fields to be read.
    Unknown,
}

/// A field of a structured datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name; empty if the field has none.
    pub name: String,
    /// The type.
    pub datatype: Datatype,
    /// The byte order, if it differs from the array's.
    pub byteorder: Option<ByteOrder>,
    /// The lengths of its dimensions; empty for a single element.
    pub shape: Vec<u64>,
}

impl ByteOrder {
    pub(super) fn read(value: &TreeNode) -> Result<Self> {
        match value.text() {
            Some("big") => Ok(Self::Big),
            Some("little") => Ok(Self::Little),
            _ => fault(value, "a \"byteorder\" is neither \"big\" nor \"little\""),
        }
    }
}

impl Datatype {
    /// Returns the size of an element in bytes; `None` on overflow, or if the fields are not known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Scalar(scalar) => scalar.size(),
            Self::Structured(fields) => fields.iter().try_fold(0_u64, |sum, field| {
                let one = field.datatype.size()?;
                let size = field.shape.iter().try_fold(one, |size, len| size.checked_mul(*len))?;
                sum.checked_add(size)
            }),
            Self::Unknown => None,
        }
    }

    /// Returns the type of a mask with a boolean for each field, as `numpy.ma.make_mask_descr` does.
    pub fn of_mask(&self) -> Self {
        match self {
            Self::Scalar(_) => Self::Scalar(Scalar::Bool8),
            Self::Structured(fields) => {
                let of_mask = |field: &Field| Field {
                    datatype: field.datatype.of_mask(),
                    byteorder: None,
                    ..field.clone()
                };
                Self::Structured(fields.iter().map(of_mask).collect())
            }
            Self::Unknown => Self::Unknown,
        }
    }

    /// True if two types have the same fields, except for names and types of their values.
    pub fn has_fields_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(_), Self::Scalar(_)) => true,
            (Self::Structured(own), Self::Structured(others)) => {
                let is_like = |(field, other_field): (&Field, &Field)| {
                    field.shape == other_field.shape && field.datatype.has_fields_of(&other_field.datatype)
                };
                own.len() == others.len() && own.iter().zip(others).all(is_like)
            }
            _ => false,
        }
    }

    /// True if all values are booleans.
    pub fn is_of_bools(&self) -> bool {
        match self {
            Self::Scalar(scalar) => *scalar == Scalar::Bool8,
            Self::Structured(fields) => fields.iter().all(|field| field.datatype.is_of_bools()),
            Self::Unknown => false,
        }
    }

    /// Returns the sizes of all values of an element, in order; `None` if there are more than `most`.
    pub fn value_sizes(&self, most: usize) -> Option<Vec<u64>> {
        match self {
            Self::Scalar(scalar) => Some(vec![scalar.size()?]),
            Self::Structured(fields) => {
                let mut sizes = Vec::new();
                for field in fields {
                    let one = field.datatype.value_sizes(most)?;
                    let count =
                        field.shape.iter().try_fold(1_u64, |product, len| product.checked_mul(*len))?;
                    let len = usize::try_from(count).ok()?.checked_mul(one.len())?;
                    if len.checked_add(sizes.len())? > most {
                        return None;
                    }
                    for _ in 0..count {
                        sizes.extend_from_slice(&one);
                    }
                }
                Some(sizes)
            }
            Self::Unknown => None,
        }
    }

    /// Reads a `datatype`. In `old` trees its fields may have a `dtype` instead.
    pub(super) fn read(value: &TreeNode, old: bool) -> Result<Self> {
        Self::read_within(value, old, MAX_DEPTH)
    }

    fn read_within(value: &TreeNode, old: bool, depth: usize) -> Result<Self> {
        let Some(depth) = depth.checked_sub(1) else {
            return fault(value, format!("datatypes are nested deeper than {MAX_DEPTH} levels"));
        };
        if let Some(name) = value.text() {
            return match Scalar::named(name) {
                Some(scalar) => Ok(Self::Scalar(scalar)),
                None => fault(value, format!("there is no datatype \"{}\"", name.escape_debug())),
            };
        }
        if let NodeContent::LargeSequence(_) = value.target().node {
            return Ok(Self::Unknown);
        }
        let Some(items) = value.items() else {
            return fault(value, "a datatype is neither a name nor a list");
        };
        if let Some(text) = text_of_length(items)? {
            return Ok(Self::Scalar(text));
        }
        let mut names = HashSet::new();
        let mut fields = Vec::with_capacity(items.len());
        for (n, item) in items.iter().enumerate() {
            let field = Field::read(item, old, depth)?;
            let name = field.name_at(n);
            if names.contains(&*name) {
                return fault(
                    item,
                    format!("two fields of a datatype are named \"{}\"", name.escape_debug()),
                );
            }
            names.insert(name.into_owned());
            fields.push(field);
        }
        Ok(Self::Structured(fields))
    }
}

/// Reads `[ascii, 5]` or `[ucs4, 5]`; `None` for other lists.
fn text_of_length(items: &[TreeNode]) -> Result<Option<Scalar>> {
    let [kind, len] = items else { return Ok(None) };
    let make: fn(u64) -> Scalar = match kind.text() {
        Some("ascii") => Scalar::Ascii,
        Some("ucs4") => Scalar::Ucs4,
        _ => return Ok(None),
    };
    // numpy stores the size of an element in 32 bits.
    match len.integer().map(u32::try_from) {
        Some(Ok(n)) if n < 1 << 29 => Ok(Some(make(u64::from(n)))),
        _ => fault(len, "the length of a text datatype is not a number from 0 on"),
    }
}

impl Field {
    /// Returns the name of the field, which has number `n`. A field without a name gets numpy's, `fN`.
    pub fn name_at(&self, n: usize) -> Cow<'_, str> {
        if self.name.is_empty() { Cow::Owned(format!("f{n}")) } else { Cow::Borrowed(&self.name) }
    }

    fn read(value: &TreeNode, old: bool, depth: usize) -> Result<Self> {
        let NodeContent::Mapping(_) = value.target().node else {
            let datatype = Datatype::read_within(value, old, depth)?;
            return Ok(Self { name: String::new(), datatype, byteorder: None, shape: Vec::new() });
        };
        let datatype = value.get("datatype").or_else(|| value.get("dtype").filter(|_| old));
        let Some(datatype) = datatype else { return fault(value, "a field has no \"datatype\"") };
        let name = match value.get("name") {
            None => String::new(),
            Some(name) => match name.text() {
                Some(text) if text.contains(|c: char| c.is_ascii_alphabetic() || c == '_') => text.to_owned(),
                _ => return fault(name, "the \"name\" of a field is not a name"),
            },
        };
        Ok(Self {
            name,
            datatype: Datatype::read_within(datatype, old, depth)?,
            byteorder: value.get("byteorder").map(ByteOrder::read).transpose()?,
            shape: value.get("shape").map_or(Ok(Vec::new()), shape)?,
        })
    }
}

fn shape(value: &TreeNode) -> Result<Vec<u64>> {
    let Some(items) = value.items() else {
        return fault(value, "the \"shape\" of a field is not a list");
    };
    let len = |item: &TreeNode| match item.integer().map(u64::try_from) {
        Some(Ok(len)) => Ok(len),
        _ => fault(item, "a dimension of a field is not a number from 0 on"),
    };
    items.iter().map(len).collect()
}
