//! `--cutout`: the part of an image around a position, of each of many files.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::CheckProgress;
use asdf_access::files::{FilesToRead, Found, parallel};
use asdf_access::named::Servers;
use asdf_access::options::Options;
use asdf_tree::yaml::assign::KeyPath;
use asdf_views::views::fits::{CutoutRequest, CutoutSize, cutout};
use clap::Args;
use seekable::cache::Cache;
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Kind, Result};

use super::action::ACTION;
use super::jobs::Jobs;
use super::look::{LOOK, binary_stdout};
use super::{at_least_one, complain, open, position, usage};
use crate::exit;
use crate::look::write_new;
use crate::progress::Progress;

/// Cache budget of a file, and that for files on servers, in bytes.
const CACHE_BUDGET: u64 = 16 << 20;
const SERVERS_BUDGET: u64 = 64 << 20;
/// Bytes read and written at once.
const PIECE: usize = 1 << 20;
/// The mode of a new file, before the umask.
const MODE: u32 = 0o666;

/// The options of `--cutout`.
#[derive(Debug, Args)]
pub(super) struct CutoutArguments {
    /// Write the part of an image around a position of each FILE as a FITS file OUT (-O), with its errors and flags
    ///
    /// RA and DEC are ICRS: degrees, or as in 10h00m24s,+2d12m00s or 10:00:24,+2:12:00 (hours first). SIZE is the length of
    /// a side: 30arcsec, 2arcmin, 0.1deg or 64px. Pixels outside of the image are left out. Only the parts of the blocks
    /// that are needed are read. A file that does not contain the position is named on stderr. The exit status is 0 if a
    /// cut-out is written, 1 if no file contains the position, and 2 after an error.
    #[arg(long, help_heading = LOOK, value_name = "RA,DEC,SIZE", value_parser = square, allow_hyphen_values = true, group = ACTION)]
    cutout: Option<Square>,

    /// With --cutout: the image, a path such as roman.data [the first one that contains the position]
    #[arg(long, help_heading = LOOK, value_name = "KEY")]
    key: Option<String>,
}

/// The part of the sky that is cut out.
#[derive(Clone, Copy, Debug)]
struct Square {
    position: [f64; 2],
    size: CutoutSize,
}

/// Parses `RA,DEC,SIZE`.
fn square(text: &str) -> std::result::Result<Square, String> {
    let (position, size) = position::position(text)?;
    let size = size.ok_or("a size is missing; write RA,DEC,SIZE, as in 150.1,2.2,30arcsec")?;
    Ok(Square { position, size: position::side(size)? })
}

/// The place where cut-outs are written.
enum Output<'p> {
    Stdout,
    File(&'p Path),
    /// A directory, with a file for each cut-out.
    Directory(&'p Path),
}

impl CutoutArguments {
    /// Writes the cut-outs. The exit status is that of grep.
    pub(super) fn run(
        &self,
        paths: &[PathBuf],
        output: Option<&Path>,
        options: &Options,
        jobs: Jobs,
        quiet: bool,
    ) -> Result<u8> {
        let paths = at_least_one(paths, "--cutout needs at least one FILE")?;
        let Some(Square { position, size }) = self.cutout else {
            return Err(usage("--cutout needs RA,DEC,SIZE"));
        };
        let key = self.key.as_deref().map(KeyPath::parse).transpose()?;
        let path = key.map(|key| key.path().join("/"));
        let request = CutoutRequest { position, size, path };
        let output = match output {
            None => Output::Stdout,
            Some(output) if output.is_dir() => Output::Directory(output),
            Some(output) => Output::File(output),
        };
        if paths.len() > 1 {
            output.check_takes_several()?;
        }
        let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
        let files = FilesToRead::new(paths.iter().cloned(), &servers);
        let progress = Progress::new(quiet);
        let mut is_written = false;
        let mut has_failed = false;
        let work = |file: Found| {
            let written = write(&file, &request, &output);
            (file, written)
        };
        let report = |(file, written): (Found, Result<Written>)| {
            let said = match written {
                Ok(Written::Bytes(count)) => {
                    is_written = true;
                    progress.file(file.label(), count);
                    progress.add(count);
                    return Ok(());
                }
                Ok(Written::Nothing(why)) => {
                    progress.file(file.label(), 0);
                    (!quiet).then(|| Error::new(Kind::NotFound, why))
                }
                Err(error) if file.is_passed_over(&error) => None,
                Err(error) if error.kind() == Kind::Usage => return Err(error),
                Err(error) => {
                    has_failed = true;
                    Some(error)
                }
            };
            if let Some(error) = said {
                progress.hide(|| complain(&error.of(file.label()).to_string()));
            }
            Ok::<_, Error>(())
        };
        parallel::each(files, parallel::threads_for(jobs.given()), &work, report)?;
        progress.end();
        Ok(match (has_failed, is_written) {
            (true, _) => exit::UNREADABLE,
            (false, true) => exit::OK,
            (false, false) => exit::NOT_FOUND,
        })
    }
}

impl Output<'_> {
    /// Refuses several files, or a directory, unless each cut-out has a file of its own.
    fn check_takes_several(&self) -> Result<()> {
        match self {
            Output::Directory(_) => Ok(()),
            Output::Stdout => Err(usage("give a directory for the cut-outs of several files: -O DIR")),
            Output::File(path) => {
                let path = path.display();
                Err(usage(format!(
                    "{path} is no directory; the cut-outs of several files need an existing one"
                )))
            }
        }
    }
}

/// The result for a file.
enum Written {
    /// The length of the cut-out.
    Bytes(u64),
    /// The reason why there is no cut-out.
    Nothing(String),
}

/// Writes the cut-out of a file.
fn write(file: &Found, request: &CutoutRequest, output: &Output<'_>) -> Result<Written> {
    if !file.is_named() {
        output.check_takes_several()?;
    }
    let container = open(file, CACHE_BUDGET)?;
    let found = cutout(container, request)?;
    let content = match found {
        Ok(cutout) => cutout.content,
        Err(why) => return Ok(Written::Nothing(why)),
    };
    let copy = |out: &mut dyn Write| copy(&*content, out, file.label());
    let path = match output {
        Output::Stdout => {
            copy(&mut binary_stdout())?;
            return Ok(Written::Bytes(content.len()));
        }
        Output::File(path) => path.to_path_buf(),
        Output::Directory(dir) => dir.join(name_of(file.label())),
    };
    write_new(&path, MODE, |mut new| copy(&mut new)).map_err(|error| error.of(&path))?;
    Ok(Written::Bytes(content.len()))
}

/// Returns the name of the cut-out of a file.
fn name_of(label: &Path) -> OsString {
    let mut name = label.file_stem().unwrap_or(label.as_os_str()).to_owned();
    name.push("_cutout.fits");
    name
}

/// Writes a content. `label` is the name of the file that it is made from.
fn copy(content: &dyn Content, out: &mut dyn Write, label: &Path) -> Result<()> {
    let mut piece = vec![0; usize::try_from(content.len()).map_or(PIECE, |len| len.min(PIECE))];
    let mut at = 0;
    while at < content.len() {
        let len = usize::try_from(content.len() - at).map_or(PIECE, |rest| rest.min(PIECE));
        read_exact_at(content, at, &mut piece[..len]).map_err(|error| error.of(label))?;
        out.write_all(&piece[..len])?;
        at += len as u64;
    }
    Ok(out.flush()?)
}
