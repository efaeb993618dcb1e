//! The decoded bytes of an encoded content, read at any offset with bounded memory.
//!
//! The bytes are divided into granules: windows of [`GRANULE`] bytes of a stream, or whole chunks if the codec has
//! independent chunks. A read takes its granules from the mount's cache, or has them decoded (`decoded/job.rs`).
//! A granule that several readers want is decoded once. Decoders of a stream are kept at their position
//! ([`IdleDecoders`](super::IdleDecoders)), so that a later read there need not start from the beginning.
//!
//! All bytes before damage can be read. The first byte that can't be decoded is an error, and so are the
//! bytes after it: up to the end of the chunk if chunks are independent, else up to the end of the stream. A
//! checksum mismatch at the end of a stream has no location. Once it is found, all bytes that the checksum
//! covers are errors, even those that were read before.

mod beginning;
mod damage;
mod job;
mod range_set;
mod read_ahead;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

use super::{Chunk, Chunks, GRANULE, Sequential, WHOLE};
use crate::cache::{Bytes, Cache, ContentId};
use crate::content::{Content, SharedBytes, Soundness};
use crate::error::{Error, Result};
use crate::sync::locked;
use crate::sync::{Awaited, MutexGuard};
use job::ReadersState;

/// Maximum distance between granules that count as near: somewhat more than one read-ahead request of the
/// kernel.
const NEAR: u64 = 16 * GRANULE;

/// The usual length of a part of compressed data, in bytes.
const USUAL_PART: u64 = 4 << 20;

/// The decoded content of an encoded one.
pub struct Decoded {
    id: ContentId,
    cache: Arc<Cache>,
    data_size: u64,
    encoded: Encoded,
    /// True if damage to a chunk affects that chunk alone.
    stand_alone: bool,
    /// End of the readable data: `data_size`, or the start of damage.
    limit: AtomicU64,
    state: Mutex<ReadersState>,
    /// Signalled when a job advances or ends.
    job_changed: Condvar,
    /// The identifier of the beginnings of chunks in the cache.
    beginnings: ContentId,
    /// A weak reference to this content, for read-ahead on other threads.
    weak_self: OnceLock<Weak<Self>>,
    /// The source ranges of the encoded bytes.
    ranges: Vec<Range<u64>>,
}

enum Encoded {
    Stream(Box<dyn Sequential>),
    Pieces(Box<dyn Chunks>),
}

/// A range that is decoded from its own start: the whole stream, or a chunk.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    end: u64,
    /// The chunk, which may extend past `end` if the header's data_size is too small.
    piece: Option<Chunk>,
}

impl Span {
    /// True if the span is decoded as a whole.
    fn is_whole(&self) -> bool {
        self.piece.is_some_and(|piece| piece.len <= WHOLE)
    }
}

/// A range that is decoded, cached and returned as a whole.
#[derive(Clone, Copy, Debug)]
struct Granule {
    start: u64,
    span: Span,
}

impl Granule {
    /// True if `other` is the same granule.
    fn is(&self, other: &Self) -> bool {
        (self.start, self.span.end) == (other.start, other.span.end)
    }
}

impl Decoded {
    /// Creates the content of a stream, with `data_size` bytes according to its header.
    pub fn stream(stream: impl Sequential + 'static, data_size: u64, cache: &Arc<Cache>) -> Self {
        Self::new(Encoded::Stream(Box::new(stream)), data_size, cache)
    }

    /// Creates the content of a set of chunks, with `data_size` bytes according to its header.
    pub fn pieces(pieces: impl Chunks + 'static, data_size: u64, cache: &Arc<Cache>) -> Self {
        Self::new(Encoded::Pieces(Box::new(pieces)), data_size, cache)
    }

    fn new(encoded: Encoded, data_size: u64, cache: &Arc<Cache>) -> Self {
        let stand_alone = matches!(&encoded, Encoded::Pieces(pieces) if pieces.stand_alone());
        Self {
            id: cache.id(),
            cache: cache.clone(),
            data_size,
            encoded,
            stand_alone,
            limit: AtomicU64::new(data_size),
            state: Mutex::default(),
            beginnings: cache.id(),
            job_changed: Condvar::new(),
            weak_self: OnceLock::new(),
            ranges: Vec::new(),
        }
    }

    /// Records the source ranges of the encoded bytes.
    #[must_use]
    pub fn made_of(mut self, ranges: Vec<Range<u64>>) -> Self {
        self.ranges = ranges;
        self
    }

