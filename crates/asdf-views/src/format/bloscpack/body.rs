//! The payload: the concatenated decoded chunks.
//!
//! The file's header states the length of the chunks, and so the location of each chunk in the payload. A
//! chunk of another length can't be read; the other chunks can. The header counts as wrong only if chunks
//! with correct checksums contradict it. If the header does not state the length, the lengths of the chunks
//! are added up. In this case a chunk's location is used only once the lengths of all chunks before it are
//! verified.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use seekable::codec::blosc::{Buffer, Buffers, DecodedRun, RUN_BUFFERS, RUN_BYTES, Scratch};
use seekable::error::{Error, Result};
use seekable::source::Source;
use seekable::sync::{MutexGuard, locked};

use seekable::content::{Borrowed, Content, Slice};

use super::chain::LocatedChunk;
use super::checksum::Checksum;
use super::cursor::Cursor;
use super::header::{Header, Layout};
use super::map::ChunkMap;
use super::places::lasting;

/// Message for a checksum mismatch.
pub(crate) const MISMATCH: &str = "its checksum does not match the stored bytes";

/// Maximum number of chunks with wrong checksums that are remembered.
const WRONG: usize = 4096;

/// The headers from which the decoded sizes of the chunks are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// The file's header: the size of every chunk but the last, the size of the last, and the number of
    /// chunks.
    Stated { each: u64, last: u64, chunks: u64 },
    /// The chunks' own headers, which are read one by one.
    Counted,
}

/// The chunks of a file as parts of its payload.
#[derive(Debug)]
pub(crate) struct Body {
    map: ChunkMap,
    sizes: Sizes,
    source: Arc<dyn Source>,
    stored: Arc<dyn Content>,
    checksum: Checksum,
    checks: Mutex<Checks>,
    verified: Mutex<VerifiedLengths>,
}

/// The results of checksum checks.
#[derive(Debug, Default)]
struct Checks {
    /// A bitmap of chunks with the right checksum, 64 per word.
    right: HashMap<u64, u64>,
    wrong: BTreeSet<u64>,
    running: HashMap<u64, Arc<OnceLock<Result<bool>>>>,
}

impl Checks {
    /// True if the checksum of chunk `n` is right, false if it is wrong, `None` if it was not checked yet.
    fn known(&self, n: u64) -> Option<bool> {
        if self.right.get(&(n / 64)).is_some_and(|word| word >> (n % 64) & 1 == 1) {
            Some(true)
        } else {
            self.wrong.contains(&n).then_some(false)
        }
    }

    fn note(&mut self, n: u64, is_right: bool) {
        if is_right {
            *self.right.entry(n / 64).or_default() |= 1 << (n % 64);
        } else if self.wrong.len() < WRONG {
            self.wrong.insert(n);
        }
    }
}

/// The leading chunks whose lengths are verified. Used when the header does not have the lengths.
#[derive(Debug, Default)]
struct VerifiedLengths {
    /// Number of chunks, from the first on.
    chunks: u64,
    /// The error of the next chunk, if its length is wrong.
    stopped: Option<Error>,
}

impl Body {
    /// Creates the payload of a file with this header.
    pub(crate) fn new(source: &Arc<dyn Source>, size: u64, header: &Header) -> Result<Self> {
        let map = ChunkMap::new(source.clone(), size, header)?;
        let mut body = Self {
            map,
            sizes: Sizes::Counted,
            source: source.clone(),
            stored: Arc::new(Slice::new(source.clone(), 0, size)),
            checksum: header.checksum,
            checks: Mutex::default(),
            verified: Mutex::default(),
        };
        body.sizes = body.stated(header)?;
        Ok(body)
    }

    /// Returns the sizes in the header, or [`Sizes::Counted`] if the header is proven wrong.
    fn stated(&self, header: &Header) -> Result<Sizes> {
        let numbers = (u64::try_from(header.chunk_size), u64::try_from(header.last_chunk), header.chunks);
        let (Ok(each), Ok(last), Some(chunks)) = numbers else { return Ok(Sizes::Counted) };
        if header.kind == Layout::Variable || (chunks > 1 && (each == 0 || last > each)) {
            return Ok(Sizes::Counted);
        }
        let stated = Sizes::Stated { each, last, chunks };
        let len = chunks.saturating_sub(1).checked_mul(each).and_then(|len| len.checked_add(last));
        if len.is_none_or(|len| len > i64::MAX as u64) {
            return Err(Error::damaged(format!(
                "the header says that there are {chunks} chunks of {each} bytes, more than any file can have"
            ))
            .at(8));
        }
        if chunks == 0 {
            return Ok(stated);
        }
        let first = if chunks == 1 { last } else { each };
        for (found, expected) in
            [(self.map.places().first()?, first), (self.map.places().last_by_offset()?, last)]
        {
            if let Some(found) = found
                && u64::from(found.header.nbytes()) != expected
                && self.checksum != Checksum::None
                && self.sum_is_right(&found)?
            {
                return Ok(Sizes::Counted);
            }
        }
        Ok(stated)
    }

