//! Streams whose damage takes long to find: the result of a pass is remembered.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::{self, Encoding};
use common::mount::fresh_folder;

/// Number of empty streams, each with a header and a footer.
const EMPTY: usize = 20_000;

#[test]
fn empty_bzip2_streams_are_passed_once_and_not_read_again_and_again() {
    let folder = fresh_folder();
    let good = sample(5000, 1);
    let (empty, stream) = (encode::bzip2(b"").repeat(EMPTY), encode::bzip2(&good));
    let mut broken = stream.clone();
    broken[2000] ^= 0xff;
    for (name, streams, data_size) in [
        ("empty", vec![&empty], 4096),
        ("empty, much missing", vec![&empty], 1 << 20),
        ("data behind", vec![&empty, &stream], 5000),
        ("data behind, more missing", vec![&empty, &stream], 1 << 20),
        ("broken behind", vec![&empty, &broken], 1 << 20),
        ("data, broken behind", vec![&stream, &empty, &broken], 1 << 20),
    ] {
        let stored: Vec<u8> = streams.into_iter().flatten().copied().collect();
        let len = stored.len() as u64;
        let block = Block::new(vec![0; data_size]).encoding(Encoding::Raw(*b"bzp2", stored));
        let source = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
        for (options, at) in [("cache=64M", 0), ("cache=64M,index-cache=off", data_size - 1)] {
            let mounted = super::SOURCES.mount(["-o".as_ref(), options.as_ref(), source.as_os_str()]);
            let before = mounted.bytes_read();
            let _ = File::open(mounted.block_path(0)).unwrap().read_at(&mut [0; 512], at as u64);
            let first = mounted.bytes_read() - before;
            assert!(first < 200 * len, "{name}, {options}: {first} bytes read, {len} stored");
            for offset in [0, data_size / 2, data_size - 1, 0] {
                let block = File::open(mounted.block_path(0)).unwrap();
                let _ = block.read_at(&mut [0; 512], offset as u64);
            }
            let _ = File::open(mounted.block_path(0)).unwrap().read_to_end(&mut Vec::new());
            let again = mounted.bytes_read() - before - first;
            assert!(again < len, "{name}, {options}: {again} bytes read again, {len} stored");
            mounted.unmount();
        }
    }
}
