//! Marks along the chain of chunks.

use crate::codec::blosc::{self, RUN_BUFFERS, RUN_BYTES, Run};
use crate::error::Result;

/// Maximum number of marks that are kept.
const MOST: usize = 1 << 16;

/// A located chunk.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Offset of the chunk in the file.
    pub at: u64,
    /// The chunk's own header.
    pub header: blosc::Header,
}

/// A boundary between two chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of chunks before it.
    pub n: u64,
    /// Offset of the next chunk, if known.
    pub at: Option<u64>,
    /// A lower bound for the offset of the next chunk.
    pub known: u64,
    /// Decoded bytes before it, as far as they are known.
    pub decoded: u64,
    /// True if a chunk before it is damaged.
    pub gap: bool,
}

impl Mark {
    /// True if a chunk of `len` decoded bytes at this mark is decoded in one run with the chunks from `start`
    /// on.
    fn joins(&self, start: &Self, len: u64) -> bool {
        let all = (self.decoded - start.decoded).saturating_add(len);
        self.gap == start.gap && all <= RUN_BYTES && self.n - start.n < RUN_BUFFERS
    }

    /// Returns the run of chunks from this mark up to `end`.
    fn run_to(&self, end: &Self) -> Run {
        Run { n: self.n, count: end.n - self.n, start: self.decoded, len: end.decoded - self.decoded }
    }
}

/// A step along the chain.
#[derive(Debug)]
pub struct Hop {
    /// The chunk at the mark, or its error.
    pub found: Result<Found>,
    /// The mark after the chunk; `None` if the chain breaks.
    pub next: Option<Mark>,
}

impl Hop {
    /// Returns the decoded bytes of the chunk; 0 if it is damaged.
    fn decoded(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.header.nbytes().into())
    }
}

/// A run of chunks that are decoded together, as far as it has been walked.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    start: Mark,
    end: Mark,
}

impl Walked {
    /// Starts a run at a mark.
    pub fn at(start: Mark) -> Self {
        Self { start, end: start }
    }

    /// Takes the step from the end of the run. Returns the run if the step's chunk belongs to the next one.
    pub fn step(&mut self, hop: &Hop) -> Option<Run> {
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
    pub fn run(&self) -> Run {
        self.start.run_to(&self.end)
    }

    /// Returns the mark after the run.
    pub fn end(&self) -> Mark {
        self.end
    }
}

/// The marks of every `stride`-th run up to the frontier.
#[derive(Debug)]
pub struct Chain {
    marks: Vec<Mark>,
    stride: u64,
    /// Number of completed runs.
    runs: u64,
    last: Walked,
    /// The mark after the chunk that was looked up last.
    pub recent: Mark,
    /// The run that was looked up last.
    pub recent_run: Option<Run>,
}

impl Chain {
    /// Creates a chain whose first chunk begins at `data`.
    pub fn new(data: u64) -> Self {
        let first = Mark { n: 0, at: Some(data), known: data, decoded: 0, gap: false };
        let last = Walked::at(first);
        Self { marks: vec![first], stride: 1, runs: 0, last, recent: first, recent_run: None }
    }

    /// Returns the mark up to which the chain has been walked.
    pub fn frontier(&self) -> Mark {
        self.last.end()
    }

    /// Returns the last known mark at or before chunk `n`.
    pub fn before(&self, n: u64) -> Mark {
        let near = [self.frontier(), self.recent].into_iter().filter(|mark| mark.n <= n);
        let mark = self.last_mark(|mark| mark.n <= n);
        near.chain([mark]).max_by_key(|mark| mark.n).unwrap_or(mark)
    }

    /// Returns the last start of a run at or before a decoded byte.
    pub fn before_decoded(&self, offset: u64) -> Mark {
        self.last_mark(|mark| mark.decoded <= offset && !mark.gap)
    }

    fn last_mark(&self, is_before: impl Fn(&Mark) -> bool) -> Mark {
        let after = self.marks.partition_point(is_before);
        self.marks[after.saturating_sub(1)]
    }

    /// Records the step from `mark` if it extends the frontier.
    pub fn passed(&mut self, mark: Mark, hop: &Hop) {
        if hop.next.is_none() || mark != self.frontier() {
            return;
        }
        if self.last.step(hop).is_some() {
            self.runs += 1;
            if self.marks.len() == MOST {
                self.stride *= 2;
                let mut kept = 0;
                self.marks.retain(|_| {
                    kept += 1;
                    kept % 2 == 1
                });
            }
            if self.runs.is_multiple_of(self.stride) {
                self.marks.push(mark);
            }
        }
    }
}
