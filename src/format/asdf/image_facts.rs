//! The facts of the images of a tree: filter, exposure time, date and target of each.

use super::arrays;
use super::view::AsdfFile;
use crate::error::{Error, Result};
use crate::product::{FileSummary, ImageFacts};
use crate::yaml::read::{Unread, each_event};
use crate::yaml::survey::Commented;

/// Returns the facts of all images. The first call reads the tree.
pub(super) fn of(file: &AsdfFile) -> Result<&ImageFacts> {
    file.computed.get_or_try_compute(|| {
        let mut summary = FileSummary::default();
        let read = each_event(&Commented(&*file.tree()), |event| -> std::result::Result<bool, Unread> {
            summary.take(event);
            Ok(true)
        });
        match read.map_err(Error::from) {
            Err(error) if error.is_of_reading() => Err(error),
            _ => {
                let paths = arrays::surveyed(file)?.items.iter().map(arrays::path_in_tree);
                Ok(ImageFacts::new(&summary, paths, &|key| arrays::NAMES.component(key.as_bytes())))
            }
        }
    })
}
