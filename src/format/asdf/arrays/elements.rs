//! The elements of an ndarray: their bytes one after the other, their type and their shape.
//!
//! Every view of an array (`.npy`, FITS, a table's column …) is made from them.

use std::sync::Arc;

use super::super::AsdfFile;
use super::super::external::unchanged;
use super::super::ndarray::{Byteorder, Datatype, Ndarray, Number, Scalar, Source};
use super::entry::{Masked, MaskedBy};
use super::referred::array_of;
use super::{inline, masks};
use crate::content::folder::{File, Keeping, Renewal, Signature};
use crate::content::{Content, Gather, Text, Window};
use crate::decode::Decoded;
use crate::error::{Error, Kind, Result};
use crate::format::{Block, Container};

/// The elements of an array.
#[derive(Clone, Debug)]
pub(in super::super) struct Elements {
    /// How many there are in each dimension, `*` resolved.
    pub dimensions: Vec<u64>,
    /// Their type.
    pub datatype: Datatype,
    /// The order of the bytes of an element, unless a field says otherwise.
    pub byteorder: Byteorder,
    /// In which order they lie in `content`.
    pub order: Order,
    /// Their bytes, one after the other. Where they lie so in the block, ranges of it are lent.
    pub content: Arc<dyn Content>,
}

/// In which order the elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Order {
    /// The last index changes fastest; also where there is nothing to order.
    C,
    /// The first index changes fastest.
    Fortran,
}

impl Elements {
    /// The elements of an array in `block`.
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
            Some(_) => Arc::new(Window::new(data, extent.start, extent.end - extent.start)),
            None => {
                let strides = array.strides.iter().flatten().copied();
                let dimensions = dimensions.iter().copied().zip(strides).collect();
                Arc::new(Gather::new(data, array.offset, item, dimensions)?)
            }
        };
        // Document 002, "ndarray": big is the default of `byteorder`.
        let byteorder = array.byteorder.unwrap_or(Byteorder::Big);
        Ok(Self { dimensions, datatype, byteorder, order: order.unwrap_or(Order::C), content })
    }

    /// The elements of an array in the tree.
    fn in_tree(file: &AsdfFile, array: &Ndarray) -> Result<Self> {
        let content = content_in_tree(file, array, false)?;
        let dimensions = array.shape.as_ref().map(|shape| shape.dimensions.clone()).unwrap_or_default();
        let datatype = array.datatype.clone().ok_or_else(Self::unknown_type)?;
        Ok(Self { dimensions, datatype, byteorder: Byteorder::Little, order: Order::C, content })
    }

    /// Truth values, one for each of these elements.
    fn truths(&self, content: Arc<dyn Content>) -> Self {
        let datatype = Datatype::Scalar(Scalar::Bool8);
        Self { datatype, byteorder: Byteorder::Little, content, ..self.clone() }
    }

    /// Which elements are equal to a number.
    fn equal_to(&self, number: Number) -> Result<Self> {
        let Datatype::Scalar(scalar) = self.datatype else { return Err(Self::unknown_type()) };
        let content = masks::equal_to(self.content.clone(), (scalar, self.byteorder), number);
        Ok(self.truths(content.ok_or_else(Self::unknown_type)?))
    }

    /// The mask of an array of these dimensions that these elements, in C order, are: where they are not zero.
    fn nonzero(&self, dimensions: &[u64]) -> Result<Self> {
        let content = match self.datatype {
            Datatype::Scalar(Scalar::Bool8) => self.content.clone(),
            _ => masks::not_zero(self.content.clone(), self.datatype.size().ok_or_else(Self::unknown_type)?),
        };
        let content = masks::broadcast(content, &self.dimensions, dimensions)?;
        Ok(Self { dimensions: dimensions.to_vec(), ..self.truths(content) })
    }

    /// The elements with the last index changing fastest.
    pub(in super::super) fn in_c_order(self) -> Result<Self> {
        if self.order == Order::C {
            return Ok(self);
        }
        let item = self.datatype.size().ok_or_else(Self::unknown_type)?;
        let mut step = i64::try_from(item).map_err(|_| Self::unknown_type())?;
        let mut dimensions = Vec::with_capacity(self.dimensions.len());
        for len in &self.dimensions {
            dimensions.push((*len, step));
            let next = i64::try_from(*len).ok().and_then(|len| step.checked_mul(len));
            step = next.ok_or_else(|| Error::damaged("the array is too large"))?;
        }
        let content = Arc::new(Gather::new(self.content, 0, item, dimensions)?);
        Ok(Self { order: Order::C, content, ..self })
    }

    /// The error for an array whose type is not known.
    pub(in super::super) fn unknown_type() -> Error {
        Error::damaged("the type of the array is not known")
    }
}

