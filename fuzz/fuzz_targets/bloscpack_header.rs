//! The header of a Bloscpack file, and the metadata.
#![no_main]

use std::sync::Arc;

use asdf_views::format::bloscpack::array::Metadata;
use asdf_views::format::bloscpack::header::Header;
use seekable::source::MemorySource;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (source, size) = (Arc::new(MemorySource(data.to_vec())), data.len() as u64);
    // The input is also read as metadata.
    let _ = Metadata::new(Ok(data.to_vec()), true);
    let Ok(header) = Header::read(&*source, size) else { return };
    assert!(header.data <= size);
    assert!(header.offsets.is_none_or(|offsets| offsets <= header.data && header.chunks.is_some()));
    if let Some(section) = &header.metadata {
        assert!(section.end().is_some_and(|end| end <= header.data));
        if let Ok(bytes) = section.bytes(&*source) {
            assert_eq!(bytes.len() as u64, u64::from(section.size));
            let _ = Metadata::new(Ok(bytes), true);
        }
    }
});
