//! The arguments of `--ls`, `--cat` and `--extract`.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::{any_path, complain, usage};
use crate::error::Result;
use crate::exit;
use crate::look::{Extraction, ListingForm, Look, Range};
use crate::options::{self, Options};

/// The group of `--ls`, `--cat` and `--extract` in `--help`.
const LOOK: &str = "Look, without mounting";

/// The mount options that change what `--ls`, `--cat` and `--extract` show.
const ACCEPTED: [&str; 5] = ["views", "verify", "external", "cache", "index-cache"];

const MOUNTING: [&str; 11] = [
    "foreground",
    "read_only",
    "unmount",
    "check",
    "index",
    "edit",
    "set_tree",
    "recover",
    "log_file",
    "verbose",
    "generate",
];

/// The actions that show a file without mounting it, and their options.
#[derive(Debug, Args)]
pub(super) struct LookArguments {
    /// List FILE, or PATHs in it, as ls -l would in a mount
    ///
    /// Names that begin with a dot, such as .asdf-mount, are listed with -a. Times are local.
    #[arg(long, help_heading = LOOK, group = "reports", conflicts_with_all = MOUNTING, conflicts_with_all = ["cat", "extract"])]
    ls: bool,

    /// With --ls: list directories within directories
    #[arg(short = 'R', long, help_heading = LOOK, requires = "ls")]
    recursive: bool,

    /// With --ls: list names that begin with a dot, too
    #[arg(short, long, help_heading = LOOK, requires = "ls")]
    all: bool,

    /// Write the bytes of each PATH in FILE to stdout
    #[arg(long, help_heading = LOOK, conflicts_with_all = MOUNTING, conflicts_with_all = ["extract"])]
    cat: bool,

    /// With --cat: write only these bytes of each PATH: FROM-TO, FROM- or -COUNT
    ///
    /// Offsets count from 0, and TO is included: 0-79 are the first 80 bytes. FROM- leads to the end;
    /// -COUNT are the last COUNT bytes. There is nothing beyond the end, which is no error.
    #[arg(long, help_heading = LOOK, value_name = "FROM-TO", requires = "cat", allow_hyphen_values = true)]
    range: Option<Range>,

    /// Copy FILE, or PATHs in it, into the current directory or DIR (-C)
    ///
    /// A file that exists is kept, unless --force is given. A file that can't be read is left out and named
    /// at the end, and the exit status is 1; all others are extracted. No link is followed on the way, so
    /// nothing is written outside of DIR.
    #[arg(long, help_heading = LOOK, group = "forced", conflicts_with_all = MOUNTING)]
    extract: bool,

    /// With --extract: the directory to extract into; made if it is missing
    #[arg(short = 'C', long, help_heading = LOOK, value_name = "DIR", requires = "extract", value_parser = any_path())]
    directory: Option<PathBuf>,
}

impl LookArguments {
    /// True if one of the actions is requested.
    pub(super) fn is_asked(&self) -> bool {
        self.ls || self.cat || self.extract
    }

    /// Returns the option `--directory` and its path, which may be empty by mistake.
    pub(super) fn directory(&self) -> (&'static str, &Option<PathBuf>) {
        ("--directory", &self.directory)
    }

    /// Runs the action. `paths` are the file and the paths in it.
    pub(super) fn run(&self, paths: &[PathBuf], lists: &[OsString], how: How) -> Result<u8> {
        let action = match (self.ls, self.cat) {
            (true, _) => "--ls",
            (_, true) => "--cat",
            _ => "--extract",
        };
        options::refuse_others(lists, &[&ACCEPTED[..], &options::REMOTE].concat(), action)?;
        let options = Options::parse(lists)?;
        let Some((file, paths)) = paths.split_first() else {
            return Err(usage(format!("{action} needs a FILE")));
        };
        if self.cat && paths.is_empty() {
            return Err(usage("--cat needs a FILE and a PATH in it; --ls lists them"));
        }
        let look = match Look::open(file, &options) {
            Err(error) if self.ls => {
                complain(&error.to_string());
                return Ok(exit::LS_FAILED);
            }
            opened => opened?,
        };
        let status = self.show(&look, paths, how);
        look.close();
        status
    }

    fn show(&self, look: &Look, paths: &[PathBuf], how: How) -> Result<u8> {
        let stdout = std::io::stdout();
        if self.ls {
            let listing = ListingForm { json: how.json, recursive: self.recursive, all: self.all };
            return Ok(look.list(paths, listing, &mut BufWriter::new(stdout.lock())));
        }
        if self.cat {
            // `Stdout` is line-buffered: it would search each piece for line breaks.
            let mut out: Box<dyn Write> = match rustix::io::dup(stdout) {
                Ok(descriptor) => Box::new(std::fs::File::from(descriptor)),
                Err(_) => Box::new(std::io::stdout()),
            };
            return Ok(look.cat(paths, self.range.unwrap_or(Range::ALL), &mut out));
        }
        let into = self.directory.as_deref().unwrap_or(Path::new("."));
        look.extract(&Extraction { paths, into, force: how.force, quiet: how.quiet })
    }
}

/// Options that `--ls`, `--cat` and `--extract` share with other actions.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) json: bool,
    pub(super) force: bool,
    pub(super) quiet: bool,
}
