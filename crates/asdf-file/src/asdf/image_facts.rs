//! The facts of the images of a tree: filter, exposure time, date and target of each.

use asdf_tree::product::{FileSummary, ImageFacts};
use seekable::error::Result;

use super::arrays;
use super::view::AsdfFile;

/// Returns the facts of all images. The first call reads the tree.
pub fn of(file: &AsdfFile) -> Result<&ImageFacts> {
    file.computed.get_or_try_compute(|| {
        let document = file.kept_document().get()?;
        let summary = FileSummary::of(&document);
        let paths = arrays::surveyed(file)?.items.iter().map(arrays::path_in_tree);
        Ok(ImageFacts::new(&summary, paths, &|key| arrays::NAMES.component(key.as_bytes())))
    })
}
