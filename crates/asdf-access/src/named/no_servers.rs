//! Stands in for the servers if the crate is built without the feature `remote`: addresses are refused.

use std::fmt;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result};
use seekable::source::{Place, Source, UrlOpener};

use crate::options::{NO_SERVERS, RemoteOptions};

fn refusal() -> Error {
    Error::new(Kind::Unsupported, NO_SERVERS)
}

/// An address, of which there is none.
#[derive(Debug)]
pub(super) enum Address {}

impl Address {
    /// True for the schemes that are addresses with the feature `remote`.
    pub(super) fn has_scheme(scheme: &str) -> bool {
        ["http", "https", "s3"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    }

    pub(super) fn parse(_: &str) -> Result<Self> {
        Err(refusal())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// No servers.
#[derive(Debug)]
pub struct Servers;

impl Servers {
    /// Creates nothing.
    pub fn new(_: &RemoteOptions, _: &Arc<Cache>) -> Self {
        Self
    }

    pub(super) fn place(&self, address: Address) -> Result<Arc<dyn Place>> {
        match address {}
    }
}

impl UrlOpener for Servers {
    fn open(&self, _: &str) -> Result<Arc<dyn Source>> {
        Err(refusal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_refused() {
        assert!(Address::has_scheme("S3") && !Address::has_scheme("file"));
        let error = Address::parse("https://host/x").unwrap_err();
        assert_eq!((error.kind(), error.message().as_ref()), (Kind::Unsupported, NO_SERVERS));
        let servers = Servers::new(&RemoteOptions::default(), &Arc::new(Cache::new(1 << 20)));
        assert_eq!(servers.open("https://host/x").unwrap_err().kind(), Kind::Unsupported);
    }
}
