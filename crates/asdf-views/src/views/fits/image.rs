//! An array as the data of an image: its FITS type and its bytes.

use std::sync::Arc;

use asdf_file::array::{Conversion, Recoded, ScalarKind};
use asdf_file::asdf::arrays::elements::Elements;
use asdf_file::asdf::ndarray::{ByteOrder, Datatype, Ndarray, Scalar, Shape};
use seekable::content::{Content, Text, read_exact_at};
use seekable::error::Result;

use super::card::{Cards, RECORD, Value};

/// The FITS representation of a scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FitsType {
    /// Value of `BITPIX`: bits of a stored number, negative for floats.
    pub bitpix: i128,
    /// Value of `BZERO`, which is added to each stored number.
    pub zero: Option<i128>,
    width: usize,
}

/// Returns the FITS representation of a type; `None` if FITS has no images of that type.
pub(super) fn stored(scalar: Scalar) -> Option<FitsType> {
    let (kind, size) = scalar.kind_and_len();
    let bits = i128::from(size) * 8;
    let (bitpix, zero) = match (kind, size) {
        (ScalarKind::Bool, _) | (ScalarKind::Uint, 1) => (8, None),
        (ScalarKind::Int, 1) => (8, Some(-128)),
        (ScalarKind::Int, _) => (bits, None),
        (ScalarKind::Uint, _) => (bits, Some(1 << (bits - 1))),
        (ScalarKind::Float, _) => (-bits.max(32), None),
        _ => return None,
    };
    Some(FitsType { bitpix, zero, width: size as usize })
}

impl FitsType {
    /// Returns the conversion of an element of this type to FITS.
    pub(super) fn change(self, scalar: Scalar, byteorder: ByteOrder) -> Conversion {
        let reverse = byteorder == ByteOrder::Little;
        match scalar {
            Scalar::Float16 => Conversion::Widen { reverse },
            _ => Conversion::Number { width: self.width, reverse, flip: self.zero.is_some() },
        }
    }
}

/// True if FITS can store the array as an image.
pub(super) fn can_be(array: &Ndarray) -> bool {
    let is_number = matches!(array.datatype, Some(Datatype::Scalar(scalar)) if stored(scalar).is_some());
    is_number && has_axes(array)
}

/// True if an array has one to four dimensions.
pub(super) fn has_axes(array: &Ndarray) -> bool {
    array.shape.as_ref().is_some_and(|shape| (1..=4).contains(&dimensions(shape)))
}

/// Returns the number of dimensions, a streamed one included.
pub(super) fn dimensions(shape: &Shape) -> usize {
    shape.dimensions.len() + usize::from(shape.streamed)
}

/// An image.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) stored: FitsType,
    /// The lengths of the axes, the fastest-varying axis first.
    pub(super) axes: Vec<u64>,
    /// The bytes in FITS representation.
    pub(super) data: Arc<dyn Content>,
}

impl Image {
    /// Converts the elements of an array to an image.
    pub(super) fn new(elements: Elements) -> Result<Self> {
        let elements = elements.in_c_order()?;
        let Datatype::Scalar(scalar) = elements.datatype else { return Err(Elements::unknown_type()) };
        let stored = stored(scalar).ok_or_else(Elements::unknown_type)?;
        let axes = elements.dimensions.iter().rev().copied().collect();
        let data = Recoded::elements(elements.content, stored.change(scalar, elements.byteorder))?;
        Ok(Self { stored, axes, data })
    }

    /// Adds the cards that describe the layout of the data, from `BITPIX` to the last `NAXISn`.
    pub(super) fn describe(&self, cards: &mut Cards, comment: &dyn Fn(&str) -> String) {
        describe(cards, self.stored.bitpix, &self.axes, comment);
    }
}

/// Adds the cards from `BITPIX` to the last `NAXISn`.
pub(super) fn describe(cards: &mut Cards, bitpix: i128, axes: &[u64], comment: &dyn Fn(&str) -> String) {
    let mut set = |keyword: &str, value: i128| cards.set(keyword, Value::Int(value), &comment(keyword));
    set("BITPIX", bitpix);
    set("NAXIS", axes.len() as i128);
    for (n, len) in axes.iter().enumerate() {
        set(&format!("NAXIS{}", n + 1), i128::from(*len));
    }
}

/// Returns the comment that astropy gives a card. For `XTENSION`, `keyword` is the card's value.
pub(super) fn usual_comment(keyword: &str) -> &'static str {
    match keyword {
        "SIMPLE" => "conforms to FITS standard",
        "IMAGE" => "Image extension",
        "BINTABLE" => "binary table extension",
        "BITPIX" => "array data type",
        "NAXIS" => "number of array dimensions",
        "PCOUNT" => "number of parameters",
        "GCOUNT" => "number of groups",
        _ => "",
    }
}

/// Returns the zeros that pad `len` bytes of data to a whole record.
pub(super) fn padding(len: u64) -> Arc<dyn Content> {
    let over = (len % RECORD as u64) as usize;
    Arc::new(Text::new(vec![0; if over == 0 { 0 } else { RECORD - over }]))
}

/// True if FITS stores the type as integers without an offset.
pub(super) fn is_integer(scalar: Scalar) -> bool {
    stored(scalar).is_some_and(|stored| stored.bitpix > 0 && stored.zero.is_none())
}

/// Reads the numbers of a small array of float64 or int64.
pub(super) fn numbers(elements: Elements) -> Result<Vec<f64>> {
    const MAX_BYTES: u64 = 8 << 10;
    let image = Image::new(elements)?;
    let is_float = image.stored.bitpix == -64;
    let is_int = image.stored.bitpix == 64 && image.stored.zero.is_none();
    if !(is_float || is_int) || image.data.len() > MAX_BYTES {
        return Err(Elements::unknown_type());
    }
    let mut bytes = vec![0; image.data.len() as usize];
    read_exact_at(&*image.data, 0, &mut bytes)?;
    let number = |bytes: &[u8; 8]| {
        if is_float { f64::from_be_bytes(*bytes) } else { i64::from_be_bytes(*bytes) as f64 }
    };
    Ok(bytes.as_chunks::<8>().0.iter().map(number).collect())
}
