//! Reads the elements of arrays that are written in the tree: in bounded memory, by parsing the text again.
//!
//! Only the text of the node itself is parsed, after the necessary directives. An alias is read at the place
//! of its anchor.

use std::sync::Arc;

use asdf_tree::limits::{MAX_CHAIN, MAX_VALUE};
use asdf_tree::yaml::event::{Event, Mark, Style, What};
use asdf_tree::yaml::parser::Events;
use asdf_tree::yaml::scalar;
use asdf_tree::yaml::survey::{Alias, Leaves, Rectangle};
use seekable::content::{Content, ContentWindow, Pieces, Text};
use seekable::decode::{Decoder, Sequential};
use seekable::error::{Error, Result};

use super::super::ndarray::{ByteOrder, Datatype, Field, Inline, Ndarray, Scalar, Source};
use super::value::Value;

/// Number of bytes before `---` that are searched for directives.
const HEAD: u64 = 64 << 10;
/// Maximum column of a node in YAML's block style. Nodes further to the right stand in brackets, or nest too
/// deep to be read.
const WIDEST: u64 = 4096;

/// The text of a tree, from which any node can be read.
#[derive(Debug)]
pub(super) struct TreeText {
    tree: Arc<dyn Content>,
    /// The `%TAG` and other directives of the text.
    directives: Vec<u8>,
    /// The offset of each alias, and the node that it stands for, in the order of the text.
    aliases: Vec<(u64, Origin)>,
}

/// The start of a node; true if it stands in brackets or braces.
type Origin = (Mark, bool);

impl TreeText {
    pub(super) fn new(tree: &Arc<dyn Content>, aliases: &[Alias]) -> Result<Self> {
        let mut head = vec![0; HEAD.min(tree.len()) as usize];
        let mut read = 0;
        while read < head.len() {
            match tree.read_at(read as u64, &mut head[read..])? {
                0 => break,
                more => read += more,
            }
        }
        let lines = head[..read].split_inclusive(|byte| *byte == b'\n');
        let lines = lines.take_while(|line| !line.starts_with(b"---"));
        // Files of 2014 begin with `%ASDF`.
        let is_directive = |line: &&[u8]| line.starts_with(b"%") && !line.starts_with(b"%ASDF");
        let directives = lines.filter(is_directive).flatten().copied().collect();
        let aliases = aliases.iter().map(|alias| (alias.place.offset, alias.origin)).collect();
        Ok(Self { tree: tree.clone(), directives, aliases })
    }

    /// Parses the text from a node on. Returns the events, and the offset of the node in the text that is
    /// parsed: the node comes after a prefix with the directives.
    fn events(&self, (place, flow): Origin) -> Result<(Events<'static>, u64)> {
        let mut prefix = self.directives.clone();
        prefix.extend_from_slice(b"---\n");
        if flow {
            prefix.push(b'[');
        } else {
            // Makes the node the value of a key `x`, in the column of the node's original key or of the dash
            // before the node.
            let (column, is_block) = self.column_of_key(place)?;
            let blanks = vec![b' '; column as usize];
            prefix.extend_from_slice(&blanks);
            prefix.extend_from_slice(b"x:");
            if is_block {
                prefix.push(b'\n');
                prefix.extend_from_slice(&blanks);
            } else {
                prefix.push(b' ');
            }
        }
        let before = prefix.len() as u64;
        let rest = ContentWindow::new(self.tree.clone(), place.offset, u64::MAX);
        let text = Pieces::new([Arc::new(Text::new(prefix)) as Arc<dyn Content>, Arc::new(rest)])?;
        Ok((Events::keeping(Arc::new(text)), before))
    }

    /// Returns the column of the node's key, or of the dash before a node without a key. The boolean is true
    /// if the node itself is a block sequence; the column is then that of the sequence's first dash.
    fn column_of_key(&self, place: Mark) -> Result<(u64, bool)> {
        let column = place.column.saturating_sub(1);
        if column > WIDEST {
            return Ok((0, false));
        }
        let from = place.offset.saturating_sub(column * 4);
        let before = (place.offset - from) as usize;
        let mut text = vec![0; before + 2];
        seekable::content::read_exact_at(&*self.tree, from, &mut text)?;
        if matches!(text[before..], [b'-', b' ' | b'\t' | b'\r' | b'\n']) {
            return Ok((column, true));
        }
        let line = text[..before].rsplit(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
        let mut start = 0;
        let mut dash = None;
        while let Some(byte @ (b' ' | b'-')) = line.get(start) {
            match (byte, line.get(start + 1)) {
                (b'-', Some(b' ')) => dash = Some(start),
                (b'-', _) => break,
                _ => {}
            }
            start += 1;
        }
        let key = if start == line.len() { dash.unwrap_or(start) } else { start };
        Ok((key as u64, false))
    }

    /// Returns the node that the alias at an offset stands for.
    fn target(&self, offset: u64) -> Option<Origin> {
        let index = self.aliases.binary_search_by_key(&offset, |(at, _)| *at).ok()?;
        Some(self.aliases[index].1)
    }
}

/// The start or the end of a sequence in an inline array, or an element.
enum ArrayPart<'e> {
    Open,
    Close,
    Leaf { text: &'e str, plain: bool, tag: Option<&'e str> },
}

