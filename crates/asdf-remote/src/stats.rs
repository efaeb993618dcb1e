//! Statistics of the requests of a mount.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use asdf_file::time::instant;
use seekable::error::{Error, printable};
use seekable::sync::locked;

/// Counters of all remote sources of a mount.
#[derive(Debug, Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    pub(super) memory_hits: AtomicU64,
    pub(super) disk_hits: AtomicU64,
    errors: AtomicU64,
    last_error: Mutex<Option<(SystemTime, String)>>,
}

/// The statistics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests sent, including retries and redirects.
    pub requests: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Blocks found in memory.
    pub memory_hits: u64,
    /// Blocks found in the cache on disk.
    pub disk_hits: u64,
    /// Failed requests, including those that were retried.
    pub errors: u64,
    /// Time and message of the last failed request. The message contains no secrets.
    pub last_error: Option<(SystemTime, String)>,
}

impl Stats {
    /// Returns the statistics as YAML.
    pub(super) fn yaml(&self) -> Vec<u8> {
        let Self { requests, bytes, retries, memory_hits, disk_hits, errors, last_error } = self;
        let mut text = format!(
            "requests: {requests}\nbytes: {bytes}\nretries: {retries}\nmemory_hits: {memory_hits}\n\
             disk_hits: {disk_hits}\nerrors: {errors}\n"
        );
        match last_error {
            Some((at, message)) => {
                let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let time = instant((since.as_secs().cast_signed(), 0));
                // JSON strings are valid in YAML.
                let message = serde_json::Value::from(printable(message));
                text += &format!("last_error:\n  time: {time}\n  message: {message}\n");
            }
            None => text += "last_error: null\n",
        }
        text.into_bytes()
    }
}

impl Counters {
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *locked(&self.last_error) = Some((SystemTime::now(), error.to_string()));
    }

    pub(super) fn now(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            requests: get(&self.requests),
            bytes: get(&self.bytes),
            retries: get(&self.retries),
            memory_hits: get(&self.memory_hits),
            disk_hits: get(&self.disk_hits),
            errors: get(&self.errors),
            last_error: locked(&self.last_error).clone(),
        }
    }
}
