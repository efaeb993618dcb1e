//! One request for some blocks, shared by all readers that wait for them.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use seekable::cache::Bytes;
use seekable::error::{Error, Result};
use seekable::sync::{locked, wait_within};
use seekable::workers::{caller, while_waiting};

use super::cancel::Cancel;
use super::retry::{eio, interrupted, too_late};

/// A request for blocks, and the blocks that have arrived.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) blocks: Range<u64>,
    /// The time at which the request is given up if no block has arrived.
    deadline: Instant,
    /// The time without a block after which the request is given up.
    patience: Duration,
    cancel: Cancel,
    /// Number of readers of these blocks.
    readers: AtomicUsize,
    arrived: Mutex<Arrived>,
    /// Signalled when a block arrives or the request ends.
    advanced: Condvar,
}

#[derive(Debug, Default)]
struct Arrived {
    /// Blocks that have arrived, in order from the first requested one.
    blocks: Vec<Bytes>,
    end: Option<Result<()>>,
    /// The time at which a block arrived last.
    last: Option<Instant>,
    /// The first block that a reader waits for, counted from the first requested one.
    awaited: Option<usize>,
}

impl Fetch {
    pub(super) fn new(blocks: Range<u64>, deadline: Instant, patience: Duration) -> Self {
        let (cancel, readers, arrived, advanced) = Default::default();
        Self { blocks, deadline, patience, cancel, readers, arrived, advanced }
    }

    /// Returns the time at which the request is given up if no further block arrives.
    pub(super) fn deadline(&self) -> Instant {
        self.extended(self.deadline, &locked(&self.arrived))
    }

    /// Returns a deadline, or a later one if a block has arrived in time.
    fn extended(&self, deadline: Instant, arrived: &Arrived) -> Instant {
        arrived.last.map_or(deadline, |last| deadline.max(last + self.patience))
    }

    /// Adds a reader.
    pub(super) fn join(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reader; true if it was the last one.
    pub(super) fn leave(&self) -> bool {
        self.readers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// True if the request has not ended early.
    pub(super) fn is_wanted(&self) -> bool {
        locked(&self.arrived).end.is_none()
    }

    /// Ends the request because its readers were interrupted.
    pub(super) fn cancel(&self) {
        self.end(Err(eio("the request was cancelled")));
        self.cancel.cancel();
    }

    /// Calls `send`, which sends the request until it is cancelled.
    pub(super) fn send(&self, send: impl FnOnce() -> Result<()>) -> Result<()> {
        self.cancel.watched(send)
    }

    /// Adds the next block.
    pub(super) fn arrive(&self, bytes: Bytes) {
        let mut arrived = locked(&self.arrived);
        arrived.blocks.push(bytes);
        arrived.last = Some(Instant::now());
        if arrived.awaited.is_some_and(|awaited| awaited < arrived.blocks.len()) {
            arrived.awaited = None;
            drop(arrived);
            self.advanced.notify_all();
        }
    }

    /// Returns the number of blocks that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        locked(&self.arrived).blocks.len() as u64
    }

    /// Ends the request; only the first call counts.
    pub(super) fn end(&self, result: Result<()>) {
        locked(&self.arrived).end.get_or_insert(result);
        self.advanced.notify_all();
    }

    /// Waits for the blocks of this request from `block` on that come before `end`, and returns the first of them. A
    /// reader that waited for each block would be woken for each. Fails at the deadline of the reader, unless blocks
    /// still arrive, or when a signal ends its program.
    pub(super) fn wait(&self, block: u64, end: u64, deadline: Instant) -> Result<Bytes> {
        let position =
            |block: u64| usize::try_from(block.saturating_sub(self.blocks.start)).unwrap_or(usize::MAX);
        let at = position(block);
        let last = position(end.min(self.blocks.end).saturating_sub(1)).max(at);
        let is_ready = |arrived: &Arrived| arrived.blocks.len() > last || arrived.end.is_some();
        let arrived = locked(&self.arrived);
        let arrived = if is_ready(&arrived) {
            arrived
        } else {
            drop(arrived);
            while_waiting(|| {
                let mut arrived = locked(&self.arrived);
                while !is_ready(&arrived) {
                    arrived.awaited = Some(arrived.awaited.map_or(last, |awaited| awaited.min(last)));
                    let deadline = self.extended(deadline, &arrived);
                    let rest = deadline.saturating_duration_since(Instant::now());
                    if rest.is_zero() {
                        break;
                    }
                    let (now, is_over) = wait_within(&self.advanced, arrived, rest.min(caller::LOOK));
                    arrived = now;
                    if is_over && caller::is_gone() {
                        return Err(interrupted());
                    }
                }
                Ok(arrived)
            })?
        };
        match (arrived.blocks.get(at), &arrived.end) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Some(Err(error))) => Err(Error::clone(error)),
            (None, Some(Ok(()))) => Err(eio("a request ended without its data")),
            (None, None) => Err(too_late()),
        }
    }
}
