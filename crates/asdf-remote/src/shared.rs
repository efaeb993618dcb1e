//! The state that all remote sources of a mount share.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use seekable::cache::Cache;
use seekable::error::Result;

use super::client::Client;
use super::disk::DiskCache;
use super::options::RemoteOptions;
use super::schedule::Schedule;
use super::times::ShownTimes;
use super::url::Address;

/// The client, the caches and the queue of requests.
#[derive(Debug)]
pub(super) struct RemoteState {
    pub(super) options: RemoteOptions,
    pub(super) client: Client,
    pub(super) cache: Arc<Cache>,
    pub(super) disk: Option<DiskCache>,
    pub(super) schedule: Schedule,
    pub(super) times: ShownTimes,
    /// Bytes that all listings hold.
    pub(super) listed: AtomicUsize,
    /// The origins of servers that were asked for several ranges; true if they send these in one reply.
    pub(super) send_several: Mutex<HashMap<String, bool>>,
    /// Lock of the thread that parses a page of a listing, which may take several times the page's memory.
    pub(super) parsing: Mutex<Parsing>,
}

/// Locked while a page of a listing is parsed.
#[derive(Debug, Default)]
pub(super) struct Parsing;

impl RemoteState {
    pub(super) fn new(options: RemoteOptions, cache: Arc<Cache>) -> Result<Self> {
        let disk = options.cache_dir.as_deref().map(|dir| DiskCache::open(dir, options.cache_size));
        Ok(Self {
            client: Client::new(&options)?,
            disk: disk.transpose()?,
            schedule: Schedule::new(options.max_requests),
            times: ShownTimes::default(),
            listed: AtomicUsize::new(0),
            send_several: Mutex::default(),
            parsing: Mutex::default(),
            options,
            cache,
        })
    }

    /// Returns a text that identifies an address, for digests and comparisons only.
    pub(super) fn identity(&self, address: &Address) -> String {
        match address {
            Address::Web(url) => url.identity(),
            Address::S3 { .. } => format!("{} {address}", self.client.buckets.server()),
        }
    }
}
