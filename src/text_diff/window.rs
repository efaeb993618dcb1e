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

/// The lines of a text that are not compared yet.
pub(super) struct Rest<'t> {
    text: &'t [u8],
    /// Place of these lines in the text.
    range: Range<usize>,
}

impl<'t> Rest<'t> {
    /// Returns the bytes in a range of a text; none if it does not have them.
    pub(super) fn new(text: &'t [u8], range: Range<usize>) -> Self {
        let range = if text.get(range.clone()).is_some() { range } else { 0..0 };
        Self { text, range }
    }

    fn lines(&self) -> impl Iterator<Item = &'t [u8]> {
        lines(self.text.get(self.range.clone()).unwrap_or_default())
    }
}

/// The next lines of both texts, at most [`WINDOW`] of each, which are compared with each other.
pub(super) struct DiffWindow<'t> {
    /// Maximum number of lines of each text.
    limit: usize,
    input: InternedInput<&'t [u8]>,
    pub(super) old: Side,
    pub(super) new: Side,
}

/// The places of the lines of one text: the offsets of their starts, followed by the offset at which the last line
/// ends.
pub(super) struct Side {
    offsets: Vec<usize>,
    is_whole: bool,
}

impl Side {
    fn new(rest: &Rest<'_>, limit: usize) -> Self {
        let mut at = rest.range.start;
        let mut offsets = vec![at];
        for line in rest.lines().take(limit) {
            at += line.len();
            offsets.push(at);
        }
        Self { offsets, is_whole: at == rest.range.end }
    }

    /// Returns the number of lines.
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the offset of a line of the window in the text.
    pub(super) fn offset(&self, line: usize) -> usize {
        self.offsets.get(line).or(self.offsets.last()).copied().unwrap_or(0)
    }
}

impl<'t> DiffWindow<'t> {
    /// Creates the window of the first lines of each rest.
    pub(super) fn new(old: &Rest<'t>, new: &Rest<'t>) -> Self {
        let mut input = InternedInput::default();
        input.update_before(old.lines().take(WINDOW));
        input.update_after(new.lines().take(WINDOW));
        let count = input.before.len() + input.after.len();
        let different = input.interner.num_tokens() as usize;
        let is_repeated = different.saturating_mul(REPEATED) < count;
        let limit = if is_repeated { REPEATED_WINDOW } else { WINDOW };
        input.before.truncate(limit);
        input.after.truncate(limit);
        Self { limit, input, old: Side::new(old, limit), new: Side::new(new, limit) }
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

    fn edits(&self) -> Vec<Edit> {
        let mut diff = Diff::compute(Algorithm::Histogram, &self.input);
        diff.postprocess_lines(&self.input);
        let range = |lines: Range<u32>| lines.start as usize..lines.end as usize;
        diff.hunks().map(|hunk| Edit { old: range(hunk.before), new: range(hunk.after) }).collect()
    }
}
