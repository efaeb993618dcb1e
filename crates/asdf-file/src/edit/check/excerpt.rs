//! Cuts out the line around a place, to be shown with a caret below.

use seekable::error::is_unsafe;

use crate::edit::refusal::Excerpt;

/// Characters of a line that are shown.
const WIDTH: usize = 76;
/// Characters shown before the place if the line is cut.
const BEFORE: usize = 40;
/// The character that stands for omitted text.
const CUT: char = '…';
/// Columns from one tab stop to the next.
const TAB: usize = 8;
/// Bytes read on either side of the place: enough for the characters shown.
const REACH: usize = 4 * WIDTH;

#[cfg(test)]
thread_local! {
    /// The number of calls of [`at`] by this thread. Each counts lines from the start of the text.
    pub(super) static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns line and column of a byte, both from 1, and the excerpt there. Columns count characters.
pub(super) fn at(text: &[u8], offset: usize) -> (u64, u64, Excerpt) {
    #[cfg(test)]
    ASKED.with(|asked| asked.set(asked.get() + 1));
    let mut offset = offset.min(text.len());
    if offset > 0 && text[offset - 1] == b'\r' && text.get(offset) == Some(&b'\n') {
        offset -= 1;
    }
    let before = &text[..offset];
    let start = line_start(before);
    let line = line_breaks(&text[..start]) + 1;
    let column = characters(&before[start..]) as u64 + 1;
    (line, column, excerpt(text, start, offset))
}

/// Returns the start of the last line in `before`. A line ends with `\n`, `\r\n` or `\r`.
fn line_start(before: &[u8]) -> usize {
    memchr::memrchr2(b'\n', b'\r', before).map_or(0, |at| at + 1)
}

fn line_breaks(text: &[u8]) -> u64 {
    memchr::memchr2_iter(b'\n', b'\r', text)
        .filter(|at| !(text[*at] == b'\r' && text.get(at + 1) == Some(&b'\n')))
        .count() as u64
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count()
}

fn excerpt(text: &[u8], start: usize, offset: usize) -> Excerpt {
    // Only bytes near the place are read: the line may be as long as the text.
    let mut from = start.max(offset.saturating_sub(REACH));
    while from > start && from < offset && matches!(text[from], 0x80..=0xbf) {
        from += 1;
    }
    let tail = &text[offset..text.len().min(offset + REACH)];
    let tail = &tail[..memchr::memchr2(b'\n', b'\r', tail).unwrap_or(tail.len())];
    let ends_there = tail.len() < REACH;
    let mut shown: Vec<char> = Vec::new();
    let mut caret = 0;
    push(&mut shown, &text[from..offset]);
    caret += shown.len();
    push(&mut shown, tail);
    let first = if caret > BEFORE && shown.len() > WIDTH { caret - BEFORE } else { 0 };
    let last = shown.len().min(first + WIDTH);
    let mut line: String = shown[first..last].iter().collect();
    let cut_before = first > 0 || from > start;
    if cut_before {
        line.insert(0, CUT);
    }
    if last < shown.len() || !ends_there {
        line.push(CUT);
    }
    let caret = " ".repeat(caret - first + usize::from(cut_before)) + "^";
    Excerpt { line: line.trim_end().to_owned(), caret }
}

/// Adds text with tabs expanded and unsafe characters replaced.
fn push(shown: &mut Vec<char>, text: &[u8]) {
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '\t' => {
                let blanks = TAB - shown.len() % TAB;
                shown.extend(std::iter::repeat_n(' ', blanks));
            }
            character if is_unsafe(character) => shown.push('\u{fffd}'),
            character => shown.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place() {
        let text = "a: 1\r\n\täö: [\n".as_bytes();
        let (line, column, excerpt) = at(text, text.len() - 2);
        assert_eq!((line, column), (2, 6));
        assert_eq!(excerpt.line, "        äö: [");
        assert_eq!(excerpt.caret, "            ^");
        let (line, column, excerpt) = at(text, text.len());
        assert_eq!((line, column, excerpt.line.as_str(), excerpt.caret.as_str()), (3, 1, "", "^"));
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("x\n{}HERE{}\ny", "ä".repeat(5000), "b".repeat(5000));
        let at = at(text.as_bytes(), 2 + 10_000);
        assert_eq!((at.0, at.1), (2, 5001));
        let caret = at.2.caret.chars().count() - 1;
        assert_eq!(at.2.line.chars().skip(caret).take(4).collect::<String>(), "HERE");
        assert!(at.2.line.starts_with("…ä") && at.2.line.ends_with("b…"));
        assert!(at.2.line.chars().count() <= WIDTH + 2);
    }

    #[test]
    fn any_bytes_can_be_shown() {
        let text =
            [b"\xff\x00\x80\xe4\t\x1b[31m\xe2\x80\xae\xc2\x9b".as_slice(), &[0x80; 2000], b"\n\xf0\x9f"]
                .concat();
        for offset in 0..text.len() + 3 {
            let (_, _, excerpt) = at(&text, offset);
            assert!(!excerpt.line.chars().any(is_unsafe));
        }
    }
}
