//! Decoded bytes that the daemon stores into the kernel's cache (FUSE_NOTIFY_STORE).
//!
//! A compressed block is opened for direct I/O until all of it is known to be sound
//! ([`Caching`](super::Caching)). The bytes that readers got are nevertheless stored into the kernel's cache,
//! so that the kernel can serve the next program that reads or maps the block. If the bytes turn out to be
//! wrong, the kernel is told to drop all cached bytes of the block.
//!
//! A separate thread makes these calls, because the kernel may block them until a read of
//! the same page is answered.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use seekable::error::Result;
use seekable::sync::locked;
use seekable::workers::Workers;

use seekable::content::SharedBytes;

use crate::vfs::Ino;

/// Maximum total size in bytes of the buffers that wait to be stored; further buffers are not stored.
const WAITING: u64 = 8 << 20;

/// Maximum number of read buffers kept for reuse.
const SPARES: usize = 8;

/// Smallest range that is stored, in bytes.
const MIN_RANGE: usize = 64 << 10;

/// Maximum number of opened nodes that are recorded.
const OPENED: usize = 1 << 14;

/// Page size of the kernel's cache, in bytes. Only whole pages are stored.
const PAGE: u64 = 4096;

/// Notifications to the kernel about its cache.
pub trait Kernel: Send + Sync {
    /// Stores `bytes` of a node into the kernel's cache.
    fn keep(&self, ino: Ino, offset: u64, bytes: &[u8]);

    /// Drops the cached bytes of a node.
    fn forget(&self, ino: Ino);

    /// Makes the kernel ask for the attributes of a node again, before a program gets them. Never waits for a request.
    fn renew_attributes(&self, ino: Ino);

    /// Makes the kernel look up each name again, before a program gets it. Never waits for a request. Fails if the kernel
    /// doesn't support that.
    fn renew_names(&self) -> Result<()>;

    /// Asks the kernel to drop the nodes among `inos` that no program uses. Fails if the kernel doesn't
    /// support that.
    fn give_back(&self, inos: &[Ino]) -> Result<()>;
}

/// A node that was opened.
struct Opened {
    /// Serial of the mounted file.
    file: u64,
    /// Numbers of the mounted file's blocks from which the node's bytes come.
    blocks: Box<[usize]>,
}

/// The interface to the kernel's cache. Clones share state.
#[derive(Clone)]
pub(crate) struct KernelCache(Arc<Inner>);

struct Inner {
    kernel: OnceLock<Box<dyn Kernel>>,
    worker: Workers,
    waiting: AtomicU64,
    /// Buffers for reuse: new memory from the system costs as much as filling it.
    spare: Mutex<Vec<Vec<u8>>>,
    /// Opened nodes: the kernel may have cached bytes of them.
    opened: Mutex<HashMap<Ino, Opened>>,
    /// True once a request to drop nodes has failed: the kernel doesn't support it.
    keeps_nodes: AtomicBool,
    /// True if the kernel can be told that names and attributes have changed.
    renews: AtomicBool,
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
            renews: AtomicBool::new(false),
        }))
    }
}

impl KernelCache {
    /// Sets the kernel that is notified.
    pub(crate) fn of(&self, kernel: Box<dyn Kernel>) {
        // A second call has no effect: there is one kernel.
        let _ = self.0.kernel.set(kernel);
        self.0.renews.store(true, Ordering::Relaxed);
        self.renew(&[]);
        // The thread starts now. Starting it later may fail, and a request thread must not make these calls.
        self.0.worker.run(|| ());
    }

    /// Records that a node was opened. Its bytes come from `blocks` of the mounted file with the serial
    /// `file`.
    pub(crate) fn note_open(&self, ino: Ino, file: u64, blocks: &[usize]) {
        let mut opened = locked(&self.0.opened);
        if opened.len() >= OPENED && !opened.contains_key(&ino) {
            // The list is full and starts anew. Bytes of a node that is no longer in the list could not be
            // dropped later.
            for (dropped, _) in opened.drain() {
                self.forget(dropped);
            }
        }
        opened.insert(ino, Opened { file, blocks: blocks.into() });
    }

    /// Drops the cached bytes of all nodes whose bytes come from block `n` of a mounted file.
    pub(crate) fn forget_block(&self, file: u64, n: usize) {
        let opened = locked(&self.0.opened);
        let made_of_it = opened.iter().filter(|(_, noted)| noted.file == file && noted.blocks.contains(&n));
        for (ino, _) in made_of_it {
            self.forget(*ino);
        }
    }

