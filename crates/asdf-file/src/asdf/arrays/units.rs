//! Units of arrays, from the quantities and other nodes around them.

use std::collections::HashMap;

use asdf_tree::limits::{MAX_ITEMS, MAX_NAME};
use asdf_tree::yaml::survey::{PathId, Paths, WantedNode};

use super::super::computed::Computed;
use super::super::units;
use super::super::view::{Collector, Surveyed, Unfit};
use super::node_paths::NodePaths;
use crate::folder::names;
use crate::folder::path_tree::{Id, PathTree};

/// A unit.
#[derive(Clone, Debug)]
pub struct ArrayUnit {
    /// In FITS notation, or as in the tree if FITS can't express it.
    pub text: String,
    pub is_in_fits: bool,
}

/// Units by the path of their array.
#[derive(Debug, Default)]
pub struct ArrayUnits {
    units: HashMap<Id, ArrayUnit>,
    /// The paths; `None` if there are no units.
    tree: Option<PathTree>,
}

impl ArrayUnits {
    /// Returns the unit of the array at a path, which may end with the number of a duplicate.
    pub fn of(&self, path: &[&str]) -> Option<&ArrayUnit> {
        let (last, dir) = path.split_last()?;
        let last = names::without_duplicate(last);
        self.units.get(&self.tree.as_ref()?.get(dir.iter().copied().chain([last]))?)
    }
}

/// A collector of units, each with the node that has it and the key of its array there.
#[derive(Debug, Default)]
pub(super) struct UnitFinder(Vec<(Option<PathId>, &'static str, ArrayUnit)>);

impl Collector for UnitFinder {
    fn on_node(&mut self, _: &Paths, node: &WantedNode<'_>, _: Unfit<'_>) {
        let Some(key) = node.tag.and_then(units::array_key) else { return };
        let of_array = node.value.get(key).is_some_and(|value| value.scalar_type().is_none());
        if !of_array || self.0.len() >= MAX_ITEMS {
            return;
        }
        let is_in_fits = units::of(node.value).is_some();
        let unit = units::of_any(node.value).filter(|text| text.len() <= MAX_NAME);
        self.0.extend(unit.map(|text| (node.path, key, ArrayUnit { text, is_in_fits })));
    }

    fn end(self: Box<Self>, surveyed: Option<&Surveyed<'_>>, computed: &Computed) {
        computed.get_or_compute(|| {
            let Some(Surveyed { survey, .. }) = surveyed.filter(|_| !self.0.is_empty()) else {
                return ArrayUnits::default();
            };
            let mut paths = NodePaths::of_arrays();
            let mut units = HashMap::new();
            for (path, key, unit) in self.0 {
                if let Some(id) = paths.of_value(&survey.paths, path, key) {
                    units.insert(id, unit);
                }
            }
            ArrayUnits { units, tree: Some(paths.tree) }
        });
    }
}
