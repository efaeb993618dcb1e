//! Collects the nodes that only `fits/` needs: descriptions of FITS files, world coordinates with their
//! arrays, and units of quantities.

use std::collections::HashMap;
use std::sync::Arc;

use super::document::{self, Document};
use super::wcs::{self, Wcs};
use crate::content::names;
use crate::content::path_tree::{Id, PathTree};
use crate::content::shared_path::SharedPath;
use crate::format::asdf::arrays::NodePaths;
use crate::format::asdf::computed::Computed;
use crate::format::asdf::ndarray::Ndarray;
use crate::format::asdf::units;
use crate::format::asdf::view::{Collector, Surveyed, Unfit};
use crate::format::{Defect, Severity};
use crate::yaml::event::Mark;
use crate::yaml::survey::{Alias, PathId, Paths, Survey, TreeNode, WantedNode};

/// Maximum total size of all described FITS files, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of omissions that are reported.
const MAX_DEFECTS: usize = 100;
/// Maximum number of units.
const MAX_UNITS: usize = 1 << 17;

/// True if the view wants nodes with this tag.
pub(super) fn is_tag(tag: &str) -> bool {
    document::is_tag(tag) || wcs::is_tag(tag) || units::array_key(tag).is_some()
}

/// All nodes found for `fits/`.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Described FITS files and their paths.
    pub(super) documents: Vec<(SharedPath, Arc<Document>)>,
    /// Paths of the aliases of a document, with the number of the document.
    pub(super) mentions: Vec<(SharedPath, usize)>,
    /// World coordinates by the path of their array.
    pub(super) solutions: HashMap<Id, Arc<Wcs>>,
    /// Units by the path of their array.
    units: HashMap<Id, String>,
    /// The paths in `solutions` and `units`; `None` if there are none.
    tree: Option<PathTree>,
    /// Notes on omitted nodes.
    pub(super) defects: Vec<Defect>,
}

impl Nodes {
    /// Returns world coordinates and unit of the array at a path, which may end with the number of a
    /// duplicate.
    pub(super) fn of_array(&self, path: &[&str]) -> (Option<&Arc<Wcs>>, Option<&str>) {
        let Some((last, dir)) = path.split_last() else { return (None, None) };
        let last = names::without_duplicate(last);
        let id = self.tree.as_ref().and_then(|tree| tree.get(dir.iter().copied().chain([last])));
        let unit = id.and_then(|id| self.units.get(&id));
        (id.and_then(|id| self.solutions.get(&id)), unit.map(String::as_str))
    }
}

/// A collector of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeFinder {
    documents: Vec<(Option<PathId>, Arc<Document>)>,
    solutions: Vec<(Option<PathId>, Option<Arc<Wcs>>)>,
    /// Units, each with the node that has it and the key of its array there.
    units: Vec<(Option<PathId>, &'static str, String)>,
    /// Total size of `documents`, in bytes.
    kept: usize,
    /// Arrays of the last document whose keys stand beside a `data` that is only a tag, each with the place
    /// of the tag.
    bare: Vec<(Mark, Ndarray)>,
    defects: Vec<Defect>,
}

impl Collector for NodeFinder {
    fn take(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        let taken = self.take_node(node.tag.unwrap_or_default(), node.path, node.value, unfit);
        if let (Err(why), true) = (taken, self.defects.len() < MAX_DEFECTS) {
            let Mark { offset, line, .. } = node.value.place;
            let what = format!("line {line}: fits/ leaves out {}: {why}", paths.show(node.path));
            self.defects.push(Defect { severity: Severity::Note, offset, block: None, what });
        }
    }

    fn bare_arrays(&mut self) -> Vec<(Mark, Ndarray)> {
        std::mem::take(&mut self.bare)
    }

    fn end(self: Box<Self>, surveyed: Option<&Surveyed<'_>>, computed: &Computed) {
        computed.get_or_compute(|| self.found(surveyed));
    }
}

