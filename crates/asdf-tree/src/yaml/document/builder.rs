//! Makes a document of the events of a text.

use std::collections::HashMap;

use super::run::{Checkpoint, ScalarRun};
use super::{Document, Id, Kind, Node};
use crate::limits::{MAX_NODES, MAX_TEXT};
use crate::yaml::event::{Event, Mark, Style, What};
use seekable::error::Error;

/// Number of plain items from which on they are one node.
const MIN_RUN: u32 = 17;
/// Maximum number of items of a run between two checkpoints.
const ITEMS: u32 = if cfg!(test) { 5 } else { 4096 };
/// Maximum length of an item of a run in bytes. Between two checkpoints are at most as many bytes, and an item.
const ITEM_LEN: u32 = 64 << 10;

/// A document that is being made. Its events are those of either parser.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
    runs: Vec<ScalarRun>,
    checkpoints: Vec<Checkpoint>,
    unescaped: String,
    tags: Vec<Box<str>>,
    tag_numbers: HashMap<Box<str>, u32>,
    /// The nodes with anchors so far.
    anchors: HashMap<Box<str>, Id>,
    open: Vec<OpenCollection>,
    has_root: bool,
    /// The offset of another document.
    next_document: Option<u64>,
    /// The nodes whose anchors an earlier node has.
    repeated: Vec<(Id, Box<str>)>,
    /// True if the items of the root are no run.
    has_items: bool,
    max_nodes: usize,
    fault: Option<Error>,
}

#[derive(Debug)]
struct OpenCollection {
    id: Id,
    is_mapping: bool,
    /// The number of items so far.
    count: u32,
    /// The key of a mapping whose value comes next.
    key: Option<Id>,
    /// The column of the dashes of a sequence that is not in brackets.
    dash: Option<u32>,
    /// True if the collection may be part of a run: it has neither tag nor anchor, and all of its items are plain.
    is_plain: bool,
    /// True if all scalars of its items are decimal numbers.
    is_decimal: bool,
    /// The levels of sequences within its items.
    levels: u32,
    /// The lengths of the lists when the collection began.
    begin: Lengths,
    /// The last items, if they are plain.
    stretch: Option<Stretch>,
}

/// Consecutive plain items of a sequence.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The lengths of the lists before the first item.
    begin: Lengths,
    /// The position of the first item.
    first: u32,
    count: u32,
    /// True once the items are a run.
    is_run: bool,
}

/// The lengths of the lists of a document.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    nodes: usize,
    runs: usize,
    checkpoints: usize,
    unescaped: usize,
}

impl Builder {
    /// Begins a document of at most so many nodes.
    pub fn new(max_nodes: usize) -> Self {
        Self { max_nodes: max_nodes.min(MAX_NODES), ..Self::default() }
    }

    /// Begins a document of the items of a run.
    pub(super) fn of_items() -> Self {
        Self { has_items: true, ..Self::new(MAX_NODES) }
    }

