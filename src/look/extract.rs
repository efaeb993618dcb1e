//! `--extract`: copies files, directories and links out of a file.
//!
//! A file that can't be read is skipped and reported at the end. The extraction ends early if the disk is
//! full or on a signal. Incomplete files are then removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use asdf_access::CheckProgress;
use asdf_access::local::mounts::Stalling;
use asdf_access::local::stat::{FileKind, Stat};
use seekable::error::{Error, Kind, Result, one_line};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::copy::{self, Failure, Range};
use super::path::normalized;
use super::place::{self, NewFile, NewName};
use super::{AFTER_DOTS, Look, PAUSE, again};
use crate::exit;
use crate::log::complain;
use crate::progress::Progress;
use crate::vfs::{Attr, Ino, ReadHandle};

/// Number of names read from a directory at once.
const BATCH: usize = 1024;

/// Size from which a file is opened to look for its holes.
const SMALL: u64 = 1 << 20;

/// Maximum number of errors that are printed at the end; further errors are only counted.
const MAX_ERRORS: usize = 1000;

/// Number of times that a file is copied again because another program replaced its bytes meanwhile.
const COPIES: usize = 5;

/// The arguments of an extraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extraction<'a> {
    /// Paths in the file; empty to extract the whole file.
    pub paths: &'a [PathBuf],
    /// The directory to extract into.
    pub into: &'a Path,
    /// True to overwrite existing files.
    pub force: bool,
    /// True to show no progress.
    pub quiet: bool,
}

/// The reason why an extraction ends early.
#[derive(Debug)]
enum Stop {
    Signal(i32),
    /// The disk is full, or the target directory can't be used.
    Full(Error),
}

/// A directory that is being copied.
struct Level {
    ino: Ino,
    dir: OwnedFd,
    /// The attributes, if the directory was made.
    made: Option<Attr>,
    listing: crate::vfs::DirHandle,
    /// Names read from the listing and not yet copied, in reverse order.
    names: Vec<OsString>,
    /// Position in the listing after `names`; `None` at the end of the directory.
    next: Option<u64>,
}

impl Look {
    /// Extracts files and directories. Returns the exit status.
    ///
    /// # Errors
    /// The directory can't be opened, or it lies in a directory that is to be extracted.
    pub(crate) fn extract(&self, extraction: &Extraction<'_>) -> Result<u8> {
        let dir = place::open(extraction.into)?;
        self.vfs.read_all_files();
        let all = [PathBuf::from(".")];
        let expanded = self.expanded(extraction.paths);
        let paths = if extraction.paths.is_empty() { &all[..] } else { &expanded.paths };
        self.check_apart(paths, extraction.into, &dir)?;
        let mut run = Run::new(self, extraction, &dir)?;
        let ended = paths_apart(paths).try_for_each(|path| run.path(path, &dir));
        for (path, error) in expanded.unsearched {
            run.note(self.describe(&path, &error));
        }
        for (parent, attr) in run.parents.drain(..).rev() {
            place::finish_directory(&parent, &attr, run.umask);
        }
        run.progress.end();
        Ok(run.report(ended, extraction))
    }

    /// Refuses to extract a directory into itself.
    fn check_apart(&self, paths: &[PathBuf], into: &Path, dir: &OwnedFd) -> Result<()> {
        let above = place::directories_above(dir)?;
        let holds_target = |path: &PathBuf| {
            let path = normalized(path).ok().map(|path| self.label.join(path));
            let stat = path.and_then(|path| rustix::fs::stat(&path).ok());
            stat.is_some_and(|stat| above.contains(&Stat::from(stat).key))
        };
        if paths.iter().any(holds_target) {
            let why = "lies in the directory to extract; name another one with -C";
            return Err(Error::new(Kind::Usage, why).of(into));
        }
        Ok(())
    }
}

