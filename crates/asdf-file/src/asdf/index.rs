//! The block index: `#ASDF BLOCK INDEX` and a YAML list of the blocks' offsets, after the last block.
//!
//! The index is only a hint: the chain of headers determines the blocks. (ASDF standard, *Low-level file
//! layout*, Block index.) A complete index allows headers to be read ahead, and shows where the chain
//! continues after a damaged header.

use asdf_tree::yaml::event::What;
use asdf_tree::yaml::parser::Events;
use memchr::memmem;
use seekable::error::{Error, Result};
use seekable::source::{Source, read_up_to};

/// The start of an index.
pub(crate) const MARKER: &[u8] = b"#ASDF BLOCK INDEX";

/// Sizes of the file's tail that is searched for an index. If no index is found, the next larger tail is
/// searched, up to the last size. A usual index is short, but an index of 300 000 blocks is not.
const TAILS: [u64; 6] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Size from which a tail is searched only if the tail before it looks like part of an index. On a server this holds for
/// all but the first.
const LONG: u64 = 16 << 20;

/// A block index as written in the file, not compared with the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// The offset of [`MARKER`] in the file.
    pub offset: u64,
    /// The offset of the index's end: after the line `...`, or the end of the file.
    pub end: u64,
    /// The listed offsets, or the fault in the text.
    pub offsets: std::result::Result<Vec<u64>, String>,
}

/// Finds the last index in a bounded tail of the file, not before `start`.
pub(crate) fn find(source: &dyn Source, size: u64, start: u64) -> Result<Option<Index>> {
    let mut looked_from = size;
    let mut is_list = true;
    for tail in TAILS {
        let from = size.saturating_sub(tail).max(start);
        let is_long = tail >= LONG || looked_from < size && source.is_slow();
        if from >= looked_from || is_long && !is_list {
            break;
        }
        let mut bytes = vec![0; (size - from) as usize];
        let read = read_up_to(source, from, &mut bytes)?;
        bytes.truncate(read);
        if let Some(at) = memmem::rfind(&bytes, MARKER) {
            let offset = from + at as u64;
            let text = &bytes[at + MARKER.len()..];
            let end = offset + (MARKER.len() + end_of(text).unwrap_or(text.len())) as u64;
            let offsets = parse(text).map_err(|error| error.message());
            return Ok(Some(Index { offset, end, offsets }));
        }
        looked_from = from;
        is_list = bytes.contains(&b'\n') && bytes.iter().all(|byte| b"0123456789,-[]. \r\n\0".contains(byte));
    }
    Ok(None)
}

/// Parses the text after [`MARKER`]. Zero bytes may follow the text.
pub fn parse(text: &[u8]) -> Result<Vec<u64>> {
    let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
    let mut events = Events::new(&text[..end_of(text).unwrap_or(text.len())]);
    let mut offsets = Vec::new();
    let mut depth = 0;
    let mut documents = 0;
    while let Some(event) = events.next_event()? {
        match event.what {
            What::DocumentStart { .. } => documents += 1,
            What::SequenceStart { .. } => depth += 1,
            What::SequenceEnd => depth -= 1,
            What::Scalar { value, .. } if depth == 1 => offsets.push(number(value)?),
            What::Scalar { .. } | What::MappingStart { .. } | What::Alias(_) => return Err(not_a_list()),
            _ => {}
        }
        if depth > 1 || documents > 1 {
            return Err(not_a_list());
        }
    }
    if documents == 0 || offsets.is_empty() {
        return Err(Error::damaged("it lists no blocks"));
    }
    Ok(offsets)
}

/// Returns the end of the text after [`MARKER`], if a line `...` ends it.
pub(crate) fn end_of(text: &[u8]) -> Option<usize> {
    let ends = [&b"\n...\n"[..], b"\n...\r\n"];
    ends.iter().filter_map(|end| Some(memmem::find(text, end)? + end.len())).min()
}

fn number(word: &str) -> Result<u64> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { word.parse().ok() } else { None };
    number.ok_or_else(|| Error::damaged(format!("\"{}\" is not an offset", word.escape_debug())))
}

fn not_a_list() -> Error {
    Error::damaged("it is not one list of numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::source::MemorySource;

    #[test]
    fn reads_every_style_that_writers_use() {
        for text in [
            "\n%YAML 1.1\n---\n- 755\n- 1209\n...\n",
            "\n%YAML 1.1\n--- [755, 1209]\n...\n",
            "\n%YAML 1.1\n---\n[755,\n 1209]\n...\n",
            "\r\n%YAML 1.1\r\n---\r\n- 755\r\n- 1209\r\n...\r\n\0\0\0",
            "\n--- [755, 1209]\n...\n\0\0",
            "\n--- [755, 1209]\n",
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap(), [755, 1209], "{text:?}");
        }
    }

    #[test]
    fn an_index_of_a_million_blocks_is_found() {
        let offsets: Vec<u64> = (0..1_000_000).map(|n| 100_000_000 + n * 62).collect();
        let list = offsets.iter().map(u64::to_string).collect::<Vec<_>>().join("\n- ");
        let file = format!("blocks #ASDF BLOCK INDEX\n%YAML 1.1\n---\n- {list}\n...\n").into_bytes();
        let size = file.len() as u64;
        assert!(size > TAILS[3]);
        let index = find(&MemorySource(file.clone()), size, 0).unwrap().unwrap();
        assert_eq!((index.offset, index.offsets.unwrap()), (7, offsets));
        // The data of a block are no list, so no more of them is read.
        let data = [file, vec![b'x'; 5 << 20]].concat();
        assert!(find(&MemorySource(data.clone()), data.len() as u64, 0).unwrap().is_none());
    }

    #[test]
    fn refuses_what_is_not_a_list_of_offsets() {
        for text in [
            "",
            "\n--- []\n",
            "\n--- [1, [2]]\n",
            "\n--- {a: 1}\n",
            "\n--- [-1]\n",
            "\n--- [1.5]\n",
            "\n--- [99999999999999999999999]\n",
            "\n--- [1\n",
            "\n--- [1]\n--- [2]\n",
            "\n--- 7\n",
            "\n--- [\u{7}]\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
