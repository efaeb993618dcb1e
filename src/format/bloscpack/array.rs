//! What metadata say: their value, and the numpy array that they describe.

use std::sync::Arc;

use super::dtype::{Dtype, elements, shape};
use super::literal::Literal;
use crate::error::Result;

/// The metadata, or why they can't be had.
#[derive(Debug)]
pub struct Metadata {
    /// As they are.
    pub bytes: Result<Arc<[u8]>>,
    /// As a value, if they are one.
    pub value: Option<Literal>,
    /// The array that they describe, or what is wrong with it.
    pub array: Option<std::result::Result<Array, String>>,
}

impl Metadata {
    /// Looks at the bytes of metadata; at an array only if the file has one payload.
    pub fn new(bytes: Result<Vec<u8>>, has_payload: bool) -> Self {
        let text = bytes.as_deref().ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let value = text.and_then(Literal::parse);
        let array = value.as_ref().filter(|_| has_payload).and_then(Array::of);
        Self { bytes: bytes.map(Arc::from), value, array }
    }
}

/// An array whose elements are the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its type as a Python literal.
    pub descr: String,
    /// Whether the first index varies fastest.
    pub fortran_order: bool,
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// Bytes of all elements.
    pub size: u64,
}

impl Array {
    /// The array of these metadata. `None` if they describe none; an error says why they make no sense.
    pub fn of(metadata: &Literal) -> Option<std::result::Result<Self, String>> {
        if metadata.get("container")?.text()? != "numpy" {
            return None;
        }
        Some(Self::read(metadata))
    }

    fn read(metadata: &Literal) -> std::result::Result<Self, String> {
        let value = |key: &str| metadata.get(key).ok_or_else(|| format!("has no {key}"));
        let dtype = Dtype::of(value("dtype")?).ok_or("has a dtype that can't be shown as an array")?;
        let shape = shape(value("shape")?).ok_or("has a shape that makes no sense")?;
        let fortran_order = match metadata.get("order").map(Literal::text) {
            None | Some(Some("C")) => false,
            Some(Some("F")) => true,
            Some(_) => return Err("has an order that is neither C nor F".to_owned()),
        };
        let size = elements(&shape).and_then(|count| count.checked_mul(dtype.size));
        let size = size.ok_or("has a shape that is larger than any file")?;
        Ok(Self { descr: dtype.descr, fortran_order, shape, size })
    }
}
