//! Checks the tree of a whole file, for `--check`.

use std::collections::BTreeMap;

use asdf_tree::limits::MAX_NOTES;
use asdf_tree::schema::{Schemas, remove_explained};
use asdf_tree::yaml::document::Document;
use asdf_tree::yaml::event::START;
use asdf_tree::yaml::survey::{self, nodes};
use seekable::error::{Kind, Result};

use super::defect::AsdfDefect;
use super::ndarray::{self, Ndarray};
use super::stored::StoredFile;
use crate::container::{self, Severity};

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

/// Checks that the nodes of a tree fit the schemas of their tags. Tags without a schema are noted.
pub(crate) fn schemas(document: &Document, schemas: &Schemas) -> Vec<container::Defect> {
    let mut checked = schemas.check(document);
    remove_explained(&mut checked.violations);
    let defect = |severity, offset, what| container::Defect { severity, offset, block: None, what };
    let mut cursor = document.cursor(START);
    let mut defects = Vec::new();
    for violation in checked.violations.iter().take(MAX_NOTES) {
        let severity = if violation.unchecked { Severity::Unread } else { Severity::Damage };
        let what = format!("{}: {}", cursor.mark(violation.at), violation.what);
        defects.push(defect(severity, violation.at, what));
    }
    let more = checked.violations.len().saturating_sub(MAX_NOTES);
    let after = checked.violations.last().map_or(0, |last| last.at);
    if more > 0 {
        defects.push(defect(Severity::Damage, after, format!("{more} more nodes do not fit the schemas")));
    }
    if let Some(tag) = checked.unknown_tags.first() {
        let count = checked.unknown_tags.len();
        let what = format!("the schemas have no manifest that names {}", tag.escape_debug());
        let others = if count > 1 { format!(", nor {} other tags", count - 1) } else { String::new() };
        defects.push(defect(Severity::Note, 0, what + &others));
    }
    defects
}
