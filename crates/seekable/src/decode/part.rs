//! A range of a decoded content as a content of its own, sharing the decoded data.

use std::sync::Arc;

use super::Decoded;
use crate::content::{Content, ContentWindow, SharedBytes, Soundness};
use crate::error::{Error, Result};

/// A range of a decoded content that reports the soundness of its own bytes.
#[derive(Debug)]
pub struct Part {
    whole: Arc<Decoded>,
    start: u64,
    window: ContentWindow,
}

impl Part {
    /// Creates the range of `len` bytes from `start` on, or fewer if the content ends earlier.
    pub fn new(whole: Arc<Decoded>, start: u64, len: u64) -> Self {
        Self { window: ContentWindow::new(whole.clone(), start, len), whole, start }
    }
}

impl Content for Part {
    fn len(&self) -> u64 {
        self.window.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.window.read_at(offset, buf)
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        self.window.share(offset, len, at_any_cost)
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        self.whole.soundness_of(self.start, self.start + self.len())
    }

    fn damage(&self) -> Option<Error> {
        match self.soundness() {
            Soundness::Broken(from) => self.whole.error_at(self.start + from),
            _ => None,
        }
    }
}
