//! `arrays/` of files that Python asdf can't write.

use std::fs;

use common::asdf::{AsdfBuilder, Block};
use common::mount::fresh_folder;

#[test]
fn arrays_that_python_refuses_are_shown() {
    let node = |shape: &str, strides: &str| {
        format!(
            "!core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: little, shape: {shape}, strides: {strides}}}"
        )
    };
    let nodes = [
        ("rows", node("[2, 3]", "[0, 1]"), &b"abcabc"[..]),
        ("columns", node("[3, 2]", "[1, 0]"), b"aabbcc"),
        ("one", node("[2, 2]", "[0, 0]"), b"aaaa"),
        (
            "table",
            "!core/ndarray-1.1.0 {data: [[97, 98], [99, 100]], datatype: [uint8, uint8]}".to_owned(),
            b"abcd",
        ),
        ("old", "!core/ndarray-0.1.0 {source: 0, dtype: int16, shape: [2]}".to_owned(), b"abcd"),
    ];
    let text: String = nodes.iter().map(|(key, node, _)| format!("{key}: {node}\n")).collect();
    let text = format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{text}...\n");
    let folder = fresh_folder();
    let file = AsdfBuilder::new().tree(text).block(Block::new(b"abcdefgh".to_vec())).build();
    let mounted = super::SOURCES.file(file.save(folder.path(), "main.asdf"));
    for (key, _, expected) in nodes {
        let bytes = fs::read(mounted.path(format!("arrays/{key}.npy"))).unwrap();
        assert_eq!(&bytes[128..], expected, "{key}");
    }
    mounted.unmount();
}
