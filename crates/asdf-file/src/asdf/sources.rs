//! Finds the block references of a tree's arrays, and the part of the text that is copied into block files.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use asdf_tree::limits::{MAX_ITEMS, MAX_VALUE};
use asdf_tree::yaml::document::bytes_of;
use asdf_tree::yaml::event::{Event, Mark, Style, What};
use asdf_tree::yaml::read::each_event_in;
use asdf_tree::yaml::scalar::{self, Type};
use seekable::content::{Content, Pieces, Slice, Text, read_exact_at};
use seekable::error::{Error, Result};

use super::ndarray;
use super::view::AsdfFile;

/// The key of an array's block reference.
const KEY: &str = "source";
/// The key of the root that names the library that wrote the file. Readers use it to decide how checksums are
/// verified.
const LIBRARY: &str = "asdf_library";

/// A reference of an array to its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The range of the scalar or alias in the text.
    pub(crate) range: Range<u64>,
    /// The anchor of the scalar.
    pub(crate) anchor: Option<Box<str>>,
    /// The block or file that holds the elements.
    pub target: Target,
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A block of this file. Negative numbers count from the end: -1 is the last block.
    Block(i64),
    /// The first block of another file.
    External(Box<str>),
}

/// The results of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The references, in the order of the text.
    pub mentions: Vec<Mention>,
    /// The start of each block file: header and tree.
    pub front: Vec<u8>,
}

/// Returns the block references of the arrays of a tree. They are found at the first call.
pub fn sources(file: &AsdfFile) -> Result<&Sources> {
    let found = file.computed.get_or_try_compute(|| match find(&*file.tree()) {
        Err(error) if error.is_of_reading() => Err(error),
        found => Ok(found),
    });
    found?.as_ref().map_err(Clone::clone)
}

/// True if [`sources`] has been computed already.
pub fn are_known(file: &AsdfFile) -> bool {
    file.computed.get::<Result<Sources>>().is_some()
}

/// Returns the head of the file with replaced text at some places. All other text is read from the source,
/// not copied.
pub fn replaced<'m>(
    file: &AsdfFile,
    places: impl Iterator<Item = (&'m Mention, String)>,
) -> Result<Arc<dyn Content>> {
    let slice = |from: u64, to: u64| -> Arc<dyn Content> {
        Arc::new(Slice::new(file.source.clone(), from, to.saturating_sub(from)))
    };
    let mut pieces: Vec<Arc<dyn Content>> = Vec::new();
    let mut at: u64 = 0;
    for (mention, text) in places {
        pieces.push(slice(at, mention.range.start));
        let text = match &mention.anchor {
            Some(anchor) => format!("&{anchor} {text}"),
            None => text,
        };
        pieces.push(Arc::new(Text::new(text.into_bytes())));
        at = mention.range.end;
    }
    pieces.push(slice(at, file.head.end));
    Ok(Arc::new(Pieces::new(pieces)?))
}

/// Searches a tree.
fn find(tree: &dyn Content) -> Result<Sources> {
    let mut finder = SourceFinder::default();
    each_event_in(&bytes_of(tree)?, |event| {
        finder.on_event(event)?;
        Ok::<_, Error>(!matches!(event.what, What::DocumentEnd { .. }))
    })?;
    let front = finder.root.front(tree)?;
    Ok(Sources { mentions: finder.mentions, front })
}

#[derive(Default)]
struct SourceFinder {
    frames: Vec<OpenCollection>,
    mentions: Vec<Mention>,
    anchors: HashMap<Box<str>, Target>,
    root: Root,
}

/// An open collection.
#[derive(Default)]
struct OpenCollection {
    /// True for a mapping.
    mapping: bool,
    /// True for an ndarray.
    array: bool,
    /// True if the next node is the value of a key.
    value: bool,
    /// True if the key of the next node is [`KEY`].
    source: bool,
}

