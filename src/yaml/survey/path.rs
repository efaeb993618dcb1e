//! Where nodes are in the tree: paths that share their beginnings.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One step down from a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To the value of this key of a mapping.
    Key(Box<str>),
    /// To this item of a sequence, from 0.
    Item(u64),
}

/// A path of a [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(u32);

impl PathId {
    /// Returns its number: paths are counted as they are made.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Paths from the root of a tree; those that were asked for, and what they begin with.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The last step of each path, and the path before it.
    steps: Vec<(Option<PathId>, Step)>,
}

/// Bytes of a path that are shown, roughly.
const LONGEST_SHOWN: usize = 3000;

/// The path of the root, which has no steps.
pub const ROOT: Option<PathId> = None;

impl Paths {
    /// Makes the path that goes one step on from `parent`; `None` if there are too many.
    pub(super) fn add(&mut self, parent: Option<PathId>, step: Step) -> Option<PathId> {
        let id = PathId(u32::try_from(self.steps.len()).ok()?);
        self.steps.push((parent, step));
        Some(id)
    }

    /// The path without its last step, and that step; `None` for the root.
    pub fn last(&self, path: Option<PathId>) -> Option<(Option<PathId>, &Step)> {
        let (parent, step) = self.steps.get(path?.0 as usize)?;
        Some((*parent, step))
    }

    /// The steps of a path, from the root on.
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

    /// The same number for the same path of another text. `exactly`, or else taking all items of a
    /// sequence for the same: another item before it does not make it another then.
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

    /// The path in words: `meta/items/3`; `the root` for no steps. Of a long one the end.
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