    /// Takes the next event of `text`. False if no further events are wanted.
    pub fn on_event(&mut self, text: &str, event: &Event<'_>) -> bool {
        let at = event.start.offset as u32;
        match event.what {
            What::StreamStart | What::StreamEnd | What::DocumentEnd { .. } => {}
            What::DocumentStart { .. } if self.has_root => {
                self.next_document = Some(event.start.offset);
                self.fail(&Error::damaged(format!("a second document begins at {}", event.start)));
            }
            What::DocumentStart { .. } => self.has_root = true,
            What::Alias(name) => {
                let target = self.anchors.get(name).copied().unwrap_or(Id::NONE);
                let id = self.push(Kind::Alias, None, at, (target.0, name.len() as u32));
                self.end_item(id, false, event.end);
            }
            What::Scalar { value, style, tag, anchor } => {
                let begin = self.lengths();
                let is_plain = style == Style::Plain
                    && tag.is_none()
                    && anchor.is_none()
                    && event.end.offset - event.start.offset <= u64::from(ITEM_LEN);
                if self.open.last().is_some_and(|open| !open.is_mapping) {
                    self.note_item(is_plain && is_decimal(value), 0);
                    if is_plain && self.has_run() {
                        self.extend_run(at, event.end);
                        return true;
                    }
                    self.begin_stretch(is_plain, begin);
                }
                let range = self.range(text, value, event);
                let id = self.push(Kind::Scalar(style), tag, at, range);
                self.anchor(anchor, id);
                self.end_item(id, is_plain, event.end);
            }
            What::SequenceStart { tag, anchor, flow } => {
                let dash = (!flow).then(|| column_of_dash(text, event.end));
                self.begin(Kind::Sequence, tag, anchor, at, flow, dash);
            }
            What::MappingStart { tag, anchor, flow } => {
                self.begin(Kind::Mapping, tag, anchor, at, flow, None);
            }
            What::SequenceEnd | What::MappingEnd => self.end(event.end),
        }
        self.fault.is_none()
    }

    /// Takes the reason why the events end early.
    pub fn fail(&mut self, error: &Error) {
        self.fault.get_or_insert_with(|| error.clone());
    }

    /// Returns the document of a text, all events of which were taken.
    pub fn finish(mut self, text: String) -> Document {
        // Collections that a fault has left open end where the text does.
        let end = Id(self.nodes.len() as u32);
        let unfinished = self.open.last().map(|open| open.id);
        for open in self.open.drain(..) {
            self.nodes[open.id.index()].end = end;
        }
        self.nodes.shrink_to_fit();
        let Self { nodes, runs, checkpoints, unescaped, tags, fault, next_document, repeated, .. } = self;
        let failure = None;
        Document {
            text,
            unescaped,
            nodes,
            runs,
            checkpoints,
            tags,
            fault,
            failure,
            next_document,
            repeated,
            unfinished,
        }
    }

    fn lengths(&self) -> Lengths {
        Lengths {
            nodes: self.nodes.len(),
            runs: self.runs.len(),
            checkpoints: self.checkpoints.len(),
            unescaped: self.unescaped.len(),
        }
    }

    fn truncate(&mut self, to: Lengths) {
        self.nodes.truncate(to.nodes);
        self.runs.truncate(to.runs);
        self.checkpoints.truncate(to.checkpoints);
        self.unescaped.truncate(to.unescaped);
    }

    /// Adds a node.
    fn push(&mut self, kind: Kind, tag: Option<&str>, at: u32, text: (u32, u32)) -> Id {
        let id = Id(self.nodes.len() as u32);
        if self.nodes.len() >= self.max_nodes {
            self.fail(&Error::unsupported(format!("the tree has more than {} nodes", self.max_nodes)));
        }
        let [low, middle, high, _] = self.tag_number(tag).to_le_bytes();
        let (parent, place) = match self.open.last() {
            None => (Id::NONE, 0),
            Some(open) if open.is_mapping => (open.id, open.key.unwrap_or(id).0),
            Some(open) => (open.id, open.count),
        };
        let end = Id(id.0 + 1);
        self.nodes.push(Node { kind, tag: [low, middle, high], parent, place, end, at, text });
        id
    }

    /// Returns the number of a tag, from 1. There are at most as many as nodes, so that three bytes suffice.
    fn tag_number(&mut self, tag: Option<&str>) -> u32 {
        let Some(tag) = tag else { return 0 };
        if let Some(known) = self.tag_numbers.get(tag) {
            return *known;
        }
        self.tags.push(tag.into());
        let number = self.tags.len() as u32;
        self.tag_numbers.insert(tag.into(), number);
        number
    }

    fn anchor(&mut self, anchor: Option<&str>, id: Id) {
        if let Some(anchor) = anchor
            && self.anchors.insert(anchor.into(), id).is_some()
        {
            self.repeated.push((id, anchor.into()));
        }
    }

