//! Files of a view at the paths of the arrays in `arrays/`: `arrays/x.npy` corresponds to `preview/x.png`.

use std::collections::HashMap;

use asdf_file::asdf::arrays::{ArrayEntry, FoundArrays};
use asdf_file::folder::path_dir::{Item, Items};
use asdf_file::folder::shared_path::SharedPath;

/// The endings of the files of arrays and of their masks.
const ENDING: &str = ".npy";
const MASK: &str = ".mask.npy";

/// An entry at a path.
#[derive(Clone, Debug)]
pub(crate) enum FileOrLink {
    /// The file of the array or mask with this number among those found.
    Array(usize),
    /// A symbolic link with this text.
    Link(Box<str>),
}

/// True if an item is the mask of an array.
pub(crate) fn is_mask(item: &Item<ArrayEntry>) -> bool {
    item.file.ends_with(MASK)
}

/// Returns the files for the `wanted` arrays and masks, and the links that lead to them.
pub(crate) fn with_ending(
    found: &FoundArrays,
    ending: &'static str,
    wanted: impl Fn(&Item<ArrayEntry>) -> bool,
) -> Items<FileOrLink> {
    let mut items = Vec::new();
    let mut dirs = Dirs::new(ending);
    // For each item, the number of items before it that have a file in this view.
    let mut before = vec![0];
    for (number, item) in found.items.iter().enumerate() {
        let stem = match &item.what {
            ArrayEntry::Link(_) => None,
            _ => item.file.strip_suffix(ENDING).filter(|_| wanted(item)),
        };
        before.push(before[number] + usize::from(stem.is_some()));
        items.extend(stem.map(|stem| Item {
            dir: dirs.renamed(&item.dir),
            file: format!("{}{ending}", component(stem, ending)),
            what: FileOrLink::Array(number),
        }));
    }
    for (number, item) in found.items.iter().enumerate() {
        let ArrayEntry::Link(text) = &item.what else { continue };
        let target = found.items.numbers_behind(number, text);
        if before[target.start] == before[target.end] {
            continue;
        }
        let text: Vec<String> = text.split('/').map(|part| component(part, ending)).collect();
        let mut text = text.join("/");
        if let Some(stem) = text.strip_suffix(ENDING) {
            text = format!("{stem}{ending}");
        }
        let file = match item.file.strip_suffix(ENDING) {
            Some(stem) => format!("{}{ending}", component(stem, ending)),
            None => component(&item.file, ending),
        };
        items.push(Item { dir: dirs.renamed(&item.dir), file, what: FileOrLink::Link(text.into()) });
    }
    Items::new(items)
}

/// Directories of this view, by the directories of `arrays/`.
pub(crate) struct Dirs {
    ending: &'static str,
    /// Original and renamed paths, by the memory address of the original path.
    renamed: HashMap<usize, (SharedPath, SharedPath)>,
}

impl Dirs {
    pub(crate) fn new(ending: &'static str) -> Self {
        Self { ending, renamed: HashMap::new() }
    }

    /// Returns a path with this view's ending escaped in all its names.
    pub(crate) fn renamed(&mut self, path: &SharedPath) -> SharedPath {
        let known = |at: &SharedPath| self.renamed.get(&at.address()).map(|(_, renamed)| renamed.clone());
        let (mut renamed, new) = path.up_to_known(SharedPath::default(), known);
        for (prefix, name) in new {
            renamed = renamed.join(component(name, self.ending));
            self.renamed.insert(prefix.address(), (prefix.clone(), renamed.clone()));
        }
        renamed
    }
}

/// Returns a component with this view's ending escaped as in `content::names`.
pub(crate) fn component(part: &str, ending: &str) -> String {
    match part.strip_suffix(ending) {
        Some(stem) => format!("{stem}%2E{}", &ending[1..]),
        None => part.to_owned(),
    }
}
