//! LZ4 frames through lz4_flex, from the start of a stream: the fallback where our decoder stops.
//!
//! lz4_flex gives whole blocks (of at most 4 MiB), so a broken block is damaged from its start. If the input
//! ends where a block should begin, lz4_flex takes this for the end of the frame. The frame really ended only
//! if lz4_flex did not try to read more input. Bytes after the last frame that are not a frame are ignored.

use std::io::{self, Read};
use std::sync::Arc;

use lz4_flex::frame::{Error as FrameError, FrameDecoder};

use super::format::{LEGACY, MAGIC, SKIPPABLE};
use crate::codec::input::Input;
use crate::codec::library::{Library, Steps};
use crate::content::Content;
use crate::error::{Error, Result};

/// Returns the LZ4 frames in `stored`, decoded by lz4_flex.
pub(super) fn library(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| {
        let input = Watched { input: Input::new(stored), hit_end: false };
        let decoder = FrameDecoder::new(input);
        Ok(Box::new(Unframing {
            decoder,
            frames: 0,
            total_out: 0,
            frame_start: 0,
            within: None,
            end: None,
            suspect: None,
        }))
    })
}

/// The input, with a flag that is set once a read found no more bytes.
struct Watched {
    input: Input,
    hit_end: bool,
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.hit_end |= read == 0 && !out.is_empty();
        Ok(read)
    }
}

struct Unframing {
    decoder: FrameDecoder<Watched>,
    /// Number of frames that ended without damage.
    frames: u64,
    /// Number of all output bytes, and number of output bytes before the current frame.
    total_out: u64,
    frame_start: u64,
    /// The magic of the current frame.
    within: Option<u32>,
    /// The end of the stream, once known.
    end: Option<Result<()>>,
    suspect: Option<u64>,
}

impl Unframing {
    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> Result<()> {
        let input = &mut self.decoder.get_mut().input;
        let magic = u32::from_le_bytes(input.magic()?);
        if magic == MAGIC || magic == LEGACY {
            self.within = Some(magic);
            self.frame_start = self.total_out;
        } else if SKIPPABLE.contains(&magic) {
            input.take(4);
            let len = u32::from_le_bytes(input.magic()?);
            input.skip(u64::from(len) + 4);
            self.frames += 1;
        } else if self.frames > 0 {
            self.end = Some(Ok(()));
        } else if input.is_at_end() {
            self.end = Some(Err(input.cut_off()));
        } else {
            self.end = Some(Err(input.damaged("does not begin with an LZ4 frame")));
        }
        Ok(())
    }

    fn broken(&mut self, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.input().cut_off();
        }
        let within = error.get_ref();
        // An error of the underlying file is passed on unchanged.
        if let Some(own) = within.and_then(|inner| inner.downcast_ref::<Error>()) {
            return own.clone();
        }
        let reason = match within.and_then(|inner| inner.downcast_ref::<FrameError>()) {
            Some(FrameError::ContentChecksumError) => {
                self.suspect = Some(self.frame_start);
                "its checksum is wrong".to_owned()
            }
            Some(FrameError::BlockChecksumError) => "the checksum of a block is wrong".to_owned(),
            Some(FrameError::DictionaryNotSupported) => {
                return self.input().place(Error::unsupported("the LZ4 frame needs a dictionary"));
            }
            Some(FrameError::DecompressionError(cause)) => cause.to_string(),
            Some(FrameError::ContentLengthError { expected, actual }) => {
                format!("it decodes to {actual} bytes, but its header says {expected}")
            }
            Some(fault) => fault.to_string(),
            None => error.to_string(),
        };
        self.input().damaged(format!("the LZ4 frame is broken: {reason}"))
    }

    fn input(&self) -> &Input {
        &self.decoder.get_ref().input
    }
}

impl Steps for Unframing {
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(magic) = self.within else {
            self.begin()?;
            return Ok(0);
        };
        self.decoder.get_mut().hit_end = false;
        match self.decoder.read(out) {
            Ok(0) if !self.decoder.get_ref().hit_end => {
                self.frames += 1;
                self.within = None;
            }
            Ok(0) if magic == LEGACY => self.end = Some(Ok(())),
            Ok(0) => self.end = Some(Err(self.input().cut_off())),
            Ok(given) => {
                self.total_out += given as u64;
                return Ok(given);
            }
            Err(error) => {
                let error = self.broken(error);
                self.end = Some(Err(error));
            }
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
        // Usually two blocks of output and one of input, of 4 MiB each.
        12 << 20
    }
}
