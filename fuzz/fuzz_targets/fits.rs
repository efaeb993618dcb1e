//! The nodes of a tree before two blocks: `fits/` has valid FITS files for every tree.
#![no_main]

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use seekable::cache::Cache;
use asdf_file::folder::{Dir, EntryKind, Node};
use seekable::content::{Content, read_exact_at};
use asdf_views::format;
use asdf_file::container::Context;
use seekable::source::MemorySource;

const HEAD: &[u8] = b"#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";
/// Size of a block in bytes.
const SIZE: u64 = 4096;
/// Number of files read per tree, and bytes read of each.
const FILES: usize = 32;
const BYTES: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|tree: &[u8]| {
    let mut bytes = [HEAD, tree, b"\n...\n"].concat();
    for _ in 0..2 {
        bytes.extend(b"\xd3BLK\0\x30\0\0\0\0\0\0\0\0");
        (0..3).for_each(|_| bytes.extend(SIZE.to_be_bytes()));
        bytes.extend([0; 16]);
        bytes.extend((0..SIZE).map(|n| n as u8));
    }
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let Ok(file) = format::open(Arc::new(MemorySource(bytes)), &context) else { return };
    let views = file.views();
    let Some((_, Node::Dir(fits))) = views.into_iter().flatten().find(|(name, _)| *name == "fits") else {
        return;
    };
    let mut left = FILES;
    walk(&*fits, &mut left);
});

fn walk(dir: &dyn Dir, left: &mut usize) {
    let mut entries: Vec<(OsString, EntryKind)> = Vec::new();
    let listed = dir.list(0, &mut |name: &OsStr, kind| {
        entries.push((name.to_owned(), kind));
        true
    });
    listed.expect("a directory can be listed");
    for (name, kind) in entries {
        if *left == 0 {
            return;
        }
        let node = dir.lookup(&name).expect("what is listed is there").expect("what is listed is there");
        assert_eq!(node.kind(), kind);
        match node {
            Node::Dir(dir) => walk(&*dir, left),
            Node::Link(_) => {}
            Node::File(file) => {
                *left -= 1;
                if let Ok(content) = &file.content {
                    check(&**content);
                }
            }
        }
    }
}

/// Checks that a FITS file consists of records, and that its header can be read.
fn check(content: &dyn Content) {
    assert_eq!(content.len() % 2880, 0);
    let mut record = vec![0; 2880];
    read_exact_at(content, 0, &mut record).expect("a header can be read");
    assert!(record.starts_with(b"SIMPLE  =                    T"));
    let mut at = 0;
    while at < content.len().min(BYTES) && read_exact_at(content, at, &mut record).is_ok() {
        at += 2880;
    }
}
