//! Text that was appended after the line `...` at the end of a tree.
//!
//! `echo 'note: checked' >> tree.yaml` writes after that line, where YAML has no more content. The user means
//! that the line `...` follows the appended text. The text is therefore joined before it is checked and
//! saved: inner lines `...` are removed. While a program has the file open, it still shows the text as it was
//! written; then it shows the saved text. If other programs had the file open, an editor may have read the text
//! meanwhile, and if it saves it, it writes the inner lines again. Each later text may then have as many inner
//! lines, until a text without inner lines is saved.
//!
//! In all other cases a line `...` within a tree is refused, since readers would lose the text after it.

use std::ops::Range;

/// A text without its inner lines `...`, and their number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) text: Vec<u8>,
    pub(crate) inner_ends: usize,
}

/// Joins a text; `None` if it has no line `...` except at its end, or more than `most` inner ones.
pub(crate) fn join(text: &[u8], most: usize) -> Option<Joined> {
    let inner_ends: Vec<Range<usize>> =
        ends(text).filter(|line| line.end < text.len()).take(most + 1).collect();
    if inner_ends.is_empty() || inner_ends.len() > most {
        return None;
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut from = 0;
    for line in &inner_ends {
        joined.extend_from_slice(&text[from..line.start]);
        from = line.end;
    }
    joined.extend_from_slice(&text[from..]);
    Some(Joined { text: joined, inner_ends: inner_ends.len() })
}

/// Iterates over the lines `...`, including their line breaks.
fn ends(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    memchr::memmem::find_iter(text, b"...").filter_map(|start| {
        let begins = start == 0 || text[start - 1] == b'\n';
        let rest = &text[start + 3..];
        let newline = [&b"\n"[..], b"\r\n"].into_iter().find(|newline| rest.starts_with(newline))?;
        begins.then(|| start..start + 3 + newline.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str, most: usize) -> Option<(String, usize)> {
        join(text.as_bytes(), most).map(|joined| (String::from_utf8(joined.text).unwrap(), joined.inner_ends))
    }

    #[test]
    fn what_was_appended_comes_before_the_end() {
        for (text, whole) in [
            ("a: 1\n...\nb: 2\n", "a: 1\nb: 2\n"),
            ("a: 1\n...\nb: 2", "a: 1\nb: 2"),
            ("a: 1\r\n...\r\nb: 2\r\n...\r\n", "a: 1\r\nb: 2\r\n...\r\n"),
            ("...\nb: 2\n...\n", "b: 2\n...\n"),
            ("a: |\n  ...\n...\n\n", "a: |\n  ...\n\n"),
        ] {
            assert_eq!(joined(text, 1), Some((whole.to_owned(), 1)), "{text:?}");
            assert_eq!(joined(text, 0), None, "{text:?}");
        }
    }

    #[test]
    fn only_so_many_lines_are_seams() {
        let text = "a: 1\n...\nb: 2\n...\nc: 3\n...\n";
        assert_eq!(joined(text, 1), None);
        assert_eq!(joined(text, 2), Some(("a: 1\nb: 2\nc: 3\n...\n".to_owned(), 2)));
        assert_eq!(joined(text, 3), joined(text, 2));
    }

    #[test]
    fn a_text_without_a_seam_is_left_alone() {
        for text in ["", "...", "...\n", "a: 1\n...\n", "a: 1\n....\nb: 2\n", "a: 1\n... \nb\n", "x...\nb\n"]
        {
            assert_eq!(joined(text, 9), None, "{text:?}");
        }
    }
}
