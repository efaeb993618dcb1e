//! Blosc2 frames: whatever the bytes are, all views are read without a panic, and a read at any offset gives what a
//! read from the start gives.
#![no_main]

use std::ffi::OsStr;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::content::Content;
use asdf_file::folder::Node;
use asdf_views::format;
use asdf_file::container::Context;
use seekable::source::MemorySource;

/// Number of bytes of a content that are read.
const READ: usize = 200_000;

/// Number of chunks whose facts are read.
const CHUNKS: usize = 16;

fn look_through(content: &dyn Content) {
    let mut start = Vec::new();
    let mut buf = vec![0; 30_000];
    while start.len() < READ {
        match content.read_at(start.len() as u64, &mut buf) {
            Ok(read @ 1..) => start.extend_from_slice(&buf[..read]),
            _ => break,
        }
    }
    for at in [start.len() / 2, start.len().saturating_sub(7)] {
        if let Ok(read) = content.read_at(at as u64, &mut buf) {
            let known = &start[at..];
            let both = read.min(known.len());
            assert_eq!(buf[..both], known[..both]);
        }
    }
    let _ = content.read_at(content.len().saturating_sub(100), &mut buf);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let Ok(container) = format::open(Arc::new(MemorySource(data.to_vec())), &context) else { return };
    if container.format() != "blosc2" {
        return;
    }
    look_through(&*container.tree());
    for (_, node) in container.clone().views().expect("memory can be read") {
        let file = match node {
            Node::Dir(folder) => match folder.lookup(OsStr::new("data.npy")).expect("memory can be read") {
                Some(Node::File(file)) => file,
                _ => continue,
            },
            Node::File(file) => file,
            _ => continue,
        };
        if let Ok(content) = file.content {
            look_through(&*content);
        }
    }
    for n in 0..container.block_count().unwrap_or(0).min(CHUNKS) {
        let _ = container.block(n);
    }
    let _ = container.defects();
});
