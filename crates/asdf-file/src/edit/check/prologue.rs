//! The prologue, which precedes the first document of a text: header line, comments, directives.

use std::ops::Range;

use crate::asdf::header::Generation;

/// The comment that names the edition of the standard that the tree follows.
const STANDARD: &str = "#ASDF_STANDARD";

/// The parts of a prologue as byte ranges of the text. The range of a line includes its end of line.
#[derive(Clone, Debug, Default)]
pub(super) struct Prologue {
    /// The line `#ASDF 1.0.0`.
    pub(super) header: Option<Range<usize>>,
    /// The end of the lines with `#` that follow the header line, or begin the text.
    pub(super) comments_end: usize,
    /// The line `#ASDF_STANDARD 1.6.0` in the comments.
    pub(super) standard: Option<Range<usize>>,
    /// The line `%YAML 1.1`.
    pub(super) yaml: Option<Range<usize>>,
    /// The lines `%TAG ! tag:stsci.edu:asdf/`, with their handles.
    pub(super) tags: Vec<(Vec<u8>, Range<usize>)>,
    /// The start of the line `---`.
    pub(super) document: Option<usize>,
}

/// Iterates over the lines of a text from `start` on, with their line ends.
fn lines(text: &[u8], start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = start;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let line = at..at + memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        at = line.end;
        Some(line)
    })
}

/// Returns the words of a line.
pub(super) fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

impl Prologue {
    /// Finds the parts of the prologue of `text`.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut prologue = Self::default();
        let mut lines = lines(text, 0).peekable();
        if let Some(first) = lines.peek().filter(|line| crate::asdf::head::recognises(&text[(*line).clone()]))
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

    /// True if a tree follows the comments.
    pub(super) fn has_tree(&self, text: &[u8]) -> bool {
        self.comments_end < text.len()
    }

    /// Returns the generation of the specification that the text follows. It is told apart only as far as a
    /// block's magic depends on it.
    pub(super) fn generation(&self, text: &[u8]) -> Generation {
        match text.first() {
            Some(b'%') if self.header.is_some() => Generation::Draft,
            _ => Generation::One,
        }
    }

    /// Returns the line end of the first line; `\n` if there is none.
    pub(super) fn end_of_line(text: &[u8]) -> &'static [u8] {
        match memchr::memchr(b'\n', text) {
            Some(at) if at > 0 && text[at - 1] == b'\r' => b"\r\n",
            _ => b"\n",
        }
    }

    /// Returns the first fault between header line and tree that Python asdf can't read, with its offset.
    ///
    /// Python asdf takes the first `%YAML` as the start of the tree, and requires all lines before it to be
    /// comments.
    pub(super) fn unreadable(&self, text: &[u8]) -> Option<(usize, &'static str)> {
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
            (
                start + tree,
                "a comment before the tree contains '%YAML', which readers take for the start of \
                            the tree",
            )
        })
    }
}
