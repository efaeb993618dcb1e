//! Collects the nodes that only `fits/` needs: descriptions of FITS files, and world coordinates with their arrays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_file::asdf::arrays::{IMAGES, NodePaths};
use asdf_file::asdf::computed::Computed;
use asdf_file::asdf::ndarray::{self, Ndarray};
use asdf_file::asdf::units;
use asdf_file::asdf::view::{Collector, Surveyed, Unfit};
use asdf_file::container::{Defect, Severity};
use asdf_file::folder::names;
use asdf_file::folder::path_tree::{Id, PathTree};
use asdf_file::folder::shared_path::SharedPath;
use asdf_tree::limits::{MAX_DESCRIBED, MAX_MADE, MAX_NOTES};
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{Alias, PathId, Paths, Step, Survey, TreeNode, WantedNode};

use super::document::{self, Document};
use super::elsewhere::{self, FilePaths, MAX_NAMES};
use super::headers::{self, ImageHeader};
use super::table::{ArrayColumn, Table};
use super::wcs::{self, Wcs};
use super::{blank, image};

/// The name of the file of a table that is the root.
pub(super) const ROOT: &str = "tree";

/// True if the view wants nodes with this tag.
pub(super) fn is_tag(tag: &str) -> bool {
    headers::is_tag(tag)
        || document::is_tag(tag)
        || document::is_table_tag(tag)
        || elsewhere::is_tag(tag)
        || blank::is_cube_tag(tag)
        || wcs::is_tag(tag)
        || is_column_tag(tag)
}

/// True for the tag of a node that is a column of the mapping that contains it: an array, a quantity, a time.
fn is_column_tag(tag: &str) -> bool {
    ndarray::is_tag(tag) || units::is_quantity(tag) || tag.starts_with(TIME)
}

const TIME: &str = "tag:stsci.edu:asdf/time/time-1.";

/// All nodes found for `fits/`.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Described FITS files and their paths, then those of mappings of columns.
    pub(super) documents: Vec<(SharedPath, Arc<Document>)>,
    /// The number of described FITS files.
    pub(super) described: usize,
    /// Paths of the aliases of a document, with the number of the document.
    pub(super) mentions: Vec<(SharedPath, usize)>,
    /// World coordinates by the path of their array.
    pub(super) solutions: HashMap<Id, Arc<Wcs>>,
    /// FITS files that nodes name, by the path of the node.
    pub(super) files: Vec<(SharedPath, FilePaths)>,
    /// The paths of nodes whose mask stands beside their array.
    pub(super) cubes: Vec<SharedPath>,
    /// Headers that the tree has for images, by the path of the array.
    pub(super) headers: HashMap<Id, Arc<ImageHeader>>,
    /// The paths in `solutions` and `headers`; `None` if there are none.
    tree: Option<PathTree>,
    /// Notes on omitted nodes.
    pub(super) defects: Vec<Defect>,
}

impl Nodes {
    /// Returns the world coordinates of the array at a path, which may end with the number of a duplicate.
    pub(super) fn of_array(&self, path: &[&str]) -> Option<&Arc<Wcs>> {
        self.solutions.get(&self.id_of(path)?)
    }

    /// Returns the header that the tree has for the array at a path.
    pub(super) fn header_of(&self, path: &[&str]) -> Option<&ImageHeader> {
        Some(self.headers.get(&self.id_of(path)?)?)
    }

    fn id_of(&self, path: &[&str]) -> Option<Id> {
        let (last, dir) = path.split_last()?;
        let last = names::without_duplicate(last);
        self.tree.as_ref()?.get(dir.iter().copied().chain([last]))
    }
}

/// A collector of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeFinder {
    documents: Vec<(Option<PathId>, Arc<Document>)>,
    solutions: Vec<FoundWcs>,
    headers: Vec<FoundHeader>,
    files: Vec<(Option<PathId>, FilePaths)>,
    cubes: Vec<Option<PathId>>,
    /// The columns in mappings, by the path of the mapping; `None` if FITS can't hold one of them.
    mappings: HashMap<Option<PathId>, Option<Vec<ArrayColumn>>>,
    /// The paths of the mappings, in the order of the tree.
    of_mappings: Vec<Option<PathId>>,
    /// Number of columns in `mappings`.
    columns: usize,
    /// Number of names in `files`.
    names: usize,
    /// Total size of `documents`, in bytes.
    kept: usize,
    /// Arrays of the last document whose keys stand beside a `data` that is only a tag, each with the place
    /// of the tag.
    bare: Vec<(Mark, Ndarray)>,
    defects: Vec<Defect>,
}

