//! Paths of nodes in the tree, which share their prefixes.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::limits::MAX_NAME;

/// A step from a collection to one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The value of this key of a mapping.
    Key(Box<str>),
    /// This item of a sequence, from 0.
    Item(u64),
}

/// The number of a path in [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(u32);

impl PathId {
    /// Returns the number of the path. Paths are numbered as they are made.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Paths from the root of a tree: all requested paths and their prefixes.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The last step of each path, and the path without that step.
    steps: Vec<(Option<PathId>, Step)>,
}

/// The path of the root, which has no steps.
pub const ROOT: Option<PathId> = None;

impl Paths {
    /// Adds a step to a path; `None` if there are too many paths.
    pub(crate) fn add(&mut self, parent: Option<PathId>, step: Step) -> Option<PathId> {
        let id = PathId(u32::try_from(self.steps.len()).ok()?);
        self.steps.push((parent, step));
        Some(id)
    }

    /// Returns the path without its last step, and that step; `None` for the root.
    pub fn last(&self, path: Option<PathId>) -> Option<(Option<PathId>, &Step)> {
        let (parent, step) = self.steps.get(path?.0 as usize)?;
        Some((*parent, step))
    }

    /// Iterates over all paths, each with its parent, which comes before it.
    pub fn parents(&self) -> impl Iterator<Item = (PathId, Option<PathId>)> {
        (0_u32..).map(PathId).zip(self.steps.iter().map(|(parent, _)| *parent))
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

    /// Returns a number that is equal for the same path of another text. Unless `exactly` is true, all items
    /// of a sequence are equal, so that an inserted item does not change the numbers of later ones.
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

    /// Formats a path for messages, such as `meta/items/3`; `the root` if it has no steps. Of a long path
    /// only the end is shown.
    pub fn show(&self, path: Option<PathId>) -> String {
        let mut steps = Vec::new();
        let mut len = 0;
        let mut at = path;
        while let Some((parent, step)) = self.last(at) {
            if len > MAX_NAME {
                steps.push("…".to_owned());
                break;
            }
            let text = match step {
                Step::Key(key) if key.len() > MAX_NAME => {
                    let from = key.char_indices().rev().nth(MAX_NAME / 4).map_or(0, |(byte, _)| byte);
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
