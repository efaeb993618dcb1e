//! The places that anchors name, as JSON pointers, and which of them still lead to their node.
//!
//! Where a key comes again, readers of JSON see only its last value: a pointer below the first one would lead to
//! another node.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

/// The place of a node that an anchor names.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    /// The path, without `#`.
    pub(super) path: Arc<str>,
    id: u64,
}

/// All places so far that still lead to their node.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    places: BTreeMap<Arc<str>, Place>,
    next: u64,
}

#[derive(Debug)]
struct Place {
    id: u64,
    /// Whether a reference to it was written.
    is_mentioned: bool,
}

impl Pointers {
    /// Adds the place of a node.
    pub(super) fn add(&mut self, path: &str) -> Pointer {
        let pointer = Pointer { path: path.into(), id: self.next };
        self.next += 1;
        self.places.insert(pointer.path.clone(), Place { id: pointer.id, is_mentioned: false });
        pointer
    }

    /// Notes that a reference is written; whether it leads to the node.
    pub(super) fn mention(&mut self, pointer: &Pointer) -> bool {
        let place = self.places.get_mut(&pointer.path).filter(|place| place.id == pointer.id);
        place.map(|place| place.is_mentioned = true).is_some()
    }

    /// Notes that another value comes at a path; whether no reference leads there or below.
    pub(super) fn replace(&mut self, path: &str) -> bool {
        if self.places.is_empty() {
            return true;
        }
        let (first, end) = (format!("{path}/"), format!("{path}0"));
        let below = self.places.range::<str, _>((Included(&*first), Excluded(&*end)));
        let gone: Vec<Arc<str>> = below
            .map(|(path, _)| path)
            .chain(self.places.get_key_value(path).map(|(path, _)| path))
            .cloned()
            .collect();
        gone.iter().all(|path| self.places.remove(path).is_none_or(|place| !place.is_mentioned))
    }
}