/// Iterates over the paths, except those below or equal to another one.
fn paths_apart(paths: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    let clean: Vec<_> = paths.iter().map(|path| normalized(path).ok()).collect();
    paths.iter().enumerate().filter_map(move |(n, path)| {
        let own = clean.get(n)?.as_ref();
        let covers = |(other, above): (usize, &Option<PathBuf>)| match (above, own) {
            (Some(above), Some(own)) => other != n && own.starts_with(above) && (own != above || other < n),
            _ => false,
        };
        (!clean.iter().enumerate().any(covers)).then_some(path)
    })
}

/// A run of `--extract`.
struct Run<'a> {
    look: &'a Look,
    force: bool,
    /// True if the target is a network file system.
    sync: bool,
    umask: u16,
    progress: Progress,
    /// The signal that arrived; 0 for none.
    signal: Arc<AtomicUsize>,
    /// Directories made above the extracted paths.
    parents: Vec<(OwnedFd, Attr)>,
    errors: Vec<String>,
    failed: u64,
    done: u64,
    /// The path of the current file.
    at: PathBuf,
}

impl<'a> Run<'a> {
    fn new(look: &'a Look, extraction: &Extraction<'_>, dir: &OwnedFd) -> Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        let is_second = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM] {
            // A second signal ends the program at once: the handler that checks the flag is registered before
            // the one that sets it.
            signal_hook::flag::register_conditional_default(number, is_second.clone())?;
            signal_hook::flag::register(number, is_second.clone())?;
            signal_hook::flag::register_usize(number, signal.clone(), number as usize)?;
        }
        let key = Stat::from(rustix::fs::fstat(dir)?).key;
        Ok(Self {
            look,
            force: extraction.force,
            sync: Stalling::of(key).is_some(),
            umask: place::umask(),
            progress: Progress::new(extraction.quiet),
            signal,
            parents: Vec::new(),
            errors: Vec::new(),
            failed: 0,
            done: 0,
            at: PathBuf::new(),
        })
    }

    /// Extracts a path of the command line.
    fn path(&mut self, path: &Path, into: &OwnedFd) -> std::result::Result<(), Stop> {
        self.at = path.to_owned();
        let found = self.look.find(path, false).and_then(|found| Ok((found, normalized(path)?)));
        let (found, names) = match found {
            Ok(found) => found,
            Err(error) => return self.refuse(error),
        };
        let (Some(name), above) = (names.file_name(), names.parent().unwrap_or(Path::new(""))) else {
            self.at = PathBuf::new();
            if let Err(error) = self.check_room_below(found.attr, into.as_fd()) {
                self.at.push(".");
                return self.refuse(error);
            }
            let dir = into.try_clone().map_err(|error| Stop::Full(error.into()))?;
            return self.walk(found.attr.ino, dir, None);
        };
        if let Err(error) = self.check_room_below(found.attr, into.as_fd()) {
            return self.refuse(error);
        }
        let dir = match self.make_parents(above, into) {
            Ok(dir) => dir,
            Err(error) => return self.refuse(error),
        };
        self.at = names.clone();
        let dir = dir.as_ref().unwrap_or(into).as_fd();
        if let Some((dir, made)) =
            self.entry(found.parent, &found.name, NewName { dir, name, force: self.force })?
        {
            self.walk(found.attr.ino, dir, made)?;
        }
        Ok(())
    }

    /// Makes the directories above a path. Returns the last one.
    fn make_parents(&mut self, above: &Path, into: &OwnedFd) -> Result<Option<OwnedFd>> {
        let mut dir = None;
        let mut path = PathBuf::new();
        for name in above {
            path.push(name);
            let attr = self.look.find(&path, true)?.attr;
            let (entered, made) = place::enter(dir.as_ref().unwrap_or(into).as_fd(), name)?;
            if made {
                self.parents.push((entered.try_clone()?, attr));
            }
            dir = Some(entered);
        }
        Ok(dir)
    }

    /// Extracts all that is in a directory, into the open directory `dir`.
    fn walk(&mut self, ino: Ino, dir: OwnedFd, made: Option<Attr>) -> std::result::Result<(), Stop> {
        let mut levels = Vec::new();
        self.descend(ino, dir, made, &mut levels)?;
        while let Some(level) = levels.last_mut() {
            let name = match self.look.next_name(level) {
                Ok(Some(name)) => name,
                Ok(None) => {
                    if let Some(level) = levels.pop() {
                        self.ascend(level);
                    }
                    continue;
                }
                Err(error) => {
                    self.refuse(error)?;
                    continue;
                }
            };
            let parent = level.ino;
            self.at.push(&name);
            let place = NewName { dir: level.dir.as_fd(), name: &name, force: self.force };
            let entered = self.entry(parent, &name, place)?;
            match entered {
                Some((inner, inner_made)) => {
                    match again(|| self.look.vfs.lookup(parent, &name)) {
                        Ok(attr) => self.descend(attr.ino, inner, inner_made, &mut levels)?,
                        Err(error) => {
                            self.refuse(error)?;
                            self.at.pop();
                        }
                    };
                }
                None => {
                    self.at.pop();
                }
            }
        }
        Ok(())
    }

    fn descend(
        &mut self,
        ino: Ino,
        dir: OwnedFd,
        made: Option<Attr>,
        levels: &mut Vec<Level>,
    ) -> std::result::Result<(), Stop> {
        match again(|| self.look.vfs.open_dir(ino)) {
            Ok(listing) => {
                levels.push(Level { ino, dir, made, listing, names: Vec::new(), next: Some(AFTER_DOTS) })
            }
            Err(error) => {
                self.refuse(error)?;
                self.at.pop();
            }
        }
        Ok(())
    }

    fn ascend(&mut self, level: Level) {
        if let Some(attr) = level.made {
            place::finish_directory(&level.dir, &attr, self.umask);
        }
        self.look.vfs.forget(level.ino, 1);
        self.at.pop();
    }

    /// Extracts a file or link, or makes a directory. Returns the directory, and its attributes if it was made.
    fn entry(
        &mut self,
        parent: Ino,
        name: &OsStr,
        place: NewName<'_>,
    ) -> std::result::Result<Option<(OwnedFd, Option<Attr>)>, Stop> {
        self.check_signal()?;
        let attr = match self.look.lookup(parent, name) {
            Ok(attr) => attr,
            // The entry vanished since the directory was read.
            Err(error) if error.errno() == libc::ENOENT => return Ok(None),
            Err(error) => return self.refuse(error).map(|()| None),
        };
        let outcome = match attr.kind {
            FileKind::Directory => match self.enter(parent, attr, place) {
                Ok((entered, made)) => {
                    self.look.vfs.forget(attr.ino, 1);
                    return Ok(Some((entered, made.then_some(attr))));
                }
                Err(error) => Err(error),
            },
            FileKind::File => self.file(parent, name, place)?,
            FileKind::Link => self.look.vfs.read_link(attr.ino).and_then(|target| {
                place.check_free()?;
                place.link(&target, &attr)
            }),
            _ => Err(Error::new(Kind::Unsupported, "is a device, pipe or socket, which is not extracted")),
        };
        self.look.vfs.forget(attr.ino, 1);
        match outcome {
            Ok(()) => self.done += 1,
            Err(error) => self.refuse(error)?,
        }
        Ok(None)
    }

    /// Makes and opens a directory. If it is that of a mounted file, all of the file must fit on the disk.
    fn enter(&self, parent: Ino, attr: Attr, place: NewName<'_>) -> Result<(OwnedFd, bool)> {
        if !self.look.vfs.is_of_a_mounted_file(parent) {
            self.check_room_below(attr, place.dir)?;
        }
        place::enter(place.dir, place.name)
    }

    /// Refuses a directory of a mounted file whose files do not fit on the disk together: a wrong length in a small
    /// file makes them longer than any disk.
    fn check_room_below(&self, directory: Attr, into: BorrowedFd<'_>) -> Result<()> {
        if directory.kind != FileKind::Directory || !self.look.vfs.is_of_a_mounted_file(directory.ino) {
            return Ok(());
        }
        let Some(free) = place::free_space(into) else { return Ok(()) };
        let enough = free.saturating_add(1);
        // Errors are reported when the files are copied.
        let fits = |size: Result<u64>| size.is_err() || size.is_ok_and(|size| size <= free);
        if fits(self.size_below(directory.ino, enough, &|_, _, attr| attr.size)) {
            return Ok(());
        }
        let size_of_data = |parent, name: &OsStr, attr: &Attr| {
            let opened = if attr.size >= SMALL { self.look.open_file(parent, name).ok() } else { None };
            opened.and_then(|reader| copy::size_of_data(&reader, enough).ok()).unwrap_or(attr.size)
        };
        if fits(self.size_below(directory.ino, enough, &size_of_data)) {
            return Ok(());
        }
        let message = format!("the files need more than the {free} bytes that the disk has left");
        Err(Error::new(Kind::Refused, message))
    }

    /// Adds up the sizes of the files below a directory, until they are `enough`.
    fn size_below(&self, top: Ino, enough: u64, size_of: &dyn Fn(Ino, &OsStr, &Attr) -> u64) -> Result<u64> {
        let vfs = &self.look.vfs;
        let mut size = 0_u64;
        let mut directories = vec![top];
        while let Some(directory) = directories.pop() {
            let listing = again(|| vfs.open_dir(directory))?;
            let mut next = Some(AFTER_DOTS);
            while let Some(from) = next.take().filter(|_| size < enough) {
                let mut files = Vec::new();
                vfs.read_dir(&listing, from, true, &mut |item| {
                    let Some(attr) = item.attr else { return false };
                    if files.len() == BATCH {
                        return true;
                    }
                    next = Some(item.next);
                    match attr.kind {
                        FileKind::Directory => directories.push(attr.ino),
                        _ => files.push((item.name.to_owned(), attr)),
                    }
                    false
                })?;
                next = next.filter(|_| files.len() == BATCH);
                for (name, attr) in files {
                    size = size.saturating_add(size_of(directory, &name, &attr));
                    vfs.forget(attr.ino, 1);
                }
            }
            if directory != top {
                vfs.forget(directory, 1);
            }
        }
        Ok(size)
    }

    /// Copies a file. Repeats the copy if another program replaces the file's bytes meanwhile.
    fn file(
        &mut self,
        parent: Ino,
        name: &OsStr,
        place: NewName<'_>,
    ) -> std::result::Result<Result<()>, Stop> {
        if let Err(error) = place.check_free() {
            return Ok(Err(error));
        }
        for _ in 1..COPIES {
            match self.copy(parent, name, place)? {
                Err(error) if error.errno() == libc::ESTALE => std::thread::sleep(PAUSE),
                copied => return Ok(copied),
            }
        }
        self.copy(parent, name, place)
    }

    fn copy(
        &mut self,
        parent: Ino,
        name: &OsStr,
        place: NewName<'_>,
    ) -> std::result::Result<Result<()>, Stop> {
        let opened = self.look.open_file(parent, name);
        let attr = self.look.lookup(parent, name);
        let (reader, attr) = match opened.and_then(|reader| Ok((reader, attr?))) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        self.look.vfs.forget(attr.ino, 1);
        if let Err(error) = check_room(&reader, attr.size, place) {
            return Ok(Err(error));
        }
        let new = match NewFile::create(place) {
            Ok(new) => new,
            Err(error) => return Ok(Err(error.into())),
        };
        self.progress.file(&self.at, attr.size);
        let mut output =
            ExtractedFile { file: &new.file, signal: &self.signal, progress: &self.progress, hole: false };
        let copied = copy::all(&reader, Range::ALL, &mut output);
        let copied = copied.and_then(|()| output.end().map_err(Failure::Write));
        self.check_signal()?;
        Ok(match copied {
            Ok(()) => new.finish(&attr, self.umask, self.sync),
            Err(Failure::Read(error)) => Err(error),
            Err(Failure::Write(error)) => Err(error.into()),
        })
    }

    fn check_signal(&self) -> std::result::Result<(), Stop> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Stop::Signal(i32::try_from(number).unwrap_or(SIGTERM))),
        }
    }

    /// Records an error, to print it at the end, or ends the extraction if the disk is full.
    fn refuse(&mut self, error: Error) -> std::result::Result<(), Stop> {
        if [libc::ENOSPC, libc::EDQUOT].contains(&error.errno()) {
            return Err(Stop::Full(error));
        }
        self.note(self.look.describe(&self.at, &error));
        Ok(())
    }

    /// Records an error, to print it at the end.
    fn note(&mut self, line: String) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(line);
        }
    }

    /// Prints the errors, and the reason why the extraction ended early. Returns the exit status.
    fn report(self, ended: std::result::Result<(), Stop>, extraction: &Extraction<'_>) -> u8 {
        let say = |what: &str| complain(format_args!("asdf-mount: {what}"));
        let into = one_line(&extraction.into.to_string_lossy());
        for error in &self.errors {
            say(error);
        }
        let count = format!("{} extracted", plural(self.done, "file"));
        match ended {
            Ok(()) if self.failed == 0 => return exit::OK,
            Ok(()) => say(&format!("{count} into {into}, {} not", self.failed)),
            Err(Stop::Full(error)) => {
                let at = one_line(&self.at.to_string_lossy());
                say(&format!("{into}: {}; stopped at {at} with {count}", error.message()));
            }
            Err(Stop::Signal(number)) => {
                if !extraction.quiet {
                    say(&format!("interrupted with {count} into {into}"));
                }
                // Ends the program by the signal, so that the shell learns of it.
                let _ = signal_hook::low_level::emulate_default_handler(number);
            }
        }
        exit::FAILED
    }
}

