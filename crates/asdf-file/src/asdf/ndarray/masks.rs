//! Checks whether a mask fits its array, by numpy's rules.

use asdf_tree::yaml::survey::{self, TreeNode};

use super::{Datatype, INLINE_KEY, Inline, Mask, Ndarray, Result, Scalar, Source, fault, is_tag};

/// Checks the mask of `array`; `mask` is its node.
pub(super) fn fits(array: &Ndarray, mask: &TreeNode) -> Result<()> {
    let target = mask.target();
    match (array.mask, target.tag.as_deref().filter(|tag| is_tag(tag))) {
        (Mask::Ndarray(_), Some(tag)) => {
            let read = Ndarray::read_unmasked(tag, target, true)?;
            if !matches!(read.datatype, None | Some(Datatype::Scalar(Scalar::Bool8))) {
                return fault(
                    mask,
                    "the \"mask\" of an ndarray is an ndarray of another datatype than bool8",
                );
            }
            let leaves =
                target.leaves.as_deref().or_else(|| target.get(INLINE_KEY)?.target().leaves.as_deref());
            if read.datatype.is_none() && leaves.is_some_and(|leaves| leaves.no_bool.is_some()) {
                return fault(mask, "the \"mask\" of an ndarray has other elements than true and false");
            }
            match (read.elements(), array.elements()) {
                (Some(1), _) | (None, _) | (_, None) => Ok(()),
                (Some(masked), Some(count)) if masked == count => Ok(()),
                (Some(masked), Some(count)) => {
                    fault(mask, format!("the \"mask\" has {masked} elements, but its ndarray has {count}"))
                }
            }
        }
        (Mask::Value(..), _) => value_fits(array.datatype.as_ref(), mask),
        _ => Ok(()),
    }
}

fn value_fits(datatype: Option<&Datatype>, mask: &TreeNode) -> Result<()> {
    if mask.target().scalar_type().is_none() {
        return Ok(());
    }
    match datatype {
        Some(Datatype::Structured(_)) => fault(mask, "a structured ndarray has a number as its \"mask\""),
        Some(Datatype::Scalar(Scalar::Ascii(_) | Scalar::Ucs4(_))) => {
            fault(mask, "an ndarray of texts has a number as its \"mask\"")
        }
        Some(Datatype::Scalar(scalar)) => {
            let range = scalar.range();
            let beyond = |(least, greatest): (i128, i128)| {
                mask.integer().is_some_and(|value| !(least..=greatest).contains(&value))
            };
            let complex = mask.target().tag.as_deref().is_some_and(|tag| tag.contains("/core/complex-"));
            if range.is_some_and(beyond) || (range.is_some() && complex) {
                fault(mask, "the \"mask\" of an ndarray is not a value of its datatype")
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

impl Ndarray {
    /// Returns the number of elements, if it is known without the block.
    fn elements(&self) -> Option<u64> {
        let lengths = match (&self.shape, &self.source) {
            (Some(shape), _) if shape.streamed => return None,
            (Some(shape), _) => &shape.dimensions,
            (None, Source::Inline(Inline { shape: survey::SequenceShape::Array(lengths), .. })) => lengths,
            _ => return None,
        };
        lengths.iter().try_fold(1_u64, |product, length| product.checked_mul(*length))
    }
}
