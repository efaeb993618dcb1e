//! The keywords for ndarrays: `ndim`, `max_ndim`, `datatype` and `exact_datatype`.

use super::value::{self, Value};
use crate::limits::{MAX_ITEMS, MAX_NAME, MAX_VALUE};
use crate::yaml::document::{Document, Id, Kind};

/// The beginning of the tags of ndarrays.
const TAG: &str = "tag:stsci.edu:asdf/core/ndarray-";
/// Maximum number of dimensions, and nesting of datatypes. NumPy's is the same.
const MAX_DIMENSIONS: u64 = 64;

/// The type of the elements of an array.
#[derive(Clone, Debug, PartialEq)]
enum DataType {
    Bool,
    /// Signed, and the number of bits.
    Integer(bool, u32),
    Float(u32),
    Complex(u32),
    /// Unicode, and the number of characters.
    Text(bool, u64),
    /// Each field with its shape as a text.
    Fields(Vec<(Self, String)>),
}

/// True for a node with the tag of an ndarray.
pub(super) fn is_array(document: &Document, id: Id) -> bool {
    document.tag(id).is_some_and(|tag| tag.starts_with(TAG) && !tag[TAG.len()..].contains('/'))
}

/// Returns the node of the elements that are written in the tree.
fn written(document: &Document, id: Id) -> Option<Id> {
    match Value::of(document, id) {
        Value::Sequence => Some(id),
        Value::Mapping => document.target(value::member(document, id, "data")?),
        _ => None,
    }
}

/// Returns the number of dimensions of an array.
pub(super) fn dimensions(document: &Document, id: Id) -> Option<u64> {
    if let Some(shape) = value::member(document, id, "shape") {
        return Some(document.count(document.target(shape)?));
    }
    let mut id = written(document, id)?;
    for dimensions in 0..=MAX_DIMENSIONS {
        match document.kind(id) {
            Kind::ScalarRun => return Some(dimensions + document.levels_in(id) as u64),
            Kind::Sequence => match document.next_child(id, None) {
                Some(child) => id = document.target(child)?,
                None => return Some(dimensions + 1),
            },
            _ => return Some(dimensions),
        }
    }
    None
}

/// True if the elements of an array have the datatype of a schema, or, unless `is_exact`, one that it can hold without
/// loss. `id` is the array in its document, and `wanted` the datatype in the schema.
pub(super) fn has_datatype(
    document: &Document,
    id: Id,
    schema: &Document,
    wanted: Id,
    is_exact: bool,
) -> bool {
    let found = value::member(document, id, "datatype");
    let found_type = match found {
        Some(found) => {
            // Other keys of a field in a schema do not count.
            let keys = ["name", "datatype", "byteorder", "shape"];
            let text = value::written_keys(schema, wanted, &keys, MAX_VALUE);
            if text.is_some() && text == value::written(document, found, MAX_VALUE) {
                return true;
            }
            DataType::read(document, found, 0)
        }
        None => written(document, id).and_then(|items| DataType::of_items(document, items)),
    };
    match (found_type, DataType::read(schema, wanted, 0)) {
        (Some(found_type), Some(wanted)) => {
            found.is_none() && found_type == wanted || !is_exact && wanted.can_hold(&found_type)
        }
        _ => false,
    }
}

impl DataType {
    /// Reads a datatype as ASDF writes it.
    fn read(document: &Document, id: Id, depth: u64) -> Option<Self> {
        if depth > MAX_DIMENSIONS {
            return None;
        }
        let id = document.target(id)?;
        if let Some(name) = value::text(document, id) {
            let digits = name.trim_start_matches(|char: char| !char.is_ascii_digit());
            let bits: u32 = digits.parse().ok()?;
            return match (&name[..name.len() - digits.len()], bits) {
                ("bool", 8) => Some(Self::Bool),
                ("int", 8 | 16 | 32 | 64) => Some(Self::Integer(true, bits)),
                ("uint", 8 | 16 | 32 | 64) => Some(Self::Integer(false, bits)),
                ("float", 16 | 32 | 64) => Some(Self::Float(bits)),
                ("complex", 64 | 128) => Some(Self::Complex(bits)),
                _ => None,
            };
        }
        let items: Vec<Id> = document.children(id).collect();
        if let [name, len] = items[..]
            && let Some(name @ ("ascii" | "ucs4")) = value::text(document, name)
        {
            return Some(Self::Text(name == "ucs4", Value::of(document, document.target(len)?).count()?));
        }
        let field = |item: Id| {
            let item = document.target(item)?;
            let shape = value::member(document, item, "shape");
            let shape = shape.map_or_else(String::new, |shape| value::shown(document, shape, MAX_NAME));
            let datatype = value::member(document, item, "datatype").unwrap_or(item);
            Some((Self::read(document, datatype, depth + 1)?, shape))
        };
        let is_list = value::is_sequence(document, id) && !items.is_empty();
        is_list.then(|| items.into_iter().map(field).collect::<Option<_>>().map(Self::Fields))?
    }

