//! Finds the arrays of a tree, in one pass, and which of them use which block.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::ndarray::{self, Ndarray, Source, TooLarge};
use crate::content::Content;
use crate::content::names::Names;
use crate::content::path_folder::{Item, Items};
use crate::error::{Error, Result};
use crate::format::{ArrayPaths, Defect, Severity};
use crate::yaml::parser::Events;
use crate::yaml::survey::{self, Commented, PathId, Paths, Step};

/// A tree that is longer is not looked through.
const LONGEST_TREE: u64 = 256 << 20;
/// After so many arrays the looking ends.
const MOST_ARRAYS: usize = 1 << 17;
/// So many characters of paths are kept for a block.
const KEPT: usize = 64;
/// So many arrays that are left out are reported.
const MOST_DEFECTS: usize = 100;
/// The longest path that is shown, in bytes: Linux takes no path of 4096.
const LONGEST_PATH: usize = 3000;

/// The ending of the files.
const ENDING: &str = ".npy";
const NAMES: Names = Names { endings: &[ENDING, ".mask"] };

/// What lies at a path.
#[derive(Debug)]
pub(in super::super) enum Entry {
    /// An array in a block.
    Array(Box<Ndarray>),
    /// A symbolic link with this text: a node that is mentioned by its anchor.
    Link(Box<str>),
}

/// The arrays of a tree.
#[derive(Debug)]
pub(in super::super) struct Found {
    /// The files and links, at their paths.
    pub items: Items<Entry>,
    /// Which block is used by which arrays.
    pub of_blocks: ArrayPaths,
    /// Arrays that are left out.
    pub defects: Vec<Defect>,
}

/// Looks through a tree. `blocks` are counted, `size` gives the decoded bytes of one, if they are known.
pub(in super::super) fn find(
    tree: &dyn Content,
    blocks: usize,
    size: &dyn Fn(usize) -> Option<u64>,
) -> Found {
    let mut finder =
        Finder { blocks, size, arrays: Vec::new(), of_blocks: BTreeMap::new(), defects: Vec::new() };
    if tree.len() > LONGEST_TREE {
        finder.leave_out(0, "the tree is longer than 256 MiB: its arrays are not looked for".to_owned());
        return finder.found(None);
    }
    let enough = AtomicBool::new(false);
    let until_enough = UntilEnough { tree, enough: &enough };
    let tree = Commented(&until_enough);
    let surveyed = survey::survey(Events::of(&tree), ndarray::WANTED, &mut |paths, node| {
        if finder.arrays.len() >= MOST_ARRAYS {
            enough.store(true, Ordering::Relaxed);
        } else if let Some(tag) = node.tag.filter(|tag| ndarray::is_tag(tag)) {
            finder.take(paths, node.path, node.value.place.offset, Ndarray::read(tag, node.value));
        }
    });
    if surveyed.is_err() && enough.load(Ordering::Relaxed) {
        finder.leave_out(0, format!("there are more than {MOST_ARRAYS} arrays: arrays/ shows none"));
    }
    finder.found(surveyed.ok())
}

struct Finder<'f> {
    blocks: usize,
    size: &'f dyn Fn(usize) -> Option<u64>,
    arrays: Vec<(Option<PathId>, Box<Ndarray>)>,
    of_blocks: BTreeMap<usize, Vec<String>>,
    defects: Vec<Defect>,
}

