//! Values written as JSON or as Python literals. They are written, and parsed, never evaluated.
//!
//! Bloscpack writes JSON. In the JSON, the type of an array is a Python literal (`"[('a', '<i4')]"`) since
//! Bloscpack 0.7.2; before, it was a list. The examples of the variable-length proposal are Python
//! literals. A Python literal is rewritten as JSON: `None` and `True`, both kinds of quotes, tuples, commas
//! before a bracket, and the `u'…'` and `3L` of Python 2.

use std::fmt::Write;

use serde_json::Value;

/// Maximum length of a text that is parsed.
const MAX_LITERAL: usize = 1 << 20;

/// Parses a text that is exactly one value; `None` otherwise.
pub fn parse(text: &str) -> Option<Value> {
    if text.len() > MAX_LITERAL {
        return None;
    }
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&to_json(text)?).ok())
}

/// Returns a Python literal as JSON. For any other text, returns `None` or a text that is not JSON.
fn to_json(text: &str) -> Option<String> {
    let mut json = String::with_capacity(text.len());
    let mut rest = text;
    // Offset of each open bracket, and true if a comma follows it.
    let mut open: Vec<(usize, bool)> = Vec::new();
    while let Some(next) = rest.chars().next() {
        let mut len = next.len_utf8();
        match next {
            '"' | '\'' => len = string(rest, &mut json)?,
            'u' if rest[1..].starts_with(['"', '\'']) => {}
            'A'..='Z' | 'a'..='z' => {
                len = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                json.push_str(match &rest[..len] {
                    "None" | "null" => "null",
                    "True" | "true" => "true",
                    "False" | "false" => "false",
                    _ => return None,
                });
            }
            '-' | '0'..='9' => {
                let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                json.push_str(&rest[..len]);
                len += usize::from(rest[len..].starts_with('L'));
            }
            '[' | '{' | '(' => {
                open.push((json.len(), false));
                json.push(if next == '(' { '[' } else { next });
            }
            ']' | '}' | ')' => {
                let (start, has_comma) = open.pop()?;
                let before = json.trim_end();
                // A comma before the bracket ends the last value.
                if let Some(before) = before.strip_suffix(',').filter(|before| before.len() > start + 1) {
                    json.truncate(before.len());
                }
                if next == ')' && !has_comma && json.len() > start + 1 {
                    // Parentheses around one value without a comma are no tuple.
                    json.replace_range(start..=start, " ");
                } else {
                    json.push(if next == ')' { ']' } else { next });
                }
            }
            _ => {
                if next == ','
                    && let Some((_, has_comma)) = open.last_mut()
                {
                    *has_comma = true;
                }
                json.push(next);
            }
        }
        rest = &rest[len..];
    }
    Some(json)
}

/// Writes the Python string at the start of `text` as JSON. Returns its length.
fn string(text: &str, json: &mut String) -> Option<usize> {
    let mut rest = text.chars();
    let quote = rest.next()?;
    json.push('"');
    loop {
        match rest.next()? {
            end if end == quote => break,
            '"' => json.push_str("\\\""),
            '\\' => match rest.next()? {
                '\'' => json.push('\''),
                'x' => code(&mut rest, 2, json)?,
                'U' => code(&mut rest, 8, json)?,
                // The other escapes are those of JSON.
                escape => json.extend(['\\', escape]),
            },
            plain => json.push(plain),
        }
    }
    json.push('"');
    Some(text.len() - rest.as_str().len())
}

/// Writes the character whose code follows in hexadecimal digits.
fn code(rest: &mut std::str::Chars<'_>, digits: usize, json: &mut String) -> Option<()> {
    let code = (0..digits).try_fold(0, |code, _| Some(code << 4 | rest.next()?.to_digit(16)?))?;
    for unit in char::from_u32(code)?.encode_utf16(&mut [0; 2]) {
        // Writing to a String can't fail.
        let _ = write!(json, "\\u{unit:04x}");
    }
    Some(())
}

/// Formats sizes as a Python tuple: `(2, 3)`, `(5,)`, `()`.
pub fn tuple(sizes: &[u64]) -> String {
    let comma = if sizes.len() == 1 { "," } else { "" };
    format!("({}{comma})", sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

/// Formats a text as a Python literal, as `repr` does.
pub fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut literal = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            _ if c == quote => literal.extend(['\\', c]),
            _ if is_printable(c) => literal.push(c),
            _ => literal.push_str(&match u32::from(c) {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    literal.push(quote);
    literal
}

/// True if `repr` leaves the character unescaped. Rust uses the same Unicode classes.
fn is_printable(c: char) -> bool {
    // Rust escapes a combining character at the start of a text, hence the letter before it.
    !c.is_control() && !format!("a{c}").escape_debug().skip(1).collect::<String>().starts_with("\\u")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).map_or_else(|| "-".to_owned(), |value| serde_json::to_string(&value).unwrap())
    }

    #[test]
    fn literals_are_those_of_python() {
        assert_eq!(quoted("a"), "'a'");
        assert_eq!(quoted("it's"), r#""it's""#);
        assert_eq!(quoted(r#"it's "x""#), r#"'it\'s "x"'"#);
        assert_eq!(quoted("a\\\n\u{7}é"), r"'a\\\n\x07é'");
        assert_eq!(
            quoted("\0\u{a0}\u{2028}e\u{301}😀\u{e0001}"),
            r"'\x00\xa0\u2028é😀\U000e0001'".replace('é', "e\u{301}")
        );
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
        let deep = "[".repeat(200) + &"]".repeat(200);
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
