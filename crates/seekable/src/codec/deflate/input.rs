//! The compressed bytes, read in bounded pieces.

use std::fmt;

use crate::content::Content;
use crate::error::Error;

/// Compressed bytes read at a time: enough that a read costs little compared with decoding, and few enough
/// that a short read in the block does not wait for bytes it won't use.
const PIECE: usize = 64 << 10;

/// A window of the compressed bytes that moves with the decoder.
///
/// It keeps bytes between calls, so each call must be given the same content.
#[derive(Default)]
pub(super) struct Input {
    /// Empty before the first use, then of fixed length.
    buffer: Vec<u8>,
    /// Offset of the buffer in the content.
    start: u64,
    /// Number of bytes of the buffer that are filled.
    filled: usize,
    /// The error of the last read, if it failed.
    error: Option<Error>,
}

impl Input {
    /// Forgets what was read, so that another content can be read.
    pub(super) fn clear(&mut self) {
        (self.start, self.filled, self.error) = (0, 0, None);
    }

    /// Returns the buffered bytes from `at` on: at least `wanted` of them, or all up to the end of the
    /// content. `wanted` is at most a page.
    #[inline]
    pub(super) fn from(&mut self, stored: &dyn Content, at: u64, wanted: usize) -> &[u8] {
        let ahead = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match ahead {
            Some(skip) if skip.saturating_add(wanted) <= self.filled => &self.buffer[skip..self.filled],
            _ => self.fill(stored, at, wanted),
        }
    }

    /// Moves the window to `at` and fills it.
    fn fill(&mut self, stored: &dyn Content, at: u64, wanted: usize) -> &[u8] {
        if self.buffer.is_empty() {
            self.buffer.resize(PIECE, 0);
        }
        let kept = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match kept.filter(|&skip| skip < self.filled) {
            Some(skip) => {
                self.buffer.copy_within(skip..self.filled, 0);
                self.filled -= skip;
            }
            None => self.filled = 0,
        }
        self.start = at;
        self.error = None;
        while self.filled < wanted {
            let next = at.saturating_add(self.filled as u64);
            if next >= stored.len() {
                break;
            }
            match stored.read_at(next, &mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        &self.buffer[..self.filled]
    }

    /// Takes the error for which the last call returned fewer bytes than wanted; `None` if the content has
    /// ended.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Input").field("start", &self.start).field("filled", &self.filled).finish()
    }
}
