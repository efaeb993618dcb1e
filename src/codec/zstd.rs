//! zstd through libzstd; several frames in a row are one content, skippable frames are skipped.
//!
//! libzstd does not say how much it gave out in a call that ends in an error. It is therefore given
//! no more input at a time than it asks for, which is one block, and only when the block before has
//! been given out. What follows the last frame and is not a frame is not looked at.

use std::fmt;
use std::sync::Arc;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use super::input::Input;
use crate::content::{Content, Decoder, Sequential, Suspect};
use crate::error::{Error, Result};

/// What zstd can make of a byte at most: blocks of 128 KiB that take four.
pub(super) const RATIO: u64 = 32 << 10;

/// A frame that needs a window of more than 2^27 bytes is refused, as by `zstd -d`.
const WINDOW_LOG: u32 = 27;

/// Bytes read at a time: two blocks with their headers, so that one is at hand in one piece.
const READ: usize = 2 * (132 << 10);

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// The error codes (`zstd_errors.h`; their numbers stay) on which more is known than their text says.
const WINDOW_TOO_LARGE: usize = 16;
const CHECKSUM_WRONG: usize = 22;

/// zstd frames, one after the other.
pub(super) struct Zstd(Arc<dyn Content>);

impl Zstd {
    /// The frames in `stored`.
    pub(super) fn new(stored: Arc<dyn Content>) -> Self {
        Self(stored)
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Zstd").field(&self.0.len()).finish()
    }
}

impl Sequential for Zstd {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        let no_memory = || Error::new(crate::Kind::System(libc::ENOMEM), "no memory for a zstd decoder");
        let mut context = DCtx::try_create().ok_or_else(no_memory)?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(|_| no_memory())?;
        Ok(Box::new(Unpacking {
            input: Input::new(&self.0).in_reads_of(READ),
            context,
            frames: 0,
            wants: 0,
            giving: false,
            end: None,
            suspect: None,
        }))
    }
}

struct Unpacking {
    input: Input,
    context: DCtx<'static>,
    /// Frames that were ended in order.
    frames: u64,
    /// Bytes of input that it asks for; 0 between frames.
    wants: usize,
    /// There may be bytes of a decoded block to give out.
    giving: bool,
    /// How it ended.
    end: Option<Result<()>>,
    suspect: Option<Suspect>,
}

impl Unpacking {
    /// Gives out bytes, or goes one step on towards them.
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.wants == 0 && !self.begin()? {
            return Ok(0);
        }
        let input = if self.giving { &[] } else { self.input.at_least(self.wants)? };
        if input.is_empty() && !self.giving {
            self.end = Some(Err(self.input.cut_off()));
            return Ok(0);
        }
        let mut input = InBuffer::around(&input[..input.len().min(self.wants)]);
        let mut output = OutBuffer::around(out);
        let asked = self.context.decompress_stream(&mut output, &mut input);
        let (taken, given) = (input.pos(), output.pos());
        self.input.take(taken);
        match asked {
            Ok(wants) => {
                // Having taken input it may hold output; having given none it holds none.
                self.giving = wants > 0 && (taken > 0 || given > 0);
                self.wants = wants;
                self.frames += u64::from(wants == 0);
            }
            Err(code) => self.end = Some(Err(self.broken(code))),
        }
        Ok(given)
    }

    /// Begins with the next frame, if there is one.
    fn begin(&mut self) -> Result<bool> {
        let magic = u32::from_le_bytes(self.input.magic()?);
        if magic == MAGIC || SKIPPABLE.contains(&magic) {
            self.wants = 5;
            self.giving = false;
            return Ok(true);
        }
        self.end = Some(if self.frames > 0 {
            Ok(())
        } else if self.input.is_at_end() {
            Err(self.input.cut_off())
        } else {
            Err(self.input.damaged("does not begin with a zstd frame"))
        });
        Ok(false)
    }

    fn broken(&mut self, code: usize) -> Error {
        match 0_usize.wrapping_sub(code) {
            CHECKSUM_WRONG => self.suspect = Some(Suspect::Unlocated),
            WINDOW_TOO_LARGE => {
                let message = format!("a zstd frame needs a window of more than 2^{WINDOW_LOG} bytes");
                return self.input.place(Error::unsupported(message));
            }
            _ => {}
        }
        self.input.damaged(format!("the zstd stream is broken: {}", get_error_name(code).to_lowercase()))
    }
}

impl Decoder for Unpacking {
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
        (self.context.sizeof() as u64).saturating_add(256 << 10)
    }
}
