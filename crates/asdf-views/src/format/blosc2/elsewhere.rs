//! Frames whose data are elsewhere: python-blosc2 computes or fetches them.
//!
//! | metalayer | the frame |
//! |---|---|
//! | `b2o` | of python-blosc2 4.1 on: a map whose `kind` is `lazyexpr`, `lazyudf`, `remote_array` and so on; no chunk has data |
//! | `LazyArray` | of versions before: 0 an expression, 1 a function; no chunk has data |
//! | `proxy-source` | the cache of a proxy. Bits in `proxy-fetched-blocks` or `proxy-fetched` in the trailer, the lowest of a byte first, are set for the blocks or chunks that it has fetched. Before there were bits, all chunks with blocks were |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seekable::codec::blosc::metalayer::Layer;
use seekable::codec::blosc::{FrameChunks, NotStored};
use serde_json::Value;

use super::{meta, msgpack};

const OBJECT: &str = "b2o";
const LAZY: &str = "LazyArray";
const PROXY: &str = "proxy-source";
const FETCHED: &str = "proxy-fetched";
const FETCHED_BLOCKS: &str = "proxy-fetched-blocks";
const BLOCKS: &str = "proxy-fetched-bpc";

/// True if the chunks of a frame may have their data elsewhere. The trailer says which ones.
pub(super) fn may_be(layers: &[Layer]) -> bool {
    layers.iter().any(|layer| [OBJECT, LAZY, PROXY].contains(&&*layer.name))
}

/// Returns which chunks have their data elsewhere; `None` if none has. `trailing` are the metalayers of the trailer;
/// `None` if they are damaged.
pub(super) fn not_stored(chunks: &FrameChunks, trailing: Option<&[Layer]>) -> Option<NotStored> {
    let layers = &chunks.frame().layers;
    let value = |name: &str| layers.iter().find(|layer| layer.name == name).map(|layer| &layer.value);
    if let Some(value) = value(OBJECT) {
        let value = msgpack::value(value);
        let kind = value.as_ref().and_then(|value| value["kind"].as_str()).unwrap_or_default();
        return Some(NotStored::All(what(kind)));
    }
    if let Some(value) = value(LAZY) {
        let is_function = msgpack::value(value).is_some_and(|value| value == 1);
        return Some(NotStored::All(what(if is_function { "lazyudf" } else { "lazyexpr" })));
    }
    value(PROXY)?;
    let why = "the proxy that made the frame has not fetched it; python-blosc2 fetches it".to_owned();
    let none = |why| NotStored::Unfetched { bits: Vec::new(), each: 1, why };
    let Some(trailing) = trailing else { return Some(none(why)) };
    let number = |name| meta::trailing_value(trailing, name).ok().flatten().and_then(|value| value.as_u64());
    let bits = |name: &str| {
        let value = meta::trailing_value(trailing, name).ok().flatten()?;
        STANDARD.decode(value.get("base64").and_then(Value::as_str)?).ok()
    };
    let is_fit = |bits: &Vec<u8>, each: u64| {
        chunks.count().checked_mul(each).map(|count| count.div_ceil(8)) == Some(bits.len() as u64)
    };
    if let (Some(bits), Some(each)) = (bits(FETCHED_BLOCKS), number(BLOCKS).filter(|each| *each > 0))
        && is_fit(&bits, each)
    {
        return Some(NotStored::Unfetched { bits, each, why });
    }
    match bits(FETCHED) {
        Some(bits) if is_fit(&bits, 1) => Some(NotStored::Unfetched { bits, each: 1, why }),
        // Bits that do not fit say nothing, and neither does a chunk of which only some blocks were fetched.
        Some(_) => Some(none(why)),
        None if trailing.iter().any(|layer| layer.name == FETCHED_BLOCKS) => Some(none(why)),
        None => Some(NotStored::Special(why)),
    }
}

/// Returns the reason why a frame of this kind has no data.
fn what(kind: &str) -> String {
    let name = match kind {
        "lazyexpr" => "a lazy expression",
        "lazyudf" => "a lazy call of a function",
        "remote_array" | "c2array" => "a reference to an array on a server",
        _ => "an object",
    };
    format!("is {name}, which only python-blosc2 evaluates (blosc2.open(FILE, deserialize=\"full\")[:])")
}
