//! The text of a block index.
#![no_main]

use asdf_file::asdf::index;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(offsets) = index::parse(data) {
        // Each offset takes at least a digit and a separator.
        assert!(offsets.len() <= data.len());
    }
});
