//! Locations of the chunks.
//!
//! Each chunk follows the checksum of the previous one. Bloscpack itself reads this chain. The offsets locate
//! a chunk without walking the chain ([`places`](super::places)). If chain and offsets disagree, the chain is
//! walked from the start. After a chunk with a damaged header the chain continues at the next offset, if
//! there are offsets.
//!
//! Items of the variable-length proposal have only their offsets. An unfinished item has the offset −1.
//!
//! Boundaries along the chain are kept: one for each run of chunks that are decoded together. If there are
//! too many, every other one is dropped, so that memory is bounded for any file.

use std::sync::{Arc, Mutex, OnceLock};

use seekable::codec::blosc::DecodedRun;
use seekable::error::{self, Error, Result};
use seekable::source::Source;
use seekable::sync::{MutexGuard, locked, locked_at_once};

use super::chain::{ChunkBoundaries, ChunkBoundary, Hop, LocatedChunk, Walked};
use super::header::Header;
use super::places::ChunkLocations;
use super::reader::Reader;

/// The result of walking the chain to its end.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Number of chunks.
    pub chunks: u64,
    /// Number of decoded bytes before the first gap.
    pub decoded: u64,
    /// Offset of the end of the chain, if all of it could be walked.
    pub end: Option<u64>,
    /// The error that stopped the walk.
    pub stopped: Option<Error>,
}

/// The chunks of a file.
#[derive(Debug)]
pub struct ChunkMap {
    places: ChunkLocations,
    /// True if the offsets increase; `false` once they were found wrong.
    trusted: OnceLock<bool>,
    distrusted: OnceLock<()>,
    chain: Mutex<ChunkBoundaries>,
    scan: OnceLock<Scan>,
    last: Mutex<Option<(u64, LocatedChunk)>>,
}

impl ChunkMap {
    /// Creates the map of a file with this header.
    pub fn new(source: Arc<dyn Source>, size: u64, header: &Header) -> Result<Self> {
        let places = ChunkLocations::new(source, size, header)?;
        let map = Self {
            chain: Mutex::new(ChunkBoundaries::new(places.begin)),
            distrusted: OnceLock::new(),
            trusted: OnceLock::new(),
            scan: OnceLock::new(),
            last: Mutex::default(),
            places,
        };
        if header.offsets.is_some() && map.places.offsets.is_none() {
            let _ = map.distrusted.set(());
        }
        Ok(map)
    }

    /// Returns the locations according to header and offsets.
    pub fn places(&self) -> &ChunkLocations {
        &self.places
    }

    /// True if chunks are located by their offsets.
    pub fn follows_offsets(&self) -> Result<bool> {
        Ok(self.places.offsets.is_some() && !self.places.variable && self.trusts_offsets()?)
    }

    /// Returns the number of chunks. If the header does not have it, they are counted.
    pub fn count(&self) -> Result<u64> {
        match self.places.chunks {
            Some(chunks) => Ok(chunks),
            None => Ok(self.scan()?.chunks),
        }
    }

