//! Text in memory.

use std::sync::Arc;

use super::{Content, copy_from};
use crate::error::{Error, Result};

/// Bytes in memory.
#[derive(Clone, Debug, Default)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// Takes `bytes`.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl Content for Text {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Borrowed(&self.0).read_at(offset, buf)
    }
}

/// A text that can't be made now. Each read fails with the error.
#[derive(Debug)]
pub struct UnreadableText(pub Error);

impl Content for UnreadableText {
    /// Returns 1: a content without bytes would not be read.
    fn len(&self) -> u64 {
        1
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(self.0.clone())
    }
}

/// Bytes in memory, borrowed.
#[derive(Debug)]
pub struct Borrowed<'a>(pub &'a [u8]);

impl Content for Borrowed<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(copy_from(self.0, offset, buf))
    }
}

/// True if a character can be shown as it is: not a control character, a blank other than the space, or a
/// character without a glyph.
pub fn is_printable(char: char) -> bool {
    // `escape_debug` also escapes quotes, which are printable. A combining mark is shown only after a letter.
    matches!(char, '"' | '\'') || format!("a{char}").escape_debug().nth(1) == Some(char)
}

/// Returns a number with at most five significant digits: `0.00123`, `1.5e12`.
pub fn short_number(number: f64) -> String {
    if !number.is_finite() || number == 0.0 {
        return format!("{number}").replace("inf", "infinity");
    }
    let exponent = number.abs().log10().floor();
    if !(-4.0..7.0).contains(&exponent) {
        let text = format!("{number:.4e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let digits =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        return format!("{digits}e{power}");
    }
    let decimals = (4.0 - exponent).max(0.0) as usize;
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_marks_and_signs_are_printable() {
        for char in ['a', ' ', '"', '\\', '\'', 'ü', 'ß', '°', 'µ', '→', '—', '\u{308}', '星', '\u{1f600}']
        {
            assert!(is_printable(char), "{char:?}");
        }
        for char in [
            '\0', '\n', '\t', '\x7f', '\u{85}', '\u{a0}', '\u{200b}', '\u{202e}', '\u{2028}', '\u{feff}',
            '\u{ffff}',
        ] {
            assert!(!is_printable(char), "{char:?}");
        }
    }
}
