//! Decoded bytes that the daemon stores into the kernel's cache by itself.
//!
//! A compressed block is read past the kernel's cache until all of it is known to be sound
//! ([`Caching`](super::Caching)). The bytes that its readers got are stored into the kernel's cache nevertheless, so
//! that the kernel serves the next program that reads or maps the block. Where bytes turn out to be wrong, the
//! kernel drops all that it has of the block.
//!
//! A thread of its own makes these calls, since the kernel may wait for a read of the same page meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::content::Shared;
use crate::error::Result;
use crate::sync::locked;
use crate::vfs::Ino;
use crate::workers::Workers;

/// Bytes of buffers that may wait to be stored; further ones are left out.
const WAITING: u64 = 8 << 20;

/// Buffers of the length of a read that are kept.
const SPARES: usize = 8;

/// The least that is stored at once.
const LEAST: usize = 64 << 10;

/// Nodes of which it is known how they were opened.
const OPENED: usize = 1 << 14;

/// The kernel keeps whole pages only.
const PAGE: u64 = 4096;

/// The kernel's cache of a node's bytes.
pub trait Kernel: Send + Sync {
    /// Has it keep these bytes of a node.
    fn keep(&self, ino: Ino, offset: u64, bytes: &[u8]);

    /// Has it forget what it keeps of a node.
    fn forget(&self, ino: Ino);

    /// Has it give back those of the nodes that no program uses; an error if it can't be asked for that.
    fn give_back(&self, inos: &[Ino]) -> Result<()>;
}

/// A node that was opened.
struct Opened {
    /// The serial of the mounted file that shows it.
    file: u64,
    /// The blocks of that file from which the node is made.
    blocks: Box<[usize]>,
}

/// What the daemon stored into the kernel's cache. Clones share it.
#[derive(Clone)]
pub(crate) struct KernelCache(Arc<Inner>);

struct Inner {
    kernel: OnceLock<Box<dyn Kernel>>,
    worker: Workers,
    waiting: AtomicU64,
    /// Buffers to be used again: memory from the system costs as much as filling it.
    spare: Mutex<Vec<Vec<u8>>>,
    /// The nodes that were opened: the kernel may keep something of them.
    opened: Mutex<HashMap<Ino, Opened>>,
    /// Whether the kernel was asked for nodes, and can't give any back.
    keeps_nodes: AtomicBool,
}

impl Default for KernelCache {
    fn default() -> Self {
        let worker = Workers::new("tell", 1);
        Self(Arc::new(Inner {
            kernel: OnceLock::new(),
            worker,
            waiting: AtomicU64::new(0),
            spare: Mutex::default(),
            opened: Mutex::default(),
            keeps_nodes: AtomicBool::new(false),
        }))
    }
}

impl KernelCache {
    /// Sets the kernel.
    pub(crate) fn of(&self, kernel: Box<dyn Kernel>) {
        // The first one stays: there is one kernel.
        let _ = self.0.kernel.set(kernel);
        // Its thread starts now. Later there may be no room for one, and no thread that answers may make these calls.
        self.0.worker.run(|| ());
    }

    /// Notes that a node is opened, which is made of these blocks of the mounted file with the serial `file`.
    pub(crate) fn note_open(&self, ino: Ino, file: u64, blocks: &[usize]) {
        let mut opened = locked(&self.0.opened);
        if opened.len() >= OPENED && !opened.contains_key(&ino) {
            // What is not noted can't be taken back.
            opened.drain().for_each(|(ino, _)| self.forget(ino));
        }
        opened.insert(ino, Opened { file, blocks: blocks.into() });
    }

    /// Has the kernel drop the bytes of all nodes that are made of block `n` of a mounted file.
    pub(crate) fn forget_block(&self, file: u64, n: usize) {
        let opened = locked(&self.0.opened);
        let made_of_it = opened.iter().filter(|(_, noted)| noted.file == file && noted.blocks.contains(&n));
        made_of_it.for_each(|(ino, _)| self.forget(*ino));
    }

    /// Has the kernel drop the bytes of a node.
    pub(crate) fn forget(&self, ino: Ino) {
        let inner = self.0.clone();
        self.0.worker.run(move || {
            if let Some(kernel) = inner.kernel.get() {
                kernel.forget(ino);
            }
        });
    }

