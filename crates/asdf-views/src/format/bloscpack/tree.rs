//! The text of `tree.yaml`: contents of header and metadata.

use serde::Serialize;
use serde_json::Value;

use super::array::{Array, Metadata};
use super::header::{Header, Layout};
use super::metadata::Section;
use crate::format::shown as yaml;

/// Maximum size of metadata that are copied into the text, in bytes.
const REPEATED: usize = 64 << 10;

#[derive(Serialize)]
struct Tree<'a> {
    bloscpack_version: u8,
    layout: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    typesize: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_chunk: Option<i32>,
    nchunks: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_app_chunks: Option<u64>,
    offsets: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<ArrayForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_header: Option<Described>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<MetadataText<'a>>,
}

#[derive(Serialize)]
struct ArrayForm<'a> {
    descr: String,
    fortran_order: bool,
    shape: &'a [u64],
}

#[derive(Serialize)]
struct Described {
    magic_format: String,
    options: u8,
    checksum: &'static str,
    codec: u8,
    level: u8,
    meta_size: u32,
    max_meta_size: u32,
    meta_comp_size: u32,
    user_codec: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum MetadataText<'a> {
    Parsed(&'a Value),
    Text(String),
}

/// The contents of `tree.yaml`.
#[derive(Debug)]
pub(super) struct TreeFields<'a> {
    pub(super) header: &'a Header,
    /// Size of the payload in bytes, if the header has it.
    pub(super) size: Option<u64>,
    pub(super) metadata: Option<&'a Metadata>,
    pub(super) array: Option<&'a Array>,
}

/// Returns the text.
pub(super) fn text(fields: &TreeFields<'_>) -> Vec<u8> {
    let header = fields.header;
    let described = header.kind != Layout::First;
    let tree = Tree {
        bloscpack_version: header.version,
        layout: header.kind.name(),
        checksum: described.then(|| header.checksum.name()),
        typesize: described.then_some(header.typesize),
        chunk_size: described.then_some(header.chunk_size),
        last_chunk: described.then_some(header.last_chunk),
        nchunks: header.chunks.map_or(-1, |chunks| i64::try_from(chunks).unwrap_or(i64::MAX)),
        max_app_chunks: (header.kind == Layout::Third).then_some(header.max_app_chunks),
        offsets: header.offsets.is_some(),
        payload_size: fields.size,
        array: fields.array.map(|array| ArrayForm {
            descr: array.datatype.descr(array.byteorder),
            fortran_order: array.fortran_order,
            shape: &array.shape,
        }),
        metadata_header: header.metadata.as_ref().filter(|section| section.described).map(section),
        metadata: fields.metadata.map(shown),
    };
    yaml::yaml(&tree).unwrap_or_else(|error| format!("# the header can't be written: {error}\n")).into_bytes()
}

fn section(section: &Section) -> Described {
    let word = |bytes: &[u8]| {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..used].escape_ascii().to_string()
    };
    Described {
        magic_format: word(&section.magic),
        options: section.options,
        checksum: section.checksum.name(),
        codec: section.codec,
        level: section.level,
        meta_size: section.size,
        max_meta_size: section.room,
        meta_comp_size: section.stored,
        user_codec: word(&section.user_codec),
    }
}

fn shown(metadata: &Metadata) -> MetadataText<'_> {
    match (&metadata.bytes, &metadata.value) {
        (Err(error), _) => MetadataText::Text(format!("damaged: {error}")),
        (Ok(bytes), _) if bytes.len() > REPEATED => {
            MetadataText::Text(format!("{} bytes: see meta.json", bytes.len()))
        }
        (Ok(_), Some(value)) => MetadataText::Parsed(value),
        (Ok(bytes), None) => MetadataText::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}