impl NodeFinder {
    /// Takes a node, or returns the reason why it is left out.
    fn take_node(
        &mut self,
        tag: &str,
        path: Option<PathId>,
        node: &TreeNode,
        unfit: Unfit<'_>,
    ) -> Result<(), String> {
        if wcs::is_tag(tag) {
            self.solutions.push((path, Wcs::read(node).map(Arc::new)));
            return Ok(());
        }
        if let Some(key) = units::array_key(tag) {
            let of_array = node.get(key).is_some_and(|value| value.scalar_type().is_none());
            let unit = units::of(node).filter(|_| of_array && self.units.len() < MAX_UNITS);
            self.units.extend(unit.map(|unit| (path, key, unit)));
            return Ok(());
        }
        let document = Document::read(node)?;
        if let Some(why) = document.arrays().into_iter().find_map(unfit) {
            return Err(format!("in an array of its data, {why}"));
        }
        self.kept = self.kept.saturating_add(document.size);
        if self.kept > MAX_BYTES {
            return Err("all such nodes are longer than 16 MiB together".to_owned());
        }
        self.bare = document.bare();
        self.documents.push((path, Arc::new(document)));
        Ok(())
    }

    /// Returns all nodes found.
    fn found(mut self, surveyed: Option<&Surveyed<'_>>) -> Nodes {
        let defects = std::mem::take(&mut self.defects);
        let Some(Surveyed { survey, arrays, .. }) = surveyed else {
            return Nodes { defects, ..Nodes::default() };
        };
        let mut paths = NodePaths::of_arrays();
        let solutions = self.matched(survey, arrays, &mut paths);
        let mut nodes = Nodes { solutions, defects, ..Nodes::default() };
        for (path, key, unit) in std::mem::take(&mut self.units) {
            if let Some(id) = paths.of_value(&survey.paths, path, key) {
                nodes.units.insert(id, unit);
            }
        }
        let places: Vec<_> = self.documents.iter().map(|(path, _)| paths.of(&survey.paths, *path)).collect();
        for (from, n) in mentions(survey, &places, &mut paths) {
            nodes.mentions.push((paths.tree.shared(from), n));
        }
        for ((_, document), place) in self.documents.into_iter().zip(places) {
            nodes.documents.extend(place.map(|place| (paths.tree.shared(place), document)));
        }
        let is_needed = !nodes.solutions.is_empty() || !nodes.units.is_empty();
        nodes.tree = is_needed.then_some(paths.tree);
        nodes
    }

    /// Returns the world coordinates of each array for which they are unambiguous.
    fn matched(
        &self,
        survey: &Survey,
        arrays: &[(Option<PathId>, &Ndarray)],
        paths: &mut NodePaths,
    ) -> HashMap<Id, Arc<Wcs>> {
        if self.solutions.is_empty() {
            return HashMap::new();
        }
        // The owner of world coordinates is the mapping that has them under `wcs`, directly or in its `meta`.
        let mut owners: HashMap<Id, Vec<Option<&Arc<Wcs>>>> = HashMap::new();
        let places: Vec<_> = self.solutions.iter().map(|(path, _)| paths.of(&survey.paths, *path)).collect();
        let mut all = mentions(survey, &places, paths);
        all.extend(places.into_iter().enumerate().filter_map(|(n, place)| Some((place?, n))));
        for (place, n) in all {
            let Some(owner) = above(&paths.tree, place, "wcs") else { continue };
            let owner = above(&paths.tree, owner, "meta").unwrap_or(owner);
            owners.entry(owner).or_default().push(self.solutions[n].1.as_ref());
        }
        let mut of_owners: HashMap<Id, Candidates<'_>> = HashMap::new();
        let aliases = survey.aliases.iter().map(|alias| (alias.path, None));
        for (path, array) in arrays.iter().map(|(path, array)| (*path, Some(*array))).chain(aliases) {
            let Some(place) = paths.of(&survey.paths, path) else { continue };
            let mut at = |named: Id, is_other: bool| {
                let Some(owner) = paths.tree.parent(named).filter(|owner| owners.contains_key(owner)) else {
                    return;
                };
                let all = of_owners.entry(owner).or_default();
                match paths.tree.component(named) {
                    "data" => all.data.push((place, array)),
                    name => {
                        if COMPANIONS.contains(&name) {
                            all.companions.push((place, array));
                        }
                        if is_other {
                            all.others.push((place, array));
                        }
                    }
                }
            };
            at(place, true);
            // The array of a quantity is under `value`, that of an uncertainty under `array`.
            if let Some(quantity) = above(&paths.tree, place, "value") {
                at(quantity, false);
            }
            let uncertainty = above(&paths.tree, place, "array");
            if let Some(named) = uncertainty.filter(|named| paths.tree.component(*named) == "uncertainty") {
                at(named, false);
            }
        }
        let mut matched = HashMap::new();
        for (owner, candidates) in &of_owners {
            let [Some(wcs)] = owners[owner][..] else { continue };
            let Some((place, [y, x])) = candidates.only_image(wcs) else { continue };
            matched.insert(place, wcs.clone());
            let of_data = candidates.companions.iter().filter(|_| !candidates.data.is_empty());
            for (place, array) in of_data {
                if array.and_then(plane) == Some([y, x]) {
                    matched.insert(*place, wcs.clone());
                }
            }
        }
        matched
    }
}

