//! The nodes of a tree that name blocks, and where the text has their numbers.

use std::collections::{BTreeMap, HashSet};

use asdf_tree::yaml::document::{Document, Id, Kind as NodeKind};
use asdf_tree::yaml::event::{Mark, Style};
use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::{NodeContent, TreeNode, Wanted, WantedNode, nodes};
use seekable::content::Borrowed;
use seekable::error::{Error, Kind, Result};

use crate::asdf::external::{has_host, path_of, split};
use crate::asdf::ndarray::chunked::{self, ArrayChunks, ChunkBlocks};
use crate::asdf::ndarray::{self, Ndarray, Source};

/// The key of a Zarr array that names the block with the numbers of its chunks.
const MAP_KEY: &str = "chunk_block_map";

/// The nodes that name blocks.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// The arrays in blocks.
    pub(super) arrays: Vec<ArrayUser>,
    /// The Zarr arrays with chunks in blocks.
    pub(super) maps: Vec<MapUser>,
    /// True if the tree names other files by relative paths.
    pub(super) refers_beside: bool,
}

/// An array in a block.
#[derive(Debug)]
pub(super) struct ArrayUser {
    pub(super) array: Ndarray,
    /// The number of the block, from 0.
    pub(super) block: usize,
    /// The offset of the node in the text.
    pub(super) node: u64,
    /// True if the array is a chunk of another one.
    pub(super) is_chunk: bool,
    pub(super) source: NumberPlace,
    pub(super) offset: Option<NumberPlace>,
    pub(super) strides: Vec<NumberPlace>,
}

/// A Zarr array.
#[derive(Debug)]
pub(super) struct MapUser {
    pub(super) blocks: ChunkBlocks,
    /// The number of chunks.
    pub(super) chunks: u64,
    /// The number of the block with the map, from 0.
    pub(super) block: usize,
    pub(super) number: NumberPlace,
}

/// A number in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberPlace {
    place: Mark,
    /// Bytes of the number or alias. `None` if it has an anchor or a tag: it can't be changed alone.
    len: Option<usize>,
    pub(super) value: i64,
}

impl NumberPlace {
    fn of(text: &[u8], node: &TreeNode) -> Result<Self> {
        let value = node.integer().and_then(|value| i64::try_from(value).ok());
        let value = value.ok_or_else(|| refused(node.place, "a number is expected here"))?;
        let rest = usize::try_from(node.place.offset).ok().and_then(|at| text.get(at..)).unwrap_or_default();
        let len = match &node.node {
            NodeContent::Scalar { text, plain: true } if rest.starts_with(text.as_bytes()) => {
                Some(text.len())
            }
            NodeContent::Same(_) if rest.starts_with(b"*") => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                Some(1 + rest[1..].iter().take_while(|byte| is_name(byte)).count())
            }
            _ => None,
        };
        Ok(Self { place: node.place, len, value })
    }
}

/// New numbers in a text.
#[derive(Debug, Default)]
pub(super) struct NewNumbers(BTreeMap<u64, (NumberPlace, i64)>);

impl NewNumbers {
    /// Sets the new value of a number, which may be the old one.
    ///
    /// # Errors
    /// Nodes share the number by an alias or a merge key, and need different values.
    pub(super) fn set(&mut self, number: NumberPlace, value: i64) -> Result<()> {
        let (_, known) = self.0.entry(number.place.offset).or_insert((number, value));
        let is_shared = *known != value;
        let is_fixed = number.len.is_none() && number.value != value;
        if is_shared || is_fixed {
            let what =
                "several arrays share this number by an anchor, or it has a tag: write it out for each array";
            return Err(refused(number.place, what));
        }
        Ok(())
    }

    /// Returns `text` with the new numbers.
    pub(super) fn write(&self, text: &[u8]) -> Vec<u8> {
        let mut new = Vec::with_capacity(text.len());
        let mut at = 0;
        for (offset, (number, value)) in &self.0 {
            let (Ok(start), Some(len)) = (usize::try_from(*offset), number.len) else { continue };
            if number.value != *value && start >= at {
                new.extend(text.get(at..start).unwrap_or_default());
                new.extend(value.to_string().bytes());
                at = start + len;
            }
        }
        new.extend(text.get(at..).unwrap_or_default());
        new
    }
}

/// Returns the nodes of a text that name blocks, of a file with `count` blocks.
///
/// # Errors
/// A node may name a block in a way that is not known, or names one that does not exist.
pub(super) fn find(text: &[u8], count: usize) -> Result<Users> {
    let document = Document::read(&Borrowed(text))?;
    if let Some(fault) = document.fault() {
        return Err(fault.clone());
    }
    let mut finder =
        UserFinder { text, count, users: Users::default(), chunks: HashSet::new(), failure: None };
    let wanted =
        Wanted { whole: &chunked::is_tag, telling: &[], reference: ndarray::REFERENCE, ..ndarray::WANTED };
    let survey = nodes::survey(&document, wanted, &mut |_, node| {
        if finder.failure.is_none() {
            finder.failure = finder.take_node(&node).err();
        }
    })
    .map_err(|broken| broken.error)?;
    if let Some(failure) = finder.failure {
        return Err(failure);
    }
    if let Some(place) = untagged(&document) {
        return Err(refused(
            place,
            "a mapping has the keys of an array in a block, but no tag: restore the tag",
        ));
    }
    let UserFinder { mut users, chunks, .. } = finder;
    for user in &mut users.arrays {
        user.is_chunk = chunks.contains(&user.node);
    }
    users.refers_beside |= survey.references.iter().any(|reference| is_relative(&reference.uri));
    Ok(users)
}

