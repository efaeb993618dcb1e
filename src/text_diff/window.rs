//! The comparison of a window of lines of each text.
//!
//! Each pair of ranges is first stripped of the lines that both begin or end with. Lines that occur once in both
//! ranges are matched then ("patience diff"), and the ranges between them are compared in turn. Ranges without
//! such lines are compared by Myers' algorithm up to [`MAX_EDITS`] edits.

use std::collections::HashMap;
use std::ops::Range;

use super::{ChangedLines, WINDOW, lines};

/// Maximum edits that Myers' algorithm looks for in one pair of ranges.
const MAX_EDITS: usize = 256;

/// Lines that differ, as numbers within the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    old: Range<usize>,
    new: Range<usize>,
}

/// The next lines of both texts, at most [`WINDOW`] of each, which are compared with each other.
pub(super) struct DiffWindow {
    old: Side,
    new: Side,
}

/// The lines of one text: a number for each, equal for equal lines; and the offsets of the lines' starts,
/// followed by the offset at which the last line ends.
struct Side {
    lines: Vec<u32>,
    offsets: Vec<usize>,
    is_whole: bool,
}

impl Side {
    fn new<'t>(text: &'t [u8], rest: &Range<usize>, numbers: &mut HashMap<&'t [u8], u32>) -> Self {
        let mut side = Self { lines: Vec::new(), offsets: vec![rest.start], is_whole: false };
        let mut at = rest.start;
        for line in lines(text.get(rest.clone()).unwrap_or_default()).take(WINDOW) {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            side.lines.push(*numbers.entry(line).or_insert(next));
            at += line.len();
            side.offsets.push(at);
        }
        side.is_whole = at == rest.end;
        side
    }

    fn offset(&self, line: usize) -> usize {
        self.offsets.get(line).or(self.offsets.last()).copied().unwrap_or(0)
    }
}

impl DiffWindow {
    /// Creates the window of the first lines in a range of each text.
    pub(super) fn new(
        (old, old_rest): (&[u8], Range<usize>),
        (new, new_rest): (&[u8], Range<usize>),
    ) -> Self {
        let mut numbers = HashMap::new();
        Self { old: Side::new(old, &old_rest, &mut numbers), new: Side::new(new, &new_rest, &mut numbers) }
    }

    /// Returns the edits in order, and how many lines of each text are done with. The next window begins
    /// after those lines.
    pub(super) fn compare(&self, work: &mut u64) -> (Vec<Edit>, (usize, usize)) {
        let all = (self.old.lines.len(), self.new.lines.len());
        let mut edits = self.edits(work);
        if self.old.is_whole && self.new.is_whole {
            return (edits, all);
        }
        // A line that seems changed at the end of the window may be equal to a line after the window.
        // The next window therefore begins with the last changed lines, unless it would hardly move on.
        match edits.last() {
            Some(last) if last.old.end == all.0 || last.new.end == all.1 => {
                let taken = (last.old.start, last.new.start);
                if taken.0 > WINDOW / 2 || taken.1 > WINDOW / 2 {
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

    fn edits(&self, work: &mut u64) -> Vec<Edit> {
        let mut edits = Vec::new();
        // The ranges to compare, the first one last.
        let mut todo = vec![Edit { old: 0..self.old.lines.len(), new: 0..self.new.lines.len() }];
        while let Some(ranges) = todo.pop() {
            let Edit { old, new } = self.stripped(ranges);
            let cost = (old.len() + new.len()) as u64;
            if old.is_empty() && new.is_empty() {
                continue;
            }
            let affordable = *work > cost;
            *work = work.saturating_sub(cost);
            if old.is_empty() || new.is_empty() || !affordable {
                edits.push(Edit { old, new });
                continue;
            }
            let a = part(&self.old.lines, &old);
            let b = part(&self.new.lines, &new);
            let anchors = anchors(a, b);
            if anchors.is_empty() {
                let found =
                    myers(a, b, work).unwrap_or_else(|| vec![Edit { old: 0..a.len(), new: 0..b.len() }]);
                edits.extend(found.into_iter().map(|edit| Edit {
                    old: old.start + edit.old.start..old.start + edit.old.end,
                    new: new.start + edit.new.start..new.start + edit.new.end,
                }));
                continue;
            }
            let mut end = (old.end, new.end);
            for &(in_old, in_new) in anchors.iter().rev() {
                let anchor = (old.start + in_old, new.start + in_new);
                todo.push(Edit { old: anchor.0 + 1..end.0, new: anchor.1 + 1..end.1 });
                end = anchor;
            }
            todo.push(Edit { old: old.start..end.0, new: new.start..end.1 });
        }
        edits
    }

    /// Strips the equal lines at both ends.
    fn stripped(&self, Edit { old, new }: Edit) -> Edit {
        let a = part(&self.old.lines, &old);
        let b = part(&self.new.lines, &new);
        let start = a.iter().zip(b).take_while(|(left, right)| left == right).count();
        let a = a.get(start..).unwrap_or_default();
        let b = b.get(start..).unwrap_or_default();
        let end = a.iter().rev().zip(b.iter().rev()).take_while(|(left, right)| left == right).count();
        Edit { old: old.start + start..old.end - end, new: new.start + start..new.end - end }
    }
}

fn part<'l>(lines: &'l [u32], range: &Range<usize>) -> &'l [u32] {
    lines.get(range.clone()).unwrap_or_default()
}

/// Returns the indexes of lines that occur exactly once in `a` and exactly once in `b`: the longest list of
/// index pairs in which both indexes increase.
fn anchors(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    // For each line and each text: the number of occurrences (at most 2), and the last position.
    let mut places: HashMap<u32, [(u8, usize); 2]> = HashMap::new();
    for (side, lines) in [a, b].into_iter().enumerate() {
        for (at, line) in lines.iter().enumerate() {
            if let Some((count, place)) = places.entry(*line).or_default().get_mut(side) {
                (*count, *place) = ((*count + 1).min(2), at);
            }
        }
    }
    let pairs = a.iter().enumerate().filter_map(|(at, line)| match places.get(line) {
        Some([(1, _), (1, other)]) => Some((at, *other)),
        _ => None,
    });
    longest_rising(&pairs.collect::<Vec<_>>())
}

/// Returns the longest subsequence of pairs with increasing second numbers (patience sorting). The first
/// numbers increase already.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length: the index of the pair with the least second number that ends a subsequence this long.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    let second = |index: usize| pairs.get(index).map_or(0, |pair| pair.1);
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| second(end) < pair.1);
        if let Some(slot) = before.get_mut(index) {
            *slot = length.checked_sub(1).and_then(|shorter| ends.get(shorter).copied());
        }
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut rising = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        rising.extend(pairs.get(index).copied());
        next = before.get(index).copied().flatten();
    }
    rising.reverse();
    rising
}

