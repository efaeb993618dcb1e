//! The options of remote sources.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The server that gets the user's token: the first one that is asked with these options or copies of them.
#[derive(Clone, Debug, Default)]
pub struct TokenServer(Arc<OnceLock<String>>);

impl TokenServer {
    /// Returns the server, which is `origin` if none was asked before.
    pub(super) fn or(&self, origin: &str) -> &str {
        self.0.get_or_init(|| origin.to_owned())
    }
}

/// It is no setting, so options that differ only in it are equal.
impl PartialEq for TokenServer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TokenServer {}

/// The options of all remote sources of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// `-o anonymous`: never signs requests to S3.
    pub anonymous: bool,
    /// `-o ca-bundle=FILE`: certificates in PEM that are trusted besides the system's.
    pub ca_bundle: Option<PathBuf>,
    /// `-o endpoint=URL`: the S3 server to use instead of AWS. Buckets are part of the path there. The default
    /// is that of the user's settings.
    pub endpoint: Option<String>,
    /// `-o region=NAME`: the region of S3 buckets. The default is that of the user's settings, then
    /// `us-east-1`.
    pub region: Option<String>,
    /// `-o read-timeout=SECONDS`: the time after which a read fails with EIO.
    pub read_timeout: Duration,
    /// `-o requester-pays`: requests to S3 agree that the user pays for them.
    pub requester_pays: bool,
    /// `-o token-file=FILE`: the token that is sent to the web server.
    pub token_file: Option<PathBuf>,
    /// The server that gets the token.
    pub token_server: TokenServer,
    /// The directory of `-o remote-cache=DIR,SIZE`.
    pub cache_dir: Option<PathBuf>,
    /// The size of `-o remote-cache=DIR,SIZE`, in bytes.
    pub cache_size: u64,
    /// `-o external=http`: files on servers that a tree names are opened.
    pub follow: bool,
    /// Maximum number of requests in flight, and of idle connections to a server.
    pub max_requests: usize,
    /// The time for which a server's last reply about an object counts as its current state.
    pub stat_lifetime: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            anonymous: false,
            ca_bundle: None,
            endpoint: None,
            region: None,
            read_timeout: Duration::from_secs(30),
            requester_pays: false,
            token_file: None,
            token_server: TokenServer::default(),
            cache_dir: None,
            cache_size: 1 << 30,
            follow: false,
            max_requests: 16,
            stat_lifetime: Duration::from_secs(1),
        }
    }
}
