//! A table of results of format detection.
//!
//! A file is identified by device and inode, as long as its size, mtime and ctime are unchanged. A file with
//! times younger than [`GRANULARITY`] is not remembered: another change could leave its times as they are.
//!
//! On a file system on a server, times may not change with the file. Results for files there are forgotten
//! within [`REMOTE`].
//!
//! The table is a single hash table without an allocation for each file. Otherwise a few remembered files
//! would keep whole memory pages from being freed after the others are forgotten.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seekable::sync::locked;

use crate::local::mounts::Stalling;
use crate::local::stat::{Stat, Time};

/// Coarsest time stamps of a file system, in seconds: those of FAT.
const GRANULARITY: i64 = 2;
/// Time after which a file on a server is detected again, at the latest.
const REMOTE: Duration = Duration::from_secs(60);
/// Slots of a bucket: as many hashes as fit in a cache line.
const WAYS: usize = 8;
/// Number of buckets in a new table.
const FIRST: usize = 1 << 9;
/// Words of the bit set of inode numbers: 1 MiB.
const INODES: usize = 1 << 17;
/// Number of buckets in the largest table: 16 MiB.
const MAX_BUCKETS: usize = 1 << 18;

/// Detection results for files, valid while the files are unchanged.
#[derive(Debug)]
pub(super) struct Remembered {
    hasher: RandomState,
    table: Mutex<HashTable>,
    made: Instant,
}

impl Default for Remembered {
    fn default() -> Self {
        let hasher = RandomState::new();
        let made = Instant::now();
        Self { hasher, table: Mutex::default(), made }
    }
}

impl Remembered {
    /// Returns the result for a file with this stat: true if a format recognised it; `None` if unknown.
    pub(super) fn get(&self, stat: &Stat) -> Option<bool> {
        if stat.source.size == 0 {
            return Some(false);
        }
        let hash = self.hash(stat);
        locked(&self.table).get(hash)
    }

    /// True if a file with this inode number may be remembered, on any device. If not,
    /// its stat need not be read.
    pub(super) fn may_have(&self, inode: u64) -> bool {
        locked(&self.table).may_have(inode)
    }

    /// Remembers whether a file is recognised. `begun` is a time before the file was read; `stat` was taken
    /// after the read. The times of a file that changed in between may still change, so the file is not
    /// remembered.
    pub(super) fn put(&self, stat: &Stat, known: bool, begun: SystemTime) {
        // A file elsewhere gets a new key with each change, so its times need no time to pass.
        let is_version = stat.key.inode().is_none();
        if is_version || is_old_enough(stat.source.mtime, begun) && is_old_enough(stat.ctime, begun) {
            let hash = self.hash(stat);
            let mut table = locked(&self.table);
            if let Some(inode) = stat.key.inode() {
                table.note(inode);
            }
            table.put(hash, known);
        }
    }

    fn hash(&self, stat: &Stat) -> u64 {
        let period = if Stalling::of(stat.key).is_some() {
            self.made.elapsed().as_secs() / REMOTE.as_secs() + 1
        } else {
            0
        };
        self.hasher.hash_one((stat.key, stat.source.size, stat.source.mtime, stat.ctime, period))
    }
}

/// True if any change from now on results in a time other than this one.
fn is_old_enough(time: Time, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    // Both times are truncated to whole seconds.
    i64::try_from(now).is_ok_and(|now| time.0.saturating_add(GRANULARITY) < now)
}

/// Returns the word and the bit of an inode number in [`HashTable::inodes`]. Neighbouring numbers share a page.
fn place(inode: u64) -> (usize, u64) {
    ((inode >> 6) as usize % INODES, 1 << (inode & 63))
}

/// A set of hashes in buckets. If a bucket is full, a new hash replaces another.
#[derive(Debug, Default)]
struct HashTable {
    /// Each slot has a hash; its lowest bit is 1 if the file was recognised. An empty slot is 0. While no
    /// file is remembered, there are no buckets.
    buckets: Vec<[u64; WAYS]>,
    used: usize,
    /// A bit set: the bit of each remembered inode number ([`place`]) is set.
    inodes: Vec<u64>,
}

