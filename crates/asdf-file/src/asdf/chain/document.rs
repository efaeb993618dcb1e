//! The document at the start of an encoded block, which lists its encodings.

use asdf_tree::yaml;
use seekable::error::{Error, Result};

use super::super::quantize::Float;
use super::{Encoding, EncodingChain};
use crate::array::tile::{MAX_DIMENSIONS, Tiling};

/// Number of bytes at the start of a block within which its encoding chain must end.
pub(crate) const HEAD: usize = 64 << 10;

/// Maximum number of encodings in a chain.
const MAX_ENCODINGS: usize = 16;

/// Maximum number of YAML nodes in the chain's document.
const MAX_NODES: usize = 2000;

/// Parses the chain at the start of a block's data. Returns the chain and the offset of the encoded bytes.
///
/// `head` is the first [`HEAD`] bytes of the data, or all data if they are shorter.
pub fn parse(head: &[u8]) -> Result<(EncodingChain, usize)> {
    let head = head.get(..HEAD).unwrap_or(head);
    let end = document_end(head).ok_or_else(|| {
        Error::damaged(format!("the encoding chain has no end '...' in the first {} bytes", head.len()))
    })?;
    let chain = yaml::Value::read(&head[..end], MAX_NODES).and_then(|value| read(&value));
    Ok((chain.map_err(|error| error.within("the encoding chain"))?, end))
}

/// Returns the end of the first line `...` with its line break.
fn document_end(head: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(head, b"\n...").find_map(|at| {
        let end = at + 4;
        match head.get(end..)? {
            [b'\n', ..] => Some(end + 1),
            [b'\r', b'\n', ..] => Some(end + 2),
            [] => Some(end),
            _ => None,
        }
    })
}

fn read(value: &yaml::Value) -> Result<EncodingChain> {
    let entries = match value {
        yaml::Value::Scalar { .. } => std::slice::from_ref(value),
        _ => value.items().ok_or_else(|| Error::damaged("is not a list of encodings"))?,
    };
    if entries.len() > MAX_ENCODINGS {
        return Err(Error::unsupported(format!("has more than {MAX_ENCODINGS} encodings")));
    }
    let encodings = entries.iter().map(encoding).collect::<Result<Vec<_>>>()?;
    for pair in encodings.windows(2) {
        if let [before @ (Encoding::Quantize { .. } | Encoding::Zlib), after] = pair
            && *after != Encoding::Zlib
        {
            let before = before.name();
            let after = after.name();
            return Err(Error::damaged(format!(
                "{after} takes an array, but {before} before it gives bytes"
            )));
        }
    }
    Ok(EncodingChain { encodings })
}

fn encoding(entry: &yaml::Value) -> Result<Encoding> {
    let none = yaml::Value::Mapping(Vec::new());
    let (name, args) = match entry.items() {
        None => (entry, &none),
        Some([name]) => (name, &none),
        Some([name, args]) => (name, args),
        Some(_) => return Err(Error::damaged("an entry is neither a name nor a name with arguments")),
    };
    let name = name.text().ok_or_else(|| Error::damaged("an entry has no name"))?;
    if !matches!(args, yaml::Value::Mapping(_)) {
        return Err(Error::damaged(format!("the arguments of {} are not a mapping", shown(name))));
    }
    match name {
        "tile" => {
            let (shape, original_shape) = (shape(args, name, "shape")?, shape(args, name, "original_shape")?);
            Ok(Encoding::Tile(Tiling::new(&original_shape, &shape, number(args, name, "item_size")?)?))
        }
        "quantize" => {
            let float = match number(args, name, "dtype")? {
                32 => Float::Single,
                64 => Float::Double,
                other => {
                    return Err(Error::damaged(format!("the dtype of quantize is {other}, not 32 or 64")));
                }
            };
            let values = shape(args, name, "original_shape")?
                .iter()
                .try_fold(1u64, |values, &len| values.checked_mul(len))
                .ok_or_else(|| Error::damaged("quantize: the array is larger than any file can be"))?;
            Ok(Encoding::Quantize { float, values })
        }
        "zlib" => Ok(Encoding::Zlib),
        _ => Err(Error::unsupported(format!("unknown encoding: {}", shown(name)))),
    }
}

/// Quotes a name from the file for a message.
fn shown(name: &str) -> String {
    format!("\"{}\"", name.chars().take(40).collect::<String>().escape_debug())
}

fn number(args: &yaml::Value, encoding: &str, name: &str) -> Result<u64> {
    args.get(name).and_then(yaml::Value::unsigned).ok_or_else(|| {
        Error::damaged(format!("{encoding} needs the argument {name}, a number that is not negative"))
    })
}

