//! The begin and the end of a save, for the mounted file.

use std::sync::{MutexGuard, Weak};
use std::time::Instant;

use super::{MountedFile, same_life};
use crate::error::Result;
use crate::folder::generation::bytes::SaveReaders;
use crate::host::stat::FileKind;
use crate::source::SourceVersion;
use crate::sync::{Ranked, locked};

/// A save in progress. Until it ends, the file is not parsed.
#[derive(Debug)]
pub(crate) struct Saving<'a> {
    mounted: &'a MountedFile,
    pub(crate) readers: SaveReaders,
    _parsing: Ranked<MutexGuard<'a, ()>>,
}

impl Saving<'_> {
    /// Ends the save; see [`MountedFile::end_save`].
    pub(crate) fn end(self, own: bool, unsettled: bool) -> Result<SourceVersion> {
        self.readers.0.end_save();
        self.mounted.end_save(own, unsettled)
    }
}

impl MountedFile {
    /// Begins a save. Until it ends, programs open the current generation.
    pub(crate) fn begin_save(&self) -> Result<Saving<'_>> {
        let parsing = locked(&self.parsing);
        let opened = self.parse(&parsing)?;
        locked(&self.state).saving = Some(opened.generation().clone());
        Ok(Saving { mounted: self, readers: SaveReaders(opened.source.bytes().clone()), _parsing: parsing })
    }

    /// Ends a save and returns the file's version. If `own` is true, the save wrote the file that has the
    /// name now: it stays this mounted file, even if its inode number differs. If `unsettled` is true, the
    /// file is half-saved and is not read until it is recovered.
    fn end_save(&self, own: bool, unsettled: bool) -> Result<SourceVersion> {
        let stat = self.location.stat();
        let may_be_unknown = !own && self.location.is_remote();
        let mut state = locked(&self.state);
        state.saves += 1;
        state.unsettled = unsettled;
        let ended = state.saving.take();
        state.looked = Instant::now();
        let version = match stat {
            Ok(stat) if !own && same_life(&state.stat, &stat) => {
                state.stat = stat;
                if may_be_unknown {
                    (state.is_unknown, state.bytes) = (true, Weak::new());
                }
                Ok(stat.source.version)
            }
            Ok(_) if !own => {
                self.detach(&mut state);
                Err(rustix::io::Errno::STALE.into())
            }
            Ok(stat) if stat.kind == FileKind::File => {
                state.attached = true;
                state.own = Some(stat.source.version);
                state.stat = stat;
                Ok(stat.source.version)
            }
            found => {
                self.detach(&mut state);
                found.map_or_else(Err, |_| Err(rustix::io::Errno::STALE.into()))
            }
        };
        drop(state);
        drop(ended); // closes a file after the lock is released
        version
    }

    /// True if a save left the file half-saved.
    pub(crate) fn is_unsettled(&self) -> bool {
        locked(&self.state).unsettled
    }

    /// Records that this program has recovered the file.
    pub(crate) fn settled(&self) {
        // The file may have any of its versions now, so its state is refreshed as after a save.
        let _ = self.end_save(true, false);
    }
}
