//! Recovers a file after a crash: finishes or undoes the interrupted save, and removes its journal and image.
//!
//! A journal belongs to the file if the bytes show that the file is the old version, the new version, or
//! a mixture of both. A journal that other users could have written changes nothing. A journal that can't be
//! used is not ignored: the file may be half-saved, so the file is refused until the user decides. Only a
//! file that is no journal is renamed out of the way.
//!
//! An interrupted recovery can be repeated.

use std::io;
use std::path::{Path, PathBuf};

use super::journal::{Journal, Method, Unreadable, begins, exists};
use super::mark;
use super::settle::{Settling, SourceState};
use super::sidecar::{SidecarPaths, aside, with_asides};
use crate::error::{Error, Kind, Result};
use crate::format::recovery::{Condition, Recovered, SaveSide};
use crate::source::storage::{Meta, Storage};

/// The end of messages about a file that can't be proven to be one version.
const IF_RIGHT: &str = "restore the file from a backup; or, if it is right as it is, remove the journal";

/// Recovers the open and locked source with the journals and images in `places`.
pub(super) fn recover<S: Storage>(storage: &S, file: &S::File, places: &[SidecarPaths]) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for place in places {
        let mut recovery = Recovery { storage, file, place, recovered: &mut recovered };
        for journal in journals(storage, place)? {
            recovery.journal(&journal)?;
        }
    }
    if mark::is_marked(storage, file)? {
        return Err(Error::new(Kind::Unfinished, no_journal(places)));
    }
    for place in places {
        Recovery { storage, file, place, recovered: &mut recovered }.image()?;
    }
    Ok(recovered)
}

/// Judges by the journals in `places` whether the source is half-saved. Changes nothing.
pub(super) fn condition<S: Storage>(
    storage: &S,
    file: &S::File,
    places: &[SidecarPaths],
) -> Result<Condition> {
    for place in places {
        for journal in journals(storage, place)? {
            match Examined::of(storage, file, place, &journal)? {
                Examined::Mixed(..) => return Ok(Condition::Halfway(mendable(&journal))),
                Examined::Unusable(why) => return Ok(Condition::Halfway(unusable(&journal, &why))),
                Examined::OneVersion(..) | Examined::NotBegun | Examined::NoJournal(_) => {}
            }
        }
    }
    Ok(match mark::is_marked(storage, file)? {
        true => Condition::Halfway(no_journal(places)),
        false => Condition::Whole,
    })
}

/// Returns the journals in a place, including those that were set aside.
fn journals<S: Storage>(storage: &S, place: &SidecarPaths) -> io::Result<Vec<PathBuf>> {
    with_asides(&place.journal, |path| exists(storage, path))
}

fn mendable(journal: &Path) -> String {
    format!(
        "a save was interrupted or is still running, and the file is a mixture of the old version and the \
         new one. It is shown once 'asdf-mount --recover' or a writable mount has made it one of the two \
         with the journal {}",
        journal.display()
    )
}

fn unusable(journal: &Path, why: &str) -> String {
    format!(
        "a save was interrupted, and the file may be a mixture of the old version and the new one: \
         'asdf-mount --recover' \
         can't use the journal {}: {why}",
        journal.display()
    )
}

fn no_journal(places: &[SidecarPaths]) -> String {
    let journals: Vec<_> = places.iter().map(|place| place.journal.display().to_string()).collect();
    format!(
        "a save was interrupted, and the file is a mixture of the old version and the new one: it begins \
         with \"#ASDF!\", \
         and its journal is missing. If the file was copied or renamed, the journal is where the file was: \
         restore it as {} and run 'asdf-mount --recover'; or restore the file from a backup; or, to take it \
         as it is, write a space over the \"!\"",
        journals.join(" or ")
    )
}

