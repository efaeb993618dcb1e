//! The items of runs, which are read from the text again.

use std::ops::Range;

use super::{Document, Id};
use crate::error::{Error, Result};
use crate::yaml::event::What;
use crate::yaml::read::each_event_in;

/// A run of items.
#[derive(Debug)]
pub(super) struct ScalarRun {
    /// The checkpoints; the first one is at the first item.
    pub(super) checkpoints: Range<usize>,
    /// The offset of the end of the last item.
    pub(super) end: u32,
    /// The column of the dashes, from 0, if the sequence is not in brackets.
    pub(super) dash: Option<u32>,
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
pub(crate) enum RunEvent<'t> {
    /// A plain scalar.
    Scalar(&'t str),
    SequenceStart,
    SequenceEnd,
}

impl Document {
    fn run(&self, id: Id) -> &ScalarRun {
        &self.runs[self.node(id).text.0 as usize]
    }

    /// Returns the number of pieces in which the items of a run are read. A piece has up to 4096 items and 128 KiB.
    pub(crate) fn piece_count(&self, run: Id) -> usize {
        self.run(run).checkpoints.len()
    }

    /// Passes the items of a piece of a run to `take`.
    ///
    /// # Errors
    ///
    /// `take` fails.
    pub(crate) fn read_piece(
        &self,
        id: Id,
        piece: usize,
        mut take: impl FnMut(RunEvent<'_>) -> Result<()>,
    ) -> Result<()> {
        let run = self.run(id);
        let checkpoints = &self.checkpoints[run.checkpoints.clone()];
        let Checkpoint { at, item } = checkpoints[piece];
        let next = Checkpoint { at: run.end, item: self.node(id).text.1 };
        let next = checkpoints.get(piece + 1).copied().unwrap_or(next);
        let mut left = next.item - item;
        let mut depth = 0_u32;
        each_event_in(self.sequence(run, at, next.at).as_bytes(), |event| -> Result<bool> {
            match event.what {
                What::Scalar { value, .. } if depth > 0 => take(RunEvent::Scalar(value))?,
                What::SequenceStart { .. } => {
                    depth += 1;
                    if depth == 1 {
                        return Ok(true);
                    }
                    take(RunEvent::SequenceStart)?;
                }
                What::SequenceEnd if depth > 1 => {
                    depth -= 1;
                    take(RunEvent::SequenceEnd)?;
                }
                _ => return Ok(true),
            }
            left -= u32::from(depth == 1);
            Ok(left > 0)
        })?;
        if left > 0 {
            return Err(Error::damaged("a sequence of the tree can't be read in pieces"));
        }
        Ok(())
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
