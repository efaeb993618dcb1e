//! The scalars of a tree, each with its path.

use std::fmt::Write;

use crate::error::Result;
use crate::format::Container;
use crate::yaml::event::{Event, What};
use crate::yaml::read::each_event;
use crate::yaml::survey::Commented;

/// Passes each scalar of the tree to `take`: its path, `meta.instrument.name` or `steps[2].name`, and its text.
///
/// # Errors
/// The tree can't be read or is not valid, or `take` fails.
pub(crate) fn each_leaf(
    container: &dyn Container,
    take: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let mut leaves = Leaves::new(take);
    each_event(&Commented(&*container.tree_to_show()?), |event| -> Result<bool> {
        leaves.take(event)?;
        Ok(true)
    })
}

/// Takes the events of a tree, and passes its scalars on.
pub(super) struct Leaves<'t> {
    path: String,
    open: Vec<LeafLevel>,
    take: &'t mut dyn FnMut(&str, &str) -> Result<()>,
}

struct LeafLevel {
    is_mapping: bool,
    expects_key: bool,
    /// Number of items so far.
    count: u64,
    /// Length of the path of the collection.
    len: usize,
    /// True if the collection is a key.
    is_key: bool,
}

impl<'t> Leaves<'t> {
    pub(super) fn new(take: &'t mut dyn FnMut(&str, &str) -> Result<()>) -> Self {
        Self { path: String::new(), open: Vec::new(), take }
    }

    pub(super) fn take(&mut self, event: &Event<'_>) -> Result<()> {
        match event.what {
            What::Scalar { value, .. } if self.expects_key() => self.key(value),
            What::Alias(name) if self.expects_key() => self.key(name),
            What::Scalar { value, .. } => {
                self.begin();
                if !self.open.iter().any(|open| open.is_key) {
                    (self.take)(&self.path, value)?;
                }
                self.end();
            }
            What::Alias(_) => self.end(),
            What::SequenceStart { .. } => self.open(false),
            What::MappingStart { .. } => self.open(true),
            What::SequenceEnd | What::MappingEnd => {
                let closed = self.open.pop();
                if closed.is_some_and(|closed| closed.is_key) { self.key("…") } else { self.end() }
            }
            _ => {}
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_mapping && open.expects_key)
    }

    fn key(&mut self, key: &str) {
        let Some(open) = self.open.last_mut() else { return };
        open.expects_key = false;
        self.path.truncate(open.len);
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    /// Adds the position of an item to the path.
    fn begin(&mut self) {
        if let Some(open) = self.open.last()
            && !open.is_mapping
        {
            self.path.truncate(open.len);
            // Writing to a String can't fail.
            let _ = write!(self.path, "[{}]", open.count);
        }
    }

    fn open(&mut self, is_mapping: bool) {
        let is_key = self.expects_key();
        self.begin();
        self.open.push(LeafLevel {
            is_mapping,
            expects_key: is_mapping,
            count: 0,
            len: self.path.len(),
            is_key,
        });
    }

    /// Ends a value.
    fn end(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
            open.expects_key = open.is_mapping;
        }
    }
}