impl Finder<'_> {
    fn take(
        &mut self,
        paths: &Paths,
        path: Option<PathId>,
        offset: u64,
        array: std::result::Result<Ndarray, ndarray::Trouble>,
    ) {
        let why = match array {
            Ok(array) => match self.take_readable(paths, path, array) {
                Ok(()) => return,
                Err(why) => why,
            },
            Err(trouble) => trouble.what,
        };
        self.leave_out(offset, format!("arrays/ leaves out {}: {why}", paths.show(path)));
    }

    /// Takes an array, or says why it is left out.
    fn take_readable(
        &mut self,
        paths: &Paths,
        path: Option<PathId>,
        array: Ndarray,
    ) -> std::result::Result<(), String> {
        let number = match &array.source {
            source @ Source::Block(n) => {
                source.block(self.blocks).ok_or_else(|| format!("there is no block {n}"))?
            }
            Source::External(uri) => return Err(format!("it lies in another file, {uri}")),
            Source::Inline(_) => return Err("its elements are in the tree".to_owned()),
        };
        let of_block = self.of_blocks.entry(number).or_default();
        if of_block.iter().map(String::len).sum::<usize>() < KEPT {
            of_block.push(dotted(paths, path));
        }
        if let Some(size) = (self.size)(number) {
            let extent = array.extent(size).ok_or("its datatype has too many fields")?;
            extent.map_err(|why: TooLarge| format!("{why}, and block {number} has {size}"))?;
        }
        self.arrays.push((path, Box::new(array)));
        Ok(())
    }

    fn leave_out(&mut self, offset: u64, what: String) {
        if self.defects.len() < MOST_DEFECTS {
            self.defects.push(Defect { severity: Severity::Note, offset, block: None, what });
        }
    }

    fn found(mut self, surveyed: Option<survey::Survey>) -> Found {
        let complete = surveyed.is_some();
        let mut items = Vec::new();
        if let Some(survey) = surveyed {
            let mut places = Places { paths: &survey.paths, nodes: HashMap::new(), taken: HashSet::new() };
            let masked: HashSet<Vec<&Step>> =
                self.arrays.iter().map(|(path, _)| survey.paths.steps(*path)).collect();
            for (path, array) in std::mem::take(&mut self.arrays) {
                let steps = survey.paths.steps(path);
                items.extend(places.file(&steps, is_mask(&steps, &masked), Entry::Array(array)));
            }
            for alias in &survey.aliases {
                items.extend(places.link(alias.path, alias.target));
            }
        }
        let of_blocks = ArrayPaths { found: self.of_blocks, complete };
        Found { items: Items::new(items), of_blocks, defects: self.defects }
    }
}

/// Whether the node with these steps is the mask of an array.
fn is_mask(steps: &[&Step], arrays: &HashSet<Vec<&Step>>) -> bool {
    let Some((Step::Key(last), above)) = steps.split_last() else { return false };
    &**last == "mask" && arrays.contains(above)
}

/// Where things are shown.
struct Places<'p> {
    paths: &'p Paths,
    /// What is shown for the node at a path: an array's file (true) or the folder of those below it.
    nodes: HashMap<Vec<String>, bool>,
    taken: HashSet<Vec<String>>,
}

impl Places<'_> {
    /// The file of the array at `steps`; `None` if its path is too long.
    fn file(&mut self, steps: &[&Step], is_mask: bool, what: Entry) -> Option<Item<Entry>> {
        let mut path = components(steps);
        let mut ending = ENDING.to_owned();
        if is_mask {
            path.pop();
            ending = format!(".mask{ENDING}");
        }
        for depth in 1..path.len() {
            self.nodes.entry(path[..depth].to_vec()).or_insert(false);
        }
        if !is_mask {
            self.nodes.insert(path.clone(), true);
        }
        self.item(path, &ending, what)
    }

    /// A link from the place where a node is mentioned to the one where it is, if something is shown there.
    fn link(&mut self, from: Option<PathId>, to: Option<PathId>) -> Option<Item<Entry>> {
        let (from, mut to) = (components(&self.paths.steps(from)), components(&self.paths.steps(to)));
        let ending = if *self.nodes.get(&to)? { ENDING } else { "" };
        to.last_mut()?.push_str(ending);
        // Nothing lies below both but what they share.
        let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        let shared = shared.min(from.len() - 1).min(to.len() - 1);
        let up = std::iter::repeat_n("..", from.len() - 1 - shared);
        let text = up.chain(to[shared..].iter().map(String::as_str)).collect::<Vec<_>>().join("/");
        self.item(from, ending, Entry::Link(text.into()))
    }

    /// An item whose file name is that of no other.
    fn item(&mut self, path: Vec<String>, ending: &str, what: Entry) -> Option<Item<Entry>> {
        let length: usize = path.iter().map(|component| component.len() + 1).sum();
        let stem = path.last().filter(|_| length <= LONGEST_PATH)?;
        let mut file = format!("{stem}{ending}");
        let (mut full, mut copy) = (path.clone(), 0);
        loop {
            if let Some(last) = full.last_mut() {
                last.clone_from(&file);
            }
            if self.taken.insert(full.clone()) {
                return Some(Item { path: path.into(), file, what });
            }
            copy += 1;
            file = format!("{stem}~{copy}{ending}");
        }
    }
}

