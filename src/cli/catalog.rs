//! `--catalog`: its options.

use std::io::{BufWriter, stdout};
use std::path::PathBuf;

use asdf_access::options::Options;
use clap::Args;
use seekable::error::Result;

use super::action::ACTION;
use super::jobs::Jobs;
use super::{DESCRIBE, any_path, usage};
use crate::catalog::{self, Request};
use crate::exit;

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
    #[arg(long, help_heading = DESCRIBE, value_name = "CATALOG", value_parser = any_path())]
    pub(super) since: Option<PathBuf>,
}

impl Catalog {
    /// Writes the catalogue to stdout.
    pub(super) fn run(self, paths: Vec<PathBuf>, options: Options, jobs: Jobs, quiet: bool) -> Result<u8> {
        if paths.is_empty() && self.files_from.is_none() {
            return Err(usage("--catalog needs at least one FILE or directory, or --files-from"));
        }
        let request = Request {
            paths,
            list: self.files_from,
            has_nuls: self.null,
            since: self.since,
            jobs: jobs.given(),
            quiet,
            remote: options.remote,
        };
        let all_read = catalog::run(&request, &mut BufWriter::new(stdout().lock()))?;
        Ok(if all_read { exit::OK } else { exit::UNREADABLE })
    }
}
