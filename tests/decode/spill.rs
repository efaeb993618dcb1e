//! A zstd block of one frame that is larger than the cache is put aside, in a file that has no name.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::asdf::{AsdfBuilder, Block, sample};
use crate::common::encode::Encoding;
use crate::common::mount::{Mounted, fresh_folder};

const LEN: usize = 9_000_000;

/// Files without a name in a folder that the daemon holds open.
fn unnamed(mounted: &Mounted, folder: &Path) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", mounted.daemon().unwrap())).unwrap();
    let target = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    open.filter_map(target).filter(|target| target.starts_with(folder)).count()
}

/// Reads in a mount with an option, from the end to the start, and says how many files were made for that.
fn files_with(option: &str, encoding: &Encoding, spill: &Path) -> usize {
    files_of(LEN, option, encoding, spill)
}

/// The same of a block of `len` bytes.
fn files_of(len: usize, option: &str, encoding: &Encoding, spill: &Path) -> usize {
    let (folder, data) = (fresh_folder(), sample(len, 41));
    let file = AsdfBuilder::new().block(Block::new(data.clone()).encoding(encoding.clone())).build();
    let source = file.save(folder.path(), "a.asdf");
    let mounted = Mounted::new(["-o".as_ref(), option.as_ref(), source.as_os_str()]);
    let block = File::open(mounted.block_path(0)).unwrap();
    let mut buf = vec![0; 50_000];
    for at in (0..len - buf.len()).rev().step_by(700_001) {
        block.read_exact_at(&mut buf, at as u64).unwrap();
        assert!(buf == data[at..at + buf.len()], "{option}: at {at}");
    }
    assert!(mounted.block(0) == data, "{option}");
    let files = unnamed(&mounted, spill);
    drop(block);
    mounted.unmount();
    assert_eq!(fs::read_dir(spill).unwrap().count(), 0, "{option}: something was left behind");
    files
}

#[test]
fn only_what_is_larger_than_the_cache_and_has_one_frame_is_put_aside_and_only_if_it_may() {
    let spill = fresh_folder();
    let spill = spill.path();
    let there = format!("cache=4M,spill={}", spill.display());
    assert_eq!(files_with(&there, &Encoding::Zstd, spill), 1);
    let enough = format!("cache=64M,spill={}", spill.display());
    assert_eq!(files_with(&enough, &Encoding::Zstd, spill), 0);
    assert_eq!(files_with("cache=4M,spill=off", &Encoding::Zstd, spill), 0);
    let frames =
        sample(LEN, 41).chunks(1 << 20).flat_map(|part| zstd::encode_all(part, 1).unwrap()).collect();
    assert_eq!(files_with(&there, &Encoding::Raw(*b"zstd", frames), spill), 0);
    // What has places to start at need not be put aside; a frame with a window as long as itself has none.
    let long = 2 * LEN;
    assert_eq!(files_of(long, &there, &Encoding::Zstd, spill), 0);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(25).unwrap();
    encoder.write_all(&sample(long, 41)).unwrap();
    let wide = Encoding::Raw(*b"zstd", encoder.finish().unwrap());
    assert_eq!(files_of(long, &there, &wide, spill), 1);
}

#[test]
fn who_reads_from_start_to_end_has_nothing_put_aside() {
    let (folder, spill, data) = (fresh_folder(), fresh_folder(), sample(LEN, 43));
    let file = AsdfBuilder::new().block(Block::new(data.clone()).encoding(Encoding::Zstd)).build();
    let source = file.save(folder.path(), "a.asdf");
    let option = format!("cache=4M,spill={}", spill.path().display());
    let mounted = Mounted::new(["-o".as_ref(), option.as_ref(), source.as_os_str()]);
    assert!(mounted.block(0) == data);
    assert_eq!(unnamed(&mounted, spill.path()), 0);
    mounted.unmount();
}

#[test]
fn a_folder_that_will_not_do_is_refused_at_once() {
    let folder = fresh_folder();
    let source = AsdfBuilder::new().build().save(folder.path(), "a.asdf");
    let refused = Mounted::try_new(["-o".as_ref(), "spill=/nowhere/at/all".as_ref(), source.as_os_str()]);
    let said = refused.map(|_| ()).unwrap_err();
    assert!(String::from_utf8_lossy(&said.stderr).contains("/nowhere/at/all"), "{said:?}");
}

/// Reading on in steps of less than a chunk must not begin anew at each, though the decoder alone is larger than
/// the cache.
#[test]
fn a_frame_with_a_window_larger_than_the_cache_is_decoded_once_by_who_reads_on() {
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
    for option in ["cache=1M,spill=off", "cache=4M,spill=off", "cache=4M"] {
        let mounted = Mounted::new(["-o".as_ref(), option.as_ref(), source.as_os_str()]);
        let read_by_daemon = || {
            let io = fs::read_to_string(format!("/proc/{}/io", mounted.daemon().unwrap())).unwrap();
            io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap()
        };
        let before = read_by_daemon();
        let block = File::open(mounted.block_path(0)).unwrap();
        let mut buf = vec![0; 64 << 10];
        for (n, part) in data.chunks(buf.len()).enumerate() {
            block.read_exact_at(&mut buf[..part.len()], (n * (64 << 10)) as u64).unwrap();
            assert!(buf[..part.len()] == *part, "{option}: part {n}");
        }
        let read = read_by_daemon() - before;
        assert!(read < 2 * len + (4 << 20), "{option}: {read} bytes read, {len} stored");
        drop(block);
        mounted.unmount();
    }
}
