//! `refs.json`: the chunks of the file as chunks of a Zarr array.

use std::sync::Arc;

use asdf_views::format;

use asdf_file::container::{Container, REFERENCES};
use seekable::source::FileSource;
use serde_json::Value;

use super::{block, context, fixtures, open, whole};
use common::bloscpack_builder::Pack;

fn refs(container: &Arc<dyn Container>) -> Value {
    let file = container.clone().derived_file(REFERENCES).unwrap().unwrap();
    serde_json::from_slice::<Value>(&whole(&*file.content.unwrap())).unwrap()["refs"].take()
}

/// Returns the reason why the array is left out.
fn left_out(refs: &Value) -> String {
    let attributes: Value = serde_json::from_str(refs[".zattrs"].as_str().unwrap()).unwrap();
    attributes["left_out"]["data"].as_str().unwrap().to_owned()
}

/// Python compares the bytes: `tests/interop/refs.rs`.
#[test]
fn an_array_of_equal_chunks_is_listed_and_any_other_has_a_reason() {
    let (mut listed, mut reasons) = (0, std::collections::BTreeSet::new());
    for (path, _) in fixtures() {
        let container = format::open(Arc::new(FileSource::open(&path).unwrap()), &context()).unwrap();
        let refs = refs(&container);
        let Some(meta) = refs["data/.zarray"].as_str() else {
            reasons.insert(left_out(&refs));
            continue;
        };
        let meta: Value = serde_json::from_str(meta).unwrap();
        let chunks = refs.as_object().unwrap().values().filter(|value| value.is_array()).count();
        // The one chunk of an empty array is empty.
        let is_empty = meta["shape"].as_array().unwrap().contains(&0.into());
        let expected = if is_empty { 0 } else { container.block_count().unwrap() };
        assert_eq!(chunks, expected, "{}: {meta}", path.display());
        for n in 0..chunks {
            let facts = block(&*container, n).facts;
            // The chunks are whole rows.
            let axes = meta["shape"].as_array().unwrap().len().max(1);
            let key = format!("{n}{}", ".0".repeat(axes - 1));
            let reference = &refs[format!("data/{key}")];
            assert_eq!(reference[1], facts.offset, "{}: {key}", path.display());
        }
        listed += 1;
    }
    assert!(listed > 1, "{listed}");
    for reason in ["the metadata describe no array", "its chunks differ in length"] {
        assert!(reasons.contains(reason), "{reasons:?}");
    }
}

#[test]
fn damaged_chunks_leave_the_array_out() {
    let data: Vec<u8> = (0..4000_u32).flat_map(u32::to_le_bytes).collect();
    let metadata = br#"{"dtype":"'<u4'","shape":[4000],"order":"C","container":"numpy"}"#;
    let file = |pack: Pack| refs(&open(&pack.described(metadata).build()).unwrap());
    let whole = file(Pack::new(4000, &data));
    let meta: Value = serde_json::from_str(whole["data/.zarray"].as_str().unwrap()).unwrap();
    assert_eq!((&meta["chunks"], &meta["dtype"]), (&serde_json::json!([1000]), &"<u4".into()));
    let mut damaged = Pack::new(4000, &data);
    damaged.chunks[2][0] = 0xff;
    assert!(left_out(&file(damaged)).starts_with("block 2: "));
    assert_eq!(left_out(&file(Pack::new(4002, &data))), "its chunks differ in length");
    let mut short = Pack::new(4000, &data);
    short.chunks.pop();
    assert!(!left_out(&file(short)).is_empty());
}

#[test]
fn types_and_shapes_that_zarr_cannot_have_are_left_out() {
    let file = |pack: Pack, dtype: &str, shape: &str| {
        let metadata = format!(r#"{{"dtype":"'{dtype}'","shape":{shape},"container":"numpy"}}"#);
        refs(&open(&pack.described(metadata.as_bytes()).build()).unwrap())
    };
    let data = [0; 16_000];
    let pack = Pack::new(4000, &data);
    let empty = Pack { chunks: vec![], nchunks: 0, ..pack.clone() };
    // The product of the first two lengths has more than 64 bits.
    let listed = file(empty.clone(), "<u4", "[1099511627776,1099511627776,0]");
    let meta: Value = serde_json::from_str(listed["data/.zarray"].as_str().unwrap()).unwrap();
    assert_eq!(meta["chunks"], serde_json::json!([1_u64 << 40, 1_u64 << 40, 1]));
    assert_eq!(left_out(&file(empty.clone(), "|S0", "[4]")), "its elements have no bytes");
    assert_eq!(left_out(&file(empty, "|S0", "[0]")), "its elements have no bytes");
    assert_eq!(left_out(&file(pack.clone(), "<f16", "[1000]")), "Zarr has no long double");
    assert_eq!(left_out(&file(pack.clone(), "<M8", "[2000]")), "its times have no unit");
    assert_eq!(left_out(&file(pack, "<u4", "[4001]")), "its size is not that of the chunks");
}
