//! Objects that are deleted or replaced while a program reads them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::on_servers::{errno, mount};
use common::asdf::{AsdfBuilder, Block};
use common::mount::wait_until;
use common::site::Site;

/// Offsets in a block: the first request has the first one, and no request has had the others.
const NEAR: u64 = 10;
const FAR: u64 = 20 << 20;

fn data() -> Vec<u8> {
    (0..24_u32 << 20).map(|n| (n >> 12) as u8).collect()
}

#[test]
fn readers_of_a_deleted_object_get_enoent() {
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", AsdfBuilder::new().block(Block::new(data())).build().bytes);
    let mounted = mount("ro", &site.server.url("/x.asdf"));
    let block = File::open(mounted.block_path(0)).unwrap();
    let (size, mut piece) = (block.metadata().unwrap().len(), [0; 10]);
    assert_eq!(block.read_at(&mut piece, NEAR).unwrap(), 10);
    site.remove("x.asdf");
    assert_eq!(errno(block.read_at(&mut piece, FAR)), libc::ENOENT);
    assert_eq!(block.metadata().unwrap().len(), size);
    assert!(wait_until(|| File::open(mounted.block_path(0)).is_err()));
    assert_eq!(errno(File::open(mounted.block_path(0))), libc::ENOENT);
    // The object is back.
    site.put("x.asdf", AsdfBuilder::new().block(Block::new(data())).build().bytes);
    assert!(wait_until(|| File::open(mounted.block_path(0)).is_ok()));
}

#[test]
fn readers_go_on_in_a_new_version_if_the_checksum_proves_its_bytes() {
    let site = Site::web(|_, reply| reply);
    let built = |value: &str| {
        let tree = format!("%YAML 1.1\n---\na: {value}\n...\n");
        AsdfBuilder::new().tree(tree).block(Block::new(data())).build().bytes
    };
    site.put("x.asdf", built("1"));
    let mounted = mount("ro", &site.server.url("/x.asdf"));
    let block = File::open(mounted.block_path(0)).unwrap();
    let mut piece = [0; 10];
    assert_eq!(block.read_at(&mut piece, NEAR).unwrap(), 10);
    site.put("x.asdf", built("2"));
    assert!(wait_until(|| mounted.tree().ends_with(b"a: 2\n...\n")));
    assert_eq!(block.read_at(&mut piece, FAR).unwrap(), 10);
    assert_eq!(piece, data()[FAR as usize..][..10]);
}
