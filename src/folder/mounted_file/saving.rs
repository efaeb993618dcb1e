//! The beginning and the end of a save, as the mounted file sees them.

use std::sync::{MutexGuard, Weak};
use std::time::Instant;

use super::{MountedFile, same_life};
use crate::error::Result;
use crate::folder::generation::bytes::SaveReaders;
use crate::host::stat::Kind;
use crate::source::SourceVersion;
use crate::sync::{Ranked, locked};

/// A save in progress. Until it ends nothing is parsed.
#[derive(Debug)]
pub(crate) struct Saving<'a> {
    mounted: &'a MountedFile,
    pub(crate) readers: SaveReaders,
    _parsing: Ranked<MutexGuard<'a, ()>>,
}

impl Saving<'_> {
    /// Ends it; see [`MountedFile::end_save`].
    pub(crate) fn end(self, own: bool, unsettled: bool) -> Result<SourceVersion> {
        self.readers.0.end_save();
        self.mounted.end_save(own, unsettled)
    }
}

impl MountedFile {
    /// Begins a save: the generation of now is the one that programs open until the save ends.
    pub(crate) fn begin_save(&self) -> Result<Saving<'_>> {
        let parsing = locked(&self.parsing);
        let opened = self.parse(&parsing)?;
        locked(&self.state).saving = Some(opened.generation().clone());
        Ok(Saving { mounted: self, readers: SaveReaders(opened.source.bytes().clone()), _parsing: parsing })
    }

    /// Ends a save: the file that has the name now is still this one, whatever its number, if the save
    /// left it there (`own`). Returns its version. One that is half the old file and half the new one
    /// (`unsettled`) is not read until it is settled.
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
            Ok(stat) if stat.kind == Kind::File => {
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
        drop(ended); // closes a file, which is done after the lock was let go
        version
    }

    /// True if a save left the file halfway.
    pub(crate) fn is_unsettled(&self) -> bool {
        locked(&self.state).unsettled
    }

    /// Notes that the file is one again, by what this program did to it.
    pub(crate) fn settled(&self) {
        // The file may be any of its versions now: it is looked at as after a save.
        let _ = self.end_save(true, false);
    }
}
