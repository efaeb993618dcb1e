//! The entries of `arrays/`: files of arrays, files of masks, and links.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_tree::limits::{MAX_CHAIN, MAX_EXPANDED};
use asdf_tree::yaml::event::{Mark, START};
use asdf_tree::yaml::survey::{PathId, Paths, Reference, Step, Survey};

use super::super::ndarray::{Datatype, Mask, Ndarray, Scalar, Source};
use super::entry::{ArrayEntry, Masked, MaskedBy};
use super::masks::can_be_broadcast;
use super::places::{LinkTarget, PathsInArrays};
use crate::folder::path_dir::Item;
use crate::folder::path_tree::{Id, PathTree};

/// The key of an array's mask.
const MASK: &str = "mask";

/// An array of a tree.
pub(super) struct FoundArray {
    pub(super) path: Option<PathId>,
    pub(super) place: Mark,
    pub(super) array: Arc<Ndarray>,
}

/// A mask that is not shown.
pub(super) struct LostMask {
    /// The array's path, for messages.
    pub(super) of: String,
    pub(super) place: Mark,
    pub(super) why: &'static str,
}

/// Returns the items of `arrays/`, the masks that are not shown, and true if there are too many items to show
/// all.
pub(super) fn items(
    survey: &Survey,
    arrays: Vec<FoundArray>,
) -> (Vec<Item<ArrayEntry>>, Vec<LostMask>, bool) {
    let mut layout = Layout {
        paths: &survey.paths,
        places: PathsInArrays::new(),
        arrays: HashMap::new(),
        masks: HashMap::new(),
        items: Vec::new(),
        lost_masks: Vec::new(),
    };
    let mut masks = Vec::new();
    let at: HashSet<Id> =
        arrays.iter().filter_map(|found| layout.places.place(&survey.paths, found.path)).collect();
    let are_masks: Vec<bool> = arrays
        .iter()
        .map(|found| layout.above_mask(found.path).is_some_and(|above| at.contains(&above)))
        .collect();
    for (found, is_mask) in arrays.into_iter().zip(are_masks) {
        if is_mask { masks.push(found) } else { layout.add(found) }
    }
    for mask in masks {
        layout.take_mask(mask);
    }
    layout.take_mentions(survey);
    (layout.items, layout.lost_masks, layout.places.is_full)
}

struct Layout<'p> {
    paths: &'p Paths,
    places: PathsInArrays,
    /// The arrays with files of their own.
    arrays: HashMap<Id, Arc<Ndarray>>,
    /// Arrays that are masks, by their own paths. The boolean is true if the mask's file shows the mask array
    /// unchanged, false if the file shows it broadcast or converted to booleans.
    masks: HashMap<Id, (Arc<Ndarray>, bool)>,
    items: Vec<Item<ArrayEntry>>,
    lost_masks: Vec<LostMask>,
}

