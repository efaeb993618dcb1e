//! One pass over the text of a tree: what is in it, and what is wrong with it.
//!
//! The survey goes by events and never makes a tree of the tree, so its memory does not grow with
//! the text but with what was asked for: nodes with certain tags, each with what is below it (up to
//! a bound: an array written in the tree is kept as its shape); aliases; and the [`Finding`]s,
//! things that YAML's grammar lets pass and that still keep a reader from getting the data.
//!
//! A text that breaks the grammar is an error, [`Broken`].

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::rc::Rc;

use self::frame::{Frame, Record, Seen};
use self::rectangle::Rectangle;
use super::event::{Event, Events, Mark, Style, What};
use super::scalar::{self, Type};
use crate::content::Content;
use crate::error::{Error, Kind, Result};

mod frame;
pub mod path;
mod rectangle;
pub mod value;

pub use path::{PathId, Paths, Step};
pub use rectangle::Shape;
pub use value::{Node, Value};

/// Findings that are kept; there may be as many as there are nodes.
pub const MOST_FINDINGS: usize = 1000;
/// Different tags that are counted one by one.
const MOST_TAGS: usize = 10_000;
/// Bytes that may be kept of a text of no length, and for each byte of it.
const KEPT: (u64, u64) = (64 << 20, 3);

/// What to look for.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Whether nodes with this tag are to be kept and handed out.
    pub tag: &'w dyn Fn(&str) -> bool,
    /// Keys (up to eight) by which a mapping is known that has lost its tag.
    pub telling: &'w [&'w str],
    /// The key, in a node with such a tag, below which only the shape of an array is to be kept. The
    /// same goes for a sequence that has the tag itself.
    pub array: &'w str,
    /// Keys of the root whose values are to be handed out too.
    pub root_keys: &'w [&'w str],
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wanted").field("telling", &self.telling).finish_non_exhaustive()
    }
}

impl Wanted<'_> {
    /// Nothing.
    pub const NOTHING: Wanted<'static> = Wanted { tag: &|_| false, telling: &[], array: "", root_keys: &[] };
}

/// A node with a tag, or below a key, that was wanted.
#[derive(Debug)]
pub struct Found<'f> {
    /// Its resolved tag, if one is written.
    pub tag: Option<&'f str>,
    /// The key of the root that it is the value of, if that was wanted.
    pub root_key: Option<&'f str>,
    /// Where it is in the tree.
    pub path: Option<PathId>,
    /// It and what is below it; its place.
    pub value: &'f Value,
}

/// What is in a text.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// How many documents there are; what follows the first is not looked at.
    pub documents: usize,
    /// The root of the first document.
    pub root: Option<Root>,
    /// How many times each tag is written, resolved. Of more than a bound the rest is left out.
    pub tags: BTreeMap<String, u64>,
    /// How many nodes there are.
    pub nodes: u64,
    /// How deep collections nest, and where they first do.
    pub depth: (usize, Mark),
    /// Places where a node is mentioned by its anchor, and where the node itself is.
    pub aliases: Vec<Alias>,
    /// Mappings with all telling keys, but without a tag that was wanted.
    pub untagged: Vec<(Option<PathId>, Mark)>,
    /// What is wrong, in the order of the text; not more than [`MOST_FINDINGS`].
    pub findings: Vec<Finding>,
    /// The paths of all that was kept.
    pub paths: Paths,
}

/// The root of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its resolved tag, if one is written.
    pub tag: Option<String>,
    /// Whether it is a mapping.
    pub mapping: bool,
    /// Where it begins.
    pub place: Mark,
}

