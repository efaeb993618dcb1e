//! Values written as JSON or as Python literals. They are parsed, never evaluated.
//!
//! Bloscpack writes JSON. In it the type of an array is a Python literal since 0.7.2 (`"[('a', '<i4')]"`),
//! and was a list before. The examples of the variable-length proposal are Python literals. One grammar
//! covers both: `null` and `None`, `true` and `True`, both kinds of quotes, lists, tuples, and mappings with
//! string keys.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// Maximum length of a text that is parsed.
pub const LONGEST: usize = 1 << 20;

/// Maximum nesting depth of values.
const DEEPEST: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `None`, `null`.
    Nothing,
    /// `True`, `true`.
    Truth(bool),
    /// An integer.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(String),
    /// `[1, 2]`.
    List(Vec<Literal>),
    /// `(1, 2)`.
    Tuple(Vec<Literal>),
    /// `{'a': 1}`, in the order of the text.
    Map(Vec<(String, Literal)>),
}

impl Literal {
    /// Parses a text that is exactly one value; `None` otherwise.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut parser = Parser { rest: text };
        let value = parser.value(0)?;
        parser.skip();
        parser.rest.is_empty().then_some(value)
    }

    /// Returns the value of a mapping's key; the last one if the key is repeated.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the string, if the value is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items of a list or tuple.
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) | Self::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the value as a size, if it is a non-negative integer.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Whole(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl Serialize for Literal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => to.serialize_unit(),
            Self::Truth(truth) => to.serialize_bool(*truth),
            Self::Whole(number) => to.serialize_i64(*number),
            Self::Number(number) => to.serialize_f64(*number),
            Self::Text(text) => to.serialize_str(text),
            Self::List(items) | Self::Tuple(items) => {
                let mut list = to.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Map(pairs) => {
                let mut map = to.serialize_map(Some(pairs.len()))?;
                pairs.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    /// Consumes `word` if it is next; true if it was.
    fn takes(&mut self, word: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        if depth > DEEPEST {
            return None;
        }
        self.skip();
        match self.rest.chars().next()? {
            '"' | '\'' => self.string().map(Literal::Text),
            // Python 2 writes this prefix before a string.
            'u' if self.rest[1..].starts_with(['"', '\'']) => {
                self.rest = &self.rest[1..];
                self.string().map(Literal::Text)
            }
            '[' => {
                self.rest = &self.rest[1..];
                self.items(']', depth).map(|(items, _)| Literal::List(items))
            }
            '(' => {
                self.rest = &self.rest[1..];
                let (mut items, comma) = self.items(')', depth)?;
                // Parentheses around one value without a comma are no tuple.
                if items.len() == 1 && !comma { items.pop() } else { Some(Literal::Tuple(items)) }
            }
            '{' => {
                self.rest = &self.rest[1..];
                self.map(depth)
            }
            '-' | '0'..='9' => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Option<Literal> {
        let len = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        match word {
            "None" | "null" => Some(Literal::Nothing),
            "True" | "true" => Some(Literal::Truth(true)),
            "False" | "false" => Some(Literal::Truth(false)),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Literal> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let len = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(len);
        // Python 2 writes this suffix after a long integer.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        let whole = number.parse().ok().map(Literal::Whole);
        whole.or_else(|| number.parse().ok().map(Literal::Number))
    }

    /// Parses values up to `end`; the flag is true if a comma follows the last one.
    fn items(&mut self, end: char, depth: usize) -> Option<(Vec<Literal>, bool)> {
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.skip();
            if let Some(rest) = self.rest.strip_prefix(end) {
                self.rest = rest;
                return Some((items, comma));
            }
            if !items.is_empty() && !comma {
                return None;
            }
            items.push(self.value(depth + 1)?);
            comma = self.takes(",");
        }
    }

    fn map(&mut self, depth: usize) -> Option<Literal> {
        let mut pairs = Vec::new();
        let mut comma = true;
        loop {
            if self.takes("}") {
                return Some(Literal::Map(pairs));
            }
            if !comma {
                return None;
            }
            let Literal::Text(key) = self.value(depth + 1)? else { return None };
            if !self.takes(":") {
                return None;
            }
            pairs.push((key, self.value(depth + 1)?));
            comma = self.takes(",");
        }
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut rest = self.rest[1..].chars();
        loop {
            match rest.next()? {
                end if end == quote => break,
                '\n' => return None,
                '\\' => text.push(escaped(&mut rest)?),
                plain => text.push(plain),
            }
        }
        self.rest = rest.as_str();
        Some(text)
    }
}

/// Parses an escape after its backslash.
fn escaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'x' => char::from_u32(hexadecimal(rest, 2)?)?,
        'U' => char::from_u32(hexadecimal(rest, 8)?)?,
        'u' => match hexadecimal(rest, 4)? {
            high @ 0xd800..=0xdbff => {
                let low = rest.as_str().strip_prefix("\\u").map(str::chars).and_then(|mut low| {
                    let unit = hexadecimal(&mut low, 4)?;
                    *rest = low;
                    unit.checked_sub(0xdc00).filter(|low| *low < 0x400)
                })?;
                char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)?
            }
            unit => char::from_u32(unit)?,
        },
        same @ ('\\' | '\'' | '"' | '/') => same,
        _ => return None,
    })
}

fn hexadecimal(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |number, _| Some(number << 4 | rest.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Literal::parse(text).map_or_else(|| "-".to_owned(), |value| serde_json::to_string(&value).unwrap())
    }

    #[test]
    fn json_and_python_are_read_alike() {
        for (text, json) in [
            (
                r#"{"dtype": "varchar", "shape": [1024], "others": []}"#,
                r#"{"dtype":"varchar","shape":[1024],"others":[]}"#,
            ),
            (
                "{'dtype': 'varchar', 'shape': (1024,), 'others': [],}",
                r#"{"dtype":"varchar","shape":[1024],"others":[]}"#,
            ),
            ("[('a', '<i4'), (u'b', '|S5', (2, 3L))]", r#"[["a","<i4"],["b","|S5",[2,3]]]"#),
            ("(('x'))", "\"x\""),
            ("()", "[]"),
            ("[None, null, True, false, -1.5e3]", "[null,null,true,false,-1500.0]"),
            (r#"["\u00e9\ud83d\ude00\/", '\x41\'']"#, "[\"é😀/\",\"A'\"]"),
        ] {
            assert_eq!(shown(text), json, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let deep = "[".repeat(40) + &"]".repeat(40);
        for text in [
            "",
            "f()",
            "__import__('os')",
            "'a' 'b'",
            "1 + 1",
            "[1 2]",
            "{1: 2}",
            "{'a' 1}",
            "'",
            "'\\q'",
            "[",
            "(",
            "{",
            "'a",
            "1;",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "lambda: 0",
            "a",
            "--1",
            "[,]",
            "u",
            "-",
            &deep,
        ] {
            assert_eq!(shown(text), "-", "{text}");
        }
    }
}
