//! A text as a document: an arena of its nodes, in the order of the text.
//!
//! A node has at most 32 bytes. Its text is a range of the YAML text, or of `unescaped` if it was escaped or folded.
//! A stretch of more than 16 plain scalars in a sequence is one node, a [run](Kind::ScalarRun), and so is one of sequences of
//! plain scalars, at any depth: a tree of 100 MB of numbers has few nodes. The items of a run are read from the text
//! again, by the same parsers. Aliases are nodes that name their target; nothing is expanded.
//!
//! A text that breaks off gives the nodes before its [fault](Document::fault). Nodes and text have a maximum, so that
//! a document has one, too: [`MAX_NODES`], [`MAX_TEXT`].

use std::sync::Arc;

use super::event::{Failure, Mark, Style};
use super::read::{Unread, each_event_in};
use super::scalar::{Type, type_of};
use crate::limits::{MAX_NODES, MAX_TEXT};
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Result};

mod builder;
mod run;

pub use builder::Builder;
pub use run::RunEvent;
use run::{Checkpoint, ScalarRun, each_event_of_items};

/// The byte order mark, which has no column.
const BOM: char = '\u{feff}';

/// A node, by its position in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// In place of the parent of the root, and of the target of an alias without an anchor.
    const NONE: Self = Self(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }

    fn known(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scalar, and how it is written.
    Scalar(Style),
    /// A sequence.
    Sequence,
    /// A mapping.
    Mapping,
    /// An alias of an earlier node.
    Alias,
    /// Several items of a sequence: plain scalars, or sequences of plain scalars at any depth, without tags and
    /// anchors.
    ScalarRun,
}

/// The place of a node in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePlace {
    /// The root.
    Root,
    /// A key of a mapping.
    Key,
    /// The value of this key.
    Value(Id),
    /// The item with this position.
    Item(u32),
}

#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// The number of the tag, from 1, in three bytes; 0 for none.
    tag: [u8; 3],
    parent: Id,
    /// The position of an item, or of the first item of a run; the key of a value; of a key, itself.
    place: u32,
    /// The first node after this one and all within it.
    end: Id,
    /// The offset in the text.
    at: u32,
    /// Start and length of the text, the target of an alias and the length of its name, or the number of a run and of
    /// its items. Of a collection, 1 if it is written in brackets or braces.
    text: (u32, u32),
}

const _: () = assert!(size_of::<Node>() <= 32);

/// A text as a document.
#[derive(Debug)]
pub struct Document {
    pub(crate) text: String,
    /// Texts that do not stand in `text` as they are. Offsets in it follow those in `text`.
    unescaped: String,
    nodes: Vec<Node>,
    runs: Vec<ScalarRun>,
    /// The items of runs at which reading can begin.
    checkpoints: Vec<Checkpoint>,
    tags: Vec<Box<str>>,
    fault: Option<Error>,
    /// The syntax error that is the fault.
    failure: Option<Failure>,
    /// The offset of another document, which is the fault.
    next_document: Option<u64>,
    /// The nodes whose anchors an earlier node has, with the anchors.
    pub(super) repeated: Vec<(Id, Box<str>)>,
    /// The innermost collection that a fault has left open.
    unfinished: Option<Id>,
}

impl Document {
    /// Reads the text of a content.
    ///
    /// # Errors
    ///
    /// The content can't be read. An error in the text, or one that is too long, is [`Document::fault`].
    pub fn read(content: &dyn Content) -> Result<Self> {
        let mut builder = Builder::new(MAX_NODES);
        let bytes = match bytes_of(content) {
            Err(error) if !error.is_of_reading() => {
                builder.fail(&error);
                Vec::new()
            }
            bytes => bytes?,
        };
        let text = valid_part(&bytes);
        let read = each_event_in(&bytes, |event| Ok::<_, Unread>(builder.on_event(text, event)));
        let mut failure = None;
        if let Err(unread) = read {
            builder.fail(&unread.error);
            failure = unread.failure;
        }
        let valid = text.len();
        Ok(Self { failure, ..builder.finish(without_rest(bytes, valid)) })
    }

    /// Returns the offset of another document, which is the fault.
    pub fn next_document(&self) -> Option<u64> {
        self.next_document
    }

    /// Returns the syntax error that is the fault.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns the error that ends the text early; all nodes are from before it.
    pub fn fault(&self) -> Option<&Error> {
        self.fault.as_ref()
    }

    /// Returns the offset of the first node after one and all within it, or of the end of the text.
    pub(crate) fn end_offset(&self, id: Id) -> u64 {
        self.nodes.get(self.end(id).index()).map_or(self.text.len() as u64, |next| u64::from(next.at))
    }

    /// Returns the memory of the document, in bytes.
    pub fn weight(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        let runs = self.runs.capacity() * size_of::<ScalarRun>();
        let checkpoints = self.checkpoints.capacity() * size_of::<Checkpoint>();
        let tags = self.tags.iter().map(|tag| tag.len() + size_of::<Box<str>>()).sum::<usize>();
        (self.text.capacity() + self.unescaped.capacity() + nodes + runs + checkpoints + tags) as u64
    }

