//! A GSD file: header, names, entries, frames.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::entry::{Entry, Limits};
use super::header::{Header, SIZE};
use super::index::Index;
use super::names::Names;
use super::order::Order;
use crate::content::Slice;
use crate::error::{Error, Result};
use crate::source::{Source, SourceStat, read_up_to};

/// So many more frames than slots of the index may there be: frames without a chunk need no slot.
const EMPTY_FRAMES: u64 = 1 << 20;

/// Slots of the first index of a file that a writer of version 1.x makes.
const FIRST_SLOTS: u64 = 128;

/// More entries than this in a row are read past the pages of the index that are kept.
const KEPT_TOGETHER: u64 = 256;

/// The most chunks of a frame that are shown as files: names can be numbered up to 65535.
pub const MOST_CHUNKS: u64 = 1 << 17;

/// A GSD file that was opened. It answers for the state in which the file was then.
#[derive(Debug)]
pub struct GsdFile {
    source: Arc<dyn Source>,
    stat: SourceStat,
    header: Header,
    names: Names,
    index: Index,
    shown: OnceLock<Shown>,
}

/// The frames that are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// How many of the entries in order are theirs.
    pub entries: u64,
    /// How many frames there are.
    pub frames: u64,
    /// The number of entries of an unfinished frame, which follows.
    pub unfinished: u64,
}

impl GsdFile {
    /// Reads header and names, whatever the number of frames.
    ///
    /// # Errors
    /// The header is damaged, or of an unknown version.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
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

