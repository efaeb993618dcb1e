//! `asdf-mount --catalog`: describes each of many files in a line of JSON. `docs/scale.md` has the fields.
//!
//! | module | what it does |
//! |---|---|
//! | [`line`](mod@line) | describes one file |
//! | [`names`] | reads the names of files from a file |
//! | [`since`] | an older catalogue, from which the lines of unchanged files are copied |

mod line;
mod names;
mod since;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use asdf_access::CheckProgress;
use asdf_access::named::Servers;
use asdf_access::options::RemoteOptions;
use asdf_file::container::Context;
use seekable::cache::Cache;
use seekable::error::Result;
use since::Since;

use crate::files::{FilesToRead, Found, parallel};
use crate::log::complain;
use crate::progress::Progress;

/// Cache budget of a file, and that for data from servers, in bytes.
const CACHE_BUDGET: u64 = 4 << 20;
const SERVERS_BUDGET: u64 = 128 << 20;

/// The files to describe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Files to describe, and directories to search for files of a known format; paths or addresses.
    pub paths: Vec<PathBuf>,
    /// A file with further names; `-` for standard input.
    pub list: Option<PathBuf>,
    /// True if the names in the list end with NUL instead of a line break.
    pub has_nuls: bool,
    /// An older catalogue: the lines of unchanged files are copied from it.
    pub since: Option<PathBuf>,
    /// The number of files to work on at once, if given.
    pub jobs: Option<usize>,
    /// True to show neither progress nor a summary.
    pub quiet: bool,
    /// The options for files on servers.
    pub remote: RemoteOptions,
}

#[derive(Default)]
struct Counts {
    files: u64,
    copied: u64,
    errors: u64,
}

/// Writes a line for each file to `out`, in the order of the names. A file that can't be read has a line with
/// the error. Returns true if all files could be read.
///
/// # Errors
/// The list of files or the older catalogue can't be read, or the lines can't be written.
pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<bool> {
    let list = request.list.as_deref().map(|list| names::open(list, request.has_nuls)).transpose()?;
    let since = request.since.as_deref().map(Since::read).transpose()?;
    let progress = Progress::new(request.quiet);
    let mut counts = Counts::default();
    let mut failed = None;
    let named = request.paths.iter().cloned().map(Ok).chain(list.into_iter().flatten());
    // The names end at the first error of the list.
    let named = named.map_while(|name| match name {
        Ok(name) => Some(name),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let mut remote = request.remote.clone();
    remote.max_requests = remote.max_requests.max(request.jobs.unwrap_or(0));
    let servers = Servers::new(&remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
    // A line of the older catalogue spares the request for an unchanged file.
    let files = FilesToRead::new(named, &servers).by_slash();
    let describe = |found: Found| {
        let cache = Arc::new(Cache::with_threads(CACHE_BUDGET, 1));
        let context = Context { spares_requests: true, ..Context::new(cache) };
        line::of(found, since.as_ref(), &context)
    };
    let written = parallel::each(files, parallel::threads_for(request.jobs), &describe, |line| {
        let Some(line) = line else { return Ok(()) };
        counts.files += 1;
        counts.copied += u64::from(line.is_copy);
        counts.errors += u64::from(line.is_error);
        progress.file(&line.path, 0);
        progress.add(line.text.len() as u64);
        progress.hide_if_shared(|| out.write_all(&line.text))
    });
    progress.end();
    match written.and_then(|()| out.flush()) {
        // A reader that closes the pipe early, such as head, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(counts.errors == 0),
        written => written?,
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if !request.quiet {
        let Counts { files: count, copied, errors } = &counts;
        let plural = if *count == 1 { "" } else { "s" };
        complain(format_args!("{count} file{plural}: {copied} unchanged, {errors} can't be read"));
    }
    Ok(counts.errors == 0)
}

#[cfg(test)]
mod tests;
