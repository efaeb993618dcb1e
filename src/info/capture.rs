//! A small part of a tree as a value, in bounded memory: long sequences and texts are cut, and counted.

use crate::yaml::event::{Style, What};
use crate::yaml::scalar::TAG_PREFIX;

/// Maximum number of nodes that are kept of one value, and total length of their texts.
const MAX_NODES: usize = 1 << 15;
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of scalars and sequences that are kept of a sequence, halved with each nesting.
const MAX_ITEMS: usize = 16;
/// Maximum length in bytes of a text that is kept in full.
const MAX_SCALAR: usize = 1 << 10;
/// Maximum if values are shown in full.
const MAX_SCALAR_OF_ALL: usize = 1 << 16;

/// A node with its tag.
#[derive(Clone, Debug, Default)]
pub(super) struct Captured {
    pub(super) tag: Option<Box<str>>,
    pub(super) what: CapturedKind,
}

/// The kind and content of a node.
#[derive(Clone, Debug)]
pub(super) enum CapturedKind {
    Scalar {
        text: Box<str>,
        is_plain: bool,
    },
    /// The first items, and the number of all.
    Sequence {
        items: Vec<Captured>,
        count: u64,
    },
    /// The first members, and the number of all.
    Mapping {
        members: Vec<(Box<str>, Captured)>,
        count: u64,
    },
    Alias(Box<str>),
}

impl Default for CapturedKind {
    fn default() -> Self {
        Self::Scalar { text: "".into(), is_plain: true }
    }
}

impl Captured {
    /// Returns the name in the tag without authority and version: `ndarray`. `None` for YAML's own tags.
    pub(super) fn kind(&self) -> Option<&str> {
        kind_of(self.tag.as_deref()?)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Captured> {
        let CapturedKind::Mapping { members, .. } = &self.what else { return None };
        members.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Returns the items of a sequence that were kept.
    pub(super) fn items(&self) -> &[Captured] {
        match &self.what {
            CapturedKind::Sequence { items, .. } => items,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.what {
            CapturedKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }
}

/// Returns the name in a tag without authority and version; `None` for YAML's own tags.
pub(super) fn kind_of(tag: &str) -> Option<&str> {
    if tag.starts_with(TAG_PREFIX) {
        return None;
    }
    let name = tag.rsplit(['/', ':', '!']).next().unwrap_or(tag);
    let versioned =
        name.rsplit_once('-').filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    Some(versioned.map_or(name, |(name, _)| name)).filter(|name| !name.is_empty())
}

/// A value that is being captured.
#[derive(Debug)]
pub(super) struct Capture {
    open: Vec<OpenNode>,
    nodes: usize,
    text: usize,
    max_scalar: usize,
}

#[derive(Debug)]
struct OpenNode {
    node: Captured,
    key: Option<Box<str>>,
    /// False if the node is only counted.
    is_kept: bool,
}

impl Capture {
    pub(super) fn new(all: bool) -> Self {
        let max_scalar = if all { MAX_SCALAR_OF_ALL } else { MAX_SCALAR };
        Self { open: Vec::new(), nodes: 0, text: 0, max_scalar }
    }

    /// Takes the next event of the value. Returns the value at its end.
    pub(super) fn take(&mut self, what: What<'_>) -> Option<Captured> {
        match what {
            What::Scalar { value, style, tag, .. } => {
                let is_plain = style == Style::Plain;
                let text = self.cut(value);
                self.put(Captured { tag: tag.map(Into::into), what: CapturedKind::Scalar { text, is_plain } })
            }
            What::Alias(name) => {
                let name = self.cut(name);
                self.put(Captured { tag: None, what: CapturedKind::Alias(name) })
            }
            What::SequenceStart { tag, .. } => {
                self.begin(tag, CapturedKind::Sequence { items: Vec::new(), count: 0 });
                None
            }
            What::MappingStart { tag, .. } => {
                self.begin(tag, CapturedKind::Mapping { members: Vec::new(), count: 0 });
                None
            }
            What::SequenceEnd | What::MappingEnd => {
                let ended = self.open.pop()?;
                self.put_node(ended.node, ended.is_kept)
            }
            _ => None,
        }
    }

    fn cut(&mut self, text: &str) -> Box<str> {
        let room = self.max_scalar.min(MAX_TEXT.saturating_sub(self.text));
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let kept = text.get(..end).unwrap_or_default();
        self.text += kept.len();
        if end < text.len() { format!("{kept}…").into() } else { kept.into() }
    }

    fn begin(&mut self, tag: Option<&str>, what: CapturedKind) {
        let is_sequence = matches!(what, CapturedKind::Sequence { .. });
        let is_kept = self.has_room(is_sequence);
        self.open.push(OpenNode { node: Captured { tag: tag.map(Into::into), what }, key: None, is_kept });
    }

    /// True if the next node will be kept. The first item of a sequence always is, for the shape of an array.
    fn has_room(&self, is_small: bool) -> bool {
        let Some(parent) = self.open.last() else { return true };
        if !parent.is_kept {
            return false;
        }
        let depth = self.open.len();
        match &parent.node.what {
            CapturedKind::Sequence { items, .. } if is_small => {
                items.is_empty() || (items.len() < MAX_ITEMS >> depth.min(4) << 1 && self.nodes < MAX_NODES)
            }
            CapturedKind::Mapping { members, .. } if depth == 1 => {
                members.len() < 64 || self.nodes < MAX_NODES
            }
            _ => self.nodes < MAX_NODES,
        }
    }

    fn put(&mut self, node: Captured) -> Option<Captured> {
        let is_kept = self.has_room(true);
        self.put_node(node, is_kept)
    }

    fn put_node(&mut self, node: Captured, is_kept: bool) -> Option<Captured> {
        let Some(parent) = self.open.last_mut() else { return Some(node) };
        self.nodes += usize::from(is_kept);
        match &mut parent.node.what {
            CapturedKind::Sequence { items, count } => {
                *count += 1;
                if is_kept {
                    items.push(node);
                }
            }
            CapturedKind::Mapping { members, count } => match parent.key.take() {
                None => parent.key = Some(node.text().unwrap_or("…").into()),
                Some(key) => {
                    *count += 1;
                    if is_kept {
                        members.push((key, node));
                    }
                }
            },
            _ => {}
        }
        None
    }
}