/// Returns the shortest list of edits by Myers' greedy algorithm; `None` if it has more than [`MAX_EDITS`]
/// lines, or if `work`, the number of comparisons left, is used up.
fn myers(a: &[u32], b: &[u32], work: &mut u64) -> Option<Vec<Edit>> {
    let most = MAX_EDITS.min(a.len() + b.len());
    // The farthest line of `a` on each diagonal (line of `a` minus line of `b`), for each count of edits.
    // Diagonal k has the index k + middle.
    let middle = most + 1;
    let mut farthest = vec![0_usize; 2 * most + 3];
    let mut history: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=most {
        history.push(farthest.get(middle - edits..=middle + edits)?.to_vec());
        for step in 0..=edits {
            // With this many edits, every second diagonal from -edits to edits can be reached.
            let at = middle - edits + 2 * step;
            let down = came_down(&farthest, at, step, edits);
            let mut x = if down { *farthest.get(at + 1)? } else { farthest.get(at - 1)? + 1 };
            let start = x;
            let y = |x: usize| (x + middle).checked_sub(at);
            if edits == 0 {
                x = 0;
            }
            while y(x).is_some_and(|y| a.get(x).is_some_and(|line| b.get(y) == Some(line))) {
                x += 1;
            }
            *work = work.checked_sub((x.saturating_sub(start) + 1) as u64)?;
            *farthest.get_mut(at)? = x;
            if x >= a.len() && y(x).is_some_and(|y| y >= b.len()) {
                let found = traced(&history, edits, at, middle);
                debug_assert!(found.iter().all(|edit| edit.old.end <= a.len() && edit.new.end <= b.len()));
                return Some(found);
            }
        }
    }
    None
}

/// True if the path that reaches farthest on a diagonal ends with an added line, not a removed one.
fn came_down(farthest: &[usize], at: usize, step: usize, edits: usize) -> bool {
    step == 0 || step != edits && farthest.get(at - 1) < farthest.get(at + 1)
}

/// Follows the edits back from the end of both texts, and returns them in order.
fn traced(history: &[Vec<usize>], edits: usize, end: usize, middle: usize) -> Vec<Edit> {
    let mut found: Vec<Edit> = Vec::new();
    let mut at = end;
    for count in (1..=edits).rev() {
        let Some(row) = history.get(count) else { break };
        // The row was recorded before edit `count`. It begins at index middle - count.
        let first = middle - count;
        let value = |at: usize| at.checked_sub(first).and_then(|index| row.get(index)).copied();
        let step = (at - first) / 2;
        let down = step == 0 || step != count && value(at - 1) < value(at + 1);
        let previous = if down { at + 1 } else { at - 1 };
        let x = value(previous).unwrap_or(0);
        let y = (x + middle).saturating_sub(previous);
        let edit = if down { Edit { old: x..x, new: y..y + 1 } } else { Edit { old: x..x + 1, new: y..y } };
        match found.last_mut() {
            Some(next) if next.old.start == edit.old.end && next.new.start == edit.new.end => {
                next.old.start = edit.old.start;
                next.new.start = edit.new.start;
            }
            _ => found.push(edit),
        }
        at = previous;
    }
    found.reverse();
    found
}
