//! bzip2 through the `bzip2` crate, from the start of a stream: the second opinion.
//!
//! The library checks a block's CRC after it gave the block out. So that the error can say which bytes
//! are in doubt, it is called in two ways in turn: with input and no room for output, which decodes
//! one block, and with room and no input, which gives it out and checks it. Bytes after the last
//! stream that do not begin another one are not looked at, as with Python and `bunzip2`.

use std::fmt;
use std::sync::Arc;

use ::bzip2::{Decompress, Status};

use crate::codec::input::Input;
use crate::content::{Content, Decoder, Sequential, Suspect};
use crate::error::{Error, Result};

/// bzip2 streams, one after the other.
pub(super) struct Library(Arc<dyn Content>);

impl Library {
    /// The streams in `stored`.
    pub(super) fn new(stored: Arc<dyn Content>) -> Self {
        Self(stored)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Library").field(&self.0.len()).finish()
    }
}

impl Sequential for Library {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(Unzipping {
            input: Input::new(&self.0),
            stream: None,
            streams: 0,
            given: 0,
            block: 0,
            giving: false,
            end: None,
            suspect: None,
        }))
    }
}

struct Unzipping {
    input: Input,
    stream: Option<Decompress>,
    /// Streams that were ended in order.
    streams: u64,
    /// Bytes given out.
    given: u64,
    /// Where the block that is given out began.
    block: u64,
    /// There may be bytes of a decoded block to give out.
    giving: bool,
    /// How it ended.
    end: Option<Result<()>>,
    suspect: Option<Suspect>,
}

impl Unzipping {
    /// Gives out bytes, or goes one step on towards them.
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(stream) = &mut self.stream else {
            self.begin()?;
            return Ok(0);
        };
        if self.giving {
            let before = stream.total_out();
            let status = stream.decompress(&[], out);
            let given = stream.total_out() - before;
            if status.is_err() {
                self.suspect = Some(Suspect::From(self.block));
                self.end = Some(Err(self.input.damaged("the CRC of a bzip2 block is wrong")));
                return Ok(0);
            }
            self.giving = given > 0;
            self.given += given;
            return Ok(given as usize);
        }
        self.block = self.given;
        let input = self.input.fill()?;
        if input.is_empty() {
            self.end = Some(Err(self.input.cut_off()));
            return Ok(0);
        }
        let before = stream.total_in();
        let status = stream.decompress(input, &mut []);
        let taken = stream.total_in() - before;
        self.input.take(taken as usize);
        match status {
            Ok(Status::StreamEnd) => {
                self.stream = None;
                self.streams += 1;
            }
            Ok(_) => self.giving = true,
            Err(error) => self.end = Some(Err(self.broken(&error.to_string()))),
        }
        Ok(0)
    }

    /// Begins with the next stream, if there is one.
    fn begin(&mut self) -> Result<()> {
        let magic = self.input.magic()?;
        if magic.starts_with(b"BZh") && matches!(magic[3], b'1'..=b'9') {
            self.stream = Some(Decompress::new(false));
        } else if self.streams > 0 {
            self.end = Some(Ok(()));
        } else if self.input.is_at_end() {
            self.end = Some(Err(self.input.cut_off()));
        } else {
            self.end = Some(Err(self.broken("it does not begin with BZh")));
        }
        Ok(())
    }

    fn broken(&self, reason: &str) -> Error {
        let reason = reason.trim_start_matches("bzip2: ");
        self.input.damaged(format!("the bzip2 stream is broken: {reason}"))
    }
}

impl Decoder for Unzipping {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.end.is_none() {
            let given = self.step(out)?;
            if given > 0 {
                return Ok(given);
            }
        }
        self.end.clone().unwrap_or(Ok(())).map(|()| 0)
    }

    fn suspect(&self) -> Option<Suspect> {
        self.suspect
    }

    fn weight(&self) -> u64 {
        4 << 20
    }
}