/// The state of the source according to a journal.
#[derive(Debug)]
enum Examined<S: Storage> {
    /// The file is no journal, or another user's journal, which proves nothing.
    NoJournal(String),
    /// The save has not changed the source yet.
    NotBegun,
    /// The source is one version. The second value is the image, if the journal names one.
    OneVersion(Journal<S>, Option<S::File>),
    /// The source is a mixture of both versions. The second value is the image, if the journal names one.
    Mixed(Journal<S>, Option<S::File>),
    /// The source may be a mixture, but the journal can't be used. The text says why and what to do.
    Unusable(String),
}

impl<S: Storage> Examined<S> {
    fn of(storage: &S, file: &S::File, place: &SidecarPaths, path: &Path) -> Result<Self> {
        let (source, lying) = (storage.meta(file)?, storage.meta_at(path)?);
        if lying.mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(Self::NoJournal("it is not a regular file".to_owned()));
        }
        let distrusted = distrust(&lying, &source);
        let opened = match storage.open(path, false) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(match distrusted {
                    Some(why) => Self::NoJournal(why),
                    None => {
                        Self::Unusable("this user can't read it; its owner can recover the file".to_owned())
                    }
                });
            }
            Err(error) => return Err(Error::from(error).of(path)),
        };
        let examined = match Journal::read(storage, opened) {
            Ok(journal) => Self::of_whole(storage, file, place, journal)?,
            Err(unreadable) => Self::of_unreadable(storage, file, path, unreadable)?,
        };
        Ok(match (examined, distrusted) {
            (Self::NoJournal(_) | Self::NotBegun | Self::OneVersion(..), Some(why)) => Self::NoJournal(why),
            // Anybody can create an unusable journal, so it proves nothing.
            (Self::Unusable(_), Some(why)) if is_strangers(&lying, &source) => Self::NoJournal(why),
            (Self::Mixed(..) | Self::Unusable(_), Some(why)) => {
                let owner = source.uid;
                Self::Unusable(format!(
                    "{why}. If it is right, make it yours alone (chown {owner}, chmod go-w) and recover \
                     again; \
                     else remove it"
                ))
            }
            (examined, None) => examined,
        })
    }

    fn of_unreadable(storage: &S, file: &S::File, path: &Path, unreadable: Unreadable<S>) -> Result<Self> {
        Ok(match unreadable {
            Unreadable::Blank if !mark::is_marked(storage, file)? => Self::NotBegun,
            Unreadable::Unfinished(journal)
                if Settling::new(storage, file, &journal, None).is_not_begun()? =>
            {
                Self::NotBegun
            }
            Unreadable::Blank | Unreadable::Unfinished(_) | Unreadable::Damaged => {
                Self::Unusable(format!("it is truncated or damaged; {IF_RIGHT}"))
            }
            Unreadable::OtherVersion => Self::Unusable(format!(
                "another version of asdf-mount made it; recover the file with that version, or {IF_RIGHT}"
            )),
            Unreadable::NoJournal => Self::NoJournal("it is not a journal".to_owned()),
            Unreadable::System(error) => return Err(Error::from(error).of(path)),
        })
    }

    fn of_whole(storage: &S, file: &S::File, place: &SidecarPaths, journal: Journal<S>) -> Result<Self> {
        let image = match journal.header.way {
            Method::Image => match open_image(storage, file, place, &journal)? {
                Some(image) => Some(image),
                // The image's name was lost before anything was changed.
                None if Settling::new(storage, file, &journal, None).is_not_begun()? => {
                    return Ok(Self::NotBegun);
                }
                None => {
                    let image = place.image.display();
                    return Ok(Self::Unusable(format!(
                        "the image of the new file, which it names, is missing; restore it as {image}, or \
                         {IF_RIGHT}"
                    )));
                }
            },
            _ => None,
        };
        let settling = Settling::new(storage, file, &journal, image.as_ref());
        let changed = |why: &str| Self::Unusable(format!("the file was changed since: {why}; {IF_RIGHT}"));
        Ok(match settling.look()? {
            SourceState::Old | SourceState::New => Self::OneVersion(journal, image),
            SourceState::Mixed if settling.has_rest()? => Self::Mixed(journal, image),
            SourceState::Mixed => changed("bytes differ that the save did not change"),
            // After a power cut a removed journal may reappear beside a file that was saved again since.
            SourceState::Foreign(why) if !settling.has_rest()? && !mark::is_marked(storage, file)? => {
                Self::NoJournal(format!("the file was replaced since: {why}"))
            }
            SourceState::Foreign(why) => changed(&why),
        })
    }
}

