//! `fits/`: one file `PATH.fits` for each array that FITS can store, and FITS files that nodes of the tree
//! describe.
//!
//! | module | what it does |
//! |---|---|
//! | [`nodes`] | collects, during the survey of the tree, the nodes that only this view needs |
//! | [`document`], [`table`] | a FITS file described by a node (`fits/fits`); its tables |
//! | [`wcs`], [`values`], [`unit`](mod@unit) | world coordinates; their numbers; units of these |
//! | [`frames`] | the meaning of world coordinates |
//! | [`model`], [`projection`], [`rotation`] | the models of a transform |
//! | [`forms`] | models that FITS can express exactly |
//! | [`sip`] | any other transform: its fit by TAN-SIP |
//! | [`sky`], [`celestial`] | the part of the sky that an image covers; pixels on the sky by cards |
//! | [`cutout`](mod@cutout) | a part of an image around a position |
//! | [`required`] | card values that are determined by the data |
//! | [`blank`] | masked elements |
//! | [`image`] | an array as the data of an image |
//! | [`card`] | cards of a header |
//! | [`records`] | a structured array as a table |
//! | [`groups`] | images of a mapping as the extensions of a file |
//! | [`elsewhere`] | links to FITS files that the tree names |
//! | [`headers`], [`sliced`] | headers that the tree has for an image; slices of them, and other resolutions |
//! | [`keywords`] | cards that people search by |
//! | [`build`] | headers and data as a file |

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use asdf_file::asdf::arrays::{
    self, ArrayEntry, ArrayPart, Elements, Masked, elements_of, file_of_all, file_of_mask,
};
use asdf_file::asdf::ndarray::Datatype;
use asdf_file::asdf::view::{AsdfFile, Collector, Directory, View};
use asdf_file::container::{Defect, Footprint};
use asdf_file::folder::path_dir::{Item, Items, PathDir};
use asdf_file::folder::path_tree::{Id, PathTree};
use asdf_file::folder::shared_path::SharedPath;
use asdf_file::folder::{File, Node, Renewal};
use seekable::content::Text;
use seekable::error::{Result, if_readable};

use super::same_paths::{self, Dirs, FileOrLink};

mod blank;
mod build;
mod card;
mod celestial;
mod cutout;
mod document;
mod elsewhere;
mod forms;
mod frames;
mod groups;
mod headers;
mod image;
mod keywords;
mod model;
mod nodes;
mod projection;
mod records;
mod required;
mod rotation;
mod sip;
mod sky;
mod sliced;
mod table;
mod unit;
mod values;
mod wcs;

use card::Cards;
use cutout::Part;
pub use cutout::{Cutout, CutoutRequest, CutoutSize, cutout};
use groups::{Group, GroupImage};
use nodes::Nodes;

/// The file name suffix.
const ENDING: &str = ".fits";

/// The node at a path of `fits/`.
#[derive(Clone, Debug)]
enum FitsEntry {
    /// The file of the array with this number in the survey's items.
    Array(usize),
    /// The FITS file described by the node with this index in `Nodes::documents`.
    Document(usize),
    /// The images with this index in `Entries::groups`.
    Group(usize),
    /// A symbolic link with this target.
    Link(Box<str>),
}

/// The entries of the directory.
struct Entries {
    items: Items<FitsEntry>,
    groups: Vec<Group>,
    /// The masks of arrays, by the numbers of the arrays in the survey's items.
    masks: HashMap<usize, Masked>,
}

/// The directory `fits/`.
#[derive(Debug)]
pub(crate) struct Fits;

impl View for Fits {
    fn name(&self) -> &'static str {
        "fits"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Directory { file: file.clone(), find: dir, is_slow }.node())
    }

    fn wants(&self, tag: &str) -> bool {
        nodes::is_tag(tag)
    }

    fn collector(&self) -> Option<Box<dyn Collector>> {
        Some(Box::new(nodes::NodeFinder::default()))
    }

    fn footprints(&self, file: &Arc<AsdfFile>) -> Result<Vec<Footprint>> {
        sky::footprints(file)
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        let Some(nodes) = file.computed.get::<Nodes>() else { return Vec::new() };
        let mut defects = nodes.defects.clone();
        defects.extend(unsolved(nodes));
        defects
    }
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<FitsEntry>> {
    let items = &entries(file)?.items;
    let file = file.clone();
    let make = move |shown: &FitsEntry| {
        Ok(match shown {
            FitsEntry::Array(number) => Node::File(array_file(&file, *number)?),
            FitsEntry::Document(number) => Node::File(document_file(&file, *number)?),
            FitsEntry::Group(number) => Node::File(group_file(&file, *number)?),
            FitsEntry::Link(target) => Node::Link(OsString::from(&**target)),
        })
    };
    Ok(PathDir::new(items, make).with_links(|shown| matches!(shown, FitsEntry::Link(_))))
}

