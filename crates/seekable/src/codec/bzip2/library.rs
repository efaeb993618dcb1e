//! bzip2 through the `bzip2` crate, from the start of a stream: the fallback where our decoder stops.
//!
//! The library checks a block's CRC only after it has given the block's bytes. The error should name the
//! doubtful bytes, so the library is called in two alternating ways: with input and no room for output, which
//! decodes one block, and with room and no input, which gives the block's bytes and checks them. Bytes after
//! the last stream that do not begin another one are ignored, as by Python and `bunzip2`.

use std::sync::Arc;

use ::bzip2::{Decompress, Status};

use crate::codec::input::Input;
use crate::codec::library::{Library, Steps};
use crate::content::Content;
use crate::error::{Error, Result};

/// Returns the bzip2 streams in `stored`, decoded by the library.
pub(super) fn library(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| {
        Ok(Box::new(Unzipping {
            input: Input::new(stored),
            stream: None,
            streams: 0,
            total_out: 0,
            block: 0,
            has_output: false,
            end: None,
            suspect: None,
        }))
    })
}

struct Unzipping {
    input: Input,
    stream: Option<Decompress>,
    /// Number of streams that ended without damage.
    streams: u64,
    /// Number of output bytes given.
    total_out: u64,
    /// Decoded offset of the current block.
    block: u64,
    /// True if output of a block may still come.
    has_output: bool,
    /// The end of the streams, once known.
    end: Option<Result<()>>,
    suspect: Option<u64>,
}

impl Unzipping {
    /// Begins the next stream, if there is one.
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

impl Steps for Unzipping {
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(stream) = &mut self.stream else {
            self.begin()?;
            return Ok(0);
        };
        if self.has_output {
            let before = stream.total_out();
            let status = stream.decompress(&[], out);
            let given = stream.total_out() - before;
            if status.is_err() {
                self.suspect = Some(self.block);
                self.end = Some(Err(self.input.damaged("the CRC of a bzip2 block is wrong")));
                return Ok(0);
            }
            self.has_output = given > 0;
            self.total_out += given;
            return Ok(given as usize);
        }
        self.block = self.total_out;
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
            Ok(_) => self.has_output = true,
            Err(error) => self.end = Some(Err(self.broken(&error.to_string()))),
        }
        Ok(0)
    }

    fn end(&self) -> Option<&Result<()>> {
        self.end.as_ref()
    }

    fn suspect(&self) -> Option<u64> {
        self.suspect
    }

    fn weight(&self) -> u64 {
        4 << 20
    }
}