    /// The source.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// What the source was when the file was opened.
    pub fn stat(&self) -> SourceStat {
        self.stat
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The names of chunks.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// All entries, in order of the file: the blocks.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The frames that are finished.
    pub fn shown(&self) -> Result<Shown> {
        if let Some(shown) = self.shown.get() {
            return Ok(*shown);
        }
        let shown = self.find_shown()?;
        Ok(*self.shown.get_or_init(|| shown))
    }

    /// A writer of version 1.x that finds the index full in the middle of a frame writes a new one twice as large,
    /// with those entries of the frame that there is room for in the old one. Until it ends the frame, or for good if
    /// it is killed, exactly half of the index is used. Then the last frame counts as finished only if it has each
    /// name that the frame before it has. Writers of later versions write entries of finished frames alone.
    fn find_shown(&self) -> Result<Shown> {
        let entries = self.index.order()?.len();
        let Some(last) = self.index.last(entries)? else {
            return Ok(Shown { entries: 0, frames: 0, unfinished: 0 });
        };
        let shown = Shown { entries, frames: last.frame + 1, unfinished: 0 };
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
        let is_small = entries - before.start <= MOST_CHUNKS;
        let (wanted, there) = match is_small {
            true => (names(before)?, names(start..entries)?),
            false => return Ok(shown),
        };
        let is_finished = !wanted.is_empty() && wanted.iter().all(|id| there.binary_search(id).is_ok());
        if is_finished {
            return Ok(shown);
        }
        let frames = self.index.last(start)?.map_or(0, |entry| entry.frame + 1);
        Ok(Shown { entries: start, frames, unfinished: entries - start })
    }

    /// How many frames there are. Those without a chunk behind the last one with a chunk are not known to the format.
    pub fn frames(&self) -> Result<u64> {
        Ok(self.shown()?.frames)
    }

    /// How many entries make up the frames.
    pub fn entries(&self) -> Result<u64> {
        Ok(self.shown()?.entries)
    }

    /// Entry `k` of those that make up the frames, in order of frames. Of a large index, a damaged one is an error.
    pub fn entry(&self, k: u64) -> Result<Entry> {
        let entry = self.index.entry(k)?;
        entry.check(self.index.limits()).map_err(|error| error.at(self.index.offset(entry.slot)))?;
        Ok(entry)
    }

    /// Adds the usable ones of a range of the entries that make up the frames to `found`.
    pub fn read_entries(&self, range: Range<u64>, found: &mut Vec<Entry>) -> Result<()> {
        self.each_entry(range, |entry| found.push(*entry))
    }

    /// Hands out the usable ones of a range of the entries that make up the frames.
    pub fn each_entry(&self, mut range: Range<u64>, mut hand_out: impl FnMut(&Entry)) -> Result<()> {
        let mut take = |entry: &Entry| {
            if self.index.is_usable(entry) {
                hand_out(entry);
            }
            Ok(true)
        };
        // A few come from the pages that are kept.
        let is_long = range.end.saturating_sub(range.start) > KEPT_TOGETHER;
        match self.index.order()? {
            Order::All(_) if is_long => self.index.scan(range, &mut take),
            _ => range.try_for_each(|k| take(&self.index.entry(k)?).map(drop)),
        }
    }

    /// Which entries are of frame `frame`.
    pub fn frame(&self, frame: u64) -> Result<Range<u64>> {
        let end = self.entries()?;
        // Most files have as many chunks in each frame.
        let near = u128::from(end) * u128::from(frame) / u128::from(self.frames()?.max(1));
        let start = self.index.first_of(frame, 0..end, u64::try_from(near).unwrap_or(end))?;
        let next = frame.checked_add(1);
        let end = next.map_or(Ok(end), |next| self.index.first_of(next, start..end, start))?;
        Ok(start..end)
    }

    /// The entries of frame `frame`.
    ///
    /// # Errors
    /// There are more than [`MOST_CHUNKS`].
    pub fn entries_of(&self, frame: u64) -> Result<Vec<Entry>> {
        let range = self.frame(frame)?;
        let (start, count) = (range.start, range.end - range.start);
        if count > MOST_CHUNKS {
            let message = format!("frame {frame} has {count} chunks, more than are shown; blocks/ has them");
            return Err(Error::unsupported(message).at(self.index.offset(start)));
        }
        let mut found = Vec::new();
        self.read_entries(range, &mut found)?;
        found.retain(|entry| entry.frame == frame);
        Ok(found)
    }

    /// The chunk of frame `frame` with a name; of several, the one that was written last.
    ///
    /// From version 2.0 on the entries of a frame are sorted by name; before, all of the frame are looked at.
    pub fn find(&self, frame: u64, id: u16) -> Result<Option<Entry>> {
        let range = self.frame(frame)?;
        let is_short = range.end - range.start <= 64;
        if is_short || self.header.is_old() || matches!(self.index.order()?, Order::Some(_)) {
            let of_name = self.entries_of(frame)?.into_iter().filter(|entry| entry.id == id);
            return Ok(of_name.max_by_key(|entry| self.written(entry)));
        }
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.index.entry(middle)?.id < id {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut found: Option<Entry> = None;
        for k in low..range.end.min(low.saturating_add(MOST_CHUNKS)) {
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

    /// What ascends in the order in which chunks of one frame and name were written.
    ///
    /// An index of version 1.x is in that order. A later one is sorted by name, so the place of the data tells.
    pub fn written(&self, entry: &Entry) -> (i64, u64) {
        if self.header.is_old() { (0, entry.slot) } else { (entry.location, entry.slot) }
    }

    /// The data of a chunk, as they lie in the file.
    ///
    /// # Errors
    /// They are not within the file.
    pub fn data(&self, entry: &Entry) -> Result<Slice> {
        let (offset, len) = self.range(entry)?;
        Ok(Slice::new(self.source.clone(), offset, len))
    }

    /// Where the data of a chunk lie: offset and length.
    ///
    /// # Errors
    /// They are not within the file.
    pub fn range(&self, entry: &Entry) -> Result<(u64, u64)> {
        let found = entry.range(self.stat.size).or_else(|_| {
            // The index may have been read when the file had grown already.
            entry.range(self.source.size_now()?)
        });
        found.map_err(|error| error.at(self.index.offset(entry.slot)))
    }
}