/// World coordinates, or the reason why FITS can't express them.
#[derive(Debug)]
struct FoundWcs {
    path: Option<PathId>,
    place: Mark,
    shown: String,
    wcs: Result<Arc<Wcs>, String>,
}

/// A header, or the reason why there is none.
#[derive(Debug)]
struct FoundHeader {
    path: Option<PathId>,
    place: Mark,
    shown: String,
    header: Result<Arc<ImageHeader>, String>,
}

/// Adds a note, up to a limit.
fn note(defects: &mut Vec<Defect>, note: Defect) {
    if defects.len() < MAX_NOTES && !defects.contains(&note) {
        defects.push(note);
    }
}

/// Words of the notes on world coordinates that FITS can't express.
pub(super) const NO_COORDINATES: &str = "no world coordinates";

/// Returns the note on world coordinates that FITS can't express.
pub(super) fn without_coordinates(place: Mark, path: &str, why: &str) -> Defect {
    let Mark { offset, line, .. } = place;
    let what = format!("line {line}: fits/ has {NO_COORDINATES} from {path}: {why}");
    Defect { severity: Severity::Note, offset, block: None, what }
}

impl Collector for NodeFinder {
    fn on_node(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        if node.tag.is_some_and(wcs::is_tag) {
            let shown = paths.show(node.path).to_string();
            let wcs = Wcs::read(node.value, shown.clone()).map(Arc::new);
            self.solutions.push(FoundWcs { path: node.path, place: node.value.place, shown, wcs });
            return;
        }
        if node.tag.is_some_and(blank::is_cube_tag) {
            if self.cubes.len() < MAX_DESCRIBED && node.value.get("mask").is_some() {
                self.cubes.push(node.path);
            }
            return;
        }
        if node.tag.is_some_and(elsewhere::is_tag) {
            if let Some(files) = elsewhere::files(node.value, MAX_NAMES - self.names) {
                self.names += files.len().min(MAX_NAMES - self.names);
                self.files.push((node.path, files));
            }
            return;
        }
        if let Some(tag) = node.tag.filter(|tag| headers::is_tag(tag)) {
            if self.headers.len() < MAX_DESCRIBED {
                let shown = paths.show(node.path);
                let mut header = ImageHeader::read(tag, node.value, shown.to_string());
                self.kept =
                    self.kept.saturating_add(header.as_ref().map_or(0, |header| header.cards.0.len()));
                if self.kept > MAX_MADE {
                    header = Err("all headers of the tree are longer than 16 MiB together".to_owned());
                }
                let (path, place) = (node.path, node.value.place);
                self.headers.push(FoundHeader { path, place, shown, header: header.map(Arc::new) });
            }
            return;
        }
        if node.tag.is_some_and(is_column_tag) {
            self.take_column(paths, node, unfit);
            return;
        }
        let taken = self.take_node(node.tag.unwrap_or_default(), node.path, node.value, unfit);
        if let Err(why) = taken
            && self.defects.len() < MAX_NOTES
        {
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
    /// Takes a node that is a column if it is in a mapping without a tag.
    fn take_column(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        let (true, Some((parent, Step::Key(key)))) = (node.plain, paths.last(node.path)) else { return };
        if self.columns >= MAX_DESCRIBED {
            return;
        }
        let key: &str = key.as_ref();
        let read = ArrayColumn::read(node.value, Some(key)).ok();
        let read = read.filter(|read| read.iter().all(|column| unfit(column.array()).is_none()));
        self.columns += read.as_ref().map_or(1, Vec::len);
        let of_mapping = self.mappings.entry(parent).or_insert_with(|| {
            self.of_mappings.push(parent);
            Some(Vec::new())
        });
        match (of_mapping.as_mut(), read) {
            (Some(columns), Some(read)) => columns.extend(read),
            _ => *of_mapping = None,
        }
    }

    /// Takes a node, or returns the reason why it is left out.
    fn take_node(
        &mut self,
        tag: &str,
        path: Option<PathId>,
        node: &TreeNode,
        unfit: Unfit<'_>,
    ) -> Result<(), String> {
        let document = if document::is_table_tag(tag) {
            Document::of_table(Table::read(node)?)?
        } else {
            Document::read(node)?
        };
        if let Some(why) = document.arrays().into_iter().find_map(unfit) {
            return Err(format!("in an array of its data, {why}"));
        }
        self.kept = self.kept.saturating_add(document.size);
        if self.kept > MAX_MADE {
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
        let mut nodes = Nodes { defects, ..Nodes::default() };
        nodes.solutions = self.matched(survey, arrays, &mut paths, &mut nodes.defects);
        nodes.headers = self.headers_of_images(survey, arrays, &mut paths, &mut nodes.defects);
        for (path, files) in std::mem::take(&mut self.files) {
            nodes.files.extend(paths.of(&survey.paths, path).map(|place| (paths.tree.shared(place), files)));
        }
        for path in std::mem::take(&mut self.cubes) {
            nodes.cubes.extend(paths.of(&survey.paths, path).map(|place| paths.tree.shared(place)));
        }
        let places: Vec<_> = self.documents.iter().map(|(path, _)| paths.of(&survey.paths, *path)).collect();
        let mut kept = Vec::new();
        // A table within a described file is in that file.
        let described: HashSet<Id> = self
            .documents
            .iter()
            .zip(&places)
            .filter(|((_, document), _)| !document.is_table())
            .filter_map(|(_, place)| *place)
            .collect();
        for ((_, document), place) in std::mem::take(&mut self.documents).into_iter().zip(places) {
            let Some(place) = place else { continue };
            let mut above = paths.tree.parent(place);
            while let Some(parent) = above.filter(|parent| !described.contains(parent)) {
                above = paths.tree.parent(parent);
            }
            if above.is_none() || !document.is_table() {
                nodes.documents.push((paths.tree.shared(place), document));
                kept.push(place);
            }
        }
        nodes.described = nodes.documents.len();
        let tables: HashSet<Id> = kept.iter().copied().collect();
        for path in std::mem::take(&mut self.of_mappings) {
            let Some(Some(columns)) = self.mappings.remove(&path) else { continue };
            let Some(document) = of_mapping(columns) else { continue };
            let Some(place) = paths.of(&survey.paths, path) else { continue };
            let mut above = Some(place);
            while let Some(node) = above.filter(|node| !tables.contains(node)) {
                above = paths.tree.parent(node);
            }
            self.kept = self.kept.saturating_add(document.size);
            if above.is_none() && self.kept <= MAX_MADE {
                let shown = if path.is_none() { SharedPath::new([ROOT]) } else { paths.tree.shared(place) };
                nodes.documents.push((shown, Arc::new(document)));
            }
        }
        let kept_places: Vec<_> = kept.iter().map(|place| Some(*place)).collect();
        for (from, n) in mentions(survey, &kept_places, &mut paths) {
            nodes.mentions.push((paths.tree.shared(from), n));
        }
        let is_needed = !(nodes.solutions.is_empty() && nodes.headers.is_empty());
        nodes.tree = is_needed.then_some(paths.tree);
        nodes
    }

    /// Returns the headers of images: of the image with a usual name, and of the arrays of its shape that share its
    /// pixels.
    fn headers_of_images(
        &self,
        survey: &Survey,
        arrays: &[(Option<PathId>, &Ndarray)],
        paths: &mut NodePaths,
        defects: &mut Vec<Defect>,
    ) -> HashMap<Id, Arc<ImageHeader>> {
        let mut of_images = HashMap::new();
        if self.headers.is_empty() {
            return of_images;
        }
        let places: Vec<_> = self.headers.iter().map(|found| paths.of(&survey.paths, found.path)).collect();
        let mut all: Vec<(Id, usize)> =
            places.iter().enumerate().filter_map(|(n, place)| Some(((*place)?, n))).collect();
        all.extend(mentions(survey, &places, paths));
        let mut of_owners: HashMap<Id, &FoundHeader> = HashMap::new();
        for (place, n) in all {
            let found = &self.headers[n];
            let beside = above(&paths.tree, place, "wcs");
            let beside = beside.map(|owner| above(&paths.tree, owner, "meta").unwrap_or(owner));
            let is_around = found.header.as_ref().is_ok_and(|header| header.is_around);
            if let Some(owner) = if is_around { Some(place) } else { beside } {
                of_owners.insert(owner, found);
            }
        }
        let owners: HashMap<Id, &Arc<ImageHeader>> = of_owners
            .iter()
            .filter_map(|(owner, found)| Some((*owner, found.header.as_ref().ok()?)))
            .collect();
        // The mappings with an image of a usual name.
        let mut with_image: HashSet<Id> = HashSet::new();
        let mut candidates = Vec::new();
        let mut images: HashMap<Id, (usize, &Ndarray)> = HashMap::new();
        let mut others: HashMap<Id, Vec<Id>> = HashMap::new();
        for (path, array) in arrays {
            let Some(place) = paths.of(&survey.paths, *path) else { continue };
            let named = named_node(&paths.tree, place);
            let Some(owner) = paths.tree.parent(named) else { continue };
            if of_owners.contains_key(&owner)
                && IMAGES.contains(&paths.tree.component(named))
                && image::has_axes(array)
            {
                with_image.insert(owner);
            }
            let Some(header) = owners.get(&owner).filter(|header| header.fits(array)) else { continue };
            let name = paths.tree.component(named);
            let rank = IMAGES.iter().position(|image| *image == name);
            if let Some(rank) = rank
                && images.get(&owner).is_none_or(|(known, _)| rank < *known)
            {
                images.insert(owner, (rank, array));
            }
            if rank.is_some() || is_companion(&[name]) {
                candidates.push((place, owner, *array, *header));
            } else if header.names_shape() {
                others.entry(owner).or_default().push(place);
            }
        }
        for (owner, places) in others {
            // The only array of the shape, whatever its name.
            if let [place] = places[..]
                && !images.contains_key(&owner)
                && let Some(header) = owners.get(&owner)
            {
                of_images.insert(place, (*header).clone());
            }
        }
        for (place, owner, array, header) in candidates {
            let belongs = match images.get(&owner) {
                Some((_, image)) => image.shape == array.shape,
                None => header.names_shape(),
            };
            if belongs {
                of_images.insert(place, header.clone());
            }
        }
        let has_header: HashSet<Id> =
            of_images.keys().filter_map(|place| paths.tree.parent(named_node(&paths.tree, *place))).collect();
        for owner in with_image.into_iter().filter(|owner| !has_header.contains(owner)) {
            let Some(found) = of_owners.get(&owner) else { continue };
            let why =
                found.header.as_ref().err().map_or("its axes are not those of the image", String::as_str);
            note(defects, without_coordinates(found.place, &found.shown, why));
        }
        of_images
    }

    /// Returns the world coordinates of each array for which they are unambiguous.
    fn matched(
        &self,
        survey: &Survey,
        arrays: &[(Option<PathId>, &Ndarray)],
        paths: &mut NodePaths,
        defects: &mut Vec<Defect>,
    ) -> HashMap<Id, Arc<Wcs>> {
        if self.solutions.is_empty() {
            return HashMap::new();
        }
        // The owner of world coordinates is the mapping that has them under `wcs`, directly or in its `meta`.
        let mut owners: HashMap<Id, Vec<&FoundWcs>> = HashMap::new();
        let places: Vec<_> = self.solutions.iter().map(|found| paths.of(&survey.paths, found.path)).collect();
        let mut all = mentions(survey, &places, paths);
        all.extend(places.into_iter().enumerate().filter_map(|(n, place)| Some((place?, n))));
        all.sort_by_key(|(_, n)| *n);
        for (place, n) in all {
            let Some(owner) = above(&paths.tree, place, "wcs") else { continue };
            let owner = above(&paths.tree, owner, "meta").unwrap_or(owner);
            let of_owner = owners.entry(owner).or_default();
            let found = &self.solutions[n];
            // The tree may have the same node in both places.
            if !of_owner.last().is_some_and(|last| std::ptr::eq(*last, found)) {
                of_owner.push(found);
            }
        }
        let mut of_owners: HashMap<Id, Candidates<'_>> = HashMap::new();
        let aliases = survey.aliases.iter().map(|alias| (alias.path, None));
        for (path, array) in arrays.iter().map(|(path, array)| (*path, Some(*array))).chain(aliases) {
            let Some(place) = paths.of(&survey.paths, path) else { continue };
            let mut at = |named: Id| {
                let Some(owner) = paths.tree.parent(named).filter(|owner| owners.contains_key(owner)) else {
                    return;
                };
                let candidates = of_owners.entry(owner).or_default();
                let name = paths.tree.component(named);
                if let Some(n) = IMAGES.iter().position(|image| *image == name) {
                    candidates.named[n].push((place, array));
                } else if is_companion(&[name]) {
                    candidates.companions.push((place, array));
                } else {
                    candidates.others.push((place, array));
                }
            };
            at(place);
            let named = named_node(&paths.tree, place);
            if named != place {
                at(named);
            }
        }
        // Datasets of DKIST have their images in other files.
        for (path, _) in &self.files {
            let place = paths.of(&survey.paths, *path);
            let owner = place.and_then(|place| above(&paths.tree, place, "data"));
            for found in owner.and_then(|owner| owners.get(&owner)).into_iter().flatten() {
                if let Err(why) = &found.wcs
                    && defects.len() < MAX_NOTES
                {
                    defects.push(without_coordinates(found.place, &found.shown, why));
                }
            }
        }
        let mut matched = HashMap::new();
        for (owner, candidates) in &of_owners {
            let mut fitting: Vec<(&FoundWcs, &Arc<Wcs>, Vec<Id>)> = Vec::new();
            let mut unfit = Vec::new();
            for found in &owners[owner] {
                match &found.wcs {
                    Ok(wcs) => {
                        let images = candidates.images(wcs);
                        if !images.is_empty() {
                            fitting.push((found, wcs, images));
                        } else if let Some(why) = candidates.unfit(wcs) {
                            unfit.push(without_coordinates(found.place, &found.shown, why));
                        }
                    }
                    Err(why) => {
                        if candidates.have_image() {
                            note(defects, without_coordinates(found.place, &found.shown, why));
                        }
                    }
                }
            }
            if let [(one, ..), _, ..] = &fitting[..] {
                let why = "there are several gwcs for the image";
                unfit = vec![without_coordinates(one.place, &one.shown, why)];
            }
            if fitting.len() != 1 {
                for one in unfit {
                    note(defects, one);
                }
            }
            let [(found, wcs, images)] = &fitting[..] else { continue };
            for (axis, why) in &wcs.left_out {
                if defects.len() < MAX_NOTES {
                    let what = format!("axis {axis} of {}", found.shown);
                    defects.push(without_coordinates(found.place, &what, why));
                }
            }
            matched.extend(images.iter().map(|place| (*place, (*wcs).clone())));
        }
        matched
    }
}

/// Returns the table of the columns of a mapping: two or more with the same number of rows, one of which at least has one
/// dimension. A mapping with an image, or with several images of one shape, is none.
fn of_mapping(columns: Vec<ArrayColumn>) -> Option<Document> {
    let mut images: Vec<&ArrayColumn> = columns.iter().filter(|column| column.has_images()).collect();
    images.sort_by_key(|column| column.shape());
    let has_image = columns.iter().any(|column| IMAGES.contains(&column.name()) && !column.is_line())
        || images.windows(2).any(|two| two[0].shape() == two[1].shape());
    let is_table = columns.len() >= 2 && columns.iter().any(ArrayColumn::is_line) && !has_image;
    Document::of_table(is_table.then(|| Table::of_columns(columns))?.ok()?).ok()
}

/// Returns the parent of a node if the node is the value of `key`.
fn above(tree: &PathTree, place: Id, key: &str) -> Option<Id> {
    tree.parent(place).filter(|_| tree.component(place) == key)
}

/// Returns the node whose key is the name of an array: the quantity that has it as its `value`, the uncertainty that has
/// it as its `array`, or the array itself.
fn named_node(tree: &PathTree, place: Id) -> Id {
    let uncertainty = above(tree, place, "array").filter(|node| tree.component(*node) == "uncertainty");
    uncertainty.or(above(tree, place, "value")).unwrap_or(place)
}

/// Names of arrays, in lower case, that share the pixels of the image beside them, if they have its shape.
const COMPANIONS: [&str; 10] =
    ["dq", "err", "mask", "uncertainty", "var_flat", "var_poisson", "var_rnoise", "var_sky", "weight", "wht"];

/// True if the last component of a path is one of [`COMPANIONS`].
pub(super) fn is_companion(path: &[&str]) -> bool {
    path.last().is_some_and(|name| COMPANIONS.contains(&name.to_ascii_lowercase().as_str()))
}

/// Why an array beside world coordinates is not taken for their image.
const NOT_NAMED: &str = "no array beside it is called data, sci or image, or is the only one of its shape";

/// Arrays beside world coordinates: those with a name of [`IMAGES`], their possible companions, and all others. An alias
/// has `None` in place of the array.
#[derive(Default)]
struct Candidates<'c> {
    named: [Vec<(Id, Option<&'c Ndarray>)>; IMAGES.len()],
    companions: Vec<(Id, Option<&'c Ndarray>)>,
    others: Vec<(Id, Option<&'c Ndarray>)>,
}

impl<'c> Candidates<'c> {
    /// True if one of the arrays may be an image.
    fn have_image(&self) -> bool {
        let mut all = self.named.iter().flatten().chain(&self.companions).chain(&self.others);
        all.any(|(_, array)| array.is_some_and(image::can_be))
    }

    /// Returns the reason why none of the arrays is an image with these world coordinates; `None` if none is an image.
    fn unfit(&self, wcs: &Wcs) -> Option<&'static str> {
        let named = self.named.iter().flatten().filter_map(|(_, array)| array.and_then(lengths));
        let why = named.filter_map(|shape| wcs.unfit(shape)).next();
        let is_image = |(_, array): &(Id, Option<&Ndarray>)| {
            array.is_some_and(|array| lengths(array).is_some_and(|shape| wcs.has_axes(shape.len())))
        };
        let unnamed = || self.others.iter().any(is_image).then_some(NOT_NAMED);
        why.or_else(unnamed)
    }

    /// Returns the arrays that world coordinates belong to: the first one with a usual name, or else the only one whose
    /// shape the world coordinates name; and its companions of the same shape.
    fn images(&self, wcs: &Wcs) -> Vec<Id> {
        let with_companions = |image: Option<Id>, shape: &[u64]| -> Vec<Id> {
            let of_shape =
                |(place, of): &(Id, Option<&Ndarray>)| (of.and_then(lengths)? == shape).then_some(*place);
            image.into_iter().chain(self.companions.iter().filter_map(of_shape)).collect()
        };
        for of_name in self.named.iter().filter(|of_name| !of_name.is_empty()) {
            // A tree may have the same key twice.
            if let [(place, Some(array))] = of_name[..]
                && let Some(shape) = lengths(array).filter(|shape| wcs.fits(shape))
            {
                return with_companions(Some(place), shape);
            }
        }
        let named_shapes = |of: &[(Id, Option<&'c Ndarray>)]| -> Vec<(Id, &'c [u64])> {
            let shaped = of.iter().filter_map(|(place, array)| Some((*place, array.and_then(lengths)?)));
            shaped.filter(|(_, shape)| wcs.names_shape(shape)).collect()
        };
        match (&named_shapes(&self.others)[..], named_shapes(&self.companions).first()) {
            ([(place, shape)], _) => with_companions(Some(*place), shape),
            ([], Some((_, shape))) => with_companions(None, shape),
            _ => Vec::new(),
        }
    }
}

/// Returns the shape of an array that does not grow.
pub(super) fn lengths(array: &Ndarray) -> Option<&[u64]> {
    let shape = array.shape.as_ref().filter(|shape| !shape.streamed)?;
    Some(&shape.dimensions)
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
