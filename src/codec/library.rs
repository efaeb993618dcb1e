//! Decoding by a library, from the start of a stream, step by step: the second opinion.

use std::fmt;
use std::sync::Arc;

use crate::content::Content;
use crate::decode::{Decoder, Sequential};
use crate::error::Result;

/// Begins to decode what is stored.
type Begin = fn(&Arc<dyn Content>) -> Result<Box<dyn Decoder>>;

/// The streams in what is stored, decoded by a library.
pub(super) struct Library {
    stored: Arc<dyn Content>,
    begin: Begin,
}

impl Library {
    /// The streams in `stored`, which `begin` begins to decode.
    pub(super) fn new(stored: Arc<dyn Content>, begin: Begin) -> Self {
        Self { stored, begin }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Library").field(&self.stored.len()).finish()
    }
}

impl Sequential for Library {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        (self.begin)(&self.stored)
    }
}

/// A decoder of which a library takes the steps, up to an end, which is kept.
pub(super) trait Steps: Send {
    /// Gives out bytes, or goes one step on towards them, or finds the end.
    fn step(&mut self, out: &mut [u8]) -> Result<usize>;

    /// How it ended, once it has.
    fn end(&self) -> Option<&Result<()>>;

    /// See [`Decoder::suspect`].
    fn suspect(&self) -> Option<u64>;

    /// See [`Decoder::weight`].
    fn weight(&self) -> u64;
}

impl<S: Steps> Decoder for S {
    /// The next bytes; once there are none any more, the end: 0, or the error, however often it is asked
    /// for.
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.end().is_none() {
            let given = self.step(out)?;
            if given > 0 {
                return Ok(given);
            }
        }
        self.end().cloned().unwrap_or(Ok(())).map(|()| 0)
    }

    fn suspect(&self) -> Option<u64> {
        Steps::suspect(self)
    }

    fn weight(&self) -> u64 {
        Steps::weight(self)
    }
}
