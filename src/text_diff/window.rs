//! The comparison of a window of lines of each text, by imara-diff's histogram algorithm.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::{ChangedLines, WINDOW, lines};

/// Maximum number of lines of a window that has few different ones. imara-diff 0.2 compares each of them with all before
/// it (`should_prune_common_line` in its `myers/preprocess.rs`).
const REPEATED_WINDOW: usize = 1 << 13;
/// Lines for each different one from which on a window has few different ones.
const REPEATED: usize = 64;

/// Lines that differ, as numbers within the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    old: Range<usize>,
    new: Range<usize>,
}

/// The next lines of both texts, at most [`WINDOW`] of each, which are compared with each other.
pub(super) struct DiffWindow<'t> {
    /// Maximum number of lines of each text.
    limit: usize,
    input: InternedInput<&'t [u8]>,
    old: Side,
    new: Side,
}

/// The places of the lines of one text: the offsets of their starts, followed by the offset at which the last line
/// ends.
struct Side {
    offsets: Vec<usize>,
    is_whole: bool,
}

impl Side {
    fn new<'t>(lines: impl Iterator<Item = &'t [u8]>, rest: &Range<usize>) -> Self {
        let mut offsets = vec![rest.start];
        let mut at = rest.start;
        for line in lines {
            at += line.len();
            offsets.push(at);
        }
        Self { offsets, is_whole: at == rest.end }
    }

    /// Returns the number of lines.
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn offset(&self, line: usize) -> usize {
        self.offsets.get(line).or(self.offsets.last()).copied().unwrap_or(0)
    }
}

impl<'t> DiffWindow<'t> {
    /// Creates the window of the first lines in a range of each text.
    pub(super) fn new(old: (&'t [u8], Range<usize>), new: (&'t [u8], Range<usize>)) -> Self {
        let window = Self::limited(WINDOW, old.clone(), new.clone());
        let count = window.input.before.len() + window.input.after.len();
        let different = window.input.interner.num_tokens() as usize;
        if different.saturating_mul(REPEATED) < count {
            return Self::limited(REPEATED_WINDOW, old, new);
        }
        window
    }

    fn limited(
        limit: usize,
        (old, old_rest): (&'t [u8], Range<usize>),
        (new, new_rest): (&'t [u8], Range<usize>),
    ) -> Self {
        let first = |text: &'t [u8], rest: &Range<usize>| {
            lines(text.get(rest.clone()).unwrap_or_default()).take(limit)
        };
        let mut input = InternedInput::default();
        input.update_before(first(old, &old_rest));
        input.update_after(first(new, &new_rest));
        let old = Side::new(first(old, &old_rest), &old_rest);
        let new = Side::new(first(new, &new_rest), &new_rest);
        Self { limit, input, old, new }
    }

    /// Returns the edits in order, and how many lines of each text are done with. The next window begins
    /// after those lines.
    pub(super) fn compare(&self) -> (Vec<Edit>, (usize, usize)) {
        let all = (self.old.len(), self.new.len());
        let mut edits = self.edits();
        if self.old.is_whole && self.new.is_whole {
            return (edits, all);
        }
        // A line that seems changed at the end of the window may be equal to a line after the window.
        // The next window therefore begins with the last changed lines, unless it would hardly move on.
        match edits.last() {
            Some(last) if last.old.end == all.0 || last.new.end == all.1 => {
                let taken = (last.old.start, last.new.start);
                if taken.0 > self.limit / 2 || taken.1 > self.limit / 2 {
                    edits.pop();
                    return (edits, taken);
                }
                (edits, all)
            }
            _ => (edits, all),
        }
    }

    /// Returns an edit as a change; `lines` are the numbers of the first lines of the window.
    pub(super) fn change(&self, edit: &Edit, lines: (u64, u64)) -> ChangedLines {
        ChangedLines {
            old: self.old.offset(edit.old.start)..self.old.offset(edit.old.end),
            new: self.new.offset(edit.new.start)..self.new.offset(edit.new.end),
            old_line: lines.0 + edit.old.start as u64,
            new_line: lines.1 + edit.new.start as u64,
            removed: edit.old.len() as u64,
            added: edit.new.len() as u64,
        }
    }

    /// Returns the offset in the old text of a line of the window.
    pub(super) fn old_offset(&self, line: usize) -> usize {
        self.old.offset(line)
    }

    /// Returns the offset in the new text of a line of the window.
    pub(super) fn new_offset(&self, line: usize) -> usize {
        self.new.offset(line)
    }

    fn edits(&self) -> Vec<Edit> {
        let mut diff = Diff::compute(Algorithm::Histogram, &self.input);
        diff.postprocess_lines(&self.input);
        let range = |lines: Range<u32>| lines.start as usize..lines.end as usize;
        diff.hunks().map(|hunk| Edit { old: range(hunk.before), new: range(hunk.after) }).collect()
    }
}