fn shape(args: &yaml::Value, encoding: &str, name: &str) -> Result<Vec<u64>> {
    let items = args.get(name).and_then(yaml::Value::items).filter(|items| items.len() <= MAX_DIMENSIONS);
    let shape = items.and_then(|items| items.iter().map(yaml::Value::unsigned).collect());
    shape.ok_or_else(|| {
        let form = format!("a list of up to {MAX_DIMENSIONS} numbers that are not negative");
        Error::damaged(format!("{encoding} needs the argument {name}, {form}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use super::*;
    use seekable::error::Kind;

    #[test]
    fn the_document_ends_at_its_line_of_dots_and_the_bytes_begin_there() {
        for (head, offset) in [
            (&b"--- [zlib]\n...\nx\x9c\n...\n"[..], 15),
            (b"--- [zlib]\r\n...\r\nx\x9c", 17),
            (b"--- [zlib]\n...", 14),
            (b"%YAML 1.1\n---\n- zlib\n...\n\0", 25),
            (b"--- zlib\n...\n", 13),
            (b"- [zlib]\n...\n\n", 13),
        ] {
            let (chain, at) = parse(head).unwrap();
            assert_eq!((chain.to_string().as_str(), at), ("zlib", offset));
        }
        let (none, _) = parse(b"--- []\n...\n").unwrap();
        assert_eq!(none.to_string(), "");
        for head in [&b"--- [zlib]\n"[..], b"--- [zlib]\n...x", b"...\n", b""] {
            assert!(parse(head).unwrap_err().to_string().contains("no end '...'"));
        }
        let long = [b"--- [zlib]\n".to_vec(), vec![b'#'; HEAD], b"\n...\n".to_vec()].concat();
        assert!(parse(&long).is_err());
    }

    #[test]
    fn arguments_are_read_and_unknown_ones_passed_over() {
        let text = "[[tile, {shape: [2, 2], original_shape: [3, 3], item_size: 8}], \
                    [quantize, {dtype: 64, original_shape: [4, 2, 2], quality: 4}], zlib, [zlib, {}]]";
        assert_eq!(chain(text).unwrap().to_string(), "tile+quantize+zlib+zlib");
    }

    #[test]
    fn chains_that_make_no_sense_are_errors_that_say_why() {
        let tile = |args: &str| format!("[[tile, {{{args}}}]]");
        for (text, expected) in [
            ("[zlib, lzma]".to_owned(), "unknown encoding: \"lzma\""),
            ("[\"a\\nb\"]".to_owned(), "\"a\\nb\""),
            ("[[zlib, {}, {}]]".to_owned(), "neither a name nor"),
            ("[[]]".to_owned(), "neither a name nor"),
            ("[{zlib: 1}]".to_owned(), "has no name"),
            ("[[[zlib]]]".to_owned(), "has no name"),
            ("{zlib: 1}".to_owned(), "not a list"),
            ("[[zlib, [1]]]".to_owned(), "are not a mapping"),
            (
                "[zlib, [tile, {shape: [1], original_shape: [1], item_size: 1}]]".to_owned(),
                "tile takes an array",
            ),
            ("[&a zlib, *a]".to_owned(), "aliases are not allowed here"),
            ("[zlib".to_owned(), "line 2"),
            (format!("[{}]", "zlib,".repeat(17)), "more than 16"),
            (tile("shape: [1]"), "tile needs the argument original_shape"),
            (tile("shape: [1], original_shape: [1]"), "needs the argument item_size"),
            (tile("shape: [-1], original_shape: [1], item_size: 1"), "needs the argument shape"),
            (tile("shape: [1.5], original_shape: [1], item_size: 1"), "needs the argument shape"),
            (tile("shape: ['1'], original_shape: [1], item_size: 1"), "needs the argument shape"),
            (tile("shape: 1, original_shape: [1], item_size: 1"), "needs the argument shape"),
            (tile("shape: [[1]], original_shape: [1], item_size: 1"), "needs the argument shape"),
            (tile("shape: [0], original_shape: [1], item_size: 1"), "have no size"),
            (tile("shape: [2, 2], original_shape: [1], item_size: 1"), "the tiles have 2 dimensions"),
            (
                tile("shape: [1], original_shape: [18446744073709551615], item_size: 8"),
                "larger than any file",
            ),
            ("[[quantize, {dtype: 16, original_shape: [1]}]]".to_owned(), "not 32 or 64"),
            ("[[quantize, {dtype: 32}]]".to_owned(), "quantize needs the argument original_shape"),
        ] {
            let error = chain(&text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        assert_eq!(chain("[lzma]").unwrap_err().kind(), Kind::Unsupported);
    }
}