    /// True if a fault has left a node open.
    pub fn is_unfinished(&self, id: Id) -> bool {
        self.unfinished.is_some_and(|innermost| self.is_within(innermost, id))
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the root; `None` if there are no nodes.
    pub fn root(&self) -> Option<Id> {
        (!self.nodes.is_empty()).then_some(Id(0))
    }

    /// Iterates over all nodes.
    pub fn all(&self) -> impl Iterator<Item = Id> + use<> {
        (0..self.nodes.len() as u32).map(Id)
    }

    /// Returns the kind of a node.
    pub fn kind(&self, id: Id) -> Kind {
        self.node(id).kind
    }

    /// True for a collection that is written in brackets or braces.
    pub fn is_flow(&self, id: Id) -> bool {
        matches!(self.kind(id), Kind::Sequence | Kind::Mapping) && self.node(id).text.0 == 1
    }

    /// True if a key is a merge key. A collection is one by its tag.
    pub fn is_merge(&self, key: Id) -> bool {
        let Some(key) = self.target(key) else { return false };
        let text = self.text(key);
        let tag = self.tag(key);
        if tag.is_none() && text != "<<" {
            return false;
        }
        let is_plain = self.kind(key) == Kind::Scalar(Style::Plain);
        type_of(text, is_plain, tag) == Type::Merge
    }

    /// Returns the tag, if one is written.
    pub fn tag(&self, id: Id) -> Option<&str> {
        let [low, middle, high] = self.node(id).tag;
        let number = u32::from_le_bytes([low, middle, high, 0]) as usize;
        self.tags.get(number.checked_sub(1)?).map(|tag| &**tag)
    }

    /// Returns the text of a scalar, or the name of an alias. It is empty for other nodes.
    pub fn text(&self, id: Id) -> &str {
        let node = self.node(id);
        let (start, len) = match node.kind {
            Kind::Scalar(_) => (node.text.0 as usize, node.text.1 as usize),
            Kind::Alias => (node.at as usize + 1, node.text.1 as usize),
            Kind::Sequence | Kind::Mapping | Kind::ScalarRun => return "",
        };
        match start.checked_sub(self.text.len()) {
            Some(start) if node.kind != Kind::Alias => &self.unescaped[start..start + len],
            _ => &self.text[start..start + len],
        }
    }

    /// Returns the node that an alias stands for, `None` if its anchor is missing; any other node itself.
    pub fn target(&self, id: Id) -> Option<Id> {
        let node = self.node(id);
        if node.kind == Kind::Alias { Id(node.text.0).known() } else { Some(id) }
    }

    /// Returns the collection that a node is in; `None` for the root.
    pub fn parent(&self, id: Id) -> Option<Id> {
        self.node(id).parent.known()
    }

    /// Returns where a node is in its parent.
    pub fn place(&self, id: Id) -> NodePlace {
        let node = self.node(id);
        match self.parent(id).map(|parent| self.kind(parent)) {
            None => NodePlace::Root,
            Some(Kind::Mapping) if node.place == id.0 => NodePlace::Key,
            Some(Kind::Mapping) => NodePlace::Value(Id(node.place)),
            Some(_) => NodePlace::Item(node.place),
        }
    }

    /// Returns the first node after one and all within it.
    pub fn end(&self, id: Id) -> Id {
        self.node(id).end
    }

    /// True if a node is another one, or lies within it.
    pub fn is_within(&self, id: Id, above: Id) -> bool {
        above <= id && id < self.node(above).end
    }

    /// Iterates over the items and runs of a sequence, or the keys and values of a mapping in turn.
    pub fn children(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        let end = self.node(id).end;
        let mut next = Id(id.0 + 1);
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.node(child).end;
            Some(child)
        })
    }

    /// Returns the number of items of a sequence, or of members of a mapping.
    pub fn count(&self, id: Id) -> u64 {
        match self.kind(id) {
            Kind::Mapping => self.members(id).count() as u64,
            Kind::Sequence => self.children(id).map(|child| self.items_in(child)).sum(),
            _ => 0,
        }
    }

    /// Returns the number of items that a child of a sequence stands for.
    pub fn items_in(&self, child: Id) -> u64 {
        if self.kind(child) == Kind::ScalarRun { u64::from(self.node(child).text.1) } else { 1 }
    }

    /// Returns the first child of a node, or the one after `before`.
    pub fn next_child(&self, id: Id, before: Option<Id>) -> Option<Id> {
        let next = before.map_or(Id(id.0 + 1), |before| self.node(before).end);
        (next < self.node(id).end).then_some(next)
    }

    /// Iterates over the members of a mapping as they are written. A key without a value, before a fault, is left out.
    pub fn members(&self, id: Id) -> impl Iterator<Item = (Id, Id)> + '_ {
        let mut children = self.children(id);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// Returns the items of a piece of a run as the items of a document's root.
    ///
    /// # Errors
    ///
    /// The items can't be read.
    pub fn piece(&self, run: Id, piece: usize) -> Result<Self> {
        let (text, count) = self.text_of_piece(run, piece);
        let mut builder = Builder::of_items();
        each_event_of_items(&text, count, |event| {
            builder.on_event(&text, event);
            Ok(())
        })?;
        Ok(builder.finish(text))
    }

    /// Passes the items of a sequence to `take`, each with its document, until it returns false. The items of runs are in
    /// documents of their own.
    ///
    /// # Errors
    ///
    /// `take` fails.
    pub fn each_item(
        self: &Arc<Self>,
        sequence: Id,
        take: &mut dyn FnMut(&Arc<Self>, Id) -> Result<bool>,
    ) -> Result<()> {
        for child in self.children(sequence) {
            if self.kind(child) != Kind::ScalarRun {
                if !take(self, child)? {
                    return Ok(());
                }
                continue;
            }
            for number in 0..self.piece_count(child) {
                let piece = Arc::new(self.piece(child, number)?);
                let Some(root) = piece.root() else { continue };
                for item in piece.children(root) {
                    if !take(&piece, item)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a cursor at a place in the text.
    pub fn cursor(&self, mark: Mark) -> Cursor<'_> {
        Cursor { text: &self.text, mark }
    }

    /// Returns the offset of a node in the text.
    pub fn offset(&self, id: Id) -> u64 {
        u64::from(self.node(id).at)
    }

    /// Returns the place of a node in the text.
    pub fn mark(&self, id: Id) -> Mark {
        self.mark_at(self.offset(id))
    }

    /// Returns the place of an offset in the text.
    pub fn mark_at(&self, offset: u64) -> Mark {
        let offset = offset as usize;
        let before = &self.text[..offset];
        let mut line = 1;
        let mut previous = ' ';
        for char in before.chars() {
            // The two characters of a Windows line break are one.
            line += u64::from(is_break(char) && !(previous == '\r' && char == '\n'));
            previous = char;
        }
        Mark { offset: offset as u64, line, column: self.column(offset) as u64 + 1 }
    }

    /// Returns the number of characters before an offset in its line.
    fn column(&self, offset: usize) -> usize {
        let before = &self.text[..offset];
        let line = before.rfind(is_break).map_or(before, |at| &before[at..]);
        line.chars().filter(|char| !is_break(*char) && *char != BOM).count()
    }
}

/// A place in a text that moves forward.
#[derive(Debug)]
pub struct Cursor<'t> {
    text: &'t str,
    mark: Mark,
}

impl Cursor<'_> {
    /// Moves to an offset, and returns the place.
    pub fn mark(&mut self, offset: u64) -> Mark {
        let start = self.mark.offset as usize;
        let passed = self.text.get(start..offset as usize).unwrap_or_default();
        self.mark.offset = offset.max(self.mark.offset);
        let may_be_half_break = self.text[..start].ends_with('\r');
        if !may_be_half_break && passed.is_ascii() && memchr::memchr(b'\r', passed.as_bytes()).is_none() {
            let passed = passed.as_bytes();
            let lines = memchr::memchr_iter(b'\n', passed).count() as u64;
            let in_line = memchr::memrchr(b'\n', passed).map(|end| passed.len() - end);
            self.mark.line += lines;
            self.mark.column = in_line.map_or(self.mark.column + passed.len() as u64, |column| column as u64);
            return self.mark;
        }
        let mut previous = self.text[..start].chars().next_back();
        for char in passed.chars() {
            if is_break(char) {
                self.mark.line += u64::from(!(previous == Some('\r') && char == '\n'));
                self.mark.column = 1;
            } else {
                self.mark.column += u64::from(char != BOM);
            }
            previous = Some(char);
        }
        self.mark
    }
}

