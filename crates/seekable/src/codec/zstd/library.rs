//! zstd through libzstd, from the start of a frame on; several frames in a row are one content.
//!
//! libzstd does not report its output in a call that ends with an error. It therefore gets one block at a
//! time, and only once the output of the block before is complete. It asks for a block with the header of the
//! next one. The next header may be broken, so it is given in a call of its own. Bytes after the last frame
//! that are not a frame are ignored.

use std::sync::Arc;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::header::{MAGIC, SKIPPABLE};
use crate::cache::Cache;
use crate::codec::input::Input;
use crate::codec::library::{Library, Steps};
use crate::content::Content;
use crate::error::{Error, Result};

/// Maximum window: frames that need more than 2^27 bytes are refused, as by `zstd -d`.
pub(super) const WINDOW_LOG: u32 = 27;

/// Bytes read at a time: two blocks with their headers, so that a whole block is buffered.
const READ: usize = 2 * (132 << 10);

/// Size of a block header in bytes.
const BLOCK_HEADER: usize = 3;

/// Error codes that are handled specially (`zstd_errors.h`; the numbers are stable).
const WINDOW_TOO_LARGE: usize = 16;
const CHECKSUM_WRONG: usize = 22;

/// Returns the zstd frames in `stored`, decoded by libzstd.
pub(super) fn library(stored: Arc<dyn Content>) -> Library {
    Library::new(stored, |stored| {
        Ok(Box::new(Unpacking::new(Input::new(stored), Context::default(), false)?))
    })
}

/// A libzstd context, created at its first use.
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

/// A decoder of frames.
pub(super) struct Unpacking {
    pub(super) input: Input,
    context: Box<Context>,
    /// True if only one frame is decoded.
    single: bool,
    /// Number of frames that ended without damage.
    frames: u64,
    /// Number of output bytes in all, and of those before the current frame.
    total_out: u64,
    frame_start: u64,
    /// Input bytes that libzstd asks for; 0 between frames.
    wants: usize,
    /// The last bytes that libzstd took: within a block, the block's header.
    last: [u8; BLOCK_HEADER],
    /// True if output of a block may still come.
    has_output: bool,
    /// The end of the stream, once known.
    end: Option<Result<()>>,
    suspect: Option<u64>,
}

impl Unpacking {
    /// Returns a decoder of the frames in `input`, or (`single`) of the first one and the skippable ones
    /// before it.
    pub(super) fn new(input: Input, context: impl Into<Box<Context>>, single: bool) -> Result<Self> {
        let mut context = context.into();
        context.ready()?;
        Ok(Self {
            input: input.in_reads_of(READ),
            context,
            single,
            frames: 0,
            total_out: 0,
            frame_start: 0,
            wants: 0,
            last: [0; BLOCK_HEADER],
            has_output: false,
            end: None,
            suspect: None,
        })
    }

    /// Keeps the context for the next decoder.
    pub(super) fn give_back(self, cache: &Cache) {
        let weight = self.context.weight();
        cache.keep_scratch(self.context, weight);
    }

    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> Result<bool> {
        let magic = u32::from_le_bytes(self.input.magic()?);
        if self.single && self.frames > 0 {
            self.end = Some(Ok(()));
            return Ok(false);
        }
        if magic == MAGIC || SKIPPABLE.contains(&magic) {
            self.wants = 5;
            self.last = [0; BLOCK_HEADER];
            self.frame_start = self.total_out;
            self.has_output = false;
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

    /// Returns the number of input bytes to give: as many as libzstd asks for, less the header of the next
    /// block.
    fn portion(&self) -> usize {
        let is_last = self.last[0] & 1 == 1;
        match self.wants.checked_sub(BLOCK_HEADER) {
            Some(block) if block > 0 && !is_last => block,
            _ => self.wants,
        }
    }

    fn broken(&mut self, code: usize) -> Error {
        match 0_usize.wrapping_sub(code) {
            CHECKSUM_WRONG => self.suspect = Some(self.frame_start),
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
        let available = if self.has_output { &[] } else { self.input.at_least(wanted)? };
        if available.is_empty() && !self.has_output {
            self.end = Some(Err(self.input.cut_off()));
            return Ok(0);
        }
        let portion = &available[..available.len().min(wanted)];
        let mut input = InBuffer::around(portion);
        let mut output = OutBuffer::around(out);
        let Some(context) = &mut self.context.0 else { return Err(Error::damaged("there is no decoder")) };
        let asked = context.decompress_stream(&mut output, &mut input);
        let taken = input.pos();
        let given = output.pos();
        // libzstd may take part of a block that is not compressed; the header is then still the current one.
        if taken == wanted {
            for byte in &portion[taken.saturating_sub(BLOCK_HEADER)..] {
                self.last = [self.last[1], self.last[2], *byte];
            }
        }
        self.input.take(taken);
        self.total_out += given as u64;
        match asked {
            Ok(wants) => {
                // After taking input, libzstd may hold output. After a call without output it holds none.
                self.has_output = wants > 0 && (taken > 0 || given > 0);
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