    /// Enables read-ahead.
    #[must_use]
    pub fn with_read_ahead(self) -> Arc<Self> {
        let shared = Arc::new(self);
        let _ = shared.weak_self.set(Arc::downgrade(&shared));
        shared
    }

    /// Returns the granule that contains byte `at`.
    fn locate(&self, at: u64) -> Result<Granule> {
        // Finding a chunk may wait for a lock.
        let _awaited = Awaited::begin();
        let span = match &self.encoded {
            Encoded::Stream(_) => Span { start: 0, end: self.data_size, piece: None },
            Encoded::Pieces(pieces) => match pieces.find(at) {
                Ok(Some(piece)) => self.span_of(piece, at)?,
                Ok(None) => {
                    let end = first_missing(&**pieces, at);
                    return Err(self.broken(end, self.too_short(end)));
                }
                Err(error) if error.lasts() => {
                    return Err(self.broken(first_missing(&**pieces, at), error));
                }
                Err(error) => return Err(error),
            },
        };
        let start = if span.is_whole() { span.start } else { at - (at - span.start) % GRANULE };
        Ok(Granule { start, span })
    }

    fn span_of(&self, piece: Chunk, at: u64) -> Result<Span> {
        match piece.offset.checked_add(piece.len) {
            Some(end) if piece.offset <= at && at < end => {
                Ok(Span { start: piece.offset, end: end.min(self.data_size), piece: Some(piece) })
            }
            _ => Err(self.broken(at, Error::damaged("the pieces of the block contradict each other"))),
        }
    }

    /// Reads from one granule.
    fn read_granule(&self, at: u64, buf: &mut [u8]) -> Result<usize> {
        if at >= self.limit.load(Ordering::Acquire) || (self.stand_alone && self.error_at(at).is_some()) {
            return Err(self.why_not(at));
        }
        let mut granule = self.locate(at)?;
        self.read_ahead(granule);
        if let Some(read) = self.read_beginning(granule, at, buf) {
            return Ok(read);
        }
        loop {
            let (bytes, transient) = match self.cache.get(self.id, granule.start) {
                Some(bytes) => (bytes, None),
                None => self.obtain(granule)?,
            };
            let limit = self.limit.load(Ordering::Acquire).saturating_sub(granule.start);
            let there = &bytes[..bytes.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
            let rest = usize::try_from(at - granule.start)
                .ok()
                .and_then(|from| there.get(from..))
                .unwrap_or_default();
            if rest.is_empty() {
                let again = self.locate(at)?;
                if transient.is_some() || again.is(&granule) || self.error_at(at).is_some() {
                    return Err(transient.unwrap_or_else(|| self.why_not(at)));
                }
                // The bytes before this one turned out to be damaged, so this byte now belongs to another
                // chunk.
                granule = again;
                continue;
            }
            let read = rest.len().min(buf.len());
            buf[..read].copy_from_slice(&rest[..read]);
            let to_the_end = read == rest.len();
            self.cache.used(bytes);
            if to_the_end {
                self.cache.read_on(self.id, granule.start);
            }
            return Ok(read);
        }
    }

    /// Returns the granule that contains byte `at`, if it is cached and found without a search.
    fn known_granule(&self, at: u64) -> Option<(u64, Bytes)> {
        let start = match &self.encoded {
            Encoded::Stream(_) => at - at % GRANULE,
            Encoded::Pieces(_) => self.state().sequences.start_near(at)?,
        };
        Some((start, self.cache.get(self.id, start)?))
    }

    /// Returns 0 for the end of the data. If all data are readable but the block has an error (surplus data,
    /// a missing checksum), returns the error, so that a sequential reader gets it at the end.
    fn at_the_end(&self) -> Result<usize> {
        self.state().damage.behind(self.data_size).map_or(Ok(0), |error| Err(error.clone()))
    }

    /// Verifies a block that is empty according to its header.
    fn check_empty(&self) {
        if self.soundness() != Soundness::Unknown {
            return;
        }
        match &self.encoded {
            Encoded::Stream(_) => {
                let span = Span { start: 0, end: 0, piece: None };
                // An error is recorded as damage. There are no bytes to return.
                let _ = self.obtain(Granule { start: 0, span });
            }
            Encoded::Pieces(pieces) => self.note_end(self.after_last(&**pieces)),
        }
    }

    /// Fails if data follow the last byte that the header promises.
    fn after_last(&self, pieces: &dyn Chunks) -> Result<()> {
        match pieces.find(self.data_size)? {
            None => Ok(()),
            Some(_) => Err(self.too_long()),
        }
    }

    fn note_end(&self, end: Result<()>) {
        match end {
            Ok(()) => self.state().ended = true,
            Err(error) if error.lasts() => {
                self.broken(self.data_size, error);
            }
            Err(_) => {}
        }
    }

    fn too_short(&self, end: u64) -> Error {
        Error::damaged(format!("decodes to {end} bytes, but the header says {}", self.data_size))
    }

    fn too_long(&self) -> Error {
        Error::damaged(format!("decodes to more than the {} bytes in the header", self.data_size))
    }

    fn state(&self) -> MutexGuard<'_, ReadersState> {
        locked(&self.state)
    }
}

