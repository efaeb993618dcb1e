//! Saves through the sessions of [`edit`](crate::edit): checked, planned, journalled.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::saver::{Head, Refused, Saved, Saver, Savers, Site};
use crate::edit::session::{NotSaved, Outcome, Session, Settings};
use crate::edit::{Target, state_directory};
use crate::error::{Error, Kind, Result};
use crate::format::Container;
use crate::format::asdf;
use crate::source::storage::System;

/// Gives each ASDF file a session.
#[derive(Clone, Debug)]
pub struct Sessions {
    settings: Settings,
    /// Where the mount is, for whoever finds a file locked.
    mountpoint: PathBuf,
}

impl Sessions {
    /// Sessions that judge and save as `settings` say, of a mount on `mountpoint`.
    pub fn new(settings: Settings, mountpoint: &Path) -> Self {
        Self { settings, mountpoint: mountpoint.to_owned() }
    }

    /// Opens the target by its own path, or, where the mount covers that, by the directory that was
    /// opened before. The state directory names what it holds by path, so it is not used then.
    fn target(&self, site: &Site) -> Result<Target> {
        let dir = rustix::fs::readlink(fd_path(site), Vec::new())?;
        let dir = PathBuf::from(OsString::from_vec(dir.into_bytes()));
        let opened = match dir.starts_with(&self.mountpoint) {
            true => Target::open_in(System, &site.path(), None),
            false => Target::open_in(System, &dir.join(site.name()), state_directory()),
        };
        opened.map_err(|error| Error::new(error.kind(), error.message()).of(site.label()))
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
        let mut target = self.target(&site)?;
        target.held_for(&self.mountpoint);
        if let Some(trouble) = target.lock_trouble() {
            tracing::warn!("{}: goes on without a lock: {trouble}", site.label().display());
        }
        for (journal, why) in &target.recovered().set_aside {
            tracing::warn!(
                "{}: a journal was not used and is kept as {}: {why}",
                site.label().display(),
                journal.display()
            );
        }
        let session = Session::of(target, site.label(), self.settings);
        Ok(Box::new(SessionSaver { session, _site: site }))
    }
}

#[derive(Debug)]
struct SessionSaver {
    session: Session,
    /// Keeps the directory open by which the file may be named.
    _site: Site,
}

impl SessionSaver {
    /// Whether the file's head is still the one that the draft began from.
    fn is_current(&mut self, began_from: &Head) -> std::result::Result<(), Refused> {
        let now = self.session.head_now().map_err(|error| failed(&error))?;
        if now == (began_from.len, began_from.md5) { Ok(()) } else { Err(conflict()) }
    }
}

impl Saver for SessionSaver {
    fn check(&mut self, text: &[u8], began_from: &Head) -> std::result::Result<(), Refused> {
        self.is_current(began_from)?;
        self.session.check(text).map(|_| ()).map_err(refused)
    }

    fn try_save(
        &mut self,
        text: &[u8],
        began_from: &Head,
        moving: &mut dyn FnMut(),
    ) -> std::result::Result<Saved, Refused> {
        self.is_current(began_from)?;
        self.session.save(text, moving).map(told).map_err(refused)
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
        },
    }
}

fn told(outcome: Outcome) -> Saved {
    let mended = !outcome.mends.is_empty();
    let warnings = outcome.warnings.into_iter().map(|warning| format!("warning: {warning}"));
    Saved { mended, notes: outcome.mends.into_iter().chain(warnings).collect() }
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
    }
}

fn failed(error: &Error) -> Refused {
    let (errno, to_do) = match error.kind() {
        // Editors that are told of permissions offer to become root, which would not help.
        Kind::System(libc::EPERM | libc::EACCES) => (libc::EIO, "see whether the file may still be written"),
        Kind::System(libc::ENOSPC | libc::EDQUOT) => (libc::ENOSPC, "make room on the disk, and save again"),
        Kind::Busy => (libc::EBUSY, "save again when the other program is done"),
        _ => (error.errno(), "save again; the log may tell more"),
    };
    let summary = error.to_string();
    let explanation = format!("{summary}\n\nWhat to do: {to_do}\n");
    Refused { errno, summary, explanation, for_good: false }
}