/// The file that a copy is written to.
struct ExtractedFile<'a> {
    file: &'a File,
    signal: &'a AtomicUsize,
    progress: &'a Progress,
    /// True if the file ends in a hole.
    hole: bool,
}

impl ExtractedFile<'_> {
    fn check_signal(&self) -> io::Result<()> {
        if self.signal.load(Ordering::Relaxed) != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }

    /// Gives the file its length if it ends in a hole.
    fn end(&mut self) -> io::Result<()> {
        if self.hole {
            self.file.set_len(self.file.stream_position()?)?;
        }
        Ok(())
    }
}

impl copy::CopyTarget for ExtractedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check_signal()?;
        self.progress.add(bytes.len() as u64);
        self.hole &= bytes.is_empty();
        self.file.write_all(bytes)
    }

    fn skip(&mut self, zeros: u64) -> io::Result<bool> {
        self.check_signal()?;
        let Ok(distance) = i64::try_from(zeros) else { return Ok(false) };
        self.file.seek(SeekFrom::Current(distance))?;
        self.progress.add(zeros);
        self.hole = true;
        Ok(true)
    }
}

/// Refuses a file that does not fit on the disk.
fn check_room(reader: &ReadHandle, size: u64, place: NewName<'_>) -> Result<()> {
    let Some(free) = place::free_space(place.dir).filter(|free| *free < size) else { return Ok(()) };
    let needed = copy::size_of_data(reader, free.saturating_add(1))?;
    if needed <= free {
        return Ok(());
    }
    let message = format!("needs {size} bytes, but the disk has only {free} bytes left");
    Err(Error::new(Kind::Refused, message))
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Look {
    /// Returns the next name of a directory; `None` at its end.
    ///
    /// # Errors
    /// The directory can't be read further.
    fn next_name(&self, level: &mut Level) -> Result<Option<OsString>> {
        if level.names.is_empty()
            && let Some(from) = level.next.take()
        {
            let names = &mut level.names;
            let mut next = from;
            self.vfs.read_dir(&level.listing, from, false, &mut |item| {
                if names.len() == BATCH {
                    return true;
                }
                names.push(item.name.to_owned());
                next = item.next;
                false
            })?;
            level.next = (next != from && !level.listing.ends_at(next)).then_some(next);
            names.reverse();
        }
        Ok(level.names.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_another_is_extracted_once() {
        let apart = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            paths_apart(&paths).map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(apart(&["a/b", "a", "./a/", "ab", "a/../a/c"]), ["a", "ab"]);
        assert_eq!(apart(&["a/b", ".", "c"]), ["."]);
        assert_eq!(apart(&["../a", "a"]), ["../a", "a"]);
    }
}