fn entries(file: &Arc<AsdfFile>) -> Result<&Entries> {
    file.computed.get_or_try_compute(|| shown(file))
}

fn is_slow(file: &AsdfFile) -> bool {
    // The numbers of world coordinates may lie in blocks that must be decoded first.
    let needs_none = |nodes: &Nodes| {
        nodes.solutions.is_empty() && nodes.headers.values().all(|header| header.numbers().next().is_none())
    };
    let is_slow = |entries: &Entries| !entries.items.is_empty() && !nodes_of(file).is_ok_and(needs_none);
    file.computed.get().is_none_or(is_slow)
}

/// Returns the nodes that the survey found for this view.
fn nodes_of(file: &AsdfFile) -> Result<&Nodes> {
    arrays::surveyed(file)?;
    Ok(file.computed.get_or_compute(Nodes::default))
}

/// Returns all files and links.
fn shown(file: &AsdfFile) -> Result<Entries> {
    let found = arrays::found(file)?;
    let nodes = nodes_of(file)?;
    let tables = nodes.documents[..nodes.described].iter().filter(|(_, document)| document.is_table());
    let tables: HashSet<String> = tables.map(|(path, _)| path.names().join("/")).collect();
    // The columns of a table are in its file.
    let is_column = |item: &Item<ArrayEntry>| {
        let path = path_of(item);
        !tables.is_empty() && (1..path.len()).any(|len| tables.contains(&path[..len].join("/")))
    };
    let of_arrays = same_paths::with_ending(found, ENDING, |item| match &item.what {
        ArrayEntry::Array(array) => (image::can_be(array) || records::can_be(array)) && !is_column(item),
        ArrayEntry::Mask(masked) if is_column(item) => false,
        ArrayEntry::Mask(masked) => image::has_axes(&masked.of) && !masked.has_fields(),
        ArrayEntry::Link(_) | ArrayEntry::Reference(..) | ArrayEntry::Unread(_) | ArrayEntry::Pending(..) => {
            false
        }
    });
    let mut items: Vec<Item<FitsEntry>> = of_arrays
        .iter()
        .map(|item| Item {
            dir: item.dir.clone(),
            file: item.file.clone(),
            what: match &item.what {
                FileOrLink::Array(number) => FitsEntry::Array(*number),
                FileOrLink::Link(target) => FitsEntry::Link(target.clone()),
            },
        })
        .collect();
    let mut dirs = Dirs::new(ENDING);
    for (path, files) in &nodes.files {
        let dir = dirs.renamed(path);
        // From a directory of `fits/` to the directory of the ASDF file.
        let up = "../".repeat(dir.names().len() + 2);
        items.extend(files.iter().map(|(name, target)| Item {
            dir: dir.clone(),
            file: name.to_string(),
            what: FitsEntry::Link(format!("{up}{target}").into()),
        }));
    }
    let Nodes { documents, mentions, .. } = nodes;
    let mut groups = groups::find(found, arrays::units(file)?);
    // The columns of a mapping are one table.
    let of_mappings = documents[nodes.described..].iter().map(|(path, _)| path.names().join("/"));
    let of_mappings: HashSet<String> = of_mappings.collect();
    groups.retain(|group| !of_mappings.contains(&group.path.names().join("/")));
    let masks = blank::masks(found, &nodes.cubes);
    if documents.is_empty() && groups.is_empty() {
        return Ok(Entries { items: Items::new(items), groups, masks });
    }
    let mut places = FreePlaces::new(&items);
    let mut of_documents = Vec::with_capacity(documents.len());
    for (number, (path, _)) in documents.iter().enumerate() {
        let Some((item, dir)) = places.item(path, FitsEntry::Document(number)) else {
            return Ok(Entries { items: Items::new(items), groups, masks });
        };
        of_documents.push((dir, item.file.clone()));
        items.push(item);
    }
    for (path, number) in mentions {
        let target = of_documents.get(*number);
        let link = target.and_then(|target| places.link(path, target));
        items.extend(link);
    }
    for (number, group) in groups.iter().enumerate() {
        items.extend(places.item(&group.path, FitsEntry::Group(number)).map(|(item, _)| item));
    }
    Ok(Entries { items: Items::new(items), groups, masks })
}

