//! Checks whether the datatype of an array in the tree can hold its elements, by numpy's rules.

use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::Leaves;

use super::{Datatype, NodeFault, Result, Scalar};

pub(super) fn fit(leaves: &Leaves, datatype: Option<&Datatype>) -> Result<()> {
    let fault = |place: Mark, what: &str| Err(NodeFault { place, what: what.to_owned() });
    if let Some(place) = leaves.no_number {
        return fault(place, "an array in the tree contains a date or binary data");
    }
    let Some(Datatype::Scalar(scalar)) = datatype else { return Ok(()) };
    if let Some((least, greatest)) = scalar.range() {
        for (value, place) in [leaves.least, leaves.greatest].into_iter().flatten() {
            if !(least..=greatest).contains(&value) {
                let what =
                    format!("an element is beyond the datatype, which goes from {least} to {greatest}");
                return fault(place, &what);
            }
        }
        if let Some(place) = leaves.no_integer {
            return fault(place, "the datatype is an integer, but an element is not");
        }
    }
    let (unfit, what) = match scalar {
        Scalar::Float16 | Scalar::Float32 | Scalar::Float64 => {
            (leaves.no_float, "the datatype is a float, but an element is not")
        }
        Scalar::Complex64 | Scalar::Complex128 => {
            (leaves.no_complex, "the datatype is a complex number, but an element is not")
        }
        Scalar::Ascii(_) => (leaves.no_ascii, "the datatype is ascii, but an element is not"),
        _ => (None, ""),
    };
    unfit.map_or(Ok(()), |place| fault(place, what))
}
