//! Masks of arrays, as arrays of booleans.

use std::sync::Arc;

use seekable::error::{Error, Result};

use seekable::content::{Content, read_exact_at};

use super::super::ndarray::{ByteOrder, Datatype, Field, Number, Scalar};
use crate::array::numbers::integer;
use crate::array::{Gather, float16, half};

/// Maximum number of bytes tested together, unless a single element is longer.
const SPAN: usize = 64 << 10;

/// Returns a boolean for each element: true if it equals `number`.
pub fn equal_to(
    elements: Arc<dyn Content>,
    scalar: Scalar,
    byteorder: ByteOrder,
    number: Number,
) -> Option<Arc<dyn Content>> {
    let test = Test::Equals(scalar, byteorder, number);
    Some(Arc::new(Truths { elements, item: scalar.size()?, test }))
}

/// Returns a boolean for each element of `item` bytes: true if it is not zero.
pub(super) fn not_zero(elements: Arc<dyn Content>, item: u64) -> Arc<dyn Content> {
    Arc::new(Truths { elements, item, test: Test::NotZero })
}

/// Returns a boolean for each value of structured elements: true if it is not zero. `sizes` are the sizes of the
/// values of an element.
pub(super) fn values_not_zero(elements: Arc<dyn Content>, sizes: &[u64]) -> Result<Arc<dyn Content>> {
    tested(elements, sizes.iter().map(|size| (*size, Test::NotZero)))
}

/// Returns a boolean for each value of structured elements: true if it equals the null of its field. There are `nulls` for
/// all fields; `most` is the maximum number of values of an element.
pub(super) fn values_null(
    elements: Arc<dyn Content>,
    fields: &[Field],
    nulls: &[Option<Number>],
    most: usize,
) -> Result<Arc<dyn Content>> {
    let unknown = || Error::damaged("the elements have values of unknown types, or too many");
    let mut tests = Vec::new();
    for (field, null) in fields.iter().zip(nulls) {
        let Datatype::Scalar(scalar) = field.datatype else { return Err(unknown()) };
        let size = scalar.size().ok_or_else(unknown)?;
        let count = field.shape.iter().try_fold(1_u64, |product, len| product.checked_mul(*len));
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or_else(unknown)?;
        if count > most - tests.len().min(most) {
            return Err(unknown());
        }
        let byteorder = field.byteorder.unwrap_or(ByteOrder::Big);
        let test = null.map_or(Test::Never, |null| Test::Equals(scalar, byteorder, null));
        tests.extend(std::iter::repeat_n((size, test), count));
    }
    tested(elements, tests.into_iter())
}

/// Returns a boolean for each value of structured elements, from their sizes and tests.
fn tested(elements: Arc<dyn Content>, tests: impl Iterator<Item = (u64, Test)>) -> Result<Arc<dyn Content>> {
    let mut values = Vec::new();
    let mut end = 0_u64;
    for (size, test) in tests {
        end = end.checked_add(size).ok_or_else(|| Error::damaged("the elements are too long"))?;
        let end = usize::try_from(end).map_err(|_| Error::damaged("the elements are too long"))?;
        values.push((end, test));
    }
    Ok(Arc::new(FieldTruths { elements, values }))
}

/// Broadcasts elements of `item` booleans in C order from one shape to another, as numpy does for masks.
pub(super) fn broadcast(
    mask: Arc<dyn Content>,
    item: u64,
    from: &[u64],
    to: &[u64],
) -> Result<Arc<dyn Content>> {
    let unfit = || Error::damaged("the mask does not fit the shape of its array");
    let item_stride = i64::try_from(item).map_err(|_| unfit())?;
    let mut dimensions = Vec::with_capacity(to.len());
    for (len, stride) in to.iter().zip(strides(from, to).ok_or_else(unfit)?) {
        dimensions.push((*len, stride.checked_mul(item_stride).ok_or_else(unfit)?));
    }
    Ok(Arc::new(Gather::new(mask, 0, item, dimensions)?))
}

/// True if a mask of one shape fits an array of another.
pub fn can_be_broadcast(from: &[u64], to: &[u64]) -> bool {
    strides(from, to).is_some()
}

