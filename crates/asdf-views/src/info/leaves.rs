//! The scalars of a tree, each with its path.

use std::fmt::Write;

use asdf_file::container::Container;
use asdf_tree::yaml::document::{Document, Id, Kind, RunEvent};
use seekable::error::Result;

/// Passes each scalar of the tree to `take`: its path, `meta.instrument.name` or `steps[2].name`, and its text.
///
/// # Errors
/// The tree can't be read or is not valid, or `take` fails.
pub fn each_leaf(container: &dyn Container, take: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
    let document = container.document()?;
    each_in(&document, take)?;
    document.fault().map_or(Ok(()), |fault| Err(fault.clone()))
}

/// Passes each scalar of a document to `take`, up to its fault.
pub(super) fn each_in(document: &Document, take: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
    document.root().map_or(Ok(()), |root| each_below(document, root, &mut String::new(), take))
}

/// Passes each scalar in a node to `take`. `path` is the path of the node, and is the same afterwards.
fn each_below(
    document: &Document,
    id: Id,
    path: &mut String,
    take: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let len = path.len();
    match document.kind(id) {
        Kind::Scalar(_) => take(path, document.text(id))?,
        Kind::Mapping => {
            for (key, value) in document.members(id) {
                if len > 0 {
                    path.push('.');
                }
                let is_collection = matches!(document.kind(key), Kind::Sequence | Kind::Mapping);
                path.push_str(if is_collection { "…" } else { document.text(key) });
                each_below(document, value, path, take)?;
                path.truncate(len);
            }
        }
        Kind::Sequence => {
            let mut count = 0_u64;
            for child in document.children(id) {
                if document.kind(child) == Kind::ScalarRun {
                    each_of_run(document, child, count, path, take)?;
                } else {
                    // Writing to a String can't fail.
                    let _ = write!(path, "[{count}]");
                    each_below(document, child, path, take)?;
                }
                path.truncate(len);
                count += document.items_in(child);
            }
        }
        Kind::Alias | Kind::ScalarRun => {}
    }
    Ok(())
}

/// Passes each scalar of a run to `take`. `path` is the path of its sequence, and `first` the number of its first item.
fn each_of_run(
    document: &Document,
    run: Id,
    first: u64,
    path: &mut String,
    take: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    // The open sequences: the lengths of their paths, and the numbers of their next items.
    let mut open = vec![(path.len(), first)];
    for piece in 0..document.piece_count(run) {
        document.read_piece(run, piece, |event| {
            if event == RunEvent::SequenceEnd {
                open.pop();
                return Ok(());
            }
            let Some((len, next)) = open.last_mut() else { return Ok(()) };
            path.truncate(*len);
            let _ = write!(path, "[{next}]");
            *next += 1;
            match event {
                RunEvent::Scalar(text) => take(path, text)?,
                _ => open.push((path.len(), 0)),
            }
            Ok(())
        })?;
    }
    Ok(())
}
