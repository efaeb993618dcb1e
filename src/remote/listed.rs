//! Recent listings of directories, so that a stat of a listed name takes no request.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::ListedEntry;
use crate::source::Time;
use crate::sync::locked;

/// The time for which a listing is used.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of listings, and of names in each listing.
const LISTINGS: usize = 4;
const NAMES: usize = 100_000;

/// The state of a name in the listing of its directory.
#[derive(Clone, Debug)]
pub(super) struct ListedName {
    pub(super) is_directory: bool,
    pub(super) size: Option<u64>,
    pub(super) tag: Option<Box<str>>,
    pub(super) mtime: Option<Time>,
}

/// The last listings, by digests of directory and name.
#[derive(Debug, Default)]
pub(super) struct LastListings {
    keys: RandomState,
    listings: Mutex<VecDeque<(Instant, HashMap<u64, ListedName>)>>,
}

impl LastListings {
    /// Returns the digest of a name in a directory.
    pub(super) fn digest(&self, directory: &str, name: &str) -> u64 {
        self.keys.hash_one((directory, name))
    }

    /// Remembers the entries of a directory.
    pub(super) fn note(&self, directory: &str, entries: &[ListedEntry]) {
        let names = entries.iter().take(NAMES).map(|entry| {
            let ListedEntry { is_directory, size, mtime, .. } = *entry;
            let tag = entry.tag.as_deref().map(Into::into);
            (self.digest(directory, &entry.name), ListedName { is_directory, size, tag, mtime })
        });
        let listing = (Instant::now(), names.collect());
        let mut listings = locked(&self.listings);
        listings.truncate(LISTINGS - 1);
        listings.push_front(listing);
    }

    /// Returns the state of a name from the newest listing that contains the name.
    pub(super) fn get(&self, digest: u64) -> Option<ListedName> {
        let mut listings = locked(&self.listings);
        listings.retain(|(at, _)| at.elapsed() < FRESH);
        listings.iter().find_map(|(_, names)| names.get(&digest).cloned())
    }
}