/// Paths of described files, and the names that are taken.
struct FreePlaces {
    dirs: Dirs,
    tree: PathTree,
    taken: HashSet<(Id, String)>,
}

impl FreePlaces {
    fn new(items: &[Item<FitsEntry>]) -> Self {
        let mut tree = PathTree::new(usize::MAX);
        let taken = items.iter().filter_map(|item| Some((tree.add(&item.dir)?, item.file.clone())));
        let taken = taken.collect();
        Self { dirs: Dirs::new(ENDING), tree, taken }
    }

    /// Creates the view's entry for a file at a path, with an unused file name. Also returns the ID of the
    /// directory that contains the entry.
    fn item(&mut self, path: &SharedPath, what: FitsEntry) -> Option<(Item<FitsEntry>, Id)> {
        let (dir, stem) = path.split_last()?;
        let stem = same_paths::component(stem, ENDING);
        let dir = self.dirs.renamed(dir);
        let id = self.tree.add(&dir)?;
        let mut file = format!("{stem}{ENDING}");
        let mut copy = 0;
        while !self.taken.insert((id, file.clone())) {
            copy += 1;
            file = format!("{stem}~{copy}{ENDING}");
        }
        Some((Item { dir, file, what }, id))
    }

    /// Returns a link at a path to a file in a directory.
    fn link(&mut self, path: &SharedPath, (dir, file): &(Id, String)) -> Option<Item<FitsEntry>> {
        let (mut item, from) = self.item(path, FitsEntry::Link("".into()))?;
        let mut way = self.tree.way(from, *dir);
        way.push(file);
        item.what = FitsEntry::Link(way.join("/").into());
        Some(item)
    }
}

/// Returns the file of the array or mask with this number.
fn array_file(file: &Arc<AsdfFile>, number: usize) -> Result<File> {
    let found = arrays::found(file)?;
    let nodes = nodes_of(file)?;
    let nothing = || Ok(File::changing(Arc::new(Text::default())));
    let Some(item) = found.items.get(number) else { return nothing() };
    let path = path_of(item);
    let is_mask = same_paths::is_mask(item);
    let of_pixels = path_of_pixels(item);
    let unit = if is_mask { None } else { unit_of(file, &path)? };
    let lengths = match &item.what {
        ArrayEntry::Array(array) | ArrayEntry::Mask(Masked { of: array, .. }) => nodes::lengths(array),
        _ => None,
    };
    let solution = match (nodes.of_array(&of_pixels), lengths) {
        (Some(wcs), Some(shape)) => solution(file, wcs, shape)?,
        _ => None,
    };
    let own = if solution.is_some() { None } else { own_cards(file, nodes, &of_pixels)? };
    let mut header = Vec::new();
    let about = keywords::of(file, &of_pixels)?;
    let masked = entries(file)?.masks.get(&number);
    let mut make = |elements: &Elements, mask: Option<&Elements>| {
        if let Datatype::Structured(_) = elements.datatype {
            let by = masked.map(|masked| masked.by.clone());
            let document = records::document(elements, by)?;
            let all: Vec<Elements> = std::iter::once(elements).chain(mask).cloned().collect();
            let (text, content) = build::of_document(&document, &all, &about, &path)?;
            header = text;
            return Ok(content);
        }
        let name = card::name(path.last().unwrap_or(&""));
        let solution = solution.as_ref();
        let about = &about;
        let place =
            build::ImagePlace { name: &name, version: 1, path: &path, unit, solution, own, about, masked };
        let (text, content) = build::of_array(elements, &place, mask)?;
        header = text;
        Ok(content)
    };
    let mut made = match &item.what {
        ArrayEntry::Array(array) => {
            let mut parts = vec![ArrayPart::Elements(array)];
            parts.extend(masked.map(ArrayPart::Mask));
            file_of_all(file, &parts, |parts| match parts {
                [elements, rest @ ..] => make(elements, rest.first()),
                [] => Err(Elements::unknown_type()),
            })
        }
        ArrayEntry::Mask(mask) => file_of_mask(file, mask, |elements| make(elements, None)),
        ArrayEntry::Link(_) | ArrayEntry::Reference(..) | ArrayEntry::Unread(_) | ArrayEntry::Pending(..) => {
            return nothing();
        }
    };
    tell_apart(&mut made, &header);
    Ok(made)
}

