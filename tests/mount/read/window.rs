//! A zstd frame with a window too large for checkpoints.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::fresh_folder;

const LEN: usize = 9_000_000;

/// Sequential reads of less than a unit continue one decoder, although it alone is larger than the cache.
#[test]
fn a_sequential_reader_decodes_a_frame_with_a_window_larger_than_the_cache_once() {
    let (folder, data) = (fresh_folder(), sample(2 * LEN, 47));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(25).unwrap();
    encoder.write_all(&data).unwrap();
    let stored = encoder.finish().unwrap();
    let len = stored.len() as u64;
    let encoding = Encoding::Raw(*b"zstd", stored);
    let source = AsdfBuilder::new()
        .block(Block::new(data.clone()).encoding(encoding))
        .build()
        .save(folder.path(), "a.asdf");
    for option in ["cache=1M", "cache=4M"] {
        let mounted = super::SOURCES.mount(["-o".as_ref(), option.as_ref(), source.as_os_str()]);
        let before = mounted.bytes_read();
        let block = File::open(mounted.block_path(0)).unwrap();
        let mut buf = vec![0; 64 << 10];
        for (n, part) in data.chunks(buf.len()).enumerate() {
            block.read_exact_at(&mut buf[..part.len()], (n * (64 << 10)) as u64).unwrap();
            assert!(buf[..part.len()] == *part, "{option}: part {n}");
        }
        let read = mounted.bytes_read() - before;
        // Beside the decoder, the cache holds no block of a server, which is then requested again. A decoder that
        // began anew for each read would request 500 MB.
        let again = if super::SOURCES.are_over_http() { 16 * data.len() as u64 } else { 0 };
        assert!(read < 2 * len + (4 << 20) + again, "{option}: {read} bytes read, {len} stored");
        for at in [17_000_000, 3, 9_500_000] {
            block.read_exact_at(&mut buf, at).unwrap();
            assert!(buf == data[at as usize..][..buf.len()], "{option}: at {at}");
        }
        drop(block);
        mounted.unmount();
    }
}
