//! The arguments of `--ls`, `--cat` and `--extract`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::action::ACTION;
use super::{any_path, complain, usage};
use crate::error::Result;
use crate::exit;
use crate::look::{Extraction, ListingForm, Look, Range};
use crate::options::Options;

/// The group of `--ls`, `--cat` and `--extract` in `--help`.
const LOOK: &str = "Look, without mounting";

/// The actions that show a file without mounting it, and their options.
#[derive(Debug, Args)]
pub(super) struct LookArguments {
    /// List FILE, or PATHs in it, as ls -l would in a mount
    ///
    /// Names that begin with a dot, such as .asdf-mount, are listed with -a. Times are local.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    ls: bool,

    /// With --ls: list directories within directories
    #[arg(short = 'R', long, help_heading = LOOK)]
    recursive: bool,

    /// With --ls: list names that begin with a dot, too
    #[arg(short, long, help_heading = LOOK)]
    all: bool,

    /// Write the bytes of each PATH in FILE to stdout
    #[arg(long, help_heading = LOOK, group = ACTION)]
    cat: bool,

    /// With --cat: write only these bytes of each PATH: FROM-TO, FROM- or -COUNT
    ///
    /// Offsets count from 0, and TO is included: 0-79 are the first 80 bytes. FROM- leads to the end;
    /// -COUNT are the last COUNT bytes. There is nothing beyond the end, which is no error.
    #[arg(long, help_heading = LOOK, value_name = "FROM-TO", allow_hyphen_values = true)]
    range: Option<Range>,

    /// Copy FILE, or PATHs in it, into the current directory or DIR (-C)
    ///
    /// A file that exists is kept, unless --force is given. A file that can't be read is left out and named
    /// at the end, and the exit status is 1; all others are extracted. No link is followed on the way, so
    /// nothing is written outside of DIR.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    extract: bool,

    /// With --extract: the directory to extract into; made if it is missing
    #[arg(short = 'C', long, help_heading = LOOK, value_name = "DIR", value_parser = any_path())]
    directory: Option<PathBuf>,
}

impl LookArguments {
    /// Returns the option `--directory` and its path, which may be empty by mistake.
    pub(super) fn directory(&self) -> (&'static str, &Option<PathBuf>) {
        ("--directory", &self.directory)
    }

    /// Runs `--ls`. `paths` are the file and the paths in it.
    pub(super) fn list(&self, paths: &[PathBuf], options: &Options, json: bool) -> Result<u8> {
        let Some((file, paths)) = paths.split_first() else {
            return Err(usage("--ls needs a FILE"));
        };
        let look = match Look::open(file, options) {
            Ok(look) => look,
            Err(error) => {
                complain(&error.to_string());
                return Ok(exit::LS_FAILED);
            }
        };
        let listing = ListingForm { json, recursive: self.recursive, all: self.all };
        let status = look.list(paths, listing, &mut BufWriter::new(std::io::stdout().lock()));
        look.close();
        Ok(status)
    }

    /// Runs `--cat`. `paths` are the file and the paths in it.
    pub(super) fn cat(&self, paths: &[PathBuf], options: &Options) -> Result<u8> {
        let Some((file, paths)) = paths.split_first().filter(|(_, paths)| !paths.is_empty()) else {
            return Err(usage("--cat needs a FILE and a PATH in it; --ls lists them"));
        };
        let look = Look::open(file, options)?;
        // `Stdout` is line-buffered: it would search each piece for line breaks.
        let mut out: Box<dyn Write> = match rustix::io::dup(std::io::stdout()) {
            Ok(descriptor) => Box::new(std::fs::File::from(descriptor)),
            Err(_) => Box::new(std::io::stdout()),
        };
        let status = look.cat(paths, self.range.unwrap_or(Range::ALL), &mut out);
        look.close();
        Ok(status)
    }

    /// Runs `--extract`. `paths` are the file and the paths in it.
    pub(super) fn extract(
        &self,
        paths: &[PathBuf],
        options: &Options,
        force: bool,
        quiet: bool,
    ) -> Result<u8> {
        let Some((file, paths)) = paths.split_first() else {
            return Err(usage("--extract needs a FILE"));
        };
        let look = Look::open(file, options)?;
        let into = self.directory.as_deref().unwrap_or(Path::new("."));
        let status = look.extract(&Extraction { paths, into, force, quiet });
        look.close();
        status
    }
}