/// A traversal of an array that follows aliases.
struct Walk {
    text: Arc<TreeText>,
    nodes: Vec<NodeEvents>,
}

/// The parsing state of one node.
struct NodeEvents {
    events: Events<'static>,
    /// The offset of the node in the text that `events` parses (`before`), and in the tree (`offset`).
    before: u64,
    offset: u64,
    /// Number of events before the node: stream, document, and the enclosing collection.
    outside: usize,
    depth: usize,
    /// True after the last event of the node.
    ended: bool,
}

impl Walk {
    fn new(text: Arc<TreeText>, place: Mark) -> Result<Self> {
        let mut walk = Self { text, nodes: Vec::new() };
        walk.enter((place, false))?;
        Ok(walk)
    }

    fn enter(&mut self, origin: Origin) -> Result<()> {
        if self.nodes.len() >= MAX_CHAIN {
            return Err(Error::damaged("an array in the tree contains itself, or is nested too deep"));
        }
        let (events, before) = self.text.events(origin)?;
        // The events before the node: stream, document, and either a sequence or a mapping with its key.
        let outside = if origin.1 { 3 } else { 4 };
        let offset = origin.0.offset;
        self.nodes.push(NodeEvents { events, before, offset, outside, depth: 0, ended: false });
        Ok(())
    }

