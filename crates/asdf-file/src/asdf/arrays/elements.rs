//! The elements of an ndarray: contiguous bytes, type and shape.
//!
//! Every view of an array (`.npy`, FITS, a table's column …) is made from them.

use std::ops::Range;
use std::sync::Arc;

use asdf_tree::limits::MAX_VALUE;
use seekable::content::{Content, ContentWindow, Text};
use seekable::decode::Decoded;
use seekable::error::{Error, Kind, Result};

use super::super::external::unchanged;
use super::super::ndarray::chunked::{ArrayChunks, Chunked};
use super::super::ndarray::{ByteOrder, Datatype, Ndarray, Number, Scalar, Source};
use super::super::view::AsdfFile;
use super::entry::{Masked, MaskedBy};
use super::referred::array_of;
use super::survey::surveyed;
use super::{chunks, inline, masks};
use crate::array::{Conversion, Gather, Grid, GridChunks, Recoded};
use crate::container::Block;
use crate::folder::{File, Renewal, Signature};

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements {
    /// The length of each dimension, with `*` resolved.
    pub dimensions: Vec<u64>,
    /// The type of an element.
    pub datatype: Datatype,
    /// The byte order, except for fields of a record that have a byte order of their own.
    pub byteorder: ByteOrder,
    /// The order of the elements in `content`.
    pub order: Order,
    /// The elements, contiguous. If the block holds them in this order, its ranges are used without a copy.
    pub content: Arc<dyn Content>,
}

/// The order of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index varies fastest. Also used for arrays without an order, such as empty ones.
    C,
    /// The first index varies fastest.
    Fortran,
}

impl Elements {
    /// Locates the elements of an array in `block`.
    pub(super) fn in_block(array: &Ndarray, block: &Block) -> Result<Self> {
        let data = block.content.clone()?;
        let damaged = |what: String| Error::damaged(what).at(block.facts.offset);
        let extent = array.extent(data.len()).ok_or_else(Self::unknown_type)?;
        let extent = extent.map_err(|why| damaged(format!("the array does not fit in its block: {why}")))?;
        let datatype = array.datatype.clone().ok_or_else(Self::unknown_type)?;
        let item = datatype.size().ok_or_else(Self::unknown_type)?;
        let dimensions = extent.dimensions;
        let order =
            array.strides.as_ref().map_or(Some(Order::C), |strides| order(&dimensions, strides, item));
        let content: Arc<dyn Content> = match order {
            Some(_) => Arc::new(ContentWindow::new(data, extent.start, extent.end - extent.start)),
            None => {
                let strides = array.strides.iter().flatten().copied();
                let dimensions = dimensions.iter().copied().zip(strides).collect();
                Arc::new(Gather::new(data, array.offset, item, dimensions)?)
            }
        };
        // Document 002, "ndarray": `byteorder` is big by default.
        let byteorder = array.byteorder.unwrap_or(ByteOrder::Big);
        Ok(Self { dimensions, datatype, byteorder, order: order.unwrap_or(Order::C), content })
    }

    /// Reads the elements of an array that is written in the tree.
    fn in_tree(file: &AsdfFile, array: &Ndarray) -> Result<Self> {
        let content = content_in_tree(file, array, false)?;
        let dimensions = array.shape.as_ref().map(|shape| shape.dimensions.clone()).unwrap_or_default();
        let datatype = array.datatype.clone().ok_or_else(Self::unknown_type)?;
        Ok(Self { dimensions, datatype, byteorder: ByteOrder::Little, order: Order::C, content })
    }

    /// Returns an array of booleans with the dimensions of these elements. `content` has a byte for each
    /// boolean.
    fn truths(&self, content: Arc<dyn Content>) -> Self {
        let datatype = Datatype::Scalar(Scalar::Bool8);
        Self { datatype, byteorder: ByteOrder::Little, content, ..self.clone() }
    }

    /// Returns a boolean for each element: true if it equals `number`.
    fn equal_to(&self, number: Number) -> Result<Self> {
        let Datatype::Scalar(scalar) = self.datatype else { return Err(Self::unknown_type()) };
        let content = masks::equal_to(self.content.clone(), scalar, self.byteorder, number);
        Ok(self.truths(content.ok_or_else(Self::unknown_type)?))
    }

    /// Returns a boolean for each value: true if it equals the null of its field.
    fn null_fields(&self, nulls: &[Option<Number>]) -> Result<Self> {
        let Datatype::Structured(fields) = &self.datatype else { return Err(Self::unknown_type()) };
        let content = masks::values_null(self.content.clone(), fields, nulls, MAX_VALUE)?;
        Ok(Self { datatype: self.datatype.of_mask(), ..self.truths(content) })
    }

