//! Pictures and statistics of arrays of unusual shapes and strides: the daemon's read calls and bytes are counted.

use std::fs;

use common::asdf::{AsdfBuilder, Block};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder};

/// More elements than a picture is made of.
const LEN: usize = 17_007_376;

/// Returns the numbers of read calls of the daemon and of the bytes that they have read so far.
fn reads(mounted: &Mounted) -> (u64, u64) {
    let io = fs::read_to_string(format!("/proc/{}/io", mounted.daemon().unwrap())).unwrap();
    let number = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap();
    (number("syscr: "), number("rchar: "))
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn a_picture_of_any_shape_costs_few_read_calls_and_bytes() {
        let arrays = [
            ("tall", format!("shape: [{LEN}, 1]")),
            ("wide", format!("shape: [1, {LEN}]")),
            ("narrow", format!("shape: [{}, 2]", LEN / 2)),
            ("backwards", format!("shape: [{LEN}, 1], strides: [-1, 1], offset: {}", LEN - 1)),
            ("steps", "shape: [5000000, 1], strides: [3, 1]".to_owned()),
            ("apart", "shape: [4000, 1000], strides: [4096, 4]".to_owned()),
            ("far", "shape: [1000, 4000], strides: [1, 4096]".to_owned()),
            ("again", format!("shape: [{LEN}, 1000], strides: [1, 0]")),
            ("planes", format!("shape: [{LEN}, 1, 1]")),
        ];
        for encoding in [Encoding::Stored, Encoding::Zlib] {
            let mut tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n".to_owned();
            for (name, shape) in &arrays {
                tree += &format!(
                    "{name}: !core/ndarray-1.0.0 {{source: 0, datatype: uint8, byteorder: big, {shape}}}\n"
                );
            }
            let folder = fresh_folder();
            let block = Block::new(vec![7; LEN]).encoding(encoding.clone());
            let source =
                AsdfBuilder::new().tree(tree + "...\n").block(block).build().save(folder.path(), "a.asdf");
            let mounted = Mounted::file(source);
            for name in
                arrays.iter().map(|(name, _)| format!("preview/{name}.png")).chain(["index.html".to_owned()])
            {
                let (calls, bytes) = reads(&mounted);
                assert!(!fs::read(mounted.path(&name)).unwrap().is_empty());
                let (calls_after, bytes_after) = reads(&mounted);
                let calls = calls_after - calls;
                let bytes = bytes_after - bytes;
                // The page has a picture, and the numbers of up to 16 arrays.
                let limit = if name == "index.html" { 128_000_000 } else { 64_000_000 };
                assert!(
                    calls < 50_000 && bytes <= limit,
                    "{name}, {encoding:?}: {calls} calls, {bytes} bytes"
                );
            }
            mounted.unmount();
        }
    }
}
