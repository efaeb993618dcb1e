//! The walk over a document that writes its JSON, in pieces.

use asdf_tree::yaml::document::{Id, Kind, RunEvent};
use asdf_tree::yaml::event::Style;
use seekable::error::Result;

use super::members::target;
use super::output::JsonOutput;
use super::pointers::Pointers;
use super::{Tree, scalar};

/// Number of bytes after which a piece ends.
const PIECE: usize = 32 << 10;

/// A place in the document, from which on the JSON is still to be written.
#[derive(Debug, Default)]
pub(super) struct Walk {
    has_begun: bool,
    /// The open collections.
    levels: Vec<Level>,
    /// The number of open mappings.
    depth: usize,
    pointers: Pointers,
}

/// An open collection.
#[derive(Debug)]
struct Level {
    id: Id,
    is_mapping: bool,
    /// The last item, or the last value.
    last: Option<Id>,
    /// A run of which not all pieces are written, and the next piece.
    run: Option<(Id, usize)>,
    /// The place of the next member among those that merge keys bring.
    merged: usize,
    /// True until an item or a member is written.
    is_empty: bool,
}

impl Walk {
    /// Writes the next piece of the JSON to each output. False at the end.
    ///
    /// # Errors
    ///
    /// An alias without an anchor.
    pub(super) fn more(&mut self, tree: &Tree, outputs: &mut [JsonOutput]) -> Result<bool> {
        let begun = outputs.first().map_or(0, |output| output.bytes.len());
        loop {
            if !self.step(tree, outputs)? {
                for output in outputs {
                    output.finish();
                }
                return Ok(false);
            }
            if outputs.first().is_none_or(|output| output.bytes.len() - begun >= PIECE) {
                return Ok(true);
            }
        }
    }

    /// Writes the next node. False if there is none.
    fn step(&mut self, tree: &Tree, outputs: &mut [JsonOutput]) -> Result<bool> {
        let Some(level) = self.levels.last_mut() else {
            if self.has_begun {
                return Ok(false);
            }
            self.has_begun = true;
            match tree.document.root() {
                Some(root) => self.value(tree, root, outputs)?,
                None => {
                    for output in outputs {
                        output.open(true, None);
                        output.close(true, false);
                    }
                }
            }
            return Ok(true);
        };
        if level.is_mapping {
            self.next_member(tree, outputs)?;
        } else if let Some((run, piece)) = level.run {
            level.run = (piece + 1 < tree.document.piece_count(run)).then_some((run, piece + 1));
            write_piece(tree, run, piece, &mut level.is_empty, outputs)?;
        } else if let Some(item) = tree.document.next_child(level.id, level.last) {
            level.last = Some(item);
            if tree.document.kind(item) == Kind::ScalarRun {
                level.run = Some((item, 0));
                return Ok(true);
            }
            let is_first = std::mem::replace(&mut level.is_empty, false);
            for output in &mut *outputs {
                output.item(is_first);
            }
            self.value(tree, item, outputs)?;
        } else {
            self.end(tree, outputs);
        }
        Ok(true)
    }

    /// Writes the next member of the innermost collection, or ends it.
    fn next_member(&mut self, tree: &Tree, outputs: &mut [JsonOutput]) -> Result<()> {
        let document = &tree.document;
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let key = document.next_child(level.id, level.last);
        let pair = key.and_then(|key| Some((key, document.next_child(level.id, Some(key))?)));
        let (key, value, is_mentioned) = if let Some((key, value)) = pair {
            level.last = Some(value);
            let Some(value) = tree.members.shown(document, key, value) else { return Ok(()) };
            (key, value, false)
        } else if let Some((member, next)) = tree.members.merged(level.id, level.merged) {
            level.merged = next;
            (member.key, member.value, member.is_mentioned)
        } else {
            self.end(tree, outputs);
            return Ok(());
        };
        let is_first = std::mem::replace(&mut level.is_empty, false);
        let name = tree.members.name(document, key)?;
        for output in &mut *outputs {
            output.member(&name, is_first, self.depth);
        }
        if is_mentioned && document.kind(value) != Kind::Alias {
            mention(tree, &mut self.pointers, value, None, outputs)
        } else {
            self.value(tree, value, outputs)
        }
    }

    /// Writes a node, or begins a collection.
    fn value(&mut self, tree: &Tree, id: Id, outputs: &mut [JsonOutput]) -> Result<()> {
        let document = &tree.document;
        let tag = document.tag(id);
        match document.kind(id) {
            Kind::Alias => mention(tree, &mut self.pointers, target(document, id)?, Some(id), outputs),
            Kind::Scalar(style) => {
                let json = scalar::of(document.text(id), style, tag);
                for output in outputs {
                    output.scalar(&json, tag);
                }
                Ok(())
            }
            kind => {
                let is_mapping = kind == Kind::Mapping;
                for output in outputs {
                    output.open(is_mapping, tag);
                }
                self.depth += usize::from(is_mapping);
                self.levels.push(Level { id, is_mapping, last: None, run: None, merged: 0, is_empty: true });
                Ok(())
            }
        }
    }

    /// Ends the innermost collection.
    fn end(&mut self, tree: &Tree, outputs: &mut [JsonOutput]) {
        let Some(level) = self.levels.pop() else { return };
        self.depth -= usize::from(level.is_mapping);
        let has_tag = tree.document.tag(level.id).is_some();
        for output in outputs {
            if level.is_mapping && !level.is_empty {
                output.new_line(self.depth);
            }
            output.close(level.is_mapping, has_tag);
        }
    }
}

/// Writes a piece of a run.
fn write_piece(
    tree: &Tree,
    run: Id,
    piece: usize,
    is_empty: &mut bool,
    outputs: &mut [JsonOutput],
) -> Result<()> {
    tree.document.read_piece(run, piece, |event| {
        let is_first = std::mem::replace(is_empty, event == RunEvent::SequenceStart);
        match event {
            RunEvent::Scalar(text) => {
                let json = scalar::of(text, Style::Plain, None);
                for output in &mut *outputs {
                    output.item(is_first);
                    output.scalar(&json, None);
                }
            }
            RunEvent::SequenceStart => {
                for output in &mut *outputs {
                    output.item(is_first);
                    output.open(false, None);
                }
            }
            RunEvent::SequenceEnd => {
                for output in &mut *outputs {
                    output.close(false, false);
                }
            }
        }
        Ok(())
    })
}

/// Writes a copy of a short scalar, or a reference to any other node. `alias` is the alias that stands for the node;
/// `None` if a merge key brings it.
fn mention(
    tree: &Tree,
    pointers: &mut Pointers,
    node: Id,
    alias: Option<Id>,
    outputs: &mut [JsonOutput],
) -> Result<()> {
    let document = &tree.document;
    let tag = document.tag(node);
    let json = match document.kind(node) {
        Kind::Scalar(style) => Some(scalar::of(document.text(node), style, tag)),
        _ => None,
    };
    for output in outputs {
        if json.as_ref().is_some_and(|json| output.short_scalar(json, tag)) {
            continue;
        }
        let pointer = pointers.get(tree, node, output.max_pointer())?;
        output.refer(pointer.as_deref().map_err(|why| *why), alias);
    }
    Ok(())
}
