//! A stream of several zstd frames, cut at frame boundaries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::header::{BLOCK, Header, MAGIC, SKIPPABLE};
use super::library::{Context, Unpacking, WINDOW_LOG};
use crate::cache::Cache;
use crate::codec::input::Input;
use crate::codec::part::{ExternalPart, Take};
use crate::codec::parts::{NextPart, PartDecoder, PartStart, Parts, Stopped};
use crate::content::Content;
use crate::decode::{Decoder, GRANULE, WHOLE};
use crate::error::{Error, Result};

/// Bytes read at a time to get headers: the headers of small blocks are read together.
const HEADER_READ: usize = 4 << 10;

/// Minimum of decoded bytes in a part, if there are several frames.
const PART: u64 = 1 << 20;

/// Maximum number of stored bytes in a part of several frames, which may all be empty.
const MAX_STORED: u64 = 1 << 20;

/// Usual maximum number of parts of a stream.
const PARTS: u64 = 1 << 16;

/// Memory of a decoder without its window, in bytes.
const WEIGHT: u64 = 1 << 20;

/// A stream of zstd frames that is cut into parts.
pub(super) struct Frames {
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: Arc<Cache>,
    /// The largest window seen so far.
    window: AtomicU64,
}

impl Frames {
    /// Returns the frames in `stored`, which together decode to `data_size` bytes.
    pub(super) fn new(stored: Arc<dyn Content>, data_size: u64, cache: &Arc<Cache>) -> Self {
        Self { stored, data_size, cache: cache.clone(), window: AtomicU64::new(0) }
    }
}

impl Frames {
    /// Returns the header of the first frame that is not skippable; `None` if it can't be read.
    pub(super) fn first(&self) -> Option<Header> {
        let mut scan = self.scan(u64::MAX);
        scan.skip_to_frame()?;
        Header::read(&mut scan.input).ok()
    }

    /// True if the blocks of the first frame show that it decodes to more than `limit` bytes.
    pub(super) fn begin_longer_than(&self, limit: u64) -> bool {
        let mut scan = self.scan(limit);
        scan.skip_to_frame().is_some() && scan.frame().is_ok_and(|within| within.is_none())
    }

    /// Returns a scan from the start of the stream.
    fn scan(&self, limit: u64) -> HeaderScan<'_> {
        let input = Input::new(&self.stored).in_reads_of(HEADER_READ);
        HeaderScan { frames: self, input, limit, most: 0, len: Some(0) }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Frames").field(&self.stored.len()).finish()
    }
}

/// Passes each frame of a stream of `data_size` decoded bytes to `take`. A frame must state its decoded size,
/// unless it is the only one.
pub(in crate::codec) fn each_frame(stored: &Arc<dyn Content>, data_size: u64, take: Take<'_>) -> Result<()> {
    let header = |offset| {
        let mut input = Input::range(stored, offset, u64::MAX).in_reads_of(HEADER_READ);
        match u32::from_le_bytes(input.magic()?) {
            MAGIC => Header::read(&mut input),
            _ => Err(input.damaged("the zstd data do not begin with a frame")),
        }
    };
    let whole = ExternalPart { offset: 0, stored: stored.len(), len: data_size };
    // A long frame has many blocks, whose headers need not be read.
    if header(0)?.content_size == Some(data_size) {
        return take(whole);
    }
    let mut at = 0;
    while at < stored.len() {
        let content_size = header(at)?.content_size;
        let end = end_of_frame(stored, at)?;
        let part = ExternalPart { offset: at, stored: end - at, len: content_size.unwrap_or(0) };
        match content_size {
            Some(_) => take(part)?,
            None if part.stored == stored.len() => take(whole)?,
            None => return Err(Error::unsupported("a zstd frame does not say how long its data are")),
        }
        at = end;
    }
    Ok(())
}

/// Returns the end of the frame at `start`.
pub(super) fn end_of_frame(stored: &Arc<dyn Content>, start: u64) -> Result<u64> {
    let mut input = Input::range(stored, start, u64::MAX).in_reads_of(HEADER_READ);
    let header = Header::read(&mut input)?;
    loop {
        let (stored_len, _, last) = block(&mut input)?;
        input.skip(stored_len);
        if last {
            break;
        }
    }
    input.skip(if header.checked { 4 } else { 0 });
    if input.is_beyond() { Err(input.cut_off()) } else { Ok(input.position()) }
}

/// Reads the header of a block: its stored size, its maximum decoded size, and true for the last block.
fn block(input: &mut Input) -> Result<(u64, u64, bool)> {
    let Some(bytes) = input.at_least(3)?.first_chunk::<3>() else {
        return Err(input.cut_off());
    };
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    let size = u64::from(word >> 3);
    let kind = word >> 1 & 3;
    let last = word & 1 == 1;
    // A run is stored as one byte.
    let (stored, longest) = match kind {
        0 => (size, size),
        1 => (1, size),
        2 => (size, BLOCK),
        _ => return Err(input.damaged("a block of the zstd frame has an unknown type")),
    };
    input.take(3);
    Ok((stored, longest, last))
}

