//! zlib (RFC 1950) through flate2, from the start of a stream: the second opinion.

use std::fmt;
use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};

use crate::codec::input::Input;
use crate::content::{Content, Decoder, Sequential, Suspect};
use crate::error::Result;

/// A zlib stream.
pub(super) struct Library(Arc<dyn Content>);

impl Library {
    /// The stream in `stored`.
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
        let input = Input::new(&self.0);
        Ok(Box::new(Inflating { input, inflate: Decompress::new(true), end: None, suspect: None }))
    }
}

struct Inflating {
    input: Input,
    inflate: Decompress,
    /// How it ended.
    end: Option<Result<()>>,
    suspect: Option<Suspect>,
}

impl Inflating {
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            let input = self.input.fill()?;
            let (taken, given) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(input, out, FlushDecompress::None);
            let at_end = input.is_empty();
            let taken = self.inflate.total_in() - taken;
            let given = (self.inflate.total_out() - given) as usize;
            self.input.take(taken as usize);
            match status {
                Ok(Status::StreamEnd) => self.end = Some(Ok(())),
                Ok(_) if at_end && given == 0 => self.end = Some(Err(self.input.cut_off())),
                Ok(_) if taken == 0 && given == 0 => {
                    self.end = Some(Err(self.input.damaged("the zlib stream does not go on")));
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = match error.message() {
                        _ if error.needs_dictionary().is_some() => "it needs a dictionary",
                        Some(message) => message,
                        None => "it is not valid",
                    };
                    if reason == "incorrect data check" {
                        self.suspect = Some(Suspect::Unlocated);
                    }
                    self.end = Some(Err(self.input.damaged(format!("the zlib stream is broken: {reason}"))));
                }
            }
            if given > 0 || self.end.is_some() {
                return Ok(given);
            }
        }
    }
}

impl Decoder for Inflating {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.end.is_none() {
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
}
