//! A chunk as a file: an array with the header of numpy, or a text.

use std::sync::Arc;

use super::entry::Entry;
use super::facts;
use super::file::GsdFile;
use crate::content::folder::{File, Keeping, Renewal, Signature};
use crate::content::{Content, npy};
use crate::error::Result;

/// The ending of the name of its file.
pub fn ending(entry: &Entry) -> &'static str {
    match entry.element() {
        Some(element) if element.is_text() => ".txt",
        _ => ".npy",
    }
}

/// The bytes of its file: the data as they lie in the source, behind a header if it is an array.
pub fn content(file: &GsdFile, entry: &Entry) -> Result<Arc<dyn Content>> {
    let data = Arc::new(file.data(entry)?);
    match entry.element() {
        Some(element) if !element.is_text() => {
            npy::array(&format!("'{}'", element.descr), false, &entry.shape(), data)
        }
        _ => Ok(data),
    }
}

/// Its file.
pub fn file(file: &Arc<GsdFile>, entry: &Entry) -> File {
    let (holder, entry) = (file.clone(), *entry);
    File {
        content: content(file, &entry).map_err(|error| error.of(file.source().path())),
        claimed: 0,
        grows: false,
        blocks: Vec::new(),
        renewal: Renewal::WhileSame(Signature::new(signature(file, &entry))),
        keeping: Keeping::All,
        attributes: Some(Arc::new(move || facts::attributes(&holder, &entry))),
    }
}

/// The same text in all versions of a file in which the chunk is the same: its frame and name are in its path.
pub fn signature(file: &GsdFile, entry: &Entry) -> String {
    let Entry { location, n, m, kind, .. } = entry;
    let version = file.header().version.0;
    format!("{version} {location} {n} {m} {kind}")
}
