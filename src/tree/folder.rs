//! The folder that stands for a file: the file's present life, and what is written beside it.

use std::sync::{Arc, Mutex};

use super::desk::{Desk, Room};
use super::locked;
use super::mirror::Place;
use super::node::Serials;
use super::shelf::Shelf;
use super::volume::{Present, Volume};
use crate::error::Result;

/// The folder of an entry: its present life, and what is written in it.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    present: Arc<Present>,
    desk: Mutex<Option<Arc<Desk>>>,
}

impl Folder {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        self.present.volume(&place.spot, serials, shelf)
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
