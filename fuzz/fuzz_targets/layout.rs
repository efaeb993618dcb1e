//! A complete file: opening and reading any bytes terminates without a panic.
#![no_main]

use std::sync::Arc;

use asdf_mount::cache::Cache;
use asdf_mount::content::Content;
use asdf_mount::format::{self, Context};
use asdf_mount::source::MemorySource;

/// Number of blocks read per file, and bytes read of each, because headers may claim terabytes.
const BLOCKS: usize = 16;
const BYTES: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let Ok(file) = format::open(Arc::new(MemorySource(data.to_vec())), &context) else { return };
    read(&*file.tree());
    // The text of an ASDF file's tree is part of the file; for other formats it is generated.
    assert!(file.format() != "asdf" || file.tree().len() <= data.len() as u64);
    let count = file.block_count().unwrap_or(0);
    for n in 0..count.min(BLOCKS) {
        let block = file.block(n).expect("a block that is counted is there");
        if let Ok(content) = block.content {
            read(&*content);
        }
        let _ = file.verify(n);
    }
    let _ = file.defects();
});

fn read(content: &dyn Content) {
    let mut buf = vec![0; 64 << 10];
    let mut at = 0;
    while at < content.len().min(BYTES) {
        match content.read_at(at, &mut buf) {
            Ok(0) => panic!("no bytes before the end"),
            Ok(read) => at += read as u64,
            Err(_) => return,
        }
    }
}
