//! The folder that stands for a file: the file's present life, and what is written beside it.
//!
//! A file to which nobody writes has no desk: that would take memory for each file that was looked at.
//! Opening its `tree.yaml` makes one. It goes with the last handle if nothing was written, and otherwise when
//! many others were written since.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::desk::{Desk, Room};
use super::errno;
use super::locked;
use super::mirror::Place;
use super::node::{Ino, Serials};
use super::sheet::Sheet;
use super::shelf::Shelf;
use super::spot::may_write;
use super::volume::{Present, Volume};
use crate::error::Result;

/// The folder of an entry: its present life, and what is written in it.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    present: Arc<Present>,
    desk: Mutex<Option<Arc<Desk>>>,
    /// Whether the file was found to be one that can be written.
    is_writable: AtomicBool,
}

impl Folder {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        self.present.volume(&place.spot, serials, shelf)
    }

    /// Whether the file can be written; `room` is what all folders share.
    pub(crate) fn can_be_written(&self, place: &Place, room: &Room) -> Result<bool> {
        if self.is_writable.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let opened = self.volume(place, &room.serials, &room.shelf)?.opened()?;
        if !opened.container().is_ok_and(|container| room.savers.can_save(&**container)) {
            return Ok(false);
        }
        let (dir, name) = place.spot.holder()?;
        let is_writable = may_write(dir.as_fd(), &name);
        self.is_writable.store(is_writable, Ordering::Relaxed);
        Ok(is_writable)
    }

    /// What is written in the folder, if its file can be written; `tree` is the number of a `tree.yaml` to
    /// which nobody writes.
    pub(crate) fn desk(&self, place: &Place, room: &Arc<Room>, tree: Ino) -> Result<Option<Arc<Desk>>> {
        let mut desk = locked(&self.desk);
        if desk.is_none() && self.can_be_written(place, room)? {
            *desk = Some(Arc::new(Desk::of(place, &self.present, room, tree)?));
        }
        Ok(desk.clone())
    }

    /// What was written in the folder already.
    pub(crate) fn used_desk(&self) -> Option<Arc<Desk>> {
        locked(&self.desk).clone()
    }

    /// The desk that a sheet belongs to, unless it was put away.
    pub(crate) fn desk_of(&self, sheet: &Sheet) -> Result<Arc<Desk>> {
        self.used_desk().filter(|desk| desk.has(sheet)).ok_or_else(|| errno(libc::ESTALE))
    }

    /// Lets go of the desk that a handle had if nobody else has it and nothing was written.
    pub(crate) fn let_go(&self, own: &Arc<Desk>) {
        let mut desk = locked(&self.desk);
        // Nobody comes by it but through here: none can while this is locked.
        if desk.as_ref().is_some_and(|desk| Arc::ptr_eq(desk, own))
            && Arc::strong_count(own) == 2
            && !own.is_touched()
        {
            *desk = None;
        }
    }

    /// Puts the desk away if nobody uses it; whether there is none now.
    pub(crate) fn put_away(&self) -> bool {
        let mut desk = locked(&self.desk);
        let unused = |desk: &Arc<Desk>| Arc::strong_count(desk) == 1 && desk.put_away();
        if desk.as_ref().is_some_and(unused) {
            *desk = None;
        }
        desk.is_none()
    }
}
