//! The offsets and chunks of a Bloscpack file: each chunk is the one found by walking the chain, in any order
//! of access.
#![no_main]

use std::sync::Arc;

use asdf_views::format::bloscpack::header::Header;
use asdf_views::format::bloscpack::map::ChunkMap;
use seekable::source::{MemorySource, Source};

/// Number of chunks read.
const CHUNKS: u64 = 64;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn Source> = Arc::new(MemorySource(data.to_vec()));
    let size = data.len() as u64;
    let Ok(header) = Header::read(&*source, size) else { return };
    let map = || ChunkMap::new(source.clone(), size, &header).expect("memory can be read");
    let (forward, walked) = (map(), map());
    let count = walked.scan().map_or(0, |scan| {
        assert!(scan.end.is_none_or(|end| end <= size));
        scan.chunks
    });
    for n in 0..count.min(CHUNKS) {
        let single = map();
        let found = [forward.chunk(n), single.chunk(n)].map(|found| found.ok().map(|found| found.at));
        for at in found.into_iter().flatten() {
            assert!(at >= 16 && at < size);
        }
        assert_eq!(forward.by_chain(n).is_ok(), walked.by_chain(n).is_ok());
    }
});
