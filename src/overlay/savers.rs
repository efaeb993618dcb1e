//! Saves through the sessions of [`crate::format::asdf::edit`]: checked, planned, journalled.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::format::asdf::edit::check::report_of_warnings;
use crate::format::asdf::edit::session::{NotSaved, Outcome, Session, Settings};
use crate::format::asdf::edit::{self, Condition, Locked, Recovered, Refusals};
use crate::format::{Container, asdf};
use crate::overlay::saver::{Head, Refused, Saved, Saver, Savers, Site};
use crate::source::storage::System;
use crate::user_dirs::STATE;

/// Gives each ASDF file a session.
#[derive(Clone, Debug)]
pub struct Sessions {
    settings: Settings,
    /// Where the mount is, for whoever finds a file locked.
    mountpoint: PathBuf,
    /// What file systems of the mount can't do.
    refusals: Refusals,
}

impl Sessions {
    /// Sessions that judge and save as `settings` say, of a mount on `mountpoint`.
    pub fn new(settings: Settings, mountpoint: &Path) -> Self {
        Self { settings, mountpoint: mountpoint.to_owned(), refusals: Refusals::default() }
    }

    /// Locks the file by its own path, or, where the mount covers that, by the directory that was
    /// opened before. The state directory names what it holds by path, so it is not used then.
    fn locked(&self, site: &Site) -> Result<Locked> {
        let (path, state) = self.names(site)?;
        let locked = Locked::open_in(System, &path, state);
        locked.map_err(|error| Error::new(error.kind(), error.message()).of(site.label()))
    }

    fn names(&self, site: &Site) -> Result<(PathBuf, Option<PathBuf>)> {
        names(site, Some(&self.mountpoint))
    }
}

/// The path of a file, and the state directory if it may be used.
fn names(site: &Site, mountpoint: Option<&Path>) -> Result<(PathBuf, Option<PathBuf>)> {
    let dir = rustix::fs::readlink(fd_path(site), Vec::new())?;
    let dir = PathBuf::from(OsString::from_vec(dir.into_bytes()));
    let covered = |path: &Path| mountpoint.is_some_and(|mountpoint| path.starts_with(mountpoint));
    Ok(match covered(&dir) {
        true => (site.path(), None),
        // Whoever asks may be the mount itself, which would wait for its own answer.
        false => (dir.join(site.name()), STATE.path().ok().filter(|state| !covered(state))),
    })
}

/// Finds out whether a file is one file, and changes nothing.
///
/// # Errors
///
/// [`Kind::Unfinished`] if a save has left it half the old one and half the new one.
pub(crate) fn is_whole(site: &Site, mountpoint: Option<&Path>) -> Result<()> {
    let (path, state) = names(site, mountpoint)?;
    match edit::condition(&path, state.as_deref()) {
        Ok(Condition::Halfway(journal)) => Err(Error::new(
            Kind::Unfinished,
            format!(
                "a save was interrupted, or takes long, and the file is half the old one and half the new \
                 one: nothing of it is shown before 'asdf-mount --recover {}', or a mount for writing, has \
                 made it one of the two by the journal {}",
                site.label().display(),
                journal.display()
            ),
        )
        .of(site.label())),
        Ok(Condition::Whole) => Ok(()),
        Err(error) => {
            tracing::warn!(
                "{}: whether a save was interrupted can't be told: {}",
                site.label().display(),
                error.message()
            );
            Ok(())
        }
    }
}

fn fd_path(site: &Site) -> PathBuf {
    site.path().parent().map_or_else(PathBuf::new, Path::to_owned)
}

impl Savers for Sessions {
    fn can_save(&self, container: &dyn Container) -> bool {
        container.format() == asdf::NAME
    }

    fn open(&self, site: Site) -> Result<Box<dyn Saver>> {
        let mut locked = self.locked(&site)?;
        locked.held_for(&self.mountpoint);
        locked.share(&self.refusals);
        if let Some(trouble) = locked.lock_trouble() {
            tracing::warn!("{}: goes on without a lock: {trouble}", site.label().display());
        }
        tell(locked.recovered(), site.label());
        Ok(Box::new(SessionSaver { held: Held::Locked(Box::new(locked)), settings: self.settings, site }))
    }

    fn recover(&self, site: Site) -> Result<()> {
        let (path, state) = self.names(&site)?;
        if !edit::is_interrupted(&path, state.as_deref()) {
            return Ok(());
        }
        match edit::recover_in(&path, state.as_deref()) {
            Ok(recovered) => {
                tell(&recovered, site.label());
                return Ok(());
            }
            // Another program has the file: it may be saving just now.
            Err(error) if error.kind() == Kind::Busy => {}
            Err(error) => tracing::warn!("{}: {}", site.label().display(), error.message()),
        }
        is_whole(&site, Some(&self.mountpoint))
    }
}

/// Says in the log what a recovery did.
fn tell(recovered: &Recovered, label: &Path) {
    let label = label.display();
    match recovered.outcome {
        Some(edit::Outcome::Old) => tracing::warn!("{label}: a save that was interrupted is undone"),
        Some(edit::Outcome::New) => tracing::warn!("{label}: a save that was interrupted is finished"),
        None => {}
    }
    for (journal, why) in &recovered.set_aside {
        tracing::warn!("{label}: a journal was not used and is kept as {}: {why}", journal.display());
    }
    for (lying, why) in &recovered.in_the_way {
        tracing::warn!("{label}: {}", edit::in_the_way(lying, why));
    }
}

