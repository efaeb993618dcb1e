//! An open GSD file: header, names, entries, frames.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use seekable::error::{Error, Result};
use seekable::source::{Source, SourceStat, read_up_to};

use seekable::content::Slice;

use super::entry::{IndexEntry, Limits};
use super::header::{Header, SIZE};
use super::index::Index;
use super::names::Names;
use super::order::Order;

/// Maximum number of frames beyond the number of index slots: frames without a chunk need no slot. Each frame has a
/// directory in `arrays/frames/` and one in `arrays/resolved/`, so a damaged number would make a small file endless.
const EMPTY_FRAMES: u64 = 1 << 12;

/// Slots in the first index that a writer of version 1.x allocates.
const FIRST_SLOTS: u64 = 128;

/// Ranges of more entries than this are scanned directly, bypassing the page cache of the index.
const KEPT_TOGETHER: u64 = 256;

/// Maximum chunks of a frame that are shown as files. A file has at most 65535 names of chunks.
pub(crate) const MAX_CHUNKS: u64 = 1 << 17;

/// An open GSD file, as it was when it was opened.
#[derive(Debug)]
pub(crate) struct GsdFile {
    /// The source.
    pub(crate) source: Arc<dyn Source>,
    stat: SourceStat,
    header: Header,
    names: Names,
    index: Index,
    shown: OnceLock<FinishedFrames>,
}

/// The finished frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinishedFrames {
    /// Number of entries that belong to finished frames.
    pub entries: u64,
    /// Number of finished frames.
    pub frames: u64,
    /// Number of entries of the unfinished frame that follows.
    pub unfinished: u64,
}

