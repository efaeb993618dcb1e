//! Four threads read one bzip2 stream at places of their own. They share what is decoded, within 8 MiB.
//!
//!     cargo run --release --example many_readers

use std::io::Write;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::codec::{self, Codec};
use seekable::content::{Slice, read_exact_at};
use seekable::source::MemorySource;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data: Vec<u8> = (0_u32..8 << 20).flat_map(u32::to_le_bytes).collect();
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(&data)?;
    let stored = encoder.finish()?;
    println!("{} bytes, {} stored", data.len(), stored.len());

    let stored_size = stored.len() as u64;
    let stored = Arc::new(Slice::new(Arc::new(MemorySource(stored)), 0, stored_size));
    let cache = Arc::new(Cache::new(8 << 20));
    let decoded = codec::open(Codec::Bzip2, stored, data.len() as u64, &cache)?;
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (decoded, data) = (&decoded, &data);
            scope.spawn(move || {
                for step in 0..32 {
                    let at = (reader * 7 + step * 13) * 997 * 4 % (data.len() - 4096);
                    let mut bytes = vec![0; 4096];
                    match read_exact_at(&**decoded, at as u64, &mut bytes) {
                        Ok(()) => assert!(bytes == data[at..at + 4096]),
                        Err(error) => eprintln!("at {at}: {error}"),
                    }
                }
            });
        }
    });
    println!("4 × 32 reads gave the bytes that were compressed");
    Ok(())
}