/// Returns the unit of the array at a path, if FITS can express it.
fn unit_of<'f>(file: &'f AsdfFile, path: &[&str]) -> Result<Option<&'f str>> {
    let unit = arrays::units(file)?.of(path).filter(|unit| unit.is_in_fits);
    Ok(unit.map(|unit| &*unit.text))
}

/// Returns the path of the array whose pixels an array or a mask has.
fn path_of_pixels(item: &Item<ArrayEntry>) -> Vec<&str> {
    let mut path = path_of(item);
    if let Some(last) = path.last_mut().filter(|_| same_paths::is_mask(item)) {
        *last = last.strip_suffix(".mask").unwrap_or(last);
    }
    path
}

/// Returns the path of an array or a mask in the tree.
fn path_of(item: &Item<ArrayEntry>) -> Vec<&str> {
    let mut path: Vec<&str> = item.components().collect();
    if let Some(last) = path.last_mut() {
        *last = last.strip_suffix(".npy").unwrap_or(last);
    }
    path
}

/// Adds the header to the file's renewal signature: a file with another header counts as changed.
fn tell_apart(file: &mut File, header: &[u8]) {
    if let Renewal::WhileSame(signature) = &mut file.renewal
        && !file.grows
    {
        let mut hasher = DefaultHasher::new();
        header.hash(&mut hasher);
        signature.text.push_str(&format!(" {:x}", hasher.finish()));
    }
}

/// Computes the world coordinates of an image of this shape. Their numbers may lie in blocks.
fn solution(file: &Arc<AsdfFile>, wcs: &wcs::Wcs, shape: &[u64]) -> Result<Option<wcs::Solution>> {
    if let Some(solved) = wcs.solved.get().filter(|solved| solved.shape == shape) {
        return Ok(solved.solution.clone().ok());
    }
    let solution = match numbers_of(file, wcs.numbers())? {
        Some(numbers) => wcs.solve(&numbers, shape),
        None => Err("its numbers can't be read".to_owned()),
    };
    let found = solution.clone().ok();
    wcs.solved.get_or_init(|| wcs::Solved { shape: shape.to_vec(), solution });
    Ok(found)
}

/// Returns the cards of the header that the tree has for the array at a path. Their numbers may lie in blocks.
fn own_cards<'n>(file: &Arc<AsdfFile>, nodes: &'n Nodes, path: &[&str]) -> Result<Option<&'n Cards>> {
    let Some(header) = nodes.header_of(path) else { return Ok(None) };
    if header.solved.get().is_none() {
        let cards = match numbers_of(file, header.numbers())? {
            Some(numbers) => header.solve(&numbers),
            None => Err("its numbers can't be read".to_owned()),
        };
        header.solved.get_or_init(|| cards);
    }
    Ok(header.solved.get().and_then(|cards| cards.as_ref().ok()))
}

/// Returns the numbers of world coordinates, some of which may lie in blocks; `None` if one of these is damaged.
fn numbers_of<'n>(
    file: &Arc<AsdfFile>,
    places: impl IntoIterator<Item = &'n values::Numbers>,
) -> Result<Option<Vec<Vec<f64>>>> {
    let mut all = Vec::new();
    for place in places {
        match place {
            values::Numbers::Written(numbers) => all.push(numbers.clone()),
            values::Numbers::InBlock(array) => {
                let read = elements_of(file, array).and_then(image::numbers);
                let Some(numbers) = if_readable(read)? else { return Ok(None) };
                all.push(numbers);
            }
        }
    }
    Ok(Some(all))
}

