//! The walk over many files, for `--check`, `--index` and `--catalog`.

mod found;
pub(crate) mod parallel;
mod walk;

use std::path::Path;

pub(crate) use found::{Elsewhere, FilesToRead, Found};

use crate::format::editor::SaveTarget;
use crate::format::recovery::{self, Condition};
use crate::named;

/// Returns a reason if the file is, or may be, half-saved; `None` if it is not.
pub(crate) fn halfway(file: &Path) -> Option<String> {
    if !named::is_local(file).unwrap_or(false) {
        return None;
    }
    let found = SaveTarget::of_path(file).and_then(|target| recovery::condition(&target, true));
    match found {
        Ok(Condition::Halfway(why)) => Some(why),
        Ok(Condition::Whole) | Err(_) => None,
    }
}
