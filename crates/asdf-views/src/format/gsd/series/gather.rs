//! The concatenated chunks of one name, gathered on read.

use std::sync::{Arc, Mutex};

use seekable::error::{Error, Kind, Result};
use seekable::source::{Source, read_up_to};
use seekable::sync::locked;

use seekable::content::{Content, Soundness, Stored, fill};

use super::super::entry::IndexEntry;
use super::super::file::GsdFile;
use super::pass::NameChunks;

/// Chunks that are looked up at once.
pub(super) const BATCH: u64 = 4096;

/// Maximum gap in bytes between two ranges that one call reads, together with the gap: a call costs as much
/// as copying some kilobytes.
const GAP: u64 = 4 << 10;

/// Maximum number of bytes of one read across gaps.
const SPAN: u64 = 256 << 10;

/// Minimum size of a chunk that is passed from the mapping without a copy.
pub(super) const MIN_ZERO_COPY: u64 = 64 << 10;

/// Bytes of a frame number.
const NUMBER: u64 = 8;

/// The part of each chunk that is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The chunk's data, of this number of bytes.
    Data(u64),
    /// The number of the chunk's frame.
    Frames,
}

/// A place where the search for a chunk starts: the chunk's number, and a slot at or before it.
type SearchStart = (u64, u64);

/// All chunks of a name, or the numbers of the frames that have a chunk of the name.
#[derive(Debug)]
pub(crate) struct Gather {
    file: Arc<GsdFile>,
    chunks: Arc<NameChunks>,
    spacing: u64,
    of: Of,
    /// The end of the last search, where a sequential reader continues.
    last: Mutex<SearchStart>,
}

/// A part of a chunk's data: its offset in the source, and its length.
pub(crate) type DataRange = (u64, u64);

impl Gather {
    /// Gathers `chunks`, which have a checkpoint every `spacing` chunks.
    pub(crate) fn new(file: Arc<GsdFile>, chunks: Arc<NameChunks>, spacing: u64, of: Of) -> Self {
        let last = Mutex::new((0, chunks.first.slot));
        Self { file, chunks, spacing, of, last }
    }

    /// Returns the bytes per chunk.
    fn chunk_len(&self) -> u64 {
        match self.of {
            Of::Data(bytes) => bytes,
            Of::Frames => NUMBER,
        }
    }

    /// Returns the entries of up to `count` chunks from chunk `from` on, at least one.
    fn entries(&self, from: u64, count: u64) -> Result<Vec<IndexEntry>> {
        let count = count.min(self.chunks.count.saturating_sub(from));
        let last = *locked(&self.last);
        let checkpoint = self.chunks.checkpoint(from, self.spacing);
        let (mut at, slot) = if (checkpoint.0..=from).contains(&last.0) { last } else { checkpoint };
        let index = self.file.index();
        let order = index.order()?;
        let used = index.used()?;
        let mut found: Vec<IndexEntry> = Vec::with_capacity(count.min(BATCH) as usize);
        // The last written entry of the current frame.
        let mut newest: Option<IndexEntry> = None;
        let mut end = used;
        index.scan(slot..used, &mut |entry| {
            let is_over = newest.is_some_and(|newest| entry.frame > newest.frame);
            if (entry.id != self.chunks.first.id && !is_over)
                || !order.has(entry.slot)
                || !index.is_usable(entry)
            {
                return Ok(true);
            }
            if is_over && let Some(done) = newest.take() {
                if at >= from {
                    found.push(done);
                }
                at += 1;
            }
            if found.len() as u64 == count {
                end = entry.slot;
                return Ok(false);
            }
            let is_later = |newest: IndexEntry| self.file.written(entry) > self.file.written(&newest);
            if entry.id == self.chunks.first.id && newest.is_none_or(is_later) {
                newest = Some(*entry);
            }
            Ok(true)
        })?;
        if (found.len() as u64) < count
            && at >= from
            && let Some(done) = newest
        {
            found.push(done);
            at += 1;
        }
        *locked(&self.last) = (at, end);
        if found.iter().all(|entry| self.chunks.fits(entry)) && found.len() as u64 == count {
            Ok(found)
        } else {
            Err(Error::new(Kind::Changed, "the index of the file has changed: open the file again"))
        }
    }

    /// Returns the locations of up to [`BATCH`] chunks from chunk `from` on.
    pub(crate) fn parts(&self, from: u64) -> Result<Vec<DataRange>> {
        self.entries(from, BATCH)?.iter().map(|entry| self.file.range(entry)).collect()
    }

