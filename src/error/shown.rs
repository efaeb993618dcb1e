//! Display of text from files.
//!
//! Names, keys and texts come from untrusted files. A control character in them can clear a terminal, forge a
//! log line or reverse the text direction. All text from files is displayed through this module.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True if a terminal may act on the character: a control character, a Unicode mark or line break that
/// changes how the text around it is displayed, or an invisible tag.
pub(crate) fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes characters that a terminal acts on, including line breaks.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, is_unsafe, |letter, out| write!(out, "{}", letter.escape_default())).into_owned()
}

/// Escapes characters that a terminal acts on, in a text of several lines.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t');
    escaped(text, is_unsafe, |letter, out| write!(out, "{}", letter.escape_default()))
}

/// Replaces characters that a terminal acts on by JSON escapes. The values in the JSON text stay the same.
pub(crate) fn in_json(json: &str) -> Cow<'_, str> {
    let is_unsafe = |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t' | '\r');
    escaped(json, is_unsafe, |letter, out| {
        letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
    })
}

/// Returns a value as JSON, without characters that a terminal acts on.
pub(crate) fn to_json(value: &(impl serde::Serialize + ?Sized)) -> String {
    // Texts, numbers, and structures of them can always be written.
    in_json(&serde_json::to_string(value).unwrap_or_default()).into_owned()
}

fn escaped(
    text: &str,
    is_unsafe: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        // Writing to a String can't fail.
        let _ = if is_unsafe(letter) { escape(letter, &mut out) } else { out.write_char(letter) };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_acts_on_a_terminal() {
        let text = "a\u{1b}[31m\u{7}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{85}\u{e0041}ä\u{5d0}\tb\nc";
        assert_eq!(
            printable(text),
            "a\\u{1b}[31m\\u{7}\\u{9b}2J\\u{202e}\\u{2066}\\u{200f}\\u{85}\\u{e0041}ä\u{5d0}\tb\nc"
        );
        assert!(one_line(text).ends_with("ä\u{5d0}\\tb\\nc"));
        let json = to_json(text);
        assert!(!json.contains(is_unsafe));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
