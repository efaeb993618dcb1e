//! Finds the arrays of a tree in one pass, and the arrays that use each block.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use asdf_tree::limits::{MAX_ELEMENT, MAX_EXPANDED, MAX_EXTERNALS, MAX_ITEMS, MAX_NOTES, MAX_SEARCHED};
use asdf_tree::yaml::document::Document;
use asdf_tree::yaml::event::{Mark, START};
use asdf_tree::yaml::survey::{
    NodeContent, PathId, Paths, Step, Survey, TreeNode, Wanted, WantedNode, nodes,
};
use seekable::content::Content;
use seekable::error::{Error, Kind, Result};
use seekable::workers::turns::in_turn;
use seekable::workers::while_waiting;

use super::super::computed::Computed;
use super::super::in_fits::FitsFile;
use super::super::ndarray::{self, Datatype, Ndarray, Source, TooLarge, chunked};
use super::super::view::{AsdfFile, Collector, Surveyed, View};
use super::entry::ArrayEntry;
use super::inline::{TreeText, measure};
use super::layout::{self, FoundArray};
use crate::container::{ArrayPaths, Defect, Severity};
use crate::folder::path_dir::Items;

/// Maximum number of characters of paths that are kept for a block.
const KEPT: usize = 64;
/// Maximum size of an element in numpy, in bytes.
const NUMPY_ELEMENT: u64 = i32::MAX as u64;

/// The arrays of a tree.
#[derive(Clone, Debug)]
pub struct FoundArrays {
    /// Files and links with their paths.
    pub items: Items<ArrayEntry>,
    /// The arrays that use each block.
    pub of_blocks: ArrayPaths,
    /// Notes on omitted arrays.
    pub defects: Vec<Defect>,
    /// The first arrays in other files, at most [`MAX_EXTERNALS`].
    pub(super) externals: Vec<ExternalArray>,
    /// The text from which arrays in the tree are read.
    pub(super) text: Option<Arc<TreeText>>,
}

/// An array in another file.
#[derive(Clone, Debug)]
pub(super) struct ExternalArray {
    /// The URI of the file.
    pub(super) uri: String,
    pub(super) array: Ndarray,
    /// The path, for messages.
    path: String,
    place: Mark,
}

impl ExternalArray {
    /// Returns the note for an array that can't be read.
    pub(super) fn defect(&self, why: &Error) -> Defect {
        note(self.place, format!("{} can't be read: {}", self.path, why.message()))
    }
}

impl FoundArrays {
    /// Adds a note on an array.
    pub(super) fn note(&mut self, place: Mark, what: impl FnOnce() -> String) {
        if self.defects.len() < MAX_NOTES {
            self.defects.push(note(place, what()));
        }
    }
}

fn note(place: Mark, what: String) -> Defect {
    let what = format!("line {}: {what}", place.line);
    Defect { severity: Severity::Note, offset: place.offset, block: None, what }
}

/// Returns the arrays of the tree. The first call surveys the tree for all views.
pub fn surveyed(file: &AsdfFile) -> Result<&FoundArrays> {
    if let Some(found) = file.computed.get() {
        return Ok(found);
    }
    let kept = file.kept_document();
    // The wait for memory comes before the others wait for this thread.
    let _room = kept.demand();
    let compute = || loop {
        // An index that is believed gives no sizes. An array that does not fit in its block then fails when it is read.
        let knows_sizes = file.knows_headers()?;
        let failure = OnceCell::new();
        let sizes = RefCell::new(HashMap::new());
        let size = |n| {
            if !knows_sizes {
                return None;
            }
            let known = sizes.borrow().get(&n).copied();
            known.unwrap_or_else(|| {
                // The survey goes on to its end, and its result is then discarded.
                let size = file.decoded_size(n).unwrap_or_else(|error| {
                    let _ = failure.set(error);
                    None
                });
                sizes.borrow_mut().insert(n, size);
                size
            })
        };
        let count = file.block_count()?;
        let blocks = ArrayBlocks { count, size: &size, is_count_sure: knows_sizes, failure: Some(&failure) };
        let text = file.tree();
        let found = in_turn(text.len(), || {
            let tree = UnsurveyedTree { text, document: kept.get()?, fits: file.fits.as_ref() };
            find(tree, blocks, file.views, &file.computed)
        });
        if found.is_err() && !knows_sizes && failure.get().is_some() {
            file.disbelieve_index();
            continue;
        }
        let found = found?;
        if !found.externals.is_empty() {
            file.note_externals();
        }
        return Ok(found);
    };
    // Other threads may wait here, too: their files refer to this one.
    while_waiting(|| file.computed.get_or_try_compute(compute))
}

