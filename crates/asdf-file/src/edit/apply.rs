//! Carries out a change by one of five plans. Whatever happens, the file on disk is the old one or the new
//! one.
//!
//! Plans that write a new file ([`replace`]) need no journal: one rename puts the new file in place of the old
//! one. Plans that change the file itself ([`journaled`]) write the journal first.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

use seekable::error::{Error, Kind};
use seekable::source::storage::Storage;
use seekable::source::{Identity, Readers};

use super::SavePlan;
use super::context::DeviceLimits;
use super::image::Image;
use super::layout::version;
use super::plan::PlannedChange;
use super::sidecar::{HeldSource, Sidecars};
use super::unsupported::cannot;

mod announce;
mod confirm;
mod journaled;
mod ranges;
mod replace;
mod stream;

pub(crate) use confirm::Unconfirmed;
pub(crate) use stream::{linked, not_leased};

/// Bytes compared and written at once.
const PIECE: usize = 64 << 10;

/// A save in progress.
pub(crate) struct SaveJob<'a, S: Storage> {
    /// The file system.
    pub(crate) storage: &'a S,
    /// The source's name in its directory, and the places for journal and image.
    pub(crate) held: &'a HeldSource<S>,
    /// The open source.
    pub(crate) file: &'a S::File,
    /// The change to carry out.
    pub(crate) change: &'a PlannedChange<'a>,
    /// The identity that the source must have until a plan changes it.
    pub(crate) source: std::cell::Cell<Identity>,
    /// The plans that file systems are known not to support.
    pub(crate) limits: &'a DeviceLimits,
    /// The readers of the source. They are notified before its bytes change.
    pub(crate) readers: std::cell::RefCell<&'a mut dyn Readers>,
    /// The number of syncs so far.
    pub(crate) syncs: std::cell::Cell<u32>,
    /// True if the source has a read lease. It is then open for reading only.
    pub(crate) leased: bool,
    /// Set if an image, or the replaced source, could not be removed.
    pub(crate) is_left: &'a AtomicBool,
}

/// The outcome of a plan that succeeded.
#[derive(Debug)]
pub(crate) enum Done<S: Storage> {
    /// The source itself was changed. This is how the save left it.
    SameFile(Identity),
    /// The source itself was changed, and blocks may have moved. It has to be confirmed that no other program has the
    /// source open for writing.
    Unconfirmed(Box<Unconfirmed<S>>),
    /// A new file has the source's name. The error, if any, says that the rename may not survive a crash.
    NewFile(NewFile<S::File>, Option<Error>),
}

/// The file that has taken the source's place.
#[derive(Debug)]
pub(crate) struct NewFile<F> {
    /// The file, opened like the source.
    pub(crate) file: F,
    /// The descriptor that holds the lock of the new file, if it is not `file`.
    pub(crate) lock: Option<F>,
    /// The new file as the save left it.
    pub(crate) saved: Identity,
}