impl Layout<'_> {
    /// Returns the place of the array that a node at this path would mask, if the path ends with [`MASK`].
    fn above_mask(&mut self, path: Option<PathId>) -> Option<Id> {
        match self.paths.last(path)? {
            (Some(above), Step::Key(key)) if **key == *MASK => self.places.place(self.paths, Some(above)),
            _ => None,
        }
    }

    /// Adds an array, and its mask if the mask is a number or comes from nulls, not from another array.
    fn add(&mut self, found: FoundArray) {
        let Some(place) = self.places.place(self.paths, found.path) else { return };
        let array = found.array;
        self.places.announce(place);
        match (own_mask(&array), array.mask) {
            (Some(by), _) => self.show_mask(place, ArrayEntry::Mask(Masked { of: array.clone(), by })),
            (None, Mask::Value(mark, _)) => {
                let of = self.paths.show(found.path);
                let why = "the mask or the elements are not numbers";
                self.lost_masks.push(LostMask { of, place: mark, why });
            }
            _ => {}
        }
        self.items.push(self.places.file(place, false, ArrayEntry::Array(array.clone())));
        self.arrays.insert(place, array);
    }

    fn show_mask(&mut self, place: Id, what: ArrayEntry) {
        self.items.push(self.places.file(place, true, what));
    }

    /// Records that the mask at a path is not shown.
    fn lose(&mut self, path: Option<PathId>, place: Mark, why: &'static str) {
        let mask = self.paths.show(path);
        let of = mask.strip_suffix("/mask").unwrap_or(&mask).to_owned();
        self.lost_masks.push(LostMask { of, place, why });
    }

    /// Adds an array that is the mask of another one.
    fn take_mask(&mut self, found: FoundArray) {
        let (Some(above), Some(place)) =
            (self.above_mask(found.path), self.places.place(self.paths, found.path))
        else {
            return;
        };
        let mask = found.array;
        let Some(of) = self.arrays.get(&above) else { return };
        let Some(entry) = mask_entry(of, &mask) else {
            return self.lose(found.path, found.place, "it does not fit the shape of its array");
        };
        self.places.announce_mask(place);
        self.masks.insert(place, (mask, matches!(entry, ArrayEntry::Array(_))));
        self.show_mask(above, entry);
    }

    /// Adds links for aliases and for references within the file.
    fn take_mentions(&mut self, survey: &Survey) {
        let mut targets = Vec::new();
        for alias in &survey.aliases {
            targets.push(self.places.place(self.paths, alias.target));
        }
        for reference in &survey.references {
            match reference.uri.strip_prefix('#') {
                Some(fragment) => targets.push(self.places.place_of_pointer(fragment)),
                None => {
                    targets.push(None);
                    self.take_reference(reference);
                }
            }
        }
        let mentions = || {
            let aliases = survey.aliases.iter().map(|alias| (alias.path, alias.place));
            let references = survey.references.iter().map(|reference| (reference.path, reference.place));
            let all = aliases.chain(references).zip(&targets);
            all.filter_map(|((path, place), to)| Some((path, place, (*to)?)))
        };
        for (from, _, to) in mentions() {
            if let Some(from) = self.places.place(self.paths, from) {
                self.places.mention(from, to);
            }
        }
        let merged = self.merged(survey);
        let mut links = Vec::new();
        for (path, place, to) in mentions() {
            let Some(from) = self.places.place(self.paths, path) else { continue };
            if merged.sources.contains(&from) {
                continue;
            }
            if let Some(above) = self.above_mask(path).filter(|above| self.arrays.contains_key(above)) {
                if let Err(why) = self.link_mask(above, to) {
                    self.lose(path, place, why);
                }
            } else {
                links.push((from, to, place));
            }
        }
        // Merged nodes have no place of their own in the tree.
        links.extend(merged.nodes.into_iter().map(|(from, to)| (from, to, START)));
        // A directory may have nothing but links, so that links to it can be made only after those.
        for _ in 0..MAX_CHAIN {
            let before = links.len();
            links.retain(|(from, to, place)| !self.link(*from, *to, *place));
            if links.len() == before {
                break;
            }
        }
    }

    /// Finds the nodes that merge keys bring into other mappings, and records each as an alias.
    fn merged(&mut self, survey: &Survey) -> MergedNodes {
        let mut merged = MergedNodes::default();
        if survey.merges.is_empty() {
            return merged;
        }
        let mut children = self.places.by_parent();
        let mut looked_at = 0;
        for merge in &survey.merges {
            let Some(into) = self.node_place(merge.path) else { continue };
            let mut known = HashSet::new();
            for source in &merge.sources {
                merged.sources.extend(self.places.place(self.paths, source.path));
                let Some(from) = self.node_place(source.target) else { continue };
                for child in children.get(&from).cloned().unwrap_or_default() {
                    looked_at += 1;
                    if looked_at > MAX_EXPANDED {
                        self.places.is_full = true;
                        return merged;
                    }
                    let is_new = self.places.key(child).is_some_and(|key| !merge.has_key(&key));
                    if !is_new || merged.sources.contains(&child) || !self.places.may_be_shown(child) {
                        continue;
                    }
                    let Some(place) = self.places.same_in(into, child) else { continue };
                    if known.insert(place) {
                        self.places.mention(place, child);
                        children.entry(into).or_default().push(place);
                        merged.nodes.push((place, child));
                    }
                }
            }
        }
        merged
    }

    /// Returns the place of a node that contains others: the root has no component.
    fn node_place(&mut self, path: Option<PathId>) -> Option<Id> {
        match path {
            None => Some(PathTree::ROOT),
            Some(_) => self.places.place(self.paths, path),
        }
    }

    /// Adds a reference into another file.
    fn take_reference(&mut self, reference: &Reference) {
        let path = reference.path;
        let place = reference.place;
        if self.above_mask(path).is_some_and(|above| self.arrays.contains_key(&above)) {
            return self.lose(path, place, "it is in another file");
        }
        if self.places.has_room_for_reference()
            && let Some(from) = self.places.place(self.paths, path)
        {
            self.places.announce_reference(from);
            let entry = ArrayEntry::Reference(place, reference.uri.clone());
            self.items.push(self.places.file(from, false, entry));
        }
    }

    /// Adds a link for an alias or a reference at `from`. False if its node has no entry so far.
    fn link(&mut self, from: Id, to: Id, place: Mark) -> bool {
        let mask = match self.places.resolve(to) {
            Some(LinkTarget::Shown(target)) => self.masks.get(&target).cloned(),
            _ => None,
        };
        let item = match mask {
            // A mask that is broadcast has a file in its broadcast form only.
            Some((mask, false)) => Some(self.places.file(from, false, ArrayEntry::Array(mask))),
            _ => self.places.link(from, to, place),
        };
        if let Some(item) = &item {
            self.places.announce_link(from, matches!(item.what, ArrayEntry::Pending(..)));
        }
        let is_made = item.is_some();
        self.items.extend(item);
        is_made
    }

    /// Adds the mask of the array at `above`, which is an alias or a reference. Returns the reason if it can't
    /// be shown.
    fn link_mask(&mut self, above: Id, to: Id) -> Result<(), &'static str> {
        let target = match self.places.resolve(to) {
            Some(LinkTarget::Shown(target)) => target,
            Some(LinkTarget::Pending(..)) => return Err("it is in another file"),
            None => return Err("it does not refer to an array"),
        };
        // The boolean is false for a mask that is broadcast: only its broadcast form has a file.
        let (mask, has_file) = match self.masks.get(&target).cloned() {
            Some((mask, has_file)) => (Some(mask), has_file),
            None => (self.arrays.get(&target).cloned(), true),
        };
        let (of, mask) = self.arrays.get(&above).zip(mask).ok_or("it does not refer to an array")?;
        match mask_entry(of, &mask).ok_or("it does not fit the shape of its array")? {
            ArrayEntry::Array(_) if has_file => self.items.extend(self.places.link_to(above, target, true)),
            entry => self.show_mask(above, entry),
        }
        Ok(())
    }
}

