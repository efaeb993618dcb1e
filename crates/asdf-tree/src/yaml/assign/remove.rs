//! Removes a key with its value, or an item, from a YAML text.

use std::ops::Range;

use super::{Edit, FoundNode, NodeStart};

/// The neighbours of a node in its collection.
#[derive(Clone, Debug, Default)]
pub(super) struct Siblings {
    pub(super) is_flow: bool,
    pub(super) is_mapping: bool,
    pub(super) parent: NodeStart,
    /// The end of the item or member before the node.
    pub(super) before: Option<usize>,
    /// The start of the item or member after it.
    pub(super) next: Option<usize>,
    /// The end of the collection, if nothing follows the node: the closing bracket.
    pub(super) close: Option<usize>,
}

/// Returns the edit that removes a node with its key, or with the dash of its item. Comments stay, except on its own
/// lines.
///
/// # Errors
/// The node is written in a way that this function does not know; the error says so.
pub(super) fn edit(text: &[u8], node: &FoundNode) -> Result<Edit, String> {
    let unknown = || Err("it is written in an unusual way; remove it with --edit".to_owned());
    let Siblings { is_flow, is_mapping, before, next, close, .. } = node.siblings;
    let empty = if is_mapping { "{}" } else { "[]" };
    let start = match &node.start.key {
        Some(key) => key.offset,
        None if is_flow => node.start.offset,
        None => match dash_before(text, node.start.offset) {
            Some(dash) => dash,
            None => return unknown(),
        },
    };
    let edit = |range: Range<usize>, new: &str| Ok(Edit { range, new: new.to_owned(), n: 0 });
    if is_flow {
        return match (before, next, close) {
            (_, Some(next), _) => edit(start..next, ""),
            (Some(before), None, Some(close)) => edit(before..close, ""),
            // A pair without braces, as in [a: 1], has no own place.
            (None, None, Some(close)) if text.get(close).is_some_and(|byte| b"]}".contains(byte)) => {
                let head = text.get(node.siblings.parent.offset..start).unwrap_or_default();
                let has_brackets = matches!(head.trim_ascii_end(), [.., b'[' | b'{']);
                if has_brackets { edit(start..close, "") } else { unknown() }
            }
            _ => unknown(),
        };
    }
    let line = text.get(..start).and_then(|head| memchr::memrchr(b'\n', head)).map_or(0, |at| at + 1);
    let head = text.get(line..start).unwrap_or_default().trim_ascii();
    if head.ends_with(b"?") {
        return unknown();
    }
    let end = node.range.end;
    // A block scalar ends after its line break.
    let line_end = match text.get(..end) {
        Some([.., b'\n']) if end > start => end - 1,
        _ => text.get(end..).and_then(|rest| memchr::memchr(b'\n', rest)).map_or(text.len(), |at| end + at),
    };
    if before.is_none() && next.is_none() {
        let parent = &node.siblings.parent;
        // An empty collection needs a place beyond the column of its key.
        let indent = NodeStart { column: start - line, ..parent.clone() }.missing_indent();
        let value_end = end.min(line_end);
        return edit(start..value_end, &format!("{}{empty}", " ".repeat(indent)));
    }
    if head.is_empty() {
        return match text.get(line_end) {
            Some(_) => edit(line..line_end + 1, ""),
            None => edit(line.saturating_sub(1)..line_end, ""),
        };
    }
    // The first key of a mapping in a sequence: what follows moves to its place, unless comments are between.
    let next = next.and_then(|next| if is_mapping { Some(next) } else { dash_before(text, next) });
    match next {
        Some(next) if !text.get(line_end..next).is_some_and(|between| between.contains(&b'#')) => {
            edit(start..next, "")
        }
        _ => edit(start..line_end, ""),
    }
}

/// Returns the place of the dash before an item.
fn dash_before(text: &[u8], item: usize) -> Option<usize> {
    let head = text.get(..item)?.trim_ascii_end();
    head.ends_with(b"-").then(|| head.len() - 1)
}