    /// Whether the kernel may give nodes back when it is asked.
    pub(crate) fn may_give_back(&self) -> bool {
        self.0.kernel.get().is_some() && !self.0.keeps_nodes.load(Ordering::Relaxed)
    }

    /// Has the kernel give back those of the nodes that no program uses.
    pub(crate) fn give_back(&self, inos: Vec<Ino>) {
        let inner = self.0.clone();
        self.0.worker.run(move || {
            let asked = inner.kernel.get().map(|kernel| kernel.give_back(&inos));
            if let Some(Err(error)) = asked {
                tracing::debug!("the kernel gives no nodes back: {error}");
                inner.keeps_nodes.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Stores bytes into the kernel's cache that were read at an offset of a node of `len` bytes: those on whole
    /// pages, if they are still right (`holds`) when their turn comes.
    pub(crate) fn keep(
        &self,
        ino: Ino,
        offset: u64,
        given: ReadBytes<'_>,
        len: u64,
        holds: impl FnOnce() -> bool + Send + 'static,
    ) {
        let Some((offset, range)) = whole_pages(offset, given.len(), len) else { return };
        if range.len() < LEAST || self.0.waiting.load(Ordering::Relaxed) > WAITING {
            return;
        }
        let size = given.weight();
        self.0.waiting.fetch_add(size, Ordering::Relaxed);
        let taken = match given {
            ReadBytes::Shared(shared) => OwnedBytes::Shared(shared),
            ReadBytes::Copied(buffer, _) => {
                let spare = locked(&self.0.spare).pop().unwrap_or_default();
                OwnedBytes::Copied(std::mem::replace(buffer, spare))
            }
        };
        let inner = self.0.clone();
        self.0.worker.run(move || {
            if let (Some(kernel), Some(bytes), true) = (inner.kernel.get(), taken.bytes().get(range), holds())
            {
                kernel.keep(ino, offset, bytes);
            }
            if let OwnedBytes::Copied(buffer) = taken {
                let mut spare = locked(&inner.spare);
                if spare.len() < SPARES {
                    spare.push(buffer);
                }
            }
            inner.waiting.fetch_sub(size, Ordering::Relaxed);
        });
    }
}

/// Bytes that a reader got.
#[derive(Debug)]
pub enum ReadBytes<'a> {
    /// In a buffer that is shared with the cache.
    Shared(Shared),
    /// The first bytes of a buffer, and how many. The buffer may be exchanged for another one with any content.
    Copied(&'a mut Vec<u8>, usize),
}

impl ReadBytes<'_> {
    /// Bytes that are held as long as this waits.
    fn weight(&self) -> u64 {
        match self {
            Self::Shared(shared) => shared.buffer().len() as u64,
            Self::Copied(buffer, _) => buffer.capacity() as u64,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Shared(shared) => shared.len(),
            Self::Copied(_, len) => *len,
        }
    }
}

enum OwnedBytes {
    Shared(Shared),
    Copied(Vec<u8>),
}

impl OwnedBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(shared) => shared,
            Self::Copied(buffer) => buffer,
        }
    }
}

/// The part of `count` bytes at an offset that fills whole pages: its offset, and its range of the bytes. The last
/// page of a node may be cut.
fn whole_pages(offset: u64, count: usize, len: u64) -> Option<(u64, Range<usize>)> {
    let start = offset.checked_next_multiple_of(PAGE)?;
    let end = offset.checked_add(count as u64)?;
    let end = if end >= len { len } else { end / PAGE * PAGE };
    let from = usize::try_from(start.checked_sub(offset)?).ok()?;
    let until = usize::try_from(end.checked_sub(offset)?).ok()?;
    (from < until && until <= count).then_some((start, from..until))
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KernelCache").field("waiting", &self.0.waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_kept_and_the_last_one() {
        let kernel_cache =
            |offset, len| whole_pages(offset, 10_000, len).map(|(at, range)| (at, range.len()));
        assert_eq!(kernel_cache(0, 100_000), Some((0, 8192)));
        assert_eq!(kernel_cache(1, 100_000), Some((4096, 4096)));
        assert_eq!(kernel_cache(0, 10_000), Some((0, 10_000)));
        assert_eq!(kernel_cache(4096, 14_096), Some((4096, 10_000)));
        assert_eq!(whole_pages(1, 4000, 100_000), None);
        assert_eq!(whole_pages(u64::MAX, 10_000, u64::MAX), None);
    }
}