/// Returns the notes on world coordinates that could not be fitted, or whose numbers in blocks have no meaning.
fn unsolved(nodes: &Nodes) -> Vec<Defect> {
    let mut notes: Vec<Defect> = Vec::new();
    let of_wcs = nodes.solutions.values().filter_map(|wcs| {
        let why = wcs.solved.get()?.solution.as_ref().err()?;
        Some((wcs.place, &wcs.path, why))
    });
    let of_headers = nodes.headers.values().filter_map(|header| {
        let why = header.solved.get()?.as_ref().err()?;
        Some((header.place, &header.path, why))
    });
    for (place, path, why) in of_wcs.chain(of_headers) {
        let note = nodes::without_coordinates(place, path, why);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.sort_by_key(|note| note.offset);
    notes
}

/// Returns the file of a group of images.
fn group_file(file: &Arc<AsdfFile>, number: usize) -> Result<File> {
    let images: Vec<&GroupImage> =
        entries(file)?.groups.get(number).iter().flat_map(|group| &group.images).collect();
    images_file(file, &images, None)
}

/// Returns the file of some images, or of a part of each.
fn images_file(file: &Arc<AsdfFile>, images: &[&GroupImage], part: Option<&Part>) -> Result<File> {
    let found = arrays::found(file)?;
    let nodes = nodes_of(file)?;
    let mut parts: Vec<ArrayPart<'_>> = Vec::new();
    let mut described = Vec::new();
    let masks = &entries(file)?.masks;
    for image in images {
        let Some(item) = found.items.get(image.number) else { continue };
        let ArrayEntry::Array(array) = &item.what else { continue };
        let path = path_of(item);
        let of_pixels = path_of_pixels(item);
        let unit = unit_of(file, &path)?;
        let mut solution = match (nodes.of_array(&of_pixels), nodes::lengths(array)) {
            (Some(wcs), Some(shape)) => solution(file, wcs, shape)?,
            _ => None,
        };
        let mut own = match &solution {
            Some(_) => None,
            None => own_cards(file, nodes, &of_pixels)?.map(Cow::Borrowed),
        };
        if let Some(corner) = part.map(Part::corner) {
            solution = solution.map(|solution| solution.of_part(&corner));
            own = own.map(|cards| Cow::Owned(sliced::of_part(&cards, &corner)));
        }
        let about = keywords::of(file, &of_pixels)?;
        parts.push(ArrayPart::Elements(array));
        described.push((image, path, unit, solution, own, about, masks.get(&image.number)));
    }
    let common = keywords::of_all(file, described.iter().map(|(_, path, ..)| path))?;
    let images: Vec<build::ImagePlace<'_>> = described
        .iter()
        .map(|(image, path, unit, solution, own, about, masked)| build::ImagePlace {
            name: &image.name,
            version: image.version,
            path,
            unit: *unit,
            solution: solution.as_ref(),
            own: own.as_deref(),
            about,
            masked: *masked,
        })
        .collect();
    parts.extend(images.iter().filter_map(|image| image.masked).map(ArrayPart::Mask));
    let mut headers = Vec::new();
    let mut made = file_of_all(file, &parts, |elements| {
        let cut = part.map(|part| part.of_all(elements)).transpose()?;
        let (text, content) = build::of_group(&images, cut.as_deref().unwrap_or(elements), &common)?;
        headers = text;
        Ok(content)
    });
    tell_apart(&mut made, &headers);
    Ok(made)
}

/// Returns the FITS file described by a node of the tree; `number` is the index in `Nodes::documents`.
fn document_file(file: &Arc<AsdfFile>, number: usize) -> Result<File> {
    let Some((path, document)) = nodes_of(file)?.documents.get(number) else {
        return Ok(File::changing(Arc::new(Text::default())));
    };
    let about = keywords::of(file, &path.names())?;
    let mut headers = Vec::new();
    let mut made = file_of_all(file, &document.parts(), |elements| {
        let (text, content) = build::of_document(document, elements, &about, &path.names())?;
        headers = text;
        Ok(content)
    });
    tell_apart(&mut made, &headers);
    Ok(made)
}
