//! One pass over the index. It finds the names for which all chunks have the same type and shape.
//!
//! For each name it keeps the first chunk, the number of frames that have a chunk, and checkpoints: the slot
//! of every n-th chunk. All checkpoints together take at most 1 MiB; beyond that, every other checkpoint is
//! dropped. If the file has grown, a pass continues where the pass over the older version ended.

use seekable::error::Result;

use super::super::entry::IndexEntry;
use super::super::file::GsdFile;

/// Maximum checkpoints of all names together.
const MAX_CHECKPOINTS: usize = 1 << 17;

/// Initial number of chunks between checkpoints.
const SPACING: u64 = 256;

/// The reason why a name has no series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differs {
    /// The first chunk of the name.
    pub(crate) first: IndexEntry,
    /// The first chunk that has another type or shape.
    pub(crate) other: IndexEntry,
}

/// The chunks of one name, one per frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameChunks {
    /// The first chunk.
    pub(crate) first: IndexEntry,
    /// Number of frames that have a chunk.
    pub(crate) count: u64,
    /// The first chunk, counted from 0, with data outside of the file.
    pub(crate) cut: Option<u64>,
    /// Slots of chunks 0, `spacing`, 2·`spacing` and so on.
    checkpoints: Vec<u64>,
}

/// The chunks of one name as rows, one per frame. Frames may lack a chunk, and a chunk may have another
/// number type than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameRows {
    /// The first chunk.
    pub(crate) first: IndexEntry,
    /// Length of the longest text in bytes.
    pub(crate) longest: u64,
    /// The first chunk with another number type.
    pub(crate) converted: Option<IndexEntry>,
    /// The first chunk that can't be a row, because it does not match `first` (see `takes`).
    pub(crate) misfit: Option<IndexEntry>,
    /// The first frame with data outside of the file.
    pub(crate) cut: Option<u64>,
}

/// The findings for a name so far.
#[derive(Clone, Debug)]
struct NameFindings {
    rows: Option<NameRows>,
    /// The chunks of completed frames.
    chunks: Option<NameChunks>,
    /// The last written chunk of the current frame.
    newest: IndexEntry,
    /// The slot of the current frame's first chunk.
    slot: u64,
    differs: Option<Differs>,
}

/// A pass over the index of a file.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    /// The findings for each name, by its number.
    names: Vec<Option<Box<NameFindings>>>,
    /// The next slot to scan.
    next: u64,
    spacing: u64,
    checkpoints: usize,
}

/// The result of a pass for one name.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Series(NameChunks),
    Differs(Differs),
}

impl Default for Pass {
    fn default() -> Self {
        Self { names: Vec::new(), next: 0, spacing: SPACING, checkpoints: 0 }
    }
}

fn is_same(one: &IndexEntry, other: &IndexEntry) -> bool {
    (one.kind, one.n, one.m) == (other.kind, other.n, other.m)
}

impl NameRows {
    fn new(first: IndexEntry) -> Self {
        Self { first, longest: first.n, converted: None, misfit: None, cut: None }
    }

    fn add(&mut self, entry: &IndexEntry, is_cut: bool) {
        self.longest = self.longest.max(entry.n);
        if is_cut {
            self.cut.get_or_insert(entry.frame);
        }
        if !self.takes(entry) {
            self.misfit.get_or_insert(*entry);
        } else if entry.kind != self.first.kind {
            self.converted.get_or_insert(*entry);
        }
    }

    /// True if a chunk can be a row beside the chunk `first`. If `first` is a single number, the row of a
    /// longer chunk is its first number, as in `gsd.hoomd.read_log`.
    fn takes(&self, entry: &IndexEntry) -> bool {
        let first = &self.first;
        if first.is_text() || entry.is_text() {
            return (first.is_text(), first.m) == (entry.is_text(), entry.m);
        }
        if first.is_number() { entry.m == 1 && entry.n > 0 } else { (first.n, first.m) == (entry.n, entry.m) }
    }
}

impl NameChunks {
    /// True if a chunk has the type and shape of the others.
    pub(crate) fn fits(&self, entry: &IndexEntry) -> bool {
        is_same(&self.first, entry)
    }

