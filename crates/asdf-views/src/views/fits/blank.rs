//! Masked elements: NaN in floats, and an integer that no other element has (`BLANK`, `TNULL`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_file::array::{Blank, Blanked, FoundInteger, NullCandidates, Unused};
use asdf_file::asdf::arrays::{ArrayEntry, Elements, FoundArrays, Masked, MaskedBy, can_be_broadcast};
use asdf_file::asdf::ndarray::{Datatype, Ndarray, Number, Scalar};
use asdf_file::folder::shared_path::SharedPath;
use seekable::content::{Content, Text};
use seekable::error::Result;

use super::super::same_paths;
use super::card::{Cards, Value};
use super::image::{self, Image};
use super::path_of;

/// Nodes with a mask beside their array: the prefix of their tag, and the path of the array.
const CUBES: [(&str, &[&str]); 3] = [
    ("tag:sunpy.org:ndcube/ndcube-1.", &["data"]),
    ("tag:astropy.org:specutils/spectra/spectrum", &["flux", "value"]),
    ("tag:astropy.org:specutils/spectra/spectrum", &["flux"]),
];
/// Maximum length of elements in which an unused integer is searched, in bytes.
const MAX_SEARCHED: u64 = 64 << 20;
const NOTE: &str = "masked elements";

/// True for the tag of a node with a mask beside its array.
pub(super) fn is_cube_tag(tag: &str) -> bool {
    CUBES.iter().any(|(known, _)| tag.starts_with(known))
}

/// Returns the masks of arrays by the numbers of the arrays. `cubes` are the paths of nodes with a tag of
/// [`is_cube_tag`].
pub(super) fn masks(found: &FoundArrays, cubes: &[SharedPath]) -> HashMap<usize, Masked> {
    let mut masks = HashMap::new();
    let mut beside: HashMap<Vec<&str>, &Arc<Ndarray>> = HashMap::new();
    let mut own: HashMap<Vec<&str>, &ArrayEntry> = HashMap::new();
    let cubes: HashSet<Vec<&str>> = cubes.iter().map(SharedPath::names).collect();
    for (number, item) in found.items.iter().enumerate() {
        let mut path = path_of(item);
        let is_mask = same_paths::is_mask(item);
        let is_beside = matches!(&path[..], [cube @ .., "mask"] if cubes.contains(cube));
        if !is_mask && !is_beside {
            continue;
        }
        // A mask may be an alias of another one.
        let entry = match &item.what {
            ArrayEntry::Link(text) => {
                let behind = found.items.numbers_behind(number, text);
                let only = (behind.len() == 1).then_some(behind.start);
                only.and_then(|one| found.items.get(one)).map_or(&item.what, |target| &target.what)
            }
            entry => entry,
        };
        if is_mask {
            if let Some(last) = path.last_mut() {
                *last = last.strip_suffix(".mask").unwrap_or(last);
            }
            own.insert(path, entry);
        } else if let ArrayEntry::Array(mask) = entry
            && mask.datatype == Some(Datatype::Scalar(Scalar::Bool8))
        {
            path.pop();
            beside.insert(path, mask);
        }
    }
    if own.is_empty() && beside.is_empty() {
        return masks;
    }
    for (number, item) in found.items.iter().enumerate() {
        let ArrayEntry::Array(array) = &item.what else { continue };
        if same_paths::is_mask(item) {
            continue;
        }
        let path = path_of(item);
        let of_node = || {
            CUBES.iter().find_map(|(_, below)| {
                let node = path.strip_suffix(*below)?;
                beside.get(node).map(|mask| (*mask).clone())
            })
        };
        let masked = match own.get(&path) {
            // The entry may be an alias of another array's mask.
            Some(ArrayEntry::Mask(Masked { by: MaskedBy::Array(mask), .. })) => {
                fits(array, mask).then(|| by_array(array, mask))
            }
            Some(ArrayEntry::Mask(masked)) => Arc::ptr_eq(&masked.of, array).then(|| masked.clone()),
            Some(ArrayEntry::Array(mask)) => fits(array, mask).then(|| by_array(array, mask)),
            _ => of_node().filter(|mask| fits(array, mask)).map(|mask| by_array(array, &mask)),
        };
        if let Some(masked) = masked
            && suits(array, &masked.by)
            && !array.shape.as_ref().is_none_or(|shape| shape.streamed)
        {
            masks.insert(number, masked);
        }
    }
    masks
}