/// A tree that is about to be surveyed.
#[derive(Debug)]
pub struct UnsurveyedTree<'t> {
    /// The text of the tree.
    pub text: Arc<dyn Content>,
    /// The document of the text.
    pub document: Arc<Document>,
    /// The FITS file that the tree is in.
    pub fits: Option<&'t FitsFile>,
}

/// The blocks of a file, in which its arrays lie.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // a callback
pub struct ArrayBlocks<'b> {
    /// The number of blocks.
    pub count: usize,
    /// A function that returns the decoded length of a block, if it is known.
    pub size: &'b dyn Fn(usize) -> Option<u64>,
    /// False if an index may list too few blocks.
    pub is_count_sure: bool,
    /// The first error of reading a header, or of an index that lists too few blocks. After one, sizes and count are
    /// not to be trusted.
    pub failure: Option<&'b OnceCell<Error>>,
}

/// Surveys a tree in one pass: finds its arrays, and passes to the collectors of `views` the nodes that they
/// want. The collectors keep their results in `computed`.
///
/// # Errors
/// The header of a block can't be read now.
pub fn find(
    tree: UnsurveyedTree<'_>,
    blocks: ArrayBlocks<'_>,
    views: &[&'static dyn View],
    computed: &Computed,
) -> Result<FoundArrays> {
    let UnsurveyedTree { text: tree, document, fits } = tree;
    let collectors = views.iter().filter_map(|view| Some((*view, view.collector()?))).collect();
    let mut finder = ArrayFinder {
        tree: &tree,
        blocks,
        arrays: Vec::new(),
        bare: Vec::new(),
        of_blocks: BTreeMap::new(),
        names: ArrayNames::default(),
        collectors,
        computed,
        fits,
        externals: Vec::new(),
        defects: Vec::new(),
        is_full: false,
    };
    let is_wanted = |tag: &str| chunked::is_tag(tag) || views.iter().any(|view| view.wants(tag));
    let reference = ndarray::REFERENCE;
    let wanted = Wanted { whole: &is_wanted, telling: &[], reference, ..ndarray::WANTED };
    let surveyed = nodes::survey(&document, wanted, &mut |paths, node| finder.take_node(paths, &node));
    if let Some(error) = blocks.failure.and_then(OnceCell::get) {
        return Err(error.clone());
    }
    let surveyed = match (surveyed, document.fault()) {
        (Err(broken), _) => Err(broken.error),
        (Ok(_), Some(fault)) if document.next_document().is_none() => Err(fault.clone()),
        (Ok(survey), _) => Ok(survey),
    };
    // The list of arrays is laid out without the document, which may be large.
    drop(document);
    if let Err(error) = &surveyed
        && error.kind() == Kind::Unsupported
    {
        let why = error.message();
        finder.leave_out(START, format!("its arrays and tables are not looked for: {why}"));
    }
    if finder.is_full {
        finder.leave_out(START, format!("there are more than {MAX_ITEMS} arrays: arrays/ shows none"));
    }
    Ok(finder.found(surveyed.ok()))
}

struct ArrayFinder<'f> {
    tree: &'f Arc<dyn Content>,
    blocks: ArrayBlocks<'f>,
    arrays: Vec<FoundArray>,
    /// Nodes that have the tag of an array but no content, and the reason why each is not an array.
    bare: Vec<(Option<PathId>, Mark, String)>,
    of_blocks: BTreeMap<usize, Vec<String>>,
    /// The names in `of_blocks`.
    names: ArrayNames,
    /// The views that want nodes, with their collectors.
    collectors: Vec<(&'static dyn View, Box<dyn Collector>)>,
    computed: &'f Computed,
    fits: Option<&'f FitsFile>,
    externals: Vec<ExternalArray>,
    defects: Vec<Defect>,
    /// True if there are too many arrays.
    is_full: bool,
}

type Why<T> = std::result::Result<T, String>;

impl ArrayFinder<'_> {
    fn take_node(&mut self, paths: &Paths, node: &WantedNode<'_>) {
        let Some(tag) = node.tag else { return };
        if chunked::is_tag(tag) && !self.is_full {
            self.take_chunked(paths, tag, node);
        }
        if ndarray::is_tag(tag) && !self.is_full {
            match Ndarray::read_leniently(tag, node.value) {
                // The node has a tag but no content: a FITS file in the tree may have the keys of an array
                // beside this node, instead of in it.
                Err(fault) if is_bare(node.value) && self.bare.len() < MAX_SEARCHED => {
                    self.bare.push((node.path, node.value.place, fault.what));
                }
                read => self.add(paths, node.path, node.value.place, read),
            }
        }
        let mut collectors = std::mem::take(&mut self.collectors);
        for (_, collector) in collectors.iter_mut().filter(|(view, _)| view.wants(tag)) {
            collector.on_node(paths, node, &|array| self.fits_in_block(array).err());
            for (place, array) in collector.bare_arrays() {
                if let Some(at) = self.bare.iter().position(|(_, bare, _)| *bare == place) {
                    let (path, place, _) = self.bare.swap_remove(at);
                    self.add(paths, path, place, Ok((array, None)));
                }
            }
        }
        self.collectors = collectors;
    }

    /// Takes an array in chunks in place of the arrays that are its chunks.
    fn take_chunked(&mut self, paths: &Paths, tag: &str, node: &WantedNode<'_>) {
        let read = chunked::read(tag, node.value);
        if read.is_ok() {
            while self.arrays.last().is_some_and(|last| is_below(paths, last.path, node.path)) {
                self.arrays.pop();
            }
        }
        self.add(paths, node.path, node.value.place, read.map(|array| (array, None)));
    }

    fn add(
        &mut self,
        paths: &Paths,
        path: Option<PathId>,
        place: Mark,
        read: std::result::Result<(Ndarray, Option<ndarray::NodeFault>), ndarray::NodeFault>,
    ) {
        let array = match read {
            Ok((array, wrong)) => {
                if let Some(fault) = wrong {
                    let what = format!("arrays/ leaves out the mask of {}: {}", paths.show(path), fault.what);
                    self.leave_out(fault.place, what);
                }
                self.take_readable(paths, path, place, array)
            }
            Err(fault) => Err(fault.what),
        };
        match array {
            Ok(_) if self.arrays.len() >= MAX_ITEMS => {
                self.is_full = true;
                self.arrays = Vec::new();
            }
            Ok(array) => self.arrays.push(FoundArray { path, place, array: Arc::new(array) }),
            Err(_) if self.defects.len() >= MAX_NOTES => {}
            Err(why) => self.leave_out(place, format!("arrays/ leaves out {}: {why}", paths.show(path))),
        }
    }

    /// Returns an array that can be shown, or the reason why it can't.
    fn take_readable(
        &mut self,
        paths: &Paths,
        path: Option<PathId>,
        place: Mark,
        mut array: Ndarray,
    ) -> Why<Ndarray> {
        match &array.source {
            source @ Source::Block(_) => {
                if let Some(number) = source.block(self.blocks.count) {
                    let name = self.names.new_name(dotted(paths, path));
                    let of_block = self.of_blocks.entry(number).or_default();
                    if of_block.iter().map(String::len).sum::<usize>() < KEPT {
                        of_block.push(name);
                    }
                }
                self.fits_in_block(&array)?;
            }
            Source::External(uri) => {
                if self.externals.len() < MAX_EXTERNALS {
                    let uri = uri.clone();
                    let path = paths.show(path);
                    self.externals.push(ExternalArray { uri, array: array.clone(), path, place });
                }
            }
            Source::Hdu(source) => match self.fits {
                Some(fits) => fits.complete(&mut array)?,
                None => {
                    return Err(format!(
                        "it is in the extension \"{}\" of a FITS file",
                        source.escape_debug()
                    ));
                }
            },
            Source::Elsewhere(_) | Source::Chunked(_) => {}
            // The aliases are resolved at the end of the tree.
            Source::Inline(inline) if inline.has_aliases() => return Ok(array),
            Source::Inline(_) => infer_inline(&mut array)?,
        }
        element_fits(&array, NUMPY_ELEMENT)?;
        Ok(array)
    }

    fn fits_in_block(&self, array: &Ndarray) -> Why<()> {
        fits_in_block(array, self.blocks)
    }

    fn leave_out(&mut self, place: Mark, what: String) {
        if self.defects.len() < MAX_NOTES {
            self.defects.push(note(place, what));
        }
    }

    fn found(mut self, surveyed: Option<Survey>) -> FoundArrays {
        let complete = surveyed.is_some() && !self.is_full;
        let mut items = Vec::new();
        let mut text = None;
        if let Some(survey) = &surveyed {
            for (path, place, why) in std::mem::take(&mut self.bare) {
                self.leave_out(place, format!("arrays/ leaves out {}: {why}", survey.paths.show(path)));
            }
            text = TreeText::new(self.tree, &survey.aliases).ok().map(Arc::new);
            self.measure_aliased(&survey.paths, text.as_ref());
        }
        self.end_collectors(surveyed.as_ref());
        if let Some(survey) = &surveyed {
            let (lost_masks, is_full);
            (items, lost_masks, is_full) = layout::items(survey, std::mem::take(&mut self.arrays));
            if is_full {
                let what = "arrays/ leaves out what follows: there are more than 131072 links, or references \
                            into other files, or the targets of links take more than 16 MiB";
                self.leave_out(START, what.to_owned());
            }
            for lost in lost_masks {
                let what = format!("arrays/ leaves out the mask of {}: {}", lost.of, lost.why);
                self.leave_out(lost.place, what);
            }
        }
        let of_blocks = ArrayPaths { found: self.of_blocks, complete };
        let externals = self.externals;
        let defects = self.defects;
        FoundArrays { items: Items::new(items), of_blocks, defects, externals, text }
    }

    fn end_collectors(&mut self, survey: Option<&Survey>) {
        let collectors = std::mem::take(&mut self.collectors);
        let arrays: Vec<_> = self.arrays.iter().map(|found| (found.path, &*found.array)).collect();
        let unfit = |array: &Ndarray| self.fits_in_block(array).err();
        let surveyed = survey.map(|survey| Surveyed { survey, arrays: &arrays, unfit: &unfit });
        for (_, collector) in collectors {
            collector.end(surveyed.as_ref(), self.computed);
        }
    }

    /// Measures the arrays that contain aliases.
    fn measure_aliased(&mut self, paths: &Paths, text: Option<&Arc<TreeText>>) {
        let mut parts_left = MAX_EXPANDED;
        for mut found in std::mem::take(&mut self.arrays) {
            let why = match (&found.array.source, text) {
                (Source::Inline(inline), Some(text)) if inline.has_aliases() => {
                    let array = Arc::make_mut(&mut found.array);
                    measure_inline(array, text, &mut parts_left).err()
                }
                _ => None,
            };
            match why {
                None => self.arrays.push(found),
                Some(why) => {
                    let what = format!("arrays/ leaves out {}: {why}", paths.show(found.path));
                    self.leave_out(found.place, what);
                }
            }
        }
    }
}