    /// Passes the next start, end or element to `take`. False at the end of the array.
    fn step(&mut self, take: &mut dyn FnMut(ArrayPart<'_>) -> Result<()>) -> Result<bool> {
        while self.nodes.pop_if(|node| node.ended).is_some() {}
        let Some(node) = self.nodes.last_mut() else { return Ok(false) };
        let end = || Error::damaged("an array in the tree is incomplete");
        let Event { what, start, .. } = node.events.next_event()?.ok_or_else(end)?;
        if node.outside > 0 {
            node.outside -= 1;
            return Ok(true);
        }
        match what {
            What::SequenceStart { .. } => {
                node.depth += 1;
                take(ArrayPart::Open)?;
            }
            What::SequenceEnd => {
                node.depth = node.depth.checked_sub(1).ok_or_else(end)?;
                node.ended = node.depth == 0;
                take(ArrayPart::Close)?;
            }
            What::Scalar { value, style, tag, .. } => {
                node.ended = node.depth == 0;
                take(ArrayPart::Leaf { text: value, plain: style == Style::Plain, tag })?;
            }
            What::Alias(_) => {
                node.ended = node.depth == 0;
                let at = start.offset.checked_sub(node.before).and_then(|at| at.checked_add(node.offset));
                let target = at.and_then(|at| self.text.target(at));
                let target = target.ok_or_else(|| Error::damaged("an alias in an array has no anchor"))?;
                self.enter(target)?;
            }
            _ => return Err(Error::damaged("an array in the tree contains a mapping")),
        }
        Ok(true)
    }
}

/// Measures an array with aliases by following them. Uses up `parts_left`, the number of parts that may still
/// be visited.
pub(super) fn measure(text: &Arc<TreeText>, inline: &mut Inline, parts_left: &mut u64) -> Result<()> {
    let mut walk = Walk::new(text.clone(), inline.place)?;
    let mut rectangle = Rectangle::default();
    let mut counts = Vec::<u64>::new();
    let mut leaves = Leaves::default();
    while walk.step(&mut |part| {
        *parts_left = parts_left
            .checked_sub(1)
            .ok_or_else(|| Error::unsupported("it has too many aliases to follow"))?;
        if let Some(count) = counts.last_mut()
            && !matches!(part, ArrayPart::Close)
        {
            *count += 1;
        }
        match part {
            ArrayPart::Open => {
                rectangle.open(counts.len());
                counts.push(0);
            }
            ArrayPart::Close => {
                let count = counts.pop().unwrap_or_default();
                rectangle.close(counts.len(), count);
            }
            ArrayPart::Leaf { text: leaf, plain, tag } => {
                rectangle.leaf(counts.len());
                leaves.add(inline.place, leaf, scalar::type_of(leaf, plain, tag), tag);
            }
        }
        Ok(())
    })? {}
    (inline.shape, inline.seen) = (rectangle.shape(), Some(Box::new(leaves.seen)));
    Ok(())
}

/// The elements of an array in the tree, as a stream that is parsed anew at each start.
#[derive(Debug)]
pub(crate) struct Elements {
    text: Arc<TreeText>,
    place: Mark,
    /// Type and byte order of each value that makes up an element.
    values: Arc<[(Scalar, ByteOrder)]>,
    /// True for a stream of booleans, one for each element: true if the element is null.
    nulls: bool,
    /// Length of all elements, in bytes.
    len: u64,
}

impl Elements {
    /// Makes the stream for `array`, which must have a type. With `nulls` it has a boolean for each element,
    /// true for null.
    pub(super) fn new(text: &Arc<TreeText>, array: &Ndarray, nulls: bool) -> Result<Self> {
        let wrong = || Error::damaged("the type of the array is not known");
        let (Source::Inline(inline), Some(datatype)) = (&array.source, &array.datatype) else {
            return Err(wrong());
        };
        let mut values = Vec::new();
        flatten(datatype, ByteOrder::Little, &mut values).ok_or_else(wrong)?;
        let item = if nulls { Some(1) } else { datatype.size() };
        let dimensions = array.shape.iter().flat_map(|shape| &shape.dimensions);
        let len = dimensions.copied().try_fold(item.ok_or_else(wrong)?, u64::checked_mul);
        let len = len.ok_or_else(|| Error::damaged("the array is too large"))?;
        Ok(Self { text: text.clone(), place: inline.place, values: values.into(), nulls, len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

/// Appends type and byte order of each value of an element, in the order of the values; `None` if there are
/// more than [`MAX_VALUE`], or a type is unknown.
fn flatten(datatype: &Datatype, byteorder: ByteOrder, out: &mut Vec<(Scalar, ByteOrder)>) -> Option<()> {
    match datatype {
        Datatype::Scalar(scalar) => out.push((*scalar, byteorder)),
        Datatype::Structured(fields) => {
            for Field { datatype: inner, byteorder: own, shape, .. } in fields {
                let count = shape.iter().try_fold(1_u64, |product, len| product.checked_mul(*len))?;
                for _ in 0..count {
                    flatten(inner, own.unwrap_or(byteorder), out)?;
                }
            }
        }
        Datatype::Unknown => return None,
    }
    (out.len() <= MAX_VALUE).then_some(())
}

impl Sequential for Elements {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(ElementDecoder {
            walk: Walk::new(self.text.clone(), self.place)?,
            values: self.values.clone(),
            nulls: self.nulls,
            next: 0,
            bytes_left: self.len,
            ready: Vec::new(),
            given: 0,
            failed: None,
        }))
    }
}

struct ElementDecoder {
    walk: Walk,
    values: Arc<[(Scalar, ByteOrder)]>,
    nulls: bool,
    /// Index of the next value in its element.
    next: usize,
    /// Number of bytes that are still to be made. Text after the last of them is not read.
    bytes_left: u64,
    /// Bytes ready to be read, and the number of those already read.
    ready: Vec<u8>,
    given: usize,
    /// The error that ended the stream.
    failed: Option<Error>,
}

impl Decoder for ElementDecoder {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() && self.bytes_left > 0 {
            if self.given == self.ready.len() {
                self.ready.clear();
                self.given = 0;
                if self.failed.is_none() {
                    self.failed = self.make().err();
                }
                match &self.failed {
                    None => {}
                    Some(_) if done > 0 => break,
                    Some(error) => return Err(error.clone()),
                }
                if self.ready.is_empty() {
                    continue;
                }
            }
            let rest = &self.ready[self.given..];
            let take =
                rest.len().min(out.len() - done).min(usize::try_from(self.bytes_left).unwrap_or(usize::MAX));
            out[done..done + take].copy_from_slice(&rest[..take]);
            (done, self.given, self.bytes_left) =
                (done + take, self.given + take, self.bytes_left - take as u64);
        }
        Ok(done)
    }
}

impl ElementDecoder {
    /// Makes the bytes of the next value.
    fn make(&mut self) -> Result<()> {
        let values = &self.values;
        let next = &mut self.next;
        let nulls = self.nulls;
        let ready = &mut self.ready;
        let mut take = |part: ArrayPart<'_>| {
            let ArrayPart::Leaf { text, plain, tag } = part else { return Ok(()) };
            let Some((scalar, byteorder)) = values.get(*next).copied() else { return Ok(()) };
            *next = (*next + 1) % values.len();
            let value = Value::of(text, plain, tag);
            let written = match (value, nulls) {
                (Some(value), true) => {
                    ready.push(u8::from(value == Value::Null));
                    Some(())
                }
                (Some(value), false) => value.write(scalar, byteorder, ready),
                (None, _) => None,
            };
            written.ok_or_else(|| Error::damaged("an element in the tree does not fit the array's datatype"))
        };
        if self.walk.step(&mut take)? {
            Ok(())
        } else {
            Err(Error::damaged("the array in the tree is incomplete"))
        }
    }
}
