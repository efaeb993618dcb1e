//! Recent listings of directories, so that a stat of a listed name takes no request.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use seekable::source::SourceStat;
use seekable::sync::locked;

/// The time for which a listing is used.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of listings, and of names in each listing.
const LISTINGS: usize = 4;
const NAMES: usize = 100_000;

/// The state of a name in the listing of its directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedName {
    pub(super) is_directory: bool,
    /// The state of a file; exact only if `is_exact` is true.
    pub(super) stat: SourceStat,
    pub(super) is_exact: bool,
}

/// The names of a directory that is being listed, by digests of directory and name.
pub(super) type ListedNames = HashMap<u64, ListedName>;

/// The last listings.
#[derive(Debug, Default)]
pub(super) struct LastListings {
    keys: RandomState,
    listings: Mutex<VecDeque<(Instant, ListedNames)>>,
}

impl LastListings {
    /// Returns the digest of a name in a directory.
    pub(super) fn digest(&self, directory: &str, name: &str) -> u64 {
        self.keys.hash_one((directory, name))
    }

    /// True if no more names of a listing are remembered.
    pub(super) fn is_full(names: &ListedNames) -> bool {
        names.len() >= NAMES
    }

    /// Remembers the names of a directory.
    pub(super) fn note(&self, names: ListedNames) {
        let mut listings = locked(&self.listings);
        listings.truncate(LISTINGS - 1);
        listings.push_front((Instant::now(), names));
    }

    /// Returns the state of a name from the newest listing that contains the name.
    pub(super) fn get(&self, digest: u64) -> Option<ListedName> {
        let mut listings = locked(&self.listings);
        listings.retain(|(at, _)| at.elapsed() < FRESH);
        listings.iter().find_map(|(_, names)| names.get(&digest).copied())
    }
}
