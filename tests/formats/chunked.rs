//! Arrays in chunks (`scripts/make-chunked-fixtures.py`): each element is its number in C order.

use std::path::{Path, PathBuf};

use asdf_access::{ByteOrder, File};

use crate::open::{Opened, open, read};
use common::asdf::{AsdfBuilder, Block};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chunked").join(name)
}

#[test]
fn arrays_of_zarr_are_whole() {
    let file = File::open(fixture("zarr.asdf")).unwrap();
    let count = |path: &str| file.array(path).unwrap().len();
    assert_eq!(
        file.array("plain").unwrap().to_vec::<f64>().unwrap(),
        (0..54).map(f64::from).collect::<Vec<_>>()
    );
    assert_eq!(file.array("zlib").unwrap().to_vec::<i32>().unwrap(), (0..35).collect::<Vec<_>>());
    assert_eq!(file.array("bz2").unwrap().to_vec::<i16>().unwrap(), (0..120).collect::<Vec<_>>());
    assert_eq!(file.array("bz2").unwrap().byteorder, ByteOrder::Big);
    assert_eq!(file.array("zstd").unwrap().to_vec::<u16>().unwrap(), (0..100).collect::<Vec<_>>());
    assert_eq!(file.array("fortran").unwrap().to_vec::<i32>().unwrap(), (0..35).collect::<Vec<_>>());
    let floats = file.array("blosc").unwrap().to_vec::<f32>().unwrap();
    assert!(floats.iter().zip(0_u16..).all(|(value, n)| *value == f32::from(n)) && floats.len() == 2250);
    let filled = |n: i16| if (12..24).contains(&n) { n } else { 7 };
    assert_eq!(
        file.array("filled").unwrap().to_vec::<i16>().unwrap(),
        (0..36).map(filled).collect::<Vec<_>>()
    );
    assert_eq!(count("text"), 5);
    assert_eq!(file.array("gzip").unwrap().to_vec::<i32>().unwrap(), (0..4).collect::<Vec<_>>());
}

/// A chunk of numcodecs' lz4 is one block after its decoded length.
#[test]
fn chunks_of_lz4_are_read_and_damaged_ones_are_refused() {
    let tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: \
                !<asdf://asdf-format.org/zarr/tags/zarr-1.0.0>\n  .zarray: {chunks: [100], compressor: {id: lz4, \
                acceleration: 1}, dtype: '<u2', fill_value: 0, filters: null, order: C, shape: [250], zarr_format: \
                2}\n  chunk_block_map: 3\n...\n";
    let map: Vec<u8> = [2_i32, 0, 1].into_iter().flat_map(i32::to_le_bytes).collect();
    let chunk = |first: u16| {
        let bytes: Vec<u8> = (first..first + 100).flat_map(u16::to_le_bytes).collect();
        lz4_flex::block::compress_prepend_size(&bytes)
    };
    let file = |last: Vec<u8>| {
        let blocks = [chunk(100), last, chunk(0), map.clone()].map(Block::new);
        open(&AsdfBuilder::new().tree(tree).blocks(blocks).build().bytes).unwrap().file
    };
    let sound = file(chunk(200)).array("a").unwrap().to_vec::<u16>().unwrap();
    assert_eq!(sound, (0..250).collect::<Vec<_>>());
    for wrong in [chunk(200)[..50].to_vec(), vec![0; 4], vec![255; 60], Vec::new()] {
        let damaged = file(wrong).array("a").unwrap();
        assert!(damaged.to_vec::<u16>().is_err());
        let mut some = [0_u16; 200];
        assert_eq!(damaged.read(0, &mut some).unwrap(), 200);
        assert!(some.iter().copied().eq(0..200));
    }
}

