//! The index page of a directory by nginx or Apache.
#![no_main]

use asdf_remote::listing::index_page;

libfuzzer_sys::fuzz_target!(|html: &str| {
    if let Ok(entries) = index_page::parse(html, "/d/") {
        // Each entry takes at least a link.
        assert!(entries.len() <= html.len() / 8);
        for entry in entries {
            let name = &entry.name[..];
            assert!(
                !name.is_empty()
                    && name != b"."
                    && name != b".."
                    && !name.contains(&b'/')
                    && !name.contains(&0)
            );
        }
    }
});
