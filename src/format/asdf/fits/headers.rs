//! Headers that the tree has for an image: the world coordinates of astropy (`astropy/wcs/wcs`), and the metadata of
//! sunpy's maps.

use super::card::Cards;
use super::document::{self, Document};
use crate::format::asdf::ndarray::Ndarray;
use crate::yaml::survey::{NodeContent, TreeNode};

const WCS: &str = "tag:astropy.org:astropy/wcs/wcs-1.";
const MAP: &str = "tag:sunpy.org:sunpy/map/generic_map-1.";

/// Keywords of a map that describe other data than the image, or whose cards an image has anyway.
const LEFT_OUT: [&str; 6] = ["EXTNAME", "EXTVER", "EXTLEVEL", "BUNIT", "LONGSTRN", "ASDFPATH"];

/// True for the tag of a node with a header.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(WCS) || tag.starts_with(MAP)
}

/// The header of an image.
#[derive(Debug)]
pub(super) struct ImageHeader {
    pub cards: Cards,
    /// True if the node contains the image, false if the node is beside it.
    pub is_around: bool,
    /// Number of axes of the image.
    axes: usize,
    /// The lengths of the axes, the fastest-varying axis first, if they are written.
    pixels: Option<Vec<u64>>,
}

impl ImageHeader {
    /// Reads a node; `None` if it has no header that holds for an image alone.
    pub(super) fn read(tag: &str, node: &TreeNode) -> Option<Self> {
        if tag.starts_with(MAP) {
            return Some(Self { cards: of_map(node.get("meta")?)?, is_around: true, axes: 2, pixels: None });
        }
        let list = node.get("hdulist")?;
        // Further HDUs hold tables of distortions, which the cards refer to.
        let [_] = list.items()? else { return None };
        let document = Document::read(list).ok()?;
        let cards = document.hdus.into_iter().next()?.cards;
        let attributes = node.get("attrs")?;
        let len = |value: &TreeNode| value.integer().and_then(|len| u64::try_from(len).ok());
        let axes = usize::try_from(attributes.get("naxis").and_then(len)?).ok()?;
        let pixels = attributes.get("pixel_shape").and_then(TreeNode::items);
        let pixels = pixels.map(|lens| lens.iter().map(len).collect::<Option<Vec<u64>>>());
        let pixels = match pixels {
            Some(lens) => Some(lens?),
            None => None,
        };
        Some(Self { cards, is_around: false, axes, pixels })
    }

    /// True if the header itself has the shape of its image.
    pub(super) fn names_shape(&self) -> bool {
        self.pixels.is_some()
    }

    /// True if the header can belong to an array.
    pub(super) fn fits(&self, array: &Ndarray) -> bool {
        let Some(shape) = array.shape.as_ref().filter(|shape| !shape.streamed) else { return false };
        let pixels = self.pixels.as_ref();
        shape.dimensions.len() == self.axes
            && pixels.is_none_or(|pixels| pixels.iter().rev().eq(&shape.dimensions))
    }
}

/// Returns the cards of the metadata of a map, whose keys are keywords in lower case.
fn of_map(meta: &TreeNode) -> Option<Cards> {
    let meta = if meta.is_whole() { meta.target() } else { return None };
    let NodeContent::Mapping(entries) = &meta.node else { return None };
    let mut cards = Cards::default();
    for (key, value) in entries {
        let Some(keyword) = key.text().map(str::to_ascii_uppercase) else { continue };
        if document::is_generated(&keyword) || LEFT_OUT.contains(&keyword.as_str()) || keyword.len() > 8 {
            continue;
        }
        // A value that no card can hold is left out.
        if let Ok(value) = document::readable(value, &keyword) {
            let _ = cards.add(&keyword, value, "");
        }
    }
    Some(cards)
}
