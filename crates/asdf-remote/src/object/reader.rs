//! A reader's search for blocks: in memory, on disk, in the requests of other readers, and by its own requests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use seekable::cache::Bytes;
use seekable::error::Result;
use seekable::sync::locked;

use super::Object;
use crate::fetch::Fetch;
use crate::retry::too_late;

/// Maximum number of times that a block is looked for: requests of other readers may fail.
const TRIES: usize = 4;

/// A reader that waits for blocks until its deadline. If a signal interrupts it, requests for which no other
/// reader waits are cancelled.
pub(super) struct BlockReader<'a> {
    object: &'a Arc<Object>,
    /// End of the blocks that are read.
    end: u64,
    deadline: Instant,
    /// The requests for blocks that were missing.
    own: Vec<Arc<Fetch>>,
    is_interrupted: bool,
}

impl<'a> BlockReader<'a> {
    /// Requests the missing ones of the blocks.
    pub(super) fn new(object: &'a Arc<Object>, blocks: Range<u64>, deadline: Instant) -> Result<Self> {
        let mut reader = Self { object, end: blocks.end, deadline, own: Vec::new(), is_interrupted: false };
        reader.request(blocks)?;
        Ok(reader)
    }

    fn request(&mut self, blocks: Range<u64>) -> Result<()> {
        self.own.extend(self.object.request(blocks, self.deadline)?);
        Ok(())
    }

    /// Returns a block.
    pub(super) fn block(&mut self, block: u64) -> Result<Bytes> {
        let found = self.find(block);
        self.is_interrupted |= found.as_ref().is_err_and(|error| error.errno() == libc::EINTR);
        found
    }

    fn find(&mut self, block: u64) -> Result<Bytes> {
        for _ in 0..TRIES {
            if let Some(own) = self.own.iter().find(|fetch| fetch.blocks.contains(&block)) {
                return own.wait(block, self.end, self.deadline);
            }
            if let Some(bytes) = self.object.in_memory(block) {
                self.object.shared.client.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
                return Ok(bytes);
            }
            let other = locked(&self.object.pending).get(&block).cloned();
            match other.map(|other| self.wait_for(&other, block)) {
                Some(Err(error)) if error.errno() != libc::EINTR => {}
                Some(waited) => return waited,
                None => {}
            }
            if let Some(bytes) = self.object.on_disk(block) {
                return Ok(bytes);
            }
            // The other reader's request failed, perhaps because its deadline was earlier.
            self.request(block..block + 1)?;
        }
        Err(too_late())
    }

    /// Waits for a request that another reader sent.
    fn wait_for(&self, other: &Arc<Fetch>, block: u64) -> Result<Bytes> {
        other.join();
        let waited = other.wait(block, self.end, self.deadline);
        self.leave(other, waited.as_ref().is_err_and(|error| error.errno() == libc::EINTR));
        waited
    }

    fn leave(&self, fetch: &Arc<Fetch>, is_interrupted: bool) {
        if fetch.leave() && is_interrupted {
            // Later readers send a request of their own.
            self.object.forget(fetch);
            fetch.cancel();
        }
    }
}

impl Drop for BlockReader<'_> {
    fn drop(&mut self) {
        for fetch in &self.own {
            self.leave(fetch, self.is_interrupted);
        }
    }
}
