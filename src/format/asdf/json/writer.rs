//! Events to JSON.
//!
//! Members stand on lines of their own, items one after the other. What an anchor names is remembered: a short scalar
//! by its JSON, everything else by its path.

use std::collections::HashMap;

use super::Tags;
use super::scalar::{self, Json, string};
use crate::error::{Error, Result};
use crate::yaml::event::{Event, Mark, What};

/// The JSON of a scalar that is written again where its anchor is mentioned is at most so long.
const SHORT: usize = 256;
/// What anchors name takes at most so many bytes.
const MOST_ANCHORED: usize = 16 << 20;
/// Members are indented by so many levels at most.
const DEEPEST_INDENT: usize = 40;

/// Writes JSON.
#[derive(Debug)]
pub(super) struct Writer {
    tags: Tags,
    /// The text, until the caller takes it.
    pub(super) out: Vec<u8>,
    levels: Vec<Level>,
    /// The path of the node that comes next, as a JSON pointer without its `#`.
    path: String,
    anchors: HashMap<Box<str>, Anchored>,
    anchored: usize,
    documents: usize,
}

/// What an anchor names.
#[derive(Clone, Debug)]
enum Anchored {
    /// A short scalar: its JSON, and its text as a name.
    Scalar(Box<[u8]>, Box<str>),
    /// The node at a path.
    Path(Box<str>),
}

/// A collection that has begun.
#[derive(Debug)]
struct Level {
    is_mapping: bool,
    /// Keys, values and items so far.
    count: u64,
    /// Whether a tag stands around it.
    wrapped: bool,
    /// The length of the path of the collection itself.
    path: usize,
}

impl Writer {
    pub(super) fn new(tags: Tags) -> Self {
        Self {
            tags,
            out: Vec::new(),
            levels: Vec::new(),
            path: String::new(),
            anchors: HashMap::new(),
            anchored: 0,
            documents: 0,
        }
    }

    /// Bytes of memory that it takes up, roughly.
    pub(super) fn weight(&self) -> u64 {
        (self.anchored + self.out.capacity() + self.path.capacity()) as u64
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) {
        if self.documents == 0 {
            self.out.extend_from_slice(b"{}");
        }
        self.out.push(b'\n');
    }

    /// Adds what an event stands for.
    ///
    /// # Errors
    ///
    /// There is no JSON for it: a key that is no scalar, an alias without an anchor, a second document.
    pub(super) fn take(&mut self, event: Event<'_>) -> Result<()> {
        let place = event.start;
        match event.what {
            What::StreamStart | What::StreamEnd | What::DocumentEnd { .. } => Ok(()),
            What::DocumentStart { .. } if self.documents > 0 => refused("a second tree begins", place),
            What::DocumentStart { .. } => {
                self.documents += 1;
                Ok(())
            }
            What::Scalar { value, style, tag, anchor } => {
                let json = scalar::of(value, style, tag);
                self.scalar(&json, tag, anchor, place)
            }
            What::Alias(anchor) => self.alias(anchor, place),
            What::SequenceStart { tag, anchor, .. } => self.begin(false, tag, anchor, place),
            What::MappingStart { tag, anchor, .. } => self.begin(true, tag, anchor, place),
            What::SequenceEnd | What::MappingEnd => {
                self.end();
                Ok(())
            }
        }
    }

