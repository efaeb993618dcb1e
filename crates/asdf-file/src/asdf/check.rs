//! Checks the tree of a whole file, for `--check`.

use std::collections::BTreeMap;

use asdf_tree::yaml::document::Document;
use asdf_tree::yaml::survey::{self, nodes};
use seekable::error::{Kind, Result};

use super::defect::AsdfDefect;
use super::ndarray::{self, Ndarray};
use super::stored::StoredFile;
use crate::container;

/// Maximum number of missing blocks reported.
const MAX_MISSING: usize = 100;

/// Checks that the tree, which has this document, is valid YAML, and that the blocks that its arrays name exist.
pub(crate) fn tree(file: &StoredFile, document: Result<&Document>) -> Result<Vec<container::Defect>> {
    let blocks = file.block_count()?;
    let mut missing = BTreeMap::new();
    let checked = document.and_then(|document| {
        survey::whole(document)?;
        survey::check_tree(document)?;
        let found = nodes::survey(document, ndarray::WANTED, &mut |_, found| {
            let array =
                found.tag.filter(|tag| ndarray::is_tag(tag)).map(|tag| Ndarray::read(tag, found.value));
            if let Some(Ok(Ndarray { source: source @ ndarray::Source::Block(n), .. })) = array
                && source.block(blocks).is_none()
                && missing.len() < MAX_MISSING
            {
                missing.entry(n).or_insert(found.value.place.offset);
            }
        });
        Ok(found.map(drop)?)
    });
    match checked {
        Err(error) if !matches!(error.kind(), Kind::System(_)) => {
            let offset = error.offset().unwrap_or(0);
            let defect = match error.kind() {
                Kind::Unsupported => AsdfDefect::UncheckedTree(error),
                _ => AsdfDefect::NotYaml(error),
            };
            return Ok(vec![defect.at(offset, None)]);
        }
        checked => checked?,
    }
    let last = blocks.checked_sub(1);
    let defect = |(block, offset)| AsdfDefect::MissingBlock { block, last }.at(offset, None);
    Ok(missing.into_iter().map(defect).collect())
}
