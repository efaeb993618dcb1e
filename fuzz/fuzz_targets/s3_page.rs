//! A page of a listing of a bucket.
#![no_main]

use asdf_remote::listing::s3_page;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(page) = s3_page::parse(data, b"p/") {
        // Each entry takes at least its tags.
        assert!(page.entries.len() <= data.len() / 20);
        assert!(page.entries.iter().all(|entry| !entry.name.is_empty() && !entry.name.contains(&b'/')));
    }
});
