//! The walk over many files: those that a user names, and those in directories.

mod found;
pub mod parallel;
mod walk;

use std::path::Path;
use std::sync::Arc;

pub use found::{Elsewhere, FilesToRead, Found};
use seekable::error::{Error, Kind, Result};
use seekable::source::{FileSource, Source};

use asdf_file::edit::context::SaveTarget;
use asdf_file::edit::recovery::{self, Condition};

use crate::local::location::Location;

/// Opens a local file, unless it is half-saved.
///
/// # Errors
/// [`Kind::Unfinished`] if the file is, or may be, half-saved; other kinds if it can't be opened.
pub fn open_whole(path: &Path) -> Result<Arc<dyn Source>> {
    let condition = SaveTarget::of_path(path).and_then(|target| recovery::condition(&target));
    match condition {
        Ok(Condition::Halfway(why)) => Err(Error::new(Kind::Unfinished, why)),
        // A file that can't be examined can hardly be opened, and that error is about the file itself.
        Ok(Condition::Whole) | Err(_) => open_beside_others(path),
    }
}

/// Opens a file with access to the files that it names. A file without a name, such as `/dev/fd/3` may be, has none.
fn open_beside_others(path: &Path) -> Result<Arc<dyn Source>> {
    let file = FileSource::open(path)?;
    Ok(match Location::of_path(path, None, false) {
        Ok(Location::Local(local)) => Arc::new(file.with_surroundings(local.surroundings())),
        _ => Arc::new(file),
    })
}
