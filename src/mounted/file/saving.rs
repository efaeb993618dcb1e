//! The begin and the end of a save, for the mounted file.

use std::sync::{Arc, Weak};
use std::time::Instant;

use seekable::error::Result;
use seekable::source::SourceVersion;
use seekable::sync::{MutexGuard, locked};

use super::{MountedFile, same_life};
use crate::mounted::generation::bytes::{GenerationSource, SaveReaders};

/// A save in progress. Until it ends, the file is not parsed.
#[derive(Debug)]
pub(crate) struct Saving<'a> {
    mounted: &'a MountedFile,
    /// Generation that the save replaces.
    source: Arc<GenerationSource>,
    pub(crate) readers: SaveReaders,
    _parsing: MutexGuard<'a, ()>,
}

/// The end of a save.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SaveEnd {
    /// The file has the new text. `from` is the version of the file that the save was made for, if it is
    /// known, and `after` the version in which the save left the file.
    Saved { from: Option<SourceVersion>, after: SourceVersion },
    /// The file has its old text, or is half-saved until it is recovered.
    Refused,
    /// Another program has changed or replaced the file.
    Conflict,
}

impl Saving<'_> {
    /// Ends the save and returns the file's version.
    pub(crate) fn end(self, end: SaveEnd) -> Result<SourceVersion> {
        let self_saved = match end {
            SaveEnd::Saved { from, after } => self.source.end_save(from, Some(after)).map(|_| after),
            SaveEnd::Refused | SaveEnd::Conflict => self.source.end_save(None, None),
        };
        self.mounted.end_save(end, self_saved)
    }
}

impl MountedFile {
    /// Begins a save. Until it ends, programs open the current generation.
    ///
    /// # Errors
    /// ESTALE if the file has lost its name. The caller begins again with the file that has the name now: only its own
    /// mounted file tells its readers of the save.
    pub(crate) fn begin_save(&self) -> Result<Saving<'_>> {
        let parsing = locked(&self.parsing);
        // A change by another program before the save begins is not the save's.
        if !self.revalidate_now().attached {
            return Err(rustix::io::Errno::STALE.into());
        }
        let opened = self.parse(&parsing)?;
        locked(&self.state).saving = Some(opened.generation().clone());
        let source = opened.source.clone();
        source.begin_save();
        let readers = SaveReaders(source.bytes().clone());
        Ok(Saving { mounted: self, source, readers, _parsing: parsing })
    }

    /// Ends a save and returns the file's version. After a success, the file that the save wrote stays this
    /// mounted file, even if its inode number differs. `self_saved` is the version in which the save left the file, if
    /// no other program has changed the file since it was parsed.
    fn end_save(&self, end: SaveEnd, self_saved: Option<SourceVersion>) -> Result<SourceVersion> {
        let stat = self.location.stat();
        let mut state = locked(&self.state);
        state.saves += 1;
        let ended = state.saving.take();
        state.checked_at = Some(Instant::now());
        let version = match (stat, end) {
            (Ok(stat), SaveEnd::Saved { after, .. }) if stat.source.version.same_file(&after) => {
                (state.self_saved, state.stat, state.attached) = (self_saved, stat, true);
                Ok(after)
            }
            (Ok(stat), SaveEnd::Refused) if same_life(&state.stat, &stat) => {
                state.self_saved = self_saved.or(state.self_saved);
                (state.stat, state.attached) = (stat, true);
                Ok(stat.source.version)
            }
            (Ok(stat), SaveEnd::Conflict) if same_life(&state.stat, &stat) => {
                state.stat = stat;
                if self.location.is_remote() {
                    (state.is_unknown, state.bytes) = (true, Weak::new());
                }
                Ok(stat.source.version)
            }
            (Ok(_), _) => {
                self.detach(&mut state);
                Err(rustix::io::Errno::STALE.into())
            }
            (Err(error), _) => {
                if self.location.is_gone(&error) {
                    self.detach(&mut state);
                }
                Err(error)
            }
        };
        drop(state);
        drop(ended); // closes a file after the lock is released
        version
    }
}
