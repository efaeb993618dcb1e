//! Streams of parts that decode independently: LZ4 frames and their blocks, zstd frames.
//!
//! A part starts at a stored offset where decoding can start, and ends where the next part starts. Three
//! properties are found in different ways:
//!
//! | property | found |
//! |---|---|
//! | start of the next part | by skipping from header to header, or by decoding up to there |
//! | maximum decoded size of a part | from the headers, so that the part can be decoded ahead |
//! | decoded offset of a part | by decoding all before it; or from the headers, if they give the length of each part, or if the maxima in them add up to exactly the data size |
//!
//! A read starts only at a part with a known decoded offset. Read-ahead needs no offset: a part that is
//! decoded ahead follows the one before it.

mod reader;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use self::reader::PartReader;
use super::seek::{SeekTable, SegmentReader};
use crate::cache::{Cache, SegmentBytes, SegmentList};
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, locked};

/// Maximum number of part starts that are remembered; all data after the last one form one part.
const MAX_PARTS: usize = 1 << 17;

/// A read more than this many bytes past the known decoded offsets first looks for part starts without
/// decoding.
const FAR: u64 = 2 << 20;

/// A position where decoding can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartStart {
    /// Offset in the stored bytes.
    pub(super) stored: u64,
    /// Codec-specific state at this position.
    pub(super) state: u32,
}

/// The result of a search for the next part start in the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPart {
    /// The next part start.
    To {
        next: PartStart,
        /// Maximum decoded size of the data up to `next`.
        most: u64,
        /// Decoded size of the data up to `next`; only a maximum if not [`Parts::CERTAIN`].
        len: Option<u64>,
    },
    /// The stream ends here without damage.
    End,
    /// Only decoding can find the next part.
    Unknown,
}

/// The state of a decoder that has stopped.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    pub(super) next: PartStart,
    /// True if the stream is known to end at `next`.
    pub(super) ended: bool,
    /// The preceding output that the next part needs.
    pub(super) window: Vec<u8>,
}

/// A codec's way to cut streams into parts.
pub(super) trait Parts: Send + Sync + fmt::Debug + 'static {
    /// The decoder of a part.
    type Decoder: PartDecoder;

    /// True if each length found in the headers is right. If false, the lengths are right only if their sum
    /// is the data size.
    const CERTAIN: bool;

    /// Finds the next part start from headers. With `far`, the distance is not limited, and lengths are
    /// found.
    fn next_part(&self, from: PartStart, far: bool) -> Result<NextPart>;

    /// Returns a decoder from a part start to `until`, or to a point of its own choice.
    fn start(&self, from: PartStart, window: Vec<u8>, until: Option<PartStart>) -> Result<Self::Decoder>;

    /// Takes back a decoder that has stopped.
    fn leave(&self, decoder: Self::Decoder);

    /// Checks a part that was decoded ahead, once all data before it are known.
    fn follow(&self, from: PartStart, bytes: &[u8], decoder: &Self::Decoder) -> Result<()> {
        let _ = (from, bytes, decoder);
        Ok(())
    }

    /// Returns the approximate memory of a working decoder with its output, in bytes.
    fn weight(&self) -> u64;
}

/// A decoder of a part, which continues into the next part if asked to.
pub(super) trait PartDecoder: Send + 'static {
    /// Puts at least `least` bytes into `out`, unless the part ends, and returns their start in `out`; they
    /// end with `out`. No bytes at all mean that the part ends here.
    fn more(&mut self, out: &mut Vec<u8>, least: usize) -> Result<usize>;

    /// Returns the position at which the decoder stopped, after it gave no more bytes.
    fn stopped(&mut self) -> Stopped;

    /// Returns the approximate memory of the decoder in bytes.
    fn weight(&self) -> u64;
}

/// Locked while part starts are searched far ahead.
struct Searching;

/// A stream of parts, with the part starts found so far.
pub(super) struct PartTable<P> {
    parts: P,
    data_size: u64,
    cache: Arc<Cache>,
    state: Mutex<FoundParts>,
    searching: Mutex<Searching>,
}