    /// Drops the cached bytes of a node.
    pub(crate) fn forget(&self, ino: Ino) {
        let inner = self.0.clone();
        self.0.worker.run(move || {
            if let Some(kernel) = inner.kernel.get() {
                kernel.forget(ino);
            }
        });
    }

    /// True if the kernel can be told that names and attributes have changed.
    pub(crate) fn renews(&self) -> bool {
        self.0.renews.load(Ordering::Relaxed)
    }

    /// Makes the kernel look up each name again, and ask for the attributes of `inos` again. When this
    /// returns, no program gets an older answer.
    pub(crate) fn renew(&self, inos: &[Ino]) {
        if !self.renews() {
            return;
        }
        for ino in inos {
            self.renew_attributes(*ino);
        }
        if let Some(Err(error)) = self.0.kernel.get().map(|kernel| kernel.renew_names()) {
            tracing::debug!("the kernel keeps no names of writable files: {error}");
            self.0.renews.store(false, Ordering::Relaxed);
        }
    }

    /// Makes the kernel ask for the attributes of a node again. When this returns, no program gets older ones.
    pub(crate) fn renew_attributes(&self, ino: Ino) {
        if let Some(kernel) = self.0.kernel.get() {
            kernel.renew_attributes(ino);
        }
    }

    /// True if a kernel is set, and has not failed to drop nodes.
    pub(crate) fn may_give_back(&self) -> bool {
        self.0.kernel.get().is_some() && !self.0.keeps_nodes.load(Ordering::Relaxed)
    }

    /// Asks the kernel to drop the nodes among `inos` that no program uses.
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

    /// Stores `pages`, the whole pages of the bytes that a reader got, into the kernel's cache.
    /// `is_still_valid` is called just before the pages are stored; if it returns false, nothing is stored.
    pub(crate) fn keep(
        &self,
        ino: Ino,
        pages: Pages,
        given: ReadBytes<'_>,
        is_still_valid: impl FnOnce() -> bool + Send + 'static,
    ) {
        let Pages { offset, range } = pages;
        if range.len() < MIN_RANGE || self.0.waiting.load(Ordering::Relaxed) > WAITING {
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
            if let Some(kernel) = inner.kernel.get()
                && let Some(bytes) = taken.bytes().get(range)
                && is_still_valid()
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

/// Bytes returned to a reader.
#[derive(Debug)]
pub enum ReadBytes<'a> {
    /// Bytes in a buffer shared with the cache of granules.
    Shared(SharedBytes),
    /// A buffer and the number of its bytes used. The buffer may be exchanged for
    /// another one with any content.
    Copied(&'a mut Vec<u8>, usize),
}

impl ReadBytes<'_> {
    /// Returns the number of bytes that stay in memory until the kernel has them.
    fn weight(&self) -> u64 {
        match self {
            Self::Shared(shared) => shared.buffer().len() as u64,
            Self::Copied(buffer, _) => buffer.capacity() as u64,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(shared) => shared.len(),
            Self::Copied(_, len) => *len,
        }
    }
}

enum OwnedBytes {
    Shared(SharedBytes),
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

/// Whole pages among the bytes that a reader got from a node. The node's last page may be partial.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Offset of the first page in the node, in bytes.
    offset: u64,
    /// Range of the pages within the bytes that the reader got.
    range: Range<usize>,
}

impl Pages {
    /// Returns the whole pages within `count` bytes at `offset` of a node of `len` bytes; `None` if there are
    /// none.
    pub(crate) fn among(offset: u64, count: usize, len: u64) -> Option<Self> {
        let start = offset.checked_next_multiple_of(PAGE)?;
        let end = offset.checked_add(count as u64)?;
        let end = if end >= len { len } else { end / PAGE * PAGE };
        let from = usize::try_from(start.checked_sub(offset)?).ok()?;
        let until = usize::try_from(end.checked_sub(offset)?).ok()?;
        (from < until && until <= count).then_some(Self { offset: start, range: from..until })
    }
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
            |offset, len| Pages::among(offset, 10_000, len).map(|pages| (pages.offset, pages.range.len()));
        assert_eq!(kernel_cache(0, 100_000), Some((0, 8192)));
        assert_eq!(kernel_cache(1, 100_000), Some((4096, 4096)));
        assert_eq!(kernel_cache(0, 10_000), Some((0, 10_000)));
        assert_eq!(kernel_cache(4096, 14_096), Some((4096, 10_000)));
        assert_eq!(Pages::among(1, 4000, 100_000), None);
        assert_eq!(Pages::among(u64::MAX, 10_000, u64::MAX), None);
    }
}