fn by_array(array: &Arc<Ndarray>, mask: &Arc<Ndarray>) -> Masked {
    Masked { of: array.clone(), by: MaskedBy::Array(mask.clone()) }
}

/// True if a mask has a value for each element of an array, or for each field of each element.
fn suits(array: &Ndarray, by: &MaskedBy) -> bool {
    match (by, &array.datatype) {
        (MaskedBy::Array(mask), Some(of)) => mask.datatype.as_ref().is_some_and(|mask| has_values(mask, of)),
        (MaskedBy::Fields, _) => true,
        (_, of) => matches!(of, Some(Datatype::Scalar(_))),
    }
}

/// True if a mask of one type has a value for each element of another type, or for each field of each element.
pub(super) fn has_values(mask: &Datatype, of: &Datatype) -> bool {
    matches!(mask, Datatype::Scalar(_)) || mask.has_fields_of(of)
}

/// True if a mask can be broadcast to an array.
pub(super) fn fits(array: &Ndarray, mask: &Ndarray) -> bool {
    let (Some(of), Some(shape)) = (&array.shape, &mask.shape) else { return false };
    !of.streamed && !shape.streamed && can_be_broadcast(&shape.dimensions, &of.dimensions)
}

/// The integer of masked elements.
#[derive(Clone, Debug)]
pub(super) enum Null {
    Known(i128),
    Unused(Arc<Unused>),
}

/// An image, and the integer of its masked elements.
#[derive(Debug)]
pub(super) struct MaskedImage {
    pub(super) image: Image,
    pub(super) null: Option<Null>,
}

impl MaskedImage {
    /// Converts the elements of an array to an image in which masked elements are NaN or `BLANK`. `blank` is the integer
    /// that they have if the tree has one.
    pub(super) fn new(
        elements: Elements,
        mask: Option<(&Masked, &Elements)>,
        blank: Option<i128>,
    ) -> Result<Self> {
        let datatype = elements.datatype.clone();
        let image = Image::new(elements)?;
        let (Some((masked, mask)), Datatype::Scalar(scalar)) = (mask, datatype) else {
            return Ok(Self { image, null: None });
        };
        // The elements equal to a number are masked, and have it already.
        if let Some(null) = null_of(scalar, &masked.by) {
            return Ok(Self { image, null: Some(Null::Known(null)) });
        }
        let width = image.stored.bitpix.unsigned_abs() as u64 / 8;
        let mask = mask.clone().in_c_order()?.content;
        let (data, null) = match blank {
            Some(blank) => {
                let bytes = blank.to_be_bytes();
                let (_, bytes) = bytes.split_at(bytes.len() - width as usize);
                let data: Arc<dyn Content> =
                    Arc::new(Blanked::new(image.data, mask, width, Blank::Fixed(bytes.to_vec()))?);
                (data, Some(Null::Known(blank)))
            }
            None => blanked(image.data, mask, scalar, width, false)?,
        };
        Ok(Self { image: Image { data, ..image }, null })
    }
}

/// Replaces the masked elements in FITS representation. `mask` has a byte for each element, which has `width` bytes.
/// Also returns the integer of masked elements, if they are integers.
pub(super) fn blanked(
    data: Arc<dyn Content>,
    mask: Arc<dyn Content>,
    scalar: Scalar,
    width: u64,
    is_table: bool,
) -> Result<(Arc<dyn Content>, Option<Null>)> {
    if data.is_empty() {
        return Ok((data, None));
    }
    let blank = match scalar {
        Scalar::Float16 | Scalar::Float32 => Blank::Fixed(f32::NAN.to_be_bytes().to_vec()),
        Scalar::Float64 => Blank::Fixed(f64::NAN.to_be_bytes().to_vec()),
        Scalar::Complex64 => Blank::Fixed(f32::NAN.to_be_bytes().repeat(2)),
        Scalar::Complex128 => Blank::Fixed(f64::NAN.to_be_bytes().repeat(2)),
        Scalar::Ascii(_) | Scalar::Ucs4(_) => Blank::Fixed(vec![0; usize::try_from(width).unwrap_or(0)]),
        // A null of the logical type of tables.
        Scalar::Bool8 if is_table => Blank::Fixed(vec![0]),
        _ => {
            let zero = image::stored(scalar).and_then(|stored| stored.zero);
            let unused = Unused::new(
                data.clone(),
                mask.clone(),
                width as usize,
                candidates(width, zero),
                MAX_SEARCHED,
            );
            Blank::Unused(Arc::new(unused))
        }
    };
    let null = match &blank {
        Blank::Unused(unused) => Some(Null::Unused(unused.clone())),
        Blank::Fixed(_) => None,
    };
    Ok((Arc::new(Blanked::new(data, mask, width, blank)?), null))
}

