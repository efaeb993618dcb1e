//! Repeated reads come from the kernel's cache. The tests count the bytes that the daemon reads and writes,
//! because durations would prove nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder, wait_until};

const LEN: usize = 6_000_000;

pub(crate) fn mounted(encoding: &Encoding) -> (Mounted, Vec<u8>, tempfile::TempDir) {
    let (folder, data) = (fresh_folder(), sample(LEN, 21));
    let file = AsdfBuilder::new().block(Block::new(data.clone()).encoding(encoding.clone())).build();
    let source = file.save(folder.path(), "a.asdf");
    (super::SOURCES.file(source), data, folder)
}

/// Returns the number of bytes that the daemon has passed to the kernel so far.
fn handed_over(mounted: &Mounted) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", mounted.daemon().unwrap())).unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Returns the number of bytes that the daemon passes to the kernel while `what` runs.
pub(crate) fn cost(mounted: &Mounted, what: impl FnOnce()) -> u64 {
    let before = handed_over(mounted);
    what();
    handed_over(mounted) - before
}

pub(crate) fn encodings() -> impl Iterator<Item = Encoding> {
    Encoding::all().into_iter().filter(|encoding| !matches!(encoding, Encoding::Stored))
}

#[test]
fn a_block_read_through_is_read_again_from_the_kernels_cache() {
    for encoding in encodings() {
        let (mounted, data, _folder) = mounted(&encoding);
        assert!(mounted.block(0) == data);
        // The last pages are stored into the kernel's cache after the reply.
        let again = || cost(&mounted, || assert!(mounted.block(0) == data));
        assert!(wait_until(|| again() < 200_000), "{encoding:?}: {} bytes once more", again());
        let block = File::open(mounted.block_path(0)).unwrap();
        let mut bytes = vec![0; 4096];
        let random = cost(&mounted, || {
            for at in (0..LEN - 4096).step_by(99_991) {
                block.read_exact_at(&mut bytes, at as u64).unwrap();
                assert!(bytes == data[at..at + 4096]);
            }
        });
        assert!(random < 20_000, "{encoding:?}: {random} bytes for reads here and there");
    }
}

#[test]
fn a_source_that_is_written_anew_is_not_read_from_the_cache() {
    for encoding in [Encoding::Zlib, Encoding::Lz4Frame, Encoding::Zstd] {
        let (mounted, data, folder) = mounted(&encoding);
        for _ in 0..3 {
            assert!(mounted.block(0) == data);
        }
        let other: Vec<u8> = data.iter().map(|byte| byte ^ 0x5a).collect();
        let file = AsdfBuilder::new().block(Block::new(other.clone()).encoding(encoding.clone())).build();
        fs::write(folder.path().join("a.asdf"), &file.bytes).unwrap();
        assert!(
            wait_until(|| fs::read(mounted.block_path(0)).is_ok_and(|read| read == other)),
            "{encoding:?}"
        );
        assert!(mounted.block(0) == other);
    }
}

#[test]
fn what_is_found_damaged_is_not_read_from_the_cache_either() {
    let (folder, data) = (fresh_folder(), sample(LEN, 22));
    let mut stored = Encoding::Zlib.encode(&data);
    *stored.last_mut().unwrap() ^= 1;
    let block = Block::new(data.clone()).encoding(Encoding::Raw(*b"zlib", stored));
    let source = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
    let mounted = super::SOURCES.file(source);
    let block = File::open(mounted.block_path(0)).unwrap();
    let mut bytes = vec![0; 1 << 20];
    // All pages but the last are stored into the kernel's cache; the end of the stream shows that they are
    // damaged.
    for at in 0..5 {
        block.read_exact_at(&mut bytes, at << 20).unwrap();
        assert!(bytes == data[(at as usize) << 20..][..1 << 20]);
    }
    assert!(block.read_exact_at(&mut bytes[..900_000], 5 << 20).is_err());
    let refused =
        || File::open(mounted.block_path(0)).is_ok_and(|block| block.read_at(&mut [0; 10], 0).is_err());
    assert!(wait_until(refused));
    assert!(fs::read(mounted.block_path(0)).is_err());
}

#[test]
fn a_source_that_is_cut_short_does_not_end_a_block_that_the_kernel_keeps() {
    for encoding in encodings() {
        let (folder, data) = (fresh_folder(), sample(600_000, 24));
        let file = AsdfBuilder::new().block(Block::new(data.clone()).encoding(encoding.clone())).build();
        let source = file.save(folder.path(), "a.asdf");
        let mounted = super::SOURCES.file(&source);
        let block = File::open(mounted.block_path(0)).unwrap();
        let mut bytes = [0; 4096];
        block.read_exact_at(&mut bytes, 0).unwrap();
        File::options().write(true).open(&source).unwrap().set_len(file.bytes.len() as u64 / 2).unwrap();
        // The kernel may ask for the size meanwhile, and may drop cached pages.
        assert!(wait_until(|| fs::read(mounted.block_path(0)).is_err()), "{encoding:?}");
        let mut at = 0;
        let ended = loop {
            match block.read_at(&mut bytes, at) {
                Ok(0) => break at,
                Ok(read) => {
                    assert!(bytes[..read] == data[at as usize..][..read], "{encoding:?}: at {at}");
                    at += read as u64;
                }
                Err(_) => break 600_000,
            }
        };
        assert_eq!(ended, 600_000, "{encoding:?}: an end where there is none");
    }
}
