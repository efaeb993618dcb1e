//! Checks for faults that would break the layout of the file, whatever the tree means. They are refused at
//! every level of checking.

use memchr::memmem;

use super::prologue::{Prologue, words};
use super::{Class, Draft, Fault};
use crate::asdf::head::MAX_TREE;
use crate::asdf::index;

/// Maximum length of a header line that is accepted; a usual one has a dozen bytes.
const MAX_HEADER_LINE: usize = 200;

/// Returns the faults in the start of a text that prevent normalizing it.
pub(super) fn before_normalizing(new: &[u8], old: &[u8]) -> Vec<Fault> {
    let save_as = "save it as UTF-8 without a byte order mark";
    let at_start = |what: &str, to_do: &str| vec![Fault::new(Some(0), what, to_do)];
    if new.len() as u64 > MAX_TREE {
        let what = format!("the text has {} bytes; a tree may have {MAX_TREE}", new.len());
        return vec![Fault { class: Class::TooLarge, ..Fault::of_all(what, "put large arrays into blocks") }];
    }
    match new {
        [] => return at_start("the text is empty", "write the tree's text"),
        [0xef, 0xbb, 0xbf, ..] => return at_start("the text begins with a byte order mark", save_as),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return at_start("the text is in UTF-16", save_as),
        _ => {}
    }
    header_line(new, old)
}

/// Compares the header lines. A missing one will be restored, a different or a later one is a fault.
fn header_line(new: &[u8], old: &[u8]) -> Vec<Fault> {
    let prologue = Prologue::of(new);
    let is = prologue.header;
    let was = Prologue::of(old).header;
    let first = &new[..memchr::memchr(b'\n', new).map_or(new.len(), |end| end + 1)];
    let old_line = was.as_ref().map_or(&b""[..], |line| &old[line.clone()]);
    let another = match &is {
        Some(line) => {
            words(&new[line.clone()]) != words(old_line) || line.len() > MAX_HEADER_LINE.max(old_line.len())
        }
        // The header line is misspelt rather than missing.
        None => {
            let begins =
                |word: &[u8]| first.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
            (begins(b"#ASDF") || begins(b"%ASDF"))
                && !first.starts_with(b"#ASDF_STANDARD")
                && !first.starts_with(index::MARKER)
        }
    };
    if another && was.is_some() {
        let old_line = String::from_utf8_lossy(old_line);
        let what = format!("the header line was changed; it was \"{}\"", old_line.trim_end());
        vec![Fault::new(
            Some(0),
            what,
            "restore the first line: it gives the version of the file's \
                                            layout",
        )]
    } else if is.is_none()
        && let Some(tree) = new.get(prologue.comments_end..)
        // Some tools write the header as a comment of the tree.
        && ![&b"---"[..], b"%"].iter().any(|start| tree.starts_with(start))
        && has_line(tree, old_line)
    {
        let what = format!(
            "there is text before the line \"{}\"",
            String::from_utf8_lossy(old_line.trim_ascii_end())
        );
        vec![Fault::new(Some(prologue.comments_end), what, "write it after the line ---")]
    } else {
        Vec::new()
    }
}

/// True if a line, which has its end, is not the first one of a text.
fn has_line(text: &[u8], line: &[u8]) -> bool {
    !line.is_empty() && memmem::find_iter(text, line).any(|at| at > 0 && text[at - 1] == b'\n')
}

/// Returns the faults in the normalized text.
pub(super) fn problems(draft: &Draft<'_, '_>) -> Vec<Fault> {
    let text = draft.text;
    let prologue = Prologue::of(text);
    let generation = prologue.generation(text);
    let mut problems = Vec::new();
    if let Some(at) = memchr::memchr(0, text) {
        let what = "the text contains a zero byte, which would end the tree";
        problems.push(draft.fault(
            at,
            what,
            "save it as UTF-8, and write \\0 in double quotes for a zero byte",
        ));
    }
    if let Some(at) = generation.find_magic(text) {
        let what = "the text contains the magic bytes of a block";
        problems.push(draft.fault(at, what, "remove them"));
    }
    // Only in a comment before the tree can the marker of the block index make readers miss the text after
    // it.
    let marker = memmem::find_iter(&text[..line_end(text, prologue.comments_end)], index::MARKER)
        .find(|at| *at == 0 || text[at - 1] == b'\n');
    if let Some(at) = marker {
        let what = "a line begins like the block index, with \"#ASDF BLOCK INDEX\"";
        problems.push(draft.fault(at, what, "reword this comment"));
    }
    if text.get(prologue.comments_end) == Some(&b' ') {
        let what = "the first line of the tree begins with a blank, which readers take for padding";
        problems.push(draft.fault(prologue.comments_end, what, "begin the tree with the line '%YAML 1.1'"));
    }
    problems.extend(early_end(draft, prologue.comments_end));
    problems
}

/// Returns a fault if a text has more conflict markers than the old one, which may be about them.
pub(super) fn conflicts(draft: &Draft<'_, '_>, old: usize) -> Vec<Fault> {
    let Some(at) = conflict_markers(draft.text).nth(old) else { return Vec::new() };
    let what = "a line begins with a conflict marker: a merge is not finished";
    let to_do = "keep one of the two versions, and remove the lines that begin with <<<<<<<, ||||||| and >>>>>>>, and the \
                 ======= between them; indent such a line if it belongs to a text";
    vec![draft.fault(at, what, to_do)]
}

/// Returns the offsets of the lines that begin with a conflict marker, as git, diff3 and others write it: seven
/// characters, then a blank or the end of the line; `=======` stands alone.
pub(super) fn conflict_markers(text: &[u8]) -> impl Iterator<Item = usize> {
    const MARKERS: [&[u8; 7]; 3] = [b"<<<<<<<", b"|||||||", b">>>>>>>"];
    let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|end| end + 1));
    lines.filter(|at| {
        let line = &text[*at..];
        let is_alone = line.starts_with(b"=======");
        let is_marker = is_alone || MARKERS.iter().any(|marker| line.starts_with(*marker));
        is_marker && matches!((line.get(7), is_alone), (None | Some(b'\r' | b'\n'), _) | (Some(b' '), false))
    })
}

fn line_end(text: &[u8], start: usize) -> usize {
    memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |end| start + end + 1)
}

/// Returns a fault if a line `...` is not the last one.
fn early_end(draft: &Draft<'_, '_>, tree: usize) -> Option<Fault> {
    let text = draft.text;
    // The line may be the first one of the tree.
    let from = tree.saturating_sub(1);
    for found in memmem::find_iter(&text[from..], b"\n...") {
        let at = from + found + 1;
        let rest = match &text[at + 3..] {
            [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => rest,
            _ => continue,
        };
        if rest.is_empty() {
            return None;
        }
        let what = "the tree would end at this line '...', and the text after it would be lost";
        let to_do = "move the new lines above the line '...', or indent the line, in a text in quotes";
        return Some(draft.fault(at, what, to_do));
    }
    None
}
