//! Which files and threads read large stored files in small pieces.
//!
//! A large stored file bypasses the kernel's cache: large reads are faster that way, but each read is a request.
//! How a program reads shows only after the open, when the kernel can't change the handle any more. The next
//! open of the file, or of another one by the same thread, as by `tar`, therefore goes by what was seen:
//!
//! | handle | first reads | files and thread |
//! |---|---|---|
//! | direct | [`RUN`] reads in a row of less than [`SMALL`] | read in small pieces |
//! | [`RUN`] direct ones | fewer such reads, and then a close, as by `head` | the file is read in small pieces |
//! | direct | at least [`SMALL`] | not |
//! | through the cache | at least [`AHEAD`]: the kernel reads ahead as much as the program asks for | not |

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;
use seekable::sync::locked;

use crate::vfs::node::Ino;

/// Length below which a read is small, in bytes. From here on, direct reads are as fast as those through the
/// kernel's cache.
const SMALL: u32 = 32 << 10;
/// Number of small reads in a row, or of handles with fewer of them, after which a file counts as read in small pieces.
const RUN: u64 = 8;
/// Length of the kernel's first request that shows a reader of large pieces. For pieces of 4 KiB the kernel
/// begins with 16 KiB.
const AHEAD: u32 = 64 << 10;
/// Maximum number of files and threads that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");

/// A file, or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReadBy {
    Node(Ino),
    Thread(u32),
}

/// The files and threads whose last reads were small, with the number of these, at most [`RUN`].
#[derive(Debug)]
pub(crate) struct ReadSizes(Mutex<LruCache<ReadBy, u64>>);

impl Default for ReadSizes {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl ReadSizes {
    /// True if the file, or another file by the same thread, was last read in small pieces.
    pub(crate) fn are_small(&self, ino: Ino, thread: u32) -> bool {
        let mut small = locked(&self.0);
        [ReadBy::Node(ino), ReadBy::Thread(thread)].iter().any(|reader| small.get(reader) == Some(&RUN))
    }

    fn note(&self, ino: Ino, thread: u32, is_small: bool) {
        let mut small = locked(&self.0);
        for reader in [ReadBy::Node(ino), ReadBy::Thread(thread)] {
            if is_small {
                small.put(reader, RUN);
            } else {
                small.pop(&reader);
            }
        }
    }

    /// Counts a handle of the file that was closed after a few small reads.
    fn count(&self, ino: Ino) {
        let mut small = locked(&self.0);
        let before = small.get(&ReadBy::Node(ino)).copied().unwrap_or(0);
        small.put(ReadBy::Node(ino), RUN.min(before + 1));
    }
}

/// The reads of a handle, until it is known whether they are small.
#[derive(Debug, Default)]
pub(crate) struct FirstReads {
    /// Number of small reads in a row.
    run: AtomicU64,
    /// Offset at which the next read continues the row.
    next: AtomicU64,
}

/// Value of `run` once the reads were noted.
const NOTED: u64 = u64::MAX;

impl FirstReads {
    /// Notes a read of the file by a thread; `through_cache` is true for a read by the kernel's cache.
    pub(crate) fn note(
        &self,
        sizes: &ReadSizes,
        ino: Ino,
        thread: u32,
        offset: u64,
        size: u32,
        through_cache: bool,
    ) {
        let run = self.run.load(Ordering::Relaxed);
        if run == NOTED {
            return;
        }
        if through_cache {
            self.run.store(NOTED, Ordering::Relaxed);
            if size >= AHEAD {
                sizes.note(ino, thread, false);
            }
            return;
        }
        if size >= SMALL {
            self.run.store(NOTED, Ordering::Relaxed);
            return sizes.note(ino, thread, false);
        }
        let is_next = self.next.swap(offset.saturating_add(size.into()), Ordering::Relaxed) == offset;
        let run = if is_next { run + 1 } else { 0 };
        if run < RUN {
            return self.run.store(run, Ordering::Relaxed);
        }
        self.run.store(NOTED, Ordering::Relaxed);
        sizes.note(ino, thread, true);
    }

    /// Notes that the handle was closed.
    pub(crate) fn end(&self, sizes: &ReadSizes, ino: Ino) {
        let has_read = self.next.load(Ordering::Relaxed) > 0;
        if has_read && self.run.load(Ordering::Relaxed) != NOTED {
            sizes.count(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_reads_in_a_row_are_remembered_until_a_large_one() {
        let (sizes, file) = (ReadSizes::default(), Ino::of(7));
        let direct = |reads: &[(u64, u32)]| {
            let first = FirstReads::default();
            for (offset, size) in reads {
                first.note(&sizes, file, 3, *offset, *size, false);
            }
        };
        let row: Vec<_> = (0..9).map(|n| (n * 4096, 4096)).collect();
        direct(&row[..4]);
        assert!(!sizes.are_small(file, 3));
        // At random.
        direct(&row.iter().map(|(offset, size)| (offset * 7919 % 100_003, *size)).collect::<Vec<_>>());
        assert!(!sizes.are_small(file, 3));
        direct(&row);
        assert!(
            sizes.are_small(file, 1) && sizes.are_small(Ino::of(8), 3) && !sizes.are_small(Ino::of(8), 1)
        );
        FirstReads::default().note(&sizes, file, 3, 0, 16 << 10, true);
        assert!(sizes.are_small(file, 3));
        FirstReads::default().note(&sizes, file, 3, 0, 128 << 10, true);
        assert!(!sizes.are_small(file, 3));
        direct(&row);
        direct(&[(0, 1 << 20), (1 << 20, 4096)]);
        assert!(!sizes.are_small(file, 3));
    }

    #[test]
    fn handles_with_one_small_read_are_counted() {
        let (sizes, file) = (ReadSizes::default(), Ino::of(7));
        let opened = |reads: &[(u64, u32)]| {
            let first = FirstReads::default();
            for (offset, size) in reads {
                first.note(&sizes, file, 3, *offset, *size, false);
            }
            first.end(&sizes, file);
        };
        for _ in 0..20 {
            opened(&[]);
        }
        for n in 1..RUN {
            opened(&[(n << 20, 4096)]);
        }
        assert!(!sizes.are_small(file, 3));
        opened(&[(0, 100)]);
        assert!(sizes.are_small(file, 1) && !sizes.are_small(Ino::of(8), 3));
        opened(&[(0, 1 << 20)]);
        assert!(!sizes.are_small(file, 3));
        opened(&[(0, 100)]);
        assert!(!sizes.are_small(file, 3));
    }
}