impl HashTable {
    fn may_have(&self, inode: u64) -> bool {
        let (word, bit) = place(inode);
        self.inodes.get(word).is_some_and(|word| word & bit != 0)
    }

    fn note(&mut self, inode: u64) {
        if self.inodes.is_empty() {
            self.inodes = vec![0; INODES];
        }
        let (word, bit) = place(inode);
        if let Some(word) = self.inodes.get_mut(word) {
            *word |= bit;
        }
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash >> 32) as usize & self.buckets.len().wrapping_sub(1)
    }

    fn get(&self, hash: u64) -> Option<bool> {
        let slots = self.buckets.get(self.bucket(hash))?;
        slots.iter().find(|slot| **slot != 0 && **slot | 1 == hash | 1).map(|slot| slot & 1 == 1)
    }

    fn put(&mut self, hash: u64, known: bool) {
        if self.used >= self.buckets.len() * WAYS / 2 && self.buckets.len() < MAX_BUCKETS {
            let new = vec![[0; WAYS]; (self.buckets.len() * 2).max(FIRST)];
            let old = std::mem::replace(&mut self.buckets, new);
            self.used = 0;
            for slot in old.iter().flatten().filter(|slot| **slot != 0) {
                self.insert(*slot);
            }
        }
        self.insert(hash & !1 | u64::from(known));
    }

    fn insert(&mut self, slot: u64) {
        let bucket = self.bucket(slot);
        let Some(slots) = self.buckets.get_mut(bucket) else { return };
        let own = slots.iter().position(|other| other | 1 == slot | 1);
        let place = own.or_else(|| slots.iter().position(|other| *other == 0));
        let place = place.unwrap_or((slot >> 1) as usize % WAYS);
        if let Some(place) = slots.get_mut(place) {
            self.used += usize::from(*place == 0);
            *place = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::at::stat_of;
    use crate::local::stat::FileKey;

    #[test]
    fn a_million_files_take_little_memory_and_most_are_known() {
        let mut table = HashTable::default();
        let hasher = RandomState::new();
        let all = || (0..1_000_000_u64).map(|n| (hasher.hash_one(n), n % 3 == 0));
        for (hash, known) in all() {
            table.put(hash, known);
        }
        let right = all().filter(|(hash, known)| table.get(*hash) == Some(*known)).count();
        assert!(right > 980_000, "{right}");
        assert!(all().all(|(hash, known)| table.get(hash).is_none_or(|found| found == known)));
        for n in 0..3_000_000_u64 {
            table.put(hasher.hash_one(n), false);
        }
        assert_eq!(size_of_val(&*table.buckets), 16 << 20);
        assert_eq!(table.get(hasher.hash_one("none")), None);
    }

    #[test]
    fn a_file_that_may_change_within_its_time_is_not_remembered() {
        let file = std::fs::File::open("Cargo.toml").unwrap();
        let remembered = Remembered::default();
        let stat = stat_of(&file).unwrap();
        let at = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds as u64);
        let last = stat.source.mtime.0.max(stat.ctime.0);
        remembered.put(&stat, true, at(last + 2));
        assert_eq!(remembered.get(&stat), None);
        assert!(!remembered.may_have(stat.key.inode().unwrap()));
        remembered.put(&stat, true, at(last + 3));
        assert!(remembered.may_have(stat.key.inode().unwrap()));
        assert_eq!(remembered.get(&stat), Some(true));
        let grown = seekable::source::SourceStat { size: stat.source.size + 1, ..stat.source };
        let others = [
            Stat { ctime: (stat.ctime.0, stat.ctime.1 ^ 1), ..stat },
            Stat { key: FileKey::Local(stat.key.device().unwrap(), 7), ..stat },
            Stat { source: grown, ..stat },
        ];
        assert!(others.iter().all(|other| remembered.get(other).is_none()));
    }
}