/// The state of a scan over frames, from header to header.
struct HeaderScan<'a> {
    frames: &'a Frames,
    input: Input,
    /// Decoded size from which on a frame is too long.
    limit: u64,
    most: u64,
    len: Option<u64>,
}

impl HeaderScan<'_> {
    /// Skips to the next frame that is not skippable; `None` if there is none.
    fn skip_to_frame(&mut self) -> Option<()> {
        loop {
            match u32::from_le_bytes(self.input.magic().ok()?) {
                MAGIC => return Some(()),
                magic if SKIPPABLE.contains(&magic) => self.skip().ok()?,
                _ => return None,
            }
        }
    }

    /// Skips a skippable frame.
    fn skip(&mut self) -> Result<()> {
        self.input.take(4);
        let len = u32::from_le_bytes(self.input.magic()?);
        self.input.skip(u64::from(len) + 4);
        Ok(())
    }

    /// Skips the blocks of a frame, from header to header; `None` if the frame is too long for that.
    fn frame(&mut self) -> Result<Option<()>> {
        let header = Header::read(&mut self.input)?;
        self.frames.window.fetch_max(header.window, Ordering::Relaxed);
        let mut most = 0_u64;
        loop {
            let (stored, longest, last) = block(&mut self.input)?;
            most = most.saturating_add(longest);
            self.input.skip(stored);
            if last {
                break;
            }
            if most > self.limit {
                return Ok(None);
            }
        }
        self.input.skip(if header.checked { 4 } else { 0 });
        let size = header.content_size;
        self.most = self.most.saturating_add(size.map_or(most, |size| size.min(most)));
        self.len = self.len.zip(size).map(|(all, size)| all.saturating_add(size));
        Ok(Some(()))
    }
}

impl Parts for Frames {
    type Decoder = Decoding;

    const CERTAIN: bool = true;

    fn next_part(&self, from: PartStart, far: bool) -> Result<NextPart> {
        let input = Input::range(&self.stored, from.stored, u64::MAX).in_reads_of(HEADER_READ);
        let least = (self.data_size / PARTS).next_power_of_two().max(PART);
        let limit = if far { u64::MAX } else { WHOLE };
        let mut scan = HeaderScan { frames: self, input, limit, most: 0, len: Some(0) };
        loop {
            let stored = scan.input.position();
            let is_first = stored == from.stored;
            let most = scan.most;
            let len = scan.len;
            let here = NextPart::To { next: PartStart { stored, state: 0 }, most, len };
            if !is_first && (most >= least || stored - from.stored > MAX_STORED) {
                return Ok(here);
            }
            let magic = u32::from_le_bytes(scan.input.magic()?);
            if magic == MAGIC {
                match scan.frame()? {
                    Some(()) => {}
                    None if is_first => return Ok(NextPart::Unknown),
                    None => return Ok(here),
                }
            } else if SKIPPABLE.contains(&magic) {
                scan.skip()?;
            } else {
                return Ok(if !is_first {
                    here
                } else if stored > 0 {
                    NextPart::End
                } else {
                    NextPart::Unknown
                });
            }
        }
    }

    fn start(&self, from: PartStart, _: Vec<u8>, until: Option<PartStart>) -> Result<Decoding> {
        let end = until.map_or(u64::MAX, |until| until.stored);
        let input = Input::range(&self.stored, from.stored, end);
        Ok(Decoding(Unpacking::new(input, self.cache.scratch::<Context>(), until.is_none())?))
    }

    fn leave(&self, decoder: Decoding) {
        decoder.0.give_back(&self.cache);
    }

    fn weight(&self) -> u64 {
        if self.window.load(Ordering::Relaxed) == 0 {
            // Errors are ignored here: decoding reports them.
            let _ = self.next_part(PartStart::default(), false);
        }
        WEIGHT.saturating_add(self.window.load(Ordering::Relaxed).min(1 << WINDOW_LOG))
    }
}

/// A decoder for the frames of a part.
pub(super) struct Decoding(Unpacking);

impl PartDecoder for Decoding {
    fn more(&mut self, out: &mut Vec<u8>, least: usize) -> Result<usize> {
        let mut end = 0_usize;
        while end < least {
            if out.len() == end {
                out.resize(end + GRANULE as usize, 0);
            }
            match self.0.read(&mut out[end..])? {
                0 => break,
                read => end += read,
            }
        }
        out.truncate(end);
        Ok(0)
    }

    fn stopped(&mut self) -> Stopped {
        Stopped { next: PartStart { stored: self.0.input.position(), state: 0 }, ..Stopped::default() }
    }

    fn weight(&self) -> u64 {
        self.0.weight()
    }
}
