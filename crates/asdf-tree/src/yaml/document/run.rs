//! The items of runs, which are read from the text again.

use std::ops::Range;

use super::{Document, Id};
use crate::yaml::event::{Event, Mark, What};
use crate::yaml::read::each_event_in;
use seekable::error::{Error, Result};

/// A run of items.
#[derive(Debug)]
pub(super) struct ScalarRun {
    /// The checkpoints; the first one is at the first item.
    pub(super) checkpoints: Range<usize>,
    /// The offset of the end of the last item.
    pub(super) end: u32,
    /// The column of the dashes, from 0, if the sequence is not in brackets.
    pub(super) dash: Option<u32>,
    /// True if all scalars are decimal numbers that mean the same to the readers of each YAML version.
    pub(super) is_decimal: bool,
    /// The levels of sequences within the items.
    pub(super) levels: u32,
}

/// An item of a run, from which on the run can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    /// The offset of the item.
    pub(super) at: u32,
    /// The number of the item in the run, from 0.
    pub(super) item: u32,
}

/// An item of a run, or the beginning or the end of one that is a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent<'t> {
    /// A plain scalar.
    Scalar(&'t str),
    /// The beginning of a sequence.
    SequenceStart,
    /// The end of a sequence.
    SequenceEnd,
}

impl Document {
    fn run(&self, id: Id) -> &ScalarRun {
        &self.runs[self.node(id).text.0 as usize]
    }

    /// True if all scalars of a run are decimal numbers that mean the same to the readers of each YAML version.
    pub fn is_decimal(&self, run: Id) -> bool {
        self.run(run).is_decimal
    }

    /// Returns the levels of sequences within the items of a run.
    pub fn levels_in(&self, run: Id) -> usize {
        self.run(run).levels as usize
    }

    /// Returns the number of pieces in which the items of a run are read. A piece has up to 4096 items and 128 KiB.
    pub fn piece_count(&self, run: Id) -> usize {
        self.run(run).checkpoints.len()
    }

    /// Passes the items of a piece of a run to `take`.
    ///
    /// # Errors
    ///
    /// `take` fails.
    pub fn read_piece(
        &self,
        run: Id,
        piece: usize,
        mut take: impl FnMut(RunEvent<'_>) -> Result<()>,
    ) -> Result<()> {
        let (text, count) = self.text_of_piece(run, piece);
        let mut has_begun = false;
        each_event_of_items(&text, count, |event| {
            let is_item = std::mem::replace(&mut has_begun, true);
            run_event(event).filter(|_| is_item).map_or(Ok(()), &mut take)
        })
    }

    /// Passes the items of a run to `take` with their places; `mark` is that of the run.
    ///
    /// # Errors
    ///
    /// `take` fails.
    pub fn read_run(
        &self,
        id: Id,
        mark: Mark,
        mut take: impl FnMut(RunEvent<'_>, Mark) -> Result<()>,
    ) -> Result<()> {
        let run = self.run(id);
        let mut cursor = self.cursor(mark);
        for (number, checkpoint) in self.checkpoints[run.checkpoints.clone()].iter().enumerate() {
            let start = cursor.mark(u64::from(checkpoint.at));
            let (text, count) = self.text_of_piece(id, number);
            // A sequence that is not in brackets has a dash in a line of its own before.
            let (line, before) = match run.dash {
                None => (1, 1),
                Some(dash) => (2, u64::from(dash) + 1 + start.column),
            };
            let place = |mark: Mark| Mark {
                offset: mark.offset + start.offset - before,
                line: mark.line + start.line - line,
                column: if mark.line == line && line == 1 {
                    mark.column + start.column - 2
                } else {
                    mark.column
                },
            };
            let mut has_begun = false;
            each_event_of_items(&text, count, |event| {
                let is_item = std::mem::replace(&mut has_begun, true);
                match run_event(event).filter(|_| is_item) {
                    Some(item) => take(item, place(event.start)),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Returns a text that begins with the items of a piece, as a sequence, and their number.
    pub(super) fn text_of_piece(&self, id: Id, piece: usize) -> (String, u32) {
        let run = self.run(id);
        let checkpoints = &self.checkpoints[run.checkpoints.clone()];
        let Checkpoint { at, item } = checkpoints[piece];
        let next = Checkpoint { at: run.end, item: self.node(id).text.1 };
        let next = checkpoints.get(piece + 1).copied().unwrap_or(next);
        (self.sequence(run, at, next.at), next.item - item)
    }

    /// Returns a range of a sequence as a sequence of its own, in which all columns are the same. It begins with an item,
    /// and may end with the dash of the next one.
    fn sequence(&self, run: &ScalarRun, at: u32, end: u32) -> String {
        let items = &self.text[at as usize..end as usize];
        let Some(dash) = run.dash else { return format!("[{items}]") };
        // The item has a line of its own, as it may begin in the column after the dash.
        let dash = dash as usize;
        let column = self.column(at as usize);
        format!("{:dash$}-\n{:column$}{items}", "", "")
    }
}

fn run_event<'e>(event: &Event<'e>) -> Option<RunEvent<'e>> {
    match event.what {
        What::Scalar { value, .. } => Some(RunEvent::Scalar(value)),
        What::SequenceStart { .. } => Some(RunEvent::SequenceStart),
        What::SequenceEnd => Some(RunEvent::SequenceEnd),
        _ => None,
    }
}

/// Passes the events of a sequence with this number of items to `take`, without its end.
pub(super) fn each_event_of_items(
    text: &str,
    count: u32,
    mut take: impl FnMut(&Event<'_>) -> Result<()>,
) -> Result<()> {
    let mut left = count;
    let mut depth = 0_u32;
    each_event_in(text.as_bytes(), |event| -> Result<bool> {
        let before = depth;
        match event.what {
            What::Scalar { .. } => {}
            What::SequenceStart { .. } => depth += 1,
            What::SequenceEnd => depth = depth.saturating_sub(1),
            _ => return Ok(true),
        }
        take(event)?;
        left -= u32::from(depth == 1 && before > 0);
        Ok(left > 0)
    })?;
    if left > 0 {
        return Err(Error::damaged("a sequence of the tree can't be read in pieces"));
    }
    Ok(())
}
