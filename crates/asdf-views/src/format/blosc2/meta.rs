//! Metalayers as JSON, for `meta.json` and `tree.yaml`.

use seekable::codec::blosc::metalayer::Layer;
use seekable::error::Result;
use serde_json::{Map, Value};

use super::msgpack;

/// Maximum size of the values that are shown together, in bytes.
const MAX_SHOWN: usize = 1 << 20;

/// The metalayers of a file as JSON.
#[derive(Debug, Default)]
pub(super) struct Meta {
    /// The metalayers of the header, without the one that describes the array.
    pub(super) layers: Map<String, Value>,
    /// The metalayers of the trailer, which can change their length.
    pub(super) trailing: Map<String, Value>,
}

impl Meta {
    /// Returns the metalayers, except the one named `besides`.
    pub(super) fn new(layers: &[Layer], trailing: &[Layer], besides: Option<&str>) -> Self {
        let mut meta = Self::default();
        let mut room = MAX_SHOWN;
        for layer in layers {
            if besides != Some(&layer.name) {
                meta.layers.insert(layer.name.clone(), shown(Ok(&layer.value), &mut room));
            }
        }
        for layer in trailing {
            let value = if room > 0 { layer.decoded() } else { Ok(Vec::new()) };
            meta.trailing
                .insert(layer.name.clone(), shown(value.as_deref().map_err(ToString::to_string), &mut room));
        }
        meta
    }

    /// True if there are no metalayers to show.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty() && self.trailing.is_empty()
    }

    /// Returns the contents of `meta.json`.
    pub(super) fn json(&self) -> Vec<u8> {
        let all = serde_json::json!({ "metalayers": self.layers, "vlmetalayers": self.trailing });
        // Writing JSON to memory can't fail.
        let mut text = serde_json::to_vec_pretty(&all).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// Returns a value as JSON, if there is room for it.
fn shown(value: std::result::Result<&[u8], String>, room: &mut usize) -> Value {
    let bytes = match value {
        Ok(bytes) => bytes,
        Err(why) => return format!("not shown: {why}").into(),
    };
    let Some(rest) = room.checked_sub(bytes.len().max(1)) else {
        *room = 0;
        return format!("not shown: all values together have more than {} MiB", MAX_SHOWN >> 20).into();
    };
    *room = rest;
    msgpack::value(bytes).unwrap_or_else(|| msgpack::raw(bytes))
}

/// Returns the value of a variable-length metalayer by name.
pub(super) fn trailing_value(layers: &[Layer], name: &str) -> Result<Option<Value>> {
    let Some(layer) = layers.iter().find(|layer| layer.name == name) else { return Ok(None) };
    Ok(msgpack::value(&layer.decoded()?))
}
