//! Every codec, read in every way and compared with the original data.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Barrier;

use rustix::process::{Pid, Signal, kill_process};

use crate::large::{self, Kind};
use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder};

pub(crate) const LEN: usize = 3_500_000;

/// Returns all encodings, also LZ4 frames of both kinds with small blocks, and zstd in several frames.
fn encodings(data: &[u8]) -> Vec<Encoding> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let frame = |mode| {
        let info = FrameInfo::new().block_mode(mode).block_size(BlockSize::Max64KB).content_checksum(true);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, data).unwrap();
        Encoding::Raw(*b"lz4f", encoder.finish().unwrap())
    };
    let frames = data.chunks(300_000).flat_map(|part| zstd::encode_all(part, 1).unwrap()).collect();
    let mut all = Encoding::all();
    all.extend([frame(BlockMode::Linked), frame(BlockMode::Independent), Encoding::Raw(*b"zstd", frames)]);
    all
}

/// Mounts a file with a block for each encoding; returns the mount and the data.
pub(crate) fn mounted() -> (Mounted, Vec<u8>, usize, tempfile::TempDir) {
    let (folder, data) = (fresh_folder(), sample(LEN, 31));
    let encodings = encodings(&data);
    let blocks = encodings.iter().map(|encoding| Block::new(data.clone()).encoding(encoding.clone()));
    let source = AsdfBuilder::new().blocks(blocks).build().save(folder.path(), "a.asdf");
    // The cache is smaller than one block.
    (
        super::SOURCES.mount(["-o".as_ref(), "cache=1M".as_ref(), source.as_os_str()]),
        data,
        encodings.len(),
        folder,
    )
}

#[test]
fn from_start_to_end_backwards_and_here_and_there() {
    let (mounted, data, count, _folder) = mounted();
    for n in 0..count {
        let mut block = File::open(mounted.block_path(n)).unwrap();
        let mut bytes = Vec::new();
        block.seek(SeekFrom::End(-5000)).unwrap();
        block.read_to_end(&mut bytes).unwrap();
        assert!(bytes == data[LEN - 5000..], "block {n}: the tail");
        let mut buf = vec![0; 70_000];
        for at in (0..LEN - buf.len()).rev().step_by(323_457) {
            block.read_exact_at(&mut buf, at as u64).unwrap();
            assert!(buf == data[at..at + buf.len()], "block {n}: backwards at {at}");
        }
        for step in 0..20 {
            let at = step * 7_654_321 % (LEN - buf.len());
            block.read_exact_at(&mut buf, at as u64).unwrap();
            assert!(buf == data[at..at + buf.len()], "block {n}: at {at}");
        }
        assert!(mounted.block(n) == data, "block {n}: from start to end");
    }
}

#[test]
fn by_many_at_once_in_all_blocks() {
    let (mounted, data, count, _folder) = mounted();
    let (mounted, data) = (&mounted, &data);
    std::thread::scope(|scope| {
        for reader in 0..3 * count {
            scope.spawn(move || {
                let n = reader % count;
                let block = File::open(mounted.block_path(n)).unwrap();
                let mut buf = vec![0; 90_000];
                for step in 0..20 {
                    let at = match reader / count {
                        0 => step * 160_000,
                        1 => (19 - step) * 160_000,
                        _ => (step * 999_983 + n * 77_777) % (LEN - buf.len()),
                    };
                    block.read_exact_at(&mut buf, at as u64).unwrap();
                    assert!(buf == data[at..at + buf.len()], "block {n} at {at}");
                }
            });
        }
    });
}

#[test]
fn readers_that_are_killed_leave_nothing_behind() {
    let folder = fresh_folder();
    for kind in Kind::ALL {
        let mounted = super::SOURCES.file(large::file(folder.path(), kind, 100));
        let pattern = kind.pattern();
        for signal in [Signal::INT, Signal::KILL, Signal::TERM] {
            let readers: Vec<_> = (0..4)
                .map(|skip| {
                    let block = format!("if={}", mounted.block_path(0).display());
                    let skip = format!("skip={}", skip * 20);
                    Command::new("dd")
                        .args([block.as_str(), "of=/dev/null", "bs=1M", skip.as_str()])
                        .stderr(Stdio::null())
                        .spawn()
                        .unwrap()
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(15));
            for mut reader in readers {
                // A reader that has finished by now is a zombie, which can still be signalled.
                kill_process(Pid::from_child(&reader), signal).unwrap();
                reader.wait().unwrap();
            }
        }
        let block = File::open(mounted.block_path(0)).unwrap();
        for at in [99 << 20, 0, 50 << 20] {
            large::check(&block, &pattern, at, 100_000);
        }
        drop(block);
        mounted.unmount();
    }
}

#[test]
fn one_decode_serves_all_readers_that_want_it() {
    let (folder, data) = (fresh_folder(), sample(LEN, 33));
    // Headers of tiny Blosc buffers are read repeatedly, together with surrounding bytes.
    let counted = |encoding: &Encoding| !matches!(encoding, Encoding::BloscAbacus(_));
    let sources: Vec<_> = encodings(&data)
        .into_iter()
        .filter(counted)
        .enumerate()
        .map(|(n, encoding)| {
            let file = AsdfBuilder::new().block(Block::new(data.clone()).encoding(encoding.clone())).build();
            (encoding, file.bytes.len() as u64, file.save(folder.path(), &format!("{n}.asdf")))
        })
        .collect();
    // Bytes are served in place only if the file was not changed in the last two seconds. The time of the last
    // change (ctime) can't be set.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    for (encoding, stored, source) in sources {
        // A seek table would need a second pass for its checksum.
        let mounted =
            super::SOURCES.mount(["-o".as_ref(), "cache=64M,index-cache=off".as_ref(), source.as_os_str()]);
        let barrier = &Barrier::new(16);
        let before = mounted.bytes_read();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let block = File::open(mounted.block_path(0)).unwrap();
                    barrier.wait();
                    let mut buf = vec![0; LEN];
                    block.read_exact_at(&mut buf, 0).unwrap();
                    assert!(buf == data);
                });
            }
        });
        // Other bytes read are requests of some 100 bytes each, and headers.
        let taken = mounted.bytes_read() - before;
        assert!(taken < 3 * stored, "{encoding:?}: {taken} bytes read of {stored}");
    }
}
