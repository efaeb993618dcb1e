//! Headers that the tree has for an image: the world coordinates of astropy (`astropy/wcs/wcs`) and their slices, and the
//! metadata of sunpy's maps.

use super::card::Cards;
use super::document::{self, Document};
use super::sliced::{self, AxisSlice};
use crate::format::asdf::ndarray::Ndarray;
use crate::yaml::survey::{NodeContent, TreeNode};

const WCS: &str = "tag:astropy.org:astropy/wcs/wcs-1.";
const SLICED: &str = "tag:astropy.org:astropy/wcs/slicedwcs-1.";
const WRAPPED: &str = "tag:astropy.org:astropy/wcs/highlevelwcswrapper-1.";
const MAP: &str = "tag:sunpy.org:sunpy/map/generic_map-1.";
/// World coordinates of ndcube that have no cards.
const OTHERS: [&str; 3] = [
    "tag:sunpy.org:ndcube/resampledwcs-1.",
    "tag:sunpy.org:ndcube/reorderedwcs-1.",
    "tag:sunpy.org:ndcube/compoundwcs-1.",
];
/// Maximum nesting of slices.
const MAX_DEPTH: usize = 8;

/// Keywords of a map that describe other data than the image, or whose cards an image has anyway.
const LEFT_OUT: [&str; 6] = ["EXTNAME", "EXTVER", "EXTLEVEL", "BUNIT", "LONGSTRN", "ASDFPATH"];

/// True for the tag of a node with a header.
pub(super) fn is_tag(tag: &str) -> bool {
    [WCS, SLICED, WRAPPED, MAP].iter().chain(&OTHERS).any(|known| tag.starts_with(known))
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
    /// Reads a node.
    ///
    /// # Errors
    /// The reason why it has no header that holds for an image alone.
    pub(super) fn read(tag: &str, node: &TreeNode) -> Result<Self, String> {
        if tag.starts_with(MAP) {
            let cards = node.get("meta").and_then(of_map).ok_or("its meta can't be read")?;
            return Ok(Self { cards, is_around: true, axes: 2, pixels: None });
        }
        Self::of_wcs(tag, node, MAX_DEPTH)
    }

    fn of_wcs(tag: &str, node: &TreeNode, depth: usize) -> Result<Self, String> {
        if tag.starts_with(WCS) {
            // Further HDUs hold tables of distortions, which the cards refer to.
            let hdus = node.get("hdulist").and_then(TreeNode::items).unwrap_or_default();
            if hdus.len() > 1 {
                return Err("its distortions are tables, which can't be in the header of an image".to_owned());
            }
            return Self::of_hdus(node).ok_or_else(|| "its header can't be read".to_owned());
        }
        let inner = node.get("wcs").map(TreeNode::target).filter(|_| depth > 0);
        let tag_of_inner = inner.and_then(|inner| inner.tag.as_deref()).filter(|tag| is_tag(tag));
        match (inner, tag_of_inner) {
            (Some(inner), Some(tag_of_inner)) if tag.starts_with(WRAPPED) => {
                Self::of_wcs(tag_of_inner, inner, depth - 1)
            }
            (Some(inner), Some(tag_of_inner)) if tag.starts_with(SLICED) => {
                let slices = AxisSlice::read_all(node).ok_or("its slices can't be read")?;
                Self::of_wcs(tag_of_inner, inner, depth - 1)?.sliced(&slices)
            }
            _ if tag.starts_with(SLICED) => {
                Err("it is a slice of coordinates that have no header".to_owned())
            }
            _ => Err("its coordinates are none of FITS".to_owned()),
        }
    }

    /// Returns the header of a slice of the image, one slice for each pixel axis.
    fn sliced(self, slices: &[AxisSlice]) -> Result<Self, String> {
        if slices.len() != self.axes {
            return Err("its slices are not as many as its pixel axes".to_owned());
        }
        let len_of = |n: usize| self.pixels.as_ref().and_then(|pixels| pixels.get(n)).copied();
        let lens: Vec<Option<u64>> =
            slices.iter().enumerate().filter_map(|(n, slice)| slice.len(len_of(n))).collect();
        let cards = sliced::cards(&self.cards, slices)?;
        Ok(Self { cards, is_around: false, axes: lens.len(), pixels: lens.into_iter().collect() })
    }

    /// Reads a header with the number and the lengths of its pixel axes.
    fn of_hdus(node: &TreeNode) -> Option<Self> {
        let document = Document::read(node.get("hdulist")?).ok()?;
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
