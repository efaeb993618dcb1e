//! Unified diffs of two texts, in bounded memory and time.
//!
//! The lines that both texts begin or end with are skipped. The lines between are compared in windows of
//! [`WINDOW`] lines of each text (`text_diff/window.rs`), so that neither the memory nor the time for a line depends on
//! the length of the texts. The diff is always right, but not always the shortest one.

mod hunks;
mod window;

use std::io::{self, Write};
use std::ops::Range;

use hunks::Hunks;
use window::{DiffWindow, Rest};

/// Maximum lines of each text that are compared at once.
const WINDOW: usize = 1 << 16;

/// A run of lines of the old text, and the different lines that replace it in the new text. Each run is given
/// by the offsets of its bytes and by the number of its first line, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ChangedLines {
    old: Range<usize>,
    new: Range<usize>,
    old_line: u64,
    new_line: u64,
    /// Number of lines in the run of the old text; `added` is that of the new text.
    removed: u64,
    added: u64,
}

/// Writes the unified diff that turns `old` into `new`, under these names; nothing if the texts are equal.
/// Returns true if they differ.
///
/// # Errors
/// `out` can't be written.
pub(crate) fn write_unified(
    old: &[u8],
    new: &[u8],
    (old_name, new_name): (&str, &str),
    out: &mut impl Write,
) -> io::Result<bool> {
    if old == new {
        return Ok(false);
    }
    write!(out, "--- {old_name}\n+++ {new_name}\n")?;
    let mut hunks = Hunks::new(old, new, out);
    compare(old, new, &mut |change| hunks.add(change))?;
    hunks.finish()?;
    Ok(true)
}

/// Returns the numbers of lines that the diff from `old` to `new` removes and adds.
pub(crate) fn changed_lines(old: &[u8], new: &[u8]) -> (u64, u64) {
    let mut removed = 0;
    let mut added = 0;
    let counted = compare(old, new, &mut |change| {
        removed += change.removed;
        added += change.added;
        Ok(())
    });
    debug_assert!(counted.is_ok(), "nothing is written");
    (removed, added)
}

/// Passes the changes between two texts to `found`, in order. Adjacent changes are merged into one.
fn compare(old: &[u8], new: &[u8], found: &mut dyn FnMut(ChangedLines) -> io::Result<()>) -> io::Result<()> {
    let start = common_start(old, new);
    let end = common_end(old.get(start..).unwrap_or_default(), new.get(start..).unwrap_or_default());
    let line = count_lines(old.get(..start).unwrap_or_default());
    let mut here = (start, start);
    let mut lines = (line, line);
    let ends = (old.len() - end, new.len() - end);
    let mut pending: Option<ChangedLines> = None;
    while here.0 < ends.0 || here.1 < ends.1 {
        let window = DiffWindow::new(&Rest::new(old, here.0..ends.0), &Rest::new(new, here.1..ends.1));
        let (changes, taken) = window.compare();
        for change in changes {
            let change = window.change(&change, lines);
            match &mut pending {
                Some(last) if last.old.end == change.old.start && last.new.end == change.new.start => {
                    last.old.end = change.old.end;
                    last.new.end = change.new.end;
                    last.removed += change.removed;
                    last.added += change.added;
                }
                _ => {
                    if let Some(last) = pending.replace(change) {
                        found(last)?;
                    }
                }
            }
        }
        here = (window.old.offset(taken.0), window.new.offset(taken.1));
        lines = (lines.0 + taken.0 as u64, lines.1 + taken.1 as u64);
    }
    pending.map_or(Ok(()), found)
}

/// Returns the number of bytes in the whole lines that both texts begin with.
fn common_start(old: &[u8], new: &[u8]) -> usize {
    let equal = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    if equal == old.len() && equal == new.len() {
        return equal;
    }
    old.get(..equal).and_then(|same| same.iter().rposition(|&byte| byte == b'\n')).map_or(0, |at| at + 1)
}

/// Returns the number of bytes in the whole lines that both texts end with.
fn common_end(old: &[u8], new: &[u8]) -> usize {
    let equal = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    // The equal part may begin within a line.
    let begins = |text: &[u8]| equal == text.len() || text.get(text.len() - equal - 1) == Some(&b'\n');
    if begins(old) && begins(new) {
        return equal;
    }
    let same = old.get(old.len() - equal..).unwrap_or_default();
    same.iter().position(|&byte| byte == b'\n').map_or(0, |at| equal - at - 1)
}

fn count_lines(text: &[u8]) -> u64 {
    let breaks = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
    breaks + u64::from(text.last().is_some_and(|&byte| byte != b'\n'))
}

