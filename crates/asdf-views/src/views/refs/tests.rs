use asdf_file::container::Context;
use seekable::cache::Cache;
use seekable::content::read_exact_at;
use seekable::source::MemorySource;
use serde_json::{Value, json};

use super::*;

const HEAD: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/core/\n---\n";

/// Makes a file of a tree and blocks, each with its label and decoded size.
fn file_of(nodes: &str, blocks: &[(&str, &[u8], u64)]) -> Vec<u8> {
    let mut bytes = format!("{HEAD}{nodes}\n...\n").into_bytes();
    for (label, data, size) in blocks {
        bytes.extend(b"\xd3BLK\x00\x30\x00\x00\x00\x00");
        let mut field = [0; 4];
        field[..label.len()].copy_from_slice(label.as_bytes());
        bytes.extend(field);
        for size in [data.len() as u64, data.len() as u64, *size] {
            bytes.extend(size.to_be_bytes());
        }
        bytes.extend([0; 16]);
        bytes.extend(*data);
    }
    bytes
}

fn text_of(bytes: Vec<u8>) -> Vec<u8> {
    let context = Context::new(Arc::new(Cache::new(16 << 20)));
    let file = AsdfFile::open(Arc::new(MemorySource(bytes)), &context, &[&arrays::Arrays, &Refs]).unwrap();
    let content = refs_file(&Arc::new(file)).content.unwrap();
    let mut text = vec![0; content.len() as usize];
    read_exact_at(&*content, 0, &mut text).unwrap();
    text
}

fn refs_of(nodes: &str, blocks: &[(&str, &[u8], u64)]) -> Value {
    let text = text_of(file_of(nodes, blocks));
    let mut value: Value = serde_json::from_slice(&text).unwrap();
    value["refs"].take()
}

fn inner(refs: &Value, key: &str) -> Value {
    serde_json::from_str(refs[key].as_str().expect(key)).unwrap()
}

/// Returns offset and length of a chunk.
fn range(refs: &Value, key: &str) -> Value {
    json!([refs[key][1], refs[key][2]])
}

fn array(source: &str, shape: &str, more: &str) -> String {
    format!("!ndarray-1.1.0 {{source: {source}, datatype: int16, byteorder: big, shape: {shape}{more}}}")
}

fn pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let piece = |bytes: &&[u8]| {
        let block = lz4_flex::block::compress_prepend_size(bytes);
        [&(block.len() as u32).to_be_bytes()[..], &block].concat()
    };
    pieces.iter().flat_map(piece).collect()
}

#[test]
fn raw_blocks_are_ranges_of_the_file() {
    let nodes =
        format!("a:\n  .zarray: {}\nb: {}", array("0", "[2, 3]", ""), array("0", "[2]", ", offset: 4"));
    let refs = refs_of(&nodes, &[("", &[1; 12], 12)]);
    let data = file_of(&nodes, &[("", &[1; 12], 12)]).len() - 12;
    assert_eq!(range(&refs, "a/%2Ezarray/0.0"), json!([data, 12]));
    assert_eq!(range(&refs, "b/0"), json!([data + 4, 4]));
    assert_eq!(inner(&refs, "a/.zgroup"), json!({"zarr_format": 2}));
    let meta = inner(&refs, "a/%2Ezarray/.zarray");
    assert_eq!(
        (&meta["dtype"], &meta["chunks"], &meta["compressor"]),
        (&json!(">i2"), &json!([2, 3]), &json!(null))
    );
    assert_eq!(refs[".zattrs"], Value::Null);
}

#[test]
fn arrays_in_the_tree_are_data_in_the_text() {
    let refs =
        refs_of("a: !ndarray-1.1.0 [[1, 2]]\nb: !ndarray-1.1.0 {data: [], datatype: int8, shape: [0]}", &[]);
    assert_eq!(refs["a/0.0"], "base64:AQAAAAAAAAACAAAAAAAAAA==");
    assert_eq!(inner(&refs, "a/.zarray")["dtype"], "<i8");
    assert_eq!((&inner(&refs, "b/.zarray")["shape"], &refs["b/0"]), (&json!([0]), &Value::Null));
}

/// Zarr has no elements without bytes.
#[test]
fn strings_without_characters_get_a_nul_each() {
    let node = |source: &str, kind: &str| {
        format!("!ndarray-1.1.0 {{source: {source}, datatype: [{kind}, 0], byteorder: little, shape: [3]}}")
    };
    let refs = refs_of(&format!("a: {}\nb: {}", node("0", "ucs4"), node("0", "ascii")), &[("", &[], 0)]);
    assert_eq!(refs["a/0"], "base64:AAAAAAAAAAAAAAAA");
    assert_eq!(inner(&refs, "a/.zarray")["dtype"], "<U1");
    assert_eq!(refs["b/0"], "base64:AAAA");
    assert_eq!(inner(&refs, "b/.zarray")["dtype"], "|S1");

    let many = node("0", "ucs4").replace("[3]", "[1000000000]");
    let refs = refs_of(&format!("a: {many}"), &[("", &[], 0)]);
    assert_eq!(inner(&refs, ".zattrs")["left_out"]["a"], "its elements have no bytes");
}