/// The components of a node's path: keys and numbers of items.
fn components(steps: &[&Step]) -> Vec<String> {
    let mut components = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Key(key) => components.extend(NAMES.component(key.as_bytes())),
            Step::Item(n) => components.push(n.to_string()),
        }
    }
    if components.is_empty() {
        components.extend(NAMES.component(b""));
    }
    components
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

    fn paths_of(tree: &Text, blocks: usize) -> ArrayPaths {
        find(tree, blocks, &|_| None).of_blocks
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
        let found = paths_of(&tree(&nodes), 3);
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
        let found = paths_of(&tree(&many), 1);
        assert!(found.complete && found.found[&0].len() == 8, "{found:?}");
        let long = format!("{}: {}\n", "long".repeat(100), array(0));
        assert_eq!(paths_of(&tree(&long), 1).found[&0], [format!("...{}", "long".repeat(16))]);
        assert!(!paths_of(&tree("a: [\n"), 1).complete);
        let too_many: String = (0..MOST_ARRAYS + 9).map(|n| format!("a{n}: {}\n", array(n as i64))).collect();
        let found = paths_of(&tree(&too_many), usize::MAX);
        assert!(!found.complete && found.found.len() >= MOST_ARRAYS);
    }

    /// Files and links, listed.
    fn shown(nodes: &str) -> Vec<String> {
        let found = find(&tree(nodes), 9, &|_| Some(1));
        let shown = found.items.iter().map(|item| match &item.what {
            Entry::Array(_) => item.components().collect::<Vec<_>>().join("/"),
            Entry::Link(text) => format!("{} -> {text}", item.components().collect::<Vec<_>>().join("/")),
        });
        shown.collect()
    }

    #[test]
    fn arrays_lie_at_the_paths_of_their_keys() {
        let nodes = format!("a: {0}\n'x/y': {{'..': {0}, x.npy: {0}}}\nl:\n- {0}\n", array(0));
        assert_eq!(shown(&nodes), ["a.npy", "l/0.npy", "x%2Fy/%2E%2E.npy", "x%2Fy/x%2Enpy.npy"]);
        // A number and a text are different keys, and look the same.
        assert_eq!(shown(&format!("1: {0}\n'1': {0}\n", array(0))), ["1.npy", "1~1.npy"]);
    }

    #[test]
    fn what_is_mentioned_again_is_a_link() {
        let nodes = format!(
            "a: {{b: &array {0}, c: &folder {{d: {0}}}}}\nx: *array\ny: {{z: *folder}}\nw: &word text\nv: *word\n\
             same: [*array]\n",
            array(0)
        );
        let expected =
            ["a/b.npy", "a/c/d.npy", "same/0.npy -> ../a/b.npy", "x.npy -> a/b.npy", "y/z -> ../a/c"];
        assert_eq!(shown(&nodes), expected);
        let within = format!("a: {{b: &array {0}, c: *array}}\n", array(0));
        assert_eq!(shown(&within), ["a/b.npy", "a/c.npy -> b.npy"]);
    }

    #[test]
    fn a_mask_stands_beside_its_array() {
        let node =
            "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: little, shape: [1], mask: MASK}";
        let nodes = format!(
            "image: {}\nmask: {}\n",
            node.replace("MASK", &array(1).replace("int8", "bool8")),
            array(2)
        );
        assert_eq!(shown(&nodes), ["image.mask.npy", "image.npy", "mask.npy"]);
    }

    #[test]
    fn what_cannot_be_shown_is_left_out_with_its_reason() {
        let nodes =
            format!("gone: {}\nlarge: {}\nhere: [1]\nin: !core/ndarray-1.1.0 [1]\n", array(9), array(1));
        let found = find(&tree(&nodes), 3, &|_| Some(0));
        assert!(found.items.is_empty());
        let told: Vec<_> = found.defects.iter().map(|defect| defect.what.as_str()).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0], "arrays/ leaves out gone: there is no block 9");
        assert_eq!(told[1], "arrays/ leaves out large: it takes 1 bytes, and block 1 has 0");
        assert_eq!(told[2], "arrays/ leaves out in: its elements are in the tree");
    }
}