/// Splits a text after each line break.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unified(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        let differ = write_unified(old.as_bytes(), new.as_bytes(), ("a", "b"), &mut out).unwrap();
        assert_eq!(differ, old != new);
        String::from_utf8(out).unwrap()
    }

    /// Applies a unified diff, as patch(1) does, and checks every number in it.
    fn patched(old: &[u8], diff: &[u8]) -> Vec<u8> {
        let old: Vec<&[u8]> = lines(old).collect();
        let mut at = 0;
        let mut new = Vec::<Vec<u8>>::new();
        let mut added = 0;
        let mut rows = lines(diff).skip(2).peekable();
        while let Some(row) = rows.next() {
            let header = std::str::from_utf8(row).unwrap().trim_end();
            let header = header.strip_prefix("@@ -").unwrap().strip_suffix(" @@").unwrap();
            let (left, right) = header.split_once(" +").unwrap();
            let numbers = |side: &str| {
                let (start, count) = side.split_once(',').unwrap_or((side, "1"));
                let start: usize = start.parse().unwrap();
                let count: usize = count.parse().unwrap();
                (if count == 0 { start } else { start - 1 }, count)
            };
            let (start, mut removed) = numbers(left);
            let (new_start, mut inserted) = numbers(right);
            new.extend(old[at..start].iter().map(|line| line.to_vec()));
            at = start;
            assert_eq!(new.len(), new_start);
            while removed + inserted > 0 {
                let row = rows.next().unwrap();
                let mut line = row[1..].to_vec();
                if rows.peek().is_some_and(|next| next.starts_with(b"\\")) {
                    rows.next();
                    assert_eq!(line.pop(), Some(b'\n'));
                }
                let is_old = row[0] != b'+';
                let is_new = row[0] != b'-';
                if is_old {
                    assert_eq!(line, old[at]);
                    (at, removed) = (at + 1, removed - 1);
                }
                if is_new {
                    new.push(line);
                    inserted -= 1;
                }
                added += usize::from(is_new);
            }
        }
        let _ = added;
        new.extend(old[at..].iter().map(|line| line.to_vec()));
        new.concat()
    }

    #[test]
    fn a_changed_line_stands_between_three_lines_of_context() {
        let old: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let new = old.replace('5', "five");
        assert_eq!(unified(&old, &new), "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
    }

    #[test]
    fn an_empty_side_begins_at_line_0() {
        assert_eq!(unified("", "a\nb\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", ""), "--- a\n+++ b\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn a_missing_last_line_break_is_shown() {
        let note = "\\ No newline at end of file\n";
        assert_eq!(unified("a\nb", "a\nb\n"), format!("--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-b\n{note}+b\n"));
        assert_eq!(unified("a\nb", "c\nb"), format!("--- a\n+++ b\n@@ -1,2 +1,2 @@\n-a\n+c\n b\n{note}"));
    }

    #[test]
    fn near_changes_share_a_hunk_and_far_ones_do_not() {
        let old: Vec<String> = (0..20).map(|n| format!("{n}\n")).collect();
        let hunks = |second: usize| {
            let mut new = old.clone();
            new[3] = "x\n".into();
            new[second] = "y\n".into();
            unified(&old.concat(), &new.concat()).matches("@@ -").count()
        };
        assert_eq!((hunks(10), hunks(11)), (1, 2));
    }

    #[test]
    fn moved_lines_are_not_shown_as_a_rewrite() {
        let old: String = (0..200_000).map(|n| format!("key{n}: {n}\n")).collect();
        let new = old.replacen("key5: 5\n", "", 1).replace("key100000: ", "key100000: !x ") + "last: 1\n";
        let diff = unified(&old, &new);
        assert_eq!(diff.lines().filter(|line| line.starts_with(['+', '-'])).count(), 2 + 4, "{diff}");
        assert_eq!(patched(old.as_bytes(), diff.as_bytes()), new.as_bytes());
    }

    #[test]
    fn texts_of_repeated_lines_end() {
        let text = |seed: u64| {
            let mut state = seed;
            let mut text = Vec::new();
            for _ in 0..300_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.extend_from_slice(if state >> 63 == 0 { b"- 0\n" } else { b"- 1\n" });
            }
            text
        };
        let old = text(1);
        let new = text(2);
        let mut diff = Vec::new();
        assert!(write_unified(&old, &new, ("a", "b"), &mut diff).unwrap());
        assert_eq!(patched(&old, &diff), new);
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_one_text_to_the_other(old in "([abc]?\n){0,12}[ab]?", new in "([abc]?\n){0,12}[ab]?") {
            let mut diff = Vec::new();
            if write_unified(old.as_bytes(), new.as_bytes(), ("a", "b"), &mut diff).unwrap() {
                prop_assert_eq!(patched(old.as_bytes(), &diff), new.into_bytes());
            }
        }
    }
}