#[test]
fn pieces_of_lz4_are_chunks_if_they_are_equal_and_whole_rows() {
    let row = [7_u8; 12];
    let two = pieces(&[&row, &row]);
    let nodes = format!("a: {}\nb: {}", array("0", "[4, 3]", ""), array("0", "[3, 4]", ""));
    let refs = refs_of(&nodes, &[("lz4", &two, 24)]);
    let data = file_of(&nodes, &[("lz4", &two, 24)]).len() - two.len();
    let len = two.len() / 2 - 4;
    assert_eq!(range(&refs, "a/0.0"), json!([data + 4, len]));
    assert_eq!(range(&refs, "a/1.0"), json!([data + 8 + len, len]));
    assert_eq!(inner(&refs, "a/.zarray")["compressor"]["id"], "lz4");
    // One chunk, with our own codec.
    assert_eq!(range(&refs, "b/0.0"), json!([data, two.len()]));
    let meta = inner(&refs, "b/.zarray");
    assert_eq!((&meta["compressor"], &meta["chunks"]), (&json!({"id": "asdf-lz4"}), &json!([3, 4])));
    assert!(inner(&refs, ".zattrs")["left_out"]["b"].as_str().unwrap().contains("asdf-lz4"));

    let short = pieces(&[&row, &row[..6]]);
    let refs = refs_of(&format!("a: {}", array("0", "[3, 3]", "")), &[("lz4", &short, 18)]);
    assert_eq!(inner(&refs, "a/.zarray")["compressor"]["id"], "asdf-lz4");
}

#[test]
fn what_zarr_cannot_express_is_left_out_with_the_reason() {
    let cases = [
        (array("0", "[2]", ", strides: [4]"), "its strides are not those of C order"),
        (array("0", "[2]", ", mask: 0"), "it has a mask"),
        (array("1", "[2]", ""), "it is a part of a compressed block"),
        (array("2", "[2]", ""), "the compression \"what\" is not known"),
        (array("other.asdf", "[2]", ""), "it is in another file"),
        ("!ndarray-1.1.0 [1, null]".to_owned(), "it has a mask"),
        ("*group".to_owned(), "it leads to group, which is not an array"),
        ("*masked".to_owned(), "it has a mask"),
        (
            "!ndarray-1.1.0 {source: 0, datatype: [int8, int8], byteorder: big, shape: [2]}".to_owned(),
            "its type is structured",
        ),
    ];
    let whole = array("0", "[6]", ", strides: [2]");
    let mut nodes = format!(
        "x: {whole}\ngroup: &group {{x: {whole}}}\nmasked: &masked {}\n",
        array("0", "[2]", ", mask: 0")
    );
    for (n, (node, _)) in cases.iter().enumerate() {
        nodes += &format!("a{n}: {node}\n");
    }
    let blocks: &[(&str, &[u8], u64)] = &[("", &[1; 12], 12), ("zlib", &[1; 12], 12), ("what", &[1; 12], 12)];
    let refs = refs_of(&nodes, blocks);
    let left_out = inner(&refs, ".zattrs")["left_out"].take();
    for (n, (_, why)) in cases.iter().enumerate() {
        assert_eq!(left_out[format!("a{n}")], *why);
        assert_eq!(refs[format!("a{n}/.zarray")], Value::Null);
    }
    assert_ne!(refs["x/.zarray"], Value::Null);
}

#[test]
fn aliases_and_references_have_the_chunks_of_their_array() {
    let nodes = format!(
        "deep: {{x: &x {}}}\nalias: *x\nbelow:\n  reference: {{$ref: '#/deep/x'}}\nlinked: {{$ref: '#/alias'}}",
        array("0", "[2, 3]", "")
    );
    let refs = refs_of(&nodes, &[("", &[1; 12], 12)]);
    assert_ne!(refs["deep/x/.zarray"], Value::Null);
    for path in ["alias", "below/reference", "linked"] {
        for part in [".zarray", ".zattrs", "0.0"] {
            assert_eq!(refs[format!("{path}/{part}")], refs[format!("deep/x/{part}")], "{path}");
        }
    }
    assert_eq!(refs[".zattrs"], Value::Null);
}

/// The mask of `x` is an array of its own, too, and a link in `arrays/`.
#[test]
fn a_mask_that_is_an_alias_is_left_out() {
    let mask = "!ndarray-1.1.0 {source: 0, datatype: bool8, byteorder: big, shape: [6]}";
    let nodes = format!("m: &m {mask}\nx: {}", array("0", "[6]", ", mask: *m"));
    let refs = refs_of(&nodes, &[("", &[1; 12], 12)]);
    assert_ne!(refs["m/.zarray"], Value::Null);
    assert_eq!(refs["x.mask/.zarray"], Value::Null);
    assert_eq!(inner(&refs, ".zattrs")["left_out"]["x.mask"], "it is the mask of an array");
}

#[test]
fn an_array_and_a_group_at_one_path_do_not_collide() {
    let nodes = format!("a: {}\na:\n  b: {}", array("0", "[6]", ""), array("0", "[6]", ""));
    let refs = refs_of(&nodes, &[("", &[1; 12], 12)]);
    assert_eq!(inner(&refs, ".zattrs")["left_out"]["a"], "a group has the same path");
    assert_ne!(refs["a/b/.zarray"], Value::Null);
}

/// The length is known before the text is read.
#[test]
fn a_long_text_has_its_exact_length() {
    let nodes: String = (0..3000).map(|n| format!("a{n}: {}\n", array("0", "[6]", ""))).collect();
    let text = text_of(file_of(&nodes, &[("", &[1; 12], 12)]));
    let value: Value = serde_json::from_slice(&text).unwrap();
    assert!(text.len() > 600_000 && text.ends_with(b"\n"));
    assert_eq!(value["refs"].as_object().unwrap().len(), 2 + 3 * 3000);
}
