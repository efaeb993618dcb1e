//! The servers of the named sources.

use std::sync::{Arc, OnceLock};

use asdf_remote::{Remote, RemoteOptions, RemotePlace};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seekable::cache::Cache;
use seekable::error::Result;
use seekable::source::{Place, Source, UrlOpener};

pub(super) use asdf_remote::Address;

/// The servers of the named sources. Nothing is created for them until an address is named.
#[derive(Debug)]
pub struct Servers {
    options: RemoteOptions,
    cache: Arc<Cache>,
    remote: OnceLock<Arc<Remote>>,
}

impl Servers {
    /// Creates the servers. The process must not fork afterwards, because requests start threads.
    pub fn new(options: &RemoteOptions, cache: &Arc<Cache>) -> Self {
        Self { options: options.clone(), cache: cache.clone(), remote: OnceLock::new() }
    }

    fn remote(&self) -> Result<&Arc<Remote>> {
        if let Some(remote) = self.remote.get() {
            return Ok(remote);
        }
        // Passwords and signatures must not get into a core dump.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let remote = Remote::new(self.options.clone(), self.cache.clone())?;
        remote.start_threads();
        Ok(self.remote.get_or_init(|| Arc::new(remote)))
    }

    /// Returns the place at an address. Sends no request.
    pub(super) fn place(&self, address: Address) -> Result<Arc<dyn Place>> {
        Ok(Arc::new(RemotePlace::new(self.remote()?.clone(), address)))
    }
}

impl UrlOpener for Servers {
    fn open(&self, url: &str) -> Result<Arc<dyn Source>> {
        self.remote()?.open_named(url)
    }
}
