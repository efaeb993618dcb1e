//! Helpers shared by the codecs' tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::seek::stored_table::{TableKind, TableSlot};
use crate::cache::Cache;
use crate::cache::store::Store;
use crate::codec::StoredStream;
use crate::content::{Content, Soundness, Text};
use crate::decode::Decoded;
use crate::error::Result;

/// A pseudo-random generator (xorshift), deterministic; the seed must not be 0.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Returns a number below `below`, or 0.
    pub(super) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Stored bytes that count how many of them are read.
#[derive(Debug)]
pub(super) struct Counted(Text, AtomicU64);

impl Counted {
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Arc<Self> {
        Arc::new(Self(Text::new(bytes.into()), AtomicU64::new(0)))
    }

    /// Returns the number of bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Content for Counted {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads `count` bytes at `at` and compares them with `truth`.
#[track_caller]
pub(super) fn check(content: &dyn Content, truth: &[u8], at: usize, count: usize) {
    let mut buf = vec![0x55; count];
    let read = content.read_at(at as u64, &mut buf).unwrap();
    let right = &truth[at.min(truth.len())..];
    assert!(buf[..read] == right[..right.len().min(count)], "{count} bytes at {at}");
}

/// Asserts that 32 concurrent readers get the right bytes of a stream. The readers use the seek table stored
/// by `cache`, in three passes: with a cache budget of 0, with a wrong table, and with a budget of 64 MiB.
pub(super) fn many_read(
    (kind, stored, truth): (TableKind, &[u8], &[u8]),
    cache: &Arc<Cache>,
    open: impl Fn(&Arc<Cache>) -> Decoded,
) {
    for (budget, wrong) in [(0, false), (1 << 20, true), (64 << 20, false)] {
        cache.store().wait_for_writes();
        let here = Arc::new(Cache::with_threads(budget, 4).sharing(cache.store()));
        let content = open(&here);
        if wrong {
            // Every reader finds the table wrong, each at its own offset.
            let mut bad = slot(kind, stored, truth.len(), cache).bytes().unwrap();
            let records = 88 + 32 * u64::from_le_bytes(bad[72..80].try_into().unwrap()) as usize;
            for byte in bad[records..].iter_mut().step_by(500) {
                *byte ^= 1;
            }
            slot(kind, stored, truth.len(), &here).put(&bad);
        }
        std::thread::scope(|scope| {
            for reader in 0..32_usize {
                let content = &content;
                scope.spawn(move || {
                    let mut dice = Dice(reader as u64 + 500);
                    for n in 0..8 {
                        match reader % 2 {
                            0 => {
                                check(content, truth, (reader * 90_000 + n * 131_072) % truth.len(), 131_072)
                            }
                            _ => check(content, truth, dice.roll(truth.len()), 5000),
                        }
                    }
                });
            }
        });
        assert!(content.damage().is_none());
    }
}

/// Reads the first `upto` bytes, or up to the first error.
pub(super) fn read_first(content: &dyn Content, upto: usize) {
    let mut buf = vec![0; upto];
    let mut at = 0;
    while let Ok(read @ 1..) = content.read_at(at as u64, &mut buf[at..]) {
        at += read;
    }
}

/// Returns the table with damage at byte `at`; `round` picks the kind of damage.
pub(super) fn damaged(good: &[u8], at: usize, round: usize) -> Vec<u8> {
    let mut bad = good.to_vec();
    match round % 4 {
        3 => bad.truncate(at),
        way => bad[at] ^= [1, 0x80, 0xff][way],
    }
    bad
}

/// Reads all of the content forward ("on") or backward ("back"), its end ("far"), or random ranges (other
/// orders).
#[track_caller]
pub(super) fn read_in(order: &str, content: &dyn Content, truth: &[u8], dice: &mut Dice) {
    let step = 131_072;
    let steps = truth.len().div_ceil(step);
    match order {
        "on" => (0..steps).for_each(|at| check(content, truth, at * step, step)),
        "back" => (0..steps).rev().for_each(|at| check(content, truth, at * step, step)),
        "far" => check(content, truth, truth.len() - 4096, 5000),
        _ => (0..20).for_each(|_| check(content, truth, dice.roll(truth.len()), dice.roll(9000))),
    }
}

/// Returns the stream cut off after at least `least` bytes, with some bits flipped, or with nine bytes
/// overwritten; `round` picks which.
pub(super) fn harmed(stored: &[u8], least: usize, round: usize, dice: &mut Dice) -> Vec<u8> {
    let mut broken = stored.to_vec();
    match round % 3 {
        0 => broken.truncate(dice.roll(stored.len() - least) + least),
        1 => (0..1 + dice.roll(3)).for_each(|_| broken[dice.roll(stored.len())] ^= 1 << dice.roll(8)),
        _ => {
            let at = dice.roll(stored.len() - 9);
            broken[at..at + 9].fill(dice.roll(256) as u8);
        }
    }
    broken
}

/// Asserts that both decoders succeed, or that our message is the library's with the place in front.
#[track_caller]
pub(super) fn say_the_same(ours: Option<String>, theirs: Option<String>) {
    assert_eq!(ours.is_some(), theirs.is_some());
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        let place = ours.strip_suffix(&theirs).unwrap_or_else(|| panic!("{ours}, not {theirs}"));
        assert!(theirs.starts_with("decodes to") || place.contains("decoded offset "), "{ours}");
    }
}

