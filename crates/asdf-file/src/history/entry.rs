//! The bytes of an entry: a comment line with facts about the save, then the text that it replaced.
//!
//! ```text
//! # asdf-mount history: {"time":[1795430197,5],"program":"vim","old":{…},"new":{…}}
//! #ASDF 1.0.0
//! …
//! ```

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use seekable::source::Time;

const START: &[u8] = b"# asdf-mount history: ";
/// Maximum characters of a program's name.
const PROGRAM: usize = 100;

/// The identity of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Length in bytes.
    pub len: u64,
    hash: [u64; 2],
}

impl Digest {
    /// Computes the digest of a text.
    pub fn of(text: &[u8]) -> Self {
        let hash = XxHash3_128::oneshot(text);
        Self { len: text.len() as u64, hash: [(hash >> 64) as u64, hash as u64] }
    }
}

/// The header of an entry: facts about the save.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) time: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    pub(super) old: Digest,
    pub(super) new: Digest,
    /// The file was born, or its bytes were last changed, at this time; see
    /// [`FileId`](super::file_id::FileId).
    pub(super) since: Time,
    /// True if the text is too large, and is not in the entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_omitted: bool,
}

/// Returns the bytes of an entry. `old` is the replaced text.
pub(super) fn bytes(header: &Header, old: &[u8]) -> Vec<u8> {
    let text = if header.is_omitted { &[] } else { old };
    [START, &serde_json::to_vec(header).unwrap_or_default(), b"\n", text].concat()
}

/// Returns the first characters of a program's name.
pub(super) fn program_name(program: &str) -> String {
    program.chars().take(PROGRAM).collect()
}

/// Returns the header of an entry and its length, from the first bytes and the size of the entry; `None` if
/// the entry is torn.
pub(super) fn parse_header(bytes: &[u8], size: u64) -> Option<(Header, usize)> {
    let rest = bytes.strip_prefix(START)?;
    let end = memchr::memchr(b'\n', rest)?;
    let header: Header = serde_json::from_slice(&rest[..end]).ok()?;
    let len = START.len() + end + 1;
    let text = size.checked_sub(len as u64)?;
    (text == if header.is_omitted { 0 } else { header.old.len }).then_some((header, len))
}

/// Returns the header and the text of an entry; `None` if the entry is torn or has no text.
pub(super) fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, len) = parse_header(bytes, bytes.len() as u64)?;
    let text = &bytes[len..];
    (!header.is_omitted && header.old == Digest::of(text)).then_some((header, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_entry_is_read() {
        let header = Header {
            time: (5, 6),
            program: Some("vi\nm".to_owned()),
            old: Digest::of(b"old\n"),
            new: Digest::of(b"new"),
            since: (3, 4),
            is_omitted: false,
        };
        let bytes = bytes(&header, b"old\n");
        let (header, text) = parse(&bytes).unwrap();
        assert_eq!((header.time, header.program.as_deref(), text), ((5, 6), Some("vi\nm"), &b"old\n"[..]));
        assert_eq!((header.old, header.new), (Digest::of(b"old\n"), Digest::of(b"new")));
        assert!((0..bytes.len()).all(|len| parse(&bytes[..len]).is_none()));
        assert!((0..bytes.len()).all(|len| parse_header(&bytes[..len], len as u64).is_none()));
        assert!(parse_header(&bytes[..bytes.len() - 4], bytes.len() as u64).is_some());
        assert!(parse(&[&bytes[..], b"x"].concat()).is_none());
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] = 0;
            assert!(parse(&torn).is_none(), "{at}");
        }
    }

    #[test]
    fn an_entry_may_lack_its_text() {
        let header = Header {
            time: (5, 6),
            program: None,
            old: Digest::of(b"old"),
            new: Digest::of(b"new"),
            since: (3, 4),
            is_omitted: true,
        };
        let bytes = bytes(&header, b"old");
        let (header, len) = parse_header(&bytes, bytes.len() as u64).unwrap();
        assert!(header.is_omitted && header.old.len == 3 && len == bytes.len());
        assert!(parse(&bytes).is_none());
    }
}
