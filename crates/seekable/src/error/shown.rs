//! Display of text from files.
//!
//! Names, keys and texts come from untrusted files. A control character in them can clear a terminal, forge a
//! log line or reverse the text direction. All text from files is displayed through this module.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// True if a terminal may act on the character: a control character, a Unicode mark or line break that
/// changes how the text around it is displayed, or an invisible tag.
pub fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes characters that a terminal acts on, including line breaks.
pub fn one_line(text: &str) -> String {
    escaped(text, is_unsafe, |letter, out| write!(out, "{}", letter.escape_default())).into_owned()
}

/// Escapes characters that a terminal acts on, in a text of several lines.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t');
    escaped(text, is_unsafe, |letter, out| write!(out, "{}", letter.escape_default()))
}

/// Returns a path as a word of a shell.
pub fn in_shell(path: &Path) -> String {
    let shown = one_line(&path.to_string_lossy());
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%,=".contains(letter);
    if shown.chars().all(is_plain) { shown } else { format!("'{}'", shown.replace('\'', "'\\''")) }
}

/// Replaces characters that a terminal acts on by JSON escapes. The values in the JSON text stay the same.
pub fn in_json(json: &str) -> Cow<'_, str> {
    let is_unsafe = |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t' | '\r');
    escaped(json, is_unsafe, |letter, out| {
        letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
    })
}

/// Returns a value as JSON, without characters that a terminal acts on.
pub fn to_json(value: &(impl serde::Serialize + ?Sized)) -> String {
    // Texts, numbers, and structures of them can always be written.
    in_json(&serde_json::to_string(value).unwrap_or_default()).into_owned()
}

/// The first and last characters of the blocks that terminals show two columns wide, and of those that have no column of
/// their own.
const WIDE: [(char, char); 14] = [
    ('\u{1100}', '\u{115f}'),
    ('\u{2e80}', '\u{303e}'),
    ('\u{3041}', '\u{33ff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{a4cf}'),
    ('\u{a960}', '\u{a97c}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff01}', '\u{ff60}'),
    ('\u{ffe0}', '\u{ffe6}'),
    ('\u{1f300}', '\u{1f64f}'),
    ('\u{1f680}', '\u{1faff}'),
    ('\u{20000}', '\u{3fffd}'),
];
const COMBINING: [(char, char); 9] = [
    ('\u{300}', '\u{36f}'),
    ('\u{483}', '\u{489}'),
    ('\u{591}', '\u{5bd}'),
    ('\u{610}', '\u{61a}'),
    ('\u{64b}', '\u{65f}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{20d0}', '\u{20f0}'),
    ('\u{200b}', '\u{200d}'),
    ('\u{fe00}', '\u{fe0f}'),
];

fn columns_of(letter: char) -> usize {
    let is_in =
        |blocks: &[(char, char)]| blocks.iter().any(|(first, last)| (*first..=*last).contains(&letter));
    if letter.is_ascii() {
        1
    } else if is_in(&COMBINING) {
        0
    } else {
        1 + usize::from(is_in(&WIDE))
    }
}

/// Returns the number of columns that a terminal shows a text in.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the beginning of a text, as much of it as a terminal shows in this number of columns.
pub fn beginning(text: &str, width: usize) -> &str {
    let mut room = width;
    let too_long = text.char_indices().find(|(_, letter)| match room.checked_sub(columns_of(*letter)) {
        Some(rest) => {
            room = rest;
            false
        }
        None => true,
    });
    too_long.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Returns a text with blanks up to this number of columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
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
        assert_eq!(in_shell(Path::new("/d/ä-1.asdf")), "/d/ä-1.asdf");
        assert_eq!(in_shell(Path::new("a b/it's")), r"'a b/it'\''s'");
        assert_eq!(in_shell(Path::new("$x;y")), "'$x;y'");
        let json = to_json(text);
        assert!(!json.contains(is_unsafe));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
