//! Headers that the tree has for an image: the world coordinates of astropy (`astropy/wcs/wcs`), their slices and other
//! resolutions, and the metadata of sunpy's maps.

use std::sync::OnceLock;

use asdf_file::asdf::ndarray::Ndarray;
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::card::Cards;
use super::document::{self, Document};
use super::sliced::{self, AxisChange, AxisSlice};
use super::values::Numbers;

const WCS: &str = "tag:astropy.org:astropy/wcs/wcs-1.";
const SLICED: &str = "tag:astropy.org:astropy/wcs/slicedwcs-1.";
const WRAPPED: &str = "tag:astropy.org:astropy/wcs/highlevelwcswrapper-1.";
const MAP: &str = "tag:sunpy.org:sunpy/map/generic_map-1.";
const RESAMPLED: &str = "tag:sunpy.org:ndcube/resampledwcs-1.";
/// World coordinates of ndcube that have no cards.
const OTHERS: [&str; 2] = ["tag:sunpy.org:ndcube/reorderedwcs-1.", "tag:sunpy.org:ndcube/compoundwcs-1."];
/// Maximum nesting of slices.
const MAX_DEPTH: usize = 8;

/// Keywords of a map that describe other data than the image, or whose cards an image has anyway.
const LEFT_OUT: [&str; 6] = ["EXTNAME", "EXTVER", "EXTLEVEL", "BUNIT", "LONGSTRN", "ASDFPATH"];

/// True for the tag of a node with a header.
pub(super) fn is_tag(tag: &str) -> bool {
    [WCS, SLICED, RESAMPLED, WRAPPED, MAP].iter().chain(&OTHERS).any(|known| tag.starts_with(known))
}

/// The header of an image.
#[derive(Debug)]
pub(super) struct ImageHeader {
    pub(super) cards: Cards,
    /// The changes of the pixels that are not made in `cards` yet, because numbers of the first one lie in a block.
    pending: Vec<PixelChange>,
    /// The cards with all changes, or the reason why there are none.
    pub solved: OnceLock<Result<Cards, String>>,
    /// The node in the tree, for notes: its place and its path.
    pub place: Mark,
    pub path: String,
    /// True if the node contains the image, false if the node is beside it.
    pub is_around: bool,
    /// Number of axes of the image.
    axes: usize,
    /// The lengths of the axes, the fastest-varying axis first, if they are written.
    pixels: Option<Vec<u64>>,
}

/// A change of all pixel axes.
#[derive(Debug)]
enum PixelChange {
    Slices(Vec<AxisSlice>),
    /// Factors and offsets.
    Resampled([Numbers; 2]),
}

impl PixelChange {
    /// Returns the change of each axis.
    fn axes(&self, numbers: &mut dyn Iterator<Item = &[f64]>) -> Result<Vec<AxisChange>, String> {
        match self {
            Self::Slices(slices) => Ok(slices.iter().map(|slice| slice.change()).collect()),
            Self::Resampled(_) => {
                let factors = numbers.next().unwrap_or_default();
                let offsets = numbers.next().unwrap_or_default();
                let axes = factors.iter().zip(offsets);
                let axes: Option<_> =
                    axes.map(|(factor, offset)| AxisChange::resampled(*factor, *offset)).collect();
                axes.ok_or_else(|| "its factors are not positive numbers".to_owned())
            }
        }
    }
}

impl ImageHeader {
    fn new(cards: Cards, axes: usize, pixels: Option<Vec<u64>>) -> Self {
        Self {
            cards,
            pending: Vec::new(),
            solved: OnceLock::new(),
            place: Mark::default(),
            path: String::new(),
            is_around: false,
            axes,
            pixels,
        }
    }

    /// Returns the numbers that the cards need.
    pub(super) fn numbers<'h>(&'h self) -> impl Iterator<Item = &'h Numbers> {
        let of_change = |change: &'h PixelChange| match change {
            PixelChange::Slices(_) => None,
            PixelChange::Resampled(numbers) => Some(numbers),
        };
        self.pending.iter().filter_map(of_change).flatten()
    }

    /// Returns the cards by the numbers, or the reason why there are none.
    pub(super) fn solve(&self, numbers: &[Vec<f64>]) -> Result<Cards, String> {
        let mut numbers = numbers.iter().map(Vec::as_slice);
        self.pending
            .iter()
            .try_fold(self.cards.clone(), |cards, change| sliced::cards(&cards, &change.axes(&mut numbers)?))
    }

    /// Reads a node.
    ///
    /// # Errors
    /// The reason why it has no header that holds for an image alone.
    pub(super) fn read(tag: &str, node: &TreeNode, path: String) -> Result<Self, String> {
        let header = if tag.starts_with(MAP) {
            let cards = node.get("meta").and_then(of_map).ok_or("its meta can't be read")?;
            Self { is_around: true, ..Self::new(cards, 2, None) }
        } else {
            Self::of_wcs(tag, node, MAX_DEPTH)?
        };
        Ok(Self { place: node.place, path, ..header })
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
                Self::of_wcs(tag_of_inner, inner, depth - 1)?.sliced(slices)
            }
            (Some(inner), Some(tag_of_inner)) if tag.starts_with(RESAMPLED) => {
                let whole = Self::of_wcs(tag_of_inner, inner, depth - 1)?;
                let numbers = |key| Numbers::read(node.get(key)?, whole.axes);
                let numbers = numbers("factor").zip(numbers("offset"));
                let (factors, offsets) = numbers.ok_or("its factors or offsets can't be read")?;
                let resampled = Self { pixels: None, ..whole };
                resampled.changed(PixelChange::Resampled([factors, offsets]))
            }
            _ if tag.starts_with(SLICED) || tag.starts_with(RESAMPLED) => {
                Err("it changes the pixels of coordinates that have no header".to_owned())
            }
            _ => Err("its coordinates are none of FITS".to_owned()),
        }
    }

    /// Returns the header of a slice of the image, one slice for each pixel axis.
    fn sliced(self, slices: Vec<AxisSlice>) -> Result<Self, String> {
        if slices.len() != self.axes {
            return Err("its slices are not as many as its pixel axes".to_owned());
        }
        let len_of = |n: usize| self.pixels.as_ref().and_then(|pixels| pixels.get(n)).copied();
        let lens: Vec<Option<u64>> =
            slices.iter().enumerate().filter_map(|(n, slice)| slice.len(len_of(n))).collect();
        let changed = self.changed(PixelChange::Slices(slices))?;
        Ok(Self { axes: lens.len(), pixels: lens.into_iter().collect(), ..changed })
    }

    /// Returns the header with a change of the pixels, which waits for numbers in a block.
    fn changed(mut self, change: PixelChange) -> Result<Self, String> {
        self.pending.push(change);
        let written = self.numbers().map(|numbers| match numbers {
            Numbers::Written(numbers) => Some(numbers.clone()),
            Numbers::InBlock(_) => None,
        });
        if let Some(numbers) = written.collect::<Option<Vec<_>>>() {
            self.cards = self.solve(&numbers)?;
            self.pending.clear();
        }
        Ok(self)
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
        Some(Self::new(cards, axes, pixels))
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