    /// Returns where the text of a scalar stands: in `text`, or else in the unescaped texts.
    fn range(&mut self, text: &str, value: &str, event: &Event<'_>) -> (u32, u32) {
        let start = event.start.offset as usize;
        let end = event.end.offset as usize;
        // The closing quote does not belong to the text.
        let ends = [end, end.saturating_sub(1)];
        let is_there = |end: &usize| {
            *end >= start + value.len()
                && text.is_char_boundary(*end)
                && text.get(*end - value.len()..*end).is_some_and(|there| there == value)
        };
        let len = value.len() as u32;
        if let Some(end) = ends.iter().find(|end| is_there(end)) {
            return ((end - value.len()) as u32, len);
        }
        if self.unescaped.len() + value.len() > MAX_TEXT {
            let most = MAX_TEXT >> 20;
            self.fail(&Error::unsupported(format!("the texts of the tree are longer than {most} MiB")));
            return (0, 0);
        }
        let at = text.len() + self.unescaped.len();
        self.unescaped.push_str(value);
        (at as u32, len)
    }

    fn begin(
        &mut self,
        kind: Kind,
        tag: Option<&str>,
        anchor: Option<&str>,
        at: u32,
        flow: bool,
        dash: Option<u32>,
    ) {
        let begin = self.lengths();
        let id = self.push(kind, tag, at, (u32::from(flow), 0));
        self.anchor(anchor, id);
        let is_mapping = kind == Kind::Mapping;
        self.open.push(OpenCollection {
            id,
            is_mapping,
            count: 0,
            key: None,
            dash,
            is_plain: !is_mapping && tag.is_none() && anchor.is_none(),
            is_decimal: true,
            levels: 0,
            begin,
            stretch: None,
        });
    }

    /// Ends the innermost collection.
    fn end(&mut self, end: Mark) {
        let Some(ended) = self.open.pop() else { return };
        let next = Id(self.nodes.len() as u32);
        let node = &mut self.nodes[ended.id.index()];
        node.end = next;
        let at = node.at;
        let is_plain = ended.is_plain && end.offset as u32 - at <= ITEM_LEN;
        self.note_item(is_plain && ended.is_decimal, ended.levels + 1);
        if is_plain && self.has_run() {
            self.truncate(ended.begin);
            self.extend_run(at, end);
            return;
        }
        self.begin_stretch(is_plain, ended.begin);
        self.end_item(ended.id, is_plain, end);
    }

    /// Notes for runs what an item of the innermost collection is made of.
    fn note_item(&mut self, is_decimal: bool, levels: u32) {
        let Some(open) = self.open.last_mut() else { return };
        open.is_decimal &= is_decimal;
        open.levels = open.levels.max(levels);
    }

    /// True if the innermost collection ends with a run.
    fn has_run(&self) -> bool {
        self.open.last().and_then(|open| open.stretch).is_some_and(|stretch| stretch.is_run)
    }

    /// Adds a plain item at `at` to the run at the end of the innermost collection.
    fn extend_run(&mut self, at: u32, end: Mark) {
        let Some(open) = self.open.last_mut() else { return };
        open.count += 1;
        let (Some(node), Some(run)) = (self.nodes.last_mut(), self.runs.last_mut()) else { return };
        let item = node.text.1;
        let last = self.checkpoints[run.checkpoints.clone()].last();
        if last.is_none_or(|last| item - last.item >= ITEMS || at - last.at >= ITEM_LEN) {
            self.checkpoints.push(Checkpoint { at, item });
            run.checkpoints.end += 1;
        }
        node.text.1 += 1;
        run.end = end.offset as u32;
        run.is_decimal = open.is_decimal;
        run.levels = open.levels;
    }

    /// Begins a stretch of plain items with the item that began at these lengths, if there is none yet.
    fn begin_stretch(&mut self, is_plain: bool, begin: Lengths) {
        let may_be_run = is_plain && !(self.has_items && self.open.len() == 1);
        let Some(open) = self.open.last_mut().filter(|open| may_be_run && !open.is_mapping) else { return };
        let first = open.count;
        open.stretch.get_or_insert(Stretch { begin, first, count: 0, is_run: false });
    }

