//! Stands in for the options for servers if the crate is built without the feature `remote`: those with a value are
//! refused, and the others have no effect.

use std::path::PathBuf;

use seekable::error::{Error, Kind, Result};

use super::NO_SERVERS;

/// The options of all remote sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteOptions {
    /// `-o anonymous`
    pub anonymous: bool,
    /// `-o requester-pays`
    pub requester_pays: bool,
    /// `-o ca-bundle=FILE`
    pub ca_bundle: Option<PathBuf>,
    /// `-o token-file=FILE`
    pub token_file: Option<PathBuf>,
    /// `-o remote-cache=DIR`
    pub cache_dir: Option<PathBuf>,
    /// `-o external=http`
    pub follow: bool,
    /// Maximum number of requests in flight.
    pub max_requests: usize,
}

pub(super) fn set(_: &mut RemoteOptions, name: &str, _: &[u8]) -> Result<()> {
    Err(Error::new(Kind::Usage, format!("-o {name}: {NO_SERVERS}")))
}

pub(super) fn take_cache_size(options: &mut RemoteOptions, value: &[u8]) -> Result<()> {
    set(options, "remote-cache", value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_for_servers_is_refused() {
        let mut options = RemoteOptions::default();
        for refused in [set(&mut options, "region", b"eu-west-1"), take_cache_size(&mut options, b"2G")] {
            let error = refused.unwrap_err();
            assert!(error.kind() == Kind::Usage && error.message().contains(NO_SERVERS), "{error}");
        }
        assert_eq!(options, RemoteOptions::default());
    }
}
