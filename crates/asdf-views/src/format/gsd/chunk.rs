//! A chunk as a file: a `.npy` array, or a text.

use std::sync::Arc;

use asdf_file::array::npy;
use asdf_file::folder::{File, Renewal, Signature};
use seekable::content::Content;
use seekable::error::Result;

use super::entry::IndexEntry;
use super::facts;
use super::file::GsdFile;

/// Returns the file name extension of the chunk.
pub(crate) fn ending(entry: &IndexEntry) -> &'static str {
    match entry.element() {
        Some(element) if element.is_text() => ".txt",
        _ => ".npy",
    }
}

/// Returns the bytes of the file: the chunk's data as stored, after a `.npy` header if it is an array.
pub(crate) fn content(file: &GsdFile, entry: &IndexEntry) -> Result<Arc<dyn Content>> {
    let data = Arc::new(file.data(entry)?);
    match entry.element() {
        Some(element) if !element.is_text() => npy::little_endian(element.scalar, entry.shape(), data),
        _ => Ok(data),
    }
}

/// Returns the chunk as a file.
pub(crate) fn file(file: &Arc<GsdFile>, entry: &IndexEntry) -> File {
    let holder = file.clone();
    let entry = *entry;
    let content = content(file, &entry).map_err(|error| error.of(file.source.path()));
    File {
        renewal: Renewal::WhileSame(Signature::new(signature(file, &entry))),
        attributes: Some(Arc::new(move || facts::attributes(&holder, &entry))),
        ..File::of(content)
    }
}

/// Returns a text that differs between versions of the file with different chunks at this path. Frame and
/// name are not included, because the path contains them.
pub(crate) fn signature(file: &GsdFile, entry: &IndexEntry) -> String {
    let IndexEntry { location, n, m, kind, .. } = entry;
    let version = file.header().version.0;
    format!("{version} {location} {n} {m} {kind}")
}
