//! Recovers a file after a crash: finishes or undoes the interrupted save, and removes its journal and image.
//!
//! A journal belongs to the file if the bytes show that the file is the old version, the new version, or
//! a mixture of both. A journal that other users could have written changes nothing. A journal that can't be
//! used is not ignored: the file may be half-saved, so the file is refused until the user decides. Only a
//! file that is no journal is renamed out of the way.
//!
//! A journal of a save that may be in progress is left alone, as are its images: not every program that may save the file
//! shares its locks with this one. The [saver](super::saver) must be proven to have ended.
//!
//! An interrupted recovery can be repeated.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekable::error::{Error, Kind, Result};
use seekable::source::storage::{Meta, Storage};
use seekable::source::{Identity, SourceStat};

use super::half_saved::{HalfSaved, SourceState};
use super::image::{self, Leftover, leftovers};
use super::journal::{Header, Journal, Method, Unreadable, begins, exists, is_absent};
use super::layout::Layout;
use super::mark;
use super::recovery::{Condition, Recovered, SaveSide, Traces};
use super::saver::{Life, Saver};
use super::sidecar::{HeldSource, Sidecars, aside, with_asides};

/// The end of messages about a file that can't be proven to be one version.
const IF_RIGHT: &str = "restore the file from a backup; or, if it is right as it is, remove the journal";

/// The number of looks at a journal, and the pause between them. If nothing changes meanwhile, `--recover` takes it for that
/// of a save that has ended, and a journal without a header is not one that is just being written.
const LOOKS: usize = 300;
const PAUSE: Duration = Duration::from_millis(10);
/// The age from which a journal without a header, or an image, is that of a crash, also by the clock of another machine.
const OLD: Duration = Duration::from_secs(60);
/// Bytes compared at once.
const PIECE: usize = 256 << 10;

/// The initiator of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The only part of this process that saves the file.
    Editor,
    /// A part of this process that reads the file.
    Reader,
    /// The user, by `--recover`: the file is not being saved.
    Hand,
}

/// The reasons to believe that no other program saves the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The initiator.
    pub(super) by: By,
    /// True if the file is locked, and not only open because its file system has no locks.
    pub(super) is_locked: bool,
}

/// Recovers the open source with its journals and images.
///
/// # Errors
///
/// [`Kind::Busy`] if another program may be saving the file.
pub(crate) fn recover<S: Storage>(
    storage: &S,
    file: &S::File,
    source: &HeldSource<S>,
    claim: Claim,
) -> Result<Recovered> {
    let places = source.existing(storage);
    let mut recovered = Recovered::default();
    for place in &places {
        let mut recovery = Recovery { storage, file, place, claim, recovered: &mut recovered };
        for journal in journals(storage, place)? {
            recovery.journal(&journal)?;
        }
    }
    if mark::is_marked(storage, file)? {
        return Err(Error::new(Kind::Unfinished, no_journal(&source.journals(storage))));
    }
    for place in &places {
        Recovery { storage, file, place, claim, recovered: &mut recovered }.images()?;
    }
    Ok(recovered)
}

/// Judges by its journals whether the source is half-saved. Changes nothing.
pub(crate) fn condition<S: Storage>(
    storage: &S,
    file: &S::File,
    source: &HeldSource<S>,
) -> Result<Condition> {
    for place in source.existing(storage) {
        for journal in journals(storage, &place)? {
            match Examined::of(storage, file, &place, &journal)?.0 {
                Examined::Mixed(..) => {
                    return Ok(Condition::Halfway(mendable(&place.label(storage, &journal))));
                }
                Examined::Unusable(why) => {
                    return Ok(Condition::Halfway(unusable(&place.label(storage, &journal), &why)));
                }
                Examined::OneVersion(..)
                | Examined::NotBegun
                | Examined::OfAnother(_)
                | Examined::NoJournal(_) => {}
            }
        }
    }
    if mark::is_marked(storage, file)? {
        return Ok(Condition::Halfway(no_journal(&source.journals(storage))));
    }
    Ok(Condition::Whole)
}