/// Nodes that merge keys bring into other mappings.
#[derive(Default)]
struct MergedNodes {
    /// The places that the nodes get, and their own places.
    nodes: Vec<(Id, Id)>,
    /// The places of the values of merge keys.
    sources: HashSet<Id>,
}

/// Returns the mask of an array if it is a number, or comes from nulls in an inline array or in a FITS table.
pub fn own_mask(array: &Ndarray) -> Option<MaskedBy> {
    if array.mask == Mask::Fields {
        return Some(MaskedBy::Fields);
    }
    let Some(Datatype::Scalar(scalar)) = &array.datatype else { return None };
    match (&array.mask, &array.source) {
        (Mask::Value(_, Some(number)), _) => {
            (!matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_))).then_some(MaskedBy::Number(*number))
        }
        (Mask::None, Source::Inline(inline)) => {
            let nulls = inline.seen.as_deref().is_some_and(|seen| seen.nulls);
            nulls.then_some(MaskedBy::Null)
        }
        _ => None,
    }
}

/// Returns the entry of a mask: the array itself if it is a boolean array of the right shape, or a structured
/// one with a boolean for each field. `None` if it does not fit.
fn mask_entry(of: &Arc<Ndarray>, mask: &Arc<Ndarray>) -> Option<ArrayEntry> {
    let is_bool = mask.datatype == Some(Datatype::Scalar(Scalar::Bool8));
    let is_structured = matches!(mask.datatype, Some(Datatype::Structured(_)));
    if is_structured {
        let (fields, of_fields) = mask.datatype.as_ref().zip(of.datatype.as_ref())?;
        if !fields.has_fields_of(of_fields) {
            return None;
        }
    }
    let is_of_fields = is_structured
        && mask
            .datatype
            .as_ref()
            .zip(of.datatype.as_ref())
            .is_some_and(|(mask, of)| mask.is_of_bools() && mask.of_mask() == of.of_mask());
    if (is_bool || is_of_fields) && mask.shape == of.shape {
        return Some(ArrayEntry::Array(mask.clone()));
    }
    if let (Some(from), Some(to)) = (&mask.shape, &of.shape)
        && !from.streamed
        && !to.streamed
        && !can_be_broadcast(&from.dimensions, &to.dimensions)
    {
        return None;
    }
    Some(ArrayEntry::Mask(Masked { of: of.clone(), by: MaskedBy::Array(mask.clone()) }))
}