    /// Returns the type that NumPy gives to elements that are written in a tree. The first ones decide.
    fn of_items(document: &Document, items: Id) -> Option<Self> {
        let mut found = None;
        let is_array = Self::add_items(document, items, 0, &mut MAX_ITEMS.clone(), &mut found);
        is_array.then_some(found.unwrap_or(Self::Float(64)))
    }

    fn add_items(
        document: &Document,
        items: Id,
        depth: u64,
        most: &mut usize,
        found: &mut Option<Self>,
    ) -> bool {
        depth <= MAX_DIMENSIONS
            && value::each_item(document, items, &mut |document, item| {
                let Some(rest) = most.checked_sub(1) else { return true };
                *most = rest;
                let new = match Value::of(document, item) {
                    Value::Sequence => return Self::add_items(document, item, depth + 1, most, found),
                    Value::Bool(_) => Self::Bool,
                    Value::Int(_) => Self::Integer(true, 64),
                    Value::Float(_) => Self::Float(64),
                    Value::Text(_) if document.tag(item).is_some_and(|tag| tag.contains("/complex-")) => {
                        Self::Complex(128)
                    }
                    Value::Text(text) => Self::Text(true, text.chars().count() as u64),
                    // A masked element.
                    Value::Null => return true,
                    Value::Time(_) | Value::Binary(_) | Value::Mapping => return false,
                };
                if found.as_ref().is_none_or(|known| new.can_hold(known)) {
                    *found = Some(new);
                }
                true
            })
    }

    /// True if all values of another type can be converted to this one without loss (`numpy.can_cast`).
    fn can_hold(&self, other: &Self) -> bool {
        match (other, self) {
            (Self::Fields(others), Self::Fields(fields)) => {
                others.len() == fields.len()
                    && others.iter().zip(fields).all(|((other, shape), (field, wanted_shape))| {
                        shape == wanted_shape && field.can_hold(other)
                    })
            }
            (Self::Fields(_), _) | (_, Self::Fields(_)) => false,
            (Self::Text(is_unicode, len), Self::Text(holds_unicode, most)) => {
                len <= most && (*holds_unicode || !is_unicode)
            }
            (Self::Text(..), _) => false,
            // The longest number as a text.
            (_, Self::Text(_, most)) => *most >= 64,
            (Self::Bool, _) => true,
            (_, Self::Bool) => false,
            (Self::Integer(false, bits), Self::Integer(true, most)) => bits < most,
            (Self::Integer(true, _), Self::Integer(false, _)) => false,
            (Self::Integer(_, bits), Self::Integer(_, most)) | (Self::Float(bits), Self::Float(most)) => {
                bits <= most
            }
            (Self::Integer(_, bits), Self::Float(most)) => float_for(*bits) <= *most,
            (Self::Integer(_, bits), Self::Complex(most)) => 2 * float_for(*bits).max(32) <= *most,
            (Self::Float(bits), Self::Complex(most)) => 2 * (*bits).max(32) <= *most,
            (Self::Complex(bits), Self::Complex(most)) => bits <= most,
            (Self::Float(_), Self::Integer(..)) | (Self::Complex(_), _) => false,
        }
    }
}

/// Returns the bits of the float that NumPy takes for integers with some bits.
fn float_for(bits: u32) -> u32 {
    (2 * bits).min(64)
}