/// Returns the names of the journals in a place, including those that were set aside.
fn journals<S: Storage>(storage: &S, place: &Sidecars<S>) -> io::Result<Vec<OsString>> {
    with_asides(&place.journal, |name| exists(storage, &place.dir, name))
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

fn no_journal(journals: &[PathBuf]) -> String {
    let journals: Vec<_> = journals.iter().map(|journal| journal.display().to_string()).collect();
    format!(
        "a save was interrupted, and the file is a mixture of the old version and the new one: it begins \
         with \"#ASDF!\", \
         and its journal is missing. If the file was copied or renamed, the journal is where the file was: \
         restore it as {} and run 'asdf-mount --recover'; or restore the file from a backup; or, to take it \
         as it is, write a space over the \"!\"",
        journals.join(" or ")
    )
}

fn overwritten() -> String {
    format!("another program wrote to the file in the same moment as the save; {IF_RIGHT}")
}

/// The state of the source according to a journal.
#[derive(Debug)]
enum Examined<S: Storage> {
    /// The file is no journal, or another user's journal, which proves nothing.
    NoJournal(String),
    /// The file is a journal, but of another file, which had the source's name before it. The text says why.
    OfAnother(String),
    /// The save has not changed the source yet.
    NotBegun,
    /// The source is one version. The second value is the image, if the journal names one.
    OneVersion(Journal<S>, Option<S::File>),
    /// The source is a mixture of both versions. The second value is the image, if the journal names one.
    Mixed(Journal<S>, Option<S::File>),
    /// The source may be a mixture, but the journal can't be used. The text says why and what to do.
    Unusable(String),
}

/// The file that was examined as a journal.
#[derive(Clone, Copy, Debug)]
struct Lying {
    /// The file.
    identity: Identity,
    /// The saver, and the number of the source's device for it. `None` for a file without a valid header.
    saver: Option<(Saver, u64)>,
}

impl Lying {
    fn of(named: &Meta) -> Self {
        Self { identity: named.identity, saver: None }
    }

    fn with(self, header: &Header) -> Self {
        Self { saver: Some((header.saver, header.device)), ..self }
    }
}

impl<S: Storage> Examined<S> {
    fn of(storage: &S, file: &S::File, place: &Sidecars<S>, name: &OsStr) -> Result<(Self, Lying)> {
        let source = storage.meta(file)?;
        // The metadata of the name are used only if it can't be opened. It may get another file at any time.
        let named = storage.meta_at(&place.dir, name)?;
        if named.mode & libc::S_IFMT != libc::S_IFREG {
            return Ok((Self::NoJournal("it is not a regular file".to_owned()), Lying::of(&named)));
        }
        let opened = match storage.open(&place.dir, name, false) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let examined = match distrust(&named, &source) {
                    Some(why) => Self::NoJournal(why),
                    None => {
                        Self::Unusable("this user can't read it; its owner can recover the file".to_owned())
                    }
                };
                return Ok((examined, Lying::of(&named)));
            }
            Err(error) => return Err(Error::from(error).of(place.label(storage, name))),
        };
        let meta = storage.meta(&opened)?;
        let mut lying = Lying::of(&meta);
        let distrusted = distrust(&meta, &source);
        let examined = match Journal::read(storage, opened) {
            Ok(journal) => {
                lying = lying.with(&journal.header);
                Self::of_whole(storage, file, place, journal)?
            }
            Err(unreadable) => {
                if let Unreadable::Unfinished(journal) = &unreadable {
                    lying = lying.with(&journal.header);
                }
                Self::of_unreadable(storage, file, unreadable)
                    .map_err(|error| error.of(place.label(storage, name)))?
            }
        };
        let examined = match (examined, distrusted) {
            (Self::NoJournal(_) | Self::OfAnother(_) | Self::NotBegun | Self::OneVersion(..), Some(why)) => {
                Self::NoJournal(why)
            }
            // Anybody can create an unusable journal, so it proves nothing.
            (Self::Unusable(_), Some(why)) if is_strangers(&meta, &source) => Self::NoJournal(why),
            (Self::Mixed(..) | Self::Unusable(_), Some(why)) => {
                let owner = source.uid;
                Self::Unusable(format!(
                    "{why}. If it is right, make it yours alone (chown {owner}, chmod go-w) and recover \
                     again; \
                     else remove it"
                ))
            }
            (examined, None) => examined,
        };
        Ok((examined, lying))
    }

    fn of_unreadable(storage: &S, file: &S::File, unreadable: Unreadable<S>) -> Result<Self> {
        Ok(match unreadable {
            Unreadable::Blank if !mark::is_marked(storage, file)? => Self::NotBegun,
            Unreadable::Unfinished(journal)
                if HalfSaved::new(storage, file, &journal, None).is_not_begun()? =>
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
            Unreadable::System(error) => return Err(error.into()),
        })
    }

    fn of_whole(storage: &S, file: &S::File, place: &Sidecars<S>, journal: Journal<S>) -> Result<Self> {
        let image = match journal.header.way {
            Method::Image => match open_image(storage, file, place, &journal)? {
                Some(image) => Some(image),
                // The image's name was lost before anything was changed.
                None if HalfSaved::new(storage, file, &journal, None).is_not_begun()? => {
                    return Ok(Self::NotBegun);
                }
                None => {
                    let image = place.label(storage, &image_name(place, &journal));
                    return Ok(Self::Unusable(format!(
                        "the image of the new file, which it names, is missing; restore it as {}, or \
                         {IF_RIGHT}",
                        image.display()
                    )));
                }
            },
            _ => None,
        };
        let half_saved = HalfSaved::new(storage, file, &journal, image.as_ref());
        let changed = |why: &str| Self::Unusable(format!("the file was changed since: {why}; {IF_RIGHT}"));
        // Such a mixture may look like another file.
        if journal.overwritten == Some(storage.meta(file)?.identity.inode) {
            return Ok(Self::Unusable(overwritten()));
        }
        Ok(match half_saved.state()? {
            // After a power cut a removed journal may reappear beside a file that was saved again since.
            SourceState::Neither(why) if half_saved.is_another()? && !mark::is_marked(storage, file)? => {
                Self::OfAnother(format!("the file was replaced since: {why}"))
            }
            // A backup of the old file has been moved over it.
            SourceState::Old if journal.overwritten.is_some() && !half_saved.is_another()? => {
                Self::OneVersion(journal, image)
            }
            // A copy of a mixture has another inode number, too.
            _ if journal.overwritten.is_some() => Self::Unusable(overwritten()),
            SourceState::Old | SourceState::New => Self::OneVersion(journal, image),
            SourceState::Mixed if half_saved.has_rest()? => Self::Mixed(journal, image),
            SourceState::Mixed => changed("bytes differ that the save did not change"),
            SourceState::Neither(why) => changed(&why),
        })
    }
}