/// Finds the image that a journal names by its digest, and opens it; `None` if it is not there.
fn open_image<S: Storage>(
    storage: &S,
    file: &S::File,
    place: &SidecarPaths,
    journal: &Journal<S>,
) -> Result<Option<S::File>> {
    let source = storage.meta(file)?;
    for path in with_asides(&place.image, |path| exists(storage, path))? {
        let lying = storage.meta_at(&path)?;
        // Without this check, another user's file could make a daemon of root write arbitrary bytes into the
        // source.
        let is_file = lying.mode & libc::S_IFMT == libc::S_IFREG;
        if !is_file || lying.identity.size != journal.header.image_size || distrust(&lying, &source).is_some()
        {
            continue;
        }
        let image = storage.open(&path, false).map_err(|error| Error::from(error).of(&path))?;
        if journal.header.digest_image(storage, &image)? == journal.header.image_digest {
            return Ok(Some(image));
        }
    }
    Ok(None)
}

#[derive(Debug)]
struct Recovery<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    place: &'a SidecarPaths,
    recovered: &'a mut Recovered,
}

impl<S: Storage> Recovery<'_, S> {
    fn journal(&mut self, path: &Path) -> Result<()> {
        match Examined::of(self.storage, self.file, self.place, path)? {
            Examined::NoJournal(why) if path == self.place.journal => self.set_aside(&why),
            Examined::NoJournal(_) => Ok(()),
            Examined::NotBegun => self.remove(path),
            Examined::OneVersion(journal, image) | Examined::Mixed(journal, image) => {
                let settling = Settling::new(self.storage, self.file, &journal, image.as_ref());
                let outcome = match settling.settle()? {
                    SourceState::New => SaveSide::New,
                    SourceState::Old => SaveSide::Old,
                    SourceState::Mixed => {
                        return Err(Error::new(
                            Kind::Unfinished,
                            "the interrupted save could be neither finished nor undone",
                        ));
                    }
                    SourceState::Foreign(why) => {
                        return Err(Error::new(Kind::Unfinished, unusable(path, &why)));
                    }
                };
                self.recovered.outcome = Some(outcome);
                self.remove(path)
            }
            Examined::Unusable(why) => Err(Error::new(Kind::Unfinished, unusable(path, &why))),
        }
    }

    /// Removes images that were never put in the source's place.
    fn image(&mut self) -> Result<()> {
        for path in with_asides(&self.place.image, |path| exists(self.storage, path))? {
            // The removal of the journal that names this image may not be durable yet.
            self.storage.sync_dir(&self.place.dir)?;
            let source = self.storage.meta(self.file)?;
            let why_not = not_ours(&self.storage.meta_at(&path)?, &source);
            match (self.storage.unlink(&path), why_not) {
                (Ok(()), _) => self.recovered.removed.push(path),
                (Err(_), Some(why)) => self.recovered.in_the_way.push((path, why)),
                (Err(error), None) => return Err(Error::from(error).of(path)),
            }
        }
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> Result<()> {
        self.storage.unlink(path).map_err(|error| Error::from(error).of(path))?;
        self.recovered.removed.push(path.to_owned());
        Ok(())
    }

    /// Renames a file that has the journal's name but is no journal. If it can't be renamed, it stays.
    fn set_aside(&mut self, why: &str) -> Result<()> {
        match self.rename_aside(&self.place.journal) {
            Ok(name) => self.recovered.set_aside.push((name, why.to_owned())),
            Err(error) if matches!(error.errno(), libc::EPERM | libc::EACCES) => {
                self.recovered.in_the_way.push((self.place.journal.clone(), why.to_owned()));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn rename_aside(&self, path: &Path) -> Result<PathBuf> {
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

/// Fails if a new journal at `path` would not be trusted after a crash.
pub(super) fn check_believed<S: Storage>(storage: &S, path: &Path, source: &S::File) -> io::Result<()> {
    match not_ours(&storage.meta_at(path)?, &storage.meta(source)?) {
        None => Ok(()),
        Some(why) => {
            let why = format!("a journal there would not be trusted after a crash: {why}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

/// True if `place` holds a file that a save of `source` may have left there.
pub(super) fn is_left_in<S: Storage>(storage: &S, place: &SidecarPaths, source: &Path) -> bool {
    let is_left = |sidecar: &Path| match (storage.meta_at(sidecar), storage.meta_at(source)) {
        (Ok(meta), Ok(source)) => !is_strangers(&meta, &source),
        // A file that can't be examined now may still be there.
        _ => exists(storage, sidecar).unwrap_or(true),
    };
    [&place.journal, &place.image].into_iter().any(|sidecar| is_left(sidecar))
        // A file that was set aside and is no journal stays there, and is no sign of a save.
        || place.journals().skip(1).any(|aside| begins(storage, &aside))
}

/// True if a file's owner is neither root, nor this user, nor the owner of the source.
fn is_strangers(lying: &Meta, source: &Meta) -> bool {
    ![0, source.uid, rustix::process::geteuid().as_raw()].contains(&lying.uid)
}

/// Returns why a file can't come from a save of the source; `None` if it can.
fn not_ours(lying: &Meta, source: &Meta) -> Option<String> {
    match lying.mode & libc::S_IFMT == libc::S_IFREG {
        true => distrust(lying, source),
        false => Some("it is not a regular file".to_owned()),
    }
}

/// Returns why a user without write permission on the source could have written a journal; `None` if none
/// could.
fn distrust(lying: &Meta, source: &Meta) -> Option<String> {
    // On some file systems every file is writable for everybody.
    let same_group = if lying.gid == source.gid { source.mode & 0o020 } else { 0 };
    let allowed = source.mode & 0o002 | same_group;
    if is_strangers(lying, source) {
        return Some(format!("it belongs to another user (uid {})", lying.uid));
    }
    (lying.mode & 0o022 & !allowed != 0).then(|| "other users can write to it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_saved_files_are_told_in_full() {
        assert_eq!(
            mendable(Path::new("/d/j")),
            "a save was interrupted or is still running, and the file is a mixture of the old version and the new \
             one. It is shown once 'asdf-mount --recover' or a writable mount has made it one of the two with the \
             journal /d/j"
        );
        assert_eq!(
            unusable(Path::new("/d/j"), "it is truncated or damaged"),
            "a save was interrupted, and the file may be a mixture of the old version and the new one: 'asdf-mount \
             --recover' can't use the journal /d/j: it is truncated or damaged"
        );
        let place = |dir: &str| SidecarPaths {
            dir: dir.into(),
            journal: format!("{dir}/j").into(),
            image: format!("{dir}/i").into(),
            is_state: false,
        };
        assert_eq!(
            no_journal(&[place("/d"), place("/e")]),
            "a save was interrupted, and the file is a mixture of the old version and the new one: it begins with \
             \"#ASDF!\", and its journal is missing. If the file was copied or renamed, the journal is where the file \
             was: restore it as /d/j or /e/j and run 'asdf-mount --recover'; or restore the file from a backup; or, \
             to take it as it is, write a space over the \"!\""
        );
    }
}