    /// Returns the checkpoint before chunk `k`: the chunk's number, and its slot.
    pub(crate) fn checkpoint(&self, k: u64, spacing: u64) -> (u64, u64) {
        let last = (self.checkpoints.len() as u64).saturating_sub(1);
        let at = (k / spacing).min(last);
        let slot = usize::try_from(at).ok().and_then(|at| self.checkpoints.get(at));
        (at * spacing, slot.copied().unwrap_or(self.first.slot))
    }
}

impl NameFindings {
    fn new(entry: &IndexEntry) -> Self {
        Self { rows: None, chunks: None, newest: *entry, slot: entry.slot, differs: None }
    }

    /// Adds the current frame's chunk to the series; true if a checkpoint was added, too.
    fn add_frame_chunk(&mut self, spacing: u64, size: u64) -> bool {
        let newest = self.newest;
        let is_cut = newest.range(size).is_err();
        self.rows.get_or_insert_with(|| NameRows::new(newest)).add(&newest, is_cut);
        if self.differs.is_some() {
            return false;
        }
        let Some(chunks) = &mut self.chunks else {
            let cut = is_cut.then_some(0);
            self.chunks = Some(NameChunks { first: newest, count: 1, cut, checkpoints: vec![self.slot] });
            return true;
        };
        if !chunks.fits(&newest) {
            self.differs = Some(Differs { first: chunks.first, other: newest });
            return false;
        }
        let is_checkpoint = chunks.count.is_multiple_of(spacing);
        if is_checkpoint {
            chunks.checkpoints.push(self.slot);
        }
        if is_cut {
            chunks.cut.get_or_insert(chunks.count);
        }
        chunks.count += 1;
        is_checkpoint
    }
}

impl Pass {
    /// Returns the number of chunks between checkpoints.
    pub(crate) fn spacing(&self) -> u64 {
        self.spacing
    }

    /// True if the pass found all data within the file. Only such a pass can be continued once the file has
    /// grown.
    pub(crate) fn is_sound(&self) -> bool {
        let mut found = self.names.iter().flatten();
        found.all(|found| found.rows.is_none_or(|rows| rows.cut.is_none()))
    }

    /// Continues to the end of the finished frames.
    pub(crate) fn run(&mut self, file: &GsdFile) -> Result<()> {
        let index = file.index();
        let frames = file.frames()?;
        let order = index.order()?;
        let mut next = index.used()?.max(self.next);
        let from = self.next;
        index.scan(from..next, &mut |entry| {
            if !order.has(entry.slot) || !index.is_usable(entry) {
                return Ok(true);
            }
            if entry.frame >= frames {
                next = entry.slot;
                return Ok(false);
            }
            self.add(entry, file);
            Ok(true)
        })?;
        self.next = next;
        Ok(())
    }

    fn add(&mut self, entry: &IndexEntry, file: &GsdFile) {
        let id = usize::from(entry.id);
        if self.names.len() <= id {
            self.names.resize(id + 1, None);
        }
        let Some(found) = &mut self.names[id] else {
            self.names[id] = Some(Box::new(NameFindings::new(entry)));
            return;
        };
        if found.newest.frame == entry.frame {
            if file.written(entry) > file.written(&found.newest) {
                found.newest = *entry;
            }
            return;
        }
        if found.add_frame_chunk(self.spacing, file.stat().size) {
            self.checkpoints += 1;
        }
        (found.newest, found.slot) = (*entry, entry.slot);
        if self.checkpoints > MAX_CHECKPOINTS {
            self.thin_out();
        }
    }

    /// Drops every other checkpoint.
    fn thin_out(&mut self) {
        self.spacing = self.spacing.saturating_mul(2);
        self.checkpoints = 0;
        for chunks in self.names.iter_mut().flatten().filter_map(|found| found.chunks.as_mut()) {
            let mut is_kept = false;
            chunks.checkpoints.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.checkpoints += chunks.checkpoints.len();
        }
    }

    /// Returns the results for each name, with its number.
    pub(crate) fn outcomes(&self, file: &GsdFile) -> impl Iterator<Item = (u16, Outcome, NameRows)> {
        let size = file.stat().size;
        self.names.iter().enumerate().filter_map(move |(id, found)| {
            let mut found = found.clone()?;
            found.add_frame_chunk(self.spacing, size);
            let rows = found.rows?;
            let outcome = match found.differs {
                Some(differs) => Outcome::Differs(differs),
                None => Outcome::Series(found.chunks?),
            };
            Some((u16::try_from(id).ok()?, outcome, rows))
        })
    }
}