/// As ASDF.jl writes them, and in any order.
#[test]
fn chunks_in_the_tree_and_of_both_byte_orders_are_one_array() {
    let chunk = |start: &str, array: &str| {
        format!("!core/ndarray-chunk-1.0.0 {{start: {start}, ndarray: !core/ndarray-1.0.0 {array}}}")
    };
    let chunks = [
        chunk("[2, 0]", "{data: [[8, 9], [12, 13]], datatype: int16, shape: [2, 2]}"),
        chunk("[0, 2]", "{source: 0, datatype: int16, byteorder: big, shape: [2, 2]}"),
        chunk("[2, 2]", "{source: 1, datatype: int16, byteorder: little, shape: [2, 2]}"),
        chunk("[0, 0]", "[[0, 1], [4, 5]]"),
    ];
    let big: Vec<u8> = [2_i16, 3, 6, 7].into_iter().flat_map(i16::to_be_bytes).collect();
    let little: Vec<u8> = [10_i16, 11, 14, 15].into_iter().flat_map(i16::to_le_bytes).collect();
    for turn in 0..chunks.len() {
        let mut listed = chunks.to_vec();
        listed.rotate_left(turn);
        let tree = format!(
            "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: !core/chunked-ndarray-1.0.0 {{shape: [4, 4], \
             datatype: int16, chunks: [{}]}}\n...\n",
            listed.join(", ")
        );
        let blocks = [Block::new(big.clone()), Block::new(little.clone())];
        let bytes = AsdfBuilder::new().tree(tree).blocks(blocks).build().bytes;
        let opened = open(&bytes).unwrap();
        let paths: Vec<String> = opened.file.arrays().unwrap().into_iter().map(|array| array.path).collect();
        assert_eq!(paths, ["a"]);
        let array = opened.file.array("a").unwrap();
        assert_eq!(array.to_vec::<i16>().unwrap(), (0..16).collect::<Vec<_>>(), "{turn}");
        let attributes = references(&opened)["refs"][".zattrs"].to_string();
        assert!(attributes.contains("not a whole block"), "{attributes}");
    }
    // A reference has no room for the byte order of one chunk.
    let chunk = |start: u8, source: u8, order: &str| {
        let array = format!("{{source: {source}, datatype: int16, byteorder: {order}, shape: [4]}}");
        format!("!core/ndarray-chunk-1.0.0 {{start: [{start}], ndarray: !core/ndarray-1.0.0 {array}}}")
    };
    let tree = format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: !core/chunked-ndarray-1.0.0 {{shape: [8], \
         datatype: int16, chunks: [{}, {}]}}\n...\n",
        chunk(4, 1, "little"),
        chunk(0, 0, "big")
    );
    let bytes = AsdfBuilder::new().tree(tree).blocks([Block::new(big), Block::new(little)]).build().bytes;
    let opened = open(&bytes).unwrap();
    let numbers = opened.file.array("a").unwrap().to_vec::<i16>().unwrap();
    assert_eq!(numbers, [2, 3, 6, 7, 10, 11, 14, 15]);
    let attributes = references(&opened)["refs"][".zattrs"].to_string();
    assert!(attributes.contains("different byte orders"), "{attributes}");
}

#[test]
fn a_part_in_the_middle_is_read_alone() {
    let file = File::open(fixture("zarr.asdf")).unwrap();
    let mut some = [0.0_f32; 30];
    assert_eq!(file.array("blosc").unwrap().read(1000, &mut some).unwrap(), 30);
    assert!(some.iter().zip(1000_u16..).all(|(value, n)| *value == f32::from(n)));
}

#[test]
fn chunks_that_are_ndarrays_are_one_array() {
    let file = File::open(fixture("chunked.asdf")).unwrap();
    let paths: Vec<String> = file.arrays().unwrap().into_iter().map(|array| array.path).collect();
    assert_eq!(paths, ["chunked", "even"]);
    assert_eq!(file.array("chunked").unwrap().shape, [5, 6]);
    assert_eq!(file.array("chunked").unwrap().to_vec::<i32>().unwrap(), (0..30).collect::<Vec<_>>());
    assert_eq!(file.array("even").unwrap().to_vec::<i32>().unwrap(), (0..16).collect::<Vec<_>>());
}

