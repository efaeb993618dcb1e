//! `asdf-mount --index`: reads the blocks whose seek tables are kept, before anybody waits for it.
//!
//! A block is read from its start to its end, with all cores ahead of the reading; what that leaves is
//! what a mount's first read at the end leaves. A block whose table is kept already is passed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::progress::Progress;
use super::{Status, read_through};
use crate::cache::Cache;
use crate::cache::store::Store;
use crate::content::Content;
use crate::error::Result;
use crate::format::{self, Context};
use crate::log::one_line;
use crate::source::FileSource;

/// Decoded data that may be held, and for each thread: two of the largest pieces of work, as half of it
/// is for work in flight.
const BUDGET: u64 = 32 << 20;
const BUDGET_OF_THREAD: u64 = 20 << 20;

/// Makes the tables of the files and keeps them in `store`; the worst verdict.
///
/// Says on `complaints` what can't be read, a line a block or a file.
pub fn run(files: &[PathBuf], store: Store, complaints: &mut dyn Write) -> io::Result<Status> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let cache = Cache::new(BUDGET + BUDGET_OF_THREAD * threads.min(16)).with_store(store);
    let context = Context { cache: Arc::new(cache) };
    let mut worst = Status::Sound;
    for file in files {
        let verdict = match index(file, &context, complaints)? {
            Ok(verdict) => verdict,
            Err(error) => {
                writeln!(complaints, "asdf-mount: {}", one_line(&error.of(file).to_string()))?;
                Status::Unreadable
            }
        };
        worst = worst.max(verdict);
    }
    context.cache.store().settle();
    if let Some(error) = context.cache.store().trouble() {
        writeln!(complaints, "asdf-mount: {}", one_line(&error.to_string()))?;
        worst = worst.max(Status::Damaged);
    }
    Ok(worst)
}

/// Reads the blocks of a file that have tables; the outer error is of `complaints`.
fn index(file: &Path, context: &Context, complaints: &mut dyn Write) -> io::Result<Result<Status>> {
    let opened = FileSource::open(file).and_then(|source| format::open(Arc::new(source), context));
    let (container, count) = match opened.and_then(|container| Ok((container.block_count()?, container))) {
        Ok((count, container)) => (container, count),
        Err(error) => return Ok(Err(error)),
    };
    let content = |n| container.block(n).and_then(|block| block.content);
    let wanted = |content: &Arc<dyn Content>| content.costs_a_pass();
    let total = (0..count).filter_map(|n| content(n).ok().filter(wanted)).map(|content| content.len()).sum();
    let progress = Progress::new(file, total);
    let mut verdict = Status::Sound;
    for n in 0..count {
        let read = match content(n) {
            Ok(content) if wanted(&content) => read_through(&*content, &progress),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        if let Err(error) | Ok(Some(error)) = read {
            verdict = Status::Damaged;
            // A content that can't be had at all says itself which block it is.
            let said = error.message().starts_with(&format!("block {n}: "));
            let error = if said { error } else { error.within(format!("block {n}")) };
            progress
                .hide(|| writeln!(complaints, "asdf-mount: {}", one_line(&error.of(file).to_string())))?;
        }
    }
    Ok(Ok(verdict))
}