    /// Returns the mask of an array, from elements in C order: true where they are not zero. A structured mask
    /// has a boolean for each field.
    fn nonzero(&self, of: &Self) -> Result<Self> {
        let (datatype, item, content) = match &self.datatype {
            Datatype::Structured(_) => {
                let sizes = self.datatype.value_sizes(MAX_VALUE).ok_or_else(Self::unknown_type)?;
                let content = if self.datatype.is_of_bools() {
                    self.content.clone()
                } else {
                    masks::values_not_zero(self.content.clone(), &sizes)?
                };
                (of.datatype.of_mask(), sizes.len() as u64, content)
            }
            Datatype::Scalar(Scalar::Bool8) => (self.datatype.clone(), 1, self.content.clone()),
            datatype => {
                let size = datatype.size().ok_or_else(Self::unknown_type)?;
                (Datatype::Scalar(Scalar::Bool8), 1, masks::not_zero(self.content.clone(), size))
            }
        };
        let content = masks::broadcast(content, item, &self.dimensions, &of.dimensions)?;
        Ok(Self { datatype, dimensions: of.dimensions.clone(), ..self.truths(content) })
    }

    /// Reorders the elements so that the last index varies fastest.
    pub fn in_c_order(self) -> Result<Self> {
        if self.order == Order::C {
            return Ok(self);
        }
        let item = self.datatype.size().ok_or_else(Self::unknown_type)?;
        let content = Arc::new(Gather::in_c_order(self.content, item, &self.dimensions)?);
        Ok(Self { order: Order::C, content, ..self })
    }

    /// Returns the elements whose indices are in `ranges`, one for each dimension, without reading them.
    ///
    /// # Errors
    /// The ranges are not within the dimensions.
    pub fn part(self, ranges: &[Range<u64>]) -> Result<Self> {
        let whole = self.in_c_order()?;
        let item = whole.datatype.size().ok_or_else(Self::unknown_type)?;
        let outside = || Error::damaged("the part is not within the array");
        if ranges.len() != whole.dimensions.len() {
            return Err(outside());
        }
        let mut stride = i64::try_from(item).map_err(|_| outside())?;
        let mut start = 0_u64;
        let mut dimensions = Vec::with_capacity(ranges.len());
        for (range, len) in ranges.iter().zip(&whole.dimensions).rev() {
            let count =
                range.end.checked_sub(range.start).filter(|_| range.end <= *len).ok_or_else(outside)?;
            let skipped = range.start.checked_mul(stride.unsigned_abs());
            start = skipped.and_then(|skipped| start.checked_add(skipped)).ok_or_else(outside)?;
            dimensions.push((count, stride));
            let len = i64::try_from(*len).map_err(|_| outside())?;
            stride = stride.checked_mul(len).ok_or_else(outside)?;
        }
        dimensions.reverse();
        let lengths = dimensions.iter().map(|(count, _)| *count).collect();
        let content = Arc::new(Gather::new(whole.content, start, item, dimensions)?);
        Ok(Self { dimensions: lengths, content, ..whole })
    }

    /// Returns the error for an array of unknown type.
    pub fn unknown_type() -> Error {
        Error::damaged("the type of the array is not known")
    }
}

/// Returns a view's file of one array. `make` makes its bytes from the elements.
pub fn file_of(
    file: &Arc<AsdfFile>,
    array: &Ndarray,
    make: impl FnOnce(&Elements) -> Result<Arc<dyn Content>>,
) -> File {
    Origin::of(file, array).file(make)
}