    /// Returns chunk `n`.
    pub fn chunk(&self, n: u64) -> Result<LocatedChunk> {
        if !self.places.has(n) {
            return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}")));
        }
        if let Some((_, found)) = self.last().filter(|(last, _)| *last == n) {
            return Ok(found);
        }
        let found = if self.places.variable {
            self.places.header(self.places.item_place(self.places.offset(n)?)?)?
        } else if self.follows_offsets()? {
            match self.places.by_offset(n, self.last())? {
                Some(found) => found?,
                None => {
                    let _ = self.distrusted.set(());
                    self.by_chain(n)?
                }
            }
        } else {
            self.by_chain(n)?
        };
        *self.last_slot() = Some((n, found));
        Ok(found)
    }

    /// Returns chunk `n` by walking the chain, regardless of the offsets.
    pub fn by_chain(&self, n: u64) -> Result<LocatedChunk> {
        let mut chain = self.chain();
        let mut reader = Reader::new(&self.places);
        let mut boundary = chain.before(n);
        loop {
            let hop = self.hop(boundary, &mut reader)?;
            chain.passed(boundary, &hop);
            if boundary.n == n {
                chain.recent = hop.next.unwrap_or(boundary);
                return hop.found;
            }
            boundary = match (hop.next, hop.found) {
                (Some(next), _) => next,
                (None, Err(error)) => {
                    return Err(
                        error.within(format_args!("the chain of chunks breaks at chunk {}", boundary.n))
                    );
                }
                (None, Ok(_)) => {
                    return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}")));
                }
            };
        }
    }

    /// Returns the run of chunks, decoded together, that contains decoded byte `offset`. `None` past the end.
    pub fn run_at(&self, offset: u64) -> Result<Option<DecodedRun>> {
        let mut chain = self.chain();
        let contains_offset =
            |run: &DecodedRun| offset.checked_sub(run.start).is_some_and(|within| within < run.len);
        if let Some(run) = chain.recent_run.filter(contains_offset) {
            return Ok(Some(run));
        }
        let mut reader = Reader::new(&self.places);
        let mut boundary = chain.before_decoded(offset);
        let mut walked = Walked::at(boundary);
        let run = loop {
            if !self.places.has(boundary.n) || self.is_at_end(boundary) {
                break walked.run();
            }
            let hop = self.hop(boundary, &mut reader)?;
            chain.passed(boundary, &hop);
            if let Some(run) = walked.step(&hop).filter(contains_offset) {
                break run;
            }
            if let Err(error) = hop.found {
                return Err(error.in_block(boundary.n));
            }
            match hop.next {
                Some(next) => boundary = next,
                None => break walked.run(),
            }
        };
        chain.recent_run = contains_offset(&run).then_some(run);
        Ok(chain.recent_run)
    }

    /// Walks all chunks, once.
    pub fn scan(&self) -> Result<&Scan> {
        if let Some(scan) = self.scan.get() {
            return Ok(scan);
        }
        let mut chain = self.chain();
        let mut reader = Reader::new(&self.places);
        let mut boundary = chain.frontier();
        let mut stopped = None;
        let mut decoded = boundary.decoded;
        while self.places.has(boundary.n) && !self.is_at_end(boundary) {
            let hop = self.hop(boundary, &mut reader)?;
            chain.passed(boundary, &hop);
            if !boundary.gap {
                decoded = boundary.decoded;
            }
            if let Err(error) = hop.found {
                stopped.get_or_insert_with(|| error.in_block(boundary.n));
            } else if !boundary.gap
                && let Some(next) = hop.next
            {
                decoded = next.decoded;
            }
            match hop.next {
                Some(next) => boundary = next,
                None => break,
            }
        }
        let end = boundary.at.filter(|_| self.places.chunks.is_none_or(|chunks| boundary.n == chunks));
        let scan = Scan { chunks: self.places.chunks.unwrap_or(boundary.n), decoded, end, stopped };
        Ok(self.scan.get_or_init(|| scan))
    }

    /// Calls `take` with each chunk of the chain, from the first on.
    pub fn each(&self, mut take: impl FnMut(u64, &Result<LocatedChunk>) -> Result<()>) -> Result<()> {
        let mut reader = Reader::new(&self.places);
        let first = self.chain().before_decoded(0);
        let mut next = (first.n == 0).then_some(first);
        while let Some(boundary) = next.filter(|boundary| self.places.has(boundary.n)) {
            let hop = self.hop(boundary, &mut reader)?;
            take(boundary.n, &hop.found)?;
            next = hop.next;
        }
        Ok(())
    }

    /// True if chunks are located by walking the chain.
    pub fn walks(&self) -> bool {
        !self.places.variable && (self.places.offsets.is_none() || self.is_distrusted())
    }

    /// True if the chain was walked to its end.
    pub fn is_walked(&self) -> bool {
        // If the lock is taken, another thread is still walking.
        let at_end = |chain: MutexGuard<'_, ChunkBoundaries>| {
            self.places.chunks.is_some_and(|all| chain.frontier().n >= all)
        };
        self.scan.get().is_some() || locked_at_once(&self.chain).is_some_and(at_end)
    }

    /// True if a chunk contradicted the offsets.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted.get().is_some() || self.trusted.get() == Some(&false)
    }

    /// Takes the step from a boundary along the chain.
    fn hop(&self, boundary: ChunkBoundary, reader: &mut Reader<'_>) -> Result<Hop> {
        let found =
            match boundary.at {
                _ if self.places.variable => reader.item(boundary.n),
                Some(at) => reader.header(at),
                None => Err(Error::damaged("its location is unknown: the chunk before it is damaged")
                    .at(boundary.known)),
            };
        let next = match &found {
            Ok(found) => Some(self.behind(boundary, found)),
            Err(error) if !error.lasts() => return Err(error.clone()),
            Err(_) => self.beyond(boundary)?,
        };
        let next = next.filter(|next| self.places.chunks.is_none_or(|chunks| next.n <= chunks));
        Ok(Hop { found, next })
    }

    fn behind(&self, boundary: ChunkBoundary, found: &LocatedChunk) -> ChunkBoundary {
        let end = self.places.end_of(found);
        ChunkBoundary {
            n: boundary.n + 1,
            at: Some(end),
            known: end,
            decoded: boundary.decoded.saturating_add(found.header.nbytes().into()),
            gap: boundary.gap,
        }
    }

    /// Returns the boundary after a damaged chunk, if the offsets have it.
    fn beyond(&self, boundary: ChunkBoundary) -> Result<Option<ChunkBoundary>> {
        let n = boundary.n + 1;
        if self.places.offsets.is_none() || self.places.chunks.is_none_or(|chunks| n > chunks) {
            return Ok(None);
        }
        let at = if self.places.chunks == Some(n) {
            None
        } else {
            self.places.offset(n)?.and_then(|at| u64::try_from(at).ok())
        };
        let at = at.filter(|at| *at >= boundary.known);
        let known = at.filter(|at| *at < self.places.size).unwrap_or(boundary.known);
        Ok(Some(ChunkBoundary { n, at, known, decoded: boundary.decoded, gap: true }))
    }

    /// True if the number of chunks is unknown and the boundary is at the end of the file.
    fn is_at_end(&self, boundary: ChunkBoundary) -> bool {
        self.places.chunks.is_none() && boundary.at.is_some_and(|at| at >= self.places.size)
    }

    /// True if the offsets begin at the expected place and increase.
    fn trusts_offsets(&self) -> Result<bool> {
        if self.distrusted.get().is_some() {
            return Ok(false);
        }
        if let Some(trusted) = self.trusted.get() {
            return Ok(*trusted);
        }
        let trusted = self.places.increase()?;
        Ok(*self.trusted.get_or_init(|| trusted))
    }

    fn chain(&self) -> MutexGuard<'_, ChunkBoundaries> {
        locked(&self.chain)
    }

    fn last_slot(&self) -> MutexGuard<'_, Option<(u64, LocatedChunk)>> {
        locked(&self.last)
    }

    /// Returns the chunk that was looked up last.
    pub fn last(&self) -> Option<(u64, LocatedChunk)> {
        *self.last_slot()
    }
}
