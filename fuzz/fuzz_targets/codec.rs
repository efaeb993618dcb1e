//! Every codec. The input is a byte for the codec, four bytes for the uncompressed size, an offset to read
//! at, and the stream. zlib and bzip2 are held against the libraries.
#![no_main]

use std::io::Read;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::codec::{self, Codec};
use seekable::content::{Content, Text};

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
    if let Some((theirs, is_sound)) = by_library(codec, stream, size) {
        let both = whole.len().min(theirs.len());
        assert_eq!(whole[..both], theirs[..both]);
        assert!(whole.len() >= theirs.len() || !is_sound, "the library decodes more");
    }
    // A second read from any offset gives the same bytes.
    let at = usize::from(offset) * 257 % (whole.len() + 1);
    if let Ok(read) = content.read_at(at as u64, &mut buf) {
        let known = whole.get(at..).unwrap_or_default();
        let both = read.min(known.len());
        assert_eq!(buf[..both], known[..both]);
    }
});

/// Returns up to `size` bytes as the library decodes them, and true if it found no error in them.
fn by_library(codec: Codec, stream: &[u8], size: u64) -> Option<(Vec<u8>, bool)> {
    let decoder: Box<dyn Read + '_> = match codec {
        Codec::Zlib => Box::new(flate2::read::ZlibDecoder::new(stream)),
        Codec::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(stream)),
        _ => return None,
    };
    let mut bytes = Vec::new();
    let read = decoder.take(size).read_to_end(&mut bytes);
    Some((bytes, read.is_ok()))
}
