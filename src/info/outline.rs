//! The tree as an outline: a line a key, collections indented below theirs, down to a depth.

use super::InfoForm;
use super::capture::{Capture, Captured, CapturedKind, kind_of};
use super::describe::{self, BlockSize, Blocks, is_whole};
use super::line::{Style, TextLine};
use crate::error::one_line;
use crate::yaml::event::{Event, What};

/// The depths whose lines are counted to find the depth that fits on the screen.
const MAX_DEPTH: usize = 16;
/// Keys of the root about the program that wrote the file. They are shown on one line each.
const ABOUT_WRITER: [&str; 2] = ["history", "asdf_library"];

/// Takes the events of a tree, and passes its lines on.
pub(super) struct Outline<'o> {
    form: InfoForm,
    /// The depth of the last lines.
    depth: usize,
    /// `None` while lines are only counted.
    out: Option<Output<'o>>,
    open: Vec<OutlineLevel>,
    /// The collection or value that is captured.
    capture: Option<Capture>,
    /// A sequence, tag included, whose first item is not known yet.
    undecided: Option<(Option<String>, Option<String>)>,
    /// Number of collections that are open within one that is skipped.
    skipped: usize,
    /// Number of lines by depth.
    lines: [usize; MAX_DEPTH],
    has_ended: bool,
}

struct Output<'o> {
    blocks: &'o dyn Blocks,
    lines: &'o mut dyn OutlineSink,
}

/// Takes the lines of an outline.
pub(super) trait OutlineSink {
    /// Takes a line, indented by its depth; false if no further lines are wanted.
    fn line(&mut self, line: &TextLine, depth: usize) -> bool;

    /// Takes the line of a collection, whose lines follow; false if no further lines are wanted.
    fn begin(&mut self, line: &TextLine, depth: usize) -> bool {
        self.line(line, depth)
    }

    /// Ends the collection that began last. Called even if no further lines are wanted.
    fn end(&mut self) {}
}

/// A collection that is shown key by key.
struct OutlineLevel {
    is_mapping: bool,
    /// The key whose value is next.
    key: Option<String>,
    /// Number of children so far.
    count: u64,
}

impl<'o> Outline<'o> {
    /// Creates an outline that only counts its lines.
    pub(super) fn survey(form: InfoForm) -> Self {
        Self {
            form,
            depth: MAX_DEPTH,
            out: None,
            open: Vec::new(),
            capture: None,
            undecided: None,
            skipped: 0,
            lines: [0; MAX_DEPTH],
            has_ended: false,
        }
    }

    /// Creates an outline that passes its lines to `lines`.
    pub(super) fn shown(
        form: InfoForm,
        depth: usize,
        blocks: &'o dyn Blocks,
        lines: &'o mut dyn OutlineSink,
    ) -> Self {
        Self { depth: depth.max(1), out: Some(Output { blocks, lines }), ..Self::survey(form) }
    }

    /// Returns the greatest depth at which the outline is not longer than the form allows; at least 1.
    pub(super) fn fitting_depth(&self) -> usize {
        let mut lines = 0;
        let fits = |count: &&usize| {
            lines += **count;
            lines <= self.form.rows
        };
        self.lines.iter().take_while(fits).count().max(1)
    }

    /// Takes an event. Returns false after the end of the tree, or if no further lines are wanted.
    pub(super) fn take(&mut self, event: &Event<'_>) -> bool {
        let what = event.what;
        if self.skipped > 0 {
            match what {
                What::SequenceStart { .. } | What::MappingStart { .. } => self.skipped += 1,
                What::SequenceEnd | What::MappingEnd => self.skipped -= 1,
                _ => {}
            }
            return true;
        }
        if let Some((tag, anchor)) = self.undecided.take() {
            self.decide(what, tag.as_deref(), anchor.as_deref());
        }
        if let Some(capture) = &mut self.capture {
            if let Some(value) = capture.take(what) {
                self.capture = None;
                self.value(&value);
            }
            return !self.has_ended;
        }
        match what {
            What::DocumentEnd { .. } => return false,
            What::StreamStart | What::StreamEnd | What::DocumentStart { .. } => {}
            What::SequenceEnd | What::MappingEnd => self.close(),
            What::Scalar { value, .. } if self.expects_key() => self.key(value),
            _ if self.expects_key() => {
                // A key that is a collection or an alias: its value is shown without it.
                self.key("…");
                self.skip(what);
            }
            _ => self.node(what),
        }
        !self.has_ended
    }

    /// Ends an outline whose tree ended early.
    pub(super) fn end(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }

