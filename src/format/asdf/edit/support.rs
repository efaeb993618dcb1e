//! Opens editors of ASDF files, and recovers files after interrupted saves.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::journal::exists;
use super::locked::places;
use super::mark;
use super::opened::open_locked;
use super::recover::{self, is_left_in, recover};
use super::session::Session;
use super::sidecar;
use crate::error::{Error, Result};
use crate::format::editor::{EditContext, EditSupport, Editor, SaveTarget};
use crate::format::recovery::{Condition, Recovered};
use crate::source::storage::{Storage, System};

/// The number of times that a half-saved file is looked at again while another program seems to be saving it,
/// and the pause between them.
const SAVE_ATTEMPTS: usize = 100;
const SAVE_PAUSE: Duration = Duration::from_millis(10);

/// Editing and recovery of ASDF files.
#[derive(Clone, Copy, Debug)]
pub struct Support;

impl EditSupport for Support {
    fn open(&self, target: SaveTarget, context: &EditContext) -> Result<Box<dyn Editor>> {
        Ok(Box::new(Session::open(target, context)?))
    }

    fn is_sidecar(&self, name: &OsStr) -> bool {
        sidecar::is_sidecar(name)
    }

    fn is_interrupted(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<bool> {
        let (path, state) = target.paths(mountpoint)?;
        Ok(is_interrupted(&path, state.as_deref()))
    }

    fn recover(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Recovered> {
        let (path, state) = target.paths(mountpoint)?;
        let places = places(&path, state.as_deref());
        let opened = open_locked(&System, &path, state.as_deref())?;
        recover(&System, &opened.file, &places).map_err(|error| error.of(&path))
    }

    fn condition(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Condition> {
        let (path, state) = target.paths(mountpoint)?;
        condition(&path, state.as_deref())
    }
}

/// True if a save of the file at `path` seems interrupted or in progress. `path` is absolute and without
/// links.
fn is_interrupted(path: &Path, state: Option<&Path>) -> bool {
    places(path, state).iter().any(|place| is_left_in(&System, place, path)) || is_marked(path)
}

/// True if the file has the mark of an unfinished save. False if the file can't be read: such a file is not
/// shown in any case.
fn is_marked(path: &Path) -> bool {
    System.open(path, false).is_ok_and(|file| mark::is_marked(&System, &file).unwrap_or(false))
}

/// Returns whether the file is one version or half-saved. Waits a while for a save by another program.
fn condition(path: &Path, state: Option<&Path>) -> Result<Condition> {
    let places = places(path, state);
    let lies = |path: &Path| exists(&System, path).unwrap_or(true);
    let mut attempts = 0..SAVE_ATTEMPTS;
    loop {
        // A journal of any user may be evidence of an interrupted save.
        if !places.iter().any(|place| place.journals().any(|journal| lies(&journal))) && !is_marked(path) {
            return Ok(Condition::Whole);
        }
        let file = System.open(path, false).map_err(|error| Error::from(error).of(path))?;
        // A program that holds the lock may be saving, or will recover the file.
        let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        let is_written = shared == Err(rustix::io::Errno::WOULDBLOCK);
        match recover::condition(&System, &file, &places) {
            Ok(Condition::Halfway(_)) | Err(_) if is_written && attempts.next().is_some() => {
                drop(file);
                std::thread::sleep(SAVE_PAUSE);
            }
            condition => return condition.map_err(|error| error.of(path)),
        }
    }
}
