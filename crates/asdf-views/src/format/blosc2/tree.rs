//! The text of `tree.yaml`: the header of the frame, the array, and the metalayers.

use seekable::codec::blosc::{FrameChunks, codec_name};
use serde::Serialize;
use serde_json::{Map, Value};

use super::array::Array;
use super::meta::Meta;
use crate::format::shown as yaml;

/// Maximum size of metalayers that are copied into the text, in bytes of JSON.
const REPEATED: usize = 64 << 10;

#[derive(Serialize)]
struct Tree<'a> {
    blosc2_frame_version: u8,
    nbytes: u64,
    cbytes: u64,
    typesize: u32,
    chunksize: u32,
    blocksize: u32,
    nchunks: u64,
    codec: String,
    clevel: u8,
    filters: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<ArrayForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metalayers: Option<LayersText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlmetalayers: Option<LayersText<'a>>,
}

#[derive(Serialize)]
struct ArrayForm<'a> {
    descr: String,
    shape: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    chunkshape: Option<&'a [u64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blockshape: Option<&'a [u64]>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum LayersText<'a> {
    Shown(&'a Map<String, Value>),
    Text(String),
}

/// Returns the text.
pub(super) fn text(chunks: &FrameChunks, array: Option<&Array>, meta: &Meta) -> Vec<u8> {
    let frame = chunks.frame();
    let cut = array.and_then(|array| array.cut.as_ref());
    let tree = Tree {
        blosc2_frame_version: frame.version,
        nbytes: frame.nbytes,
        cbytes: frame.cbytes,
        typesize: frame.typesize,
        chunksize: frame.chunksize,
        blocksize: frame.blocksize,
        nchunks: chunks.count(),
        codec: codec_name(frame.codec),
        clevel: frame.level,
        filters: frame
            .filters
            .iter()
            .filter(|filter| !filter.is_none())
            .map(|filter| filter.name())
            .collect(),
        array: array.map(|array| ArrayForm {
            descr: array.datatype.descr(array.byteorder),
            shape: &array.shape,
            chunkshape: cut.map(|cut| &cut.chunk[..]),
            blockshape: cut.map(|cut| &cut.block[..]),
        }),
        metalayers: layers(&meta.layers),
        vlmetalayers: layers(&meta.trailing),
    };
    yaml::yaml(&tree).unwrap_or_else(|error| format!("# the header can't be written: {error}\n")).into_bytes()
}

fn layers(layers: &Map<String, Value>) -> Option<LayersText<'_>> {
    if layers.is_empty() {
        return None;
    }
    let len = serde_json::to_string(layers).map_or(usize::MAX, |text| text.len());
    Some(if len > REPEATED {
        LayersText::Text(format!("{len} bytes of JSON: see meta.json"))
    } else {
        LayersText::Shown(layers)
    })
}