/// The reason why a plan failed. The source is the old file, unless the error says otherwise.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The file system does not support the plan, or something would be lost. The next plan is tried.
    Unsuited(Error),
    /// Another program changed the source meanwhile: before the plan changed anything, or so that nothing of what the
    /// plan wrote is left.
    SourceChanged,
    /// Another program wrote to the source while the plan did, or over a part of what it wrote. What is in it now is not
    /// ours to undo.
    Overwritten,
    /// The plan failed.
    Failed(Error),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<S: Storage> SaveJob<'_, S> {
    /// Carries out `plan`.
    pub(crate) fn run(&self, plan: SavePlan) -> Result<Done<S>, Stopped> {
        if self.limits.has(self.change.identity.device, plan.word()) {
            return Err(unsuited("the file system refused that before"));
        }
        match plan {
            SavePlan::InPlace => self.in_place(),
            // A program that opens the file during the save would write at an offset from before the blocks
            // moved.
            SavePlan::Insert | SavePlan::Rewrite if self.change.moves_a_stream() => {
                Err(unsuited("the last block is streamed"))
            }
            SavePlan::Insert => self.insert().map(Box::new).map(Done::Unconfirmed),
            SavePlan::Rewrite => self.rewrite().map(Box::new).map(Done::Unconfirmed),
            SavePlan::Clone => self.replace(true),
            SavePlan::Copy => self.replace(false),
        }
    }

    fn sync(&self, file: &S::File) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.storage.sync(file)
    }

    fn sync_dir(&self, dir: &S::Dir) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.storage.sync_dir(dir)
    }

    /// Removes an image that no recovery will need.
    fn remove_image(&self, image: &Image<S>) {
        match image.is_named(self.storage) {
            Ok(true) => self.remove_name(&image.place, &image.name),
            // Another program's file has the name, or there is none.
            Ok(false) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // The name may be that of another program's file.
            Err(_) => self.is_left.store(true, Ordering::Relaxed),
        }
    }

    /// Removes the name of an image or of the replaced source. The save does not depend on it: if the name stays, the next
    /// save removes it.
    fn remove_name(&self, place: &Sidecars<S>, name: &OsStr) {
        match self.storage.unlink(&place.dir, name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                self.is_left.store(true, Ordering::Relaxed)
            }
            _ => {}
        }
    }

    /// Makes a file and its name in `dir` durable.
    fn sync_with_dir(&self, file: &S::File, dir: &S::Dir) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 2);
        self.storage.sync_with_dir(file, dir)
    }

    /// Remembers that the file system does not support `plan`, if `error` says so. The error must come from
    /// the one request that only this plan makes.
    fn note_limit(&self, plan: SavePlan, error: &std::io::Error) {
        let never = match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY) => true,
            // EINVAL from an insertion: the range does not fit the device's clusters. A clone may get EINVAL
            // for other reasons.
            Some(libc::EINVAL) => plan == SavePlan::Insert,
            _ => false,
        };
        if never {
            self.limits.add(self.change.identity.device, plan.word());
        }
    }

    /// Returns the new file as the save left it. `complete` is the file before it got the source's name, which changed
    /// its ctime. If another program has written to it since, that shows in its time.
    fn as_saved(&self, file: &S::File, complete: Identity) -> std::io::Result<Identity> {
        let now = self.storage.meta(file)?.identity;
        let is_complete = now == Identity { ctime: now.ctime, ..complete };
        Ok(if is_complete { now } else { complete })
    }

    /// Fails unless the source is still the file that the change was planned for.
    fn check_unchanged(&self) -> Result<(), Stopped> {
        let planned = self.source.get();
        let named = self.named();
        let now = self.storage.meta(self.file)?.identity;
        // A streamed file may grow: appended bytes do not affect a head that fits before the first block.
        let grown = || -> std::io::Result<bool> {
            let head = self.change.old_head;
            let may = self.change.streamed && now.same_file(&planned) && now.size >= planned.size;
            Ok(may && version(self.storage, self.file, head.len)? == head)
        };
        if (now == planned || grown()?) && named.is_ok_and(|named| named.same_file(&planned)) {
            Ok(())
        } else {
            Err(Stopped::SourceChanged)
        }
    }

    /// Returns the identity of the file at the source's path.
    fn named(&self) -> std::io::Result<Identity> {
        if !self.storage.is_remote(self.file) {
            return Ok(self.held.meta(self.storage)?.identity);
        }
        self.remote_identity(&self.held.name)
    }

    /// Returns the identity of a file on a server; ESTALE unless it has the source's head.
    ///
    /// Only opening the name finds a file that was replaced on the server. The new file may have the same inode number.
    fn remote_identity(&self, name: &OsStr) -> std::io::Result<Identity> {
        let file = self.storage.open(&self.held.dir, name, false)?;
        let head = self.change.old_head;
        let identity = self.storage.meta(&file)?.identity;
        if version(self.storage, &file, head.len)? == head && identity.size >= self.source.get().size {
            Ok(identity)
        } else {
            Err(std::io::Error::from_raw_os_error(libc::ESTALE))
        }
    }
}

/// True if a file has the size and all bytes of the new file, but for the blocks. A stream may have grown.
pub(super) fn has_new_bytes<S: Storage>(
    storage: &S,
    file: &S::File,
    change: &PlannedChange<'_>,
) -> std::io::Result<bool> {
    let size = storage.meta(file)?.identity.size;
    if size != change.new_size() && !(change.streamed && size > change.new_size()) {
        return Ok(false);
    }
    let mut found = vec![0; PIECE];
    let mut wanted = vec![0; PIECE];
    for region in [0..change.head_to, change.tail_from()..change.new_size()] {
        let mut at = region.start;
        while at < region.end {
            let len = PIECE.min(usize::try_from(region.end - at).unwrap_or(PIECE));
            let len = change.new_bytes(at, &mut wanted[..len]);
            let read = storage.read_at(file, at, &mut found[..len])?;
            if len == 0 || found[..read] != wanted[..len] {
                return Ok(false);
            }
            at += len as u64;
        }
    }
    Ok(true)
}

fn unsuited(why: &str) -> Stopped {
    Stopped::Unsuited(Error::new(Kind::Refused, why))
}

fn unsuited_or_failed(error: std::io::Error) -> Stopped {
    if cannot(&error) { Stopped::Unsuited(error.into()) } else { Stopped::Failed(error.into()) }
}
