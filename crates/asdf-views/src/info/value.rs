//! A node of a tree as it is described: long sequences and texts are cut.

use std::borrow::Cow;
use std::sync::Arc;

use asdf_tree::product::kind_of_tag;
use asdf_tree::yaml::document::{Document, Id, Kind};
use asdf_tree::yaml::event::Style;

/// Maximum number of scalars and sequences that are shown of a sequence, halved with each nesting.
const MAX_ITEMS: usize = 16;
/// Maximum length in bytes of a text that is shown in full.
const MAX_SCALAR: usize = 1 << 10;
/// Maximum if values are shown in full.
const MAX_SCALAR_OF_ALL: usize = 1 << 16;

/// A node with all below it.
#[derive(Clone, Debug)]
pub(super) struct NodeValue {
    document: Arc<Document>,
    id: Id,
    /// The number of collections around the node within the described value.
    depth: usize,
    is_untagged: bool,
    max_scalar: usize,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Scalar,
    Sequence,
    Mapping,
    Alias,
}

impl NodeValue {
    pub(super) fn new(document: &Arc<Document>, id: Id, all: bool) -> Self {
        let max_scalar = if all { MAX_SCALAR_OF_ALL } else { MAX_SCALAR };
        Self { document: document.clone(), id, depth: 0, is_untagged: false, max_scalar }
    }

    /// Returns the value as it would be without its tag.
    pub(super) fn untagged(&self) -> Self {
        Self { is_untagged: true, ..self.clone() }
    }

    fn below(&self, document: &Arc<Document>, id: Id) -> Self {
        let document = document.clone();
        Self { document, id, depth: self.depth + 1, is_untagged: false, ..*self }
    }

    pub(super) fn tag(&self) -> Option<&str> {
        if self.is_untagged { None } else { self.document.tag(self.id) }
    }

    /// Returns the name in the tag without authority and version: `ndarray`. `None` for YAML's own tags.
    pub(super) fn kind(&self) -> Option<&str> {
        kind_of_tag(self.tag()?)
    }

    pub(super) fn what(&self) -> ValueKind {
        match self.document.kind(self.id) {
            Kind::Scalar(_) => ValueKind::Scalar,
            Kind::Sequence | Kind::ScalarRun => ValueKind::Sequence,
            Kind::Mapping => ValueKind::Mapping,
            Kind::Alias => ValueKind::Alias,
        }
    }

    /// True for a scalar without quotes.
    pub(super) fn is_plain(&self) -> bool {
        self.document.kind(self.id) == Kind::Scalar(Style::Plain)
    }

    /// Returns the number of items or members.
    pub(super) fn count(&self) -> u64 {
        self.document.count(self.id)
    }

    /// Returns the members of a mapping with their names.
    pub(super) fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, Self)> {
        let is_mapping = self.what() == ValueKind::Mapping;
        let members = is_mapping.then(|| self.document.members(self.id)).into_iter().flatten();
        members.map(|(key, value)| {
            let name =
                if matches!(self.document.kind(key), Kind::Scalar(_)) { self.cut(key) } else { "…".into() };
            (name, self.below(&self.document, value))
        })
    }

    pub(super) fn get(&self, key: &str) -> Option<Self> {
        self.members().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the first items of a sequence, but all that are mappings.
    pub(super) fn items(&self) -> Vec<Self> {
        let mut items = Vec::new();
        if self.what() != ValueKind::Sequence {
            return items;
        }
        let most = MAX_ITEMS >> (self.depth + 1).min(4) << 1;
        for child in self.document.children(self.id) {
            let kind = self.document.kind(child);
            if kind == Kind::Mapping || items.len() < most && kind != Kind::ScalarRun {
                items.push(self.below(&self.document, child));
            } else if items.len() < most
                && let Ok(piece) = self.document.piece(child, 0).map(Arc::new)
                && let Some(root) = piece.root()
            {
                let room = most - items.len();
                items.extend(piece.children(root).take(room).map(|item| self.below(&piece, item)));
            }
        }
        items
    }

    /// Returns the text of a scalar, or the name of an alias.
    pub(super) fn shown(&self) -> Cow<'_, str> {
        self.cut(self.id)
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        (self.what() == ValueKind::Scalar).then(|| self.shown())
    }

    pub(super) fn text_of(&self, key: &str) -> Option<String> {
        Some(self.get(key)?.text()?.into_owned())
    }

    fn cut(&self, id: Id) -> Cow<'_, str> {
        let text = self.document.text(id);
        let mut end = text.len().min(self.max_scalar);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if end < text.len() { format!("{}…", &text[..end]).into() } else { text.into() }
    }
}
