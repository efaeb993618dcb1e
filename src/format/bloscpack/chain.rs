//! Marks of the chain of chunks.

use crate::codec::blosc;
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

/// A step along the chain.
#[derive(Debug)]
pub struct Hop {
    /// The chunk at the mark.
    pub found: Result<Found>,
    /// The mark behind it.
    pub next: Option<Mark>,
}

/// The marks of every `stride`-th chunk up to the frontier.
#[derive(Debug)]
pub struct Chain {
    marks: Vec<Mark>,
    stride: u64,
    frontier: Mark,
}

impl Chain {
    /// A chain whose first chunk begins at `data`.
    pub fn new(data: u64) -> Self {
        let frontier = Mark { n: 0, at: Some(data), known: data, decoded: 0, gap: false };
        Self { marks: Vec::new(), stride: 1, frontier }
    }

    /// How far the chain was walked.
    pub fn frontier(&self) -> Mark {
        self.frontier
    }

    /// The last mark at or before chunk `n`.
    pub fn before(&self, n: u64) -> Mark {
        self.last(|mark| mark.n <= n)
    }

    /// The last mark at or before a decoded byte.
    pub fn before_decoded(&self, offset: u64) -> Mark {
        self.last(|mark| mark.decoded <= offset && !mark.gap)
    }

    fn last(&self, is_before: impl Fn(&Mark) -> bool) -> Mark {
        if is_before(&self.frontier) {
            return self.frontier;
        }
        let after = self.marks.partition_point(is_before);
        let start = self.marks.first().copied().unwrap_or(self.frontier);
        after.checked_sub(1).and_then(|last| self.marks.get(last)).copied().unwrap_or(start)
    }

    /// Notes the step from a mark.
    pub fn passed(&mut self, mark: Mark, hop: &Hop) {
        let Some(next) = hop.next.filter(|_| mark == self.frontier) else { return };
        if mark.n.is_multiple_of(self.stride) {
            if self.marks.len() == MOST {
                self.stride *= 2;
                let stride = self.stride;
                self.marks.retain(|mark| mark.n.is_multiple_of(stride));
            }
            if mark.n.is_multiple_of(self.stride) {
                self.marks.push(mark);
            }
        }
        self.frontier = next;
    }
}