/// Returns the text of a content up to the first byte that is not UTF-8.
///
/// # Errors
///
/// The content can't be read, or is too long for a document.
pub fn text_of(content: &dyn Content) -> Result<String> {
    let bytes = bytes_of(content)?;
    let valid = valid_part(&bytes).len();
    Ok(without_rest(bytes, valid))
}

/// Returns the bytes of a tree.
///
/// # Errors
///
/// The content can't be read, or is too long for a document.
pub fn bytes_of(content: &dyn Content) -> Result<Vec<u8>> {
    let len = usize::try_from(content.len()).ok().filter(|len| *len <= MAX_TEXT);
    let Some(len) = len else {
        return Err(Error::unsupported(format!("the tree is longer than {} MiB", MAX_TEXT >> 20)));
    };
    let mut bytes = vec![0; len];
    read_exact_at(content, 0, &mut bytes)?;
    // Files of 2014 begin with `%ASDF`, which YAML would take for an unknown directive.
    if bytes.starts_with(b"%ASDF") {
        bytes[0] = b'#';
    }
    Ok(bytes)
}

/// Returns the part of a text before the first byte that is not UTF-8, at which both parsers end.
fn valid_part(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes)
        .or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]))
        .unwrap_or_default()
}

/// Returns the first `valid` bytes of a text, which are UTF-8.
fn without_rest(mut bytes: Vec<u8>, valid: usize) -> String {
    bytes.truncate(valid);
    String::from_utf8(bytes).unwrap_or_default()
}

/// True for the line breaks of YAML 1.1.
fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests;
