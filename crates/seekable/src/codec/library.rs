//! Decoding by a library, step by step from the start of a stream: the fallback where our decoder stops.

use std::fmt;
use std::sync::Arc;

use crate::content::Content;
use crate::decode::{Decoder, Sequential};
use crate::error::Result;

/// A function that begins to decode the stored bytes.
type Begin = fn(&Arc<dyn Content>) -> Result<Box<dyn Decoder>>;

/// The stored streams, decoded by a library.
pub(super) struct Library {
    stored: Arc<dyn Content>,
    begin: Begin,
}

impl Library {
    /// Returns the streams in `stored`; `begin` starts a decoder.
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

/// A decoder that runs a library step by step and remembers the end of the stream.
pub(super) trait Steps: Send {
    /// Makes one step and returns the number of bytes written to `out`. A step that only advances, or finds
    /// the end, returns 0.
    fn step(&mut self, out: &mut [u8]) -> Result<usize>;

    /// Returns the end of the stream once it is reached: `Ok`, or the error.
    fn end(&self) -> Option<&Result<()>>;

    /// Returns, after a checksum error, the decoded offset of the first byte in doubt ([`Decoder::suspect`]).
    fn suspect(&self) -> Option<u64>;

    /// Returns the approximate memory of an idle decoder in bytes ([`Decoder::weight`]).
    fn weight(&self) -> u64;
}

impl<S: Steps> Decoder for S {
    /// Returns the next bytes. After the last ones, each call returns the end: 0, or the error.
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
