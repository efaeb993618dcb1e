//! Links to the FITS files in which the data of a node lie, as in the datasets of DKIST (`fileuris`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_tree::yaml::survey::{NodeContent, TreeNode};

/// Prefixes of the tags of nodes with file names.
const TAGS: [&str; 2] =
    ["asdf://dkist.nso.edu/tags/file_manager-", "tag:dkist.nso.edu:dkist/array_container-"];
/// Maximum number of names in all nodes.
pub(super) const MAX_NAMES: usize = 1 << 17;
/// Maximum length of a name, and of a path, in bytes.
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 2048;

/// True for the tag of a node with file names.
pub(super) fn is_tag(tag: &str) -> bool {
    TAGS.iter().any(|known| tag.starts_with(known))
}

/// The paths of files, relative to the directory of the ASDF file, each with the name of its link.
pub(super) type FilePaths = Arc<[(Box<str>, Box<str>)]>;

/// Returns the paths that a node names. Paths that may lead out of the directory of the ASDF file are left out.
pub(super) fn files(node: &TreeNode, max: usize) -> Option<FilePaths> {
    let mut uris = Vec::new();
    add(node.get("fileuris")?, max, &mut uris);
    let mut files = Vec::new();
    let mut taken = HashSet::new();
    let mut known = HashSet::new();
    // The copies of a name so far: many files may have one name in different directories.
    let mut copies: HashMap<&str, u64> = HashMap::new();
    for uri in uris {
        let Some(name) = uri.rsplit('/').next().filter(|_| is_below(uri) && known.insert(uri)) else {
            continue;
        };
        let mut link = name.to_owned();
        while !taken.insert(link.clone()) {
            let copy = copies.entry(name).or_default();
            *copy += 1;
            let (stem, ending) = name.rsplit_once('.').unwrap_or((name, "fits"));
            link = format!("{stem}~{copy}.{ending}");
        }
        files.push((link.into(), uri.into()));
    }
    (!files.is_empty()).then(|| files.into())
}

/// Adds the texts in nested lists.
fn add<'n>(node: &'n TreeNode, max: usize, uris: &mut Vec<&'n str>) {
    match &node.target().node {
        NodeContent::Sequence(items, _) => {
            for item in items {
                if uris.len() < max {
                    add(item, max, uris);
                }
            }
        }
        // An array of texts in the tree.
        NodeContent::Mapping(_) => {
            if let Some(data) = node.get("data") {
                add(data, max, uris);
            }
        }
        _ => uris.extend(node.target().text()),
    }
}

/// True for a path to a file in a directory or below it.
fn is_below(path: &str) -> bool {
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
    };
    path.len() <= MAX_PATH && !path.contains("://") && path.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_directory_are_links() {
        for path in ["a.fits", "b/c d.fits", "ß.fits"] {
            assert!(is_below(path), "{path}");
        }
        for path in ["", "/a.fits", "../a.fits", "a/../../b.fits", "https://a/b.fits", "a//b", "a\nb", "./a"]
        {
            assert!(!is_below(path), "{path}");
        }
    }
}
