//! After a crash: finishes or undoes the save that was in progress, and removes the files of that save.
//!
//! Recovery may itself be interrupted, and be repeated.

use std::io;
use std::path::{Path, PathBuf};

use super::journal::{Header, Journal, Method, Unreadable, exists};
use super::settle::{Settling, State};
use super::sidecar::{SidecarPaths, aside};
use crate::error::{Error, Kind, Result};
use crate::format::recovery::{Condition, Recovered, Side};
use crate::source::storage::{Meta, Storage};

/// Recovers the open and locked source from what lies in `places`.
pub(super) fn recover<S: Storage>(storage: &S, file: &S::File, places: &[SidecarPaths]) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for place in places {
        let mut recovery = Recovery { storage, file, place, recovered: &mut recovered };
        recovery.journal()?;
        recovery.image()?;
    }
    Ok(recovered)
}

/// What the source is by the journals in `places`; nothing is changed.
pub(super) fn judge<S: Storage>(storage: &S, file: &S::File, places: &[SidecarPaths]) -> Result<Condition> {
    let source = storage.meta(file)?;
    for place in places {
        let path = &place.journal;
        if !exists(storage, path)? {
            continue;
        }
        let lying = storage.meta_at(path)?;
        // What a recovery would not believe tells nothing.
        if distrust(&lying, &source).is_some() {
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
            Method::Image => match open_image(storage, place, &journal.header, &lying)? {
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
///
/// The journal's maker made it as well: else another user's journal could have root read any file.
fn open_image<S: Storage>(
    storage: &S,
    place: &SidecarPaths,
    header: &Header,
    journal: &Meta,
) -> Result<Option<S::File>> {
    if !exists(storage, &place.image)? {
        return Ok(None);
    }
    let image = storage.open(&place.image, false)?;
    let Meta { identity, links, uid, .. } = storage.meta(&image)?;
    let is_it = (identity.inode, identity.size) == header.image && (links, uid) == (1, journal.uid);
    Ok(is_it.then_some(image))
}

#[derive(Debug)]
struct Recovery<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    place: &'a SidecarPaths,
    recovered: &'a mut Recovered,
}

impl<S: Storage> Recovery<'_, S> {
    fn journal(&mut self) -> Result<()> {
        let path = &self.place.journal;
        if !exists(self.storage, path)? {
            return Ok(());
        }
        let source = self.storage.meta(self.file)?;
        let lying = self.storage.meta_at(path)?;
        if let Some(why) = distrust(&lying, &source) {
            return self.set_aside(None, &why);
        }
        let opened = match self.storage.open(path, false) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let whose = "a save was interrupted whose journal this user may not read; \
                             the user who made that save can recover the file with asdf-mount --recover";
                return Err(Error::from(error).within(whose).of(path));
            }
            Err(error) => return Err(Error::from(error).of(path)),
        };
        match Journal::read(self.storage, opened) {
            Ok(journal) => self.whole(&journal, &source, &lying),
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

    fn whole(&mut self, journal: &Journal<S>, source: &Meta, lying: &Meta) -> Result<()> {
        let header = &journal.header;
        if header.identity.inode != source.identity.inode {
            return self.set_aside(Some(header), "it is about another file, which this one was copied from");
        }
        let image = match header.way {
            Method::Image => match open_image(self.storage, self.place, header, lying)? {
                Some(image) => Some(image),
                // The name of the copy was lost before anything was changed.
                None if header.identity == source.identity => return self.remove_journal(),
                None => return self.set_aside(Some(header), "the copy it speaks of is not there"),
            },
            _ => None,
        };
        let settling = Settling::new(self.storage, self.file, journal, image.as_ref());
        let outcome = match settling.settle()? {
            State::New => Side::New,
            State::Old => Side::Old,
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
            let source = self.storage.meta(self.file)?;
            let why_not = distrust(&self.storage.meta_at(path)?, &source);
            match (self.storage.unlink(path), why_not) {
                (Ok(()), _) => self.recovered.removed.push(path.clone()),
                (Err(_), Some(why)) => self.recovered.in_the_way.push((path.clone(), why)),
                (Err(error), None) => return Err(Error::from(error).of(path)),
            }
        }
        Ok(())
    }

    fn remove_journal(&mut self) -> Result<()> {
        let path = &self.place.journal;
        self.storage.unlink(path).map_err(|error| Error::from(error).of(path))?;
        self.recovered.removed.push(path.clone());
        Ok(())
    }

    /// Gives the journal, and the image it needs, another name; one that can't be moved is left where it is.
    fn set_aside(&mut self, header: Option<&Header>, why: &str) -> Result<()> {
        let needs_image = header.is_some_and(|header| header.way == Method::Image);
        if needs_image && exists(self.storage, &self.place.image)? {
            self.rename_aside(&self.place.image)?;
        }
        match self.rename_aside(&self.place.journal) {
            Ok(name) => self.recovered.set_aside.push((name, why.to_owned())),
            Err(error) if matches!(error.errno(), libc::EPERM | libc::EACCES) => {
                self.recovered.in_the_way.push((self.place.journal.clone(), why.to_owned()));
            }
            Err(error) => return Err(error),
        }
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

/// Whether something lies at `left` that a save of `source` may have left there.
pub(super) fn is_left<S: Storage>(storage: &S, left: &Path, source: &Path) -> bool {
    match (storage.meta_at(left), storage.meta_at(source)) {
        (Ok(left), Ok(source)) => !is_strangers(&left, &source),
        // What can't be looked at now may be there.
        _ => exists(storage, left).unwrap_or(true),
    }
}

/// Whether a file was made by no program of a user that may write the source anyway.
fn is_strangers(lying: &Meta, source: &Meta) -> bool {
    ![0, source.uid, rustix::process::geteuid().as_raw()].contains(&lying.uid)
}

/// Why a file is no journal of a save, if it is none: a journal is ours, and no other user can have
/// written it or given it its name.
fn distrust(lying: &Meta, source: &Meta) -> Option<String> {
    match () {
        () if lying.mode & libc::S_IFMT != libc::S_IFREG => Some("it is not a file".to_owned()),
        () if is_strangers(lying, source) => Some(format!("it belongs to another user (uid {})", lying.uid)),
        () if lying.mode & 0o022 != 0 => Some("others may write it".to_owned()),
        () if lying.links > 1 => Some("it is a file that has another name".to_owned()),
        () => None,
    }
}
