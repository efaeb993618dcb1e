//! Paths of nodes in the tree. They share their common prefixes in memory.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A step from a node to a child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The value of this key in a mapping.
    Key(Box<str>),
    /// This item of a sequence, from 0.
    Item(u64),
}

/// A path in a [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(u32);

impl PathId {
    /// Returns the path's index: paths are numbered in the order of their creation.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Paths from the root of a tree: those that were requested, and all their prefixes.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Last step of each path, and the path without it.
    steps: Vec<(Option<PathId>, Step)>,
}

/// Approximate maximum length in bytes of a path in a message.
const LONGEST_SHOWN: usize = 3000;

/// The path of the root, which has no steps.
pub const ROOT: Option<PathId> = None;

impl Paths {
    /// Adds the path that extends `parent` by one step; `None` if there are too many paths.
    pub(super) fn add(&mut self, parent: Option<PathId>, step: Step) -> Option<PathId> {
        let id = PathId(u32::try_from(self.steps.len()).ok()?);
        self.steps.push((parent, step));
        Some(id)
    }

    /// Returns the path without its last step, and that step; `None` for the root.
    pub fn last(&self, path: Option<PathId>) -> Option<(Option<PathId>, &Step)> {
        let (parent, step) = self.steps.get(path?.0 as usize)?;
        Some((*parent, step))
    }

    /// Returns the steps of a path, from the root on.
    pub fn steps(&self, path: Option<PathId>) -> Vec<&Step> {
        let mut steps = Vec::new();
        let mut at = path;
        while let Some((parent, step)) = at.and_then(|id| self.steps.get(id.0 as usize)) {
            steps.push(step);
            at = *parent;
        }
        steps.reverse();
        steps
    }

    /// Returns a hash that is equal for the same path in another text. Unless `exactly` is true, all items of
    /// a sequence count as the same, so that an item inserted before does not change the hash.
    pub fn identity(&self, path: Option<PathId>, exactly: bool) -> u64 {
        let mut hasher = DefaultHasher::new();
        for step in self.steps(path) {
            match step {
                Step::Key(key) => key.hash(&mut hasher),
                Step::Item(n) => (*n * u64::from(exactly)).hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// Returns the path as text: `meta/items/3`; `the root` for no steps. Of a long path, returns the end.
    pub fn show(&self, path: Option<PathId>) -> String {
        let (mut steps, mut len, mut at) = (Vec::new(), 0, path);
        while let Some((parent, step)) = self.last(at) {
            if len > LONGEST_SHOWN {
                steps.push("…".to_owned());
                break;
            }
            let text = match step {
                Step::Key(key) if key.len() > LONGEST_SHOWN => {
                    let from = key.char_indices().rev().nth(LONGEST_SHOWN / 4).map_or(0, |(at, _)| at);
                    format!("…{}", key[from..].escape_debug())
                }
                step => step.to_string(),
            };
            len += text.len() + 1;
            steps.push(text);
            at = parent;
        }
        steps.reverse();
        if steps.is_empty() { "the root".to_owned() } else { steps.join("/") }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(out, "{}", key.escape_debug()),
            Self::Item(n) => write!(out, "{n}"),
        }
    }
}
