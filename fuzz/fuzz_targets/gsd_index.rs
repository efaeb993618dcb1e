//! The index of a GSD file: everything shown from it is read. The input is a byte for version and schema, and
//! the entries.
#![no_main]

use std::sync::Arc;

use seekable::cache::Cache;
use asdf_file::folder::{EntryKind, Node};
use asdf_views::format;
use asdf_file::container::Context;
use asdf_views::format::gsd::header::MAGIC;
use seekable::source::MemorySource;

/// Number of entries read per directory. Looking up a frame works even if the listing omits it.
const MAX_NAMES: usize = 64;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, entries)) = data.split_first() else { return };
    let slots = entries.len() as u64 / 32;
    let mut bytes = MAGIC.to_vec();
    // The names follow the header, and the index follows the names.
    [384, slots, 256, 2].iter().for_each(|number: &u64| bytes.extend(number.to_le_bytes()));
    bytes.extend([[0, 0], [0, u16::from(1 + kind % 2)]].concat().iter().flat_map(|half| half.to_le_bytes()));
    bytes.resize(112, 0);
    bytes.extend(if kind & 2 == 0 { b"hoomd" } else { b"other" });
    bytes.resize(256, 0);
    match kind % 2 {
        0 => {
            bytes.extend(b"particles/N");
            bytes.resize(320, 0);
            bytes.extend(b"particles/typeid");
        }
        _ => bytes.extend(b"particles/N\0particles/typeid\0bonds/types\0log/a\0a/b\0a\0..\0"),
    }
    bytes.resize(384, 0);
    bytes.extend(entries);
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let file = format::open(Arc::new(MemorySource(bytes)), &context).expect("the header is right");
    let count = file.block_count().expect("the index is there");
    assert!(count as u64 <= slots);
    for n in 0..count {
        let block = file.block(n).expect("a block that is counted is there");
        if let Ok(content) = block.content {
            assert!(content.len() <= 384 + entries.len() as u64);
        }
    }
    for (_, node) in file.clone().views().into_iter().flatten() {
        walk(&node);
    }
    let _ = (file.tree(), file.defects(), file.check_tree());
});

fn walk(node: &Node) {
    let Node::Dir(dir) = node else { return };
    let mut names = Vec::new();
    let mut take = |name: &std::ffi::OsStr, kind: EntryKind| {
        names.push((name.to_owned(), kind));
        names.len() < MAX_NAMES
    };
    dir.list(0, &mut take).expect("a directory can be listed");
    for (name, kind) in names {
        let found = dir.lookup(&name).expect("what is listed can be looked up").expect("it is there");
        assert_eq!(found.kind(), kind);
        walk(&found);
    }
}
