//! A file that is locked and recovered, before its layout is read.
//!
//! Reading the layout takes longer the more blocks there are, so a mount reads it with the first save.

use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::lock;
use super::opened::{Opened, check_rights, open_locked};
use super::recover::recover;
use super::sidecar::HeldSource;
use super::target::Target;
use crate::error::{Error, Result};
use crate::format::editor::DeviceLimits;
use crate::format::recovery::Recovered;
use crate::source::storage::{Rights, Storage, System};

/// A source that is locked and recovered. Its layout is not read yet, because that takes longer the more
/// blocks there are.
#[derive(Debug)]
pub struct Locked<S: Storage = System> {
    storage: S,
    held: HeldSource<S>,
    file: S::File,
    lock: Option<S::File>,
    recovered: Recovered,
    lock_error: Option<String>,
    note: Option<lock::Note>,
    limits: DeviceLimits,
    rights: Option<Rights>,
}

impl<S: Storage> Locked<S> {
    /// Opens, locks and recovers the file at a path, which leads through no link that another user may change.
    /// The directory is held.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::Kind::ReadOnly) if the file can't be written. [`Busy`](crate::Kind::Busy) if
    /// another program holds the lock. The message names that program.
    pub fn open_in(storage: S, path: &Path, state: Option<PathBuf>) -> Result<Self> {
        let held = HeldSource::at(&storage, path, state).map_err(|error| Error::from(error).of(path))?;
        Self::open(storage, held)
    }

    /// Opens, locks and recovers a file in a directory that is held open.
    pub(super) fn open(storage: S, held: HeldSource<S>) -> Result<Self> {
        let Opened { file, lock, lock_error } = open_locked(&storage, &held)?;
        let label = || held.label(&storage);
        let recovered = recover(&storage, &file, &held).map_err(|error| error.of(label()))?;
        held.check_places(&storage).map_err(|error| error.of(label()))?;
        let (note, limits, rights) = Default::default();
        Ok(Self { storage, held, file, lock, recovered, lock_error, note, limits, rights })
    }

    /// Returns the result of the recovery that was made when the file was opened.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Returns the reason why the file is not locked, if its file system has no locks.
    pub fn lock_error(&self) -> Option<&str> {
        self.lock_error.as_deref()
    }

    /// Writes a note that this process, mounted on `mount_point`, holds the file.
    ///
    /// Must be called after the last fork.
    pub fn held_for(&mut self, mount_point: &Path) {
        if let Some(state) = &self.held.state {
            self.note = lock::Note::write(state, self.held.note(), mount_point);
        }
    }

    /// Shares `limits`, the record of the plans that file systems refused, with other targets.
    pub fn share(&mut self, limits: &DeviceLimits) {
        self.limits = limits.clone();
    }

    /// Refuses this file, and each file that replaces it, unless it has these rights.
    ///
    /// # Errors
    /// ESTALE if this file has others.
    pub fn demand(&mut self, rights: Rights) -> Result<()> {
        self.rights = Some(rights);
        check_rights(&self.storage, &self.file, self.rights)
    }

    /// Reads the file's layout.
    ///
    /// # Errors
    /// The reason why the layout can't be read. The file stays locked.
    pub fn read(self) -> std::result::Result<Target<S>, (Box<Self>, Error)> {
        let layout = match Layout::read(&self.storage, &self.file, &self.held.label(&self.storage)) {
            Ok(layout) => layout,
            Err(error) => {
                let error = match self.recovered.set_aside.first() {
                    Some((name, why)) => error.within(format!(
                        "a save was interrupted, and its journal, now {}, could not be used: {why}",
                        name.display()
                    )),
                    None => error,
                };
                let error = error.of(self.held.label(&self.storage));
                return Err((Box::new(self), error));
            }
        };
        Ok(Target {
            storage: self.storage,
            held: self.held,
            file: self.file,
            lock: self.lock,
            reads_only: false,
            layout,
            recovered: self.recovered,
            lock_error: self.lock_error,
            _note: self.note,
            limits: self.limits,
            rights: self.rights,
            rename_unsynced: false,
        })
    }
}

impl<S: Storage> Target<S> {
    /// Opens, locks and recovers a file, and reads its layout, as [`Locked::open_in`] does.
    pub fn open_in(storage: S, path: &Path, state: Option<PathBuf>) -> Result<Self> {
        Locked::open_in(storage, path, state)?.read().map_err(|(_, error)| error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::format::asdf::edit::SaveOptions;

    #[test]
    fn a_file_with_other_rights_does_not_take_the_place_of_the_locked_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x.asdf");
        let text = |value| format!("#ASDF 1.0.0\n%YAML 1.1\n---\na: {value}\n...\n").into_bytes();
        let put = |mode| {
            let new = dir.path().join("new");
            fs::write(&new, text(1)).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        put(0o644);
        let mut locked = Locked::open_in(System, &path, None).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert!(locked.demand((meta.uid(), meta.gid(), meta.mode() & !0o44)).is_err());
        locked.demand((meta.uid(), meta.gid(), meta.mode())).unwrap();
        let mut target = locked.read().map_err(|(_, error)| error).unwrap();
        put(0o600);
        let error = target.save(&text(2), &SaveOptions::default()).unwrap_err();
        assert_eq!(error.errno(), libc::ESTALE, "{error}");
        assert_eq!(fs::read(&path).unwrap(), text(1));
        put(0o644);
        target.save(&text(2), &SaveOptions::default()).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&text(2)[..text(2).len() - 4]));
    }
}