#[test]
fn elements_without_end_are_refused() {
    for (datatype, shape) in
        [("[ascii, 1000000000000]", "[0]"), ("[ucs4, 0]", "[3]"), ("int64", "[4611686018427387904]")]
    {
        let chunk = format!(
            "!core/ndarray-chunk-1.0.0 {{start: [0], ndarray: !core/ndarray-1.0.0 {{source: 0, datatype: {datatype}, \
             byteorder: little, shape: {shape}}}}}"
        );
        let tree = format!(
            "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: \
             !core/chunked-ndarray-1.0.0 {{shape: {shape}, datatype: {datatype}, chunks: [{chunk}]}}\n...\n"
        );
        assert!(open(tree.as_bytes()).unwrap().file.array("a").is_err(), "{datatype}");
    }
}

/// Numbers of a file that contradict each other give an error or a note, never wrong elements.
#[test]
fn wrong_numbers_are_refused() {
    let bytes = std::fs::read(fixture("zarr.asdf")).unwrap();
    let changed = |from: &str, to: &str| {
        let at = memchr::memmem::find(&bytes, from.as_bytes()).unwrap();
        assert_eq!(from.len(), to.len());
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        open(&changed).unwrap().file
    };
    let plain = "chunks: [2, 4]\n    compressor: null\n    dtype: <f8";
    for (from, to) in [
        (plain, plain.replace("[2, 4]", "[0, 4]")),
        (plain, plain.replace("[2, 4]", "[-1,4]")),
        (plain, plain.replace("[2, 4]", "[2]   ")),
        (plain, plain.replace("<f8", "<f3")),
        ("shape: [6, 9]\n    zarr_format: 2", "shape: [6, 9]\n    zarr_format: 3".to_owned()),
        ("shape: [6, 9]\n    zarr_format: 2", "shape: [6, x]\n    zarr_format: 2".to_owned()),
        ("chunk_block_map: 9\n", "chunk_block_map: x\n".to_owned()),
    ] {
        let file = changed(from, &to);
        assert!(file.array("plain").is_err(), "{to}");
        assert_eq!(file.array("zlib").unwrap().len(), 35);
    }
    // Only a read shows that the chunks are too short, or that their numbers are missing.
    for (from, to) in [
        (plain, plain.replace("[2, 4]", "[9, 9]")),
        ("chunk_block_map: 9\n", "chunk_block_map: 1\n".to_owned()),
        ("chunk_block_map: 9\n", "chunk_block_map: 0\n".to_owned()),
    ] {
        let read = changed(from, &to).array("plain").unwrap().to_vec::<f64>();
        assert!(read.is_err(), "{to}: {read:?}");
    }
}

/// Returns `refs.json`.
fn references(opened: &Opened) -> serde_json::Value {
    let file = opened.container.clone().derived_file("refs.json").unwrap().unwrap();
    serde_json::from_slice(&read(&*file.content.unwrap()).unwrap()).unwrap()
}

#[test]
fn chunks_are_references_where_they_are_exact() {
    let bytes = std::fs::read(fixture("zarr.asdf")).unwrap();
    let opened = open(&bytes).unwrap();
    let refs = references(&opened);
    for row in 0..3 {
        for column in 0..3 {
            let place = &refs["refs"][format!("plain/{row}.{column}")];
            let at = place[1].as_u64().unwrap() as usize;
            assert_eq!(place[2], 64);
            let first = f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!(first, f64::from(row * 2 * 9 + column * 4));
        }
    }
    assert!(refs["refs"].get("plain/3.0").is_none() && refs["refs"].get("plain/0.3").is_none());
    let attributes: serde_json::Value =
        serde_json::from_str(refs["refs"][".zattrs"].as_str().unwrap()).unwrap();
    let left_out: Vec<&String> = attributes["left_out"].as_object().unwrap().keys().collect();
    assert_eq!(left_out, ["fortran"]);
    // Only the chunks of `filled` that were written have references, and its metadata have the fill value.
    let meta: serde_json::Value =
        serde_json::from_str(refs["refs"]["filled/.zarray"].as_str().unwrap()).unwrap();
    assert_eq!(meta["fill_value"], 7);
    let filled = refs["refs"].as_object().unwrap().keys().filter(|key| key.starts_with("filled/"));
    let chunks: Vec<&str> = filled
        .filter_map(|key| key.strip_prefix("filled/").filter(|chunk| !chunk.starts_with('.')))
        .collect();
    assert_eq!(chunks, ["1.0", "1.1"]);
}

