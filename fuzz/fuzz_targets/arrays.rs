//! The nodes of a tree: for every tree, the files of `arrays/` have the length that they claim, or give an
//! error.
#![no_main]

use std::ffi::OsStr;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::content::Content;
use asdf_file::folder::{Dir, Node};
use asdf_views::format;
use asdf_file::container::Context;
use seekable::source::MemorySource;

const HEAD: &[u8] = b"#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";
/// A block of 16 bytes.
const BLOCK: &[u8] =
    b"\n...\n\xd3BLK\0\x30\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\00123456789abcdef";

/// Number of files read, and bytes read of each, because nodes may claim terabytes.
const FILES: usize = 64;
const BYTES: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|nodes: &[u8]| {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let data = [HEAD, nodes, BLOCK].concat();
    let Ok(file) = format::open(Arc::new(MemorySource(data)), &context) else { return };
    let mut left = FILES;
    for (name, view) in file.clone().views().into_iter().flatten() {
        if let ("arrays", Node::Dir(dir)) = (name, view) {
            look(&*dir, &mut left);
        }
    }
    let _ = file.defects();
});

fn look(dir: &dyn Dir, left: &mut usize) {
    let mut names = Vec::new();
    let mut take = |name: &OsStr, _| {
        names.push(name.to_owned());
        names.len() < FILES
    };
    dir.list(0, &mut take).expect("a directory can be listed");
    for name in names {
        if *left == 0 {
            return;
        }
        match dir.lookup(&name) {
            Ok(Some(Node::Dir(dir))) => look(&*dir, left),
            Ok(Some(Node::File(file))) => {
                *left -= 1;
                if let Ok(content) = file.content {
                    read(&*content);
                }
            }
            Ok(Some(Node::Link(text))) => assert!(!text.is_empty()),
            Ok(None) => panic!("what is listed is there"),
            Err(_) => {}
        }
    }
}

fn read(content: &dyn Content) {
    let mut buf = vec![0; 4 << 10];
    let mut at = 0;
    while at < content.len().min(BYTES) {
        match content.read_at(at, &mut buf) {
            Ok(0) => panic!("no bytes before the end"),
            Ok(read) => at += read as u64,
            Err(_) => return,
        }
    }
}