    /// Returns the map of chunk locations.
    pub(crate) fn map(&self) -> &ChunkMap {
        &self.map
    }

    /// Returns the size of the payload in bytes. If the header does not state it, all chunks are walked.
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(match self.told_size() {
            Some(len) => len,
            None => self.map.scan()?.decoded,
        })
    }

    /// Returns the size of the payload in bytes, if the header has it.
    pub(crate) fn told_size(&self) -> Option<u64> {
        match self.sizes {
            Sizes::Stated { chunks: 0, .. } => Some(0),
            Sizes::Stated { each, last, chunks } => Some((chunks - 1) * each + last),
            Sizes::Counted => None,
        }
    }

    /// Returns offset and length of chunk `n` in the payload, if the header has them.
    pub(crate) fn stated_place(&self, n: u64) -> Option<(u64, u64)> {
        match self.sizes {
            Sizes::Stated { each, last, chunks } => {
                Some((n.checked_mul(each)?, if n + 1 == chunks { last } else { each }))
            }
            Sizes::Counted => None,
        }
    }

    /// Returns chunk `n`; an error if its length differs from the header's.
    pub(crate) fn chunk(&self, n: u64) -> Result<LocatedChunk> {
        let found = self.map.chunk(n)?;
        self.agrees(n, &found)?;
        Ok(found)
    }

    fn agrees(&self, n: u64, found: &LocatedChunk) -> Result<()> {
        let nbytes = u64::from(found.header.nbytes());
        match self.stated_place(n) {
            Some((_, stated)) if stated != nbytes => Err(Error::damaged(format!(
                "it decodes to {nbytes} bytes, but the header of the file says {stated}"
            ))
            .at(found.at)),
            _ => Ok(()),
        }
    }

    /// Returns the Blosc buffer of a chunk.
    pub(crate) fn open(&self, found: &LocatedChunk) -> Buffer<'_> {
        Buffer::new(&*self.stored, found.at, found.header)
    }

    /// Returns the stored checksum of a chunk.
    pub(crate) fn stored_sum(&self, found: &LocatedChunk) -> Result<Vec<u8>> {
        self.checksum.stored(&*self.source, found.at + u64::from(found.header.cbytes()))
    }

    fn sum_is_right(&self, found: &LocatedChunk) -> Result<bool> {
        let sum = self.checksum.sum(&*self.source, found.at, found.header.cbytes().into())?;
        Ok(sum == self.stored_sum(found)?)
    }

    /// True if the checksum of chunk `n` is right. It is computed by one thread while others wait.
    pub(crate) fn check(&self, n: u64, found: &LocatedChunk) -> Result<bool> {
        if self.checksum == Checksum::None {
            return Ok(true);
        }
        let check = {
            let mut checks = self.checks();
            if let Some(is_right) = checks.known(n) {
                return Ok(is_right);
            }
            checks.running.entry(n).or_default().clone()
        };
        let is_right = check.get_or_init(|| self.sum_is_right(found)).clone();
        let mut checks = self.checks();
        checks.running.remove(&n);
        if let Ok(is_right) = is_right {
            checks.note(n, is_right);
        }
        is_right
    }

    /// Fails if the checksum of chunk `n` is wrong.
    pub(crate) fn admit_found(&self, n: u64, found: &LocatedChunk) -> Result<()> {
        if self.check(n, found)? { Ok(()) } else { Err(Error::wrong_checksum(MISMATCH).at(found.at)) }
    }

    /// True if the checksum of a chunk at the cursor is right. A short chunk is read through the cursor's
    /// buffer.
    fn check_at(&self, n: u64, found: &LocatedChunk, cursor: &mut Cursor<'_>) -> Result<bool> {
        if self.checksum == Checksum::None {
            return Ok(true);
        }
        let Some(bytes) = cursor.reader.stored(found)? else { return self.check(n, found) };
        let is_right = self.checksum.ends(bytes);
        self.checks().note(n, is_right);
        Ok(is_right)
    }

    /// Fails unless the lengths of all chunks before chunk `n` are right. Without checksums the lengths are
    /// trusted.
    fn count_to(&self, n: u64) -> Result<()> {
        if self.checksum == Checksum::None {
            return Ok(());
        }
        let mut verified = locked(&self.verified);
        let mut cursor = Cursor::new(&self.map);
        while verified.chunks < n {
            if let Some(error) = &verified.stopped {
                return Err(error.clone());
            }
            let next = verified.chunks;
            if self.checks().known(next) != Some(true) {
                let found = cursor.chunk(next)?;
                let is_right = self.check_at(next, &found, &mut cursor)?;
                if !is_right && !Scratch::lend(|scratch| self.open(&found).has_its_length(scratch))? {
                    let error = Error::damaged(
                        "its length is unknown, so the chunks after it can't be \
                                                located",
                    );
                    verified.stopped = Some(error.in_block(next).at(found.at));
                    continue;
                }
            }
            verified.chunks += 1;
        }
        Ok(())
    }

    fn checks(&self) -> MutexGuard<'_, Checks> {
        locked(&self.checks)
    }

    /// Appends the decoded bytes of chunk `n`. The cursor provides its stored bytes.
    fn decode_at(
        &self,
        n: u64,
        cursor: &mut Cursor<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let found = cursor.chunk(n)?;
        self.agrees(n, &found)?;
        let Some(bytes) = cursor.reader.stored(&found)? else {
            self.admit_found(n, &found)?;
            return self.open(&found).decode(scratch, out);
        };
        if self.checksum != Checksum::None {
            let is_right = self.checksum.ends(bytes);
            self.checks().note(n, is_right);
            if !is_right {
                return Err(Error::wrong_checksum(MISMATCH).at(found.at));
            }
        }
        let stored = Borrowed(bytes);
        Buffer::new(&stored, 0, found.header).decode(scratch, out).map_err(|error| error.at(found.at))
    }

    /// Returns the chunk after the last one that the header counts, if the file has such a chunk.
    pub(crate) fn surplus(&self) -> Result<Option<LocatedChunk>> {
        let last = match self.map.places().last_number() {
            Some(last) => lasting(self.map.chunk(last))?,
            None => None,
        };
        match self.map.places().surplus(last.as_ref())? {
            Some(found) if self.checksum == Checksum::None || self.sum_is_right(&found)? => Ok(Some(found)),
            _ => Ok(None),
        }
    }
}

