//! Objects on servers as sources: `https://host/x.asdf`, `s3://bucket/key`, and directories of them.
//!
//! A location on a server is an [`Address`] and a [`Trust`]. Everything else is here:
//!
//! | for | call |
//! |---|---|
//! | the state of a mount | [`Remote::new`], with the mount's [`Cache`] |
//! | threads for read-ahead and requests | [`Remote::start_threads`], once the process has forked for the last time |
//! | a source on the command line | [`Address::has_scheme`], [`Address::parse`], [`RemotePlace`]; [`Trust::Mounted`] |
//! | a URL named by a tree | [`Remote::open_named`], [`Remote::open_with_others`]; [`Trust::Named`] |
//! | `stat`, `open`, `list` of a location | [`Remote::stat`], [`Remote::open`], [`Remote::list`] |
//! | a name in a directory | [`Remote::child`], or [`ListedEntry::address`] of a listing |
//! | statistics | [`Remote::stats`] |
//!
//! `stat` and `open` of an object are one request together: the first asks for the first block, and the
//! second uses it while it is fresh ([`RemoteOptions::stat_lifetime`]). A directory of a web server ends with
//! a slash. A bucket may have both an object `a` and a directory `a/`; the name of the directory is then
//! `a%-`.
//!
//! Threads that answer the kernel must not call this module, as any call may wait for a server, but no
//! longer than [`RemoteOptions::read_timeout`]. Errors: EACCES (401, 403, address not allowed), ENOENT (404),
//! ESTALE (the object has changed), EIO.
//!
//! # How an object is read
//!
//! The first request is a GET of the first 256 KiB; the size is in its `Content-Range`. If the cache on disk
//! has them, the server sends them only if it has another version. A block of 64 KiB is looked for in
//! memory (the cache of the mount), among the requests of other readers, on disk, and then on the server. For
//! a reader that goes on from block to block, later blocks are read ahead in requests of 8 MiB.
//!
//! Each request names the version by If-Match, if the ETag is strong. Each reply is compared with the version
//! that was opened: ETag and size, and without a strong ETag the date, too. `proof` says when this is enough.

mod address;
mod beside;
mod block;
mod cancel;
mod client;
pub mod date;
mod disk;
mod fetch;
mod listed;
pub mod listing;
mod login;
pub mod multipart;
mod object;
mod options;
mod place;
mod proof;
mod retry;
mod s3;
mod schedule;
mod shared;
mod source;
mod stats;
mod streams;
#[cfg(test)]
mod tests;
mod times;
mod tls;
mod url;
mod version;

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use lru::LruCache;

use listed::{LastListings, ListedName, ListedNames};
use object::{Object, Opened};
use proof::Proof;
use seekable::cache::Cache;
use seekable::error::Result;
use seekable::source::{Revision, Source, SourceStat, Time};
use seekable::sync::locked;
use shared::RemoteState;
use version::ObjectVersion;

pub use client::Trust;
pub use listing::{ListedEntry, Listing};
pub use options::RemoteOptions;
pub use place::RemotePlace;
pub use source::RemoteSource;
pub use stats::Stats;
pub use url::{Address, Url};
pub use version::ContentRange;

/// Maximum number of objects that are remembered.
const KNOWN: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");

/// The state of an address on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStat {
    /// An object.
    File(SourceStat),
    /// A directory.
    Directory,
}

/// The remote sources of a mount: client, caches, requests in flight.
#[derive(Debug)]
pub struct Remote {
    shared: Arc<RemoteState>,
    /// The objects that were opened last.
    known: Mutex<LruCache<(String, Trust), Arc<Object>>>,
    listed: LastListings,
}

impl Remote {
    /// Creates the state of a mount. Sends no request and starts no thread.
    ///
    /// # Errors
    /// An option is not valid, or the directory of the cache can't be used.
    pub fn new(options: RemoteOptions, cache: Arc<Cache>) -> Result<Self> {
        let shared = Arc::new(RemoteState::new(options, cache)?);
        Ok(Self { shared, known: Mutex::new(LruCache::new(KNOWN)), listed: LastListings::default() })
    }

    /// Allows threads, which do not survive a fork. Before, readers send their requests themselves, and
    /// nothing is read ahead.
    pub fn start_threads(&self) {
        self.shared.schedule.start_threads();
    }

    /// Fails with EACCES if a tree must not name the address. An address behind a name is checked when it is
    /// asked.
    pub fn may_be_named(&self, address: &Address) -> Result<()> {
        self.shared.client.may_be_named(address).map_err(object::of(address))
    }