/// A node that is mentioned by its anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Where the mention is in the text.
    pub place: Mark,
    /// Where the mention is in the tree.
    pub path: Option<PathId>,
    /// Where the node is in the tree.
    pub target: Option<PathId>,
}

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A key comes twice in one mapping; readers take the last.
    DuplicateKey,
    /// An alias without its anchor.
    UndefinedAlias,
    /// An anchor that is defined twice.
    RepeatedAnchor,
    /// A key that is a collection, or has a tag of its own.
    UnhashableKey,
    /// A key that is neither a text nor an integer nor a truth value.
    KeyType,
    /// A node that can't be what its tag or its look says.
    Unfit,
    /// A key `<<` whose value is no mapping.
    Merge,
    /// A second document.
    SecondDocument,
    /// An integer beyond 64 bits.
    LargeInteger,
}

impl Wrong {
    /// Whether Python asdf can't open the file because of it.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::DuplicateKey | Self::KeyType | Self::LargeInteger)
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub wrong: Wrong,
    /// Where in the text.
    pub place: Mark,
    /// What, in words, without the place.
    pub what: String,
    /// The same for the same thing at the same path of another text, wherever it stands there.
    pub identity: u64,
}

/// Why a text could not be surveyed.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The error as any other.
    pub error: Error,
    /// Where the text is at fault, and for what; `None` if it could not be read.
    pub failure: Option<super::event::Failure>,
    /// Whether it is only too much of something.
    pub too_large: bool,
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        broken.error
    }
}

/// Surveys `events`, handing out each node that is wanted when it ends, those within it before it.
pub fn survey(
    mut events: Events<'_>,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, Found<'_>),
) -> std::result::Result<Survey, Broken> {
    let mut surveyor = Surveyor {
        wanted,
        found,
        survey: Survey::default(),
        frames: Vec::new(),
        spare: Vec::new(),
        names: HashMap::new(),
        anchors: Vec::new(),
        rectangles: Vec::new(),
        kept: 0,
        hasher: RandomState::new(),
    };
    loop {
        match events.next_event() {
            Ok(Some(event)) => match surveyor.take(event) {
                Ok(true) => {}
                Ok(false) => return Ok(std::mem::take(&mut surveyor.survey)),
                Err(broken) => return Err(broken),
            },
            Ok(None) => return Ok(std::mem::take(&mut surveyor.survey)),
            Err(error) => {
                let too_large = error.kind() == Kind::Unsupported;
                return Err(Broken { error, failure: events.failure().cloned(), too_large });
            }
        }
    }
}

/// Checks that the text of a whole head, header line and tree, can be parsed.
///
/// What keeps a reader from making anything of it is an error too: an alias without its anchor, a
/// second document. The error says line and column.
pub fn check_tree(content: &dyn Content) -> Result<()> {
    let commented = Commented(content);
    let survey = survey(Events::of(&commented), Wanted::NOTHING, &mut |_, _| {})?;
    match survey.findings.iter().find(|finding| finding.wrong.is_fatal()) {
        Some(Finding { place, what, .. }) => {
            Err(Error::damaged(format!("not a valid tree at {place}: {what}")))
        }
        None => Ok(()),
    }
}

/// A head in which the `%ASDF` of 2014, which YAML takes for a directive it doesn't know, is the
/// comment that `#ASDF` is.
#[derive(Debug)]
pub struct Commented<'a>(pub &'a dyn Content);

impl Content for Commented<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        if offset == 0 && read > 0 && buf.first() == Some(&b'%') && self.begins_with_asdf()? {
            buf[0] = b'#';
        }
        Ok(read)
    }
}

impl Commented<'_> {
    fn begins_with_asdf(&self) -> Result<bool> {
        let mut word = [0; 5];
        let mut read = 0;
        while read < word.len() {
            match self.0.read_at(read as u64, &mut word[read..])? {
                0 => break,
                more => read += more,
            }
        }
        Ok(&word == b"%ASDF")
    }
}

/// A node with an anchor.
#[derive(Debug)]
struct Anchored {
    path: Option<PathId>,
    outline: Outline,
    /// Hash of it as a key, if it can be one.
    key: Option<u64>,
    /// What it is, once it has ended and if it is small.
    value: Option<Rc<Value>>,
}

