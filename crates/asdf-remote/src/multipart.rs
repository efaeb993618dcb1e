//! The body of a reply to a request for several ranges: `multipart/byteranges` (RFC 9110, section 14.6).
//!
//! ```text
//! --BOUNDARY CRLF
//! Content-Range: bytes FIRST-LAST/TOTAL CRLF
//! other headers CRLF
//! CRLF
//! LAST + 1 - FIRST bytes CRLF
//! --BOUNDARY-- CRLF
//! ```

use std::ops::Range;

use super::version::ContentRange;

/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;
/// Maximum length of the headers of a part.
pub(super) const MAX_PART_HEADERS: usize = 1 << 10;

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte in the object.
    pub first: u64,
    /// Size of the object.
    pub total: u64,
    /// The part's bytes in the body.
    pub bytes: Range<usize>,
}

/// Returns the boundary that a `Content-Type` names; `None` for another type.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/byteranges") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then_some(value.trim())
    })?;
    let boundary = boundary.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(boundary);
    (1..=MAX_BOUNDARY).contains(&boundary.len()).then_some(boundary)
}

/// Returns the parts in a body; `None` if it is not valid or is cut off.
pub fn parts(body: &[u8], boundary: &str) -> Option<Vec<Part>> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    // Line breaks may precede the first delimiter.
    let mut at = body.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    loop {
        let rest = body.get(at..)?.strip_prefix(delimiter.as_bytes())?;
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        let part = rest.strip_prefix(b"\r\n")?;
        let headers_len = memchr::memmem::find(part.get(..part.len().min(MAX_PART_HEADERS))?, b"\r\n\r\n")?;
        let lines = std::str::from_utf8(part.get(..headers_len)?).ok()?;
        let mut headers = lines.split("\r\n").filter_map(|line| line.split_once(':'));
        let range = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-range"));
        let range = range.and_then(|(_, value)| ContentRange::parse(value));
        let Some(ContentRange::Part { first, last, total }) = range else { return None };
        let start = at + delimiter.len() + 2 + headers_len + 4;
        let end = start.checked_add(usize::try_from(last + 1 - first).ok()?)?;
        if !body.get(end..)?.starts_with(b"\r\n") {
            return None;
        }
        parts.push(Part { first, total, bytes: start..end });
        at = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_parsed() {
        for (text, expected) in [
            ("multipart/byteranges; boundary=ab", Some("ab")),
            ("Multipart/ByteRanges; charset=x; Boundary=\"a b\"", Some("a b")),
            ("multipart/byteranges", None),
            ("multipart/byteranges; boundary=", None),
            ("multipart/mixed; boundary=ab", None),
            ("text/plain", None),
        ] {
            assert_eq!(boundary(text), expected, "{text}");
        }
        assert_eq!(boundary(&format!("multipart/byteranges; boundary={}", "a".repeat(71))), None);
    }

    /// Returns a body as nginx sends it.
    fn body() -> Vec<u8> {
        let part = |range: &str, data: &str| {
            format!("\r\n--ab\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/100\r\n\r\n{data}")
        };
        format!("{}{}\r\n--ab--\r\n", part("3-5", "--a"), part("7-7", "x")).into_bytes()
    }

    #[test]
    fn parts_are_found_by_their_length() {
        let body = body();
        let parts = parts(&body, "ab").unwrap();
        let found: Vec<_> =
            parts.iter().map(|part| (part.first, part.total, &body[part.bytes.clone()])).collect();
        assert_eq!(found, [(3, 100, &b"--a"[..]), (7, 100, b"x")]);
    }

    #[test]
    fn a_damaged_body_has_no_parts() {
        let body = body();
        for len in 0..body.len() - 4 {
            assert_eq!(parts(&body[..len], "ab"), None, "{len}");
        }
        assert_eq!(parts(&body, "a"), None);
        for (from, to) in
            [("3-5", "3-4"), ("3-5", "3-6"), ("7-7", "7-99"), ("/100", "/*"), ("\r\n\r\n", "\n")]
        {
            let text = String::from_utf8(body.clone()).unwrap().replacen(from, to, 1);
            assert_eq!(parts(text.as_bytes(), "ab"), None, "{from}");
        }
    }
}
