//! The `meta` of a table as YAML on one line, for `table_meta_yaml`.

use asdf_tree::limits::{MAX_CHAIN, MAX_SEARCHED, MAX_VALUE};
use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use crate::parquet::quoted;

/// Returns a mapping as YAML; `None` if it is none, is empty or too long. Items that are no scalars, lists or mappings are
/// left out, such as arrays.
pub(super) fn yaml(meta: &TreeNode) -> Option<String> {
    let NodeContent::Mapping(entries) = &meta.target().node else { return None };
    let mut text = MetaLine { text: String::new(), visited: 0 };
    let is_whole = !entries.is_empty() && text.add(meta, 0) && text.is_short();
    is_whole.then_some(text.text)
}

struct MetaLine {
    text: String,
    visited: usize,
}

impl MetaLine {
    fn is_short(&self) -> bool {
        self.text.len() <= MAX_VALUE && self.visited <= MAX_SEARCHED
    }

    /// Adds a node. If it can't be shown, nothing is added, and the result is false.
    fn add(&mut self, node: &TreeNode, depth: usize) -> bool {
        self.visited += 1;
        if depth > MAX_CHAIN || !self.is_short() {
            return false;
        }
        let node = node.target();
        match &node.node {
            NodeContent::Scalar { text, .. } => self.add_scalar(node, text),
            NodeContent::Sequence(items, _) if node.tag.is_none() => {
                self.text.push('[');
                for item in items {
                    let begun = self.begin_item('[');
                    if !self.add(item, depth + 1) {
                        self.text.truncate(begun);
                    }
                }
                self.text.push(']');
            }
            NodeContent::Mapping(entries) if node.tag.is_none() => {
                self.text.push('{');
                for (key, value) in entries {
                    let begun = self.begin_item('{');
                    let NodeContent::Scalar { text, .. } = &key.target().node else {
                        self.text.truncate(begun);
                        continue;
                    };
                    self.add_scalar(key.target(), text);
                    self.text.push_str(": ");
                    if !self.add(value, depth + 1) {
                        self.text.truncate(begun);
                    }
                }
                self.text.push('}');
            }
            _ => return false,
        }
        true
    }

    /// Adds the separator before an item. Returns the length of the text before.
    fn begin_item(&mut self, bracket: char) -> usize {
        let begun = self.text.len();
        if !self.text.ends_with(bracket) {
            self.text.push_str(", ");
        }
        begun
    }

    fn add_scalar(&mut self, node: &TreeNode, text: &str) {
        let is_value = matches!(
            node.scalar_type(),
            Some(Type::Null | Type::Bool | Type::Int | Type::Float | Type::Timestamp)
        );
        let is_simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | ':' | '_' | ' ');
        if is_value && node.tag.is_none() && !text.is_empty() && text.chars().all(is_simple) {
            self.text.push_str(text);
        } else if is_value && matches!(node.scalar_type(), Some(Type::Null)) {
            self.text.push_str("null");
        } else {
            self.text.push_str(&quoted(text));
        }
    }
}
