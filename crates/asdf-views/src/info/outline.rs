//! The tree as an outline: a line a key, collections indented below theirs, down to a depth.

use std::sync::Arc;

use asdf_tree::product::kind_of_tag;
use asdf_tree::yaml::document::{Document, Id, Kind};
use seekable::error::one_line;

use super::InfoForm;
use super::describe::{self, BlockSize, Blocks, is_whole};
use super::line::{Style, TextLine};
use super::value::{NodeValue, ValueKind};

/// The depths whose lines are counted to find the depth that fits on the screen.
const MAX_DEPTH: usize = 16;
/// Keys of the root about the program that wrote the file. They are shown on one line each.
const ABOUT_WRITER: [&str; 2] = ["history", "asdf_library"];

/// Passes the lines of a tree on.
pub(super) struct Outline<'o> {
    form: InfoForm,
    /// The depth of the last lines.
    depth: usize,
    /// `None` while lines are only counted.
    out: Option<Output<'o>>,
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

impl<'o> Outline<'o> {
    /// Creates an outline that only counts its lines.
    pub(super) fn counted(form: InfoForm) -> Self {
        Self { form, depth: MAX_DEPTH, out: None, lines: [0; MAX_DEPTH], has_ended: false }
    }

    /// Creates an outline that passes its lines to `lines`.
    pub(super) fn shown(
        form: InfoForm,
        depth: usize,
        blocks: &'o dyn Blocks,
        lines: &'o mut dyn OutlineSink,
    ) -> Self {
        Self { depth: depth.max(1), out: Some(Output { blocks, lines }), ..Self::counted(form) }
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

    /// Passes the lines of a tree on.
    pub(super) fn take(&mut self, document: &Arc<Document>) {
        if let Some(root) = document.root() {
            self.node(document, root, "", 0);
        }
    }

    /// Takes a node in `depth` collections, with its key or its number.
    fn node(&mut self, document: &Arc<Document>, id: Id, name: &str, depth: usize) {
        let kind = document.tag(id).and_then(kind_of_tag);
        let is_collapsed = depth >= self.depth
            || kind.is_some_and(is_whole)
            || (depth == 1 && !self.form.all && ABOUT_WRITER.contains(&name));
        let first = document.next_child(id, None).map(|first| document.kind(first));
        let is_expanded = match document.kind(id) {
            Kind::Mapping => !is_collapsed || depth == 0,
            Kind::Sequence => (!is_collapsed || depth == 0) && first == Some(Kind::Mapping),
            _ => false,
        };
        if is_expanded {
            if depth > 0 {
                let mut line = title(name, depth);
                if let Some(kind) = kind {
                    line.push(Style::Type, one_line(kind));
                }
                self.begin(&line, depth - 1);
            }
            self.children(document, id, depth);
        } else if !document.is_unfinished(id) {
            self.value(&NodeValue::new(document, id, self.form.all), name, depth);
        }
    }

    /// Takes what is in a collection whose line is written.
    fn children(&mut self, document: &Arc<Document>, id: Id, depth: usize) {
        let most = self.form.max_children();
        let mut count = 0;
        if document.kind(id) == Kind::Mapping {
            for (key, value) in document.members(id) {
                let is_scalar = matches!(document.kind(key), Kind::Scalar(_));
                // A key that is a collection or an alias: its value is shown without it.
                let name = if is_scalar { document.text(key) } else { "…" };
                count += 1;
                if self.has_ended || count > most {
                    break;
                }
                self.node(document, value, name, depth + 1);
            }
        } else {
            // The function never fails.
            let _ = document.each_item(id, &mut |document, item| {
                count += 1;
                if !self.has_ended && count <= most {
                    self.node(document, item, &format!("[{}]", count - 1), depth + 1);
                }
                Ok(!self.has_ended && count <= most)
            });
        }
        if count > most && !self.has_ended {
            let indent = "  ".repeat(depth);
            let more = document.count(id) - most;
            self.line(&TextLine::of(Style::Plain, format!("{indent}… {more} more")), depth);
        }
        if depth > 0
            && let Some(out) = &mut self.out
        {
            out.lines.end();
        }
    }

    /// Takes a node that is shown on a line of its own.
    fn value(&mut self, value: &NodeValue, name: &str, depth: usize) {
        if self.out.is_none() {
            // The columns of a table have a line each.
            let columns = value.get("columns").filter(|columns| columns.what() == ValueKind::Sequence);
            let columns = columns.map_or(0, |columns| columns.count().min(self.form.max_children()));
            self.add(depth.saturating_sub(1), 1);
            self.add(depth, usize::try_from(columns).unwrap_or(usize::MAX));
            return;
        }
        let mut line = title(name, depth);
        let blocks: &dyn Blocks = self.out.as_ref().map_or(&Nowhere, |out| out.blocks);
        let described = describe::of(value, blocks, self.form.all);
        line.push(described.style.unwrap_or(Style::Plain), described.text);
        self.line(&line, depth.saturating_sub(1));
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

    /// Writes the line of a collection.
    fn begin(&mut self, line: &TextLine, depth: usize) {
        self.add(depth, 1);
        if let Some(out) = &mut self.out
            && !out.lines.begin(line, depth)
        {
            self.has_ended = true;
        }
    }
}

/// Returns the start of the line of a node in `depth` collections.
fn title(name: &str, depth: usize) -> TextLine {
    match depth.checked_sub(1) {
        Some(indent) => TextLine::of(Style::Key, format!("{}{}: ", "  ".repeat(indent), one_line(name))),
        None => TextLine::default(),
    }
}

/// Blocks that are not there.
struct Nowhere;

impl Blocks for Nowhere {
    fn block(&self, _: Option<usize>) -> Option<BlockSize> {
        None
    }
}
