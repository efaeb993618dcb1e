//! Remembered boundaries between the chunks, from which a walk along the chunks can start.
//!
//! A *run* is a sequence of chunks that are decoded together.

use seekable::codec::blosc::{self, DecodedRun, RUN_BUFFERS, RUN_BYTES};
use seekable::error::Result;

/// Maximum number of boundaries that are kept.
const MAX_BOUNDARIES: usize = 1 << 16;

/// A located chunk.
#[derive(Clone, Copy, Debug)]
pub struct LocatedChunk {
    /// Offset of the chunk in the file.
    pub at: u64,
    /// The chunk's own header.
    pub header: blosc::Header,
}

/// A boundary between two chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkBoundary {
    /// Number of chunks before the boundary.
    pub n: u64,
    /// Offset of the next chunk, if known.
    pub at: Option<u64>,
    /// A lower bound for the offset of the next chunk.
    pub known: u64,
    /// Number of decoded bytes before the boundary; damaged chunks count as 0.
    pub decoded: u64,
    /// True if a chunk before the boundary is damaged.
    pub gap: bool,
}

impl ChunkBoundary {
    /// True if the run that begins at `start` includes the chunk at this boundary, of `len` decoded bytes.
    fn joins(&self, start: &Self, len: u64) -> bool {
        let all = (self.decoded - start.decoded).saturating_add(len);
        self.gap == start.gap && all <= RUN_BYTES && self.n - start.n < RUN_BUFFERS
    }

    /// Returns the run of chunks from this boundary up to `end`.
    fn run_to(&self, end: &Self) -> DecodedRun {
        DecodedRun { n: self.n, count: end.n - self.n, start: self.decoded, len: end.decoded - self.decoded }
    }
}

/// A step along the chain.
#[derive(Debug)]
pub(crate) struct Hop {
    /// The chunk at the boundary, or its error.
    pub found: Result<LocatedChunk>,
    /// The boundary after the chunk; `None` if the chain breaks.
    pub next: Option<ChunkBoundary>,
}

impl Hop {
    /// Returns the decoded bytes of the chunk; 0 if it is damaged.
    fn decoded(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.header.nbytes().into())
    }
}

/// A run, as far as its chunks have been walked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    start: ChunkBoundary,
    end: ChunkBoundary,
}

impl Walked {
    /// Starts a run at a boundary.
    pub(crate) fn at(start: ChunkBoundary) -> Self {
        Self { start, end: start }
    }

    /// Adds the chunk of a step to the run. If the chunk begins the next run instead, returns the completed
    /// run.
    pub(crate) fn step(&mut self, hop: &Hop) -> Option<DecodedRun> {
        let is_first = self.end.n == self.start.n;
        let complete = !is_first && (hop.found.is_err() || !self.end.joins(&self.start, hop.decoded()));
        let run = complete.then(|| self.run());
        if complete {
            self.start = self.end;
        }
        self.end = hop.next.unwrap_or(self.end);
        run
    }

    /// Returns the chunks walked so far.
    pub(crate) fn run(&self) -> DecodedRun {
        self.start.run_to(&self.end)
    }

    /// Returns the boundary after the run.
    pub(crate) fn end(&self) -> ChunkBoundary {
        self.end
    }
}

/// The boundaries of every `stride`-th run up to the frontier, the end of the part walked so far.
#[derive(Debug)]
pub(crate) struct ChunkBoundaries {
    boundaries: Vec<ChunkBoundary>,
    stride: u64,
    /// Number of completed runs.
    runs: u64,
    last: Walked,
    /// The boundary after the chunk that was looked up last.
    pub recent: ChunkBoundary,
    /// The run of chunks that was looked up last.
    pub recent_run: Option<DecodedRun>,
}

impl ChunkBoundaries {
    /// Creates a chain whose first chunk begins at `data`.
    pub(crate) fn new(data: u64) -> Self {
        let first = ChunkBoundary { n: 0, at: Some(data), known: data, decoded: 0, gap: false };
        let last = Walked::at(first);
        Self { boundaries: vec![first], stride: 1, runs: 0, last, recent: first, recent_run: None }
    }

    /// Returns the boundary up to which the chain has been walked.
    pub(crate) fn frontier(&self) -> ChunkBoundary {
        self.last.end()
    }

    /// Returns the last known boundary at or before chunk `n`.
    pub(crate) fn before(&self, n: u64) -> ChunkBoundary {
        let near = [self.frontier(), self.recent].into_iter().filter(|boundary| boundary.n <= n);
        let boundary = self.last_boundary(|boundary| boundary.n <= n);
        near.chain([boundary]).max_by_key(|boundary| boundary.n).unwrap_or(boundary)
    }

    /// Returns the last remembered start of a run at or before decoded byte `offset`.
    pub(crate) fn before_decoded(&self, offset: u64) -> ChunkBoundary {
        self.last_boundary(|boundary| boundary.decoded <= offset && !boundary.gap)
    }

    fn last_boundary(&self, is_before: impl Fn(&ChunkBoundary) -> bool) -> ChunkBoundary {
        let after = self.boundaries.partition_point(is_before);
        self.boundaries[after.saturating_sub(1)]
    }

    /// Records the step from `boundary` if it extends the frontier.
    pub(crate) fn passed(&mut self, boundary: ChunkBoundary, hop: &Hop) {
        if hop.next.is_none() || boundary != self.frontier() {
            return;
        }
        if self.last.step(hop).is_some() {
            self.runs += 1;
            if self.boundaries.len() == MAX_BOUNDARIES {
                self.stride *= 2;
                let mut kept = 0;
                self.boundaries.retain(|_| {
                    kept += 1;
                    kept % 2 == 1
                });
            }
            if self.runs.is_multiple_of(self.stride) {
                self.boundaries.push(boundary);
            }
        }
    }
}
