//! Restores the parts of a text that tools drop, without refusing it: the prologue, the last newline, `...`.

use std::borrow::Cow;
use std::ops::Range;

use super::prologue::Prologue;

/// A normalized text, and the places of its restored parts.
#[derive(Debug)]
pub(super) struct Normalized<'n> {
    pub(super) text: Cow<'n, [u8]>,
    /// The changes in the order of the text: the offset in the original text, the number of bytes replaced
    /// there, and the number of bytes that replace them.
    changes: Vec<(usize, usize, usize)>,
    /// Messages for the restored parts.
    pub(super) restored: Vec<String>,
}

impl Normalized<'_> {
    /// Converts an offset in the normalized text to the offset in the original text.
    pub(super) fn original(&self, offset: usize) -> usize {
        let mut added = 0;
        let mut taken = 0;
        for (at, removed, len) in &self.changes {
            if offset + taken < at + added {
                break;
            }
            if offset + taken < at + added + len {
                return *at;
            }
            (added, taken) = (added + len, taken + removed);
        }
        (offset + taken).saturating_sub(added)
    }
}

/// Pieces to insert into a text.
#[derive(Default)]
struct Insertions {
    /// The offset, the number of bytes replaced, and the piece.
    pieces: Vec<(usize, usize, Vec<u8>)>,
    restored: Vec<String>,
}

impl Insertions {
    fn add(&mut self, at: usize, piece: impl Into<Vec<u8>>, what: &str) {
        self.pieces.push((at, 0, piece.into()));
        self.restored.push(format!("{what} restored"));
    }

    fn into_normalized(mut self, text: &[u8]) -> Normalized<'_> {
        if self.pieces.is_empty() {
            return Normalized { text: Cow::Borrowed(text), changes: Vec::new(), restored: self.restored };
        }
        self.pieces.sort_by_key(|(at, ..)| *at);
        let mut normalized = Vec::with_capacity(text.len() + 1024);
        let mut from = 0;
        for (at, removed, piece) in &self.pieces {
            normalized.extend_from_slice(&text[from..*at]);
            normalized.extend_from_slice(piece);
            from = at + removed;
        }
        normalized.extend_from_slice(&text[from..]);
        let changes = self.pieces.iter().map(|(at, removed, piece)| (*at, *removed, piece.len())).collect();
        Normalized { text: Cow::Owned(normalized), changes, restored: self.restored }
    }
}

/// The start of an old text, from which lines are restored.
struct OldStart<'o> {
    text: &'o [u8],
    prologue: Prologue,
    /// The end of a restored line.
    eol: &'o [u8],
}

impl OldStart<'_> {
    /// Returns a line of the prologue with its end.
    fn line(&self, range: &Range<usize>) -> Vec<u8> {
        let mut line = self.text[range.clone()].to_vec();
        if !line.ends_with(b"\n") {
            line.extend_from_slice(self.eol);
        }
        line
    }
}

/// Restores the parts of the prologue `old`, the start of a text, that `new` lacks.
pub(super) fn normalize<'n>(new: &'n [u8], old: &[u8]) -> Normalized<'n> {
    let eol = Prologue::end_of_line(if old.contains(&b'\n') { old } else { new });
    let old = OldStart { text: old, prologue: Prologue::of(old), eol };
    let is = Prologue::of(new);
    let was = &old.prologue;
    let mut pieces = Insertions::default();
    let has_tree = is.has_tree(new);
    let whole_head_is_gone = is.header.is_none() && is.comments_end == 0;
    let after_header = is.header.as_ref().map_or(0, |header| header.end);
    if !has_tree && !new.is_empty() && !new.ends_with(b"\n") {
        pieces.add(new.len(), eol, "the last newline was missing and was");
    }
    if let (None, Some(header)) = (&is.header, &was.header) {
        pieces.add(0, old.line(header), "the header line was missing and was");
    }
    match (&is.standard, &was.standard) {
        _ if whole_head_is_gone => {
            let comments = was.header.as_ref().map_or(0, |header| header.end)..was.comments_end;
            if !comments.is_empty() {
                pieces.add(0, old.line(&comments), "the comments before the tree were missing and were");
            }
        }
        (None, Some(standard)) => {
            pieces.add(after_header, old.line(standard), "the line #ASDF_STANDARD was missing and was");
        }
        _ => {}
    }
    if has_tree {
        directives(&mut pieces, &is, &old);
        end(&mut pieces, new, eol);
    }
    pieces.into_normalized(new)
}

