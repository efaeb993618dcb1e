//! Collects the nodes that only `fits/` needs: descriptions of FITS files, world coordinates with their
//! arrays, and units of quantities.

use std::collections::HashMap;
use std::sync::Arc;

use super::document::{self, Document};
use super::wcs::{self, Wcs};
use crate::format::asdf::arrays::components;
use crate::format::asdf::computed::Computed;
use crate::format::asdf::ndarray::Ndarray;
use crate::format::asdf::units;
use crate::format::asdf::view::{Collector, Surveyed, Unfit};
use crate::format::{Defect, Severity};
use crate::yaml::event::Mark;
use crate::yaml::survey::{PathId, Paths, Step, Survey, TreeNode, WantedNode};

/// Maximal total size of all described FITS files, in bytes.
const MOST: usize = 16 << 20;
/// Maximal number of omissions that are reported.
const MOST_DEFECTS: usize = 100;
/// Maximal number of units of quantities.
const MOST_UNITS: usize = 1 << 17;

/// True if the view wants nodes with this tag.
pub(super) fn is_tag(tag: &str) -> bool {
    document::is_tag(tag) || wcs::is_tag(tag) || units::is_quantity(tag)
}

/// All nodes found for `fits/`.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Described FITS files and their paths.
    pub(super) documents: Vec<(Vec<String>, Arc<Document>)>,
    /// Paths that mention a document again by its anchor, with the number of the document.
    pub(super) mentions: Vec<(Vec<String>, usize)>,
    /// World coordinates by the path of their array.
    pub(super) solutions: HashMap<Vec<String>, Arc<Wcs>>,
    /// Units of quantities by the path of their array.
    pub(super) units: HashMap<Vec<String>, String>,
    /// Notes on omitted nodes.
    pub(super) defects: Vec<Defect>,
}

/// A collector of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeFinder {
    documents: Vec<(Option<PathId>, Arc<Document>)>,
    solutions: Vec<(Option<PathId>, Option<Arc<Wcs>>)>,
    /// Units of quantities.
    units: Vec<(Option<PathId>, String)>,
    /// Total size of `documents`, in bytes.
    kept: usize,
    /// Arrays of the last document with a `data` that is only a tag, each with the place of that tag.
    bare: Vec<(Mark, Ndarray)>,
    defects: Vec<Defect>,
}