/// Measures an array in the tree, and sets its type and shape. Returns the reason if it can't be shown.
fn measure_inline(array: &mut Ndarray, text: &Arc<TreeText>, parts_left: &mut u64) -> Why<()> {
    if let Source::Inline(inline) = &mut array.source {
        measure(text, inline, parts_left).map_err(|error| error.message().to_owned())?;
    }
    infer_inline(array)
}

/// Returns the reason why an array does not fit in its block. An array that is not in a block always fits.
pub(crate) fn fits_in_block(array: &Ndarray, blocks: ArrayBlocks<'_>) -> Why<()> {
    let Source::Block(n) = array.source else { return Ok(()) };
    let Some(number) = array.source.block(blocks.count) else {
        if !blocks.is_count_sure
            && let Some(failure) = blocks.failure
        {
            let _ = failure.set(Error::damaged("the index lists too few blocks"));
        }
        return Err(format!("there is no block {n}"));
    };
    if let Some(size) = (blocks.size)(number) {
        let extent = array.extent(size).ok_or("its datatype has too many fields")?;
        extent.map_err(|why: TooLarge| format!("{why}, and block {number} has {size}"))?;
    }
    Ok(())
}

/// True if a path lies below another one.
fn is_below(paths: &Paths, path: Option<PathId>, of: Option<PathId>) -> bool {
    let mut at = path;
    while let Some((parent, _)) = paths.last(at) {
        if parent == of {
            return true;
        }
        at = parent;
    }
    false
}

