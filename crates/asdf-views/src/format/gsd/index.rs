//! The index: one entry of 32 bytes per chunk (`file-layer.rst` of gsd 1.0, "Index block").
//!
//! The index is read with `pread`, in pages that are kept in a bounded cache. It is never mapped, so a
//! truncated file gives an error. Cost grows with the logarithm of the number of slots. Only an index of at
//! most [`SURVEYED`] entries is scanned as a whole, to find damage.
//!
//! The index ends at the first entry with location 0. Writers fill the slots in order, so the end is found by
//! bisection. Frames ascend, so the entries of a frame are found by bisection, too. If entries are damaged or
//! frames do not ascend, as few entries as possible are left out: see [`Order`].

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;
use seekable::error::{Error, Kind, Result};
use seekable::source::{Source, read_up_to};
use seekable::sync::locked;

use super::entry::{IndexEntry, Limits};
use super::header::{ENTRY, FileRange};
use super::order::{Order, ascending};

/// Maximum entries of an index that is scanned as a whole: 2 MiB.
pub(crate) const SURVEYED: u64 = 1 << 16;

/// Entries per page, and pages that are cached: 1 MiB.
const PAGE: u64 = 128;
const PAGES: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");

/// Entries that [`Index::scan`] reads at once.
const PIECE: u64 = 2048;

/// Maximum run of damaged entries that bisection skips in a large index.
const PASSED: u64 = 4 * PAGE;

/// The index of a file.
#[derive(Debug)]
pub(crate) struct Index {
    source: Arc<dyn Source>,
    place: FileRange,
    limits: Limits,
    used: OnceLock<u64>,
    order: OnceLock<Order>,
    pages: Mutex<LruCache<u64, Arc<[u8]>>>,
}

impl Index {
    /// Creates the index at a byte range of the source. Reads nothing.
    pub(crate) fn new(source: Arc<dyn Source>, place: FileRange, limits: Limits) -> Self {
        let pages = Mutex::new(LruCache::new(PAGES));
        Self { source, place, limits, used: OnceLock::new(), order: OnceLock::new(), pages }
    }

    /// Returns the upper limits for the fields of valid entries.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of slots, used or not.
    pub(crate) fn slots(&self) -> u64 {
        self.place.len / ENTRY
    }

    /// Returns the file offset of an entry.
    pub(crate) fn offset(&self, slot: u64) -> u64 {
        self.place.offset.saturating_add(slot.saturating_mul(ENTRY))
    }

    /// Returns the number of entries before the end.
    pub(crate) fn used(&self) -> Result<u64> {
        if let Some(used) = self.used.get() {
            return Ok(*used);
        }
        let used = self.find_end()?;
        Ok(*self.used.get_or_init(|| used))
    }

    fn find_end(&self) -> Result<u64> {
        let end = bisect(0..self.slots(), |slot| Ok(!self.read(slot)?.is_end()))?;
        let mut first = end;
        // In a damaged index an earlier slot may end the index, so a small index is scanned.
        if end <= SURVEYED {
            self.scan(0..end, &mut |entry| {
                first = if entry.is_end() { entry.slot } else { end };
                Ok(!entry.is_end())
            })?;
        }
        Ok(first)
    }

    /// Returns the entry in a used slot, without checking the entry.
    pub(crate) fn slot(&self, slot: u64) -> Result<IndexEntry> {
        if slot >= self.used()? {
            return Err(Error::new(Kind::NotFound, format!("there is no entry {slot}")));
        }
        let page = slot / PAGE;
        let bytes = self.page(page)?;
        let at = ((slot - page * PAGE) * ENTRY) as usize;
        match bytes.get(at..at + ENTRY as usize) {
            Some(bytes) => Ok(IndexEntry::parse(bytes, slot)),
            None => Err(self.cut(slot)),
        }
    }

    fn page(&self, page: u64) -> Result<Arc<[u8]>> {
        let kept = || locked(&self.pages);
        if let Some(bytes) = kept().get(&page) {
            return Ok(bytes.clone());
        }
        let slots = (self.slots().saturating_sub(page * PAGE)).min(PAGE);
        let mut bytes = vec![0; (slots * ENTRY) as usize];
        let read = read_up_to(&*self.source, self.offset(page * PAGE), &mut bytes)?;
        bytes.truncate(read);
        let bytes: Arc<[u8]> = bytes.into();
        kept().put(page, bytes.clone());
        Ok(bytes)
    }

