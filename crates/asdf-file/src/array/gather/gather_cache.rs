//! Gathered parts of arrays, kept until they have been read.

use std::sync::{Arc, Mutex, Weak};

use seekable::error::Result;
use seekable::per_process::PerProcess;
use seekable::sync::{Awaited, locked, locked_at_once};

/// Size of the first part gathered for a reader, in bytes.
const FIRST: u64 = 128 << 10;
/// Factor from the size of one part to the next.
const GROWTH: u64 = 16;
/// Limit of the gathered parts of all arrays together, in bytes. The end that is kept of an array's previous
/// part (`OLD`) is not counted.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// Bytes kept of the previous part: the requests of one reader may arrive out of order.
const OLD: usize = 2 << 20;

/// The gathered part of one array.
#[derive(Debug, Default)]
pub(super) struct GatherCache(Mutex<GatherState>);

#[derive(Debug, Default)]
struct GatherState {
    part: GatheredPart,
    /// The end of the previous part.
    old: GatheredPart,
    /// The size of the next part, in bytes.
    size: u64,
    /// True after a failure to gather a part. No further part is tried.
    has_failed: bool,
}

#[derive(Debug, Default)]
struct GatheredPart {
    begin: u64,
    data: Vec<u8>,
}

impl GatheredPart {
    fn end(&self) -> u64 {
        self.begin + self.data.len() as u64
    }

    /// Copies bytes from `offset` on. Returns their number.
    fn copy(&self, offset: u64, out: &mut [u8]) -> usize {
        let at = offset.checked_sub(self.begin).and_then(|at| usize::try_from(at).ok());
        let data = at.and_then(|at| self.data.get(at..)).unwrap_or_default();
        let len = data.len().min(out.len());
        out[..len].copy_from_slice(&data[..len]);
        len
    }
}

impl GatherState {
    /// Drops the part except for its end.
    fn keep_end(&mut self) {
        let GatheredPart { begin, data } = std::mem::take(&mut self.part);
        let end = data.get(data.len().saturating_sub(OLD)..).unwrap_or_default().to_vec();
        self.old = GatheredPart { begin: begin + (data.len() - end.len()) as u64, data: end };
        self.part.begin = self.old.end();
    }
}

/// All arrays that may hold a part, the oldest first.
static HOLDERS: PerProcess<Mutex<Vec<Weak<GatherCache>>>> = PerProcess::new(Mutex::default);

impl GatherCache {
    /// Copies bytes from `offset` of an array of `len` bytes. Returns their number; 0 if they can't be
    /// gathered. `gather` takes a size and returns a part of about that size that holds `offset`, with the
    /// part's own offset; `None` if it can't be gathered. Its error says nothing about later parts.
    pub(super) fn read(
        self: &Arc<Self>,
        (offset, len): (u64, u64),
        out: &mut [u8],
        gather: &dyn Fn(u64) -> Result<Option<(u64, Vec<u8>)>>,
    ) -> Result<usize> {
        let mut state = locked(&self.0);
        let copied = match state.part.copy(offset, out) {
            0 => state.old.copy(offset, out),
            copied => copied,
        };
        if copied > 0 {
            if offset + copied as u64 == len {
                state.keep_end();
            }
            return Ok(copied);
        }
        if state.has_failed {
            return Ok(0);
        }
        let goes_on = (state.part.end()..=state.part.end() + OLD as u64).contains(&offset) && state.size > 0;
        let wanted = if goes_on { state.size.saturating_mul(GROWTH) } else { FIRST.max(out.len() as u64) };
        // The part is dropped before the next one is allocated.
        state.keep_end();
        state.size = wanted.min(self.make_room(wanted.min(MAX_BYTES)));
        // Other readers wait for the lock.
        let _awaited = Awaited::begin();
        Ok(match gather(state.size)? {
            Some((begin, data)) => {
                state.part = GatheredPart { begin, data };
                state.part.copy(offset, out)
            }
            None => {
                state.has_failed = true;
                0
            }
        })
    }

    /// Drops the parts of other arrays until there is room for `wanted` bytes. Returns the size available.
    fn make_room(self: &Arc<Self>, wanted: u64) -> u64 {
        let mut holders = locked(HOLDERS.get());
        holders.retain(|holder| holder.upgrade().is_some_and(|holder| !Arc::ptr_eq(&holder, self)));
        let mut held = 0;
        for holder in holders.iter().rev().filter_map(Weak::upgrade) {
            match locked_at_once(&holder.0) {
                Some(mut state) => {
                    held += state.part.data.len() as u64;
                    if held + wanted > MAX_BYTES {
                        held -= state.part.data.len() as u64;
                        (state.part, state.old, state.size) =
                            (GatheredPart::default(), GatheredPart::default(), 0);
                    }
                }
                // The array is being gathered. Its part may take half of the limit.
                None => held += MAX_BYTES / 2,
            }
        }
        holders.push(Arc::downgrade(self));
        wanted.min(MAX_BYTES.saturating_sub(held)).max(FIRST)
    }
}
