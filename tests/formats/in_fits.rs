//! ASDF in FITS, compared with the elements that stdatamodels and astropy read (`scripts/make-fits-fixtures.py`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_file::container::{Container, Context};
use asdf_file::folder::{Dir, Node};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::source::FileSource;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::counted::CountedSource;
use crate::open::read;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fits").join(name)
}

fn context() -> Context {
    Context::new(Arc::new(Cache::new(1 << 20)))
}

fn open(name: &str) -> Arc<dyn Container> {
    format::open(Arc::new(FileSource::open(&fixture(name)).unwrap()), &context()).unwrap()
}

fn view(container: &Arc<dyn Container>, name: &str) -> Arc<dyn Dir> {
    let views = container.clone().views().unwrap();
    let node = views.into_iter().find(|(view, _)| *view == name).map(|(_, node)| node);
    let Some(Node::Dir(dir)) = node else { panic!("{name}: {node:?}") };
    dir
}

/// Returns the bytes of all files below a directory, by their paths.
fn files(dir: &dyn Dir, path: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let mut names = Vec::new();
    let mut take = |name: &std::ffi::OsStr, _| {
        names.push(name.to_owned());
        true
    };
    dir.list(0, &mut take).unwrap();
    for name in names {
        let below = format!("{path}{}", name.to_str().unwrap());
        match dir.lookup(&name).unwrap().unwrap() {
            Node::Dir(dir) => files(&*dir, &format!("{below}/"), found),
            Node::File(file) => drop(found.insert(below, read(&**file.content.as_ref().unwrap()).unwrap())),
            Node::Link(_) => {}
        }
    }
}

fn files_of(container: &Arc<dyn Container>, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(&*view(container, name), "", &mut found);
    found
}

