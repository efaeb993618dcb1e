//! The header of a GSD file. The input is two bytes for the size of the file, in KiB, and the header.
#![no_main]

use asdf_views::format::gsd::header::{Header, SIZE};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((size, bytes)) = data.split_first_chunk::<2>() else { return };
    let size = u64::from(u16::from_le_bytes(*size)) << 10;
    let Ok(header) = Header::parse(bytes, size) else { return };
    for piece in [header.index, header.names] {
        assert!(piece.offset >= SIZE && piece.offset + piece.len <= size);
    }
    assert!(header.application.len() <= 64 && header.schema.len() <= 64);
});
