//! Files whose every part tells of which state it is. Versions and notes have eight digits.

use crate::judge::State;
use common::asdf::{AsdfBuilder, Block, Checksum};
use common::encode::Encoding;

/// Elements of each array. The bytes take several requests of the kernel.
pub(crate) const ELEMENTS: usize = 100_000;

/// The arrays of each file, and the number of their elements.
pub(crate) const ARRAYS: [(&str, usize); 3] = [("stored", ELEMENTS), ("packed", ELEMENTS), ("inline", 16)];

/// Returns the text of the tree of a state, with its checksum in the last line.
///
/// The length depends on the note, so that saves grow and shrink the tree; files of one note have one size.
pub(crate) fn tree(state: State) -> String {
    let State { version, note } = state;
    let values = vec![format!("{version}"); 16].join(", ");
    let filler = "x".repeat((note as usize % 1000 * 977) % 9000);
    let array = |source: u32| {
        format!(
            "!core/ndarray-1.1.0 {{source: {source}, datatype: uint32, byteorder: little, shape: [{ELEMENTS}]}}"
        )
    };
    let text = format!(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         version: '{version}'\nnote: '{note}'\nstored: {}\npacked: {}\n\
         inline: !core/ndarray-1.1.0 {{data: [{values}], datatype: float64}}\n# {filler}\n",
        array(0),
        array(1),
    );
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text}sum: '{sum:08x}'\n...\n")
}

/// Returns the file of a state.
pub(crate) fn file(state: State) -> Vec<u8> {
    let data: Vec<u8> = std::iter::repeat_n(state.version.to_le_bytes(), ELEMENTS).flatten().collect();
    let text = tree(state);
    let head_end = text.find("%YAML").unwrap();
    let (head, tree) = text.split_at(head_end);
    let packed = Block::new(data.clone()).encoding(Encoding::Lz4(1 << 16)).checksum(Checksum::Decoded);
    AsdfBuilder::new().head(head).tree(tree).block(Block::new(data)).block(packed).build().bytes
}

/// Returns the state of a text, or what is wrong with it.
pub(crate) fn state_of_tree(text: &[u8]) -> Result<State, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?;
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let digits = line.and_then(|line| line.split('\'').nth(1));
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("no {key}"))
    };
    let state = State { version: number("version: ")?, note: number("note: ")? };
    if text == tree(state) {
        return Ok(state);
    }
    Err(format!("{} bytes that are not the text of {state:?}", text.len()))
}

/// Returns the version that all elements of an array have, or what is wrong.
pub(crate) fn version_of_array(npy: &[u8], count: usize) -> Result<u32, String> {
    let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let is_float = npy[..header].windows(3).any(|three| three == b"<f8");
    let versions: Vec<u32> = if is_float {
        npy[header..].chunks_exact(8).map(|it| f64::from_le_bytes(it.try_into().unwrap()) as u32).collect()
    } else {
        npy[header..].chunks_exact(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    if versions.len() != count {
        return Err(format!("{} elements in place of {count}", versions.len()));
    }
    same(versions)
}

/// Returns the version that all elements of a block's data have.
pub(crate) fn version_of_block(data: &[u8]) -> Result<u32, String> {
    if data.len() != ELEMENTS * 4 {
        return Err(format!("{} bytes in place of {}", data.len(), ELEMENTS * 4));
    }
    same(data.chunks_exact(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect())
}

fn same(mut versions: Vec<u32>) -> Result<u32, String> {
    let first = versions[0];
    versions.dedup();
    if versions.len() == 1 {
        Ok(first)
    } else {
        Err(format!("elements of versions {:?}", &versions[..versions.len().min(9)]))
    }
}
