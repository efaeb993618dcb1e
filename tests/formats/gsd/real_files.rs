//! `tests/fixtures/gsd`: files of real writers, gsd 1.4 to 5.0, compared with their truth.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use asdf_file::container::Defect;
use asdf_file::folder::EntryKind;
use common::md5;
use serde_json::Value;

use super::walked::{at, bytes, folder, names, open, walk};
use crate::open::read;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gsd")
}

fn truths() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let truth: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            found.push((truth["file"].as_str().unwrap().to_owned(), truth));
        }
    }
    assert!(found.len() > 30, "{} fixtures", found.len());
    found
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).unwrap()
}

/// Splits a `.npy` file into the text of its header and the data.
fn header(npy: &[u8]) -> (String, &[u8]) {
    let len = usize::from(u16::from_le_bytes([npy[8], npy[9]])) + 10;
    (String::from_utf8(npy[10..len].to_vec()).unwrap(), &npy[len..])
}

#[test]
fn blocks_are_the_entries_in_file_order() {
    for (name, truth) in truths() {
        let container = open(&fixture(&name)).unwrap();
        assert_eq!(container.version(), truth["header"]["gsd_version"].as_str().unwrap());
        let chunks = truth["chunks"].as_array().unwrap();
        assert_eq!(container.block_count().unwrap(), chunks.len(), "{name}");
        for (n, chunk) in chunks.iter().enumerate() {
            let block = container.block(n).unwrap();
            for (fact, key) in [
                ("frame", "frame"),
                ("N", "N"),
                ("M", "M"),
                ("location", "location"),
                ("data_size", "nbytes"),
            ] {
                assert_eq!(
                    block.facts.get(fact),
                    Some(chunk[key].to_string()),
                    "{name}: {fact} of block {n}"
                );
            }
            for key in ["name", "type"] {
                assert_eq!(
                    block.facts.get(key).as_deref(),
                    chunk[key].as_str(),
                    "{name}: {key} of block {n}"
                );
            }
            let data = read(&*block.content.unwrap()).unwrap();
            assert_eq!(md5(&data), chunk["md5"].as_str().unwrap(), "{name}: block {n}");
        }
        assert!(container.block(chunks.len()).is_err(), "{name}");
        // If the number of particles varies, there is no series.
        let is_wrong = |defect: &Defect| !defect.what.contains("is not in arrays/series");
        assert!(!container.defects().iter().any(is_wrong), "{name}: {:?}", container.defects());
        assert!(container.check_tree().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn frames_have_the_chunks_that_were_written() {
    for (name, truth) in truths() {
        let container = open(&fixture(&name)).unwrap();
        let frames = folder(&container, "arrays/frames");
        let count = truth["nframes"].as_u64().unwrap();
        let wanted: Vec<_> = (0..count).map(|frame| (frame.to_string(), EntryKind::Dir)).collect();
        assert_eq!(names(&*frames), wanted, "{name}");
        let mut left: BTreeMap<(u64, String), Vec<&Value>> = BTreeMap::new();
        for chunk in truth["chunks"].as_array().unwrap() {
            let key = (chunk["frame"].as_u64().unwrap(), chunk["md5"].as_str().unwrap().to_owned());
            left.entry(key).or_default().push(chunk);
        }
        for frame in 0..count {
            for (path, file) in walk(&*folder(&container, &format!("arrays/frames/{frame}"))) {
                let file = read(&*file.content.unwrap()).unwrap();
                let (text, data) =
                    if path.ends_with(".npy") { header(&file) } else { (String::new(), &file[..]) };
                let chunks = left.get_mut(&(frame, md5(data))).unwrap_or_else(|| panic!("{name}: {path}"));
                let same = |chunk: &&Value| {
                    let (n, m) = (chunk["N"].as_u64().unwrap(), chunk["M"].as_u64().unwrap());
                    let shape = if m == 1 { format!("({n},)") } else { format!("({n}, {m})") };
                    let plain = path.rsplit_once('.').unwrap().0 == chunk["name"].as_str().unwrap();
                    let plain = plain || path.contains(['%', '~']);
                    plain && (text.is_empty() || text.contains(&format!("'shape': {shape}")))
                };
                let found = chunks.iter().position(same).unwrap_or_else(|| panic!("{name}: {path}: {text}"));
                chunks.remove(found);
            }
        }
        assert!(left.values().all(Vec::is_empty), "{name}: {left:?}");
    }
}

#[test]
fn an_array_is_what_numpy_saves() {
    let container = open(&fixture("gsd5.0.1_alltypes.gsd")).unwrap();
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    let data: Vec<u8> = special.iter().flat_map(|number| number.to_le_bytes()).collect();
    let found = bytes(&container, "arrays/frames/1/special.npy");
    assert_eq!(found, super::walked::npy("'<f8'", &[4], &data));
    assert_eq!(bytes(&container, "arrays/frames/1/str.txt"), b"a string chunk");
    assert!(at(&container, "arrays/frames/1/str.npy").is_none());
    let empty = bytes(&container, "arrays/frames/0/empty/n0.npy");
    assert_eq!(empty, super::walked::npy("'<f4'", &[0, 3], b""));
    let long = format!("arrays/frames/0/long/{}%+/{}.npy", "x".repeat(240), "x".repeat(60));
    assert_eq!(bytes(&container, &long), super::walked::npy("'|u1'", &[2], &[0, 1]));
}

#[test]
fn of_duplicates_the_last_written_has_the_plain_name() {
    for name in ["gsd1.10.0_duplicate.gsd", "gsd5.0.1_duplicate.gsd"] {
        let container = open(&fixture(name)).unwrap();
        for frame in 0..2 {
            let files = walk(&*folder(&container, &format!("arrays/frames/{frame}")));
            assert_eq!(files.keys().collect::<Vec<_>>(), ["x.npy", "x~1.npy", "y.npy"]);
            let number = |file| {
                let bytes = bytes(&container, &format!("arrays/frames/{frame}/{file}.npy"));
                i32::from_le_bytes(*bytes.last_chunk().unwrap())
            };
            assert_eq!((number("x"), number("x~1")), (2 + frame, 1 + frame), "{name}");
        }
    }
}

#[test]
fn a_frame_without_chunks_is_an_empty_folder() {
    let container = open(&fixture("gsd5.0.1_unsorted.gsd")).unwrap();
    assert!(names(&*folder(&container, "arrays/frames/2")).is_empty());
    assert!(at(&container, "arrays/frames/6").is_none() && at(&container, "arrays/frames/02").is_none());
}

#[test]
fn strange_names_lie_at_paths_of_their_own() {
    let container = open(&fixture("gsd5.0.1_weird_names.gsd")).unwrap();
    let files = walk(&*folder(&container, "arrays/frames/0"));
    assert_eq!(files.len(), 31);
    for path in [
        "a.npy",
        "a/b.npy",
        "%2Fabs.npy",
        "%2F%2Fx.npy",
        "trail%2F.npy",
        "%2E%2E.npy",
        "%2E%2E/up.npy",
        "%2E/dot.npy",
        "new%0Aline.npy",
        "x.npy",
        "x%2Enpy.npy",
        "x.bin.npy",
        "*.npy",
    ] {
        assert!(files.contains_key(path), "{path} of {:?}", files.keys());
    }
}

#[test]
fn the_tree_says_what_the_header_says() {
    for (name, truth) in truths() {
        let container = open(&fixture(&name)).unwrap();
        let tree: serde_yaml::Value = serde_yaml::from_slice(&read(&*container.tree()).unwrap()).unwrap();
        let header = &truth["header"];
        for key in ["gsd_version", "schema", "schema_version", "application"] {
            assert_eq!(tree[key].as_str(), header[key].as_str(), "{name}: {key}");
        }
        for key in
            ["index_location", "index_allocated_entries", "namelist_location", "namelist_allocated_entries"]
        {
            assert_eq!(tree[key].as_u64(), header[key].as_u64(), "{name}: {key}");
        }
        assert_eq!(tree["file_size"].as_u64(), truth["size"].as_u64(), "{name}");
        assert_eq!(tree["frames"].as_u64(), truth["nframes"].as_u64(), "{name}");
        assert_eq!(tree["index_used_entries"].as_u64(), truth["index_entries"].as_u64(), "{name}");
        let names: Vec<_> = tree["names"].as_sequence().unwrap().iter().map(|name| name.as_str()).collect();
        let wanted: Vec<_> = truth["names"].as_array().unwrap().iter().map(|name| name.as_str()).collect();
        assert_eq!(names, wanted, "{name}");
    }
    let unused = |name| {
        let container = open(&fixture(name)).unwrap();
        let tree: serde_yaml::Value = serde_yaml::from_slice(&read(&*container.tree()).unwrap()).unwrap();
        tree["unused_bytes"].as_u64()
    };
    // The outgrown indexes of 128 and 256 entries; the data of an unfinished frame.
    assert_eq!(unused("gsd1.10.0_grown_index.gsd"), Some((128 + 256) * 32));
    assert_eq!(unused("gsd1.10.0_killed.gsd"), Some(2 * 16));
    assert_eq!(unused("gsd5.0.1_hoomd.gsd"), Some(0));
}
