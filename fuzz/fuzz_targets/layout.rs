//! A complete file: opening and reading any bytes terminates without a panic.
#![no_main]

use asdf_access::{Block, File};

/// Number of blocks and arrays read per file, and bytes read of each, because headers may claim terabytes.
const COUNT: usize = 16;
const BYTES: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(file) = File::from_bytes(data) else { return };
    // The text of an ASDF file's tree is part of the file; for other formats it is generated.
    if let Ok(tree) = file.tree() {
        assert!(file.format() != "asdf" || tree.len() <= data.len());
    }
    let count = file.block_count().unwrap_or(0);
    for n in 0..count.min(COUNT) {
        let block = file.block(n).expect("a block that is counted is there");
        read(block.len(), |at, buf| block.read_at(at, buf));
        let _ = block.verify();
    }
    for listed in file.arrays().into_iter().flatten().take(COUNT) {
        if let Ok(array) = file.array(&listed.path) {
            read(array.len().saturating_mul(array.item_size()), |at, buf| array.read_at(at, buf));
        }
    }
    if count < COUNT && file.blocks().is_ok_and(|mut blocks| blocks.all(is_small)) {
        let _ = file.check();
    }
});

fn is_small(block: asdf_access::Result<Block>) -> bool {
    block.is_ok_and(|block| block.len() <= BYTES)
}

fn read(len: u64, read_at: impl Fn(u64, &mut [u8]) -> asdf_access::Result<usize>) {
    let mut buf = vec![0; 64 << 10];
    let mut at = 0;
    while at < len.min(BYTES) {
        match read_at(at, &mut buf) {
            Ok(0) => panic!("no bytes before the end"),
            Ok(read) => at += read as u64,
            Err(_) => return,
        }
    }
}
