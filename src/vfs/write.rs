//! What programs change about a file that can be written, and how it is opened for that.
//!
//! Only `tree.yaml` and the files beside it can be; everything else answers EROFS.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::sync::Arc;

use crate::error::{Result, errno};
use crate::folder::mounted_file::MountedFile;
use crate::overlay::Overlay;
use crate::overlay::change::Change;
use crate::overlay::file::OverlayFile;
use crate::overlay::lazy::LazyOverlay;
use crate::overlay::naming::{Maker, Renaming};
use crate::overlay::write_handle::{Caller, OpenFor, WriteHandle};
use crate::sync::locked;
use crate::vfs::Foreign;
use crate::vfs::Vfs;
use crate::vfs::attr::Attr;
use crate::vfs::entry::Entry;
use crate::vfs::node::{Ino, Node};
use crate::vfs::read_handle::Reader;
use crate::view::status::Writing;

/// So many folders in which something was written are kept while no handle is open there: beyond what
/// is in the file they know its times and last refusal.
const RESTING: usize = 4096;
/// So many folders are looked at for one that can be put away.
const LOOKED_AT: usize = 64;

/// An overlay file, with its folder and overlay.
type Written = (Arc<Entry>, Arc<Overlay>, Arc<OverlayFile>);

/// What an open file is.
#[derive(Debug)]
pub enum OpenFile {
    /// One that is only read.
    Reader(Reader),
    /// One of those that can be written, whether or not this handle may.
    Writer(Writer),
}

/// An open file of an overlay, with the folder that it lies in.
#[derive(Debug)]
pub struct Writer {
    entry: Arc<Entry>,
    handle: WriteHandle,
}

impl Deref for Writer {
    type Target = WriteHandle;

    fn deref(&self) -> &WriteHandle {
        &self.handle
    }
}

impl Writer {
    /// The foreign file system that the file lies on.
    pub fn foreign(&self) -> Option<Foreign> {
        self.entry.position.foreign
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Ok(folder) = self.entry.folder() {
            folder.let_go(&self.handle.overlay);
        }
    }
}

