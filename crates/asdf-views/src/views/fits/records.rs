//! A structured array of one dimension as a binary table.

use asdf_file::asdf::arrays::MaskedBy;
use asdf_file::asdf::arrays::elements::Elements;
use asdf_file::asdf::ndarray::{Datatype, Mask, Ndarray, Shape, Source};
use seekable::error::{Error, Result};

use super::document::Document;
use super::table::Table;

/// True if FITS can store the array as a table.
pub(super) fn can_be(array: &Ndarray) -> bool {
    let is_structured = matches!(array.datatype, Some(Datatype::Structured(_)));
    is_structured && Table::of_records(array.clone(), None).is_ok()
}

/// Describes the elements of a structured array as a FITS file. `by` is the rule for masked elements.
pub(super) fn document(elements: &Elements, by: Option<MaskedBy>) -> Result<Document> {
    let array = Ndarray {
        source: Source::Block(0),
        shape: Some(Shape { streamed: false, dimensions: elements.dimensions.clone() }),
        datatype: Some(elements.datatype.clone()),
        byteorder: Some(elements.byteorder),
        offset: 0,
        strides: None,
        mask: Mask::None,
    };
    let table = Table::of_records(array, by).and_then(Document::of_table);
    table.map_err(Error::unsupported)
}
