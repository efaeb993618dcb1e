//! An ndarray as a file `.npy`.

use std::sync::Arc;

use super::super::ndarray::{ByteOrder, Datatype, Field};
use super::elements::{Elements, Order};
use crate::content::{Content, npy};
use crate::error::Result;

/// Returns the bytes of the file.
pub(in super::super) fn content(elements: &Elements) -> Result<Arc<dyn Content>> {
    let descr = descr(&elements.datatype, elements.byteorder).ok_or_else(Elements::unknown_type)?;
    let is_fortran = elements.order == Order::Fortran;
    npy::array(&descr, is_fortran, &elements.dimensions, elements.content.clone())
}

/// Returns the type as a Python literal in numpy's notation; `None` if it is unknown.
pub(super) fn descr(datatype: &Datatype, byteorder: ByteOrder) -> Option<String> {
    match datatype {
        Datatype::Scalar(scalar) => Some(format!("'{}'", scalar.in_numpy(byteorder))),
        Datatype::Structured(fields) => {
            let fields: Option<Vec<String>> =
                fields.iter().enumerate().map(|(n, field)| field_descr(n, field, byteorder)).collect();
            Some(format!("[{}]", fields?.join(", ")))
        }
        Datatype::Unknown => None,
    }
}

fn field_descr(n: usize, field: &Field, byteorder: ByteOrder) -> Option<String> {
    let name = npy::literal(&field.name_at(n));
    let descr = descr(&field.datatype, field.byteorder.unwrap_or(byteorder))?;
    if field.shape.is_empty() {
        return Some(format!("({name}, {descr})"));
    }
    Some(format!("({name}, {descr}, {})", npy::tuple(&field.shape)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Scalar;

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
            field("", Scalar::Int16, Some(ByteOrder::Little), &[2]),
            field("λ", Scalar::Ucs4(3), None, &[2, 3]),
            field("b", Scalar::Bool8, None, &[]),
        ]);
        let expected = "[(\"it's\", '>f4'), ('f1', '<i2', (2,)), ('λ', '>U3', (2, 3)), ('b', '|b1')]";
        assert_eq!(descr(&fields, ByteOrder::Big).as_deref(), Some(expected));
        assert_eq!(descr(&Datatype::Unknown, ByteOrder::Big), None);
    }
}