impl SourceFinder {
    fn on_event(&mut self, event: &Event<'_>) -> Result<()> {
        self.root.on_event(event, self.frames.len());
        match event.what {
            What::Scalar { value, style, tag, anchor } => {
                let target = target_of(value, style, tag);
                if let (Some(anchor), Some(target)) = (anchor, &target)
                    && self.anchors.len() < MAX_ITEMS
                {
                    self.anchors.insert(anchor.into(), target.clone());
                }
                self.mention(event, anchor, target)?;
                self.node(value == KEY);
            }
            What::Alias(name) => {
                let target = self.anchors.get(name).cloned();
                self.mention(event, None, target)?;
                self.node(false);
            }
            What::MappingStart { tag, .. } => {
                let array = tag.is_some_and(ndarray::is_tag);
                self.frames.push(OpenCollection { mapping: true, array, ..OpenCollection::default() });
            }
            What::SequenceStart { .. } => self.frames.push(OpenCollection::default()),
            What::MappingEnd | What::SequenceEnd => {
                self.frames.pop();
                self.node(false);
            }
            _ => {}
        }
        Ok(())
    }

    /// Records that a node has ended in the enclosing collection.
    fn node(&mut self, is_key: bool) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.mapping) {
            frame.source = !frame.value && is_key;
            frame.value = !frame.value;
        }
    }

    fn mention(&mut self, event: &Event<'_>, anchor: Option<&str>, target: Option<Target>) -> Result<()> {
        let is_source = self.frames.last().is_some_and(|frame| frame.array && frame.value && frame.source);
        let Some(target) = target.filter(|_| is_source) else { return Ok(()) };
        if self.mentions.len() >= MAX_ITEMS {
            return Err(Error::unsupported(format!("there are more than {MAX_ITEMS} arrays")));
        }
        let range = event.start.offset..event.end.offset;
        self.mentions.push(Mention { range, anchor: anchor.map(Into::into), target });
        Ok(())
    }
}

fn target_of(text: &str, style: Style, tag: Option<&str>) -> Option<Target> {
    match scalar::type_of(text, style == Style::Plain, tag) {
        Type::Int => scalar::integer(text).and_then(|n| i64::try_from(n).ok()).map(Target::Block),
        Type::Str => Some(Target::External(text.into())),
        _ => None,
    }
}

/// The parts of the tree's start that are copied into block files.
#[derive(Default)]
struct Root {
    /// The end of `---`.
    start: Option<u64>,
    /// The place and tag of the root.
    root: Option<(Mark, String)>,
    key: Option<Mark>,
    /// The range of the key [`LIBRARY`] and its value.
    library: Option<Range<u64>>,
    /// True if `library` can't be parsed without the rest of the tree.
    entangled: bool,
}

impl Root {
    /// Follows the start of the tree, event by event. `event` is nested in `depth` collections.
    fn on_event(&mut self, event: &Event<'_>, depth: usize) {
        match event.what {
            What::DocumentStart { explicit: true } => self.start = Some(event.end.offset),
            What::MappingStart { tag, .. } if depth == 0 => {
                self.root = Some((event.start, tag.unwrap_or_default().to_owned()));
            }
            What::Scalar { value, anchor: None, .. } if depth == 1 && self.key.is_none() => {
                let is_it = value == LIBRARY && event.start.column == 1 && self.library.is_none();
                self.key = is_it.then_some(event.start);
            }
            What::MappingStart { anchor: None, .. } if depth == 1 => {}
            What::MappingEnd if depth == 2 => {
                if let Some(key) = self.key.take() {
                    self.library = Some(key.offset..event.end.offset);
                }
            }
            What::Alias(_)
            | What::MappingStart { anchor: Some(_), .. }
            | What::SequenceStart { anchor: Some(_), .. }
            | What::Scalar { anchor: Some(_), .. } => self.entangled |= self.key.is_some(),
            _ if depth == 1 => self.key = None,
            _ => {}
        }
    }

