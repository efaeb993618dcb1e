//! The folder that stands for a file: the file's present life, and what is written beside it.

use std::sync::{Arc, Mutex};

use super::attr::Kind;
use super::desk::{Desk, Room};
use super::locked;
use super::mirror::Place;
use super::node::Serials;
use super::shelf::Shelf;
use super::volume::Volume;
use crate::error::Result;

/// The folder of an entry: its present life, and what is written in it.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    present: Arc<Present>,
    desk: Mutex<Option<Arc<Desk>>>,
}

/// The present life of a file behind a folder.
#[derive(Debug, Default)]
pub(crate) struct Present(Mutex<Option<Arc<Volume>>>);

impl Folder {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        self.present.volume(place, serials, shelf)
    }

    /// What is written in the folder, if its file can be written; `room` is what all folders share.
    pub(crate) fn desk(&self, place: &Place, room: &Arc<Room>) -> Result<Option<Arc<Desk>>> {
        let mut desk = locked(&self.desk);
        if desk.is_none() {
            *desk = Desk::of(place, &self.present, room)?.map(Arc::new);
        }
        Ok(desk.clone())
    }

    /// What was written in the folder already.
    pub(crate) fn used_desk(&self) -> Option<Arc<Desk>> {
        locked(&self.desk).clone()
    }
}

impl Present {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        let mut present = locked(&self.0);
        if let Some(volume) = present.as_ref().filter(|volume| volume.look().attached) {
            return Ok(volume.clone());
        }
        let stat = place.spot.stat()?;
        if stat.kind != Kind::File {
            return Err(rustix::io::Errno::STALE.into());
        }
        if let Some(volume) = present.as_ref().filter(|volume| volume.is(&stat)) {
            return Ok(volume.clone());
        }
        let volume = Arc::new(Volume::new(serials.next()?, place.spot.clone(), stat, shelf.clone()));
        *present = Some(volume.clone());
        Ok(volume)
    }
}