/// Restores the directives, and the line `---` after them.
fn directives(pieces: &mut Insertions, is: &Prologue, old: &OldStart<'_>) {
    let at = is.comments_end;
    let was = &old.prologue;
    let had_none = is.yaml.is_none() && is.tags.is_empty();
    if let (None, Some(yaml)) = (&is.yaml, &was.yaml) {
        pieces.add(at, old.line(yaml), "the line %YAML was missing and was");
    }
    let at = is.yaml.as_ref().map_or(at, |yaml| yaml.end);
    let mut any = was.yaml.is_some();
    // Directives without a line `---` after them are not valid YAML. Such a text stays invalid: no line %TAG
    // is added to it.
    let may_follow = had_none || is.document.is_some();
    for (handle, tag) in &was.tags {
        if !is.tags.iter().any(|(other, _)| other == handle) && may_follow {
            pieces.add(at, old.line(tag), "a line %TAG was missing and was");
            any = true;
        }
    }
    if any && had_none && is.document.is_none() {
        pieces.add(is.comments_end, [b"---", old.eol].concat(), "the line --- was missing and was");
    }
}

/// Restores the last newline and the line `...`.
fn end(pieces: &mut Insertions, new: &[u8], eol: &[u8]) {
    let what = "the last line '...' was missing and was";
    let newline = "the last newline was missing and was";
    if let Some(from) = behind_end(new) {
        return only_end(pieces, new, from, eol);
    }
    let end = new.len();
    let ends_with =
        |line: &[u8]| new.ends_with(line) && (end == line.len() || new[end - line.len() - 1] == b'\n');
    if ends_with(b"...\n") || ends_with(b"...\r\n") {
        return;
    }
    if ends_with(b"...") {
        pieces.add(end, eol, newline);
    } else if ends_with(b"...\r") {
        pieces.add(end, *b"\n", newline);
    } else if new.ends_with(b"\n") {
        pieces.add(end, [b"...", eol].concat(), what);
    } else if new.ends_with(b"\r") {
        pieces.add(end, [b"\n...", eol].concat(), what);
    } else {
        pieces.add(end, [eol, b"...", eol].concat(), what);
    }
}

/// Returns the start of the first line `...` after which only blank lines, comments and further lines `...`
/// follow; `None` if nothing follows it.
fn behind_end(text: &[u8]) -> Option<usize> {
    let mut from = text.len();
    let mut found = None;
    while from > 0 {
        let start = memchr::memrchr(b'\n', &text[..from - 1]).map_or(0, |end| end + 1);
        let line = &text[start..from];
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        match bare.trim_ascii() {
            _ if matches!(bare, b"..." | b"...\r") => found = Some(start),
            [] | [b'#', ..] => {}
            _ => break,
        }
        from = start;
    }
    let goes_on = |start: &usize| {
        memchr::memchr(b'\n', &text[*start..]).is_some_and(|end| start + end + 1 < text.len())
    };
    found.filter(goes_on)
}

/// Makes the line `...` at `from` the last one. Comments after it move before it, and blank lines are
/// removed.
fn only_end(pieces: &mut Insertions, new: &[u8], from: usize, eol: &[u8]) {
    let comments = new[from..].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut tail = Vec::new();
    // The comments are not indented: otherwise they could become part of a block scalar before them.
    for comment in comments.filter(|line| line.starts_with(b"#")) {
        tail.extend_from_slice(comment);
        tail.extend_from_slice(eol);
    }
    let what = if tail.is_empty() {
        "blank lines after the line '...' were removed"
    } else {
        "comments after the line '...' were moved before it"
    };
    tail.extend_from_slice(b"...");
    tail.extend_from_slice(eol);
    pieces.pieces.push((from, new.len() - from, tail));
    pieces.restored.push(what.to_owned());
}
