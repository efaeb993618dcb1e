//! The body of a server's reply to a request for several ranges. The input is a boundary, a line break, and the body.
#![no_main]

use asdf_remote::multipart;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(boundary) = std::str::from_utf8(&data[..end]) else { return };
    let _ = multipart::boundary(boundary);
    let body = &data[end + 1..];
    for part in multipart::parts(body, boundary).unwrap_or_default() {
        let bytes = &body[part.bytes];
        assert!(part.first + bytes.len() as u64 <= part.total);
    }
});