/// What others must know of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outline {
    Scalar,
    /// Whether all its items are mappings.
    Sequence(bool),
    /// How many keys it has; unknown before its end.
    Mapping(Option<u64>),
    /// An alias without its anchor.
    Unknown,
}

struct Surveyor<'s, 'w> {
    wanted: Wanted<'w>,
    found: &'s mut dyn FnMut(&Paths, Found<'_>),
    survey: Survey,
    frames: Vec<Frame>,
    /// Keys and hashes of frames that have ended, for their memory.
    spare: Vec<(String, Vec<u64>)>,
    names: HashMap<Box<str>, usize>,
    anchors: Vec<Anchored>,
    rectangles: Vec<Rectangle>,
    kept: u64,
    hasher: RandomState,
}

impl Drop for Surveyor<'_, '_> {
    fn drop(&mut self) {
        // From the last on, as each may hold on to earlier ones: else they would go one within the
        // other, as deep as there are anchors.
        while self.anchors.pop().is_some() {}
    }
}

type Taken<T> = std::result::Result<T, Broken>;

impl<'w> Surveyor<'_, 'w> {
    /// Takes an event; whether there is more to be looked at.
    fn take(&mut self, event: Event<'_>) -> Taken<bool> {
        let place = event.start;
        match event.what {
            What::Scalar { value, style, tag, anchor } => {
                self.scalar(place, value, style == Style::Plain, tag, anchor)?;
            }
            What::MappingStart { tag, anchor, .. } => self.open(place, true, tag, anchor)?,
            What::SequenceStart { tag, anchor, .. } => self.open(place, false, tag, anchor)?,
            What::MappingEnd | What::SequenceEnd => self.close()?,
            What::Alias(name) => self.alias(place, name)?,
            What::DocumentStart { .. } => {
                self.survey.documents += 1;
                if self.survey.documents > 1 {
                    self.find(Wrong::SecondDocument, place, "", "a second document begins here".to_owned())?;
                    return Ok(false);
                }
            }
            _ => {}
        }
        let allowed = KEPT.1.saturating_mul(event.end.offset).saturating_add(KEPT.0);
        if self.kept > allowed {
            let problem = "there are too many anchors, aliases and arrays".to_owned();
            let error = Error::unsupported(format!("{problem} at {place}"));
            let failure = Some(super::event::Failure { place, problem });
            return Err(Broken { error, failure, too_large: true });
        }
        Ok(true)
    }

    fn find(&mut self, wrong: Wrong, place: Mark, detail: &str, what: String) -> Taken<()> {
        if self.survey.findings.len() < MOST_FINDINGS {
            let path = self.here();
            let mut hasher = DefaultHasher::new();
            (wrong, detail, self.survey.paths.identity(path, false)).hash(&mut hasher);
            self.survey.findings.push(Finding { wrong, place, what, identity: hasher.finish() });
        }
        Ok(())
    }

    /// The path of the collection at `index` among the frames.
    fn path_of(&mut self, index: usize) -> Option<PathId> {
        let known = (1..=index).rev().find(|n| self.frames[*n].path.is_some()).unwrap_or(0);
        let mut path = self.frames.get(known).and_then(|frame| frame.path).unwrap_or(path::ROOT);
        for n in known + 1..=index {
            let step = self.frames[n - 1].step();
            path = self.add_path(path, step);
            self.frames[n].path = Some(path);
        }
        path
    }

    fn add_path(&mut self, parent: Option<PathId>, step: Step) -> Option<PathId> {
        let len = if let Step::Key(key) = &step { key.len() } else { 0 };
        self.kept += 48 + len as u64;
        self.survey.paths.add(parent, step)
    }

    /// The path of the node that comes next in the innermost collection.
    fn here(&mut self) -> Option<PathId> {
        let Some(index) = self.frames.len().checked_sub(1) else { return path::ROOT };
        let parent = self.path_of(index);
        let step = self.frames[index].step();
        self.add_path(parent, step)
    }

    /// What every node has: it is counted, and may be the root, and may have an anchor.
    fn begin(
        &mut self,
        place: Mark,
        mapping: bool,
        tag: Option<&str>,
        anchor: Option<&str>,
        outline: Outline,
    ) -> Taken<Option<usize>> {
        self.survey.nodes += 1;
        if self.frames.is_empty() && self.survey.root.is_none() {
            self.survey.root = Some(Root { tag: tag.map(str::to_owned), mapping, place });
        }
        if let Some(tag) = tag {
            if let Some(count) = self.survey.tags.get_mut(tag) {
                *count += 1;
            } else if self.survey.tags.len() < MOST_TAGS {
                self.kept += 64 + tag.len() as u64;
                self.survey.tags.insert(tag.to_owned(), 1);
            }
        }
        let Some(name) = anchor else { return Ok(None) };
        let path = self.here();
        let index = self.anchors.len();
        self.kept += 192 + name.len() as u64;
        self.anchors.push(Anchored { path, outline, key: None, value: None });
        if self.names.insert(name.into(), index).is_some() {
            let what = format!("the anchor \"{}\" is defined a second time", name.escape_debug());
            self.find(Wrong::RepeatedAnchor, place, name, what)?;
        }
        Ok(Some(index))
    }

    /// Whether the innermost collection keeps its nodes.
    fn recording(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.record.is_on())
    }

    /// The key of the root that the node that comes, or ended last, is the value of, if that is wanted.
    fn root_key(&self) -> Option<&'w str> {
        let [root] = self.frames.as_slice() else { return None };
        let keys = if root.mapping && root.awaits_value { self.wanted.root_keys } else { &[] };
        keys.iter().copied().find(|key| *key == root.key)
    }

    /// Whether the node that comes is a key.
    fn at_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.mapping && !frame.awaits_value)
    }

    fn scalar(
        &mut self,
        place: Mark,
        text: &str,
        plain: bool,
        tag: Option<&str>,
        anchor: Option<&str>,
    ) -> Taken<()> {
        let anchor = self.begin(place, false, tag, anchor, Outline::Scalar)?;
        let looks = scalar::type_of(text, plain, tag);
        if tag.is_some() || matches!(looks, Type::Int | Type::Timestamp) {
            if let Some(why) = scalar::unfit(text, plain, tag) {
                self.find(Wrong::Unfit, place, text, format!("\"{}\" can't be read: {why}", shorten(text)))?;
            } else if looks == Type::Int && scalar::beyond_int64(text) {
                let what = format!("the integer {} is beyond 64 bits", shorten(text));
                self.find(Wrong::LargeInteger, place, text, what)?;
            }
        }
        let root_key = self.root_key();
        let wanted = root_key.is_some() || tag.is_some_and(self.wanted.tag);
        let recording = self.recording() || anchor.is_some() || wanted;
        let value = recording.then(|| Value {
            place,
            tag: tag.map(Rc::from),
            node: match text.len() <= value::LONGEST_SCALAR {
                true => Node::Scalar { text: text.into(), plain },
                false => Node::Unknown,
            },
        });
        if let (Some(value), true) = (&value, wanted) {
            let path = self.here();
            (self.found)(&self.survey.paths, Found { tag, root_key, path, value });
        }
        if self.at_key() {
            let key = self.scalar_key(place, text, looks)?;
            if let Some(anchor) = anchor {
                self.anchors[anchor].key = key;
            }
        } else if let Some(anchor) = anchor {
            self.anchors[anchor].key = self.key_hash(text, looks);
        }
        if let Some(anchor) = anchor {
            self.kept += text.len().min(value::LONGEST_SCALAR) as u64;
            self.anchors[anchor].value = value.clone().map(Rc::new);
        }
        self.finish(place, Outline::Scalar, value, 1)
    }

    /// The hash by which keys are the same if a reader takes them for the same.
    fn key_hash(&self, text: &str, looks: Type) -> Option<u64> {
        match looks {
            Type::Other => None,
            Type::Bool => Some(self.hasher.hash_one(i128::from(scalar::boolean(text).unwrap_or_default()))),
            Type::Int => match scalar::integer(text) {
                Some(value) => Some(self.hasher.hash_one(value)),
                None => Some(self.hasher.hash_one((1, text))),
            },
            Type::Str | Type::Value => Some(self.hasher.hash_one(text)),
            _ => Some(self.hasher.hash_one((looks as u8, text))),
        }
    }

    /// Takes a scalar as the key of the innermost collection.
    fn scalar_key(&mut self, place: Mark, text: &str, looks: Type) -> Taken<Option<u64>> {
        let hash = self.key_hash(text, looks);
        match looks {
            Type::Other => {
                let what = "a key has a tag of its own, which Python can't look up".to_owned();
                self.find(Wrong::UnhashableKey, place, text, what)?;
            }
            Type::Null | Type::Float | Type::Timestamp | Type::Binary => {
                let what = format!(
                    "the key \"{}\" is {}: keys may only be texts, integers and truth values",
                    shorten(text),
                    match looks {
                        Type::Null => "null",
                        Type::Float => "a float",
                        Type::Binary => "binary",
                        _ => "a date",
                    }
                );
                self.find(Wrong::KeyType, place, text, what)?;
            }
            _ => {}
        }
        let bit = match looks {
            Type::Str => self.wanted.telling.iter().take(8).position(|key| *key == text),
            _ => None,
        };
        let Some(frame) = self.frames.last_mut() else { return Ok(hash) };
        frame.merges = looks == Type::Merge;
        frame.telling |= bit.map_or(0, |bit| 1 << bit);
        frame.key.clear();
        frame.key.push_str(text);
        if let Some(hash) = hash {
            self.remember_key(place, hash)?;
        }
        Ok(hash)
    }

    /// Says so if the innermost mapping has this key already.
    fn remember_key(&mut self, place: Mark, hash: u64) -> Taken<()> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if !frame.seen.insert(hash) {
            let key = frame.key.clone();
            let what = format!("the key \"{}\" comes a second time in one mapping", shorten(&key));
            self.find(Wrong::DuplicateKey, place, &key, what)?;
        }
        Ok(())
    }

    fn alias(&mut self, place: Mark, name: &str) -> Taken<()> {
        self.survey.nodes += 1;
        let Some(&anchor) = self.names.get(name) else {
            let what = format!("the alias \"*{}\" has no anchor before it", name.escape_debug());
            self.find(Wrong::UndefinedAlias, place, name, what)?;
            if let (true, Some(frame)) = (self.at_key(), self.frames.last_mut()) {
                (frame.key, frame.merges) = (format!("*{name}"), false);
            }
            return self.finish(place, Outline::Unknown, Some(unknown(place)), 1);
        };
        let path = self.here();
        let Anchored { path: target, outline, key, ref value } = self.anchors[anchor];
        let node = value.clone().map_or(Node::Unknown, Node::Same);
        if let (Some(index), Outline::Sequence(_)) = (self.frames.last().and_then(|f| f.rectangle), outline) {
            self.rectangles[index].unknown();
        }
        self.kept += 48;
        self.survey.aliases.push(Alias { place, path, target });
        if self.at_key() {
            let text = match &node {
                Node::Same(value) => value.text().map(str::to_owned),
                _ => None,
            };
            if let Some(frame) = self.frames.last_mut() {
                frame.merges = matches!(&node, Node::Same(value) if value.scalar_type() == Some(Type::Merge));
                frame.key = text.unwrap_or_else(|| format!("*{name}"));
            }
            match key {
                Some(hash) => self.remember_key(place, hash)?,
                None => self.unhashable(place)?,
            }
        }
        let value = Value { place, tag: None, node };
        if let Some(root_key) = self.root_key() {
            let found = Found { tag: None, root_key: Some(root_key), path, value: &value };
            (self.found)(&self.survey.paths, found);
        }
        self.finish(place, outline, Some(value), 1)
    }

    fn unhashable(&mut self, place: Mark) -> Taken<()> {
        let what = "a key is a sequence or a mapping, which Python can't look up".to_owned();
        self.find(Wrong::UnhashableKey, place, "", what)
    }

    fn open(&mut self, place: Mark, mapping: bool, tag: Option<&str>, anchor: Option<&str>) -> Taken<()> {
        let outline = if mapping { Outline::Mapping(None) } else { Outline::Sequence(true) };
        let anchor = self.begin(place, mapping, tag, anchor, outline)?;
        if let Some(why) = tag.and_then(|tag| scalar::unfit_collection(mapping, tag)) {
            self.find(Wrong::Unfit, place, "", format!("a collection can't be read: {why}"))?;
        }
        if self.at_key() {
            self.unhashable(place)?;
            if let Some(frame) = self.frames.last_mut() {
                frame.key.clear();
                frame.key.push('?');
                frame.merges = false;
            }
        }
        let wanted = tag.is_some_and(self.wanted.tag);
        let handed_out = wanted || self.root_key().is_some();
        let inside = wanted || anchor.is_some() || self.frames.last().is_some_and(|frame| frame.inside);
        let recording = handed_out || anchor.is_some() || self.recording();
        let array = (wanted && !mapping)
            || self.frames.last().is_some_and(|frame| frame.wanted && frame.key == self.wanted.array);
        let of_pairs = tag.and_then(|tag| tag.strip_prefix(scalar::TAG_PREFIX));
        let (rectangle, depth) = self.open_rectangle(mapping, inside);
        let (mut key, mut hashes) = self.spare.pop().unwrap_or_default();
        key.clear();
        hashes.clear();
        self.frames.push(Frame {
            mapping,
            place,
            key,
            seen: Seen::Few(hashes),
            of_pairs: matches!(of_pairs, Some("omap" | "pairs")),
            of_mappings: true,
            tag: if recording { tag.map(Rc::from) } else { None },
            wanted,
            handed_out,
            inside,
            record: match recording {
                true if array => Record::TooLarge,
                true => Record::Kept(Vec::new(), 1),
                false => Record::Off,
            },
            rectangle,
            depth,
            anchor,
            ..Frame::default()
        });
        if self.frames.len() > self.survey.depth.0 {
            self.survey.depth = (self.frames.len(), place);
        }
        Ok(())
    }

    fn open_rectangle(&mut self, mapping: bool, inside: bool) -> (Option<usize>, usize) {
        let parent = self.frames.last().and_then(|frame| Some((frame.rectangle?, frame.depth)));
        match (mapping, parent) {
            (true, Some((index, _))) => {
                self.rectangles[index].foreign();
                (None, 0)
            }
            (false, Some((index, depth))) => {
                self.rectangles[index].open(depth + 1);
                (Some(index), depth + 1)
            }
            (false, None) if inside => {
                let mut rectangle = Rectangle::default();
                rectangle.open(0);
                self.rectangles.push(rectangle);
                (Some(self.rectangles.len() - 1), 0)
            }
            _ => (None, 0),
        }
    }

    fn close(&mut self) -> Taken<()> {
        let Some(index) = self.frames.len().checked_sub(1) else { return Ok(()) };
        let whole = self.wanted.telling.iter().take(8).fold(0_u8, |bits, _| bits << 1 | 1);
        let frame = &self.frames[index];
        let untagged = whole != 0 && frame.telling == whole && !frame.wanted;
        let path = (untagged || frame.handed_out).then(|| self.path_of(index));
        let Some(mut frame) = self.frames.pop() else { return Ok(()) };
        if untagged {
            self.kept += 32;
            self.survey.untagged.push((path.flatten(), frame.place));
        }
        let shape = self.close_rectangle(&frame).unwrap_or(Shape::Unknown);
        let outline = match frame.mapping {
            true => Outline::Mapping(Some(frame.count)),
            false => Outline::Sequence(frame.of_mappings),
        };
        let (node, size) = match std::mem::take(&mut frame.record) {
            Record::Off => (None, 0),
            Record::Kept(values, size) if frame.mapping => (Some(Node::Mapping(pairs(values))), size),
            Record::Kept(values, size) => (Some(Node::Sequence(values, shape)), size),
            Record::TooLarge if frame.mapping => (Some(Node::Unknown), 1),
            Record::TooLarge => (Some(Node::LargeSequence(shape)), 1),
        };
        let mut value = node.map(|node| Value { place: frame.place, tag: frame.tag.take(), node });
        if let (true, Some(value)) = (frame.handed_out, &value) {
            let (tag, root_key, path) = (value.tag.as_deref(), self.root_key(), path.flatten());
            (self.found)(&self.survey.paths, Found { tag, root_key, path, value });
        }
        if let Some(anchor) = frame.anchor {
            self.kept += 128 * size as u64;
            self.anchors[anchor].outline = outline;
            if let Some(kept) = value.take().map(Rc::new) {
                value = Some(Value { place: frame.place, tag: None, node: Node::Same(kept.clone()) });
                self.anchors[anchor].value = Some(kept);
            }
        }
        if let Seen::Few(hashes) = frame.seen {
            self.spare.push((frame.key, hashes));
        }
        self.finish(frame.place, outline, value, size)
    }

    /// The shape as an array, where the sequence that ends is the outermost of one.
    fn close_rectangle(&mut self, frame: &Frame) -> Option<Shape> {
        let rectangle = self.rectangles.get_mut(frame.rectangle?)?;
        rectangle.close(frame.depth, frame.count);
        match frame.depth {
            0 => Some(self.rectangles.pop()?.shape()),
            _ => None,
        }
    }

    /// Hands a node that has ended to the collection it is in.
    fn finish(&mut self, place: Mark, outline: Outline, value: Option<Value>, size: usize) -> Taken<()> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if frame.record.is_on() {
            let value = value.unwrap_or_else(|| unknown(place));
            frame.record.push(value, size, without_content);
        }
        let mut wrong = None;
        if frame.mapping && !frame.awaits_value {
            frame.awaits_value = true;
            return Ok(());
        }
        if frame.mapping {
            let mergeable =
                matches!(outline, Outline::Mapping(_) | Outline::Sequence(true) | Outline::Unknown);
            if frame.merges && !mergeable {
                wrong =
                    Some((Wrong::Merge, "the value of \"<<\" is neither a mapping nor a list of mappings"));
            }
        } else {
            frame.of_mappings &= matches!(outline, Outline::Mapping(_));
            if frame.of_pairs && !matches!(outline, Outline::Mapping(Some(1) | None) | Outline::Unknown) {
                wrong = Some((Wrong::Unfit, "an item of an ordered mapping is no mapping of one key"));
            }
            if let (Some(index), Outline::Scalar | Outline::Unknown) = (frame.rectangle, outline) {
                self.rectangles[index].leaf(frame.depth + 1);
            }
        }
        if let Some((wrong, what)) = wrong {
            self.find(wrong, place, "", what.to_owned())?;
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.count += 1;
            frame.awaits_value = false;
        }
        Ok(())
    }
}

fn unknown(place: Mark) -> Value {
    Value { place, tag: None, node: Node::Unknown }
}

/// The same node, with what is below it left out.
fn without_content(value: Value) -> Value {
    let node = match value.node {
        Node::Sequence(_, shape) | Node::LargeSequence(shape) => Node::LargeSequence(shape),
        Node::Mapping(_) => Node::Unknown,
        other => other,
    };
    Value { node, ..value }
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// A text for a message.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests;
