//! `--ls`, `--cat`, `--extract`, `--diff` and `--thumbnail`: a file as its mount would show it, without a mount.
//!
//! They ask the same [`Vfs`] that answers the kernel, in this process, so that they can't differ from a mount.
//! Nothing is written to the file or beside it, and no lock is taken: each file is read from one complete
//! generation, even while a mount saves.
//!
//! - `compare`: `--diff A B`
//! - `thumbnail`: `--thumbnail`
//! - `glob`: patterns in a PATH
//! - `path`: from a PATH on the command line to a node
//! - `list`, `zone`: `--ls`, and local time
//! - `copy`: the bytes of an open file
//! - `extract`, `place`: `--extract`, and the directories and files that it makes

mod caption;
mod compare;
mod copy;
mod extract;
mod glob;
mod list;
mod path;
mod place;
pub(crate) mod thumbnail;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use copy::Range;
pub(crate) use extract::Extraction;
pub(crate) use list::ListingForm;
pub(crate) use place::{write_new, write_picture};
use seekable::cache::Cache;
use seekable::error::{Error, Result, one_line};

use crate::log::complain;
use crate::vfs::{Attr, DirItem, Ino, ReadHandle, Vfs};
use crate::{daemon, exit};
use asdf_access::local::stat::FileKind;
use asdf_access::named::{self, Named, Servers};
use asdf_access::options::Options;
use copy::Failure;
use glob::Expanded;

/// Number of attempts to read a file that another program is changing, and the pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// Position in a directory after `.` and `..`.
const AFTER_DOTS: u64 = 2;

/// Maximum time that the end of the program waits for seek tables to be written.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file, or a directory of files, as its mount would show it.
#[derive(Debug)]
pub(crate) struct Look {
    vfs: Vfs,
    cache: Arc<Cache>,
    /// The file as it was named on the command line.
    label: PathBuf,
}

impl Look {
    /// Opens a file or directory.
    ///
    /// # Errors
    /// It can't be read, or its format is unknown.
    pub(crate) fn open(file: &Path, options: &Options) -> Result<Self> {
        daemon::raise_open_files();
        let (cache, reading) = daemon::reading(options);
        let source = match Named::of(file, &Servers::new(&options.remote, &cache))? {
            Named::Local(path) => {
                named::refuse_mount(&path)?;
                daemon::readable(&path)?.into()
            }
            elsewhere => elsewhere,
        };
        let vfs = again(|| Vfs::new(std::slice::from_ref(&source), &reading))?;
        Ok(Self { vfs, cache, label: named::shown(file) })
    }

    /// Writes the bytes of the files at `paths` to `out`, one after the other. Returns the exit status.
    pub(crate) fn cat(&self, paths: &[PathBuf], range: Range, out: &mut dyn Write) -> u8 {
        let mut status = exit::OK;
        let Expanded { paths, unsearched } = self.expanded(paths);
        for (path, error) in &unsearched {
            self.complain(path, error);
            status = exit::FAILED;
        }
        for path in &paths {
            match self.cat_one(path, range, out) {
                Ok(()) => {}
                Err(Failure::Write(error)) => return written(Err(error)),
                Err(Failure::Read(error)) => {
                    self.complain(path, &error);
                    status = exit::FAILED;
                }
            }
        }
        match written(out.flush()) {
            exit::OK => status,
            failed => failed,
        }
    }

