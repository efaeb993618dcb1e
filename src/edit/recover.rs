//! After a crash: finishes or undoes the save that was under way, and removes what it left behind.
//!
//! Doing it twice is harmless, and so is a crash while it is done.

use std::io;
use std::path::PathBuf;

use super::journal::{Header, Journal, Unreadable, Way, exists};
use super::place::{Place, aside};
use super::settle::{Settling, State};
use crate::error::{Error, Kind, Result};
use crate::source::storage::{Meta, Storage};

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// What the source is now, if a save had been under way.
    pub outcome: Option<Outcome>,
    /// Journals that do not belong to the source as it is, and that were set aside, with the reason.
    pub set_aside: Vec<(PathBuf, String)>,
    /// What was left behind and is removed.
    pub removed: Vec<PathBuf>,
}

/// What became of a save that had been under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The source is the file before the save.
    Old,
    /// The source is the file after the save.
    New,
}

/// What a file is that a save may have been changing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The file before the save, or the one after it; or nothing tells otherwise.
    Whole,
    /// Some of both, as far as can be known; the journal that could make it one of them.
    Halfway(PathBuf),
}

impl Recovered {
    /// Whether there was nothing to recover.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Recovers the open and locked source from what lies in `places`.
pub(super) fn recover<S: Storage>(storage: &S, file: &S::File, places: &[Place]) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for place in places {
        let mut recovery = Recovery { storage, file, place, recovered: &mut recovered };
        recovery.journal()?;
        recovery.image()?;
    }
    Ok(recovered)
}

/// What the source is by the journals in `places`; nothing is changed.
pub(super) fn judge<S: Storage>(storage: &S, file: &S::File, places: &[Place]) -> Result<Condition> {
    let source = storage.meta(file)?;
    for place in places {
        let path = &place.journal;
        // What a recovery would not believe tells nothing.
        if !exists(storage, path)? || !is_trusted(&storage.meta_at(path)?, &source) {
            continue;
        }
        let opened = match storage.open(path, false) {
            Ok(opened) => opened,
            // It may be about anything.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Condition::Halfway(path.clone()));
            }
            Err(error) => return Err(Error::from(error).of(path)),
        };
        let journal = match Journal::read(storage, opened) {
            Ok(journal) if journal.header.identity.inode == source.identity.inode => journal,
            Err(Unreadable::System(error)) => return Err(Error::from(error).of(path)),
            // Nothing was changed yet, or it is about something else.
            _ => continue,
        };
        let image = match journal.header.way {
            Way::Image => match open_image(storage, place, &journal.header)? {
                Some(image) => Some(image),
                None => continue,
            },
            _ => None,
        };
        if Settling::new(storage, file, &journal, image.as_ref()).look()? == State::Mixed {
            return Ok(Condition::Halfway(path.clone()));
        }
    }
    Ok(Condition::Whole)
}

/// Opens the image that a journal speaks of, if it is there.
fn open_image<S: Storage>(storage: &S, place: &Place, header: &Header) -> Result<Option<S::File>> {
    if !exists(storage, &place.image)? {
        return Ok(None);
    }
    let image = storage.open(&place.image, false)?;
    let identity = storage.meta(&image)?.identity;
    Ok(((identity.inode, identity.size) == header.image).then_some(image))
}

#[derive(Debug)]
struct Recovery<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    place: &'a Place,
    recovered: &'a mut Recovered,
}

impl<S: Storage> Recovery<'_, S> {
    fn journal(&mut self) -> Result<()> {
        let path = &self.place.journal;
        if !exists(self.storage, path)? {
            return Ok(());
        }
        let source = self.storage.meta(self.file)?;
        let opened = match self.storage.open(path, false) {
            Ok(opened) => opened,
            // A directory, a link, a pipe.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ELOOP)) => {
                return self.set_aside(None, "it is not a file");
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let whose = "a save was interrupted whose journal this user may not read; \
                             whoever made that save can recover the file with asdf-mount --recover";
                return Err(Error::from(error).within(whose).of(path));
            }
            Err(error) => return Err(Error::from(error).of(path)),
        };
        let theirs = self.storage.meta(&opened)?;
        if !is_trusted(&theirs, &source) {
            return self.set_aside(None, "it belongs to another user");
        }
        match Journal::read(self.storage, opened) {
            Ok(journal) => self.whole(&journal, &source),
            Err(Unreadable::Blank) => self.remove_journal(),
            Err(Unreadable::Unfinished(header)) if header.identity == source.identity => {
                self.remove_journal()
            }
            Err(Unreadable::Unfinished(header)) => {
                self.set_aside(Some(&header), "it is not whole, and the file was changed since")
            }
            Err(Unreadable::Foreign) => self.set_aside(None, "it is not a journal of this version"),
            Err(Unreadable::System(error)) => Err(Error::from(error).of(path)),
        }
    }

    fn whole(&mut self, journal: &Journal<S>, source: &Meta) -> Result<()> {
        let header = &journal.header;
        if header.identity.inode != source.identity.inode {
            return self.set_aside(Some(header), "it is about another file, which this one was copied from");
        }
        let image = match header.way {
            Way::Image => match open_image(self.storage, self.place, header)? {
                Some(image) => Some(image),
                // The name of the copy was lost before anything was changed.
                None if header.identity == source.identity => return self.remove_journal(),
                None => return self.set_aside(Some(header), "the copy it speaks of is not there"),
            },
            _ => None,
        };
        let settling = Settling::new(self.storage, self.file, journal, image.as_ref());
        let outcome = match settling.settle()? {
            State::New => Outcome::New,
            State::Old => Outcome::Old,
            State::Mixed => return Err(Error::new(Kind::Unfinished, "the file could not be settled")),
            State::Foreign(why) => return self.set_aside(Some(header), &why),
        };
        self.recovered.outcome = Some(outcome);
        self.remove_journal()
    }

    /// Removes a new file that did not come to take the source's place.
    fn image(&mut self) -> Result<()> {
        let path = &self.place.image;
        if exists(self.storage, path)? {
            // A journal that speaks of it may be gone only in memory.
            self.storage.sync_dir(&self.place.dir)?;
            self.storage.unlink(path).map_err(|error| Error::from(error).of(path))?;
            self.recovered.removed.push(path.clone());
        }
        Ok(())
    }

    fn remove_journal(&mut self) -> Result<()> {
        let path = &self.place.journal;
        self.storage.unlink(path).map_err(|error| Error::from(error).of(path))?;
        self.recovered.removed.push(path.clone());
        Ok(())
    }

    /// Gives the journal, and the image it needs, another name.
    fn set_aside(&mut self, header: Option<&Header>, why: &str) -> Result<()> {
        let needs_image = header.is_some_and(|header| header.way == Way::Image);
        if needs_image && exists(self.storage, &self.place.image)? {
            self.rename_aside(&self.place.image)?;
        }
        let name = self.rename_aside(&self.place.journal)?;
        self.recovered.set_aside.push((name, why.to_owned()));
        Ok(())
    }

    fn rename_aside(&self, path: &std::path::Path) -> Result<PathBuf> {
        for name in aside(path) {
            if !exists(self.storage, &name)? {
                self.storage.rename(path, &name).map_err(|error| Error::from(error).of(path))?;
                return Ok(name);
            }
        }
        let full = io::Error::from_raw_os_error(libc::EEXIST);
        Err(Error::from(full).within("too many journals were set aside").of(path))
    }
}

/// Whether a journal was made by someone who can write the source anyway.
fn is_trusted(journal: &Meta, source: &Meta) -> bool {
    [0, source.uid, rustix::process::geteuid().as_raw()].contains(&journal.uid)
}
