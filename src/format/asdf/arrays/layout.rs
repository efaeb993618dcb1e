//! What is shown of the arrays of a tree: their files, the files of their masks, and links.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::ndarray::{Datatype, Mask, Ndarray, Scalar, Source};
use super::entry::{Entry, Masked, MaskedBy};
use super::places::{Path, Places, components, components_of_pointer};
use crate::content::path_folder::Item;
use crate::yaml::event::Mark;
use crate::yaml::survey::{PathId, Paths, Step, Survey};

/// The key of an array below which its mask is.
const MASK: &str = "mask";

/// An array of a tree.
pub(super) struct FoundArray {
    pub(super) path: Option<PathId>,
    pub(super) place: Mark,
    pub(super) array: Ndarray,
}

/// What is shown of the arrays, and where.
pub(super) fn items(survey: &Survey, arrays: Vec<FoundArray>) -> Vec<Item<Entry>> {
    let mut layout =
        Layout { paths: &survey.paths, places: Places::default(), arrays: HashMap::new(), items: Vec::new() };
    let mut masks = Vec::new();
    let at: HashMap<Vec<&Step>, ()> =
        arrays.iter().map(|found| (survey.paths.steps(found.path), ())).collect();
    let is_mask: Vec<bool> = arrays
        .iter()
        .map(|found| above_mask(&survey.paths.steps(found.path)).is_some_and(|above| at.contains_key(above)))
        .collect();
    for (found, is_mask) in arrays.into_iter().zip(is_mask) {
        let (steps, array) = (survey.paths.steps(found.path), Arc::new(found.array));
        match above_mask(&steps).filter(|_| is_mask) {
            Some(above) => masks.push((components(above), array)),
            None => layout.take(components(&steps), array),
        }
    }
    for (path, mask) in masks {
        if let Some(of) = layout.arrays.get(&path).cloned() {
            layout.show_mask(path, mask_entry(&of, &mask));
        }
    }
    layout.take_mentions(survey);
    layout.items
}

/// The steps to the node whose mask a node would be, if its path ends so.
fn above_mask<'s, 'p>(steps: &'s [&'p Step]) -> Option<&'s [&'p Step]> {
    match steps.split_last() {
        Some((Step::Key(key), above)) if **key == *MASK && !above.is_empty() => Some(above),
        _ => None,
    }
}

struct Layout<'p> {
    paths: &'p Paths,
    places: Places,
    /// The arrays that have files of their own.
    arrays: HashMap<Path, Arc<Ndarray>>,
    items: Vec<Item<Entry>>,
}

impl Layout<'_> {
    /// Shows an array, and the mask that it has without another node.
    fn take(&mut self, path: Path, array: Arc<Ndarray>) {
        self.places.announce(&path);
        if let Some(by) = own_mask(&array) {
            self.show_mask(path.clone(), Entry::Mask(Masked { of: array.clone(), by }));
        }
        self.items.extend(self.places.file(path.clone(), false, Entry::Array(array.clone())));
        self.arrays.insert(path, array);
    }

    fn show_mask(&mut self, path: Path, what: Entry) {
        self.items.extend(self.places.file(path, true, what));
    }

    /// Shows nodes that are mentioned by an anchor, or by a reference within the file.
    fn take_mentions(&mut self, survey: &Survey) {
        let aliases = survey
            .aliases
            .iter()
            .map(|alias| (self.paths.steps(alias.path), components(&self.paths.steps(alias.target))));
        let references = survey.references.iter().filter_map(|reference| {
            let target = reference.uri.strip_prefix('#').and_then(components_of_pointer)?;
            Some((self.paths.steps(reference.path), target))
        });
        let mentions: Vec<_> = aliases.chain(references).collect();
        for reference in survey.references.iter().filter(|reference| !reference.uri.starts_with('#')) {
            let from = self.paths.steps(reference.path);
            if above_mask(&from).is_none_or(|above| !self.arrays.contains_key(&components(above))) {
                let what = Entry::Reference(reference.uri.clone());
                self.items.extend(self.places.file(components(&from), false, what));
            }
        }
        for (from, to) in &mentions {
            self.places.mention(components(from), to.clone());
        }
        for (from, to) in mentions {
            let masked = above_mask(&from).map(components).filter(|above| self.arrays.contains_key(above));
            let Some(above) = masked else {
                self.items.extend(self.places.link(components(&from), &to, false));
                continue;
            };
            let mask = self.places.resolve(&to).and_then(|to| self.arrays.get(&to));
            let Some((of, mask)) = self.arrays.get(&above).zip(mask) else { continue };
            match mask_entry(of, mask) {
                Entry::Array(_) => self.items.extend(self.places.link(above, &to, true)),
                entry => self.show_mask(above, entry),
            }
        }
    }
}

/// The mask that an array has without another array.
fn own_mask(array: &Ndarray) -> Option<MaskedBy> {
    let Some(Datatype::Scalar(scalar)) = &array.datatype else { return None };
    match (&array.mask, &array.source) {
        (Mask::Value(_, Some(number)), _) => {
            (!matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_))).then_some(MaskedBy::Number(*number))
        }
        (Mask::None, Source::Inline(inline)) => {
            let nulls = inline.leaves.as_deref().is_some_and(|leaves| leaves.seen.nulls);
            nulls.then_some(MaskedBy::Null)
        }
        _ => None,
    }
}

/// The mask that an array is of another one: itself, if it is one as numpy has it.
fn mask_entry(of: &Arc<Ndarray>, mask: &Arc<Ndarray>) -> Entry {
    let is_bool = mask.datatype == Some(Datatype::Scalar(Scalar::Bool8));
    match is_bool && mask.shape == of.shape {
        true => Entry::Array(mask.clone()),
        false => Entry::Mask(Masked { of: of.clone(), by: MaskedBy::Array(mask.clone()) }),
    }
}
