//! Files whose every part tells of which state it is. Versions and notes have eight digits.

use std::path::Path;

use crate::judge::State;
use crate::views::{numbers, pixels};
use common::asdf::{AsdfBuilder, Block, Checksum};
use common::encode::Encoding;

/// Elements of each large array. The bytes take several requests of the kernel.
pub(crate) const ELEMENTS: usize = 100_000;
/// Elements of the array in the tree.
pub(crate) const INLINE: usize = 16;
/// Numbers in the table: two in each row.
pub(crate) const CELLS: usize = 1000;
/// Width and height of the picture.
pub(crate) const SIDE: usize = 40;

/// Returns the proof that a version and a note belong together.
pub(crate) fn sum(state: State) -> String {
    format!("x{:08x}", crc32fast::hash(format!("{} {}", state.version, state.note).as_bytes()))
}

/// Returns the text of the tree of a state, with its sum in the last line. The arrays are in alphabetical order, as Python
/// writes them. `filler` is the length of a comment, by which
/// saves grow and shrink the tree.
pub(crate) fn tree(state: State, filler: usize) -> String {
    let State { version, note } = state;
    let values = vec![format!("{version}"); INLINE].join(", ");
    let array = |source: u32, rest: &str| {
        format!("!core/ndarray-1.1.0 {{source: {source}, byteorder: little, {rest}}}")
    };
    let large = format!("datatype: uint32, shape: [{ELEMENTS}]");
    let column = |name: &str| format!("{{name: {name}, datatype: uint32, byteorder: little}}");
    format!(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         version: '{version}'\nnote: '{note}'\nobject: {{name: '{version}'}}\nimage: {}\npacked: {}\nstored: {}\ntable: {}\n\
         inline: !core/ndarray-1.1.0 {{data: [{values}], datatype: float64}}\n# {}\nsum: {}\n...\n",
        array(0, &format!("datatype: uint8, shape: [{SIDE}, {SIDE}, 3]")),
        array(1, &large),
        array(2, &large),
        array(3, &format!("datatype: [{}, {}], shape: [{}]", column("a"), column("b"), CELLS / 2)),
        "x".repeat(filler),
        sum(state),
    )
}

/// Returns the file of a state; files of one note have one size.
pub(crate) fn file(state: State) -> Vec<u8> {
    let numbers =
        |count| std::iter::repeat_n(state.version.to_le_bytes(), count).flatten().collect::<Vec<u8>>();
    let text = tree(state, (state.note as usize % 1000 * 977) % 9000);
    let head_end = text.find("%YAML").unwrap();
    let (head, tree) = text.split_at(head_end);
    let packed = Block::new(numbers(ELEMENTS)).encoding(Encoding::Lz4(1 << 16)).checksum(Checksum::Decoded);
    // The pixels are in colors, which are shown as they are.
    let pixel = &state.version.to_le_bytes()[..3];
    let image = Block::new(pixel.repeat(SIDE * SIDE));
    let blocks = [image, packed, Block::new(numbers(ELEMENTS)), Block::new(numbers(CELLS))];
    AsdfBuilder::new().head(head).tree(tree).blocks(blocks).build().bytes
}

/// Returns the state of a text, or what is wrong with it.
pub(crate) fn state_of_tree(text: &[u8]) -> Result<State, String> {
    // --set and Python choose other quotes.
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?.replace(['\'', '"'], "");
    let number = |key: &str| {
        let digits = text.lines().find_map(|line| line.strip_prefix(key));
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("no {key}"))
    };
    let state = State { version: number("version: ")?, note: number("note: ")? };
    let filler = text.lines().find_map(|line| line.strip_prefix("# ")).map_or(0, str::len);
    // Python writes the tree in its own way.
    let is_by_python =
        text.contains("\nasdf_library: ") && text.contains(&format!("\nsum: {}\n", sum(state)));
    if is_by_python || text == tree(state, filler).replace('\'', "") {
        return Ok(state);
    }
    Err(format!("{} bytes that are not the text of {state:?}", text.len()))
}

/// Returns the state of a file on disk, if it is sound, and the tree and all blocks are of one version.
pub(crate) fn state_of_file(path: &Path) -> Result<State, String> {
    let of_library = |error: asdf_access::Error| error.to_string();
    let file = asdf_access::File::open(path).map_err(of_library)?;
    let state = state_of_tree(file.tree().map_err(of_library)?.as_bytes())?;
    for n in 0..4 {
        let data = file.block(n).and_then(|block| block.to_vec()).map_err(of_library)?;
        let version = match n {
            0 => pixels(&data)?,
            1 | 2 => numbers(&data, ELEMENTS)?,
            _ => numbers(&data, CELLS)?,
        };
        if version != state.version {
            return Err(format!("{state:?} with block {n} of version {version}"));
        }
    }
    let defects = file.check().map_err(of_library)?;
    match defects.iter().find(|defect| defect.severity != asdf_access::Severity::Note) {
        Some(defect) => Err(format!("{defect:?}")),
        None => Ok(state),
    }
}