    fn expects_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_mapping && open.key.is_none())
    }

    fn key(&mut self, key: &str) {
        if let Some(open) = self.open.last_mut() {
            open.key = Some(key.to_owned());
        }
    }

    fn skip(&mut self, what: What<'_>) {
        self.skipped = usize::from(matches!(what, What::SequenceStart { .. } | What::MappingStart { .. }));
    }

    /// Takes the start of a value.
    fn node(&mut self, what: What<'_>) {
        let most = self.form.max_children();
        if let Some(open) = self.open.last_mut()
            && open.count >= most
        {
            open.count += 1;
            open.key = None;
            self.skip(what);
            return;
        }
        let tag = match what {
            What::Scalar { tag, .. } | What::SequenceStart { tag, .. } | What::MappingStart { tag, .. } => {
                tag
            }
            _ => None,
        };
        let is_collapsed = self.open.len() >= self.depth
            || tag.and_then(kind_of).is_some_and(is_whole)
            || (self.open.len() == 1 && !self.form.all && self.is_about_writer());
        match what {
            What::MappingStart { .. } if !is_collapsed || self.open.is_empty() => self.expand(true, tag),
            What::SequenceStart { anchor, .. } if !is_collapsed || self.open.is_empty() => {
                self.undecided = Some((tag.map(str::to_owned), anchor.map(str::to_owned)));
            }
            _ if self.out.is_none() && matches!(what, What::Scalar { .. } | What::Alias(_)) => self.count(1),
            _ => self.capture(what),
        }
    }

    fn is_about_writer(&self) -> bool {
        let key = self.open.last().and_then(|open| open.key.as_deref());
        key.is_some_and(|key| ABOUT_WRITER.contains(&key))
    }

    fn capture(&mut self, what: What<'_>) {
        let mut capture = Capture::new(self.form.all);
        match capture.take(what) {
            Some(value) => self.value(&value),
            None => self.capture = Some(capture),
        }
    }

    /// Expands the sequence that has just begun if its first item is a mapping; captures it otherwise.
    fn decide(&mut self, first: What<'_>, tag: Option<&str>, anchor: Option<&str>) {
        if matches!(first, What::MappingStart { .. }) {
            self.expand(false, tag);
        } else {
            self.capture(What::SequenceStart { tag, anchor, flow: false });
        }
    }

    /// Writes the line of a collection, and opens it.
    fn expand(&mut self, is_mapping: bool, tag: Option<&str>) {
        if !self.open.is_empty() {
            let mut line = self.name();
            if let Some(kind) = tag.and_then(kind_of) {
                line.push(Style::Type, one_line(kind));
            }
            self.begin(&line);
        }
        self.open.push(OutlineLevel { is_mapping, key: None, count: 0 });
    }

    fn close(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        let most = self.form.max_children();
        if closed.count > most {
            let indent = "  ".repeat(self.open.len());
            let more = closed.count - most;
            self.line(&TextLine::of(Style::Plain, format!("{indent}… {more} more")), self.open.len());
        }
        if !self.open.is_empty()
            && let Some(out) = &mut self.out
        {
            out.lines.end();
        }
    }

    /// Returns the start of the next child's line: its key or its number.
    fn name(&self) -> TextLine {
        let Some(open) = self.open.last() else { return TextLine::default() };
        let indent = "  ".repeat(self.open.len() - 1);
        let name = match (&open.key, open.is_mapping) {
            (Some(key), true) => one_line(key),
            _ => format!("[{}]", open.count),
        };
        TextLine::of(Style::Key, format!("{indent}{name}: "))
    }

    fn value(&mut self, value: &Captured) {
        if self.out.is_none() {
            // The columns of a table have a line each.
            let columns = match value.get("columns").map(|columns| &columns.what) {
                Some(CapturedKind::Sequence { count, .. }) => usize::try_from(*count).unwrap_or(usize::MAX),
                _ => 0,
            };
            self.count(1);
            self.add(
                self.open.len(),
                columns.min(usize::try_from(self.form.max_children()).unwrap_or(usize::MAX)),
            );
            return;
        }
        let mut line = self.name();
        let blocks: &dyn Blocks = self.out.as_ref().map_or(&Nowhere, |out| out.blocks);
        let described = describe::of(value, blocks, self.form.all);
        line.push(described.style.unwrap_or(Style::Plain), described.text);
        let depth = self.open.len();
        self.child(&line);
        if depth >= self.depth {
            return;
        }
        let indent = "  ".repeat(depth);
        let most = usize::try_from(self.form.max_children()).unwrap_or(usize::MAX);
        let count = described.columns.len();
        for (name, what) in described.columns.into_iter().take(most) {
            let mut column_line = TextLine::of(Style::Key, format!("{indent}{name}: "));
            column_line.push(Style::Type, what);
            self.line(&column_line, depth);
        }
        if count > most {
            self.line(&TextLine::of(Style::Plain, format!("{indent}… {} more", count - most)), depth);
        }
    }

    /// Writes the line of the next child of the open collection.
    fn child(&mut self, line: &TextLine) {
        let depth = self.open.len().saturating_sub(1);
        self.line(line, depth);
        self.next_child();
    }

    /// Counts the next child without its line.
    fn count(&mut self, lines: usize) {
        self.add(self.open.len().saturating_sub(1), lines);
        self.next_child();
    }

    fn add(&mut self, depth: usize, lines: usize) {
        if let Some(count) = self.lines.get_mut(depth) {
            *count = count.saturating_add(lines);
        }
    }

    fn line(&mut self, line: &TextLine, depth: usize) {
        self.add(depth, 1);
        if let Some(out) = &mut self.out
            && !out.lines.line(line, depth)
        {
            self.has_ended = true;
        }
    }

    /// Writes the line of the next child of the open collection, which is a collection itself.
    fn begin(&mut self, line: &TextLine) {
        let depth = self.open.len().saturating_sub(1);
        self.add(depth, 1);
        if let Some(out) = &mut self.out
            && !out.lines.begin(line, depth)
        {
            self.has_ended = true;
        }
        self.next_child();
    }

    fn next_child(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
            open.key = None;
        }
    }
}

/// Blocks that are not there.
struct Nowhere;

impl Blocks for Nowhere {
    fn block(&self, _: Option<usize>) -> Option<BlockSize> {
        None
    }
}
