//! Damaged files, as seen through the kernel.

use std::fs;
use std::os::unix::fs::FileExt;

use common::asdf::{AsdfBuilder, Block, sample};
use common::daemon::{Bench, Daemon, TEXT};
use common::encode::zlib;
use common::mount::{Mounted, fresh_folder};

#[test]
fn a_block_of_an_impossible_size_is_listed_and_gives_eio() {
    let bench = Bench::new();
    let mut bytes = TEXT.as_bytes().to_vec();
    bytes.extend(b"\xd3BLK\0\x30\0\0\0\0zlib");
    bytes.extend([0xff; 24]); // allocated, used and data size
    bytes.extend([0; 16]);
    fs::write(bench.source(), bytes).unwrap();
    let mounted = bench.run(["a.asdf", "mnt"]);
    let said = String::from_utf8(mounted.stderr).unwrap();
    let (_, command) = said.trim_end().rsplit_once("this lists all damage: ").unwrap();
    let checked = bench.shell(command);
    assert!(mounted.status.success() && checked.status.code() == Some(1), "{said} {checked:?}");
    let daemon = Daemon::of(&bench.mountpoint());
    let block = bench.mountpoint().join("blocks/0.bin");
    assert_eq!(fs::metadata(&block).unwrap().len(), i64::MAX as u64);
    let read = fs::File::open(&block).and_then(|block| block.read_at(&mut [0; 10], 0));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO));
    bench.run(["-u", "mnt"]);
    daemon.ends();
}

/// The block is so small that it is decoded on open; with a size of 0 the kernel would never send a read.
#[test]
fn a_block_that_is_empty_by_its_header_alone_is_damaged() {
    let bench = Bench::new();
    let mut bytes = TEXT.as_bytes().to_vec();
    let stored = zlib(b"not nothing");
    bytes.extend(b"\xd3BLK\0\x30\0\0\0\0zlib");
    for size in [stored.len() as u64, stored.len() as u64, 0] {
        bytes.extend(size.to_be_bytes());
    }
    bytes.extend([0; 16]);
    bytes.extend(stored);
    fs::write(bench.source(), bytes).unwrap();
    let daemon = bench.mount(&bench.mountpoint());
    let read = fs::read(bench.mountpoint().join("blocks/0.bin"));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO));
    let status = fs::read_to_string(bench.mountpoint().join(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("decodes to more than the 0 bytes in the header"), "{status}");
    bench.run(["-u", "mnt"]);
    daemon.ends();
}

#[test]
fn the_last_block_of_a_truncated_file_ends_with_eio() {
    const THERE: usize = 192 << 10;
    let folder = fresh_folder();
    let data = sample(300_000, 7);
    let built = AsdfBuilder::new().block(Block::new(data.clone())).build();
    let source = built.save(folder.path(), "a.asdf");
    let file = fs::File::options().write(true).open(&source).unwrap();
    file.set_len(built.blocks[0].data_offset + THERE as u64).unwrap();
    let mounted = Mounted::file(&source);
    let block = fs::File::open(mounted.block_path(0)).unwrap();
    let mut bytes = vec![0; THERE];
    block.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == data[..THERE]);
    let after = block.read_at(&mut [0; 10], THERE as u64);
    assert_eq!(after.unwrap_err().raw_os_error(), Some(libc::EIO));
    drop(block);
    let whole = fs::read(mounted.block_path(0));
    assert_eq!(whole.unwrap_err().raw_os_error(), Some(libc::EIO));
    mounted.unmount();
}
