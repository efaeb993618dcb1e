//! An encoding chain and the data it decodes. The first four bytes are the uncompressed size.
#![no_main]

use std::sync::Arc;

use seekable::cache::Cache;
use seekable::content::{Content, Text};
use asdf_file::asdf::chain;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((size, data)) = data.split_first_chunk::<4>() else { return };
    let Ok((chain, len)) = chain::parse(data) else { return };
    let stored: Arc<dyn Content> = Arc::new(Text::new(data.get(len..).unwrap_or_default()));
    let cache = Arc::new(Cache::new(1 << 20));
    let size = u32::from_be_bytes(*size).into();
    let Ok(content) = chain::open(&chain, stored, size, &cache) else { return };
    let mut buf = vec![0; 1 << 16];
    for at in [0, 1, 4095, u64::from(u32::MAX) / 2, u64::MAX] {
        if let Ok(read) = content.read_at(at, &mut buf) {
            assert!(at.saturating_add(read as u64) <= content.len().max(at));
        }
    }
});
