//! Finds out if a save of a file was interrupted, and recovers the file.

use std::ffi::OsStr;
use std::time::Duration;

use rustix::fs::FlockOperation;
use seekable::error::Result;
use seekable::source::SourceStat;
use seekable::source::storage::{Storage, System};

use super::context::SaveTarget;
use super::journal::exists;
use super::mark;
use super::opened::{Patience, open_locked};
use super::recover::{self, By, Claim};
use super::recovered::{Condition, Recovered, Traces};
use super::sidecar::{HeldSource, Sidecars};

/// The number of times that a half-saved file is looked at again while another program seems to be saving it,
/// and the pause between them.
const SAVE_ATTEMPTS: usize = 100;
const SAVE_PAUSE: Duration = Duration::from_millis(10);
/// Time since its last change for which a journal may be that of a save in progress, although the file is not locked.
const FRESH: Duration = Duration::from_secs(1);

/// Returns the traces of a save that was interrupted or is in progress.
pub fn traces(target: &SaveTarget) -> Result<Traces> {
    let source = HeldSource::of(target)?;
    let found = recover::traces(&System, &source);
    Ok(if found != Traces::Left && is_marked(&source) { Traces::Left } else { found })
}

/// Finishes or undoes an interrupted save.
///
/// # Errors
///
/// [`Kind::Busy`](seekable::Kind::Busy) if another program, or this one, has the file locked or may be saving it,
/// [`Kind::ReadOnly`](seekable::Kind::ReadOnly) if it can't be written.
pub fn recover(target: &SaveTarget) -> Result<Recovered> {
    recover_by(target, By::Reader, Patience::None)
}

/// Finishes or undoes an interrupted save for the user of `--recover`. Where a save in progress can't be ruled out, it is
/// enough that nothing changes for a while.
///
/// # Errors
///
/// As for [`recover()`].
pub fn recover_by_hand(target: &SaveTarget) -> Result<Recovered> {
    recover_by(target, By::Hand, Patience::ForSave)
}

fn recover_by(target: &SaveTarget, by: By, patience: Patience) -> Result<Recovered> {
    let source = HeldSource::of(target)?;
    let opened = open_locked(&System, &source, patience)?;
    let claim = Claim { by, is_locked: opened.lock_error.is_none() };
    recover::recover(&System, &opened.file, &source, claim).map_err(|error| error.of(target.label()))
}

/// Checks whether a file is half-saved; changes nothing. Waits a moment for a save in progress.
///
/// # Errors
///
/// The file can't be examined.
pub fn condition(target: &SaveTarget) -> Result<Condition> {
    condition_of(&HeldSource::of(target)?).map_err(|error| error.of(target.label()))
}

/// True if the source has the mark of an unfinished save. False if it can't be read: such a file is not shown
/// in any case.
fn is_marked(source: &HeldSource<System>) -> bool {
    source.open(&System, false).is_ok_and(|file| mark::is_marked(&System, &file).unwrap_or(false))
}

/// True if one of the names that a journal of the source may have satisfies `is_wanted`.
fn has_journal(source: &HeldSource<System>, is_wanted: impl Fn(&Sidecars<System>, &OsStr) -> bool) -> bool {
    source.existing(&System).iter().any(|place| place.journals().any(|journal| is_wanted(place, &journal)))
}

/// True if there may be such a journal. A journal of any user may be evidence of an interrupted save.
fn may_exist(place: &Sidecars<System>, journal: &OsStr) -> bool {
    exists(&System, &place.dir, journal).unwrap_or(true)
}

/// True if the journal was written a moment ago. Its save may be in progress on a file that was replaced meanwhile: the
/// lock is that of the replaced file.
fn is_fresh(place: &Sidecars<System>, journal: &OsStr) -> bool {
    let meta = System.meta_at(&place.dir, journal);
    meta.is_ok_and(|meta| !SourceStat::from(meta.identity).is_unchanged_for(FRESH))
}

/// Returns whether the source is one version or half-saved. Waits a while for a save by another program.
fn condition_of(source: &HeldSource<System>) -> Result<Condition> {
    let mut attempts = 0..SAVE_ATTEMPTS;
    loop {
        if !has_journal(source, may_exist) && !is_marked(source) {
            return Ok(Condition::Whole);
        }
        let file = source.open(&System, false)?;
        // A program that holds the lock may be saving, or will recover the file.
        let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        let is_written = shared == Err(rustix::io::Errno::WOULDBLOCK) || has_journal(source, is_fresh);
        match recover::condition(&System, &file, source) {
            Ok(Condition::Halfway(_)) | Err(_) if is_written && attempts.next().is_some() => {
                drop(file);
                std::thread::sleep(SAVE_PAUSE);
            }
            condition => return condition,
        }
    }
}
