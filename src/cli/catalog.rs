//! `--catalog`: its options, its progress and its summary.
//!
//! - `names`: reads the names of files from a file

mod names;

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use asdf_access::CheckProgress;
use asdf_access::catalog::{self, Request};
use asdf_access::options::Options;
use clap::Args;
use seekable::error::{Kind, Result};

use super::action::ACTION;
use super::jobs::Jobs;
use super::position::Near;
use super::{DESCRIBE, any_path, usage};
use crate::progress::Progress;
use crate::{exit, log};

/// The options of the catalogue.
#[derive(Debug, Args)]
pub(super) struct Catalog {
    /// Describe each FILE, or each file of a known format in a directory, in a line of JSON, without mounting
    ///
    /// The fields are uri, size, mtime, etag, format, version, block_count, blocks, array_count, arrays, footprints and
    /// tree. A file that can't be read has only uri and error.
    #[arg(long, help_heading = DESCRIBE, group = ACTION)]
    catalog: bool,

    /// With --catalog: also describe the files listed in LIST, one name or address per line ('-' reads standard input)
    #[arg(long, help_heading = DESCRIBE, value_name = "LIST", value_parser = any_path())]
    pub(super) files_from: Option<PathBuf>,

    /// With --files-from: names in LIST end with NUL, as find -print0 writes them
    #[arg(short = '0', long, help_heading = DESCRIBE, requires = "files_from")]
    null: bool,

    /// With --catalog: copy the lines of files with unchanged size and time, or ETag, from CATALOG, an older output
    #[arg(long, help_heading = DESCRIBE, value_name = "CATALOG", value_parser = any_path(), conflicts_with = "near")]
    pub(super) since: Option<PathBuf>,
}

impl Catalog {
    /// Writes the catalogue to stdout.
    pub(super) fn run(
        self,
        paths: Vec<PathBuf>,
        options: Options,
        near: Near,
        jobs: Jobs,
        quiet: bool,
    ) -> Result<u8> {
        if paths.is_empty() && self.files_from.is_none() {
            return Err(usage("--catalog needs at least one FILE or directory, or --files-from"));
        }
        let list = self.files_from.as_deref().map(|list| names::open(list, self.null)).transpose()?;
        let mut failed = None;
        let named = paths.into_iter().map(Ok).chain(list.into_iter().flatten());
        // The names end at the first error of the list.
        let named = named.map_while(|name| match name {
            Ok(name) => Some(name),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        let request =
            Request { since: self.since, near: near.near, jobs: jobs.given(), remote: options.remote };
        let mut counts = Counts::default();
        let written = write(named, &request, quiet, &mut counts);
        let status = if counts.errors == 0 { exit::OK } else { exit::UNREADABLE };
        match written {
            // A reader that closes the pipe early, such as head, is no failure.
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => return Ok(status),
            written => written?,
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !quiet {
            let Counts { files: count, copied, errors } = counts;
            let plural = if count == 1 { "" } else { "s" };
            log::complain(format_args!("{count} file{plural}: {copied} unchanged, {errors} can't be read"));
        }
        Ok(status)
    }
}

#[derive(Default)]
struct Counts {
    files: u64,
    copied: u64,
    errors: u64,
}

/// Writes the lines to stdout, and shows the progress.
fn write(
    named: impl Iterator<Item = PathBuf>,
    request: &Request,
    quiet: bool,
    counts: &mut Counts,
) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let progress = Progress::new(quiet);
    let written = catalog::each(named, request, &mut |mut line| {
        counts.files += 1;
        counts.copied += u64::from(line.is_copy);
        counts.errors += u64::from(line.is_error);
        line.text.push(b'\n');
        progress.file(&line.path, 0);
        progress.add(line.text.len() as u64);
        Ok(progress.hide_if_shared(|| out.write_all(&line.text))?)
    });
    progress.end();
    written?;
    Ok(out.flush()?)
}