    /// Writes the bytes of a file. If the file changes before the first byte is written, opens it again.
    fn cat_one(&self, path: &Path, range: Range, out: &mut dyn Write) -> std::result::Result<(), Failure> {
        let mut begun = false;
        for _ in 1..ATTEMPTS {
            match self.try_cat(path, range, out, &mut begun) {
                Err(Failure::Read(error)) if error.errno() == libc::ESTALE && !begun => {
                    std::thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
        self.try_cat(path, range, out, &mut begun)
    }

    fn try_cat(
        &self,
        path: &Path,
        range: Range,
        out: &mut dyn Write,
        begun: &mut bool,
    ) -> std::result::Result<(), Failure> {
        let reader = self.file_at(path).map_err(Failure::Read)?;
        copy::all(&reader, range, &mut CatOutput { out, begun })
    }

    /// Opens the file at a path; links are followed.
    fn file_at(&self, path: &Path) -> Result<ReadHandle> {
        let found = self.find(path, true)?;
        if found.attr.kind == FileKind::Directory {
            return Err(as_system_says(libc::EISDIR, "Is a directory"));
        }
        self.open_file(found.parent, &found.name)
    }

    /// Opens a file by its name. If its bytes are replaced between lookup and open, looks it up again.
    fn open_file(&self, parent: Ino, name: &OsStr) -> Result<ReadHandle> {
        again(|| {
            let attr = self.vfs.lookup(parent, name)?;
            let reader = self.vfs.open(attr.ino);
            self.vfs.forget(attr.ino, 1);
            reader
        })
    }

    /// Passes the names in a directory, in the order of the mount, and their types to `take`.
    ///
    /// # Errors
    /// The directory can't be read to its end. The names before were passed.
    fn each_name(&self, directory: Ino, take: &mut dyn FnMut(&OsStr, FileKind)) -> Result<()> {
        let listing = again(|| self.vfs.open_dir(directory))?;
        let mut from = AFTER_DOTS;
        loop {
            let mut next = from;
            self.vfs.read_dir(&listing, from, false, &mut |item: DirItem<'_>| {
                take(item.name, item.kind);
                next = item.next;
                false
            })?;
            if next == from || listing.ends_at(next) {
                return Ok(());
            }
            from = next;
        }
    }

    /// Returns the names in a directory, in the order of the mount.
    fn names(&self, directory: Ino) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(directory, &mut |name, _| names.push(name.to_owned()))?;
        Ok(names)
    }

    /// Returns the names in a directory, and true for those of directories.
    ///
    /// # Errors
    /// There is no such directory.
    pub(crate) fn names_in(&self, directory: &Path) -> Result<Vec<(OsString, bool)>> {
        let found = self.find(directory, true)?;
        let mut names = Vec::new();
        self.each_name(found.attr.ino, &mut |name, kind| {
            names.push((name.to_owned(), kind == FileKind::Directory));
        })?;
        names.sort();
        Ok(names)
    }

    fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        again(|| self.vfs.lookup(parent, name))
    }

    /// Reports an error about a path in the file.
    fn complain(&self, path: &Path, error: &Error) {
        complain(format_args!("asdf-mount: {}", self.describe(path, error)));
    }

    /// Returns one line about an error at a path in the file.
    fn describe(&self, path: &Path, error: &Error) -> String {
        let line = one_line(&error.message());
        let label = one_line(&self.label.to_string_lossy());
        match path.to_str() {
            Some("" | ".") => format!("{label}: {line}"),
            _ => format!("{label}: {}: {line}", one_line(&path.to_string_lossy())),
        }
    }

    /// Waits until the seek tables of decoded blocks are stored, at most [`PATIENCE`].
    pub(crate) fn close(self) {
        self.cache.store().wait_for_writes_within(PATIENCE);
    }
}

/// The output of `--cat`.
struct CatOutput<'a> {
    out: &'a mut dyn Write,
    /// True once a byte was written.
    begun: &'a mut bool,
}

impl copy::CopyTarget for CatOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        *self.begun |= !bytes.is_empty();
        self.out.write_all(bytes)
    }
}

/// Creates an error with the words of `ls` and `cat`.
fn as_system_says(errno: i32, message: &str) -> Error {
    Error::new(seekable::error::Kind::System(errno), message)
}

/// Calls `attempt` again while another program is changing the file.
fn again<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.errno() == libc::ESTALE => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    attempt()
}

/// Returns the exit status after writing to stdout. A closed pipe is no error: the reader needs no more.
fn written(result: io::Result<()>) -> u8 {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(format_args!("asdf-mount: can't write to standard output: {}", Error::from(error)));
            exit::FAILED
        }
        _ => exit::OK,
    }
}
