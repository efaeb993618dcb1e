//! A range of a decoded content as a content of its own. Both share what is decoded.

use std::sync::Arc;

use super::Decoded;
use crate::content::{Content, Shared, Soundness};
use crate::error::{Error, Result};
use crate::source::RelocationLock;

/// A range of a decoded content.
#[derive(Debug)]
pub struct Part {
    whole: Arc<Decoded>,
    start: u64,
    len: u64,
}

impl Part {
    /// `len` bytes from `start` on, as many as there are.
    pub fn new(whole: Arc<Decoded>, start: u64, len: u64) -> Self {
        let len = len.min(whole.len().saturating_sub(start));
        Self { whole, start, len }
    }

    /// How much of `wanted` bytes at `offset` there is.
    fn there(&self, offset: u64, wanted: usize) -> usize {
        usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(wanted)
    }
}

impl Content for Part {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.there(offset, buf.len()) {
            0 => Ok(0),
            there => self.whole.read_at(self.start + offset, &mut buf[..there]),
        }
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<Shared> {
        match self.there(offset, len) {
            0 => None,
            there => self.whole.share(self.start + offset, there, at_any_cost),
        }
    }

    fn relocation_lock(&self) -> Option<RelocationLock> {
        self.whole.relocation_lock()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        self.whole.soundness_of(self.start, self.start + self.len)
    }

    fn trouble(&self) -> Option<Error> {
        match self.soundness() {
            Soundness::Broken(from) => self.whole.error_at(self.start + from),
            _ => None,
        }
    }
}
