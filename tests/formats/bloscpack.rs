//! Bloscpack files of real writers, compared with the output of c-blosc and Bloscpack.

#[path = "bloscpack/dangerous.rs"]
mod dangerous;
#[path = "bloscpack/fields.rs"]
mod fields;
#[path = "bloscpack/mutated.rs"]
mod mutated;
#[path = "bloscpack/places.rs"]
mod places;
#[path = "bloscpack/refs.rs"]
mod refs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::shown::{context, file, open, read, view, whole};
use asdf_file::container::{Block, Container, Verified};
use asdf_views::format;
use common::md5;
use seekable::content::Soundness;
use seekable::source::FileSource;
use serde_json::Value;

fn block(container: &dyn Container, n: usize) -> Block {
    container.block(n).unwrap()
}

fn fixtures() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bloscpack");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "blp"))
        .map(|path| {
            let truth = std::fs::read(path.with_extension("json")).unwrap();
            (path, serde_json::from_slice(&truth).unwrap())
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[test]
fn every_file_is_what_its_truth_says() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 70, "{}", fixtures.len());
    for (path, truth) in &fixtures {
        let name = path.file_stem().unwrap().to_string_lossy();
        let container = format::open(Arc::new(FileSource::open(path).unwrap()), &context()).unwrap();
        assert_eq!(container.format(), "bloscpack");
        let chunks = truth["chunks"].as_array().unwrap();
        assert_eq!(container.block_count().unwrap(), chunks.len(), "{name}");
        for (n, chunk) in chunks.iter().enumerate() {
            let block = block(&*container, n);
            let content = block.content.unwrap();
            assert_eq!(content.len(), chunk["blosc"]["nbytes"].as_u64().unwrap(), "{name} {n}");
            assert_eq!(md5(&whole(&*content)), chunk["md5"], "{name} {n}");
            assert_eq!(content.soundness(), Soundness::Sound, "{name} {n}");
            assert_eq!(block.facts.offset, chunk["offset"].as_u64().unwrap(), "{name} {n}");
            for key in ["nbytes", "cbytes", "codec", "typesize", "blocksize"] {
                let told = chunk["blosc"][key].to_string();
                assert_eq!(block.facts.get(key).unwrap(), told.trim_matches('"'), "{name} {n} {key}");
            }
            assert_eq!(block.facts.get("checksum").unwrap(), chunk["checksum"], "{name} {n}");
            let has_none = chunk["checksum"] == "";
            let expected = if has_none { Verified::None } else { Verified::Stored };
            assert_eq!(container.verify(n).unwrap(), expected, "{name} {n}");
        }
        let payload = view(&container, "data.bin").unwrap();
        assert_eq!(payload.len() as u64, truth["payload"]["nbytes"].as_u64().unwrap(), "{name}");
        assert_eq!(md5(&payload), truth["payload"]["md5"], "{name}");
        let metadata = view(&container, "meta.json").map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(metadata.as_deref(), truth["metadata_raw"].as_str(), "{name}");
        assert_eq!(container.check_tree().unwrap(), [], "{name}");
        assert_eq!(container.defects(), [], "{name}");
        check_array(&container, truth, &payload, &name);
        check_tree_text(&*container, truth, &name);
    }
}

fn check_array(container: &Arc<dyn Container>, truth: &Value, payload: &[u8], name: &str) {
    let array = view(container, "arrays/data.npy");
    assert_eq!(array.is_some(), truth["numpy"].is_object(), "{name}");
    let Some(array) = array else { return };
    let text = std::str::from_utf8(&array[10..array.len() - payload.len()]).unwrap();
    assert_eq!(&array[array.len() - payload.len()..], payload);
    let shape = truth["numpy"]["shape"].as_array().unwrap();
    let mut sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    sizes.truncate(sizes.len() - if shape.len() > 1 { 2 } else { usize::from(shape.len() == 1) });
    assert!(text.contains(&format!("'shape': ({sizes})")), "{name}: {text}");
    let dtype = truth["numpy"]["dtype"].as_str().unwrap();
    let quoted = if dtype.starts_with(['[', '\'']) { dtype.to_owned() } else { format!("'{dtype}'") };
    assert!(text.contains(&format!("'descr': {quoted}, ")), "{name}: {text}");
}

fn check_tree_text(container: &dyn Container, truth: &Value, name: &str) {
    let tree: serde_yaml::Value = serde_yaml::from_slice(&whole(&*container.tree())).unwrap();
    for (key, value) in truth["header"].as_object().unwrap() {
        let key = if key == "version" { "bloscpack_version" } else { key };
        if matches!(key, "options" | "metadata" | "meta_size" | "reserved") {
            continue;
        }
        let told = serde_json::to_value(&tree[key]).unwrap().to_string().to_lowercase();
        assert_eq!(told, value.to_string().to_lowercase(), "{name} {key}");
    }
    if let Some(metadata) = truth.get("metadata") {
        assert_eq!(&serde_json::to_value(&tree["metadata"]).unwrap(), metadata, "{name}");
    }
}
