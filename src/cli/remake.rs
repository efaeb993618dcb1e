//! A new file that is made of an old one, for `--repair` and `--repack`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use asdf_access::files::open_whole;
use asdf_access::named::{Named, Servers};
use asdf_access::options::Options;
use asdf_access::{CheckProgress, library};
use asdf_file::container::{Container, Context, Defect, Severity};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result};
use seekable::source::{BufferedSource, FileSource, Source};

use crate::progress::Progress;

/// Cache budget in bytes.
const CACHE_BUDGET: u64 = 16 << 20;
/// Cache budget in bytes for files on servers, which are read ahead.
const SERVERS_BUDGET: u64 = 128 << 20;
/// Bytes written at once.
const PIECE: usize = 256 << 10;
/// Mode of the new file if the old one is on a server.
const MODE: u32 = 0o666;

/// The old file, and the mode of the new one.
pub(super) struct OldFile {
    pub(super) container: Arc<dyn Container>,
    pub(super) mode: u32,
}

/// How the files are read, and the progress.
pub(super) struct Remaking {
    context: Context,
    servers: Servers,
    pub(super) progress: Progress,
}

impl Remaking {
    pub(super) fn new(options: &Options, quiet: bool) -> Self {
        let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
        let context = Context::new(Arc::new(Cache::new(CACHE_BUDGET)));
        Self { context, servers, progress: Progress::new(quiet) }
    }

    /// Opens the old file.
    pub(super) fn open(&self, file: &Path) -> Result<OldFile> {
        let source = match Named::of(file, &self.servers)? {
            Named::Local(path) => open_whole(&path)?,
            Named::Elsewhere(place) => place.open()?,
        };
        let mode = match source.descriptor() {
            Some(descriptor) => rustix::fs::fstat(descriptor)?.st_mode,
            None => MODE,
        };
        let container = format::open(Arc::new(BufferedSource::new(source)), &self.context)?;
        self.progress.file(file, container.source_stat().size);
        Ok(OldFile { container, mode })
    }

    /// Writes the new file by `write`, which gets a callback for the numbers of bytes, `size` in all.
    pub(super) fn write(
        &self,
        name: &Path,
        new: &File,
        size: u64,
        write: impl FnOnce(&mut BufWriter<&File>, &dyn Fn(u64)) -> Result<()>,
    ) -> Result<()> {
        self.progress.file(name, size);
        let mut out = BufWriter::with_capacity(PIECE, new);
        write(&mut out, &|bytes| self.progress.add(bytes))?;
        Ok(out.flush()?)
    }

    /// Checks the new file before it gets its name, and returns the damage.
    pub(super) fn damage_in(&self, name: &Path, new: &File) -> Result<Vec<Defect>> {
        self.damage_of(Arc::new(FileSource::from_file(new.try_clone()?, name)?))
    }

    /// Reads all of a file, and returns the damage.
    pub(super) fn damage_of(&self, source: Arc<dyn Source>) -> Result<Vec<Defect>> {
        let mut checked = library::check::Findings::default();
        library::File::of_source(source, &self.context)?.check_into(&mut checked, &self.progress)?;
        checked.defects.retain(|defect| defect.severity == Severity::Damage);
        Ok(checked.defects)
    }
}

/// Refuses a name that exists, before the old file is read.
pub(super) fn check_free(new: &Path) -> Result<()> {
    match new.symlink_metadata() {
        Ok(_) => Err(Error::new(Kind::Refused, "exists already: give a name that is free").of(new)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from(error).of(new)),
    }
}