fn image_name<S: Storage>(place: &Sidecars<S>, journal: &Journal<S>) -> OsString {
    image::name(&place.stem, journal.header.saver, journal.header.image_number)
}

/// Opens the image that a journal names; `None` if it is not there, or another file has its name.
fn open_image<S: Storage>(
    storage: &S,
    file: &S::File,
    place: &Sidecars<S>,
    journal: &Journal<S>,
) -> Result<Option<S::File>> {
    let source = storage.meta(file)?;
    let name = image_name(place, journal);
    let image = match storage.open(&place.dir, &name, false) {
        Ok(image) => image,
        Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
        Err(error) => return Err(Error::from(error).of(place.label(storage, &name))),
    };
    let meta = storage.meta(&image)?;
    // Without this check, another user's file could make a daemon of root write arbitrary bytes into the
    // source.
    let is_ours = meta.identity.size == journal.header.image_size
        && distrust(&meta, &source).is_none()
        && journal.header.digest_image(storage, &image)? == journal.header.image_digest;
    Ok(is_ours.then_some(image))
}

#[derive(Debug)]
struct Recovery<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    place: &'a Sidecars<S>,
    claim: Claim,
    recovered: &'a mut Recovered,
}

impl<S: Storage> Recovery<'_, S> {
    fn journal(&mut self, name: &OsStr) -> Result<()> {
        let (examined, lying) = match self.examine(name) {
            // The save of another program has ended meanwhile.
            Err(error) if error.errno() == libc::ENOENT && !exists(self.storage, &self.place.dir, name)? => {
                return Ok(());
            }
            answer => answer?,
        };
        match examined {
            // The file has taken the place of the one that was being saved, and no byte of that is left.
            Examined::OfAnother(_) if self.is_sound() => self.remove(name, &lying),
            Examined::NoJournal(why) | Examined::OfAnother(why) if name == self.place.journal => {
                self.set_aside(&why)
            }
            Examined::NoJournal(_) | Examined::OfAnother(_) => Ok(()),
            Examined::NotBegun => self.remove(name, &lying),
            Examined::OneVersion(journal, image) | Examined::Mixed(journal, image) => {
                let half_saved = HalfSaved::new(self.storage, self.file, &journal, image.as_ref());
                let outcome = match half_saved.recover()? {
                    SourceState::New => SaveSide::New,
                    SourceState::Old => SaveSide::Old,
                    SourceState::Mixed => {
                        return Err(Error::new(
                            Kind::Unfinished,
                            "the interrupted save could be neither finished nor undone",
                        ));
                    }
                    SourceState::Neither(why) => {
                        return Err(Error::new(
                            Kind::Unfinished,
                            unusable(&self.place.label(self.storage, name), &why),
                        ));
                    }
                };
                self.recovered.outcome = Some(outcome);
                self.remove(name, &lying)
            }
            Examined::Unusable(why) => {
                Err(Error::new(Kind::Unfinished, unusable(&self.place.label(self.storage, name), &why)))
            }
        }
    }

    /// Examines a journal of a save that has ended.
    fn examine(&self, name: &OsStr) -> Result<(Examined<S>, Lying)> {
        let (examined, lying) = Examined::of(self.storage, self.file, self.place, name)?;
        let Some(why) = self.in_use(name, &examined, &lying)? else { return Ok((examined, lying)) };
        // The save may not have written its header yet, or a person says that there is none.
        let may_wait = lying.saver.is_none() || self.claim.by == By::Hand;
        if !may_wait || (!self.is_quiet(name, &lying)? && lying.saver.is_some()) {
            return Err(Error::new(Kind::Busy, why));
        }
        let (examined, now) = Examined::of(self.storage, self.file, self.place, name)?;
        match self.in_use(name, &examined, &now)? {
            Some(why) if now.saver != lying.saver => Err(Error::new(Kind::Busy, why)),
            _ => Ok((examined, now)),
        }
    }

    /// Returns the reason why a journal may be that of a save in progress.
    fn in_use(&self, name: &OsStr, examined: &Examined<S>, lying: &Lying) -> Result<Option<String>> {
        let is_new = || !SourceStat::from(lying.identity).is_unchanged_for(OLD);
        let saver = match lying.saver {
            _ if matches!(examined, Examined::NoJournal(_)) => return Ok(None),
            Some((saver, device)) if !self.has_ended(saver, Some(device))? => saver.to_string(),
            None if matches!(examined, Examined::NotBegun) && is_new() => "another program".to_owned(),
            _ => return Ok(None),
        };
        Ok(Some(format!(
            "{saver} may be saving the file, which has the journal {}: try again when it is done; if no save is in \
             progress there, run asdf-mount --recover FILE",
            self.place.label(self.storage, name).display()
        )))
    }

    /// Watches the journal and the source; true if neither changes for a while.
    fn is_quiet(&self, name: &OsStr, lying: &Lying) -> Result<bool> {
        let source = self.storage.meta(self.file)?.identity;
        for _ in 0..LOOKS {
            self.storage.wait(PAUSE);
            let named = self.storage.meta_at(&self.place.dir, name)?.identity;
            if named != lying.identity || self.storage.meta(self.file)?.identity != source {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if a save has ended, as far as can be proven. `device` is the number of the source's device for the saver.
    fn has_ended(&self, saver: Saver, device: Option<u64>) -> Result<bool> {
        if saver == Saver::default() {
            return Ok(true);
        }
        // The saver would have the lock.
        if self.claim.is_locked && saver.is_of_this_kernel() {
            let own = self.storage.meta(self.file)?.identity.device;
            if device == Some(own) {
                return Ok(true);
            }
        }
        Ok(match saver.life() {
            Life::Ended => true,
            Life::Own => self.claim.by == By::Editor,
            Life::Unknown => false,
        })
    }

    /// True if the source is a complete file without damage.
    fn is_sound(&self) -> bool {
        Layout::read(self.storage, self.file, Path::new("")).is_ok_and(|layout| layout.sound)
    }

    /// Removes images that were never put in the source's place.
    fn images(&mut self) -> Result<()> {
        let dir = &self.place.dir;
        for Leftover { name, saver, is_swapped } in leftovers(self.storage, self.place)? {
            let lying = match self.storage.meta_at(dir, &name) {
                Ok(lying) => lying,
                // Another program has removed it meanwhile.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::from(error).of(self.place.label(self.storage, &name))),
            };
            let is_old = SourceStat::from(lying.identity).is_unchanged_for(OLD);
            let has_ended = self.has_ended(saver, None)? || self.claim.by == By::Hand && is_old;
            if !has_ended {
                continue;
            }
            let source = self.storage.meta(self.file)?;
            if not_ours(&lying, &source).is_some() {
                continue;
            }
            if is_swapped && !self.has_same_blocks(&name)? {
                self.recovered.kept.push(self.place.label(self.storage, &name));
                continue;
            }
            // The removal of the journal that names this image may not be durable yet.
            self.storage.sync_dir(dir)?;
            match self.storage.unlink(dir, &name) {
                Ok(()) => self.recovered.removed.push(self.place.label(self.storage, &name)),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(Error::from(error).of(self.place.label(self.storage, &name))),
            }
        }
        Ok(())
    }

    /// True if a file has the blocks of the source, perhaps at other offsets and without what was appended since.
    fn has_same_blocks(&self, name: &OsStr) -> Result<bool> {
        let file = self
            .storage
            .open(&self.place.dir, name, false)
            .map_err(|error| Error::from(error).of(self.place.label(self.storage, name)))?;
        let read = |file: &S::File| Layout::read(self.storage, file, Path::new(""));
        let (Ok(one), Ok(other)) = (read(&file), read(self.file)) else { return Ok(false) };
        let len = one.kept_to - one.kept_from;
        let other_len = other.kept_to - other.kept_from;
        if len != other_len && !(one.streamed && len < other_len) {
            return Ok(false);
        }
        let mut here = vec![0; PIECE];
        let mut there = vec![0; PIECE];
        let mut at = 0;
        while at < len {
            let piece = PIECE.min(usize::try_from(len - at).unwrap_or(PIECE));
            let read = self.storage.read_at(&file, one.kept_from + at, &mut here[..piece])?;
            let read_there = self.storage.read_at(self.file, other.kept_from + at, &mut there[..piece])?;
            if read == 0 || here[..read] != there[..read_there] {
                return Ok(false);
            }
            at += read as u64;
        }
        Ok(true)
    }

    /// Removes a journal, unless another file has its name by now.
    fn remove(&mut self, name: &OsStr, lying: &Lying) -> Result<()> {
        let dir = &self.place.dir;
        let named = self
            .storage
            .meta_at(dir, name)
            .map_err(|error| Error::from(error).of(self.place.label(self.storage, name)))?;
        // The inode number of a file on a server may change.
        let is_remote = self.storage.is_remote(self.file);
        let is_other = !is_remote && !named.identity.same_file(&lying.identity);
        // A save may have written its header since.
        let is_begun = lying.saver.is_none() && begins(self.storage, dir, name);
        if is_other || is_begun {
            let why = "another program is saving the file: try again when it is done";
            return Err(Error::new(Kind::Busy, why).of(self.place.label(self.storage, name)));
        }
        self.storage
            .unlink(dir, name)
            .map_err(|error| Error::from(error).of(self.place.label(self.storage, name)))?;
        self.recovered.removed.push(self.place.label(self.storage, name));
        Ok(())
    }

    /// Renames a file that has the journal's name but is no journal. If it can't be renamed, it stays.
    fn set_aside(&mut self, why: &str) -> Result<()> {
        match self.rename_aside(&self.place.journal) {
            Ok(name) => {
                self.recovered.set_aside.push((self.place.label(self.storage, &name), why.to_owned()))
            }
            Err(error) if matches!(error.errno(), libc::EPERM | libc::EACCES) => {
                self.recovered
                    .in_the_way
                    .push((self.place.label(self.storage, &self.place.journal), why.to_owned()));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn rename_aside(&self, name: &OsStr) -> Result<OsString> {
        let dir = &self.place.dir;
        for aside in aside(name) {
            if !exists(self.storage, dir, &aside)? {
                let renamed = self.storage.rename(dir, name, &aside);
                renamed.map_err(|error| Error::from(error).of(self.place.label(self.storage, name)))?;
                return Ok(aside);
            }
        }
        let full = io::Error::from_raw_os_error(libc::EEXIST);
        Err(Error::from(full)
            .within("too many journals were set aside")
            .of(self.place.label(self.storage, name)))
    }
}

/// Fails if a new journal would not be trusted after a crash.
pub(super) fn check_believed<S: Storage>(storage: &S, journal: &S::File, source: &S::File) -> io::Result<()> {
    match not_ours(&storage.meta(journal)?, &storage.meta(source)?) {
        None => Ok(()),
        Some(why) => {
            let why = format!("a journal there would not be trusted after a crash: {why}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

/// True if a save of `source` may have left a file in one of its places.
pub(super) fn is_left<S: Storage>(storage: &S, source: &HeldSource<S>) -> bool {
    traces(storage, source) == Traces::Left
}

/// Returns the traces of a save of `source` in its places.
pub(crate) fn traces<S: Storage>(storage: &S, source: &HeldSource<S>) -> Traces {
    let mut found = Traces::None;
    for place in source.existing(storage) {
        found = found.max(traces_in(storage, &place, source));
        if found == Traces::Left {
            break;
        }
    }
    found
}

fn traces_in<S: Storage>(storage: &S, place: &Sidecars<S>, source: &HeldSource<S>) -> Traces {
    let dir = &place.dir;
    let traces_at = |sidecar: &OsStr| match storage.meta_at(dir, sidecar) {
        Ok(meta) if source.meta(storage).is_ok_and(|source| is_strangers(&meta, &source)) => Traces::OfOthers,
        Ok(_) => Traces::Left,
        Err(error) if is_absent(&error) => Traces::None,
        // A file that can't be examined now may still be there.
        Err(_) => Traces::Left,
    };
    let mut found = traces_at(&place.journal);
    if found == Traces::Left {
        return Traces::Left;
    }
    for aside in place.journals().skip(1) {
        if exists(storage, dir, &aside).unwrap_or(true) {
            // A file that was set aside and is no journal stays there, and is no sign of a save.
            let is_journal = begins(storage, dir, &aside);
            found = found.max(if is_journal { Traces::Left } else { Traces::OfOthers });
        }
    }
    found
}

/// True if a file's owner is neither root, nor this user, nor the owner of the source.
fn is_strangers(lying: &Meta, source: &Meta) -> bool {
    ![0, source.uid, rustix::process::geteuid().as_raw()].contains(&lying.uid)
}

/// Returns why a file can't come from a save of the source; `None` if it can.
fn not_ours(lying: &Meta, source: &Meta) -> Option<String> {
    if lying.mode & libc::S_IFMT == libc::S_IFREG {
        distrust(lying, source)
    } else {
        Some("it is not a regular file".to_owned())
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
    use seekable::source::storage::System;

    #[test]
    fn traces_of_saves_are_told_from_files_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.asdf"), "#ASDF 1.0.0\n").unwrap();
        let source = HeldSource::at(&System, &path("a.asdf"), Some(path("no-state"))).unwrap();
        let found = || traces(&System, &source);
        assert_eq!(found(), Traces::None);
        for (name, expected) in [
            (".a.asdf.asdf-mount-journal", Traces::Left),
            (".a.asdf.asdf-mount-journal.aside", Traces::OfOthers),
        ] {
            std::fs::write(path(name), "x").unwrap();
            assert_eq!(found(), expected, "{name}");
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(path(name), Some(65_534), None).unwrap();
                assert_eq!(found(), Traces::OfOthers, "{name} of another user");
            }
            std::fs::remove_file(path(name)).unwrap();
        }
    }

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
        assert_eq!(
            no_journal(&["/d/j".into(), "/e/j".into()]),
            "a save was interrupted, and the file is a mixture of the old version and the new one: it begins with \
             \"#ASDF!\", and its journal is missing. If the file was copied or renamed, the journal is where the file \
             was: restore it as /d/j or /e/j and run 'asdf-mount --recover'; or restore the file from a backup; or, \
             to take it as it is, write a space over the \"!\""
        );
    }
}
