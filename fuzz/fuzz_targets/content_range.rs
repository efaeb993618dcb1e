//! The `Content-Range` header of a server's reply.
#![no_main]

use asdf_remote::ContentRange;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match ContentRange::parse(text) {
        Some(ContentRange::Part { first, last, total }) => {
            assert!(first <= last && last < total && total <= i64::MAX as u64);
        }
        Some(ContentRange::Beyond { total }) => assert!(total <= i64::MAX as u64),
        None => {}
    }
});
