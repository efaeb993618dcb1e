//! zstd through libzstd, from the start of a frame on; several in a row are one content.
//!
//! libzstd does not say how much it gave out in a call that ends in an error. It is therefore given
//! one block at a time, and only when the block before has been given out. What it asks for is a block
//! and the header of the next one; that header may be what is wrong, and is given in a call of its own.
//! What follows the last frame and is not a frame is not looked at.

use std::sync::Arc;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::header::{MAGIC, SKIPPABLE};
use crate::cache::Cache;
use crate::codec::input::Input;
use crate::codec::library::{Library, Steps};
use crate::content::Content;
use crate::error::{Error, Result};

/// A frame that needs a window of more than 2^27 bytes is refused, as by `zstd -d`.
pub(super) const WINDOW_LOG: u32 = 27;

/// Bytes read at a time: two blocks with their headers, so that one is at hand in one piece.
const READ: usize = 2 * (132 << 10);

/// Bytes of a block's header.
const BLOCK_HEADER: usize = 3;

/// The error codes (`zstd_errors.h`; their numbers stay) on which more is known than their text says.
const WINDOW_TOO_LARGE: usize = 16;
const CHECKSUM_WRONG: usize = 22;

/// The zstd frames in `stored`, one after the other.
pub(super) fn library(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| {
        Ok(Box::new(Unpacking::new(Input::new(stored), Context::default(), false)?))
    })
}

/// What libzstd needs to decode; made when it is first used.
#[derive(Default)]
pub(super) struct Context(Option<DCtx<'static>>);

impl Context {
    pub(super) fn ready(&mut self) -> Result<&mut DCtx<'static>> {
        let no_memory = || Error::new(crate::Kind::System(libc::ENOMEM), "no memory for a zstd decoder");
        let context = match self.0.take() {
            Some(context) => context,
            None => DCtx::try_create().ok_or_else(no_memory)?,
        };
        let context = self.0.insert(context);
        context.reset(ResetDirective::SessionAndParameters).map_err(|_| no_memory())?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(|_| no_memory())?;
        Ok(context)
    }

    pub(super) fn get(&mut self) -> Option<&mut DCtx<'static>> {
        self.0.as_mut()
    }

    pub(super) fn weight(&self) -> u64 {
        self.0.as_ref().map_or(0, |context| context.sizeof() as u64)
    }
}

/// Decodes frames.
pub(super) struct Unpacking {
    input: Input,
    context: Box<Context>,
    /// Only one.
    single: bool,
    /// Frames that were ended in order.
    frames: u64,
    /// Bytes given out, and those of them before the frame.
    given: u64,
    begun: u64,
    /// Bytes of input that it asks for; 0 between frames.
    wants: usize,
    /// The bytes that it took last: within a block, its header.
    last: [u8; BLOCK_HEADER],
    /// There may be bytes of a decoded block to give out.
    giving: bool,
    /// How it ended.
    end: Option<Result<()>>,
    suspect: Option<u64>,
}

impl Unpacking {
    /// The frames in `input`, or only the first one and what is to be skipped before it.
    pub(super) fn new(input: Input, context: impl Into<Box<Context>>, single: bool) -> Result<Self> {
        let mut context = context.into();
        context.ready()?;
        Ok(Self {
            input: input.in_reads_of(READ),
            context,
            single,
            frames: 0,
            given: 0,
            begun: 0,
            wants: 0,
            last: [0; BLOCK_HEADER],
            giving: false,
            end: None,
            suspect: None,
        })
    }

    /// Where in the stored bytes it stands.
    pub(super) fn position(&self) -> u64 {
        self.input.position()
    }

    /// Keeps what it decoded with for the next one.
    pub(super) fn give_back(self, cache: &Cache) {
        let weight = self.context.weight();
        cache.keep_scratch(self.context, weight);
    }

    /// Begins with the next frame, if there is one.
    fn begin(&mut self) -> Result<bool> {
        let magic = u32::from_le_bytes(self.input.magic()?);
        if self.single && self.frames > 0 {
            self.end = Some(Ok(()));
            return Ok(false);
        }
        if magic == MAGIC || SKIPPABLE.contains(&magic) {
            self.wants = 5;
            self.last = [0; BLOCK_HEADER];
            self.begun = self.given;
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

    /// Bytes of input that it is given: what it wants without the header of the next block, if one follows.
    fn portion(&self) -> usize {
        let is_last = self.last[0] & 1 == 1;
        match self.wants.checked_sub(BLOCK_HEADER) {
            Some(block) if block > 0 && !is_last => block,
            _ => self.wants,
        }
    }

    fn broken(&mut self, code: usize) -> Error {
        match 0_usize.wrapping_sub(code) {
            CHECKSUM_WRONG => self.suspect = Some(self.begun),
            WINDOW_TOO_LARGE => {
                let message = format!("a zstd frame needs a window of more than 2^{WINDOW_LOG} bytes");
                return self.input.place(Error::unsupported(message));
            }
            _ => {}
        }
        self.input.damaged(format!("the zstd stream is broken: {}", get_error_name(code).to_lowercase()))
    }
}

impl Steps for Unpacking {
    fn step(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.wants == 0 && !self.begin()? {
            return Ok(0);
        }
        let wanted = self.portion();
        let input = if self.giving { &[] } else { self.input.at_least(wanted)? };
        if input.is_empty() && !self.giving {
            self.end = Some(Err(self.input.cut_off()));
            return Ok(0);
        }
        let portion = &input[..input.len().min(wanted)];
        let mut input = InBuffer::around(portion);
        let mut output = OutBuffer::around(out);
        let Some(context) = &mut self.context.0 else { return Err(Error::damaged("there is no decoder")) };
        let asked = context.decompress_stream(&mut output, &mut input);
        let (taken, given) = (input.pos(), output.pos());
        // Of a block that is not compressed it may take a part; the rest is still behind the same header.
        if taken == wanted {
            for byte in &portion[taken.saturating_sub(BLOCK_HEADER)..] {
                self.last = [self.last[1], self.last[2], *byte];
            }
        }
        self.input.take(taken);
        self.given += given as u64;
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

    fn end(&self) -> Option<&Result<()>> {
        self.end.as_ref()
    }

    fn suspect(&self) -> Option<u64> {
        self.suspect
    }

    fn weight(&self) -> u64 {
        self.context.weight().saturating_add(256 << 10)
    }
}
