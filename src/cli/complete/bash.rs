//! Words of a command line of bash: split without any expansion, and quoted so that bash expands nothing in them.
//!
//! Bash cuts words at `=` and `:`, too, so a completion script gets the whole line and the last part of it, which
//! readline replaces.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use seekable::error::is_unsafe;

/// Bytes that bash acts on outside of quotes.
const SPECIAL: &[u8] = b" !\"#$&'()*;<>?[\\]^`{|}~";

/// The quotes around a place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Without,
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `$'…'`
    Escapes,
}

/// A command line up to the cursor.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// The words; the last one is unfinished.
    pub(super) words: Vec<OsString>,
    /// True if the last word is the target of a redirection.
    pub(super) is_redirected: bool,
    /// The part of the last word that readline keeps.
    kept: Vec<u8>,
    /// The quotes that are open where readline inserts a completion.
    quotes: Quotes,
}

impl CommandLine {
    /// Splits a line, at whose end readline replaces `replaced` bytes.
    pub(super) fn read(line: &[u8], replaced: usize) -> Self {
        let start = line.len().saturating_sub(replaced);
        let mut words = Vec::new();
        let mut word: Option<Vec<u8>> = None;
        let mut is_redirected = false;
        let mut quotes = Quotes::Without;
        let mut inserted = None;
        let mut at = 0;
        loop {
            if at >= start && inserted.is_none() {
                inserted = Some((word.clone().unwrap_or_default(), quotes));
            }
            let Some((&byte, rest)) = line.get(at..).and_then(<[u8]>::split_first) else { break };
            let next = rest.first().copied();
            at += 1;
            match (quotes, byte) {
                (Quotes::Without, b' ' | b'\t' | b'\n' | b'<' | b'>') => {
                    let finished = word.take();
                    let is_waiting = is_redirected && finished.is_none();
                    let is_descriptor =
                        matches!(byte, b'<' | b'>') && finished.as_ref().is_some_and(|word| is_number(word));
                    if !is_redirected
                        && !is_descriptor
                        && let Some(word) = finished
                    {
                        words.push(OsString::from_vec(word));
                    }
                    is_redirected = matches!(byte, b'<' | b'>') || is_waiting;
                }
                (Quotes::Without, b'\'') => (word, quotes) = (Some(word.unwrap_or_default()), Quotes::Single),
                (Quotes::Without, b'"') => (word, quotes) = (Some(word.unwrap_or_default()), Quotes::Double),
                (Quotes::Without, b'$') if next == Some(b'\'') => {
                    at += 1;
                    (word, quotes) = (Some(word.unwrap_or_default()), Quotes::Escapes);
                }
                (Quotes::Single | Quotes::Escapes, b'\'') | (Quotes::Double, b'"') => {
                    quotes = Quotes::Without
                }
                (Quotes::Escapes, b'\\') => {
                    let (value, length) = escape(rest);
                    word.get_or_insert_default().extend(value);
                    at += length;
                }
                (Quotes::Without, b'\\') => {
                    word.get_or_insert_default().extend(next);
                    at += 1;
                }
                (Quotes::Double, b'\\') if matches!(next, Some(b'$' | b'`' | b'"' | b'\\')) => {
                    word.get_or_insert_default().extend(next);
                    at += 1;
                }
                _ => word.get_or_insert_default().push(byte),
            }
        }
        words.push(OsString::from_vec(word.unwrap_or_default()));
        let (kept, quotes) = inserted.unwrap_or((Vec::new(), quotes));
        Self { words, is_redirected, kept, quotes }
    }

    /// Returns the text that readline inserts so that the last word is `value`; `None` if the kept part is not
    /// the start of `value`.
    pub(super) fn insertion(&self, value: &OsStr) -> Option<Vec<u8>> {
        let value = value.as_bytes().strip_prefix(&*self.kept)?;
        let mut text = Vec::new();
        match self.quotes {
            Quotes::Without if value.utf8_chunks().any(|chunk| !is_printable(&chunk)) => {
                text.extend(b"$'");
                push_escaped(value, &mut text);
                text.push(b'\'');
            }
            Quotes::Without => {
                for byte in value {
                    if SPECIAL.contains(byte) {
                        text.push(b'\\');
                    }
                    text.push(*byte);
                }
            }
            Quotes::Escapes => push_escaped(value, &mut text),
            Quotes::Single => push_quoted(value, b'\'', &mut text),
            Quotes::Double => push_quoted(value, b'"', &mut text),
        }
        Some(text)
    }
}

fn is_printable(chunk: &std::str::Utf8Chunk<'_>) -> bool {
    chunk.invalid().is_empty() && !chunk.valid().contains(is_unsafe)
}

/// True for the descriptor before a redirection.
fn is_number(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit)
}

/// Returns the bytes of an escape sequence after its backslash, and its length.
fn escape(text: &[u8]) -> (Vec<u8>, usize) {
    let Some(&letter) = text.first() else { return (Vec::new(), 0) };
    let value = match letter {
        b'0'..=b'7' => {
            let digits: Vec<u8> =
                text.iter().take(3).copied().take_while(|digit| matches!(digit, b'0'..=b'7')).collect();
            let value =
                digits.iter().fold(0, |value: u8, digit| value.wrapping_mul(8).wrapping_add(digit - b'0'));
            return (vec![value], digits.len());
        }
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'e' | b'E' => 27,
        other => other,
    };
    (vec![value], 1)
}

