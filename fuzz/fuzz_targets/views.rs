//! An ASDF file: tables and pictures have the length that they claim, and give the same bytes at any offset.
#![no_main]

use std::sync::Arc;

use seekable::cache::Cache;
use asdf_file::folder::{Dir, Node};
use asdf_views::format;
use asdf_file::container::Context;
use seekable::source::MemorySource;

/// Number of bytes read at the start, the middle and the end of a file.
const READ: u64 = 4096;

fn walk(dir: &dyn Dir) {
    let mut names = Vec::new();
    dir.list(0, &mut |name, _| {
        names.push(name.to_owned());
        names.len() < 100
    })
    .expect("a directory that is in memory is listed");
    for name in names {
        match dir.lookup(&name) {
            Ok(Some(Node::Dir(dir))) => walk(&*dir),
            Ok(Some(Node::File(file))) => {
                let Ok(content) = &file.content else { continue };
                let len = content.len();
                let mut buf = vec![0; READ as usize];
                for offset in [0, len / 2, len.saturating_sub(READ / 2)] {
                    let Ok(read) = content.read_at(offset, &mut buf) else { continue };
                    assert!(read as u64 <= len - offset);
                    let mut byte = [0];
                    for at in [0, read / 2, read.saturating_sub(1)].into_iter().filter(|at| *at < read) {
                        assert_eq!(content.read_at(offset + at as u64, &mut byte).ok(), Some(1));
                        assert_eq!(byte[0], buf[at]);
                    }
                }
                assert_eq!(content.read_at(len, &mut buf).unwrap_or(0), 0);
            }
            found => assert!(found.expect("a lookup").is_some(), "{name:?} is listed"),
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let context = Context::new(Arc::new(Cache::with_threads(1 << 20, 1)));
    let Ok(container) = format::open(Arc::new(MemorySource(data.to_vec())), &context) else { return };
    container.defects();
    for (name, view) in container.clone().views().into_iter().flatten() {
        if let (true, Node::Dir(dir)) = (matches!(name, "tables" | "preview"), view) {
            walk(&*dir);
        }
    }
    container.defects();
});
