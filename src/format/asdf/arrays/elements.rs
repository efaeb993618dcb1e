//! The elements of an ndarray: their bytes one after the other, their type and their shape.
//!
//! Every view of an array (`.npy`, FITS, a table's column …) is made from them.

use std::sync::Arc;

use super::super::AsdfFile;
use super::super::ndarray::{Byteorder, Datatype, Ndarray};
use crate::content::folder::{File, Keeping, Renewal};
use crate::content::{Content, Gather, Window};
use crate::error::{Error, Result};
use crate::format::{Block, Container, FactValue};

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
    fn in_block(array: &Ndarray, block: &Block) -> Result<Self> {
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

    /// The elements with the last index changing fastest.
    #[expect(dead_code, reason = "for the views that need one order")]
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
    let block = file.block_count().and_then(|count| {
        let number = array.source.block(count);
        let number = number.ok_or_else(|| Error::damaged("the array lies in a block that is not there"))?;
        Ok((number, file.block(number)?))
    });
    let (content, renewal, blocks, grows) = match block {
        Ok((number, block)) => {
            let content = Elements::in_block(array, &block).and_then(|elements| make(&elements));
            let (renewal, streamed) = (Renewal::WhileSame(signature(array, &block)), block.streamed);
            (content, renewal, vec![number], streamed)
        }
        Err(error) => (Err(error), Renewal::Always, Vec::new(), false),
    };
    File { content, claimed: 0, grows, blocks, renewal, keeping: Keeping::All, attributes: None }
}

/// The same text for an array of two versions of a file if it has the same elements; a streamed one may have grown.
fn signature(array: &Ndarray, block: &Block) -> String {
    let facts =
        block.facts.iter().filter(|fact| !block.streamed || !matches!(fact.value, FactValue::Size(_)));
    let facts: Vec<_> = facts.collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {facts:?}",
        array.shape, array.datatype, array.byteorder, array.offset, array.strides
    )
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