    /// Returns the start of each block file.
    fn front(&self, tree: &dyn Content) -> Result<Vec<u8>> {
        let end = self.start.unwrap_or(tree.len()).min(MAX_VALUE as u64);
        let head = text(tree, 0..end)?;
        let mut front = Vec::new();
        let is_kept = |line: &&[u8]| line.starts_with(b"#ASDF") || line.starts_with(b"%");
        for line in head.split_inclusive(|byte| *byte == b'\n').filter(is_kept) {
            front.extend_from_slice(line);
        }
        let (Some(start), Some((root, tag))) = (self.start, &self.root) else {
            // Without a tree, the block directly follows the header.
            let line = memchr::memchr(b'\n', &front).map_or(front.len(), |at| at + 1);
            front.truncate(line);
            return Ok(front);
        };
        if start > MAX_VALUE as u64 {
            front.truncate(memchr::memchr(b'\n', &front).map_or(0, |at| at + 1));
            return Ok(front);
        }
        front.extend_from_slice(b"---");
        let written = text(tree, root.offset..tree.len().min(root.offset + 1024))?;
        let written = written.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        match written {
            [b'!', ..] => front.extend([b" ", written].concat()),
            _ if !tag.is_empty() => front.extend(format!(" !<{tag}>").bytes()),
            _ => {}
        }
        let library = self.library.clone().filter(|_| !self.entangled);
        match library.filter(|library| library.end - library.start <= MAX_VALUE as u64) {
            Some(library) => {
                front.push(b'\n');
                front.extend_from_slice(text(tree, library)?.trim_ascii_end());
                front.extend_from_slice(b"\n...\n");
            }
            None => front.extend_from_slice(b" {}\n...\n"),
        }
        Ok(front)
    }
}

fn text(tree: &dyn Content, range: Range<u64>) -> Result<Vec<u8>> {
    let mut text = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
    read_exact_at(tree, range.start, &mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::Text;

    fn sources(text: &str) -> Sources {
        find(&Text::new(text.as_bytes())).unwrap()
    }

    const HEAD: &str = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n# mine\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n";

    #[test]
    fn only_sources_of_arrays_are_mentioned() {
        let text = format!(
            "{HEAD}--- !core/asdf-1.1.0\nsource: 1\na: !core/ndarray-1.1.0\n  source: 0 # a comment\n  \
             mask: !core/ndarray-1.1.0 {{\"source\":-1, shape: [source, 3]}}\n  shape: {{source: 4}}\n\
             n: &n 0x2\nb: !core/ndarray-1.1.0 {{source: *n}}\n\
             c: !core/ndarray-1.1.0 {{source: &s other.asdf}}\n\
             d: !core/ndarray-1.1.0 {{? source : !!int '7'}}\n...\n"
        );
        let found = sources(&text).mentions;
        let shown: Vec<_> = found
            .iter()
            .map(|mention| {
                (&text[mention.range.start as usize..mention.range.end as usize], mention.target.clone())
            })
            .collect();
        let external = Target::External("other.asdf".into());
        assert_eq!(
            shown,
            [
                ("0", Target::Block(0)),
                ("-1", Target::Block(-1)),
                ("*n", Target::Block(2)),
                ("&s other.asdf", external),
                ("!!int '7'", Target::Block(7)),
            ]
        );
        assert_eq!(found[3].anchor.as_deref(), Some("s"));
    }

    #[test]
    fn a_file_of_a_block_has_the_header_and_the_library() {
        let front = |nodes: &str| String::from_utf8(sources(&format!("{HEAD}{nodes}...\n")).front).unwrap();
        let kept = HEAD.replace("# mine\n", "");
        let library = "asdf_library: !core/software-1.0.0 {name: x,\n  version: 1}\n";
        assert_eq!(
            front(&format!("--- !core/asdf-1.1.0\na: [1]\n{library}b: 1\n")),
            format!("{kept}--- !core/asdf-1.1.0\n{library}...\n")
        );
        let library = "asdf_library: !core/software-1.0.0\n  name: x\n  version: 1\n";
        assert_eq!(
            front(&format!("--- !core/asdf-1.1.0\n{library}b: {{c: 1}}\n")),
            format!("{kept}--- !core/asdf-1.1.0\n{library}...\n")
        );
        assert_eq!(
            front("--- !core/asdf-1.1.0\na: &a 1\nasdf_library: {name: *a}\n"),
            format!("{kept}--- !core/asdf-1.1.0 {{}}\n...\n")
        );
        assert_eq!(
            front("--- &r !core/asdf-1.1.0\nasdf_library: 1\nb: {c: 1}\n"),
            format!("{kept}--- !<tag:stsci.edu:asdf/core/asdf-1.1.0> {{}}\n...\n")
        );
        assert_eq!(sources("%ASDF 0.1.0\n").front, b"%ASDF 0.1.0\n");
        assert_eq!(sources("#ASDF 1.0.0\n# text\n").front, b"#ASDF 1.0.0\n");
    }

    #[test]
    fn a_tree_that_is_no_yaml_is_an_error() {
        assert!(find(&Text::new(format!("{HEAD}--- [\n...\n").into_bytes())).is_err());
    }
}
