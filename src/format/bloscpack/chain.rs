//! Marks of the chain of chunks.

use crate::codec::blosc::{self, RUN_BUFFERS, RUN_BYTES, Run};
use crate::error::Result;

/// The most marks that are kept.
const MOST: usize = 1 << 16;

/// A chunk that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Where it begins.
    pub at: u64,
    /// What it says of itself.
    pub header: blosc::Header,
}

/// A place between two chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Chunks before it.
    pub n: u64,
    /// Where the next chunk begins, if that is known.
    pub at: Option<u64>,
    /// No chunk begins before this byte.
    pub known: u64,
    /// Decoded bytes before it, as far as they are known.
    pub decoded: u64,
    /// Whether a chunk before it is damaged.
    pub gap: bool,
}

impl Mark {
    /// Whether a chunk of `len` bytes at this mark is decoded with those from `start` on.
    fn joins(&self, start: &Self, len: u64) -> bool {
        let all = (self.decoded - start.decoded).saturating_add(len);
        self.gap == start.gap && all <= RUN_BYTES && self.n - start.n < RUN_BUFFERS
    }

    /// The chunks from here up to another mark.
    fn run_to(&self, end: &Self) -> Run {
        Run { n: self.n, count: end.n - self.n, start: self.decoded, len: end.decoded - self.decoded }
    }
}

/// A step along the chain.
#[derive(Debug)]
pub struct Hop {
    /// The chunk at the mark.
    pub found: Result<Found>,
    /// The mark behind it.
    pub next: Option<Mark>,
}

impl Hop {
    /// Decoded bytes of the chunk; none where it is damaged.
    fn decoded(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.header.nbytes().into())
    }
}

/// A run of chunks that are decoded together, as far as it was walked.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    start: Mark,
    end: Mark,
}

impl Walked {
    /// The run that begins at a mark.
    pub fn at(start: Mark) -> Self {
        Self { start, end: start }
    }

    /// Takes the step from the end of the run; returns the run before it if that one is complete.
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

    /// The chunks that were walked.
    pub fn run(&self) -> Run {
        self.start.run_to(&self.end)
    }

    /// The mark behind them.
    pub fn end(&self) -> Mark {
        self.end
    }
}

/// The marks of every `stride`-th run up to the frontier.
#[derive(Debug)]
pub struct Chain {
    marks: Vec<Mark>,
    stride: u64,
    /// Runs before the last one.
    runs: u64,
    last: Walked,
    /// The place that was walked to last.
    pub recent: Mark,
    /// The run that was asked for last.
    pub recent_run: Option<Run>,
}

impl Chain {
    /// A chain whose first chunk begins at `data`.
    pub fn new(data: u64) -> Self {
        let first = Mark { n: 0, at: Some(data), known: data, decoded: 0, gap: false };
        let last = Walked::at(first);
        Self { marks: vec![first], stride: 1, runs: 0, last, recent: first, recent_run: None }
    }

    /// How far the chain was walked.
    pub fn frontier(&self) -> Mark {
        self.last.end()
    }

    /// The last mark at or before chunk `n`.
    pub fn before(&self, n: u64) -> Mark {
        let near = [self.frontier(), self.recent].into_iter().filter(|mark| mark.n <= n);
        let mark = self.last_mark(|mark| mark.n <= n);
        near.chain([mark]).max_by_key(|mark| mark.n).unwrap_or(mark)
    }

    /// The last start of a run at or before a decoded byte.
    pub fn before_decoded(&self, offset: u64) -> Mark {
        self.last_mark(|mark| mark.decoded <= offset && !mark.gap)
    }

    fn last_mark(&self, is_before: impl Fn(&Mark) -> bool) -> Mark {
        let after = self.marks.partition_point(is_before);
        self.marks[after.saturating_sub(1)]
    }

    /// Notes the step from a mark.
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