impl Vfs {
    /// Whether nothing can be written in the mount.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_none()
    }

    /// What the caller should know of the mount, a line each: first what can't be written although that
    /// was asked for.
    pub fn remarks(&self) -> Vec<String> {
        let what = self.unwritable.as_deref().map(|what| match self.is_read_only() {
            true => format!("{what}: the mount is read-only"),
            false => what.to_owned(),
        });
        what.into_iter().chain(self.notices.iter().cloned()).collect()
    }

    /// How long the kernel may rely on the attributes of a node: not at all for files that can be written.
    pub fn ttl(&self, ino: Ino) -> std::time::Duration {
        match self.node(ino) {
            Ok(Node::OverlayFile(..) | Node::Tree(_)) => std::time::Duration::ZERO,
            _ => crate::vfs::TTL,
        }
    }

    /// How long the kernel may rely on a name: not at all for a file of a folder that can be written, if a save may
    /// give the name another node. That of a block keeps its node.
    pub fn ttl_of_name(&self, ino: Ino) -> std::time::Duration {
        match self.node(ino) {
            Ok(Node::View(entry, _, view)) if view.is_changed_by_saves() && entry.can_be_saved() => {
                std::time::Duration::ZERO
            }
            _ => self.ttl(ino),
        }
    }

    /// Whether names may come into a directory without the kernel's doing, at any time.
    pub fn changes_by_itself(&self, ino: Ino) -> bool {
        match self.node(ino) {
            Ok(Node::View(..)) => true,
            _ => self.can_be_written(ino).unwrap_or(true),
        }
    }

    /// Whether a file can be written, or a directory changed, as far as its permissions allow.
    pub fn can_be_written(&self, ino: Ino) -> Result<bool> {
        match self.node(ino)? {
            Node::OverlayFile(..) | Node::Tree(_) => Ok(true),
            Node::Entry(entry) => self.is_writable(&entry),
            _ => Ok(false),
        }
    }

    /// Lets a process of `uid` and `gid` do `wanted` (4 read, 2 write, 1 execute), as far as permissions go.
    ///
    /// # Errors
    /// EROFS for writing what cannot be written; EACCES.
    pub fn check_access(&self, ino: Ino, uid: u32, gid: u32, wanted: u16) -> Result<()> {
        if wanted & 2 != 0 && !self.can_be_written(ino)? {
            return Err(errno(libc::EROFS));
        }
        match self.attr(ino)?.allows(uid, gid, wanted) {
            true => Ok(()),
            false => Err(errno(libc::EACCES)),
        }
    }

    /// Keeps a folder in which something is to be written, and puts some away that were left long ago.
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
                // It stays in the list meanwhile, so that the end of the mount finds it.
                written.put(serial, oldest.clone());
                (old, oldest)
            };
            if !oldest.folder().is_ok_and(|folder| folder.put_away(old)) {
                continue;
            }
            // A thread that makes another overlay adds the folder after that.
            let mut written = locked(&self.written);
            let noted =
                oldest.folder().is_ok_and(LazyOverlay::is_put_away).then(|| written.pop(&oldest.serial));
            drop(written);
            drop(noted);
            oldest.leave_parent();
        }
    }

    /// Why nothing can be written in the mount, if nothing can.
    pub(crate) fn read_only_because(&self) -> Option<Arc<str>> {
        let because = || {
            self.unwritable
                .clone()
                .or_else(|| self.unchangeable.clone())
                .unwrap_or_else(|| "the mount is read-only".into())
        };
        self.is_read_only().then(because)
    }

    /// Ends all writing: saves that run are waited for, texts that were not saved are kept. Reading
    /// goes on.
    pub fn close(&self) {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        for entry in written {
            if let Some(overlay) = entry.folder().ok().and_then(|folder| folder.used_overlay()) {
                overlay.close();
            }
        }
        if let Some(state_dir) = self.shared.as_ref().and_then(|shared| shared.state_dir.as_ref()) {
            state_dir.write_report();
        }
    }

    /// Says what would be lost if the mount ended now, a line for each folder.
    pub(crate) fn unkept(&self) -> Vec<String> {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        let overlays = written.iter().filter_map(|entry| entry.folder().ok()?.used_overlay());
        overlays.filter_map(|overlay| overlay.unkept()).collect()
    }

    /// The overlay of a directory in which something is to change.
    pub(crate) fn overlay_in(&self, parent: Ino) -> Result<(Arc<Entry>, Arc<Overlay>)> {
        let Node::Entry(entry) = self.node(parent)? else { return Err(errno(libc::EROFS)) };
        let overlay = self.overlay(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
        self.keep_written(&entry);
        Ok((entry, overlay))
    }

    /// The overlay file that has a number, and whose it is; `None` where that can't be written.
    fn overlay_file_at(&self, ino: Ino) -> Result<Option<Written>> {
        Ok(match self.node(ino)? {
            Node::OverlayFile(entry, overlay_file) => {
                let overlay = entry.folder()?.overlay_of(&overlay_file)?;
                Some((entry, overlay, overlay_file))
            }
            Node::Tree(entry) => {
                let overlay = self.overlay(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
                let overlay_file = overlay.first()?;
                Some((entry, overlay, overlay_file))
            }
            _ => None,
        })
    }

    /// The overlay file that is to change.
    pub(crate) fn overlay_file_of(&self, ino: Ino) -> Result<Written> {
        let (entry, overlay, overlay_file) = self.overlay_file_at(ino)?.ok_or_else(|| errno(libc::EROFS))?;
        self.keep_written(&entry);
        Ok((entry, overlay, overlay_file))
    }

    /// Opens a file; `caller` is asked only of one that can be written.
    pub fn open_for(&self, ino: Ino, open: OpenFor, caller: impl FnOnce() -> Caller) -> Result<OpenFile> {
        let Some((entry, overlay, overlay_file)) = self.overlay_file_at(ino)? else {
            if open.writing || open.truncating {
                return Err(errno(libc::EROFS));
            }
            return Ok(OpenFile::Reader(self.open(ino)?));
        };
        if open.writing || open.truncating {
            self.keep_written(&entry);
        }
        Ok(OpenFile::Writer(Writer { handle: overlay.open(overlay_file, open, caller())?, entry }))
    }

    /// Makes a file and opens it; its number is handed out with that.
    pub fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        maker: Maker,
        open: OpenFor,
        caller: Caller,
    ) -> Result<(Attr, Writer)> {
        let (entry, overlay) = self.overlay_in(parent)?;
        let handle = overlay.create(name, maker, open, caller)?;
        let attr = self.hand_out(&entry, &overlay, handle.overlay_file.clone())?;
        Ok((attr, Writer { entry, handle }))
    }

    /// Makes a symbolic link; its number is handed out with that.
    pub fn symlink(&self, parent: Ino, name: &OsStr, text: OsString, maker: Maker) -> Result<Attr> {
        let (entry, overlay) = self.overlay_in(parent)?;
        let overlay_file = overlay.symlink(name, text, maker)?;
        self.hand_out(&entry, &overlay, overlay_file)
    }

    /// Gives a file one more name; its number, or that of a copy, is handed out with that.
    pub fn link(&self, ino: Ino, parent: Ino, name: &OsStr) -> Result<Attr> {
        let (_, from, overlay_file) = self.overlay_file_of(ino)?;
        let (entry, overlay) = self.overlay_in(parent)?;
        let overlay_file = overlay.link(&from, overlay_file, name)?;
        self.hand_out(&entry, &overlay, overlay_file)
    }

    /// Takes a name away.
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        self.overlay_in(parent)?.1.unlink(name)
    }

    /// Changes the name of a file. One that is to be `tree.yaml` is tried as a save first.
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        how: Renaming,
    ) -> Result<()> {
        let (_, overlay) = self.overlay_in(parent)?;
        let (_, to) = self.overlay_in(new_parent)?;
        overlay.rename(name, &to, new_name, how)
    }

    /// Changes what is said of a file, or how long it is; `handle` is the one by which it is done.
    pub fn change(&self, ino: Ino, change: Change, handle: Option<&Writer>) -> Result<Attr> {
        let (entry, overlay, overlay_file) = self.overlay_file_of(ino)?;
        overlay.change(&overlay_file, change, handle.map(Deref::deref))?;
        self.attr_of_overlay_file(&entry, &overlay, &overlay_file)
    }

    /// What is said of a file of an overlay, whose number is handed out with that.
    fn hand_out(
        &self,
        entry: &Arc<Entry>,
        overlay: &Overlay,
        overlay_file: Arc<OverlayFile>,
    ) -> Result<Attr> {
        let attr = self.attr_of_overlay_file(entry, overlay, &overlay_file)?;
        self.known.remember(Node::of_overlay_file(entry.clone(), overlay_file));
        Ok(attr)
    }
}

/// Whether and how the file behind a folder is written, in a mount that may be read-only for a reason.
pub(crate) fn writing(entry: &Entry, mounted: &MountedFile, read_only: Option<&str>) -> Writing {
    let overlay = entry.folder().ok().and_then(|folder| folder.used_overlay());
    let because = match (&overlay, read_only) {
        (_, Some(because)) => because,
        (Some(overlay), None) => return overlay.writing(),
        (None, None) if mounted.is_unchangeable() => "files of this format can't be changed",
        (None, None) if mounted.may_be_written() => return Writing { writable: true, ..Writing::default() },
        (None, None) => "the file can't be written",
    };
    Writing { read_only_because: Some(because.into()), ..Writing::default() }
}
