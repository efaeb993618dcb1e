//! The caller's buffer, which holds the output before a position and room for the output after it.

use super::fault::Reason;
use super::symbol::OutputSymbol;

/// A buffer that is filled from the front.
#[derive(Debug)]
pub(super) struct OutputBuffer<'a, S> {
    /// The output so far (the last 32 KiB or all of it), then room for more.
    pub(super) items: &'a mut [S],
    /// Number of items in the output so far.
    pub(super) filled: usize,
}

/// A match, or the part of it that did not fit into the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Match {
    /// Number of items to copy; 0 if there is no match.
    pub(super) length: usize,
    /// Distance from the copy back to its source, in items.
    pub(super) distance: usize,
}

impl<S: OutputSymbol> OutputBuffer<'_, S> {
    /// Copies as many items of a match as fit. Returns the rest of the match.
    pub(super) fn copy(&mut self, found: Match) -> Result<Match, Reason> {
        let Match { length, distance } = found;
        if distance > self.filled {
            return Err(Reason::TooFar);
        }
        let now = length.min(self.items.len() - self.filled);
        for at in self.filled..self.filled + now {
            self.items[at] = self.items[at - distance];
        }
        self.filled += now;
        Ok(Match { length: length - now, distance })
    }
}