/// Reads from the start to the end or to the first error. Returns the bytes, the message of the error, and
/// the soundness of the content after the last read.
pub(super) fn prefix(content: &Decoded) -> (Vec<u8>, Option<String>, Soundness) {
    let mut bytes = Vec::new();
    let mut buf = vec![0; 100_000];
    loop {
        match content.read_at(bytes.len() as u64, &mut buf) {
            Ok(0) => return (bytes, None, content.soundness()),
            Ok(read) => bytes.extend_from_slice(&buf[..read]),
            Err(error) => return (bytes, Some(error.message()), content.soundness()),
        }
    }
}

/// Returns the cache of a first mount, with an empty store of seek tables.
pub(super) fn first_mount(threads: usize) -> Arc<Cache> {
    Arc::new(Cache::with_threads(1 << 30, threads).with_store(Store::in_memory()))
}

/// Returns a fresh cache of `budget` bytes, as of another mount, with the seek tables of `before`.
pub(super) fn next_mount(before: &Arc<Cache>, budget: u64, threads: usize) -> Arc<Cache> {
    before.store().wait_for_writes();
    Arc::new(Cache::with_threads(budget, threads).sharing(before.store()))
}

/// Returns the slot of a stream's table, after all pending writes to the store.
pub(super) fn slot(kind: TableKind, stored: &[u8], len: usize, cache: &Arc<Cache>) -> TableSlot {
    cache.store().wait_for_writes();
    TableSlot::new(cache.store(), kind, &stream(stored, len)).unwrap()
}

/// Returns a stream called "a name".
pub(super) fn stream(stored: &[u8], len: usize) -> StoredStream {
    StoredStream::new(Arc::new(Text::new(stored)), len as u64).named(b"a name".into())
}

/// Returns a table with one or two wrong values, in its entries (of four numbers each) or in its header.
pub(super) fn lying(good: &[u8], dice: &mut Dice) -> Vec<u8> {
    let count = u64::from_le_bytes(good[72..80].try_into().unwrap()) as usize;
    let mut bad = good.to_vec();
    for _ in 0..1 + dice.roll(2) {
        let number = 88 + 8 * dice.roll(4 * count);
        let old = number..number + 8;
        let new = 88 + 8 * dice.roll(4 * count);
        match dice.roll(6) {
            0 => bad[old].copy_from_slice(&(dice.roll(1 << 40) as u64).to_le_bytes()),
            1 => bad[old].fill(0xff),
            2 => bad.copy_within(new..new + 8, number),
            3 => bad[48 + dice.roll(32)] = dice.roll(256) as u8,
            _ => {
                let value = u64::from_le_bytes(bad[old.clone()].try_into().unwrap());
                let value = value.wrapping_add(dice.roll(5) as u64).wrapping_sub(2);
                bad[old].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    bad
}