/// Returns the integers that masked elements could have. `zero` is added to stored integers.
fn candidates(width: u64, zero: Option<i128>) -> NullCandidates {
    const COUNT: usize = 1 << 16;
    let bits = 8 * width as u32;
    match zero.and_then(|zero| i64::try_from(zero).ok()) {
        // astropy compares the null with numbers to which the zero has been added, and fails if it is negative.
        Some(shift) => {
            let first = i64::MAX >> (64 - bits);
            NullCandidates { first, step: -1, count: COUNT.min((first as usize).saturating_add(1)), shift }
        }
        None if zero.is_some() => NullCandidates { first: i64::MAX, step: -1, count: COUNT, shift: 0 },
        None if width == 1 => NullCandidates { first: 255, step: -1, count: 256, shift: 0 },
        None => NullCandidates { first: i64::MIN >> (64 - bits), step: 1, count: COUNT, shift: 0 },
    }
}

/// Returns the stored integer that masked elements have anyway, if a number masks those equal to it.
fn null_of(scalar: Scalar, by: &MaskedBy) -> Option<i128> {
    let MaskedBy::Number(number) = by else { return None };
    let value = match *number {
        Number::Int(value) => value,
        Number::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => value as i128,
        _ => return None,
    };
    if scalar == Scalar::Bool8 {
        return None;
    }
    let (least, greatest) = scalar.range()?;
    let zero = image::stored(scalar)?.zero.unwrap_or(0);
    (least..=greatest).contains(&value).then_some(value - zero)
}

/// Adds the card of the integer of masked elements. That of an unknown one is a placeholder.
pub(super) fn add_card(cards: &mut Cards, keyword: &str, null: &Null) {
    let value = match null {
        Null::Known(value) => *value,
        Null::Unused(_) => 0,
    };
    cards.set(keyword, Value::Int(value), NOTE);
}

/// Returns a header as a content. Cards of unknown integers are made when they are read.
pub(super) fn header(text: Vec<u8>, nulls: Vec<(String, Null)>) -> Arc<dyn Content> {
    let mut late = Vec::new();
    for (keyword, null) in nulls {
        let Null::Unused(unused) = null else { continue };
        let start = format!("{keyword:<8}= ");
        let place = text.chunks_exact(CARD).position(|card| card.starts_with(start.as_bytes()));
        late.extend(place.map(|place| LateCard { place: place * CARD, keyword, unused }));
    }
    if late.is_empty() { Arc::new(Text::new(text)) } else { Arc::new(Header { text, late }) }
}

const CARD: usize = 80;

/// A header with cards that are made when they are read.
#[derive(Debug)]
struct Header {
    text: Vec<u8>,
    late: Vec<LateCard>,
}

/// The card of an integer that is not known yet.
#[derive(Debug)]
struct LateCard {
    place: usize,
    keyword: String,
    unused: Arc<Unused>,
}

impl LateCard {
    fn bytes(&self) -> Result<Vec<u8>> {
        let mut cards = Cards::default();
        match self.unused.find()? {
            Some(FoundInteger { value, is_unused }) => {
                let comment = if is_unused { NOTE } else { "masked elements, and any others equal to it" };
                cards.set(&self.keyword, Value::Int(i128::from(value)), comment);
            }
            None => {
                let what = format!("no {}: the elements have all values, masked ones too", self.keyword);
                cards.set("COMMENT", Value::Text(&what), "");
            }
        }
        let mut bytes = cards.header();
        bytes.truncate(CARD);
        Ok(bytes)
    }
}

impl Content for Header {
    fn len(&self) -> u64 {
        self.text.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len());
        let end = start.saturating_add(buf.len()).min(self.text.len());
        buf[..end - start].copy_from_slice(&self.text[start..end]);
        for late in &self.late {
            let from = late.place.max(start);
            let to = (late.place + CARD).min(end);
            if from < to {
                let bytes = late.bytes()?;
                buf[from - start..to - start].copy_from_slice(&bytes[from - late.place..to - late.place]);
            }
        }
        Ok(end - start)
    }

    fn is_slow(&self) -> bool {
        true
    }
}