/// True if a node has no content. It may have a tag.
fn is_bare(node: &TreeNode) -> bool {
    matches!(&node.target().node, NodeContent::Scalar { text, .. } if text.is_empty())
}

/// Sets the type and shape of an array in the tree, or returns the reason why it can't be shown.
fn infer_inline(array: &mut Ndarray) -> Why<()> {
    array.infer_inline()?;
    element_fits(array, MAX_ELEMENT)
}

fn element_fits(array: &Ndarray, largest: u64) -> Why<()> {
    match array.datatype.as_ref().and_then(Datatype::size) {
        Some(size) if size > largest => Err(format!("its elements take {size} bytes each")),
        Some(_) => Ok(()),
        None => Err("the size of its elements is beyond 64 bits".to_owned()),
    }
}

/// The number of arrays with each name, by a digest of the name: the keys `1` and `'1'` give equal names.
#[derive(Default)]
struct ArrayNames(HashMap<u64, u32>);

impl ArrayNames {
    /// Returns `name`, with `~1`, `~2` and so on appended if an earlier array has this name, as in `arrays/`.
    fn new_name(&mut self, name: String) -> String {
        let count = self.0.entry(twox_hash::XxHash64::oneshot(0, name.as_bytes())).or_default();
        *count += 1;
        // `dotted` keeps only the end of a long path, so equal names may belong to different paths.
        if *count == 1 || name.starts_with("...") { name } else { format!("{name}~{}", *count - 1) }
    }
}

/// Formats a path in Python's notation, `roman.data`. Of a long path only the end is kept.
fn dotted(paths: &Paths, path: Option<PathId>) -> String {
    let mut steps = Vec::new();
    let mut len = 0;
    let mut at = path;
    // Builds only the part that is kept: there may be many paths, and they may be long.
    while len <= KEPT
        && let Some((parent, step)) = paths.last(at)
    {
        let text = match step {
            Step::Key(key) => end_of(key).escape_debug().to_string(),
            Step::Item(n) => n.to_string(),
        };
        len += text.chars().count() + 1;
        steps.push(text);
        at = parent;
    }
    steps.reverse();
    let dotted = steps.join(".");
    let from = dotted.char_indices().rev().nth(KEPT - 1).map_or(0, |(byte, _)| byte);
    match from {
        0 => dotted,
        _ => format!("...{}", &dotted[from..]),
    }
}

/// Returns the end of a key: one character more than a path keeps ([`KEPT`]), or the whole key if it is
/// shorter.
fn end_of(key: &str) -> &str {
    let from = key.char_indices().rev().nth(KEPT).map_or(0, |(at, _)| at);
    key.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
