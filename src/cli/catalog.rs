//! `--catalog`: its options.

use std::ffi::OsString;
use std::io::{BufWriter, stdout};
use std::path::PathBuf;

use clap::Args;

use super::{DESCRIBE, any_path};
use crate::catalog::{self, Request};
use crate::error::Result;
use crate::exit;
use crate::options::{self, Options};

/// The options of the catalogue.
#[derive(Debug, Args)]
pub(super) struct Catalog {
    /// Describe each FILE, or each file of a known format in a directory, in a line of JSON, without mounting
    ///
    /// The fields are uri, size, mtime, etag, format, version, block_count, blocks, array_count, arrays and tree. A
    /// file that can't be read has only uri and error.
    #[arg(long, help_heading = DESCRIBE, conflicts_with_all = ["foreground", "read_only", "unmount", "check", "index", "refs", "edit", "set_tree", "recover", "log_file"])]
    pub(super) catalog: bool,

    /// With --catalog: also describe the files listed in LIST, one name or address per line ('-' reads standard input)
    #[arg(long, help_heading = DESCRIBE, value_name = "LIST", requires = "catalog", value_parser = any_path())]
    pub(super) files_from: Option<PathBuf>,

    /// With --files-from: names in LIST end with NUL, as find -print0 writes them
    #[arg(short = '0', long, help_heading = DESCRIBE, requires = "files_from")]
    null: bool,

    /// With --catalog: copy the lines of files with unchanged size and time, or ETag, from CATALOG, an older output
    #[arg(long, help_heading = DESCRIBE, value_name = "CATALOG", requires = "catalog", value_parser = any_path())]
    pub(super) since: Option<PathBuf>,
}

impl Catalog {
    /// Writes the catalogue to stdout.
    pub(super) fn run(self, paths: Vec<PathBuf>, lists: &[OsString], quiet: bool) -> Result<u8> {
        options::refuse_others(lists, &options::REMOTE, "--catalog")?;
        let remote = Options::parse(lists)?.remote;
        let Self { files_from: list, null: has_nuls, since, .. } = self;
        let mut out = BufWriter::new(stdout().lock());
        catalog::run(&Request { paths, list, has_nuls, since, quiet, remote }, &mut out)?;
        Ok(exit::OK)
    }
}
