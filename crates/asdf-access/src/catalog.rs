//! The catalogue: a line of JSON for each of many files, as `asdf-mount --catalog` writes them. `docs/scale.md` has the
//! fields.
//!
//! | module | what it does |
//! |---|---|
//! | [`line`](mod@line) | describes one file |
//! | [`since`] | an older catalogue, from which the lines of unchanged files are copied |

mod line;
mod since;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use asdf_file::container::{Cone, Context};
use seekable::cache::Cache;
use seekable::error::Result;

use crate::files::{FilesToRead, Found, parallel};
use crate::named::Servers;
use crate::options::RemoteOptions;
pub use line::{Line, line};
use since::Since;

/// Cache budget of a file, and that for data from servers, in bytes.
const CACHE_BUDGET: u64 = 4 << 20;
const SERVERS_BUDGET: u64 = 128 << 20;

/// How files are described.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// An older catalogue: the lines of unchanged files are copied from it.
    pub since: Option<PathBuf>,
    /// If it is given, files without an image that touches this cone have no line, and `since` is not used.
    pub near: Option<Cone>,
    /// The number of files to work on at once, if given.
    pub jobs: Option<usize>,
    /// The options for files on servers.
    pub remote: RemoteOptions,
}

/// Passes a line for each file to `take`, in the order of the names. `named` are paths or addresses: files to describe,
/// and directories to search for files of a known format. A file that can't be read has a line with the error.
///
/// # Errors
/// The older catalogue can't be read; or as of `take`. Files that were not begun are then left out.
pub fn each(
    named: impl IntoIterator<Item = PathBuf>,
    request: &Request,
    take: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let since = request.since.as_deref().filter(|_| request.near.is_none());
    let since = since.map(Since::read).transpose()?;
    let mut remote = request.remote.clone();
    remote.max_requests = remote.max_requests.max(request.jobs.unwrap_or(0));
    let servers = Servers::new(&remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
    // A line of the older catalogue spares the request for an unchanged file.
    let files = FilesToRead::new(named.into_iter(), &servers).by_slash();
    let describe = |found: Found| {
        let cache = Arc::new(Cache::with_threads(CACHE_BUDGET, 1));
        let context = Context { spares_requests: true, ..Context::new(cache) };
        line::of(found, since.as_ref(), request.near.as_ref(), &context)
    };
    parallel::each(files, parallel::threads_for(request.jobs), &describe, |line| match line {
        Some(line) => take(line),
        None => Ok(()),
    })
}