/// The file of a view of an array: `make` makes its bytes from the elements.
pub(in super::super) fn file_of(
    file: &Arc<AsdfFile>,
    array: &Ndarray,
    make: impl FnOnce(&Elements) -> Result<Arc<dyn Content>>,
) -> File {
    Origin::of(file, array).file(make)
}

/// The file of a view of several arrays: `make` makes its bytes from the elements of all of them, in their order.
pub(in super::super) fn file_of_all(
    file: &Arc<AsdfFile>,
    arrays: &[&Ndarray],
    make: impl FnOnce(&[Elements]) -> Result<Arc<dyn Content>>,
) -> File {
    let mut all = Ok(Vec::new());
    let (mut signatures, mut blocks, mut grows) = (Some(Signature::default()), Vec::new(), false);
    for array in arrays {
        let origin = Origin::of(file, array);
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
    File { content, claimed: 0, grows, blocks, renewal, keeping: Keeping::All, attributes: None }
}

/// The elements of an array.
pub(in super::super) fn elements_of(file: &Arc<AsdfFile>, array: &Ndarray) -> Result<Elements> {
    Origin::of(file, array).elements
}

/// The file of a view of a mask, made in the same way.
pub(in super::super) fn file_of_mask(
    file: &Arc<AsdfFile>,
    masked: &Masked,
    make: impl FnOnce(&Elements) -> Result<Arc<dyn Content>>,
) -> File {
    let mut origin = Origin::of(file, &masked.of);
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
        MaskedBy::Array(mask) => {
            let mask = Origin::of(file, mask);
            let of = origin.elements;
            origin.elements =
                of.and_then(|elements| mask.elements?.in_c_order()?.nonzero(&elements.dimensions));
            origin.blocks.extend(mask.blocks);
            origin.grows |= mask.grows;
            origin.renewal = match (origin.renewal, mask.renewal) {
                (Renewal::WhileSame(one), Renewal::WhileSame(other)) => Renewal::WhileSame(one.and(&other)),
                _ => Renewal::Anew,
            };
        }
    }
    if let Renewal::WhileSame(signature) = &mut origin.renewal {
        signature.text.push_str(&format!("{:?}", masked.by.number()));
    }
    origin.file(make)
}

/// The elements of an array, and what a file of them depends on.
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
            Source::Elsewhere(elsewhere) => {
                Self::in_other_file(array_of(file, elsewhere).and_then(|(other, found)| {
                    if (&found.shape, &found.datatype) != (&array.shape, &array.datatype) {
                        let what = format!("\"{}\" is now another array", elsewhere.uri);
                        return Err(Error::new(Kind::Changed, what));
                    }
                    Ok((Self::of(&other, &found), other))
                }))
            }
        }
    }

    /// The same for what another file gives.
    fn in_other_file(found: Result<(Self, Arc<AsdfFile>)>) -> Self {
        let (elements, renewal) = match found {
            Ok((origin, other)) => {
                let elements = origin.elements.map(|elements| {
                    let content = unchanged(elements.content.clone(), &other);
                    Elements { content, ..elements }
                });
                let version = Signature::new(format!("{:?}", other.source_stat().version));
                let renewal = match origin.renewal {
                    Renewal::WhileSame(signature) => Renewal::WhileSame(signature.and(&version)),
                    other => other,
                };
                (elements, renewal)
            }
            Err(error) => (Err(error), Renewal::Anew),
        };
        Self { elements, renewal, blocks: Vec::new(), grows: false }
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
        File {
            content: self.elements.and_then(|elements| make(&elements)),
            claimed: 0,
            grows: self.grows,
            blocks: self.blocks,
            renewal: self.renewal,
            keeping: Keeping::All,
            attributes: None,
        }
    }
}

/// Tells the elements of an array from others. Those of a streamed block are told by their number, too.
fn signature(array: &Ndarray, number: usize, block: &Block) -> Signature {
    let len = block.content.as_ref().map_or(0, |content| content.len());
    let text = format!(
        "{number} {:?} {:?} {:?} {:?} {:?} {len}",
        array.shape, array.datatype, array.byteorder, array.offset, array.strides
    );
    Signature { text, place: format!("{:?}", block.facts) }
}

/// The bytes of an array in the tree, or which of its elements are null.
fn content_in_tree(file: &AsdfFile, array: &Ndarray, nulls: bool) -> Result<Arc<dyn Content>> {
    let text = file.found().text.clone();
    let text = text.ok_or_else(|| Error::damaged("the text of the tree can't be read"))?;
    let elements = inline::Elements::new(&text, array, nulls)?;
    let len = elements.len();
    if len == 0 {
        return Ok(Arc::new(Text::new(Vec::new())));
    }
    let decoded = Decoded::stream(elements, len, &file.context.cache);
    Ok(decoded.with_read_ahead())
}

/// In which order the elements lie one after the other; `None` if they don't.
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
    use super::*;

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