/// Returns the parent of a node if the node is the value of `key`.
fn above(tree: &PathTree, place: Id, key: &str) -> Option<Id> {
    tree.parent(place).filter(|_| tree.component(place) == key)
}

/// Names of arrays that share the pixels of a `data` array beside them, if they have its shape.
const COMPANIONS: [&str; 10] =
    ["dq", "err", "mask", "uncertainty", "var_flat", "var_poisson", "var_rnoise", "var_sky", "weight", "wht"];

/// Arrays beside world coordinates: those named `data`, its possible companions, and all except `data`. An
/// alias has `None` in place of the array.
#[derive(Default)]
struct Candidates<'c> {
    data: Vec<(Id, Option<&'c Ndarray>)>,
    companions: Vec<(Id, Option<&'c Ndarray>)>,
    others: Vec<(Id, Option<&'c Ndarray>)>,
}

impl Candidates<'_> {
    /// Returns the image that the world coordinates are for, with its shape: `data`, or else the only image.
    fn only_image(&self, wcs: &Wcs) -> Option<(Id, [u64; 2])> {
        let is_plane = |array: &Ndarray| dimensions(array) >= 2;
        let (place, array) = match &self.data[..] {
            [(place, Some(array))] => (*place, *array),
            [] => {
                let mut images = self.others.iter().filter(|(_, array)| array.is_none_or(is_plane));
                match (images.next(), images.next()) {
                    (Some((place, Some(array))), None) => (*place, *array),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let [y, x] = plane(array)?;
        wcs.pixels.is_none_or(|pixels| pixels == [x, y]).then_some((place, [y, x]))
    }
}

/// Returns the shape of an array with two dimensions.
fn plane(array: &Ndarray) -> Option<[u64; 2]> {
    let shape = array.shape.as_ref().filter(|shape| !shape.streamed)?;
    shape.dimensions[..].try_into().ok()
}

fn dimensions(array: &Ndarray) -> usize {
    array.shape.as_ref().map_or(0, |shape| shape.dimensions.len() + usize::from(shape.streamed))
}

/// Returns the paths of the aliases of these places, with the number of the place.
fn mentions(survey: &Survey, places: &[Option<Id>], paths: &mut NodePaths) -> Vec<(Id, usize)> {
    let numbers: HashMap<Id, usize> =
        places.iter().enumerate().filter_map(|(n, place)| Some(((*place)?, n))).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let mention = |alias: &Alias| {
        let target = paths.of(&survey.paths, alias.target)?;
        Some((*numbers.get(&target)?, alias.path))
    };
    let found: Vec<_> = survey.aliases.iter().filter_map(mention).collect();
    found.into_iter().filter_map(|(n, path)| Some((paths.of(&survey.paths, path)?, n))).collect()
}
