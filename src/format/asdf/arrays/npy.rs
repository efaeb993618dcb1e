//! An ndarray as a file `.npy`.

use std::sync::Arc;

use super::super::AsdfFile;
use super::super::ndarray::{Byteorder, Datatype, Field, Ndarray, Scalar};
use crate::content::folder::{File, Keeping, Renewal};
use crate::content::{Content, Gather, Window, npy};
use crate::error::{Error, Result};
use crate::format::{Block, Container, FactValue};

/// The file of an array in a block.
pub(super) fn file(file: &Arc<AsdfFile>, array: &Ndarray) -> File {
    let block = file.block_count().and_then(|count| {
        let number = array.source.block(count);
        let number = number.ok_or_else(|| Error::damaged("the array lies in a block that is not there"))?;
        Ok((number, file.block(number)?))
    });
    let (content, renewal, blocks, grows) = match block {
        Ok((number, block)) => {
            let (renewal, streamed) = (Renewal::WhileSame(signature(array, &block)), block.streamed);
            (content(array, &block), renewal, vec![number], streamed)
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

fn content(array: &Ndarray, block: &Block) -> Result<Arc<dyn Content>> {
    let data = block.content.clone()?;
    let damaged = |what: String| Error::damaged(what).at(block.facts.offset);
    let unknown = || damaged("the type of the array is not known".to_owned());
    let extent = array.extent(data.len()).ok_or_else(unknown)?;
    let extent = extent.map_err(|why| damaged(format!("the array does not fit in its block: {why}")))?;
    let datatype = array.datatype.as_ref().ok_or_else(unknown)?;
    let item = datatype.size().ok_or_else(unknown)?;
    // Document 002, "ndarray": big is the default of `byteorder`.
    let descr = descr(datatype, array.byteorder.unwrap_or(Byteorder::Big)).ok_or_else(unknown)?;
    let dimensions = &extent.dimensions;
    let order = array.strides.as_ref().map_or(Order::C, |strides| order(dimensions, strides, item));
    let elements: Arc<dyn Content> = match order {
        Order::C | Order::Fortran => Arc::new(Window::new(data, extent.start, extent.end - extent.start)),
        Order::Other => {
            let strides = array.strides.iter().flatten().copied();
            let dimensions = dimensions.iter().copied().zip(strides).collect();
            Arc::new(Gather::new(data, array.offset, item, dimensions)?)
        }
    };
    npy::array(&descr, order == Order::Fortran, dimensions, elements)
}

/// In which order the elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// One after the other, the last index changing fastest; also where there is nothing to order.
    C,
    /// One after the other, the first index changing fastest.
    Fortran,
    /// In another.
    Other,
}

fn order(dimensions: &[u64], strides: &[i64], item: u64) -> Order {
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
        Order::C
    } else if contiguous(&mut pairs()) {
        Order::Fortran
    } else {
        Order::Other
    }
}

/// The type as a Python literal, as numpy has it; `None` if it is not known.
fn descr(datatype: &Datatype, byteorder: Byteorder) -> Option<String> {
    match datatype {
        Datatype::Scalar(scalar) => Some(format!("'{}'", scalar_descr(*scalar, byteorder))),
        Datatype::Structured(fields) => {
            let fields: Option<Vec<String>> =
                fields.iter().enumerate().map(|(n, field)| field_descr(n, field, byteorder)).collect();
            Some(format!("[{}]", fields?.join(", ")))
        }
        Datatype::Unknown => None,
    }
}

fn field_descr(n: usize, field: &Field, byteorder: Byteorder) -> Option<String> {
    // numpy's names for fields that have none.
    let name = if field.name.is_empty() { format!("f{n}") } else { field.name.clone() };
    let (name, descr) = (npy::literal(&name), descr(&field.datatype, field.byteorder.unwrap_or(byteorder))?);
    if field.shape.is_empty() {
        return Some(format!("({name}, {descr})"));
    }
    Some(format!("({name}, {descr}, {})", npy::tuple(&field.shape)))
}

fn scalar_descr(scalar: Scalar, byteorder: Byteorder) -> String {
    let order = match (scalar, byteorder) {
        (Scalar::Int8 | Scalar::Uint8 | Scalar::Bool8 | Scalar::Ascii(_), _) => '|',
        (_, Byteorder::Little) => '<',
        (_, Byteorder::Big) => '>',
    };
    let kind = match scalar {
        Scalar::Int8 | Scalar::Int16 | Scalar::Int32 | Scalar::Int64 => 'i',
        Scalar::Uint8 | Scalar::Uint16 | Scalar::Uint32 | Scalar::Uint64 => 'u',
        Scalar::Float16 | Scalar::Float32 | Scalar::Float64 => 'f',
        Scalar::Complex64 | Scalar::Complex128 => 'c',
        Scalar::Bool8 => 'b',
        Scalar::Ascii(_) => 'S',
        Scalar::Ucs4(_) => 'U',
    };
    let size = match scalar {
        Scalar::Ascii(len) | Scalar::Ucs4(len) => len,
        _ => scalar.size().unwrap_or(1),
    };
    format!("{order}{kind}{size}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_told_from_the_strides() {
        for (dimensions, strides, expected) in [
            (&[2, 3][..], &[12, 4][..], Order::C),
            (&[2, 3], &[4, 8], Order::Fortran),
            (&[2, 3], &[16, 4], Order::Other),
            (&[2, 3], &[-12, 4], Order::Other),
            (&[1, 3], &[999, 4], Order::C),
            (&[0, 3], &[1, 1], Order::C),
            (&[3, 1], &[4, 77], Order::C),
            (&[], &[], Order::C),
            (&[u64::MAX, u64::MAX], &[4, 4], Order::Other),
        ] {
            assert_eq!(order(dimensions, strides, 4), expected, "{dimensions:?} {strides:?}");
        }
    }

    #[test]
    fn types_are_written_as_numpy_writes_them() {
        let field = |name: &str, datatype, byteorder, shape: &[u64]| Field {
            name: name.to_owned(),
            datatype: Datatype::Scalar(datatype),
            byteorder,
            shape: shape.to_vec(),
        };
        let fields = Datatype::Structured(vec![
            field("it's", Scalar::Float32, None, &[]),
            field("", Scalar::Int16, Some(Byteorder::Little), &[2]),
            field("λ", Scalar::Ucs4(3), None, &[2, 3]),
            field("b", Scalar::Bool8, None, &[]),
        ]);
        let expected = "[(\"it's\", '>f4'), ('f1', '<i2', (2,)), ('λ', '>U3', (2, 3)), ('b', '|b1')]";
        assert_eq!(descr(&fields, Byteorder::Big).as_deref(), Some(expected));
        assert_eq!(descr(&Datatype::Unknown, Byteorder::Big), None);
    }
}