/// Returns the strides that broadcast elements of one byte as numpy does for masks; `None` if the shapes do
/// not fit.
fn strides(from: &[u64], to: &[u64]) -> Option<Vec<i64>> {
    let mut step = 1_i64;
    let mut own = Vec::with_capacity(to.len());
    let count = |lengths: &[u64]| lengths.iter().try_fold(1_u64, |product, len| product.checked_mul(*len));
    // numpy reshapes a mask with the right number of elements, and repeats a single element.
    let shape = if from != to && count(from) == count(to) { to } else { from };
    let shape = if count(from) == Some(1) { &[] } else { shape };
    let missing = to.len().checked_sub(shape.len())?;
    for (len, wanted) in shape.iter().zip(&to[missing..]).rev() {
        own.push(match len {
            1 => 0,
            len if len == wanted => step,
            _ => return None,
        });
        step = step.checked_mul(i64::try_from(*len).ok()?)?;
    }
    own.resize(to.len(), 0);
    own.reverse();
    Some(own)
}

/// A test of an element.
#[derive(Clone, Copy, Debug)]
enum Test {
    Equals(Scalar, ByteOrder, Number),
    NotZero,
    Never,
}

impl Test {
    fn of(self, element: &[u8]) -> bool {
        match self {
            Self::NotZero => element.iter().any(|byte| *byte != 0),
            Self::Never => false,
            Self::Equals(scalar, byteorder, number) => {
                let mut little = [0; 16];
                let Some(bytes) = little.get_mut(..element.len()) else { return false };
                bytes.copy_from_slice(element);
                if byteorder == ByteOrder::Big {
                    let half = match scalar {
                        Scalar::Complex64 | Scalar::Complex128 => element.len() / 2,
                        _ => element.len(),
                    };
                    bytes.chunks_mut(half.max(1)).for_each(<[u8]>::reverse);
                }
                is_equal(scalar, little, number)
            }
        }
    }
}

/// True if an element, in little-endian bytes, equals a number. Both are compared as numpy does, except that
/// NaN equals NaN.
fn is_equal(scalar: Scalar, bytes: [u8; 16], number: Number) -> bool {
    let float = |at: usize, size: usize| match size {
        4 => f64::from(f32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))),
        _ => f64::from_le_bytes(std::array::from_fn(|n| bytes[at + n])),
    };
    let (number_re, number_im) = match number {
        Number::Int(value) => (value as f64, 0.0),
        Number::Float(value) => (value, 0.0),
        Number::Complex(re, im) => (re, im),
    };
    let is_nan = number_re.is_nan() || number_im.is_nan();
    let single = |value: f64| f64::from(value as f32);
    match scalar {
        Scalar::Float16 => {
            let value = f64::from(float16(u16::from_le_bytes([bytes[0], bytes[1]])));
            let wanted = f64::from(float16(half(number_re)));
            if is_nan { value.is_nan() } else { value == wanted && number_im == 0.0 }
        }
        Scalar::Float32 | Scalar::Float64 => {
            let (value, wanted) = match scalar {
                Scalar::Float32 => (float(0, 4), single(number_re)),
                _ => (float(0, 8), number_re),
            };
            if is_nan { value.is_nan() } else { value == wanted && number_im == 0.0 }
        }
        Scalar::Complex64 | Scalar::Complex128 => {
            let (re, im, wanted) = match scalar {
                Scalar::Complex64 => (float(0, 4), float(4, 4), (single(number_re), single(number_im))),
                _ => (float(0, 8), float(8, 8), (number_re, number_im)),
            };
            if is_nan { re.is_nan() || im.is_nan() } else { (re, im) == wanted }
        }
        _ => {
            let truth = || (scalar == Scalar::Bool8).then_some(i128::from(bytes[0] != 0));
            let Some(value) = integer(scalar, ByteOrder::Little, &bytes[..8]).or_else(truth) else {
                return false;
            };
            match number {
                Number::Int(wanted) => value == wanted,
                _ => value as f64 == number_re && number_im == 0.0,
            }
        }
    }
}

/// The results of a test, with a boolean for each element.
#[derive(Debug)]
struct Truths {
    elements: Arc<dyn Content>,
    /// Length of an element, in bytes.
    item: u64,
    test: Test,
}

impl Content for Truths {
    fn len(&self) -> u64 {
        self.elements.len().checked_div(self.item).unwrap_or_default()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let item = usize::try_from(self.item).map_err(|_| Error::damaged("the elements are too long"))?;
        let together = (SPAN / item.max(1)).max(1);
        let mut bytes = Vec::new();
        let mut done = 0;
        for out in buf[..wanted].chunks_mut(together) {
            bytes.resize(out.len() * item, 0);
            let from = (offset + done as u64) * self.item;
            match read_exact_at(&*self.elements, from, &mut bytes) {
                Ok(()) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            for (truth, element) in out.iter_mut().zip(bytes.chunks_exact(item)) {
                *truth = u8::from(self.test.of(element));
            }
            done += out.len();
        }
        Ok(done)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.elements)
    }

