//! The way in which a text would be saved, for a dry run.
//!
//! The abilities of the file system are tried out on unnamed files (O_TMPFILE) in the directory of the
//! source, so that nothing in the directory changes.

use std::fs::File;

use seekable::error::Result;
use seekable::source::storage::{HeldDir, Storage, System};

use super::plan::{GRAIN, PlannedChange};
use super::unsupported::cannot;
use super::{SaveOptions, SavePlan, Target};
use crate::container::text_version::TextVersion;

impl Target<System> {
    /// Returns the first way that the file system supports; `None` if the file has this text already. A save
    /// may still take a later way, or fail, for instance if space runs out.
    ///
    /// # Errors
    /// The text can't be the head of the file.
    pub(super) fn way(&mut self, text: &[u8], options: &SaveOptions) -> Result<Option<SavePlan>> {
        if TextVersion::of_bytes(text) == self.layout()?.head {
            return Ok(None);
        }
        let change =
            PlannedChange::new(self.layout()?, text, options).map_err(|error| error.of(self.label()))?;
        let plans = change.plans(self.storage.meta(&self.file)?.links, options);
        let dir = &self.held.dir;
        let last = plans.last().copied();
        Ok(plans.into_iter().find(|plan| supports(dir, *plan)).or(last))
    }
}

/// True unless the file system of a directory is known not to support a plan.
fn supports(dir: &HeldDir, plan: SavePlan) -> bool {
    let tried = match plan {
        SavePlan::Clone => unnamed(dir)
            .and_then(|from| Ok((from, unnamed(dir)?)))
            .and_then(|(from, to)| System.clone_range(&from, 0..GRAIN, &to, 0)),
        SavePlan::Insert => unnamed(dir).and_then(|file| System.insert(&file, 0, GRAIN)),
        SavePlan::InPlace | SavePlan::Copy | SavePlan::Rewrite => return true,
    };
    tried.err().is_none_or(|error| !cannot(&error))
}

/// Creates a file without a name, of two pages.
fn unnamed(dir: &HeldDir) -> std::io::Result<File> {
    // If the file system has no unnamed files, nothing is known about its other abilities.
    let file = dir.unnamed().map_err(|_| std::io::Error::other("unknown"))?;
    System.write_at(&file, 0, &vec![0; 2 * GRAIN as usize])?;
    Ok(file)
}
