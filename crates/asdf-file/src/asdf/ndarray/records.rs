//! Checks whether the fields of a structured array in the tree can hold its records, read as Python reads
//! them.
//!
//! To find the records, Python descends into the first item of each sequence. It stops at the first sequence
//! that has as many items as there are fields and that numpy accepts as a record. It therefore can't read
//! some arrays with as many rows as fields.

use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::{Leaves, NodeContent, TreeNode};

use super::{Datatype, Field, Result, Scalar, Shape, elements, fault};

/// Checks that the rows have equal lengths and that every value fits its field. Returns the lengths of the
/// array's dimensions; `None` if the array is empty or too large to be read. If `strict`, fails for arrays
/// that Python can't read, even if their meaning is clear.
pub(super) fn fit(
    data: &TreeNode,
    shape: Option<&Shape>,
    fields: &[Field],
    strict: bool,
) -> Result<Option<Vec<u64>>> {
    if data.items().is_none_or(<[_]>::is_empty) {
        return Ok(None);
    }
    let mut lengths = Vec::new();
    let mut line = data;
    loop {
        match line.items() {
            Some(items) if items.len() == fields.len() && !are_rows(items, fields) => break,
            Some(items @ [first, ..]) => {
                if strict && items.len() == fields.len() && !python_looks_below(fields) {
                    let what = "an array in the tree has as many rows as its datatype has fields, which \
                                Python can't read";
                    return fault(line, what);
                }
                lengths.push(items.len());
                line = first;
            }
            None if !line.is_whole() => return Ok(None),
            _ => {
                let what =
                    format!("a record in the tree does not have {} values, one for each field", fields.len());
                return fault(line, what);
            }
        }
    }
    rows_fit(data, &lengths, fields)?;
    let lengths: Vec<u64> = lengths.into_iter().map(|length| length as u64).collect();
    match shape {
        Some(shape) if shape.streamed || shape.dimensions != lengths => {
            let shape = &shape.dimensions;
            fault(
                data,
                format!("an array in the tree has the shape {lengths:?}, but its \"shape\" is {shape:?}"),
            )
        }
        _ => Ok(Some(lengths)),
    }
}

/// True if values are rows rather than the values of fields: they are sequences, and the fields are single
/// values.
fn are_rows(values: &[TreeNode], fields: &[Field]) -> bool {
    let is_row = |(value, field): (&TreeNode, &Field)| value.items().is_some() && is_plain(field);
    !values.is_empty() && values.iter().zip(fields).all(is_row)
}

/// True if Python descends into a sequence of sequences that has as many items as there are fields.
///
/// Python descends only if numpy refuses the items as values of the fields. numpy accepts any sequence as a
/// boolean. The first field that is not a boolean therefore decides: Python descends if this field is a float
/// or a string.
fn python_looks_below(fields: &[Field]) -> bool {
    use Scalar::{Ascii, Bool8, Float16, Float32, Float64, Ucs4};
    let first = fields.iter().find(|field| field.datatype != Datatype::Scalar(Bool8));
    let is_refused = |field: &Field| {
        matches!(field.datatype, Datatype::Scalar(Float16 | Float32 | Float64 | Ascii(_) | Ucs4(_)))
    };
    first.is_some_and(is_refused)
}

/// True if a field is a single number or string.
fn is_plain(field: &Field) -> bool {
    field.shape.is_empty() && matches!(field.datatype, Datatype::Scalar(_))
}

/// Checks that the sequences in `value` have these lengths, with records inside.
fn rows_fit(value: &TreeNode, lengths: &[usize], fields: &[Field]) -> Result<()> {
    let expected = lengths.first().copied().unwrap_or(fields.len());
    let items = match value.items() {
        Some(items) if items.len() == expected => items,
        None if !value.is_whole() => return Ok(()),
        _ if lengths.is_empty() => {
            return fault(
                value,
                format!("a record in the tree does not have {expected} values, one for each field"),
            );
        }
        _ => return fault(value, "the rows of an array in the tree are not of the same length"),
    };
    match lengths.get(1..) {
        Some(below) => items.iter().try_for_each(|item| rows_fit(item, below, fields)),
        None => items.iter().zip(fields).try_for_each(|(item, field)| value_fits(item, field)),
    }
}

fn value_fits(value: &TreeNode, field: &Field) -> Result<()> {
    let target = value.target();
    let scalar = match (&field.datatype, &target.node) {
        _ if !field.shape.is_empty() => return Ok(()),
        (Datatype::Structured(_), NodeContent::Sequence(..)) => {
            return fault(value, "a record in the tree is nested in another one, which Python can't read");
        }
        (Datatype::Scalar(scalar), _) => *scalar,
        _ => return Ok(()),
    };
    let (NodeContent::Scalar { text, .. }, Some(looks)) = (&target.node, value.scalar_type()) else {
        return fault(value, "a value of a record in the tree is neither a number nor a text");
    };
    if looks == Type::Null && scalar.range().is_some() {
        return fault(value, "a value of a record in the tree is null, but its field can't be");
    }
    let mut leaves = Leaves::default();
    leaves.add(value.place, text, looks, target.tag.as_deref());
    elements::fit(&leaves, Some(&field.datatype))
}