/// Adds a value within `$'…'`.
fn push_escaped(value: &[u8], text: &mut Vec<u8>) {
    let octal = |bytes: &[u8], text: &mut Vec<u8>| {
        for byte in bytes {
            text.extend(format!("\\{byte:03o}").bytes());
        }
    };
    for chunk in value.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = letter.encode_utf8(&mut bytes).as_bytes();
            // Readline takes the quote of \' for the closing one.
            if letter == '\'' || is_unsafe(letter) {
                octal(bytes, text);
            } else {
                text.extend(if letter == '\\' { b"\\\\" } else { bytes });
            }
        }
        octal(chunk.invalid(), text);
    }
}

/// Adds a value within quotes, which are closed around the characters that they don't protect.
fn push_quoted(value: &[u8], quote: u8, text: &mut Vec<u8>) {
    for chunk in value.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = letter.encode_utf8(&mut bytes).as_bytes();
            if is_unsafe(letter) {
                push_between(bytes, quote, text);
            } else if quote == b'\'' && letter == '\'' {
                text.extend(b"'\\''");
            } else if quote == b'"' && letter == '!' {
                text.extend(b"\"'!'\"");
            } else {
                if quote == b'"' && matches!(letter, '$' | '`' | '"' | '\\') {
                    text.push(b'\\');
                }
                text.extend(bytes);
            }
        }
        if !chunk.invalid().is_empty() {
            push_between(chunk.invalid(), quote, text);
        }
    }
    // Readline replaces the opening quote, too, if the text begins with that quote, and adds no closing quote if the
    // text ends with it.
    if text.first() == Some(&quote) {
        text.insert(0, quote);
    }
    if text.last() == Some(&quote) {
        text.push(quote);
    }
}

/// Closes the quotes, adds bytes within `$'…'`, and opens the quotes again.
fn push_between(bytes: &[u8], quote: u8, text: &mut Vec<u8>) {
    text.push(quote);
    text.extend(b"$'");
    push_escaped(bytes, text);
    text.push(b'\'');
    text.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        CommandLine::read(line.as_bytes(), 0).words
    }

    #[test]
    fn quotes_hold_words_together() {
        for (line, expected) in [
            ("", &[""][..]),
            ("a b", &["a", "b"]),
            ("a  b ", &["a", "b", ""]),
            (r"a\ b", &["a b"]),
            ("a'b c'd", &["ab cd"]),
            (r#"a"b \"c"d"#, &["ab \"cd"]),
            (r#""a\b""#, &[r"a\b"]),
            (r"$'a\tb\101\'c", &["a\tbA'c"]),
            (r"'a\'b", &[r"a\b"]),
            ("a '' b", &["a", "", "b"]),
            ("a \\", &["a", ""]),
            ("a >b c", &["a", "c"]),
            ("a 2>'b c' d", &["a", "d"]),
            ("$HOME `a`", &["$HOME", "`a`"]),
        ] {
            assert_eq!(words(line), expected.iter().map(OsString::from).collect::<Vec<_>>(), "{line}");
        }
        assert!(CommandLine::read(b"a >", 0).is_redirected);
        assert!(CommandLine::read(b"a > b", 1).is_redirected);
        assert!(!CommandLine::read(b"a >b ", 0).is_redirected);
    }

    proptest::proptest! {
        /// The line with the insertion, and the closing quote that readline adds, has `value` as its last word.
        #[test]
        fn an_insertion_is_read_as_the_value(
            typed in "[ab-]{0,3}",
            added in "[a\\-~!'\"$`\\\\ ;&|<>(){}*?#\\[\\]\t\n\u{1}\u{7f}é\u{9b}\u{202e}\u{1f389}]{1,6}",
            invalid in proptest::collection::vec(128_u8..=255, 0..2),
            open in proptest::sample::select(vec!["", "'", "\"", "$'"]),
        ) {
            let mut line = format!("x {open}").into_bytes();
            let quote = open.as_bytes().last();
            let value = [typed.as_bytes(), added.as_bytes(), &*invalid].concat();
            let read = CommandLine::read(&[&*line, typed.as_bytes()].concat(), typed.len());
            let text = read.insertion(OsStr::from_bytes(&value)).unwrap();
            // As readline does.
            if open.len() == 1 && text.first() == quote {
                line.pop();
            }
            line.extend(&text);
            line.extend(quote.filter(|quote| text.last() != Some(quote)));
            line.extend(b" end");
            proptest::prop_assert_eq!(
                CommandLine::read(&line, 0).words,
                [OsString::from("x"), OsString::from_vec(value), OsString::from("end")],
                "{}", String::from_utf8_lossy(&line)
            );
        }

        #[test]
        fn no_line_makes_it_panic(line in "[ab'\"$\\\\ <>!0-9]{0,12}", replaced in 0_usize..20) {
            CommandLine::read(line.as_bytes(), replaced).insertion(OsStr::new("a"));
        }
    }
}