impl Content for Decoded {
    fn len(&self) -> u64 {
        self.data_size
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.data_size == 0 {
            self.check_empty();
        }
        if offset >= self.data_size && !buf.is_empty() {
            return self.at_the_end();
        }
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            if at >= self.data_size {
                break;
            }
            match self.read_granule(at, rest) {
                Ok(read) => done += read,
                // The bytes so far are right; the next read starts here and returns the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let end = offset.checked_add(len as u64)?.min(self.data_size);
        if offset >= end {
            return None;
        }
        let (start, buffer) = match self.known_granule(offset) {
            Some(known) => known,
            None if at_any_cost => {
                let granule = self.locate(offset).ok()?;
                if end > self.end_of(granule) || self.may_read_beginning(granule).is_some() {
                    // The caller has to copy a range of several granules, or of a granule that is not decoded as a whole.
                    return None;
                }
                // Read-ahead starts before the wait for this granule, so that other granules are decoded meanwhile.
                self.read_ahead(granule);
                (granule.start, self.obtain(granule).ok()?.0)
            }
            None => return None,
        };
        let range = usize::try_from(offset - start).ok()?..usize::try_from(end - start).ok()?;
        // Bytes beyond the limit are not lent; reading them returns the error.
        if range.end > buffer.len() || end > self.limit.load(Ordering::Acquire) {
            return None;
        }
        if let Ok(granule) = self.locate(offset) {
            self.read_ahead(granule);
        }
        if range.end == buffer.len() {
            self.cache.read_on(self.id, start);
        }
        Some(SharedBytes::new(buffer, range, self.cache.clone()))
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.clone()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        let state = self.state();
        match state.damage.first() {
            Some(from) => Soundness::Broken(from),
            None if state.ended && state.covered.contains(0, self.data_size) => Soundness::Sound,
            None => Soundness::Unknown,
        }
    }

    fn damage(&self) -> Option<Error> {
        self.state().damage.error.clone()
    }

    fn inherit(&self, from: u64, damage: &Error) {
        self.broken(from, damage.clone());
    }

    fn decoded_at_once(&self) -> u64 {
        match &self.encoded {
            Encoded::Stream(_) => u64::MAX,
            // Finding a chunk on a server takes a request.
            Encoded::Pieces(pieces) if pieces.is_cheaper_in_part() => USUAL_PART,
            Encoded::Pieces(pieces) => pieces.find(0).ok().flatten().map_or(1, |chunk| chunk.len),
        }
    }

    fn costs_a_pass(&self) -> bool {
        match &self.encoded {
            Encoded::Stream(stream) => stream.costs_a_pass(),
            Encoded::Pieces(_) => false,
        }
    }
}

impl Drop for Decoded {
    fn drop(&mut self) {
        // The idle decoders of this content would keep the file open.
        self.cache.forget(self.id);
        self.cache.forget(self.beginnings);
    }
}

impl fmt::Debug for Decoded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded: &dyn fmt::Debug = match &self.encoded {
            Encoded::Stream(stream) => stream,
            Encoded::Pieces(pieces) => pieces,
        };
        out.debug_struct("Decoded")
            .field("encoded", encoded)
            .field("data_size", &self.data_size)
            .finish_non_exhaustive()
    }
}

/// Returns the first byte up to `at` that no chunk contains. `at` itself is in no chunk.
fn first_missing(pieces: &dyn Chunks, at: u64) -> u64 {
    let mut low = 0;
    let mut high = at;
    while low < high {
        let middle = low + (high - low) / 2;
        match pieces.find(middle) {
            Ok(Some(piece)) => low = piece.offset.saturating_add(piece.len).clamp(middle + 1, high),
            _ => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests;