impl Buffers for Body {
    fn buffer_at(&self, offset: u64) -> Result<Option<DecodedRun>> {
        match self.sizes {
            Sizes::Stated { .. } => self.stated_run(offset, 1),
            Sizes::Counted => {
                let Some(run) = self.run(offset)?.filter(|run| self.map.places().has(run.n)) else {
                    return Ok(None);
                };
                let place = Cursor::new(&self.map).place_in(run, offset)?;
                if let Some(place) = place {
                    self.count_to(place.n)?;
                }
                Ok(place)
            }
        }
    }

    fn run(&self, offset: u64) -> Result<Option<DecodedRun>> {
        match self.sizes {
            Sizes::Stated { each, .. } => {
                let most = RUN_BYTES.checked_div(each).unwrap_or(1).clamp(1, RUN_BUFFERS);
                self.stated_run(offset, most)
            }
            Sizes::Counted => {
                let Some(run) = self.map.run_at(offset)? else { return self.behind_last(offset) };
                self.count_to(run.n)?;
                Ok(Some(run))
            }
        }
    }

    fn buffer(&self, n: u64) -> Result<Buffer<'_>> {
        Ok(self.open(&self.chunk(n)?))
    }

    fn admit(&self, n: u64) -> Result<()> {
        self.admit_found(n, &self.chunk(n)?)
    }

    fn decode_run(&self, run: DecodedRun, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let mut cursor = Cursor::new(&self.map);
        (run.n..run.n + run.count)
            .try_for_each(|n| self.decode_at(n, &mut cursor, scratch, out).map_err(|error| error.in_block(n)))
    }
}

impl Body {
    /// Returns a surplus chunk that starts at `end`, if `end` is the end of the payload.
    fn behind_last(&self, end: u64) -> Result<Option<DecodedRun>> {
        if end != self.size()? {
            return Ok(None);
        }
        let n = self.map.count()?;
        let surplus = self.surplus()?;
        let len = |found: LocatedChunk| u64::from(found.header.nbytes()).max(1);
        Ok(surplus.map(|found| DecodedRun { n, count: 1, start: end, len: len(found) }))
    }

    /// Returns the run of up to `most` chunks that contains decoded byte `offset`, according to the header.
    fn stated_run(&self, offset: u64, most: u64) -> Result<Option<DecodedRun>> {
        let (Sizes::Stated { each, last, chunks }, Some(len)) = (self.sizes, self.told_size()) else {
            return Ok(None);
        };
        if offset >= len {
            return self.behind_last(offset);
        }
        let n = offset.checked_div(each).unwrap_or(0).min(chunks - 1) / most * most;
        let count = most.min(chunks - n);
        let ends = if n + count == chunks { (count - 1) * each + last } else { count * each };
        Ok(Some(DecodedRun { n, count, start: n * each, len: ends }))
    }
}