    /// Returns the location of a chunk's data from byte `within` on, at most `len` bytes.
    fn part(&self, entry: &IndexEntry, within: u64, len: u64) -> Result<DataRange> {
        let (offset, bytes) =
            self.file.range(entry).map_err(|error| error.within(format!("frame {}", entry.frame)))?;
        Ok((offset + within, len.min(bytes - within)))
    }

    fn read_data(&self, offset: u64, buf: &mut [u8], chunk_len: u64) -> Result<usize> {
        let mut within = offset % chunk_len;
        let wanted = (within.saturating_add(buf.len() as u64)).div_ceil(chunk_len);
        let mut parts = Vec::new();
        let mut len = 0;
        let mut wrong = None;
        for entry in self.entries(offset / chunk_len, wanted.min(BATCH))? {
            let rest = buf.len() as u64 - len;
            match self.part(&entry, within, rest) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
            len += parts.last().map_or(0, |(_, part_len)| *part_len);
            within = 0;
        }
        match wrong {
            Some(error) if parts.is_empty() => Err(error),
            _ => copy(&*self.file.source, &parts, buf),
        }
    }

    fn read_frames(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let within = (offset % NUMBER) as usize;
        let wanted = (within + buf.len()).div_ceil(NUMBER as usize) as u64;
        let entries = self.entries(offset / NUMBER, wanted.min(BATCH))?;
        let bytes = entries.iter().flat_map(|entry| entry.frame.to_le_bytes()).skip(within);
        Ok(buf.iter_mut().zip(bytes).map(|(to, byte)| *to = byte).count())
    }
}

/// Reads the parts one after the other into `buf`; returns the number of bytes read.
pub(super) fn copy(source: &dyn Source, parts: &[DataRange], buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    let mut rest = parts;
    let mut span = Vec::new();
    while let Some((first, _)) = rest.first() {
        let count = near(rest);
        let (run, after) = rest.split_at(count);
        let end = run.last().map_or(0, |(offset, len)| offset + len);
        let filled = match run {
            [(offset, len)] => {
                let room = &mut buf[done..done + *len as usize];
                read_up_to(source, *offset, room)? == room.len()
            }
            _ => {
                span.resize((end - first) as usize, 0);
                let is_whole = read_up_to(source, *first, &mut span)? == span.len();
                let mut to = done;
                for (offset, len) in run {
                    let at = (offset - first) as usize;
                    let len = *len as usize;
                    buf[to..to + len].copy_from_slice(&span[at..at + len]);
                    to += len;
                }
                is_whole
            }
        };
        if !filled {
            let cut = Error::damaged("the file was truncated while it was read").at(*first);
            return if done > 0 { Ok(done) } else { Err(cut) };
        }
        done += run.iter().map(|(_, len)| *len as usize).sum::<usize>();
        rest = after;
    }
    Ok(done)
}

/// Returns the number of leading parts that are close enough together to be read by one call.
fn near(parts: &[DataRange]) -> usize {
    let Some((first, first_len)) = parts.first() else { return 0 };
    let mut end = first + first_len;
    let others = parts.iter().skip(1).take_while(|(offset, len)| {
        let is_near = *offset >= end && *offset - end <= GAP && offset + len - first <= SPAN;
        end = offset + len;
        is_near
    });
    1 + others.count()
}

impl Content for Gather {
    fn len(&self) -> u64 {
        self.chunks.count.saturating_mul(self.chunk_len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        fill(&mut buf[..wanted], |done, room| match self.of {
            Of::Data(chunk_len) => self.read_data(offset + done as u64, room, chunk_len),
            Of::Frames => self.read_frames(offset + done as u64, room),
        })
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let Of::Data(chunk_len) = self.of else { return None };
        if chunk_len < MIN_ZERO_COPY || offset >= self.len() {
            return None;
        }
        let entries = self.entries(offset / chunk_len, 1).ok()?;
        let (offset, len) = self.part(entries.first()?, offset % chunk_len, chunk_len).ok()?;
        Some(Stored { source: &self.file.source, offset, len })
    }

    /// Returns true: one large read of this content causes many small reads of the source.
    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        match (self.of, self.chunks.cut) {
            (Of::Data(chunk_len), Some(cut)) => Soundness::Broken(cut.saturating_mul(chunk_len)),
            _ => Soundness::Sound,
        }
    }
}