#[derive(Debug)]
struct FoundParts {
    /// Part starts in order; never empty.
    known_parts: Vec<KnownPart>,
    /// Decoded offsets of the first parts; never empty, and never longer than `known_parts`.
    offsets: Vec<u64>,
    /// The kind of data after the last part start.
    beyond: Beyond,
    /// The windows of parts that need one, by the number of the part.
    windows: HashMap<usize, SegmentBytes>,
    stored: SegmentList,
    /// True if a search for part starts far ahead has failed.
    search_failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct KnownPart {
    start: PartStart,
    /// Maximum decoded size of the part that begins at `start`.
    most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    Unknown,
    /// One part, whose end only decoding can find.
    Part,
    /// The stream ends at the last part start.
    End,
}

/// A part of the stream.
#[derive(Clone, Copy, Debug)]
struct StreamPart {
    start: PartStart,
    until: Option<PartStart>,
    most: u64,
}

impl<P: Parts> PartTable<P> {
    /// Returns the stream that is cut into `parts` and decodes to `data_size` bytes by its header.
    pub(super) fn new(parts: P, data_size: u64, cache: &Arc<Cache>) -> Self {
        let state = FoundParts {
            known_parts: vec![KnownPart { start: PartStart::default(), most: u64::MAX }],
            offsets: vec![0],
            beyond: Beyond::Unknown,
            windows: HashMap::new(),
            stored: SegmentList::default(),
            search_failed: false,
        };
        Self {
            parts,
            data_size,
            cache: cache.clone(),
            state: Mutex::new(state),
            searching: Mutex::new(Searching),
        }
    }

    fn state(&self) -> MutexGuard<'_, FoundParts> {
        locked(&self.state)
    }

    /// Returns part `n`, which begins at a known part start; `None` if the stream ends there.
    fn part(&self, n: usize) -> Result<Option<StreamPart>> {
        let mut state = self.state();
        if n + 1 == state.known_parts.len() && state.beyond == Beyond::Unknown {
            match self.parts.next_part(state.known_parts[n].start, false) {
                Ok(next_part) => state.add_next(next_part, P::CERTAIN),
                // Decoding finds this error too, after all bytes before it.
                Err(error) if error.lasts() => state.beyond = Beyond::Part,
                Err(error) => return Err(error),
            }
        }
        if n + 1 == state.known_parts.len() && state.beyond == Beyond::End {
            return Ok(None);
        }
        let KnownPart { start, most } =
            *state.known_parts.get(n).ok_or_else(|| Error::damaged("there is no such part"))?;
        Ok(Some(StreamPart { start, until: state.known_parts.get(n + 1).map(|entry| entry.start), most }))
    }

    fn start(&self, n: usize, part: StreamPart) -> Result<P::Decoder> {
        let window = {
            let state = self.state();
            match state.windows.get(&n) {
                None => Some(Vec::new()),
                Some(stored) => state.stored.get(*stored),
            }
        };
        let lost = || Error::new(crate::Kind::System(libc::EIO), "the temporary file can't be read");
        self.parts.start(part.start, window.ok_or_else(lost)?, part.until)
    }

    /// Notes that part `n` was decoded to its end, where the next part begins. True if the next part is in
    /// the table.
    fn passed(&self, n: usize, len: u64, stopped: Stopped) -> bool {
        let mut state = self.state();
        if state.known_parts.len() == n + 1 {
            if state.known_parts.len() >= MAX_PARTS || !self.store_window(&mut state, n + 1, &stopped.window)
            {
                return false;
            }
            state.known_parts.push(KnownPart { start: stopped.next, most: u64::MAX });
            state.beyond = if stopped.ended { Beyond::End } else { Beyond::Unknown };
        }
        if state.offsets.len() == n + 1 {
            let end = state.offsets[n].saturating_add(len);
            state.offsets.push(end);
        }
        true
    }

    fn store_window(&self, state: &mut FoundParts, n: usize, window: &[u8]) -> bool {
        if window.is_empty() {
            return true;
        }
        let stored = state.stored.put(window, self.cache.temp_segments());
        stored.is_some_and(|stored| state.windows.insert(n, stored).is_none())
    }

    /// Returns the last part that begins at or before a decoded offset, and its own decoded offset.
    fn before(&self, offset: u64) -> (usize, u64) {
        let state = self.state();
        let mut n = state.offsets.partition_point(|start| *start <= offset).saturating_sub(1);
        if n > 0 && n + 1 == state.known_parts.len() && state.beyond == Beyond::End {
            n -= 1;
        }
        (n, state.offsets.get(n).copied().unwrap_or(0))
    }