struct UserFinder<'t> {
    text: &'t [u8],
    count: usize,
    users: Users,
    /// The offsets of the arrays that are chunks of others.
    chunks: HashSet<u64>,
    failure: Option<Error>,
}

impl UserFinder<'_> {
    fn take_node(&mut self, node: &WantedNode<'_>) -> Result<()> {
        let Some(tag) = node.tag else { return Ok(()) };
        if ndarray::is_tag(tag) {
            return self.take_array(tag, node.value);
        }
        if node.value.get(MAP_KEY).is_some() {
            return self.take_zarr(tag, node.value);
        }
        for chunk in node.value.get("chunks").and_then(TreeNode::items).unwrap_or_default() {
            self.chunks.extend(chunk.get("ndarray").map(|array| array.target().place.offset));
        }
        Ok(())
    }

    fn take_array(&mut self, tag: &str, node: &TreeNode) -> Result<()> {
        let array = match Ndarray::read_leniently(tag, node) {
            Ok((array, _)) => array,
            Err(fault) if !node.is_whole() || node.get("source").is_some() => {
                return Err(refused(fault.place, &format!("{}: correct the tree first", fault.what)));
            }
            // The node names no block.
            Err(_) => return Ok(()),
        };
        match &array.source {
            Source::External(uri) => self.users.refers_beside |= is_relative(uri),
            Source::Block(n) => {
                let block = array.source.block(self.count);
                let block = block.ok_or_else(|| refused(node.place, &format!("there is no block {n}")))?;
                let number = |node: &TreeNode| NumberPlace::of(self.text, node);
                let source = node.get("source").map(number).transpose()?;
                let source = source.ok_or_else(|| refused(node.place, "an array has no \"source\""))?;
                let offset = node.get("offset").map(number).transpose()?;
                let strides = node.get("strides").and_then(TreeNode::items).unwrap_or_default();
                let strides = strides.iter().map(number).collect::<Result<_>>()?;
                let node = node.place.offset;
                let user = ArrayUser { array, block, node, is_chunk: false, source, offset, strides };
                self.users.arrays.push(user);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_zarr(&mut self, tag: &str, node: &TreeNode) -> Result<()> {
        let array = chunked::read(tag, node).map_err(|fault| refused(fault.place, &fault.what))?;
        let (Source::Chunked(chunked), Some(shape)) = (array.source, array.shape) else { return Ok(()) };
        let ArrayChunks::Blocks(blocks) = chunked.chunks else { return Ok(()) };
        let lens =
            shape.dimensions.iter().zip(&blocks.shape).map(|(len, chunk)| len.div_ceil((*chunk).max(1)));
        let chunks = lens.into_iter().try_fold(1_u64, u64::checked_mul);
        let chunks = chunks.ok_or_else(|| refused(node.place, "an array has too many chunks"))?;
        let block = Source::Block(blocks.map).block(self.count);
        let block = block.ok_or_else(|| refused(node.place, &format!("there is no block {}", blocks.map)))?;
        let Some(map) = node.get(MAP_KEY) else { return Ok(()) };
        let number = NumberPlace::of(self.text, map)?;
        self.users.maps.push(MapUser { blocks, chunks, block, number });
        Ok(())
    }
}

/// Returns the place of the first mapping that has the keys of an array in a block, but not its tag. Its block would be
/// dropped.
fn untagged(document: &Document) -> Option<Mark> {
    let value = |id: Id, wanted: &str| {
        let mut members = document.members(id);
        members.find_map(|(key, value)| (document.text(key) == wanted).then_some(value))
    };
    let is_number = |id: Id| {
        let is_plain = document.kind(id) == NodeKind::Scalar(Style::Plain);
        is_plain && scalar::type_of(document.text(id), true, document.tag(id)) == Type::Int
    };
    let is_array = |id: &Id| {
        document.kind(*id) == NodeKind::Mapping
            && !document.tag(*id).is_some_and(ndarray::is_tag)
            && value(*id, "source").is_some_and(is_number)
            && value(*id, "shape").is_some_and(|shape| document.kind(shape) == NodeKind::Sequence)
            && value(*id, "datatype").is_some()
    };
    document.all().find(is_array).map(|id| document.mark(id))
}

/// True if a URI leads to another file by a relative path.
fn is_relative(uri: &str) -> bool {
    let name = split(uri).0;
    !name.is_empty() && !has_host(name) && path_of(name).is_ok_and(|path| path.is_relative())
}

fn refused(place: Mark, what: &str) -> Error {
    Error::new(Kind::Refused, format!("line {}: {what}", place.line))
}