#[derive(Debug)]
struct SessionSaver {
    held: Held,
    settings: Settings,
    /// Keeps the directory open by which the file may be named.
    site: Site,
}

/// A file that is locked: mounting must not take the longer the more blocks there are, so they are
/// looked for when the first text is to be saved.
#[derive(Debug)]
enum Held {
    Locked(Box<Locked>),
    Session(Box<Session>),
    /// For a moment, between the two.
    Neither,
}

impl SessionSaver {
    fn session(&mut self) -> std::result::Result<&mut Session, Refused> {
        if matches!(self.held, Held::Locked(_))
            && let Held::Locked(locked) = std::mem::replace(&mut self.held, Held::Neither)
        {
            match locked.read() {
                Ok(target) => {
                    let session = Session::of(target, self.site.label(), self.settings);
                    self.held = Held::Session(Box::new(session));
                }
                Err((locked, error)) => {
                    self.held = Held::Locked(locked);
                    let error = Error::new(error.kind(), error.message()).of(self.site.label());
                    return Err(failed(&error));
                }
            }
        }
        match &mut self.held {
            Held::Session(session) => Ok(session),
            _ => Err(failed(&Error::new(Kind::System(libc::EIO), "the file can't be saved any more"))),
        }
    }

    /// Opens the file for writing and closes it: the descriptor by which it is written stays open, and
    /// those who wait with inotify for the end of writing would never hear of it.
    fn close_again(&mut self) {
        if let Held::Session(session) = &mut self.held {
            // It was saved whatever comes of this.
            let _ = std::fs::OpenOptions::new().write(true).open(session.target().path());
        }
    }

    /// Whether the file's head is still the one that the draft began from.
    fn is_current(&mut self, began_from: &Head) -> std::result::Result<(), Refused> {
        let now = self.session()?.head_now().map_err(|error| failed(&error))?;
        if now == (began_from.len, began_from.md5) { Ok(()) } else { Err(conflict()) }
    }
}

impl Saver for SessionSaver {
    fn check(&mut self, text: &[u8], began_from: &Head) -> std::result::Result<(), Refused> {
        self.is_current(began_from)?;
        self.session()?.check(text).map(|_| ()).map_err(refused)
    }

    fn try_save(
        &mut self,
        text: &[u8],
        began_from: &Head,
        moving: &mut dyn FnMut(),
    ) -> std::result::Result<Saved, Refused> {
        self.is_current(began_from)?;
        let saved = self.session()?.save(text, moving).map(told).map_err(refused)?;
        if saved.written {
            self.close_again();
        }
        Ok(saved)
    }

    fn settle(&mut self) -> Result<()> {
        match &mut self.held {
            Held::Session(session) => session.target().settle(),
            // It was settled when it was locked, and nothing was saved since.
            Held::Locked(_) | Held::Neither => Ok(()),
        }
    }
}

fn refused(why: NotSaved) -> Refused {
    match why {
        NotSaved::Failed(error) => failed(&error),
        NotSaved::Refused(refusal) => Refused {
            errno: refusal.errno(),
            summary: refusal.to_string(),
            explanation: refusal.report(),
            for_good: true,
            unsettled: false,
        },
    }
}

fn told(outcome: Outcome) -> Saved {
    let (len, md5) = outcome.head;
    Saved {
        head: Head { len, md5 },
        written: outcome.saved.plan.is_some(),
        mended: !outcome.mends.is_empty(),
        notes: outcome.mends,
        warnings: outcome.warnings.iter().map(ToString::to_string).collect(),
        report: report_of_warnings(&outcome.warnings),
    }
}

fn conflict() -> Refused {
    let summary = "another program changed the tree since this edit began";
    Refused {
        errno: libc::EBUSY,
        summary: summary.to_owned(),
        explanation: format!(
            "{summary}\n\nWhat to do: compare your text with tree.yaml as it is now, and save again\n"
        ),
        for_good: false,
        unsettled: false,
    }
}

fn failed(error: &Error) -> Refused {
    let (errno, to_do) = match error.kind() {
        // Editors that are told of permissions offer to become root, which would not help.
        Kind::System(libc::EPERM | libc::EACCES) => (libc::EIO, "see whether the file may still be written"),
        Kind::System(libc::ENOSPC | libc::EDQUOT) => (libc::ENOSPC, "make room on the disk, and save again"),
        Kind::TooLarge | Kind::System(libc::EFBIG) => {
            (libc::EFBIG, "shorten the text, or save again when what limits it is gone")
        }
        Kind::Refused => (libc::EINVAL, "see to what is said above, and save again"),
        Kind::Busy => (
            libc::EBUSY,
            "save again when the other program is done; where the file is gone for good, asdf-mount --set-tree gives the text to another",
        ),
        _ => (error.errno(), "save again; the log may tell more"),
    };
    let summary = error.to_string();
    let explanation = format!("{summary}\n\nWhat to do: {to_do}\n");
    let unsettled = error.kind() == Kind::Unfinished;
    Refused { errno, summary, explanation, for_good: false, unsettled }
}
