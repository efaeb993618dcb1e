//! Changes to writable files, and opens for writing.
//!
//! Only `tree.yaml` and the files beside it can be written; requests to change other files fail with EROFS.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use asdf_access::local::location::Location;
use asdf_views::format::endings::by_ending;
use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::mounted::file::MountedFile;
use crate::overlay::Overlay;
use crate::overlay::change::Change;
use crate::overlay::file::OverlayFile;
use crate::overlay::lazy::LazyOverlay;
use crate::overlay::naming::{Maker, Renaming};
use crate::overlay::paths::NewName;
use crate::overlay::write_handle::{Caller, OpenFor, WriteHandle};
use crate::vfs::attr::Attr;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::kernel_cache::KernelCache;
use crate::vfs::node::{Ino, Inode};
use crate::vfs::read_handle::ReadHandle;
use crate::vfs::{FileSystem, Stalling, TTL, Vfs};
use crate::view::TREE;
use crate::view::status::Writing;

/// Maximum number of overlays kept while no handle is open in them. An overlay remembers times and the last
/// refusal, which the file itself does not hold.
const RESTING: usize = 4096;
/// Time after a change during which a file may still be in the midst of being written.
const WRITTEN: Duration = Duration::from_secs(2);
/// Maximum number of overlays examined at a time to find ones that can be dropped.
const LOOKED_AT: usize = 64;

/// The directory of a mounted file, or one beside its `tree.yaml`, that is about to change.
pub(crate) struct ChangedDir {
    entry: Arc<Entry>,
    overlay: Arc<Overlay>,
    /// The directory beside `tree.yaml`.
    dir: Option<Arc<OverlayFile>>,
}

impl ChangedDir {
    fn at<'a>(&'a self, name: &'a OsStr) -> NewName<'a> {
        NewName { dir: self.dir.as_ref(), name }
    }

    /// True if a name in the directory is that of the tree.
    fn is_tree(&self, name: &OsStr) -> bool {
        self.dir.is_none() && name == TREE
    }
}

/// An overlay file, with its entry and overlay.
type Written = (Arc<Entry>, Arc<Overlay>, Arc<OverlayFile>);

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct NameIn<'a> {
    /// The directory.
    pub parent: Ino,
    /// The name.
    pub name: &'a OsStr,
}

/// An open file.
#[derive(Debug)]
pub enum OpenFile {
    /// A read-only file.
    Reader(ReadHandle),
    /// A writable file, even if this handle is only open for reading.
    Writer(OverlayWriter),
}

/// An open file of an overlay, with the entry of the mounted file.
#[derive(Debug)]
pub struct OverlayWriter {
    entry: Arc<Entry>,
    handle: WriteHandle,
    kernel_cache: KernelCache,
}

impl Deref for OverlayWriter {
    type Target = WriteHandle;

    fn deref(&self) -> &WriteHandle {
        &self.handle
    }
}

impl OverlayWriter {
    /// Returns the stalling file system that holds the file.
    pub fn stalling(&self) -> Option<Stalling> {
        self.entry.position.stalling
    }

    /// Returns the file system of the file.
    pub fn file_system(&self) -> FileSystem {
        FileSystem::of(&self.entry)
    }

    /// See [`WriteHandle::flush`].
    pub fn flush(&self, caller: Caller) -> Result<()> {
        let flushed = self.handle.flush(caller);
        self.renew();
        flushed
    }

    /// See [`WriteHandle::sync`].
    pub fn sync(&self) -> Result<()> {
        let synced = self.handle.sync();
        self.renew();
        synced
    }

    /// See [`WriteHandle::release`].
    pub fn release(&self) {
        self.handle.release();
        self.renew();
    }

    /// Makes the kernel ask again for all that a save through this handle may have changed.
    fn renew(&self) {
        if self.handle.writes {
            renew(&self.kernel_cache, &self.entry);
        }
    }
}

impl Drop for OverlayWriter {
    fn drop(&mut self) {
        if let Ok(overlay) = self.entry.lazy_overlay() {
            overlay.let_go(&self.handle.overlay);
        }
    }
}

