//! Mappings of local files whose bytes are lent to the kernel.
//!
//! A page of a mapping that was lent stays in the daemon's page table, so that it is lent faster the next time.
//! It counts as the daemon's memory, although it is the kernel's page cache. A second after the last loan, a
//! thread takes all pages of the mapping out of the page table. The thread ends when no mapping is in use.

#![allow(unsafe_code)] // the mapping

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::sync::{MutexGuard, locked};
use memmap2::{Advice, Mmap, MmapOptions, UncheckedAdvice};

/// Time without a loan after which the pages of a mapping are given up.
const QUIET: Duration = Duration::from_secs(1);

/// The mappings in use; `None` while no thread watches them.
static WATCHED: Mutex<Option<Vec<Weak<Lendable>>>> = Mutex::new(None);

/// Bytes of the mapping, for system calls only.
///
/// If another program truncates the file, access in user space kills the process (SIGBUS), while a system
/// call that gets the bytes fails with EFAULT.
#[derive(Debug)]
pub struct Lent<'a> {
    map: Arc<Lendable>,
    range: Range<usize>,
    /// A guard that keeps the bytes in place; released when the bytes are returned.
    _held: Option<Box<dyn AnyGuard + 'a>>,
}

/// A guard of any type.
pub trait AnyGuard: std::fmt::Debug {}

impl<T: std::fmt::Debug> AnyGuard for T {}

impl<'a> Lent<'a> {
    pub(super) fn new(map: Arc<Lendable>, range: Range<usize>) -> Self {
        Self { map, range, _held: None }
    }

    /// Keeps a guard until the bytes are returned.
    #[must_use]
    pub fn holding(self, held: impl AnyGuard + 'a) -> Self {
        let mut lent = self;
        lent._held = Some(Box::new(held));
        lent
    }

    /// Returns the bytes, for a system call only.
    pub fn for_kernel(&self) -> &[u8] {
        &self.map.map[self.range.clone()]
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.map.give_up_later();
    }
}

fn watched_maps() -> MutexGuard<'static, Option<Vec<Weak<Lendable>>>> {
    locked(&WATCHED)
}

/// A mapping, and the time of its last loan.
#[derive(Debug)]
pub(super) struct Lendable {
    map: Mmap,
    made: Instant,
    /// Milliseconds from `made` to the end of the last loan.
    lent: AtomicU64,
    /// True if the thread has the mapping in its list.
    is_watched: AtomicBool,
}

impl Lendable {
    /// Maps all of a file; `None` if it can't be mapped.
    pub(super) fn of(file: &File) -> Option<Self> {
        // SAFETY: other programs can change or truncate the file while it is mapped. The bytes are
        // reached only through `Lent`, whose contract is that they go to system calls and are not
        // touched here; the kernel answers EFAULT for a page that is gone.
        let map = unsafe { MmapOptions::new().map(file) }.ok()?;
        let _ = map.advise(Advice::Sequential);
        Some(Self { map, made: Instant::now(), lent: AtomicU64::new(0), is_watched: AtomicBool::new(false) })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Notes the end of a loan. The pages are given up a second after the last one.
    fn give_up_later(self: &Arc<Self>) {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX >> 1);
        self.lent.store(now, Ordering::SeqCst);
        if self.is_watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut watched = watched_maps();
        if let Some(maps) = &mut *watched {
            maps.push(Arc::downgrade(self));
        } else if std::thread::Builder::new().name("unmap".into()).spawn(watch).is_ok() {
            *watched = Some(vec![Arc::downgrade(self)]);
        } else {
            self.is_watched.store(false, Ordering::SeqCst);
        }
    }

    /// Gives up the pages, unless a loan ended less than [`QUIET`] ago. Returns true if it did.
    fn give_up_if_quiet(&self) -> bool {
        // A loan that ends from now on makes the thread look again.
        self.is_watched.store(false, Ordering::SeqCst);
        let lent = Duration::from_millis(self.lent.load(Ordering::SeqCst));
        if self.made.elapsed() < lent + QUIET {
            self.is_watched.store(true, Ordering::SeqCst);
            return false;
        }
        // SAFETY: the mapping is shared and backed by the file, so dropping its pages loses nothing: the next
        // access maps the same bytes again.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
        true
    }
}

/// Watches the mappings until none is in use.
fn watch() {
    loop {
        std::thread::sleep(QUIET / 2);
        let mut watched = watched_maps();
        let Some(maps) = &mut *watched else { return };
        let upgraded: Vec<_> = maps.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        let in_use: Vec<_> = upgraded.iter().map(|map| !map.give_up_if_quiet()).collect();
        let mut watched = watched_maps();
        let Some(maps) = &mut *watched else { return };
        maps.retain(|map| {
            let Some(position) = upgraded.iter().position(|known| Weak::as_ptr(map) == Arc::as_ptr(known))
            else {
                return map.strong_count() > 0;
            };
            in_use[position]
        });
        if maps.is_empty() {
            *watched = None;
            return;
        }
    }
}
