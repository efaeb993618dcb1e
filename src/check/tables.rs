//! `asdf-mount --index`: builds seek tables in advance, so that no reader has to wait for them.
//!
//! Each block that can have a table is read from start to end, with read-ahead on all cores. The result is
//! the table that a mount makes when a block is first read to its end. A block with an existing table is
//! skipped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::CheckProgress;
use asdf_access::files::{FilesToRead, Found};
use asdf_access::options::RemoteOptions;
use asdf_file::container::Context;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::cache::store::Store;
use seekable::content::{Content, read_through};
use seekable::error::{Error, Kind, one_line};

use super::Status;
use super::summary::Summary;
use crate::progress::Progress;

/// Cache budget in bytes, and the addition for each thread: twice the largest piece of work, as read-ahead
/// takes at most half of the budget.
const BUDGET: u64 = 32 << 20;
const BUDGET_OF_THREAD: u64 = 20 << 20;

/// Builds the seek tables of the files, including files in directories, in `store`. Returns the worst
/// verdict.
///
/// Writes a line to `complaints` for each block or file that can't be read, and a summary unless `quiet`.
pub(crate) fn run(
    files: &[PathBuf],
    store: Store,
    quiet: bool,
    complaints: &mut dyn Write,
) -> io::Result<Status> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let cache = Cache::new(BUDGET + BUDGET_OF_THREAD * threads.min(16)).with_store(store.proving_md5());
    let context = Context::new(Arc::new(cache));
    let servers = super::servers(&RemoteOptions::default());
    let files = FilesToRead::new(files.iter().cloned(), &servers);
    let progress = Progress::new(quiet);
    let summary = Summary { indexed: Some(0), ..Summary::default() };
    let mut run = Indexing { context: &context, progress: &progress, complaints, summary };
    for found in files {
        run.file(&found)?;
    }
    let Indexing { summary, complaints, .. } = run;
    progress.end();
    context.cache.store().wait_for_writes();
    let mut status = summary.status();
    if let Some(error) = context.cache.store().error() {
        writeln!(complaints, "asdf-mount: {}", one_line(&error.to_string()))?;
        status = status.max(Status::Damaged);
    }
    if !quiet {
        writeln!(complaints, "{summary}")?;
    }
    Ok(status)
}

/// The state of a run of `--index`.
struct Indexing<'a> {
    context: &'a Context,
    progress: &'a Progress,
    complaints: &'a mut dyn Write,
    summary: Summary,
}

impl Indexing<'_> {
    /// Builds the seek tables of a file: reads each block that needs a seek table but has none, up to the
    /// block's end.
    fn file(&mut self, found: &Found) -> io::Result<()> {
        let file = found.label();
        let opened = found.open().and_then(|source| format::open(source, self.context));
        let (container, count) = match opened.and_then(|container| Ok((container.block_count()?, container)))
        {
            Ok((count, container)) => (container, count),
            Err(error) if found.is_passed_over(&error) => {
                self.summary.passed_over += 1;
                return Ok(());
            }
            Err(error) => return self.unreadable(file, error),
        };
        let content_of = |n| container.block(n).and_then(|block| block.content);
        let wanted = |content: &Arc<dyn Content>| content.costs_a_pass();
        let total =
            (0..count).filter_map(|n| content_of(n).ok().filter(wanted)).map(|content| content.len()).sum();
        self.progress.file(file, total);
        let mut status = Status::Sound;
        for n in 0..count {
            let read = match content_of(n) {
                Ok(content) if wanted(&content) => {
                    read_through(&*content, &|bytes| self.progress.add(bytes), &mut |_, _| {})
                }
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            if let Err(error) | Ok(Some(error)) = read {
                status = match (error.kind(), status) {
                    (Kind::Unsupported, Status::Sound) => Status::Unreadable,
                    (Kind::Unsupported, status) => status,
                    _ => Status::Damaged,
                };
                self.complain(&error.in_block(n as u64).of(file))?;
            } else if let Some(indexed) = &mut self.summary.indexed {
                *indexed += 1;
            }
        }
        self.summary.add(status, count);
        Ok(())
    }

    fn unreadable(&mut self, path: &Path, error: Error) -> io::Result<()> {
        self.summary.add(Status::Unreadable, 0);
        self.complain(&error.of(path))
    }

    fn complain(&mut self, error: &Error) -> io::Result<()> {
        let line = one_line(&error.to_string());
        self.progress.hide(|| writeln!(self.complaints, "asdf-mount: {line}"))
    }
}