/// Returns a type as numpy writes it in a header.
fn descr(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        Value::Array(fields) => {
            let field = |field: &Value| {
                let shape: Vec<String> =
                    field[2].as_array().into_iter().flatten().map(Value::to_string).collect();
                let comma = if shape.len() == 1 { "," } else { "" };
                let shape =
                    if shape.is_empty() { String::new() } else { format!(",({}{comma})", shape.join(",")) };
                format!("('{}',{}{shape})", field[0].as_str().unwrap(), descr(&field[1]))
            };
            format!("[{}]", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        other => panic!("{other}"),
    }
}

/// Compares a `.npy` file with what the peers read.
fn check(name: &str, npy: &[u8], expected: &Value) {
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00"), "{name}");
    let len = usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let (header, elements) = npy[10..].split_at(len);
    let header = String::from_utf8(header.to_vec()).unwrap().replace(' ', "");
    let little = descr(&expected["type"]).replace('>', "<");
    let is_little = header.contains(&format!("'descr':{little},")) && little.contains('<');
    assert!(
        header.contains(&format!("'descr':{},", descr(&expected["type"]))) || is_little,
        "{name}: {header}"
    );
    let shape: Vec<String> = expected["shape"].as_array().unwrap().iter().map(Value::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    assert!(header.contains(&format!("'shape':({}{comma})", shape.join(","))), "{name}: {header}");
    let mut elements = elements.to_vec();
    if is_little {
        let width = little.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        elements.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    let digest: String = Sha256::digest(&elements).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, expected["sha256"].as_str().unwrap(), "{name}");
}

#[test]
fn arrays_and_hdus_have_the_elements_that_their_own_readers_read() {
    let truth: Value = serde_json::from_slice(&fs::read(fixture("truth.json")).unwrap()).unwrap();
    let mut count = 0;
    for (name, expected) in truth.as_object().unwrap() {
        let container = open(name);
        assert_eq!((container.format(), &*container.version()), ("asdf", "1.0.0 (in FITS)"), "{name}");
        let arrays = files_of(&container, "arrays");
        let of_tree = expected["arrays"].as_object().unwrap();
        let is_mask = |name: &&String| name.ends_with(".mask.npy");
        let count_of = |files: &BTreeMap<String, Vec<u8>>| {
            files.keys().filter(|name| name.ends_with(".npy")).filter(|name| !is_mask(name)).count()
        };
        assert_eq!(count_of(&arrays), of_tree.len(), "{name}: {:?}", arrays.keys());
        for (path, expected) in of_tree {
            check(&format!("{name} {path}"), &arrays[&format!("{path}.npy")], expected);
            count += 1;
        }
        let hdus = files_of(&container, "hdus");
        let of_hdus = expected["hdus"].as_object().unwrap();
        assert_eq!(count_of(&hdus), of_hdus.len(), "{name}");
        let mut masks = 0;
        for (number, expected) in of_hdus {
            let of_hdu = match (expected["name"].as_str().unwrap(), expected["version"].as_i64().unwrap()) {
                ("", _) => number.clone(),
                (name, 1) => name.replace('/', "%2F"),
                (name, version) => format!("{name},{version}"),
            };
            check(&format!("{name} {of_hdu}"), &hdus[&format!("{of_hdu}.npy")], expected);
            if let Some(mask) = expected.get("mask") {
                check(&format!("{name} {of_hdu} mask"), &hdus[&format!("{of_hdu}.mask.npy")], mask);
                masks += 1;
            }
            let header = String::from_utf8(hdus[&format!("{of_hdu}.hdr")].clone()).unwrap();
            assert!(header.starts_with(if number == "0" { "SIMPLE  = " } else { "XTENSION= " }), "{header}");
            count += 1;
        }
        assert_eq!(hdus.keys().filter(is_mask).count(), masks, "{name}");
    }
    assert!(count > 25, "{count}");
}

#[test]
fn the_tables_of_hdus_are_parquet_files_with_units() {
    let container = open("mixed.fits");
    let tables = files_of(&container, "tables");
    let table = &tables["hdus/TABLE.parquet"];
    assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    let text = String::from_utf8_lossy(table);
    assert!(text.contains("many") && text.contains("Jy") && !text.contains("wide"), "{text}");
    let notes: Vec<String> = container.defects().into_iter().map(|defect| defect.what).collect();
    assert!(notes.iter().any(|note| note.contains("columns of TABLE") && note.contains("wide")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("PACKED") && note.contains("funpack")), "{notes:?}");
}

#[test]
fn numbers_that_mean_no_value_are_masked() {
    let container = open("nulls.fits");
    let arrays = files_of(&container, "arrays");
    let masks: Vec<&str> = arrays.keys().filter_map(|name| name.strip_suffix(".mask.npy")).collect();
    assert_eq!(masks, ["table", "u2"]);
    let hdus = files_of(&container, "hdus");
    assert!(
        arrays["u2.mask.npy"] == hdus["U2.mask.npy"] && arrays["table.mask.npy"] == hdus["TABLE.mask.npy"]
    );
    let fits = files_of(&container, "fits");
    let header = |name: &str| String::from_utf8_lossy(&fits[name]).into_owned();
    assert!(header("u2.fits").contains("BLANK   =               -32768"), "{}", header("u2.fits"));
    let table = header("table.fits");
    assert!(["TNULL1  =", "TNULL3  =", "TNULL4  ="].iter().all(|card| table.contains(card)), "{table}");
}

#[test]
fn blocks_and_references_have_their_places_in_the_fits_file() {
    let bytes = fs::read(fixture("mixed.fits")).unwrap();
    let container = open("mixed.fits");
    assert_eq!(container.block_count().unwrap(), 3);
    for n in 0..3 {
        let offset = container.block(n).unwrap().facts.offset as usize;
        assert!(bytes[offset..].starts_with(b"\xd3BLK"), "{n}");
    }
    let refs = container.clone().derived_file("refs.json").unwrap().unwrap();
    let refs: Value = serde_json::from_slice(&read(&**refs.content.as_ref().unwrap()).unwrap()).unwrap();
    let arrays = files_of(&container, "arrays");
    for (chunk, array) in [("cube/0.0.0", "cube"), ("own/0.0", "own"), ("primary/0.0", "primary")] {
        let place = &refs["refs"][chunk];
        let start = place[1].as_u64().unwrap() as usize;
        let len = place[2].as_u64().unwrap() as usize;
        assert!(arrays[&format!("{array}.npy")].ends_with(&bytes[start..start + len]), "{chunk} {place}");
    }
    assert!(refs.to_string().contains("BZERO"), "{refs}");
}

#[test]
fn a_fits_file_without_the_extension_is_not_opened() {
    let source = Arc::new(FileSource::open(&fixture("plain.fits")).unwrap());
    let error = format::open(source, &context()).unwrap_err();
    assert!(error.to_string().contains("without an ASDF extension"), "{error}");
}

#[test]
fn the_tree_is_read_without_a_pixel() {
    // An image of 4 MiB before the extension.
    let bytes = fs::read(fixture("image.fits")).unwrap();
    let header = |text: &str, from: usize| {
        from + bytes[from..].windows(text.len()).position(|at| at == text.as_bytes()).unwrap()
    };
    let sci = header("XTENSION= 'IMAGE", 0);
    let dq = header("XTENSION= 'IMAGE", sci + 1);
    let mut large = bytes[..sci].to_vec();
    let small = String::from_utf8(bytes[sci..sci + 2880].to_vec()).unwrap();
    let wide = small.replace("NAXIS1  =                   24", "NAXIS1  =                65536");
    assert_ne!(small, wide);
    large.extend(wide.as_bytes());
    large.resize(large.len() + (65536 * 16 * 4_usize).next_multiple_of(2880), 0);
    large.extend(&bytes[dq..]);
    let source = CountedSource::new(large);
    let container = format::open(source.clone(), &context()).unwrap();
    let tree = String::from_utf8(read(&*container.tree()).unwrap()).unwrap();
    assert!(tree.contains("source: fits:SCI,1"), "{tree}");
    let (reads, bytes) = source.counts();
    assert!(reads <= 40 && bytes <= 200_000, "{reads} reads of {bytes} bytes");
}