/// A part of a file that is made from several arrays.
#[derive(Clone, Copy, Debug)]
pub enum ArrayPart<'p> {
    /// The elements of an array.
    Elements(&'p Ndarray),
    /// The mask of an array.
    Mask(&'p Masked),
}

/// Returns a view's file of several arrays and masks. `make` makes its bytes from the elements of all, in their order.
pub fn file_of_all(
    file: &Arc<AsdfFile>,
    parts: &[ArrayPart<'_>],
    make: impl FnOnce(&[Elements]) -> Result<Arc<dyn Content>>,
) -> File {
    let mut all = Ok(Vec::new());
    let mut signatures = Some(Signature::default());
    let mut blocks = Vec::new();
    let mut grows = false;
    for part in parts {
        let origin = match part {
            ArrayPart::Elements(array) => Origin::of(file, array),
            ArrayPart::Mask(masked) => Origin::of_mask(file, masked),
        };
        all = all.and_then(|mut all: Vec<Elements>| {
            all.push(origin.elements?);
            Ok(all)
        });
        signatures = match (signatures, origin.renewal) {
            (Some(one), Renewal::WhileSame(other)) => Some(one.and(&other)),
            _ => None,
        };
        blocks.extend(origin.blocks);
        grows |= origin.grows;
    }
    blocks.sort_unstable();
    blocks.dedup();
    let renewal = signatures.map_or(Renewal::Anew, Renewal::WhileSame);
    let content = all.and_then(|all| make(&all));
    File { grows, blocks, renewal, ..File::of(content) }
}

/// Returns the elements of an array.
pub fn elements_of(file: &Arc<AsdfFile>, array: &Ndarray) -> Result<Elements> {
    Origin::of(file, array).elements
}

/// Returns a view's file of a mask. `make` makes its bytes from the elements of the mask.
pub fn file_of_mask(
    file: &Arc<AsdfFile>,
    masked: &Masked,
    make: impl FnOnce(&Elements) -> Result<Arc<dyn Content>>,
) -> File {
    Origin::of_mask(file, masked).file(make)
}

/// The elements of an array, and the dependencies of a file made from them.
struct Origin {
    elements: Result<Elements>,
    renewal: Renewal,
    blocks: Vec<usize>,
    grows: bool,
}

impl Origin {
    fn of(file: &Arc<AsdfFile>, array: &Ndarray) -> Self {
        match &array.source {
            Source::Inline(inline) => {
                let hash = inline.seen.as_deref().map(|seen| seen.hash);
                let signature = Signature::new(format!("{:?} {:?} {hash:?}", array.shape, array.datatype));
                let elements = Elements::in_tree(file, array);
                Self { elements, renewal: Renewal::WhileSame(signature), blocks: Vec::new(), grows: false }
            }
            Source::Block(_) => Self::in_block(file, array),
            Source::External(uri) => Self::in_other_file(file.external(uri).map(|other| {
                let in_block = Ndarray { source: Source::Block(0), ..array.clone() };
                (Self::in_block(&other, &in_block), other)
            })),
            Source::Hdu(source) => Self::in_hdu(file, source),
            Source::Chunked(chunked) => Self::in_chunks(file, array, chunked),
            Source::Elsewhere(elsewhere) => {
                Self::in_other_file(array_of(file, elsewhere).and_then(|(other, found)| {
                    if (&found.shape, &found.datatype) != (&array.shape, &array.datatype) {
                        let what = format!(
                            "the array \"{}\" has another shape or datatype now: mount again",
                            elsewhere.uri
                        );
                        return Err(Error::new(Kind::Changed, what));
                    }
                    Ok((Self::of(&other, &found), other))
                }))
            }
        }
    }

    /// Returns the mask of an array.
    fn of_mask(file: &Arc<AsdfFile>, masked: &Masked) -> Self {
        let mut origin = Self::of(file, &masked.of);
        match &masked.by {
            MaskedBy::Number(number) => {
                origin.elements = origin.elements.and_then(|elements| elements.equal_to(*number));
            }
            MaskedBy::Null => {
                origin.elements = origin.elements.and_then(|elements| {
                    let content = content_in_tree(file, &masked.of, true)?;
                    Ok(elements.truths(content))
                });
            }
            MaskedBy::Fields => {
                let nulls = file.fits.as_ref().map_or(&[][..], |fits| fits.nulls(&masked.of));
                origin.elements = origin.elements.and_then(|elements| elements.null_fields(nulls));
            }
            MaskedBy::Array(mask) => {
                let mask = Self::of(file, mask);
                let of = origin.elements;
                origin.elements = of.and_then(|elements| mask.elements?.in_c_order()?.nonzero(&elements));
                origin.blocks.extend(mask.blocks);
                origin.grows |= mask.grows;
                origin.renewal = match (origin.renewal, mask.renewal) {
                    (Renewal::WhileSame(one), Renewal::WhileSame(other)) => {
                        Renewal::WhileSame(one.and(&other))
                    }
                    _ => Renewal::Anew,
                };
            }
        }
        if let Renewal::WhileSame(signature) = &mut origin.renewal {
            signature.text.push_str(&format!("{:?}", masked.by.number()));
        }
        origin
    }

    /// Ties an array in another file to the version of that file: reads fail with ESTALE once it has changed.
    fn in_other_file(found: Result<(Self, Arc<AsdfFile>)>) -> Self {
        let (elements, renewal) = match found {
            Ok((origin, other)) => {
                let elements = origin.elements.map(|elements| {
                    let content = unchanged(elements.content.clone(), &other);
                    Elements { content, ..elements }
                });
                let version = Signature::new(format!("{:?}", other.source_stat.version));
                let renewal = match origin.renewal {
                    Renewal::WhileSame(signature) => Renewal::WhileSame(signature.and(&version)),
                    renewal => renewal,
                };
                (elements, renewal)
            }
            Err(error) => (Err(error), Renewal::Anew),
        };
        Self { elements, renewal, blocks: Vec::new(), grows: false }
    }

    /// Returns the array of an HDU, with the type and shape that the HDU has.
    fn in_hdu(file: &AsdfFile, source: &str) -> Self {
        let elements = match &file.fits {
            Some(fits) => fits.array(source).map_err(Error::damaged).and_then(|array| {
                Ok(Elements {
                    dimensions: array.dimensions.clone(),
                    datatype: array.datatype.clone(),
                    byteorder: ByteOrder::Big,
                    order: Order::C,
                    content: fits.elements(source)?,
                })
            }),
            None => Err(Error::damaged("the array is in an extension of a FITS file")),
        };
        Self { elements, renewal: Renewal::Anew, blocks: Vec::new(), grows: false }
    }

    fn in_chunks(file: &Arc<AsdfFile>, array: &Ndarray, chunked: &Chunked) -> Self {
        let elements = || {
            let dimensions = array.shape.as_ref().map(|shape| shape.dimensions.clone()).unwrap_or_default();
            let datatype = array.datatype.clone().ok_or_else(Elements::unknown_type)?;
            let item = datatype.size().ok_or_else(Elements::unknown_type)?;
            let no_fill = vec![0; item as usize];
            let (chunks, fill): (Arc<dyn GridChunks>, _) = match &chunked.chunks {
                ArrayChunks::Blocks(blocks) => (
                    chunks::in_blocks(file, blocks, item)?,
                    blocks.fill.as_ref().map_or(no_fill, |fill| fill.bytes.clone()),
                ),
                ArrayChunks::Arrays(arrays) => {
                    let byteorder = array.byteorder.unwrap_or(ByteOrder::Big);
                    (
                        Arc::new(ListedChunks { file: file.clone(), arrays: arrays.clone(), byteorder }),
                        no_fill,
                    )
                }
            };
            let content = Arc::new(Grid::new(&dimensions, chunked.divisions.clone(), fill, chunks)?);
            let byteorder = array.byteorder.unwrap_or(ByteOrder::Big);
            Ok(Elements { dimensions, datatype, byteorder, order: Order::C, content })
        };
        Self { elements: elements(), renewal: Renewal::Anew, blocks: Vec::new(), grows: false }
    }

    fn in_block(file: &Arc<AsdfFile>, array: &Ndarray) -> Self {
        let block = file.block_count().and_then(|count| {
            let number = array.source.block(count);
            let number =
                number.ok_or_else(|| Error::damaged("the array is in a block that does not exist"))?;
            Ok((number, file.block(number)?))
        });
        match block {
            Ok((number, block)) => Self {
                elements: Elements::in_block(array, &block),
                renewal: Renewal::WhileSame(signature(array, number, &block)),
                blocks: vec![number],
                grows: block.streamed,
            },
            Err(error) => {
                Self { elements: Err(error), renewal: Renewal::Anew, blocks: Vec::new(), grows: false }
            }
        }
    }

    fn file(self, make: impl FnOnce(&Elements) -> Result<Arc<dyn Content>>) -> File {
        let content = self.elements.and_then(|elements| make(&elements));
        File { grows: self.grows, blocks: self.blocks, renewal: self.renewal, ..File::of(content) }
    }
}

/// The chunks of an array that are ndarrays.
#[derive(Debug)]
struct ListedChunks {
    file: Arc<AsdfFile>,
    arrays: Vec<Ndarray>,
    /// The byte order of the whole array.
    byteorder: ByteOrder,
}

impl GridChunks for ListedChunks {
    fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>> {
        let array = usize::try_from(n).ok().and_then(|n| self.arrays.get(n));
        let array = array.ok_or_else(|| Error::damaged("the array has no such chunk"))?;
        let elements = elements_of(&self.file, array)?.in_c_order()?;
        if elements.byteorder == self.byteorder {
            return Ok(Some(elements.content));
        }
        let width = match elements.datatype {
            Datatype::Scalar(Scalar::Ascii(_)) => 1,
            Datatype::Scalar(Scalar::Ucs4(_) | Scalar::Complex64) => 4,
            Datatype::Scalar(Scalar::Complex128) => 8,
            Datatype::Scalar(scalar) => scalar.size().ok_or_else(Elements::unknown_type)? as usize,
            _ => return Err(Elements::unknown_type()),
        };
        let swapped = Conversion::Number { width, reverse: true, flip: false };
        Ok(Some(Recoded::elements(elements.content, swapped)?))
    }
}

/// Returns the signature of an array's elements. `number` is the number of the block.
fn signature(array: &Ndarray, number: usize, block: &Block) -> Signature {
    let len = block.content.as_ref().map_or(0, |content| content.len());
    let text = format!(
        "{number} {:?} {:?} {:?} {:?} {:?} {len}",
        array.shape, array.datatype, array.byteorder, array.offset, array.strides
    );
    Signature { text, place: format!("{:?}", block.facts) }
}

/// Returns the bytes of an array in the tree or, with `nulls`, a boolean for each element: true if the
/// element is null.
fn content_in_tree(file: &AsdfFile, array: &Ndarray, nulls: bool) -> Result<Arc<dyn Content>> {
    let text = surveyed(file)?.text.clone();
    let text = text.ok_or_else(|| Error::damaged("the text of the tree can't be read"))?;
    let elements = inline::Elements::new(&text, array, nulls)?;
    let len = elements.len();
    if len == 0 {
        return Ok(Arc::new(Text::new(Vec::new())));
    }
    let decoded = Decoded::stream(elements, len, &file.context.cache);
    Ok(decoded.with_read_ahead())
}

/// Returns the order in which the elements are contiguous; `None` if they are not.
fn order(dimensions: &[u64], strides: &[i64], item: u64) -> Option<Order> {
    let contiguous = |order: &mut dyn Iterator<Item = (&u64, &i64)>| {
        order
            .filter(|(len, _)| **len != 1)
            .try_fold(item, |step, (len, stride)| {
                (i128::from(*stride) == i128::from(step)).then(|| step.checked_mul(*len)).flatten()
            })
            .is_some()
    };
    let pairs = || dimensions.iter().zip(strides);
    if dimensions.contains(&0) || contiguous(&mut pairs().rev()) {
        Some(Order::C)
    } else if contiguous(&mut pairs()) {
        Some(Order::Fortran)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use seekable::content::read_exact_at;

    use super::*;

    #[test]
    fn a_part_has_the_elements_of_its_ranges() {
        for (order, [last, middle, first]) in [(Order::C, [1, 4, 12]), (Order::Fortran, [6, 2, 1])] {
            let elements = Elements {
                dimensions: vec![2, 3, 4],
                datatype: Datatype::Scalar(Scalar::Uint8),
                byteorder: ByteOrder::Big,
                order,
                content: Arc::new(Text::new((0..24).collect::<Vec<u8>>())),
            };
            let part = elements.clone().part(&[1..2, 0..2, 1..4]).unwrap();
            let mut bytes = [0; 6];
            read_exact_at(&*part.content, 0, &mut bytes).unwrap();
            let wanted = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)];
            assert_eq!(bytes, wanted.map(|(y, x)| first + y * middle + x * last), "{order:?}");
            assert_eq!((part.dimensions, part.content.len()), (vec![1, 2, 3], 6));
            for ranges in [&[0..1, 0..1][..], &[0..3, 0..1, 0..1], &[0..1, Range { start: 2, end: 1 }, 0..1]]
            {
                assert!(elements.clone().part(ranges).is_err(), "{ranges:?}");
            }
        }
    }

    #[test]
    fn the_order_is_told_from_the_strides() {
        for (dimensions, strides, expected) in [
            (&[2, 3][..], &[12, 4][..], Some(Order::C)),
            (&[2, 3], &[4, 8], Some(Order::Fortran)),
            (&[2, 3], &[16, 4], None),
            (&[2, 3], &[-12, 4], None),
            (&[1, 3], &[999, 4], Some(Order::C)),
            (&[0, 3], &[1, 1], Some(Order::C)),
            (&[3, 1], &[4, 77], Some(Order::C)),
            (&[], &[], Some(Order::C)),
            (&[u64::MAX, u64::MAX], &[4, 4], None),
        ] {
            assert_eq!(order(dimensions, strides, 4), expected, "{dimensions:?} {strides:?}");
        }
    }
}
