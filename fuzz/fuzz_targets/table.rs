//! A kept seek table of an intact stream: reads return the stream's bytes for every table. The input is a
//! byte for the codec, two bytes for the length of the stream, the stream, and the table, with its key and
//! checksum corrected.
#![no_main]

use std::sync::Arc;

use seekable::cache::Cache;
use seekable::cache::store::Store;
use seekable::codec::{self, Codec, StoredStream};
use seekable::content::{Content, Soundness, Text};

/// Maximum size of the output, which is enough for several checkpoints.
const MAX_OUTPUT: u64 = 3 << 20;

const NAME: &[u8] = b"name";

fn read(content: &dyn Content) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut buf = vec![0; 1 << 18];
    while let Ok(read @ 1..) = content.read_at(whole.len() as u64, &mut buf) {
        whole.extend_from_slice(&buf[..read]);
    }
    whole
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[which, high, low], rest)) = data.split_first_chunk::<3>() else { return };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let Some((stream, table)) = rest.split_at_checked(len) else { return };
    let (codec, least, ratio) = match which % 2 {
        0 => (Codec::Zlib, 1, 1032),
        _ => (Codec::Bzip2, 20, 900_000 / 5 * 259),
    };
    let stored: Arc<dyn Content> = Arc::new(Text::new(stream));
    let plain = Arc::new(Cache::with_threads(8 << 20, 1));
    let bound = (len as u64 / least * ratio).min(MAX_OUTPUT);
    let Ok(content) = codec::open(codec, stored.clone(), bound, &plain) else { return };
    let size = read(&*content).len() as u64;
    let Ok(content) = codec::open(codec, stored.clone(), size, &plain) else { return };
    let truth = read(&*content);
    if content.soundness() != Soundness::Sound {
        return;
    }
    let cache = Arc::new(Cache::with_threads(1 << 20, 1).with_store(Store::in_memory()));
    let stream = StoredStream::new(stored, size).named(NAME.into());
    codec::forge_table(codec, &stream, &cache, table);
    let Ok(content) = codec::open_stream(codec, stream, &cache) else { return };
    let mut buf = vec![0; 5000];
    for at in [size.saturating_sub(5000), size / 2, size / 3] {
        let read = content.read_at(at, &mut buf).expect("the stream is sound");
        assert_eq!(buf[..read], truth[at as usize..at as usize + read]);
    }
    assert!(read(&*content) == truth);
    // A pass over the stream may be saving its own table.
    cache.store().wait_for_writes();
});
