//! The bytes of an entry: a comment line with facts about the save, then the text that it replaced.
//!
//! ```text
//! # asdf-mount history: {"time":[1795430197,5],"program":"vim","old":{…},"new":{…}}
//! #ASDF 1.0.0
//! …
//! ```

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::source::Time;

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
}

/// Returns the bytes of the entry for a save that replaces `old` by `new`.
pub(super) fn bytes(old: &[u8], new: &[u8], time: Time, program: Option<&str>) -> Vec<u8> {
    let program = program.map(|program| program.chars().take(PROGRAM).collect());
    let header = Header { time, program, old: Digest::of(old), new: Digest::of(new) };
    let header = serde_json::to_vec(&header).unwrap_or_default();
    [START, &header, b"\n", old].concat()
}

/// Returns the header and the text of an entry; `None` if the entry is torn.
pub(super) fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let rest = bytes.strip_prefix(START)?;
    let (header, text) = rest.split_at_checked(memchr::memchr(b'\n', rest)?)?;
    let (header, text): (Header, _) = (serde_json::from_slice(header).ok()?, text.get(1..)?);
    (header.old.len == text.len() as u64 && header.old == Digest::of(text)).then_some((header, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_entry_is_read() {
        let bytes = bytes(b"old\n", b"new", (5, 6), Some("vi\nm"));
        let (header, text) = parse(&bytes).unwrap();
        assert_eq!((header.time, header.program.as_deref(), text), ((5, 6), Some("vi\nm"), &b"old\n"[..]));
        assert_eq!((header.old, header.new), (Digest::of(b"old\n"), Digest::of(b"new")));
        assert!((0..bytes.len()).all(|len| parse(&bytes[..len]).is_none()));
        assert!(parse(&[&bytes[..], b"x"].concat()).is_none());
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] = 0;
            assert!(parse(&torn).is_none(), "{at}");
        }
    }
}