impl Vfs {
    /// True if nothing can be written in the mount.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_none() || self.is_sealed.load(Ordering::SeqCst)
    }

    /// Returns remarks for the user, a line each. The first says which sources can't be written although a
    /// writable mount was requested; the last is about damage, for which a thread searches.
    pub fn remarks(&self) -> Vec<String> {
        let what = self.unwritable.as_deref().map(|what| {
            if self.is_read_only() { format!("{what}: the mount is read-only") } else { what.to_owned() }
        });
        what.into_iter().chain(self.notices.iter().cloned()).chain(self.damage()).collect()
    }

    /// Returns the time for which the kernel may cache the attributes of a node. It is zero for a writable
    /// file, except `tree.yaml` while it shows the saved text: when a save ends, the kernel is told. It is zero, too,
    /// for a file that may become a directory at any time.
    pub fn ttl(&self, ino: Ino) -> Duration {
        let Ok(node) = self.node(ino) else { return TTL };
        if matches!(&node, Inode::Entry(entry) if is_half_written(entry)) {
            return Duration::ZERO;
        }
        let is_writable = matches!(node, Inode::OverlayFile(..) | Inode::Tree(_));
        if is_writable && !(self.kernel_cache.renews() && shows_saved_text(&node)) {
            Duration::ZERO
        } else {
            TTL
        }
    }

    /// Returns the time for which the kernel may cache a name. It is zero for a name that a save may give to
    /// another node, in a mount that is writable, or that may become so by a remount, unless the kernel can be
    /// told when a save ends. The name of a block keeps its node.
    pub fn ttl_of_name(&self, ino: Ino) -> Duration {
        match self.node(ino) {
            Ok(Inode::View(_, _, view))
                if self.shared.is_some() && !self.kernel_cache.renews() && view.is_changed_by_saves() =>
            {
                Duration::ZERO
            }
            _ => self.ttl(ino),
        }
    }

    /// Returns the time for which the kernel may cache a name and its attributes that it gets with a listing.
    ///
    /// The kernel takes such an answer for as new as the moment when it enters the names. An answer from before a
    /// save must therefore be entered before the save ends: the time is zero once a program has begun a text, and
    /// the end of a save waits for earlier listings ([`LazyOverlay::await_listings`]).
    pub fn ttl_in_listing(&self, ino: Ino) -> Duration {
        let Ok(node) = self.node(ino) else { return TTL };
        let depends_on_saves = match &node {
            Inode::OverlayFile(..) | Inode::Tree(_) => true,
            Inode::View(_, _, view) => self.shared.is_some() && view.is_changed_by_saves(),
            Inode::Entry(_) => false,
        };
        if !depends_on_saves {
            return self.ttl(ino);
        }
        let is_quiet =
            self.kernel_cache.renews() && node.entry().lazy_overlay().is_ok_and(LazyOverlay::note_listing);
        if is_quiet { self.ttl(ino) } else { Duration::ZERO }
    }

    /// True if names may appear in a directory at any time without a request by the kernel: a mounted file may just be
    /// written by another program, and have its views when that is done.
    pub fn changes_by_itself(&self, ino: Ino) -> bool {
        match self.node(ino) {
            Ok(Inode::View(..)) => true,
            Ok(Inode::Entry(entry)) if matches!(entry.class, Class::MountedFile(_)) => true,
            _ => self.can_be_written(ino).unwrap_or(true),
        }
    }

    /// True if a file can be written, or a directory changed, regardless of permissions.
    pub fn can_be_written(&self, ino: Ino) -> Result<bool> {
        match self.node(ino)? {
            Inode::OverlayFile(..) | Inode::Tree(_) => Ok(!self.is_read_only()),
            Inode::Entry(entry) => self.is_writable(&entry),
            _ => Ok(false),
        }
    }

    /// Checks that the permissions allow a process of `uid` and `gid` the access `wanted` (4
    /// read, 2 write, 1 execute).
    ///
    /// # Errors
    /// EROFS for a write to a read-only node, EACCES if the permissions forbid the access.
    pub fn check_access(&self, ino: Ino, uid: u32, gid: u32, wanted: u16) -> Result<()> {
        if wanted & 2 != 0 && !self.can_be_written(ino)? {
            return Err(errno(libc::EROFS));
        }
        if self.attr(ino)?.allows(uid, gid, wanted) { Ok(()) } else { Err(errno(libc::EACCES)) }
    }

    /// Records that the overlay of `entry` is about to be written, and drops overlays
    /// that were not used for long.
    pub(crate) fn keep_written(&self, entry: &Arc<Entry>) {
        let is_short = || self.shared.as_ref().is_some_and(|shared| shared.quota.is_short());
        let count = {
            let mut written = locked(&self.written);
            written.put(entry.serial, entry.clone());
            written.len()
        };
        for _ in 0..count.min(LOOKED_AT) {
            let (old, oldest) = {
                let mut written = locked(&self.written);
                let old = written.len() > RESTING;
                if !old && !is_short() {
                    break;
                }
                let Some((serial, oldest)) = written.pop_lru() else { break };
                // The entry stays in the list meanwhile, so that an unmount finds it.
                written.put(serial, oldest.clone());
                (old, oldest)
            };
            if !oldest.lazy_overlay().is_ok_and(|overlay| overlay.put_away(old)) {
                continue;
            }
            // If another thread creates a new overlay for the entry meanwhile, that thread also records the
            // entry again.
            let mut written = locked(&self.written);
            let noted = oldest
                .lazy_overlay()
                .is_ok_and(LazyOverlay::is_put_away)
                .then(|| written.pop(&oldest.serial));
            drop(written);
            drop(noted);
            oldest.leave_parent();
        }
    }

    /// Returns the reason why the mount is read-only; `None` if it is writable.
    pub(crate) fn read_only_because(&self) -> Option<Arc<str>> {
        let because = || {
            let reason = self.unwritable.clone().or_else(|| self.unchangeable.clone());
            reason.filter(|_| self.shared.is_none()).unwrap_or_else(|| "the mount is read-only".into())
        };
        self.is_read_only().then(because)
    }

    /// Ends all writing: waits for running saves, and keeps texts that were not
    /// saved. Reads continue to work.
    pub fn close(&self) {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        for entry in written {
            if let Some(overlay) = entry.lazy_overlay().ok().and_then(|overlay| overlay.used_overlay()) {
                overlay.close();
            }
        }
        if let Some(state_dir) = self.shared.as_ref().and_then(|shared| shared.state_dir.as_ref()) {
            state_dir.write_report();
        }
    }

    /// Returns the data that would be lost if the mount ended now, a line for each mounted file.
    pub(crate) fn unkept(&self) -> Vec<String> {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        let overlays = written.iter().filter_map(|entry| entry.lazy_overlay().ok()?.used_overlay());
        overlays.filter_map(|overlay| overlay.unkept()).collect()
    }

    /// Returns a directory that is about to change, with its overlay.
    pub(crate) fn overlay_in(&self, parent: Ino) -> Result<ChangedDir> {
        let (entry, overlay, dir) = match self.node(parent)? {
            Inode::Entry(entry) => {
                let overlay = self.overlay(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
                (entry, overlay, None)
            }
            Inode::OverlayFile(entry, dir) if dir.is_dir => {
                let overlay = entry.lazy_overlay()?.overlay_of(&dir)?;
                (entry, overlay, Some(dir))
            }
            _ => return Err(errno(libc::EROFS)),
        };
        self.check_writable()?;
        self.keep_written(&entry);
        Ok(ChangedDir { entry, overlay, dir })
    }

    /// Returns the overlay file with a number, its entry and its overlay; `None` if the node is read-only.
    fn overlay_file_at(&self, ino: Ino) -> Result<Option<Written>> {
        Ok(match self.node(ino)? {
            Inode::OverlayFile(entry, overlay_file) => {
                let overlay = entry.lazy_overlay()?.overlay_of(&overlay_file)?;
                Some((entry, overlay, overlay_file))
            }
            Inode::Tree(entry) => {
                let overlay = self.overlay(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
                let overlay_file = overlay.first()?;
                Some((entry, overlay, overlay_file))
            }
            _ => None,
        })
    }

    /// Returns the overlay file that is about to change, its entry and its overlay.
    pub(crate) fn overlay_file_of(&self, ino: Ino) -> Result<Written> {
        let (entry, overlay, overlay_file) = self.overlay_file_at(ino)?.ok_or_else(|| errno(libc::EROFS))?;
        self.check_writable()?;
        self.keep_written(&entry);
        Ok((entry, overlay, overlay_file))
    }

    /// Opens a file; `caller` is called only for a writable file.
    pub fn open_for(&self, ino: Ino, open: OpenFor, caller: impl FnOnce() -> Caller) -> Result<OpenFile> {
        let Some((entry, overlay, overlay_file)) = self.overlay_file_at(ino)? else {
            if open.writing || open.truncating {
                return Err(errno(libc::EROFS));
            }
            return Ok(OpenFile::Reader(self.open(ino)?));
        };
        if open.writing || open.truncating {
            self.check_writable()?;
            self.keep_written(&entry);
        }
        // Another program may have replaced the source a moment ago: the kernel has the length of the old text.
        self.kernel_cache.renew_attributes(ino);
        // Only a handle that writes may save, so only its process must be known.
        let caller = if open.writing { caller() } else { Caller::default() };
        Ok(OpenFile::Writer(self.writer(entry, overlay.open(overlay_file, open, caller)?)))
    }

    /// Creates and opens a file. Counts as a lookup of its inode number.
    pub fn create(
        &self,
        new: NameIn<'_>,
        maker: Maker,
        open: OpenFor,
        caller: Caller,
    ) -> Result<(Attr, OverlayWriter)> {
        let dir = self.overlay_in(new.parent)?;
        let handle = dir.overlay.create(dir.at(new.name), maker, open, caller)?;
        let attr = self.hand_out(&dir, handle.overlay_file.clone())?;
        Ok((attr, self.writer(dir.entry, handle)))
    }

    fn writer(&self, entry: Arc<Entry>, handle: WriteHandle) -> OverlayWriter {
        OverlayWriter { entry, handle, kernel_cache: self.kernel_cache.clone() }
    }

    /// Creates a symbolic link. Counts as a lookup of its inode number.
    pub fn symlink(&self, new: NameIn<'_>, text: OsString, maker: Maker) -> Result<Attr> {
        let dir = self.overlay_in(new.parent)?;
        let overlay_file = dir.overlay.symlink(dir.at(new.name), text, maker)?;
        self.hand_out(&dir, overlay_file)
    }

    /// Creates a directory. Counts as a lookup of its inode number.
    pub fn make_dir(&self, new: NameIn<'_>, maker: Maker) -> Result<Attr> {
        let dir = self.overlay_in(new.parent)?;
        let made = dir.overlay.make_dir(dir.at(new.name), maker)?;
        self.hand_out(&dir, made)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, old: NameIn<'_>) -> Result<()> {
        let dir = self.overlay_in(old.parent)?;
        dir.overlay.remove_dir(dir.at(old.name))
    }

    /// Adds a name to a file. Counts as a lookup of the inode number of the file, or of the copy if the file
    /// is copied. `uid` is the user that makes the link.
    pub fn link(&self, ino: Ino, new: NameIn<'_>, uid: u32) -> Result<Attr> {
        let (_, from, overlay_file) = self.overlay_file_of(ino)?;
        let dir = self.overlay_in(new.parent)?;
        let overlay_file = dir.overlay.link(&from, overlay_file, dir.at(new.name), uid)?;
        self.hand_out(&dir, overlay_file)
    }

    /// Removes a name.
    pub fn unlink(&self, old: NameIn<'_>) -> Result<()> {
        let dir = self.overlay_in(old.parent)?;
        dir.overlay.unlink(dir.at(old.name))
    }

    /// Renames a file. If the new name is `tree.yaml`, the text is saved first, or the rename fails.
    pub fn rename(&self, old: NameIn<'_>, new: NameIn<'_>, how: Renaming) -> Result<()> {
        let from = self.overlay_in(old.parent)?;
        let to = self.overlay_in(new.parent)?;
        let renamed = from.overlay.rename(from.at(old.name), &to.overlay, to.at(new.name), how);
        if from.is_tree(old.name) || to.is_tree(new.name) {
            renew(&self.kernel_cache, &from.entry);
            renew(&self.kernel_cache, &to.entry);
        }
        renamed
    }

    /// Changes the attributes or the length of a file; `handle` is the open file of the request, if any.
    pub fn change(&self, ino: Ino, change: Change, handle: Option<&OverlayWriter>) -> Result<Attr> {
        let (entry, overlay, overlay_file) = self.overlay_file_of(ino)?;
        overlay.change(&overlay_file, change, handle.map(Deref::deref))?;
        self.attr_of_overlay_file(&entry, &overlay, &overlay_file)
    }

    /// Returns the attributes of an overlay file. Counts as a lookup of its inode number.
    fn hand_out(&self, dir: &ChangedDir, overlay_file: Arc<OverlayFile>) -> Result<Attr> {
        let attr = self.attr_of_overlay_file(&dir.entry, &dir.overlay, &overlay_file)?;
        self.known.remember(Inode::of_overlay_file(dir.entry.clone(), overlay_file));
        Ok(attr)
    }
}

/// Makes the kernel ask again for all that a save of the file behind `entry` may have changed: names, and the
/// attributes of its directory and of `tree.yaml` under its numbers.
fn renew(kernel_cache: &KernelCache, entry: &Entry) {
    let Ok(lazy) = entry.lazy_overlay() else { return };
    let tree = lazy.used_overlay().and_then(|overlay| overlay.tree());
    let mut inos = vec![Ino::of(entry.serial), Ino::of_tree_in(entry.serial)];
    inos.extend(tree.and_then(|tree| tree.serial).map(Ino::of));
    lazy.await_listings();
    kernel_cache.renew(&inos);
}

/// True if another program may be writing a file of a format: nothing recognises the file, but its name has the ending
/// of a format, or it was changed a moment ago.
fn is_half_written(entry: &Entry) -> bool {
    let Class::File { first, .. } = &entry.class else { return false };
    let is_local = matches!(entry.position.location, Location::Local(_));
    is_local && (by_ending(&entry.name).is_some() || !first.source.is_unchanged_for(WRITTEN))
}

/// True for `tree.yaml` while it shows the saved text.
fn shows_saved_text(node: &Inode) -> bool {
    let Ok(lazy) = node.entry().lazy_overlay() else { return false };
    match (node, lazy.used_overlay()) {
        (Inode::Tree(_), None) => true,
        (Inode::Tree(_), Some(overlay)) => {
            overlay.first().is_ok_and(|overlay_file| overlay.shows_saved_text(&overlay_file))
        }
        (Inode::OverlayFile(_, overlay_file), Some(overlay)) => overlay.shows_saved_text(overlay_file),
        _ => false,
    }
}

/// Returns the way in which the file behind `entry` can be written, if any. `read_only` is the reason why the
/// mount is read-only.
pub(crate) fn writing(entry: &Entry, mounted: &MountedFile, read_only: Option<&str>) -> Writing {
    let overlay = entry.lazy_overlay().ok().and_then(|overlay| overlay.used_overlay());
    let because = match (&overlay, read_only) {
        (_, Some(because)) => because.to_owned(),
        (Some(overlay), None) => return overlay.writing(),
        (None, None) => match mounted.unchangeable() {
            Some(because) => because,
            None if mounted.may_be_written() => return Writing { writable: true, ..Writing::default() },
            None => "the file can't be written".to_owned(),
        },
    };
    Writing { read_only_because: Some(because), ..Writing::default() }
}
