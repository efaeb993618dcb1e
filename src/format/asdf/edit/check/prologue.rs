//! What stands before the first document of a text: header line, comments, directives.

use std::ops::Range;

use crate::format::asdf::header::Generation;

/// The comment that says by which edition of the standard the tree was written.
const STANDARD: &str = "#ASDF_STANDARD";

/// Where the parts of a prologue are, in bytes from the start of the text. A line's range has its end
/// of line.
#[derive(Clone, Debug, Default)]
pub(super) struct Prologue {
    /// The line `#ASDF 1.0.0`.
    pub(super) header: Option<Range<usize>>,
    /// The end of the lines with `#` that follow it, or that the text begins with.
    pub(super) comments_end: usize,
    /// The line `#ASDF_STANDARD 1.6.0` among them.
    pub(super) standard: Option<Range<usize>>,
    /// The line `%YAML 1.1`.
    pub(super) yaml: Option<Range<usize>>,
    /// The lines `%TAG ! tag:stsci.edu:asdf/`, by their handle.
    pub(super) tags: Vec<(Vec<u8>, Range<usize>)>,
    /// Where the line `---` begins.
    pub(super) document: Option<usize>,
}

/// The lines of a text from `start` on, with their ends.
fn lines(text: &[u8], start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = start;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let line = at..at + memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        at = line.end;
        Some(line)
    })
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

impl Prologue {
    /// Finds the parts of the prologue of `text`.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut prologue = Self::default();
        let mut lines = lines(text, 0).peekable();
        if let Some(first) =
            lines.peek().filter(|line| crate::format::asdf::recognises(&text[(*line).clone()]))
        {
            prologue.comments_end = first.end;
            prologue.header = lines.next();
        }
        while let Some(line) = lines.next_if(|line| text[line.clone()].starts_with(b"#")) {
            prologue.comments_end = line.end;
            if words(&text[line.clone()]).first() == Some(&STANDARD.as_bytes()) {
                prologue.standard.get_or_insert(line);
            }
        }
        for line in lines {
            let words = words(&text[line.clone()]);
            match words.as_slice() {
                [] => {}
                [word, ..] if word.starts_with(b"#") => {}
                [b"%YAML", ..] => prologue.yaml = Some(prologue.yaml.unwrap_or(line)),
                [b"%TAG", handle, ..] => prologue.tags.push((handle.to_vec(), line)),
                [word, ..] if word.starts_with(b"%") => {}
                [b"---", ..] if text[line.clone()].starts_with(b"---") => {
                    prologue.document = Some(line.start);
                    break;
                }
                _ => break,
            }
        }
        prologue
    }

    /// Whether a tree follows the comments.
    pub(super) fn has_tree(&self, text: &[u8]) -> bool {
        self.comments_end < text.len()
    }

    /// Which of the three documents the text follows, as far as a block's magic goes.
    pub(super) fn generation(&self, text: &[u8]) -> Generation {
        match text.first() {
            Some(b'%') if self.header.is_some() => Generation::Draft,
            _ => Generation::One,
        }
    }

    /// The end of line that the first line has; `\n` if there is none.
    pub(super) fn end_of_line(text: &[u8]) -> &'static [u8] {
        match memchr::memchr(b'\n', text) {
            Some(at) if at > 0 && text[at - 1] == b'\r' => b"\r\n",
            _ => b"\n",
        }
    }

    /// The first thing between header line and tree that Python asdf can't read: where, and what.
    ///
    /// Python asdf takes the first `%YAML` as the start of the tree, and all lines before it as comments.
    pub(super) fn foreign(&self, text: &[u8]) -> Option<(usize, &'static str)> {
        let start = self.header.as_ref().map_or(0, |header| header.end);
        let rest = text.get(start..)?;
        let tree = memchr::memmem::find(rest, b"%YAML");
        let before = &rest[..tree.unwrap_or(rest.len())];
        let mut at = 0;
        for line in before.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let after_cr = at > 0 && before[at - 1] == b'\r';
            let rest_of_a_line_end = after_cr && line == b"\n";
            if !line.starts_with(b"#") && !rest_of_a_line_end {
                let what = match tree {
                    Some(_) => "only lines that begin with '#' may stand between the header line and '%YAML'",
                    None => "the tree does not begin with a line '%YAML 1.1'",
                };
                return Some((start + at, what));
            }
            at += line.len();
        }
        let inside = tree.filter(|tree| *tree > 0 && !matches!(rest[tree - 1], b'\n' | b'\r'));
        inside.map(|tree| {
            (start + tree, "a comment before the tree holds '%YAML', which readers take for its begin")
        })
    }
}