    fn expects_key(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_mapping && level.count.is_multiple_of(2))
    }

    fn key(&mut self, name: &str) {
        let Some(level) = self.levels.last_mut() else { return };
        if level.count > 0 {
            self.out.push(b',');
        }
        level.count += 1;
        self.new_line();
        string(name, &mut self.out);
        self.out.extend_from_slice(b": ");
        self.path.push('/');
        // RFC 6901, section 3.
        self.path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }

    /// What stands before a value: its path, a comma between items.
    fn begin_value(&mut self) {
        if let Some(level) = self.levels.last_mut().filter(|level| !level.is_mapping) {
            if level.count > 0 {
                self.out.extend_from_slice(b", ");
            }
            self.path.push('/');
            self.path.push_str(&level.count.to_string());
        }
    }

    fn end_value(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.count += 1;
            self.path.truncate(level.path);
        }
    }

    fn scalar(&mut self, json: &Json, tag: Option<&str>, anchor: Option<&str>, place: Mark) -> Result<()> {
        let name = json.name();
        if self.expects_key() {
            let mut bytes = Vec::new();
            json.write(&mut bytes);
            self.key(name);
            return match anchor {
                Some(_) if bytes.len() > SHORT => refused("a long key has an anchor", place),
                anchor => self.remember(anchor, Anchored::Scalar(bytes.into(), name.into()), place),
            };
        }
        self.begin_value();
        let begun = self.out.len();
        self.scalar_value(json, tag);
        let bytes = &self.out[begun..];
        let anchored = match bytes.len() <= SHORT && name.len() <= SHORT {
            true => Anchored::Scalar(bytes.into(), name.into()),
            false => self.here(),
        };
        self.remember(anchor, anchored, place)?;
        self.end_value();
        Ok(())
    }

    fn scalar_value(&mut self, json: &Json, tag: Option<&str>) {
        let implied = json.implied_tag();
        let tag = tag.filter(|tag| *tag != "!").or(implied.as_deref()).filter(|_| self.tags == Tags::Kept);
        match tag {
            Some(tag) => {
                self.open_tag(tag);
                json.write_tagged(&mut self.out);
                self.out.push(b'}');
            }
            None => json.write(&mut self.out),
        }
    }

    fn open_tag(&mut self, tag: &str) {
        self.out.extend_from_slice(b"{\"$tag\": ");
        string(tag, &mut self.out);
        self.out.extend_from_slice(b", \"$value\": ");
    }

    fn alias(&mut self, anchor: &str, place: Mark) -> Result<()> {
        let Some(anchored) = self.anchors.get(anchor).cloned() else {
            return refused(&format!("the alias *{anchor} has no anchor"), place);
        };
        match anchored {
            Anchored::Scalar(_, name) if self.expects_key() => self.key(&name),
            Anchored::Path(_) if self.expects_key() => {
                return refused("a key is no scalar, or a long one", place);
            }
            Anchored::Scalar(json, _) => {
                self.begin_value();
                self.out.extend_from_slice(&json);
                self.end_value();
            }
            Anchored::Path(path) => {
                self.begin_value();
                self.out.extend_from_slice(b"{\"$ref\": ");
                string(&format!("#{path}"), &mut self.out);
                self.out.push(b'}');
                self.end_value();
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        is_mapping: bool,
        tag: Option<&str>,
        anchor: Option<&str>,
        place: Mark,
    ) -> Result<()> {
        if self.expects_key() {
            return refused("a key is no scalar", place);
        }
        self.begin_value();
        self.remember(anchor, self.here(), place)?;
        let tag = tag.filter(|tag| *tag != "!" && self.tags == Tags::Kept);
        if let Some(tag) = tag {
            self.open_tag(tag);
        }
        self.out.push(if is_mapping { b'{' } else { b'[' });
        let wrapped = tag.is_some();
        self.levels.push(Level { is_mapping, count: 0, wrapped, path: self.path.len() });
        Ok(())
    }

    fn end(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        if level.is_mapping && level.count > 0 {
            self.new_line();
        }
        self.out.push(if level.is_mapping { b'}' } else { b']' });
        if level.wrapped {
            self.out.push(b'}');
        }
        self.end_value();
    }

    fn new_line(&mut self) {
        let depth = self.levels.iter().filter(|level| level.is_mapping).take(DEEPEST_INDENT).count();
        self.out.push(b'\n');
        self.out.extend(std::iter::repeat_n(b' ', 2 * depth));
    }

    /// The node at the path.
    fn here(&self) -> Anchored {
        Anchored::Path(self.path.as_str().into())
    }

    /// Notes what an anchor names.
    fn remember(&mut self, anchor: Option<&str>, anchored: Anchored, place: Mark) -> Result<()> {
        let Some(anchor) = anchor else { return Ok(()) };
        self.anchored += anchor.len()
            + match &anchored {
                Anchored::Scalar(json, name) => json.len() + name.len(),
                Anchored::Path(path) => path.len(),
            };
        if self.anchored > MOST_ANCHORED {
            return refused("the anchors of the tree take more than 16 MiB", place);
        }
        self.anchors.insert(anchor.into(), anchored);
        Ok(())
    }
}

fn refused<T>(what: &str, place: Mark) -> Result<T> {
    Err(Error::damaged(format!("{what} at {place}")))
}