impl Collector for NodeFinder {
    fn take(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        let taken = self.take_node(node.tag.unwrap_or_default(), node.path, node.value, unfit);
        if let (Err(why), true) = (taken, self.defects.len() < MOST_DEFECTS) {
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
        if units::is_quantity(tag) {
            let of_array = node.get("value").is_some_and(|value| value.scalar_type().is_none());
            let unit = units::of(node).filter(|_| of_array && self.units.len() < MOST_UNITS);
            self.units.extend(unit.map(|unit| (path, unit)));
            return Ok(());
        }
        let document = Document::read(node)?;
        if let Some(why) = document.arrays().into_iter().find_map(unfit) {
            return Err(format!("in an array of its data, {why}"));
        }
        self.kept = self.kept.saturating_add(document.size);
        if self.kept > MOST {
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
        let named = |path| components(&survey.paths.steps(path));
        let mut nodes = Nodes { solutions: self.matched(survey, arrays), defects, ..Nodes::default() };
        let places = self.documents.iter().map(|(path, _)| *path);
        for (from, n) in mentions(survey, places) {
            nodes.mentions.push((named(from), n));
        }
        for (path, unit) in &self.units {
            let value = Step::Key("value".into());
            let mut steps = survey.paths.steps(*path);
            steps.push(&value);
            nodes.units.insert(components(&steps), unit.clone());
        }
        nodes.documents =
            self.documents.into_iter().map(|(path, document)| (named(path), document)).collect();
        nodes
    }

    /// Returns the world coordinates of each array for which they are unambiguous.
    fn matched<'s>(
        &self,
        survey: &'s Survey,
        arrays: &[(Option<PathId>, &'s Ndarray)],
    ) -> HashMap<Vec<String>, Arc<Wcs>> {
        let paths = &survey.paths;
        if self.solutions.is_empty() {
            return HashMap::new();
        }
        // The owner of world coordinates is the mapping that has them under `wcs`, directly or in its `meta`.
        let mut owners: HashMap<Vec<&Step>, Vec<Option<&Arc<Wcs>>>> = HashMap::new();
        let places = self.solutions.iter().map(|(path, _)| *path);
        let itself = places.clone().enumerate().map(|(n, path)| (path, n));
        for (place, n) in itself.chain(mentions(survey, places)) {
            let mut steps = paths.steps(place);
            if !steps.pop().is_some_and(|last| is_key(last, "wcs")) {
                continue;
            }
            steps.pop_if(|last| is_key(last, "meta"));
            owners.entry(steps).or_default().push(self.solutions[n].1.as_ref());
        }
        let mut of_owners: HashMap<Vec<&Step>, Candidates<'_>> = HashMap::new();
        let aliases = survey.aliases.iter().map(|alias| (alias.path, None));
        for (path, array) in arrays.iter().map(|(path, array)| (*path, Some(*array))).chain(aliases) {
            let steps = paths.steps(path);
            let Some((last, above)) = steps.split_last() else { continue };
            let mut at = |owner: &[&'s Step], name: &Step, is_other: bool| {
                if !owners.contains_key(owner) {
                    return;
                }
                let all = of_owners.entry(owner.to_vec()).or_default();
                match is_key(name, "data") {
                    true => all.data.push((steps.clone(), array)),
                    false if COMPANIONS.iter().any(|known| is_key(name, known)) => {
                        all.companions.push((steps.clone(), array));
                    }
                    false => {}
                }
                if is_other && !is_key(name, "data") {
                    all.others.push((steps.clone(), array));
                }
            };
            at(above, last, true);
            // The array of a quantity is under `value`.
            if let (true, Some((name, owner))) = (is_key(last, "value"), above.split_last()) {
                at(owner, name, false);
            }
        }
        let mut matched = HashMap::new();
        for (owner, candidates) in &of_owners {
            let [Some(wcs)] = owners[owner][..] else { continue };
            let Some((steps, [y, x])) = candidates.only_image(wcs) else { continue };
            matched.insert(components(steps), wcs.clone());
            let of_data = candidates.companions.iter().filter(|_| !candidates.data.is_empty());
            for (steps, array) in of_data {
                if array.and_then(plane) == Some([y, x]) {
                    matched.insert(components(steps), wcs.clone());
                }
            }
        }
        matched
    }
}

/// Names of arrays that share the pixels of a `data` array beside them, if they have its shape.
const COMPANIONS: [&str; 10] =
    ["dq", "err", "mask", "uncertainty", "var_flat", "var_poisson", "var_rnoise", "var_sky", "weight", "wht"];

/// Arrays beside world coordinates: those named `data`, its possible companions, and all except `data`. An
/// alias has `None` in place of the array.
#[derive(Default)]
struct Candidates<'c> {
    data: Vec<(Vec<&'c Step>, Option<&'c Ndarray>)>,
    companions: Vec<(Vec<&'c Step>, Option<&'c Ndarray>)>,
    others: Vec<(Vec<&'c Step>, Option<&'c Ndarray>)>,
}

impl<'c> Candidates<'c> {
    /// Returns the image that the world coordinates are for, with its shape: `data`, or else the only image.
    fn only_image(&self, wcs: &Wcs) -> Option<(&[&'c Step], [u64; 2])> {
        let is_plane = |array: &Ndarray| dimensions(array) >= 2;
        let (steps, array) = match &self.data[..] {
            [(steps, Some(array))] => (steps, array),
            [] => {
                let mut images = self.others.iter().filter(|(_, array)| array.is_none_or(is_plane));
                match (images.next(), images.next()) {
                    (Some((steps, Some(array))), None) => (steps, array),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let [y, x] = plane(array)?;
        wcs.pixels.is_none_or(|pixels| pixels == [x, y]).then_some((steps, [y, x]))
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

fn is_key(step: &Step, key: &str) -> bool {
    matches!(step, Step::Key(name) if **name == *key)
}

/// Returns the paths that mention one of these places by its anchor, with the number of the place.
fn mentions(survey: &Survey, places: impl Iterator<Item = Option<PathId>>) -> Vec<(Option<PathId>, usize)> {
    // The path table may hold two ids for the same path.
    let places: HashMap<Vec<&Step>, usize> =
        places.enumerate().map(|(n, path)| (survey.paths.steps(path), n)).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let number = |path| places.get(&survey.paths.steps(path)).copied();
    survey.aliases.iter().filter_map(|alias| Some((alias.path, number(alias.target)?))).collect()
}
