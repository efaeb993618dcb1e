//! Values of a small YAML document, held in memory.

use super::event::{Style, What};
use super::parser::Events;
use super::refused;
use seekable::error::{Error, Result};

/// The prefix of YAML's own tags.
const CORE: &str = "tag:yaml.org,2002:";

/// A node of a small document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A scalar.
    Scalar {
        /// The text after unescaping and folding.
        text: String,
        /// True if the scalar is unquoted and thus may be a number.
        plain: bool,
        /// The resolved tag, if one is written.
        tag: Option<String>,
    },
    /// A sequence. Its tag is dropped.
    Sequence(Vec<Value>),
    /// A mapping, in the order of the text. Its tag is dropped.
    Mapping(Vec<(Value, Value)>),
}

impl Value {
    /// Reads `text` as a single document of at most `max_nodes` nodes.
    ///
    /// Aliases are refused. Small documents have none, and without aliases a value is no larger than its
    /// text.
    pub fn read(text: &[u8], max_nodes: usize) -> Result<Self> {
        let mut events = Events::new(text);
        // The open collections. Keys and values of a mapping are kept in one list until it ends.
        let mut open: Vec<Vec<Value>> = Vec::new();
        let mut root = None;
        let mut nodes = 0;
        while let Some(event) = events.next_event()? {
            let node = match event.what {
                What::Scalar { value, style, tag, .. } => Self::Scalar {
                    text: value.to_owned(),
                    plain: style == Style::Plain,
                    tag: tag.map(str::to_owned),
                },
                What::SequenceStart { .. } | What::MappingStart { .. } => {
                    open.push(Vec::new());
                    continue;
                }
                What::SequenceEnd => Self::Sequence(open.pop().unwrap_or_default()),
                What::MappingEnd => Self::Mapping(pairs(open.pop().unwrap_or_default())),
                What::Alias(_) => return Err(refused("aliases are not allowed here", event.start)),
                What::DocumentStart { .. } if root.is_some() => {
                    return Err(refused("a second document begins", event.start));
                }
                _ => continue,
            };
            nodes += 1;
            if nodes > max_nodes {
                return Err(Error::unsupported(format!(
                    "a YAML document of more than {max_nodes} nodes, where a small one is expected"
                )));
            }
            match open.last_mut() {
                Some(parent) => parent.push(node),
                None => root = Some(node),
            }
        }
        root.ok_or_else(|| Error::damaged("not valid YAML: there is no document"))
    }

    /// Returns the text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a non-negative decimal integer; `None` for anything else, or beyond 64 bits.
    pub fn unsigned(&self) -> Option<u64> {
        let Self::Scalar { text, plain: true, tag } = self else { return None };
        let is_int = tag.as_deref().is_none_or(|tag| tag.strip_prefix(CORE) == Some("int"));
        // A leading zero means octal in YAML 1.1.
        let is_decimal =
            text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        (is_int && is_decimal).then(|| text.parse().ok()).flatten()
    }

    /// Returns the items of a sequence.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Self::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the value of `key` in a mapping. The last one wins if the key is repeated, as in Python.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Self::Mapping(entries) = self else { return None };
        entries.iter().rev().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }
}

fn pairs(nodes: Vec<Value>) -> Vec<(Value, Value)> {
    let mut nodes = nodes.into_iter();
    std::iter::from_fn(|| Some((nodes.next()?, nodes.next()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value> {
        Value::read(text.as_bytes(), 100)
    }

    #[test]
    fn reads_a_chain() {
        let value = read("--- [[tile, {shape: [2, 3], shape: [4]}], zlib]\n...\n").unwrap();
        let items = value.items().unwrap();
        assert_eq!(items[1].text(), Some("zlib"));
        let [name, args] = items[0].items().unwrap() else { panic!("{value:?}") };
        assert_eq!(name.text(), Some("tile"));
        let shape = args.get("shape").and_then(Value::items).unwrap();
        assert_eq!(shape.iter().map(Value::unsigned).collect::<Vec<_>>(), [Some(4)]);
        assert_eq!(args.get("x"), None);
        assert_eq!(value.get("shape"), None);
    }

    #[test]
    fn numbers_are_plain_decimals() {
        for (text, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("!!int 7", Some(7)),
            ("18446744073709551616", None),
            ("'7'", None),
            ("!!str 7", None),
            ("-7", None),
            ("+7", None),
            ("07", None),
            ("7.0", None),
            ("~", None),
            ("[7]", None),
        ] {
            assert_eq!(read(text).unwrap().unsigned(), number, "{text}");
        }
    }

    #[test]
    fn aliases_second_documents_and_large_documents_are_refused() {
        for (text, expected) in [
            ("[&a x, *a]".to_owned(), "line 1, column 8: aliases are not allowed here"),
            ("a\n--- b\n".to_owned(), "line 2, column 1: a second document"),
            (String::new(), "no document"),
            ("- x\n".repeat(100), "more than 100 nodes"),
        ] {
            let message = read(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        assert_eq!(read(&"- x\n".repeat(99)).unwrap().items().unwrap().len(), 99);
    }
}
