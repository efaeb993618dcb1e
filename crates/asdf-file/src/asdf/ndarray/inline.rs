//! Infers the type and the shape of an array in the tree.
//!
//! The rules are those of the standard, as numpy applies them. If any element is a string, all become
//! strings. Otherwise the type is the first present of complex, float, integer, boolean.

use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{self, ElementTypes};

use super::{ByteOrder, Datatype, Ndarray, Scalar, Shape, Source};

/// The widths that numpy gives numbers in an array of strings, in characters.
const TRUTH_VALUE: u64 = 5;
const UNSIGNED: u64 = 20;
const INTEGER: u64 = 21;
const FLOAT: u64 = 32;
const COMPLEX: u64 = 64;

/// An array in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inline {
    /// The lengths of the array's nested sequences.
    pub shape: survey::SequenceShape,
    /// The place of the outermost sequence.
    pub place: Mark,
    /// The kinds of the elements, if these were read.
    pub seen: Option<Box<ElementTypes>>,
}

impl Inline {
    /// True if the array contains aliases, so that the survey does not know all of it.
    pub fn has_aliases(&self) -> bool {
        self.shape == survey::SequenceShape::Unknown || self.seen.as_deref().is_some_and(|seen| seen.aliases)
    }
}

impl Ndarray {
    /// Sets type and shape of an array in the tree from its elements. Fails with the reason if its elements
    /// have no common type or shape.
    pub fn infer_inline(&mut self) -> Result<(), String> {
        let Source::Inline(inline) = &self.source else { return Ok(()) };
        let seen = inline.seen.as_deref().ok_or("its elements are not known")?;
        let lengths = match &inline.shape {
            survey::SequenceShape::Array(lengths) => Some(lengths),
            _ => None,
        };
        match &self.datatype {
            Some(Datatype::Structured(fields)) => {
                if self.shape.is_none() {
                    let lengths = lengths.ok_or("its rows are not of the same length")?;
                    let dimensions = match lengths.split_last() {
                        Some((last, above)) if *last == fields.len() as u64 => above.to_vec(),
                        _ if lengths.contains(&0) => lengths.clone(),
                        _ => return Err("its rows do not have one value for each field".to_owned()),
                    };
                    self.shape = Some(Shape { streamed: false, dimensions });
                }
                let records = self.shape.as_ref().map_or(Some(0), |shape| product(&shape.dimensions));
                let expected = self.datatype.as_ref().and_then(Datatype::leaves).zip(records);
                if expected.and_then(|(leaves, records)| leaves.checked_mul(records)) != Some(seen.count) {
                    return Err("its records do not have one value for each field".to_owned());
                }
            }
            Some(Datatype::Unknown) => return Err("its datatype has too many fields".to_owned()),
            datatype => {
                let lengths = lengths.ok_or("its rows are not of the same length")?;
                let inferred = match datatype {
                    Some(datatype) => datatype.clone(),
                    None => Datatype::Scalar(inferred(seen)?),
                };
                // A stated shape is used, because the sequences of an empty array do not determine its shape.
                let dimensions = match &self.shape {
                    Some(shape) => shape.dimensions.clone(),
                    None => lengths.clone(),
                };
                self.shape = Some(Shape { streamed: false, dimensions });
                self.datatype = Some(inferred);
            }
        }
        (self.byteorder, self.offset, self.strides) = (Some(ByteOrder::Little), 0, None);
        Ok(())
    }
}

impl Datatype {
    /// Returns the number of values in an element.
    fn leaves(&self) -> Option<u64> {
        match self {
            Self::Scalar(_) => Some(1),
            Self::Structured(fields) => fields.iter().try_fold(0_u64, |sum, field| {
                let each = field.datatype.leaves()?.checked_mul(product(&field.shape)?)?;
                sum.checked_add(each)
            }),
            Self::Unknown => None,
        }
    }
}

fn product(lengths: &[u64]) -> Option<u64> {
    lengths.iter().try_fold(1_u64, |product, len| product.checked_mul(*len))
}

/// Infers the type of elements without a stated one.
fn inferred(seen: &ElementTypes) -> Result<Scalar, String> {
    if let Some(place) = seen.beyond {
        return Err(format!("the integer on line {} is beyond 64 bits", place.line));
    }
    if let Some(longest) = seen.longest {
        let number = |is: bool, characters| if is { characters } else { 1 };
        let width = [
            longest,
            number(seen.bools, TRUTH_VALUE),
            number(seen.unsigned, UNSIGNED),
            number(seen.integers, INTEGER),
            number(seen.floats, FLOAT),
            number(seen.complex, COMPLEX),
        ];
        return Ok(Scalar::Ucs4(width.into_iter().max().unwrap_or(1)));
    }
    Ok(if seen.complex {
        Scalar::Complex128
    } else if seen.floats || (seen.unsigned && seen.integers) || seen.count == 0 {
        Scalar::Float64
    } else if seen.unsigned {
        Scalar::Uint64
    } else if seen.integers {
        Scalar::Int64
    } else {
        Scalar::Bool8
    })
}