    /// Reads the entry in any slot, bypassing the cache.
    fn read(&self, slot: u64) -> Result<IndexEntry> {
        let mut bytes = [0; ENTRY as usize];
        match read_up_to(&*self.source, self.offset(slot), &mut bytes)? {
            read if read < bytes.len() => Err(self.cut(slot)),
            _ => Ok(IndexEntry::parse(&bytes, slot)),
        }
    }

    fn cut(&self, slot: u64) -> Error {
        Error::damaged(format!("the index is cut off before entry {slot}")).at(self.offset(slot))
    }

    /// Calls `take` with the entries of a range in slot order until `take` returns false. Unused and damaged
    /// entries are included.
    pub(crate) fn scan(
        &self,
        slots: Range<u64>,
        take: &mut dyn FnMut(&IndexEntry) -> Result<bool>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        let end = slots.end.min(self.slots());
        let mut at = slots.start;
        while at < end {
            let count = (end - at).min(PIECE);
            bytes.resize((count * ENTRY) as usize, 0);
            if read_up_to(&*self.source, self.offset(at), &mut bytes)? < bytes.len() {
                return Err(self.cut(at));
            }
            for (slot, entry) in (at..).zip(bytes.chunks(ENTRY as usize)) {
                if !take(&IndexEntry::parse(entry, slot))? {
                    return Ok(());
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Returns the entries that make up the frames, in frame order.
    pub(crate) fn order(&self) -> Result<&Order> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let order = self.find_order()?;
        Ok(self.order.get_or_init(|| order))
    }

    fn find_order(&self) -> Result<Order> {
        let used = self.used()?;
        if used > SURVEYED {
            return Ok(Order::All(used));
        }
        let mut usable = Vec::new();
        let mut last = 0;
        let mut ascends = true;
        self.scan(0..used, &mut |entry| {
            match entry.check(&self.limits) {
                Ok(()) => {
                    ascends &= entry.frame >= last;
                    last = entry.frame;
                    usable.push((entry.frame, entry.slot as u32));
                }
                Err(_) => ascends = false,
            }
            Ok(true)
        })?;
        Ok(if ascends { Order::All(used) } else { Order::Some(ascending(&usable)) })
    }

    /// Returns entry `k`, in frame order, of the entries that make up the frames.
    pub(crate) fn entry(&self, k: u64) -> Result<IndexEntry> {
        let slot = self.order()?.slot(k);
        self.slot(slot.ok_or_else(|| Error::new(Kind::NotFound, format!("there is no entry {k}")))?)
    }

    /// True if an entry is valid. In a large index the entries that make up the frames include damaged ones.
    pub(crate) fn is_usable(&self, entry: &IndexEntry) -> bool {
        entry.check(&self.limits).is_ok()
    }

    /// Returns the first entry in a range that belongs to frame `frame` or a later one; the end of the range
    /// if there is none. The search starts at `near`.
    pub(crate) fn first_of(&self, frame: u64, within: Range<u64>, near: u64) -> Result<u64> {
        let end = within.end;
        let is_before = |k: u64| {
            // A damaged entry counts as part of the next usable entry's frame.
            for later in k..end.min(k.saturating_add(PASSED)) {
                let entry = self.entry(later)?;
                if self.is_usable(&entry) {
                    return Ok(entry.frame < frame);
                }
            }
            Ok(false)
        };
        let near = near.clamp(within.start, end);
        let mut low = near;
        let mut high = near;
        let mut step = 1;
        while high < end && is_before(high)? {
            low = high + 1;
            high = high.saturating_add(step).min(end);
            step *= 2;
        }
        while high == near && low > within.start && !is_before(low - 1)? {
            low = low.saturating_sub(step).max(within.start);
            step *= 2;
        }
        bisect(low..high, is_before)
    }

    /// Returns the last usable entry before `end`.
    pub(crate) fn last(&self, end: u64) -> Result<Option<IndexEntry>> {
        for k in (end.saturating_sub(PASSED)..end).rev() {
            let entry = self.entry(k)?;
            if self.is_usable(&entry) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Returns the first number of a range for which `is_before` is false; the range's end if there is none.
fn bisect(range: Range<u64>, is_before: impl Fn(u64) -> Result<bool>) -> Result<u64> {
    let mut low = range.start;
    let mut high = range.end;
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