/// Each chunk is looked up by itself.
#[test]
fn an_array_of_very_many_chunks_has_no_references() {
    for (chunks, is_shown) in [(1 << 10, true), ((1 << 16) + 1, false)] {
        let tree = format!(
            "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nmany: \
             !<asdf://asdf-format.org/zarr/tags/zarr-1.0.0>\n  .zarray: {{chunks: [1], compressor: null, dtype: '|i1', \
             fill_value: 0, filters: null, order: C, shape: [{chunks}], zarr_format: 2}}\n  chunk_block_map: 1\n...\n"
        );
        let map = Block::new(vec![0; chunks * 4]);
        let bytes = AsdfBuilder::new().tree(tree).block(Block::new(vec![7])).block(map).build().bytes;
        let opened = open(&bytes).unwrap();
        assert_eq!(opened.file.array("many").unwrap().len() as usize, chunks);
        let refs = opened.container.clone().derived_file("refs.json").unwrap().unwrap();
        let text = String::from_utf8(read(&*refs.content.unwrap()).unwrap()).unwrap();
        assert_eq!(text.contains("many/0"), is_shown);
        assert_eq!(text.contains("more than 65536 chunks"), !is_shown, "{}", &text[..text.len().min(900)]);
    }
}

/// Chunks that were never written have the fill value, which the metadata have in the forms of Zarr 2.
#[test]
fn fill_values_of_all_types_are_read() {
    let half = [0x00, 0x3e];
    let single = 1.5_f32.to_le_bytes();
    let pair = [1.5_f64.to_be_bytes(), f64::NEG_INFINITY.to_be_bytes()].concat();
    for (dtype, fill, expected, json) in [
        ("<f4", "0.0", &[0; 4][..], "0"),
        ("<f4", "1.5", &single, "1.5"),
        ("<f4", "1", &1_f32.to_le_bytes(), "1.0"),
        (">f8", "1.0e+3", &1e3_f64.to_be_bytes(), "1000.0"),
        ("<f8", "-0.0", &(-0.0_f64).to_le_bytes(), "-0.0"),
        ("<f2", "1.5", &half, "1.5"),
        ("<f4", "NaN", &f32::NAN.to_le_bytes(), "\"NaN\""),
        ("<c8", "[1.5, 0.0]", &[single, [0; 4]].concat(), "[1.5,0.0]"),
        (">c16", "[1.5, -Infinity]", &pair, "[1.5,\"-Infinity\"]"),
        ("|b1", "true", &[1], "true"),
        ("|S4", "enp6", b"zzz\0", "\"enp6\""),
        ("<U2", "a", &[b'a', 0, 0, 0, 0, 0, 0, 0], "\"a\""),
        (">i2", "-7", &(-7_i16).to_be_bytes(), "-7"),
        ("<i4", "null", &[0; 4], "0"),
    ] {
        let tree = format!(
            "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: \
             !<asdf://asdf-format.org/zarr/tags/zarr-1.0.0>\n  .zarray: {{chunks: [2], compressor: null, dtype: '{dtype}', \
             fill_value: {fill}, filters: null, order: C, shape: [3], zarr_format: 2}}\n  chunk_block_map: 0\n...\n"
        );
        let bytes = AsdfBuilder::new().tree(tree).block(Block::new(vec![255; 8])).build().bytes;
        let opened = open(&bytes).unwrap();
        let mut found = vec![9; expected.len()];
        opened.file.array("a").unwrap().read_at(2 * expected.len() as u64, &mut found).unwrap();
        assert_eq!(found, expected, "{dtype} {fill}");
        let meta: serde_json::Value =
            serde_json::from_str(references(&opened)["refs"]["a/.zarray"].as_str().unwrap()).unwrap();
        assert_eq!(meta["fill_value"].to_string(), json, "{dtype} {fill}");
    }
}
