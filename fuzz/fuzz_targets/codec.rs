//! Every codec. The input is a byte for the codec, four bytes for the uncompressed size, an offset to read
//! at, and the stream.
#![no_main]

use std::sync::Arc;

use asdf_mount::internals::cache::Cache;
use asdf_mount::internals::codec::{self, Codec};
use asdf_mount::internals::content::{Content, Text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[which, a, b, c, d, offset], stream)) = data.split_first_chunk::<6>() else { return };
    let codec = Codec::ALL[usize::from(which) % Codec::ALL.len()];
    let size = u64::from(u32::from_be_bytes([a, b, c, d])) & 0xff_ffff;
    let stored: Arc<dyn Content> = Arc::new(Text::new(stream));
    let cache = Arc::new(Cache::new(1 << 20));
    let Ok(content) = codec::open(codec, stored, size, &cache) else { return };
    assert_eq!(content.len(), size);
    let mut whole = Vec::new();
    let mut buf = vec![0; 100_000];
    while let Ok(read @ 1..) = content.read_at(whole.len() as u64, &mut buf) {
        whole.extend_from_slice(&buf[..read]);
    }
    assert!(whole.len() as u64 <= size);
    // A second read from any offset gives the same bytes.
    let at = usize::from(offset) * 257 % (whole.len() + 1);
    if let Ok(read) = content.read_at(at as u64, &mut buf) {
        let known = whole.get(at..).unwrap_or_default();
        let both = read.min(known.len());
        assert_eq!(buf[..both], known[..both]);
    }
});
