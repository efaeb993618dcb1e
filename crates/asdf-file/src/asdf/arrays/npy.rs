//! An ndarray as a file `.npy`.

use std::sync::Arc;

use seekable::error::Result;

use seekable::content::Content;

use super::super::ndarray::{ByteOrder, Datatype, Field};
use super::elements::{Elements, Order};
use crate::array::{self, npy};

/// Returns the bytes of the file.
pub fn content(elements: &Elements) -> Result<Arc<dyn Content>> {
    let (datatype, byteorder) =
        whole(&elements.datatype, elements.byteorder).ok_or_else(Elements::unknown_type)?;
    npy::file(array::Array {
        datatype,
        byteorder,
        fortran_order: elements.order == Order::Fortran,
        shape: elements.dimensions.clone(),
        elements: elements.content.clone(),
    })
}

/// Returns the type and the byte order of an element; `None` if the type is unknown.
fn whole(datatype: &Datatype, byteorder: ByteOrder) -> Option<(array::Datatype, ByteOrder)> {
    let fields = match datatype {
        Datatype::Scalar(scalar) => {
            let byteorder = if scalar.has_order() { byteorder } else { ByteOrder::Little };
            return Some(((*scalar).into(), byteorder));
        }
        Datatype::Structured(fields) => fields,
        Datatype::Unknown => return None,
    };
    let field = |(n, field): (usize, &Field)| {
        let (datatype, byteorder) = whole(&field.datatype, field.byteorder.unwrap_or(byteorder))?;
        let (name, shape) = (field.name_at(n).into_owned(), field.shape.clone());
        Some(array::Field { title: None, name, datatype, byteorder, shape })
    };
    let fields = fields.iter().enumerate().map(field).collect::<Option<Vec<_>>>()?;
    Some((array::Datatype::Record(fields), ByteOrder::Little))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Scalar;

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
        let (record, byteorder) = whole(&fields, ByteOrder::Big).unwrap();
        assert_eq!(record.descr(byteorder), expected);
        assert_eq!(whole(&Datatype::Unknown, ByteOrder::Big), None);
    }
}
