//! Which arrays of the tree use which block.
//!
//! Looked for once, in one pass over the tree, when it is first asked. What is kept is bounded.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ndarray::{self, Ndarray, Source};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::format::ArrayPaths;
use crate::yaml::survey::{self, PathId, Paths};

/// A tree that is longer is not looked through.
const LONGEST_TREE: u64 = 256 << 20;
/// After so many arrays the looking ends.
const MOST_ARRAYS: usize = 1 << 17;
/// So many characters of paths are kept for a block.
const KEPT: usize = 64;

/// Looks through a tree for the arrays in its `blocks` blocks.
pub(super) fn find(tree: &dyn Content, blocks: usize) -> ArrayPaths {
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    if tree.len() > LONGEST_TREE {
        return ArrayPaths { found, complete: false };
    }
    let (mut arrays, enough) = (0, AtomicBool::new(false));
    let until_enough = UntilEnough { tree, enough: &enough };
    let surveyed = survey::check_tree(&until_enough, ndarray::WANTED, &mut |paths, node| {
        arrays += 1;
        enough.store(arrays >= MOST_ARRAYS, Ordering::Relaxed);
        let tag = node.tag.filter(|tag| ndarray::is_tag(tag));
        let array = tag.and_then(|tag| Ndarray::read(tag, node.value).ok());
        let Some(block @ Source::Block(_)) = array.map(|array| array.source) else { return };
        let Some(block) = block.block(blocks) else { return };
        let of_block = found.entry(block).or_default();
        if of_block.iter().map(String::len).sum::<usize>() < KEPT {
            of_block.push(dotted(paths, node.path));
        }
    });
    ArrayPaths { found, complete: surveyed.is_ok() }
}

/// A path as Python has it, `roman.data`, or the end of it where it is long.
fn dotted(paths: &Paths, path: Option<PathId>) -> String {
    let mut dotted = String::new();
    for (n, step) in paths.steps(path).into_iter().enumerate() {
        // Writing to a String can't fail.
        let _ = write!(dotted, "{}{step}", if n == 0 { "" } else { "." });
    }
    let from = dotted.char_indices().rev().nth(KEPT - 1).map_or(0, |(at, _)| at);
    match from {
        0 => dotted,
        _ => format!("...{}", &dotted[from..]),
    }
}

/// A tree whose reading ends in an error once there is enough of it.
#[derive(Debug)]
struct UntilEnough<'a> {
    tree: &'a dyn Content,
    enough: &'a AtomicBool,
}

impl Content for UntilEnough<'_> {
    fn len(&self) -> u64 {
        self.tree.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.enough.load(Ordering::Relaxed) {
            true => Err(Error::damaged("there are too many arrays")),
            false => self.tree.read_at(offset, buf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    fn tree(nodes: &str) -> Text {
        let text =
            format!("#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n");
        Text::new(text.into_bytes())
    }

    fn array(source: i64) -> String {
        format!("!core/ndarray-1.1.0 {{source: {source}, datatype: int8, byteorder: little, shape: [1]}}")
    }

    #[test]
    fn each_block_has_the_paths_of_its_arrays() {
        let nodes = format!(
            "roman: {{data: {}, err: {}}}\nlist:\n- {}\n- {}\ninline: !core/ndarray-1.1.0 [1]\nnone: {}\n",
            array(0),
            array(1),
            array(0),
            array(-1),
            array(7)
        );
        let found = find(&tree(&nodes), 3);
        assert!(found.complete);
        let of = |n| found.found.get(&n).map(|paths| paths.join(" "));
        assert_eq!(of(0).as_deref(), Some("roman.data list.0"));
        assert_eq!(of(1).as_deref(), Some("roman.err"));
        assert_eq!(of(2).as_deref(), Some("list.1"));
        assert_eq!(found.found.len(), 3);
    }

    #[test]
    fn what_is_kept_is_bounded_and_a_broken_tree_says_so() {
        let many: String = (0..1000).map(|n| format!("array{n:03}: {}\n", array(0))).collect();
        let found = find(&tree(&many), 1);
        assert!(found.complete && found.found[&0].len() == 8, "{found:?}");
        let long = format!("{}: {}\n", "long".repeat(100), array(0));
        assert_eq!(find(&tree(&long), 1).found[&0], [format!("...{}", "long".repeat(16))]);
        assert!(!find(&tree("a: [\n"), 1).complete);
        let too_many: String = (0..MOST_ARRAYS + 9).map(|n| format!("a{n}: {}\n", array(n as i64))).collect();
        let found = find(&tree(&too_many), usize::MAX);
        assert!(!found.complete && found.found.len() >= MOST_ARRAYS);
    }
}