    fn first_broken(&self, _: usize, at: u64) -> u64 {
        at / self.item.max(1)
    }

    fn is_slow(&self) -> bool {
        true
    }
}

/// The results of tests, with a boolean for each value of structured elements.
#[derive(Debug)]
struct FieldTruths {
    elements: Arc<dyn Content>,
    /// The end of each value in its element, and its test.
    values: Vec<(usize, Test)>,
}

impl FieldTruths {
    /// Length of an element, in bytes.
    fn item(&self) -> usize {
        self.values.last().map(|(end, _)| *end).unwrap_or_default()
    }
}

impl Content for FieldTruths {
    fn len(&self) -> u64 {
        let count = self.elements.len().checked_div(self.item() as u64).unwrap_or_default();
        count.saturating_mul(self.values.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let count = self.values.len() as u64;
        let mut element = vec![0; self.item()];
        let mut held = None;
        for (done, truth) in buf[..wanted].iter_mut().enumerate() {
            let at = offset + done as u64;
            if held != Some(at / count) {
                match read_exact_at(&*self.elements, at / count * self.item() as u64, &mut element) {
                    Ok(()) => held = Some(at / count),
                    Err(_) if done > 0 => return Ok(done),
                    Err(error) => return Err(error),
                }
            }
            let value = (at % count) as usize;
            let start = value.checked_sub(1).map_or(0, |before| self.values[before].0);
            let (end, test) = self.values[value];
            *truth = u8::from(test.of(&element[start..end]));
        }
        Ok(wanted)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.elements)
    }

    fn first_broken(&self, _: usize, at: u64) -> u64 {
        at / (self.item() as u64).max(1) * self.values.len() as u64
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_compared_as_numbers() {
        let of = |scalar, byteorder, number, bytes: &[u8]| Test::Equals(scalar, byteorder, number).of(bytes);
        let big = ByteOrder::Big;
        let little = ByteOrder::Little;
        assert!(of(Scalar::Int16, big, Number::Int(-999), &(-999_i16).to_be_bytes()));
        assert!(of(Scalar::Int16, little, Number::Float(-999.0), &(-999_i16).to_le_bytes()));
        assert!(!of(Scalar::Uint16, little, Number::Int(-1), &[255, 255]));
        assert!(of(Scalar::Uint64, big, Number::Int(u64::MAX.into()), &[255; 8]));
        assert!(of(Scalar::Float32, big, Number::Float(1.1), &1.1_f32.to_be_bytes()));
        assert!(of(Scalar::Float64, little, Number::Int(0), &(-0.0_f64).to_le_bytes()));
        assert!(of(Scalar::Float16, little, Number::Float(0.1), &[0x66, 0x2e]));
        assert!(of(Scalar::Float64, big, Number::Float(f64::NAN), &f64::NAN.to_be_bytes()));
        assert!(!of(Scalar::Int32, big, Number::Float(f64::NAN), &[0; 4]));
        let complex = [1_f32.to_be_bytes(), 2_f32.to_be_bytes()].concat();
        assert!(of(Scalar::Complex64, big, Number::Complex(1.0, 2.0), &complex));
        assert!(!of(Scalar::Complex64, big, Number::Int(1), &complex));
        assert!(of(Scalar::Bool8, big, Number::Int(1), &[1]));
        assert!(Test::NotZero.of(&[0, 1]) && !Test::NotZero.of(&[0, 0]));
    }

    #[test]
    fn masks_are_broadcast() {
        for (from, to, expected) in [
            (&[2, 3][..], &[2, 3][..], Some(vec![3, 1])),
            (&[3], &[2, 3], Some(vec![0, 1])),
            (&[2, 1], &[2, 3], Some(vec![1, 0])),
            (&[1], &[2, 3], Some(vec![0, 0])),
            (&[], &[2], Some(vec![0])),
            (&[6], &[2, 3], Some(vec![3, 1])),
            (&[2], &[2, 3], None),
            (&[1, 1, 1], &[2, 3], Some(vec![0, 0])),
            (&[1, 2, 3], &[2, 3], Some(vec![3, 1])),
        ] {
            assert_eq!(strides(from, to), expected, "{from:?} {to:?}");
        }
    }
}