    /// Looks for part starts up to the first one after `wanted`, for codecs with certain lengths.
    fn find_until(&self, wanted: u64) -> Result<()> {
        loop {
            let (n, start) = {
                let state = self.state();
                let (Some(last), n) = (state.known_parts.last(), state.known_parts.len()) else {
                    return Ok(());
                };
                let end = state.offsets.get(n - 1);
                if state.beyond == Beyond::End || end.is_none_or(|end| *end > wanted) {
                    return Ok(());
                }
                (n, last.start)
            };
            let next_part = self.parts.next_part(start, true)?;
            let mut state = self.state();
            if state.known_parts.len() == n {
                state.add_next(next_part, true);
                if state.known_parts.len() == n {
                    return Ok(());
                }
            }
        }
    }

    /// Looks for all part starts; they are accepted only if the lengths of the parts add up.
    fn find_all(&self) -> Result<()> {
        let (first, first_offset) = {
            let state = self.state();
            (state.offsets.len() - 1, state.offsets.last().copied().unwrap_or(0))
        };
        let mut start = self.state().known_parts[first].start;
        let mut offset = first_offset;
        let mut found = Vec::new();
        let mut offsets = Vec::new();
        loop {
            match self.parts.next_part(start, true)? {
                NextPart::To { next, most, len: Some(len) } if first + found.len() < MAX_PARTS => {
                    found.push(KnownPart { start, most });
                    offset = offset.saturating_add(len);
                    offsets.push(offset);
                    start = next;
                }
                NextPart::End if offset == self.data_size => break,
                _ => {
                    self.state().search_failed = true;
                    return Ok(());
                }
            }
        }
        found.push(KnownPart { start, most: 0 });
        let mut state = self.state();
        // Meanwhile another reader may have found part starts; all of these are found here too.
        state.known_parts.truncate(first);
        state.known_parts.extend(found);
        state.offsets.truncate(first + 1);
        state.offsets.extend(offsets);
        state.beyond = Beyond::End;
        Ok(())
    }
}

impl FoundParts {
    /// Adds the result of the search after the last part start.
    fn add_next(&mut self, next_part: NextPart, certain: bool) {
        match next_part {
            NextPart::To { next, most, len } if self.known_parts.len() < MAX_PARTS => {
                let n = self.known_parts.len();
                self.known_parts[n - 1].most = most;
                self.known_parts.push(KnownPart { start: next, most: u64::MAX });
                self.beyond = Beyond::Unknown;
                if certain
                    && self.offsets.len() == n
                    && let Some(len) = len
                {
                    self.offsets.push(self.offsets[n - 1].saturating_add(len));
                }
            }
            NextPart::To { .. } | NextPart::Unknown => self.beyond = Beyond::Part,
            NextPart::End => self.beyond = Beyond::End,
        }
    }
}

impl<P: Parts> SeekTable for PartTable<P> {
    fn find_ahead(&self, wanted: u64) {
        let is_far = |state: &FoundParts| {
            let frontier = state.offsets.last().copied().unwrap_or(0);
            frontier.saturating_add(FAR) < wanted && !state.search_failed
        };
        if !is_far(&self.state()) {
            return;
        }
        let _searching = locked(&self.searching);
        if !is_far(&self.state()) {
            return;
        }
        let found = if P::CERTAIN { self.find_until(wanted) } else { self.find_all() };
        match found {
            // Decoding finds the same error.
            Err(error) if error.lasts() => self.state().search_failed = true,
            Err(error) => tracing::debug!("searching for starts of parts: {error}"),
            Ok(()) if P::CERTAIN && is_far(&self.state()) => self.state().search_failed = true,
            Ok(()) => {}
        }
    }

    fn weight(&self) -> u64 {
        self.parts.weight()
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.before(wanted).1
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        let (n, offset) = self.before(from);
        Ok((offset, Box::new(PartReader::new(self, n, offset))))
    }
}

impl<P: Parts> fmt::Debug for PartTable<P> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_parts = self.state().known_parts.len();
        out.debug_struct("PartTable")
            .field("parts", &self.parts)
            .field("known_parts", &known_parts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