    /// Ends a key, a value or an item of the innermost collection.
    fn end_item(&mut self, id: Id, is_plain: bool, end: Mark) {
        let Some(open) = self.open.last_mut() else { return };
        if open.is_mapping {
            open.key = if open.key.is_none() { Some(id) } else { None };
            return;
        }
        open.count += 1;
        open.is_plain &= is_plain;
        if !is_plain {
            open.stretch = None;
            return;
        }
        let Some(stretch) = &mut open.stretch else { return };
        stretch.count += 1;
        if stretch.count >= MIN_RUN {
            let stretch = *stretch;
            let dash = open.dash;
            self.make_run(stretch, dash, end);
        }
    }

    /// Makes a run of the plain items at the end of the innermost collection.
    fn make_run(&mut self, stretch: Stretch, dash: Option<u32>, end: Mark) {
        let mut starts = Vec::new();
        let mut next = stretch.begin.nodes;
        while let Some(node) = self.nodes.get(next) {
            starts.push(node.at);
            next = node.end.index();
        }
        let Some(first) = starts.first().copied() else { return };
        self.truncate(stretch.begin);
        let begin = self.checkpoints.len();
        self.runs.push(ScalarRun { checkpoints: begin..begin, end: 0, dash, is_decimal: false, levels: 0 });
        let id = self.push(Kind::ScalarRun, None, first, (self.runs.len() as u32 - 1, 0));
        self.nodes[id.index()].place = stretch.first;
        if let Some(open) = self.open.last_mut() {
            open.count = stretch.first;
            open.stretch = Some(Stretch { count: 0, is_run: true, ..stretch });
        }
        for at in starts {
            self.extend_run(at, end);
        }
    }
}

/// True for a decimal number of at most 18 digits that means the same to the readers of each YAML version, as in `-12`,
/// `0.5` and `1.5e-07`.
fn is_decimal(text: &str) -> bool {
    let bytes = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(bytes);
    let has_zeros = whole > 1 && bytes[0] == b'0';
    if whole == 0 || whole > 18 || has_zeros {
        return false;
    }
    let Some(fraction) = bytes[whole..].strip_prefix(b".") else { return whole == bytes.len() };
    let exponent = &fraction[digits(fraction)..];
    match exponent {
        [] => true,
        [b'e' | b'E', b'-' | b'+', exponent @ ..] => {
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        _ => false,
    }
}

/// Returns the column of the dashes of a sequence, from 0. Its first event ends before the first dash, or behind it if
/// the sequence is not indented.
fn column_of_dash(text: &str, end: Mark) -> u32 {
    let is_before = text.as_bytes().get(end.offset as usize) == Some(&b'-');
    (end.column as u32).saturating_sub(if is_before { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::scalar::readings::Readings;
    use crate::yaml::scalar::{Type, beyond_int64, type_of, unfit};

    #[test]
    fn decimal_numbers_need_no_judgement() {
        for text in ["0", "-12", "+7", "999999999999999999", "0.5", "-1.", "1.25e-07", "3.0E+10"] {
            assert!(is_decimal(text), "{text}");
        }
        let parts = ["", "0", "1", "9", ".", "e", "E", "+", "-", "_", ":", "x", "n", "o", "17", "8"];
        for number in 0..parts.len().pow(5) {
            let text: String =
                (0..5).map(|place| parts[number / parts.len().pow(place) % parts.len()]).collect();
            if is_decimal(&text) {
                let looks = type_of(&text, true, None);
                assert!(matches!(looks, Type::Int | Type::Float), "{text}");
                assert!(Readings::of(&text, looks).is_none(), "{text}");
                assert!(unfit(&text, looks, None).is_none() && !beyond_int64(&text), "{text}");
            }
        }
    }
}
