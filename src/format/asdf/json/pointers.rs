//! JSON pointers to the nodes with anchors, as long as they are valid.
//!
//! If a key is repeated, readers of JSON see only its last value. A pointer into the first value would then
//! lead to another node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

/// Returns a key as it stands in a pointer (RFC 6901, section 3).
pub(super) fn in_pointer(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) {
        Cow::Owned(key.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(key)
    }
}

/// The JSON pointer to a node with an anchor.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    /// The path, without `#`.
    pub(super) path: Arc<str>,
    /// A number that differs for each node with an anchor.
    pub(super) id: u64,
}

/// The JSON pointers that still lead to their nodes.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    places: BTreeMap<Arc<str>, NodePlace>,
    next: u64,
}

#[derive(Debug)]
struct NodePlace {
    id: u64,
    /// True if a reference to the node has been written.
    is_mentioned: bool,
}

impl Pointers {
    /// Adds the path of a node.
    pub(super) fn add(&mut self, path: &str) -> Pointer {
        let pointer = Pointer { path: path.into(), id: self.next };
        self.next += 1;
        self.places.insert(pointer.path.clone(), NodePlace { id: pointer.id, is_mentioned: false });
        pointer
    }

    /// True if there is a node at a path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// True if a pointer still leads to its node.
    pub(super) fn is_valid(&self, pointer: &Pointer) -> bool {
        self.places.get(&pointer.path).is_some_and(|place| place.id == pointer.id)
    }

    /// Records that a reference with `pointer` is written. False if `pointer` no longer leads to its node.
    pub(super) fn mention(&mut self, pointer: &Pointer) -> bool {
        let place = self.places.get_mut(&pointer.path).filter(|place| place.id == pointer.id);
        place.map(|place| place.is_mentioned = true).is_some()
    }

    /// Records that a path gets another value. Returns the IDs of the nodes there and below to which a reference leads.
    pub(super) fn replace(&mut self, path: &str) -> Vec<u64> {
        if self.places.is_empty() {
            return Vec::new();
        }
        let first = format!("{path}/");
        let end = format!("{path}0");
        let below = self.places.range::<str, _>((Included(&*first), Excluded(&*end)));
        let gone: Vec<Arc<str>> = below
            .map(|(known, _)| known)
            .chain(self.places.get_key_value(path).map(|(known, _)| known))
            .cloned()
            .collect();
        let removed = gone.iter().filter_map(|known| self.places.remove(known));
        removed.filter(|place| place.is_mentioned).map(|place| place.id).collect()
    }
}
