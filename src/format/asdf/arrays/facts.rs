//! The arrays of a file as the catalogue describes them.

use super::super::ndarray::{Datatype, Ndarray, Scalar, Source};
use super::super::view::AsdfFile;
use super::entry::ArrayEntry;
use super::npy;
use super::survey::{surveyed, surveyed_beside};
use crate::content::path_dir::Item;
use crate::error::Result;
use crate::format::{ArrayFacts, ArraySource};
use crate::yaml::read::Listener;

/// Passes the arrays of the tree to `take`. Masks are left out, and so are references into other files,
/// because those files would have to be read. If this call surveys the tree, `beside` gets the events of the
/// survey.
pub(in super::super) fn each(
    file: &AsdfFile,
    beside: &mut dyn Listener,
    take: &mut dyn FnMut(ArrayFacts),
) -> Result<()> {
    let blocks = file.block_count()?;
    for item in surveyed_beside(file, Some(beside))?.items.iter() {
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
pub(in super::super) fn each_reference(file: &AsdfFile, take: &mut dyn FnMut(String, &str)) -> Result<()> {
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

/// Returns the standard's name of a type, `float32` or `[ascii, 5]`; the fields of a table in numpy's notation.
fn datatype_of(array: &Ndarray) -> String {
    match &array.datatype {
        Some(Datatype::Scalar(Scalar::Ascii(len))) => format!("[ascii, {len}]"),
        Some(Datatype::Scalar(Scalar::Ucs4(len))) => format!("[ucs4, {len}]"),
        Some(Datatype::Scalar(scalar)) => format!("{scalar:?}").to_lowercase(),
        Some(datatype) => {
            let byteorder = array.byteorder.unwrap_or(super::super::ndarray::Byteorder::Big);
            npy::descr(datatype, byteorder).unwrap_or_default()
        }
        None => String::new(),
    }
}
