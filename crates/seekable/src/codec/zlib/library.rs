//! zlib (RFC 1950) through flate2, from the start of a stream: the fallback where our decoder stops; gzip (RFC 1952); and
//! deflate (RFC 1951).

use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};

use crate::codec::input::Input;
use crate::codec::library::{Library, Steps};
use crate::content::Content;
use crate::error::Result;

/// The library's message for a checksum mismatch. Neither flate2 nor zlib-rs has a type that tells it from
/// other damage. The tests of damaged streams fail if the text changes.
const WRONG_CHECKSUM: &str = "incorrect data check";

/// Length of the window of deflate in bits.
const WINDOW_BITS: u8 = 15;

/// Returns the zlib stream in `stored`, decoded by the library.
pub(super) fn library(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| Ok(Box::new(Inflating::new(stored, "zlib", Decompress::new(true)))))
}

/// Returns the gzip stream in `stored`, decoded by the library.
pub(in crate::codec) fn gzip(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| {
        Ok(Box::new(Inflating::new(stored, "gzip", Decompress::new_gzip(WINDOW_BITS))))
    })
}

/// Returns the deflate stream in `stored`, decoded by the library.
pub(in crate::codec) fn deflate(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| Ok(Box::new(Inflating::new(stored, "deflate", Decompress::new(false)))))
}

struct Inflating {
    /// The name of the format, for messages.
    name: &'static str,
    input: Input,
    inflate: Decompress,
    /// The end of the stream, once known.
    end: Option<Result<()>>,
    suspect: Option<u64>,
}

impl Inflating {
    fn new(stored: &Arc<dyn Content>, name: &'static str, inflate: Decompress) -> Self {
        Self { name, input: Input::new(stored), inflate, end: None, suspect: None }
    }
}

impl Steps for Inflating {
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            let input = self.input.fill()?;
            let taken = self.inflate.total_in();
            let given = self.inflate.total_out();
            let status = self.inflate.decompress(input, out, FlushDecompress::None);
            let at_end = input.is_empty();
            let taken = self.inflate.total_in() - taken;
            let given = (self.inflate.total_out() - given) as usize;
            self.input.take(taken as usize);
            match status {
                Ok(Status::StreamEnd) => self.end = Some(Ok(())),
                Ok(_) if at_end && given == 0 => self.end = Some(Err(self.input.cut_off())),
                Ok(_) if taken == 0 && given == 0 => {
                    self.end =
                        Some(Err(self.input.damaged(format!("the {} decoder makes no progress", self.name))));
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = match error.message() {
                        _ if error.needs_dictionary().is_some() => "it needs a dictionary",
                        Some(message) => message,
                        None => "it is not valid",
                    };
                    if reason == WRONG_CHECKSUM {
                        self.suspect = Some(0);
                    }
                    let what = format!("the {} stream is broken: {reason}", self.name);
                    self.end = Some(Err(self.input.damaged(what)));
                }
            }
            if given > 0 || self.end.is_some() {
                return Ok(given);
            }
        }
    }

    fn end(&self) -> Option<&Result<()>> {
        self.end.as_ref()
    }

    fn suspect(&self) -> Option<u64> {
        self.suspect
    }

    fn weight(&self) -> u64 {
        256 << 10
    }
}