    /// Returns the state of an address.
    pub fn stat(&self, address: &Address, trust: Trust) -> Result<RemoteStat> {
        if address.is_directory() {
            return Ok(RemoteStat::Directory);
        }
        match self.object(address, trust) {
            Ok(Some(object)) => Ok(RemoteStat::File(object.stat())),
            Ok(None) => Ok(RemoteStat::Directory),
            Err(error) if error.errno() == libc::ENOENT && matches!(address, Address::S3 { .. }) => {
                if listing::has_keys(&self.shared, &address.as_directory(), trust)? {
                    Ok(RemoteStat::Directory)
                } else {
                    Err(error)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the current version of an object.
    pub fn open(&self, address: &Address, trust: Trust) -> Result<Arc<dyn Source>> {
        match self.object(address, trust)? {
            Some(object) => Ok(Arc::new(RemoteSource { object, surroundings: None })),
            None => Err(seekable::error::errno(libc::EISDIR).of(address.to_string())),
        }
    }

    /// Returns the current version of an object, from a request for one byte.
    pub fn revision(&self, address: &Address, trust: Trust) -> Result<Revision> {
        object::ask_version(&self.shared, address, trust, None).map(|version| version.revision())
    }

    /// Lists a directory, page by page as the iterator goes on.
    pub fn list(&self, directory: &Address, trust: Trust) -> Listing {
        Listing::new(self.shared.clone(), directory, trust)
    }

    /// Returns the names in a directory; true for those of directories. Remembers their states for a moment.
    fn names(&self, directory: &Address, trust: Trust) -> Result<Vec<(String, bool)>> {
        let mut listing = self.list(directory, trust);
        let identity = self.shared.identity(&directory.as_directory());
        let mut noted = ListedNames::new();
        let mut names = Vec::new();
        while let Some(entry) = listing.next() {
            let entry = entry?;
            listing.keep(&entry.name)?;
            if !LastListings::is_full(&noted) {
                noted.insert(self.listed.digest(&identity, &entry.name), self.listed_name(&entry));
            }
            names.push((entry.name, entry.is_directory));
        }
        self.listed.note(noted);
        Ok(names)
    }

    fn listed_name(&self, entry: &ListedEntry) -> ListedName {
        let ListedEntry { address, is_directory, size, tag, mtime, .. } = entry;
        let version = ObjectVersion { etag: tag.clone(), last_modified: None, size: size.unwrap_or(0) };
        let is_proven =
            version.strong().is_some_and(|etag| Proof::of_listed(etag, mtime.map(|mtime| mtime.0)));
        let identity = self.shared.identity(address);
        let mtime =
            if *is_directory { Time::default() } else { self.shared.times.of_listing(&identity, *mtime) };
        let stat = SourceStat { mtime, ..object::stat_of(&self.shared, address, &version) };
        ListedName { is_directory: *is_directory, stat, is_exact: size.is_some() && is_proven }
    }

    /// Returns a number for a name in a directory, for its state in the last listing.
    fn number(&self, directory: &Address, name: &OsStr) -> u64 {
        let name = name.to_str().unwrap_or_default();
        self.listed.digest(&self.shared.identity(&directory.as_directory()), name)
    }

    /// Returns the address of a name in a directory; `None` if no name of a listing is like it. The address
    /// of a directory need not end with a slash.
    pub fn child(&self, directory: &Address, name: &OsStr) -> Option<Address> {
        listing::child(directory, name)
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        self.shared.client.counters.now()
    }

    /// Returns the object at an address; `None` if it is a directory of a web server.
    fn object(&self, address: &Address, trust: Trust) -> Result<Option<Arc<Object>>> {
        let key = (self.shared.identity(address), trust);
        let known = locked(&self.known).get(&key).cloned();
        if let Some(object) = &known {
            // Asks the server if its last reply is old.
            object.stat();
            if object.is_current() {
                return Ok(known);
            }
        }
        match Opened::ask(&self.shared, address, trust)? {
            Opened::Directory => Ok(None),
            Opened::Object(opened) if known.as_ref().is_some_and(|known| known.is_still(&opened)) => {
                Ok(known)
            }
            Opened::Object(opened) => {
                let object = Arc::new(Object::new(self.shared.clone(), address, trust, opened));
                locked(&self.known).put(key, object.clone());
                Ok(Some(object))
            }
        }
    }
}