impl GsdFile {
    /// Reads header and names; the cost does not depend on the number of frames.
    ///
    /// # Errors
    /// The header is damaged, or its version is unknown.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self> {
        let stat = source.stat()?;
        let mut bytes = [0; SIZE as usize];
        let read = read_up_to(&*source, 0, &mut bytes)?;
        let header = Header::parse(&bytes[..read], stat.size).map_err(|error| error.of(source.path()))?;
        let names = Names::read(&*source, &header)?;
        let last_frame = header.slots().saturating_add(EMPTY_FRAMES);
        let limits = Limits { names: names.len() as u64, last_frame };
        let index = Index::new(source.clone(), header.index, limits);
        Ok(Self { source, stat, header, names, index, shown: OnceLock::new() })
    }

    /// Returns the stat of the source at the time of opening.
    pub(crate) fn stat(&self) -> SourceStat {
        self.stat
    }

    /// Returns the parsed header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the names of chunks.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the index: all entries in file order, which are the mount's blocks.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the finished frames.
    pub(crate) fn shown(&self) -> Result<FinishedFrames> {
        if let Some(shown) = self.shown.get() {
            return Ok(*shown);
        }
        let shown = self.find_shown()?;
        Ok(*self.shown.get_or_init(|| shown))
    }

    /// Finds the finished frames.
    ///
    /// If the index fills up in the middle of a frame, a writer of version 1.x writes a new one of twice the
    /// size. The frame's entries that fitted into the old index are copied to the new one. Until the frame
    /// ends, or for good if the writer is killed, exactly half of the new index is in use. In this state the
    /// last frame counts as finished only if it has every name that the previous frame has. Later writers
    /// write entries of finished frames only.
    fn find_shown(&self) -> Result<FinishedFrames> {
        let entries = self.index.order()?.len();
        let Some(last) = self.index.last(entries)? else {
            return Ok(FinishedFrames { entries: 0, frames: 0, unfinished: 0 });
        };
        let shown = FinishedFrames { entries, frames: last.frame + 1, unfinished: 0 };
        let slots = self.index.slots();
        let is_half = slots > FIRST_SLOTS && self.index.used()?.checked_mul(2) == Some(slots);
        if !self.header.is_old() || !is_half {
            return Ok(shown);
        }
        let start = self.index.first_of(last.frame, 0..entries, entries)?;
        let before = match self.index.last(start)? {
            Some(before) => self.index.first_of(before.frame, 0..start, start)?..start,
            None => 0..0,
        };
        let names = |range: Range<u64>| -> Result<Vec<u16>> {
            let mut found = Vec::new();
            self.read_entries(range, &mut found)?;
            let mut names: Vec<u16> = found.iter().map(|entry| entry.id).collect();
            names.sort_unstable();
            names.dedup();
            Ok(names)
        };
        let is_small = entries - before.start <= MAX_CHUNKS;
        if !is_small {
            return Ok(shown);
        }
        let wanted = names(before)?;
        let there = names(start..entries)?;
        let is_finished = !wanted.is_empty() && wanted.iter().all(|id| there.binary_search(id).is_ok());
        if is_finished {
            return Ok(shown);
        }
        let frames = self.index.last(start)?.map_or(0, |entry| entry.frame + 1);
        Ok(FinishedFrames { entries: start, frames, unfinished: entries - start })
    }

    /// Returns the number of frames. The format does not record frames without chunks after the last frame
    /// with chunks.
    pub(crate) fn frames(&self) -> Result<u64> {
        Ok(self.shown()?.frames)
    }

    /// Returns the number of entries that make up the frames.
    pub(crate) fn entries(&self) -> Result<u64> {
        Ok(self.shown()?.entries)
    }

    /// Returns entry `k`, in frame order, of the entries that make up the frames.
    ///
    /// # Errors
    /// The entry is damaged. In a small index, damaged entries are left out and have no number.
    pub(crate) fn entry(&self, k: u64) -> Result<IndexEntry> {
        let entry = self.index.entry(k)?;
        entry.check(self.index.limits()).map_err(|error| error.at(self.index.offset(entry.slot)))?;
        Ok(entry)
    }

    /// Appends the usable entries of a range to `found`. Entries are numbered as for [`Self::entry`].
    pub(crate) fn read_entries(&self, range: Range<u64>, found: &mut Vec<IndexEntry>) -> Result<()> {
        self.each_entry(range, |entry| found.push(*entry))
    }

    /// Calls `hand_out` with each usable entry of a range. Entries are numbered as for [`Self::entry`].
    pub(crate) fn each_entry(
        &self,
        mut range: Range<u64>,
        mut hand_out: impl FnMut(&IndexEntry),
    ) -> Result<()> {
        let mut take = |entry: &IndexEntry| {
            if self.index.is_usable(entry) {
                hand_out(entry);
            }
            Ok(true)
        };
        // A short range is read through the page cache.
        let is_long = range.end.saturating_sub(range.start) > KEPT_TOGETHER;
        match self.index.order()? {
            Order::All(_) if is_long => self.index.scan(range, &mut take),
            _ => range.try_for_each(|k| take(&self.index.entry(k)?).map(drop)),
        }
    }

    /// Returns the range of entries of frame `frame`.
    pub(crate) fn frame(&self, frame: u64) -> Result<Range<u64>> {
        let end = self.entries()?;
        // Most files have equally many chunks in each frame, so the search starts at the proportional
        // position.
        let near = u128::from(end) * u128::from(frame) / u128::from(self.frames()?.max(1));
        let start = self.index.first_of(frame, 0..end, u64::try_from(near).unwrap_or(end))?;
        let next = frame.checked_add(1);
        let end = next.map_or(Ok(end), |next| self.index.first_of(next, start..end, start))?;
        Ok(start..end)
    }

    /// Returns the entries of frame `frame`.
    ///
    /// # Errors
    /// The frame has more than [`MAX_CHUNKS`] chunks.
    pub(crate) fn entries_of(&self, frame: u64) -> Result<Vec<IndexEntry>> {
        let range = self.frame(frame)?;
        let start = range.start;
        let count = range.end - range.start;
        if count > MAX_CHUNKS {
            let message = format!(
                "frame {frame} has {count} chunks, more than arrays/ shows; all are in \
                                   blocks/"
            );
            return Err(Error::unsupported(message).at(self.index.offset(start)));
        }
        let mut found = Vec::new();
        self.read_entries(range, &mut found)?;
        found.retain(|entry| entry.frame == frame);
        Ok(found)
    }

    /// Returns the chunk of frame `frame` with name `id`; the last written one if there are several.
    ///
    /// From version 2.0 on the entries of a frame are sorted by name. In older files all entries of the frame
    /// are scanned.
    pub(crate) fn find(&self, frame: u64, id: u16) -> Result<Option<IndexEntry>> {
        let range = self.frame(frame)?;
        let is_short = range.end - range.start <= 64;
        if is_short || self.header.is_old() || matches!(self.index.order()?, Order::Some(_)) {
            let of_name = self.entries_of(frame)?.into_iter().filter(|entry| entry.id == id);
            return Ok(of_name.max_by_key(|entry| self.written(entry)));
        }
        let mut low = range.start;
        let mut high = range.end;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index.entry(middle)?.id < id { low = middle + 1 } else { high = middle }
        }
        let mut found: Option<IndexEntry> = None;
        for k in low..range.end.min(low.saturating_add(MAX_CHUNKS)) {
            let entry = self.index.entry(k)?;
            if entry.id != id {
                break;
            }
            let is_later = found.is_none_or(|found| self.written(&entry) > self.written(&found));
            if self.index.is_usable(&entry) && entry.frame == frame && is_later {
                found = Some(entry);
            }
        }
        Ok(found)
    }

    /// Returns a key that sorts chunks of one frame and name by the time of writing.
    ///
    /// The index of version 1.x is in write order. A later one is sorted by name, so the location of the data
    /// decides.
    pub(crate) fn written(&self, entry: &IndexEntry) -> (i64, u64) {
        if self.header.is_old() { (0, entry.slot) } else { (entry.location, entry.slot) }
    }

    /// Returns the data of a chunk, as stored in the file.
    ///
    /// # Errors
    /// The data are not within the file.
    pub(crate) fn data(&self, entry: &IndexEntry) -> Result<Slice> {
        let (offset, len) = self.range(entry)?;
        Ok(Slice::new(self.source.clone(), offset, len))
    }

    /// Returns offset and length of a chunk's data.
    ///
    /// # Errors
    /// The data are not within the file.
    pub(crate) fn range(&self, entry: &IndexEntry) -> Result<(u64, u64)> {
        let found = entry.range(self.stat.size).or_else(|_| {
            // The file may have grown between opening and reading the index.
            entry.range(self.source.size_now()?)
        });
        found.map_err(|error| error.at(self.index.offset(entry.slot)))
    }
}
