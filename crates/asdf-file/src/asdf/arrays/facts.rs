//! The arrays of a file as the catalogue describes them.

use seekable::error::Result;

use super::super::ndarray::{ByteOrder, Datatype, Field, Ndarray, Scalar, Source};
use super::super::view::AsdfFile;
use super::entry::ArrayEntry;
use super::survey::surveyed;
use crate::container::{ArrayFacts, ArraySource, ElementType, FieldType};
use crate::folder::path_dir::Item;

/// Passes the arrays of the tree to `take`. Masks are left out, and so are references into other files,
/// because those files would have to be read.
pub fn each(file: &AsdfFile, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
    let blocks = file.block_count()?;
    for item in surveyed(file)?.items.iter() {
        let ArrayEntry::Array(array) = &item.what else { continue };
        let Some(path) = path_of(item) else { continue };
        let (source, size) = match &array.source {
            Source::Block(_) => match array.source.block(blocks) {
                Some(number) => {
                    let is_counted = array.shape.as_ref().is_none_or(|shape| shape.streamed);
                    let size = if is_counted { file.decoded_size(number)? } else { None };
                    (ArraySource::Block(number), size)
                }
                None => continue,
            },
            Source::Inline(_) => (ArraySource::Text("inline".to_owned()), None),
            Source::External(uri) | Source::Hdu(uri) => (ArraySource::Text(uri.clone()), None),
            Source::Chunked(_) => (ArraySource::Text("chunks".to_owned()), None),
            Source::Elsewhere(elsewhere) => (ArraySource::Text(elsewhere.uri.to_string()), None),
        };
        take(ArrayFacts { path, datatype: datatype_of(array), shape: shape_of(array, size), source });
    }
    Ok(())
}

/// Passes the path of each reference into another file, and its URI, to `take`.
pub fn each_reference(file: &AsdfFile, take: &mut dyn FnMut(String, &str)) -> Result<()> {
    for item in surveyed(file)?.items.iter() {
        if let ArrayEntry::Reference(_, uri) = &item.what
            && let Some(path) = path_of(item)
        {
            take(path, uri);
        }
    }
    Ok(())
}

/// Returns the path of an array; `None` for a mask.
fn path_of(item: &Item<ArrayEntry>) -> Option<String> {
    let path = item.components().collect::<Vec<_>>().join("/");
    let path = path.strip_suffix(".npy")?;
    (!path.ends_with(".mask")).then(|| path.to_owned())
}

/// Returns the shape. `*` is the number of rows that a block of `size` bytes has.
fn shape_of(array: &Ndarray, size: Option<u64>) -> Vec<u64> {
    let extent = size.and_then(|size| array.extent(size)?.ok());
    match (extent, &array.shape) {
        (Some(extent), _) => extent.dimensions,
        (None, Some(shape)) => shape.dimensions.clone(),
        (None, None) => Vec::new(),
    }
}

/// Returns the type of an array's elements; without a name if the tree does not state it.
fn datatype_of(array: &Ndarray) -> ElementType {
    let byteorder = array.byteorder.unwrap_or(ByteOrder::Big);
    match &array.datatype {
        Some(datatype) => element_type(datatype, byteorder),
        None => ElementType::Named(String::new()),
    }
}

/// Returns a type as the standard writes it.
pub(crate) fn element_type(datatype: &Datatype, byteorder: ByteOrder) -> ElementType {
    match datatype {
        Datatype::Scalar(Scalar::Ascii(len)) => ElementType::Text("ascii", *len),
        Datatype::Scalar(Scalar::Ucs4(len)) => ElementType::Text("ucs4", *len),
        Datatype::Scalar(scalar) => ElementType::Named(scalar.name().to_owned()),
        Datatype::Structured(fields) => {
            let field = |(n, field): (usize, &Field)| {
                let byteorder = field.byteorder.unwrap_or(byteorder);
                FieldType {
                    name: field.name_at(n).into_owned(),
                    datatype: element_type(&field.datatype, byteorder),
                    byteorder: match byteorder {
                        ByteOrder::Big => "big",
                        ByteOrder::Little => "little",
                    },
                    shape: field.shape.clone(),
                }
            };
            ElementType::Fields(fields.iter().enumerate().map(field).collect())
        }
        Datatype::Unknown => ElementType::Named(String::new()),
    }
}
