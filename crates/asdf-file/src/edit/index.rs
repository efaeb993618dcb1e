//! The block index: writes it, and classifies the bytes found in its place.
//!
//! The text has the form of the standard's examples, which all readers accept:
//!
//! ```text
//! #ASDF BLOCK INDEX
//! %YAML 1.1
//! ---
//! - 755
//! - 1209
//! ...
//! ```

use std::fmt::Write as _;

use memchr::memmem;

use crate::asdf::index::{MARKER, parse};

/// The outcome of a save for the block index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexed {
    /// The index was right and is unchanged.
    Kept,
    /// The index was written, because it was missing or stale, or the blocks moved.
    Written,
    /// The standard allows no index: there are no blocks, or the last one is streamed.
    None,
    /// No index was written: bytes of unknown origin follow the last block, and are kept.
    Unknown,
    /// No index was written: the last block is damaged, so its end is unknown.
    Damaged,
}

/// The bytes between the last block and the end of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// An index that agrees with the chain of blocks, and nothing else.
    Current,
    /// Nothing worth keeping: no bytes, zeros, a wrong or unfinished index, or several indexes.
    Free,
    /// Other bytes.
    Unknown,
}

/// Returns the text of the index for blocks at these offsets.
pub(crate) fn text(offsets: &[u64]) -> Vec<u8> {
    let mut text = format!("{}\n%YAML 1.1\n---\n", String::from_utf8_lossy(MARKER));
    for offset in offsets {
        // Writing to a String can't fail.
        let _ = writeln!(text, "- {offset}");
    }
    text.push_str("...\n");
    text.into_bytes()
}

/// Classifies `bytes`, which are all that follows the last block.
pub(crate) fn classify(bytes: &[u8], offsets: &[u64]) -> Tail {
    let mut rest = skip_zeros(bytes);
    let mut tail = Tail::Free;
    // Some writers append a new index after the old one.
    for n in 0.. {
        if rest.is_empty() {
            break;
        }
        let Some(list) = rest.strip_prefix(MARKER) else { return Tail::Unknown };
        let end = [&b"\n...\n"[..], b"\n...\r\n"]
            .iter()
            .filter_map(|end| Some(memmem::find(list, end)? + end.len()))
            .min();
        let listed = parse(&list[..end.unwrap_or(list.len())]);
        let right = n == 0 && end.is_some() && listed.is_ok_and(|listed| listed == offsets);
        tail = if right { Tail::Current } else { Tail::Free };
        rest = skip_zeros(&list[end.unwrap_or_else(|| unfinished(list))..]);
    }
    tail
}

fn skip_zeros(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    &bytes[start..]
}

/// Returns the length of an unfinished index: up to the first byte that can't be part of one.
pub(super) fn unfinished(list: &[u8]) -> usize {
    list.iter().position(|byte| !matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')).unwrap_or(list.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_current() {
        for offsets in [&[755][..], &[0, 1, u64::MAX]] {
            let mut bytes = text(offsets);
            assert_eq!(parse(&bytes[MARKER.len()..]).unwrap(), offsets);
            assert_eq!(classify(&bytes, offsets), Tail::Current);
            assert_eq!(classify(&bytes, &offsets[1..]), Tail::Free);
            bytes.extend([0; 9]);
            assert_eq!(classify(&bytes, offsets), Tail::Current);
        }
        assert_eq!(text(&[755, 1209]), b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- 755\n- 1209\n...\n");
    }

    #[test]
    fn only_zeros_and_indices_are_free() {
        for free in [
            &b""[..],
            b"\0\0\0",
            b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- 7",
            b"#ASDF BLOCK INDEX\nnonsense\n...\n\0",
            b"\0#ASDF BLOCK INDEX\n--- [1]\n...\n",
            b"#ASDF BLOCK INDEX\n--- [755]\n",
            b"#ASDF BLOCK INDEX\n--- [7]\n...\n#ASDF BLOCK INDEX\n--- [755]\n...\n",
            b"#ASDF BLOCK INDEX\n--- [755]\n...\n\0#ASDF BLOCK INDEX\n--- [7",
        ] {
            assert_eq!(classify(free, &[755]), Tail::Free, "{}", free.escape_ascii());
        }
        for unknown in [
            &b"#ASDF 1.0.0\n"[..],
            b"junk",
            b"#ASDF BLOCK INDEX\n--- [755]\n...\njunk",
            b"#ASDF BLOCK INDEX\n--- [7]\n...\n#ASDF BLOCK INDEX\n--- [755]\n...\njunk",
            b"#ASDF BLOCK INDEX\n--- [755]\n...\n\0\0junk",
            b"#ASDF BLOCK INDEX\n--- [7\xff55]",
            b"\xd3BLK",
        ] {
            assert_eq!(classify(unknown, &[755]), Tail::Unknown, "{}", unknown.escape_ascii());
        }
    }
}
