//! The parsed metadata, and the NumPy array that they describe.

use std::sync::Arc;

use asdf_file::array::{ByteOrder, Datatype, literal};
use seekable::error::Result;
use serde_json::Value;

use crate::format::dtype::{dtype, elements, shape};

/// The metadata of a file.
#[derive(Debug)]
pub struct Metadata {
    /// The raw bytes, or the error of reading them.
    pub bytes: Result<Arc<[u8]>>,
    /// The parsed value; `None` if the bytes are not a literal.
    pub value: Option<Value>,
    /// The array that the metadata describe, or why it can't be shown; `None` if the metadata describe no
    /// array.
    pub array: Option<std::result::Result<Array, String>>,
}

impl Metadata {
    /// Parses metadata. An array is only looked for if the file has one payload.
    pub fn new(bytes: Result<Vec<u8>>, has_payload: bool) -> Self {
        let text = bytes.as_deref().ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let value = text.and_then(literal::parse);
        let array = value.as_ref().filter(|_| has_payload).and_then(Array::of);
        Self { bytes: bytes.map(Arc::from), value, array }
    }
}

/// An array whose elements are the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The type of an element.
    pub datatype: Datatype,
    /// The order of the bytes of an element.
    pub byteorder: ByteOrder,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// Size of all elements in bytes.
    pub size: u64,
}

impl Array {
    /// Returns the array that these metadata describe, or why it is invalid; `None` if they describe no
    /// array.
    pub fn of(metadata: &Value) -> Option<std::result::Result<Self, String>> {
        if metadata.get("container")?.as_str()? != "numpy" {
            return None;
        }
        Some(Self::read(metadata))
    }

    fn read(metadata: &Value) -> std::result::Result<Self, String> {
        let value = |key: &str| metadata.get(key).ok_or_else(|| format!("has no {key}"));
        let dtype = dtype(value("dtype")?);
        let (datatype, byteorder) = dtype.ok_or("has a dtype that can't be shown as an array")?;
        let shape = shape(value("shape")?).ok_or("has an invalid shape")?;
        let fortran_order = match metadata.get("order").map(Value::as_str) {
            None | Some(Some("C")) => false,
            Some(Some("F")) => true,
            Some(_) => return Err("has an order that is neither C nor F".to_owned()),
        };
        let size = elements(&shape).zip(datatype.size()).and_then(|(count, item)| count.checked_mul(item));
        let size = size.ok_or("has a shape that is larger than any file")?;
        Ok(Self { datatype, byteorder, fortran_order, shape, size })
    }
}
