//! Values of a page in the encoding PLAIN, after their levels.

use std::borrow::Cow;

use asdf_file::array::{Scalar, ScalarKind, float16};
use seekable::error::{Error, Result};

use super::thrift::varint_len;

/// A page has a count before its levels: the number of their bytes. This is the length of the count, in bytes.
const LEVELS_LEN: u64 = 4;

/// The type of a column's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// An integer.
    Int {
        /// Length in bytes: 1, 2, 4 or 8.
        size: u8,
        /// True if the integer is signed.
        signed: bool,
    },
    /// A floating-point number.
    Float {
        /// Length in bytes: 2, 4 or 8.
        size: u8,
    },
    /// A boolean of one byte.
    Bool,
    /// An instant: a signed integer of 8 bytes.
    Timestamp(Timestamp),
    /// A text of at most this many bytes, with trailing NULs.
    Ascii(u64),
    /// A text of at most this many UCS-4 characters, with trailing NULs.
    Ucs4(u64),
}

/// The meaning of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// True if the instant counts nanoseconds, false if microseconds.
    pub nanos: bool,
    /// True if the instant counts from 1970 in UTC, without leap seconds; false in another time scale.
    pub utc: bool,
}

impl Element {
    /// Returns the type of the elements of an array; `None` for complex numbers.
    pub(crate) fn of(scalar: Scalar) -> Option<Self> {
        Some(match scalar.kind_and_len() {
            (ScalarKind::Int, size) => Self::Int { size: size as u8, signed: true },
            (ScalarKind::Uint, size) => Self::Int { size: size as u8, signed: false },
            (ScalarKind::Float, size) => Self::Float { size: size as u8 },
            (ScalarKind::Bool, _) => Self::Bool,
            (ScalarKind::Ascii, len) => Self::Ascii(len),
            (ScalarKind::Ucs4, len) => Self::Ucs4(len),
            (ScalarKind::Complex, _) => return None,
        })
    }

    /// Returns the type of integers and floats.
    pub(crate) fn number(self) -> Option<Scalar> {
        match self {
            Self::Int { size, signed: true } => Scalar::number(ScalarKind::Int, size.into()),
            Self::Int { size, signed: false } => Scalar::number(ScalarKind::Uint, size.into()),
            Self::Float { size } => Scalar::number(ScalarKind::Float, size.into()),
            _ => None,
        }
    }

    /// Returns the length of an element in the array, in bytes.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::Int { size, .. } | Self::Float { size } => size.into(),
            Self::Bool => 1,
            Self::Timestamp(_) => 8,
            Self::Ascii(len) => len,
            Self::Ucs4(len) => len.saturating_mul(4),
        }
    }

    /// Returns the maximum length in bytes of `count` elements in a page.
    fn encoded(self, count: u64) -> Option<u64> {
        let each: u64 = match self {
            Self::Bool => return Some(count.div_ceil(8)),
            Self::Int { size: 8, .. } | Self::Float { size: 8 } | Self::Timestamp(_) => 8,
            Self::Int { .. } | Self::Float { .. } => 4,
            Self::Ascii(_) | Self::Ucs4(_) => self.size().checked_add(4)?,
        };
        each.checked_mul(count)
    }
}

/// The properties of a column that determine the format of its pages.
#[derive(Clone, Debug)]
pub(super) struct ColumnShape {
    pub element: Element,
    /// True if elements are big-endian.
    pub big_endian: bool,
    /// The lengths of the nested lists in a row, the outermost first.
    pub lists: Vec<u64>,
    /// True if values may be missing.
    pub nullable: bool,
}

impl ColumnShape {
    /// Returns the number of values in a row; `None` on overflow.
    pub(super) fn per_row(&self) -> Option<u64> {
        self.lists.iter().try_fold(1_u64, |product, len| product.checked_mul(*len))
    }

    /// True if a page holds the values exactly as they lie in the array.
    pub(super) fn is_plain(&self) -> bool {
        let is_same = matches!(
            self.element,
            Element::Int { size: 4 | 8, .. } | Element::Float { size: 4 | 8 } | Element::Timestamp(_)
        );
        is_same && !self.big_endian && self.lists.is_empty() && !self.nullable
    }

    /// Returns the definition level of a present value.
    fn deepest(&self) -> u64 {
        self.lists.len() as u64 + u64::from(self.nullable)
    }

    /// Returns the length in bytes of a page with `count` values, without its header; `None` on overflow.
    pub(super) fn page_len(&self, count: u64) -> Option<u64> {
        let groups = count.div_ceil(8);
        let packed = |highest: u64| -> Option<u64> {
            let bytes = groups.checked_mul(width(highest).into())?;
            bytes.checked_add(LEVELS_LEN + varint_len(groups.checked_mul(2)? | 1))
        };
        let repetition = if self.lists.is_empty() { 0 } else { packed(self.lists.len() as u64)? };
        let definition = match self.deepest() {
            0 => 0,
            deepest if self.nullable => packed(deepest)?,
            _ => LEVELS_LEN + varint_len(count.checked_mul(2)?) + 1,
        };
        self.element.encoded(count)?.checked_add(repetition)?.checked_add(definition)
    }

    /// Returns a page of whole rows, padded to `len` bytes. `missing` has a byte for each element, not 0 if
    /// it is missing.
    pub(super) fn page(&self, elements: &[u8], missing: &[u8], count: u64, len: usize) -> Result<Vec<u8>> {
        let mut page = Vec::with_capacity(len);
        if !self.lists.is_empty() {
            packed(&mut page, self.lists.len() as u64, count, |n| self.repetition(n));
        }
        let deepest = self.deepest();
        let is_missing = |n: u64| missing.get(n as usize).is_some_and(|byte| *byte != 0);
        if self.nullable {
            packed(&mut page, deepest, count, |n| deepest - u64::from(is_missing(n)));
        } else if deepest > 0 {
            page.extend((varint_len(count * 2) as u32 + 1).to_le_bytes());
            varint(&mut page, count * 2);
            page.push(deepest as u8);
        }
        let size = self.element.size() as usize;
        if self.element == Element::Bool {
            let there = elements.iter().zip(0..).filter(|(_, n)| !is_missing(*n)).map(|(byte, _)| *byte != 0);
            bits(&mut page, there);
        } else if size == 0 {
            // Texts of length 0.
            let there = (0..count).filter(|n| !is_missing(*n)).count();
            page.resize(page.len() + 4 * there, 0);
        } else {
            for (element, n) in elements.chunks_exact(size).zip(0..) {
                if !is_missing(n) {
                    self.value(element, &mut page)?;
                }
            }
        }
        page.resize(len, 0);
        Ok(page)
    }

    /// Returns the repetition level of value `n` of a page: 0 at the start of a row.
    fn repetition(&self, n: u64) -> u64 {
        let mut below = 1;
        let mut level = self.lists.len() as u64;
        for len in self.lists.iter().rev() {
            below *= len;
            if !n.is_multiple_of(below) {
                return level;
            }
            level -= 1;
        }
        0
    }

    fn value(&self, element: &[u8], page: &mut Vec<u8>) -> Result<()> {
        match self.element {
            Element::Ascii(_) | Element::Ucs4(_) => text(page, &self.text(element)?),
            Element::Int { size: 1, signed } => {
                let byte = element.first().copied().unwrap_or_default();
                let value = if signed { i32::from(byte as i8) } else { byte.into() };
                page.extend(value.to_le_bytes());
            }
            Element::Int { size: 2, signed } => {
                let bits = u16::from_le_bytes(self.little(element));
                let value = if signed { i32::from(bits as i16) } else { bits.into() };
                page.extend(value.to_le_bytes());
            }
            Element::Float { size: 2 } => {
                page.extend(float16(u16::from_le_bytes(self.little(element))).to_le_bytes());
            }
            _ if self.big_endian => page.extend(element.iter().rev()),
            _ => page.extend(element),
        }
        Ok(())
    }

    /// Returns the text of an element, without trailing NULs.
    pub(super) fn text<'e>(&self, element: &'e [u8]) -> Result<Cow<'e, str>> {
        if !matches!(self.element, Element::Ucs4(_)) {
            return str_of(element).map(Cow::Borrowed);
        }
        let mut found = String::with_capacity(element.len());
        for bytes in element.chunks_exact(4) {
            let code = u32::from_le_bytes(self.little(bytes));
            found.push(char::from_u32(code).ok_or_else(no_text)?);
        }
        found.truncate(found.trim_end_matches('\0').len());
        Ok(Cow::Owned(found))
    }

    /// Returns the bytes of an element in little-endian order.
    fn little<const N: usize>(&self, element: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        for (byte, from) in bytes.iter_mut().zip(element) {
            *byte = *from;
        }
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

fn no_text() -> Error {
    Error::damaged("a text column has bytes that are not valid text")
}

/// Returns a text without trailing NULs.
fn str_of(bytes: &[u8]) -> Result<&str> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&bytes[..end]).map_err(|_| no_text())
}

fn text(page: &mut Vec<u8>, text: &str) {
    // The length fits: numpy limits the length of an element to 32 bits.
    page.extend((text.len() as u32).to_le_bytes());
    page.extend(text.as_bytes());
}

fn varint(page: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        page.push(value as u8 | 0x80);
        value >>= 7;
    }
    page.push(value as u8);
}

/// Returns the bit width of levels up to `highest`.
fn width(highest: u64) -> u32 {
    64 - highest.leading_zeros()
}

/// Appends bit-packed levels, after their length in bytes.
fn packed(page: &mut Vec<u8>, highest: u64, count: u64, level: impl Fn(u64) -> u64) {
    let width = width(highest);
    let groups = count.div_ceil(8);
    let head = groups << 1 | 1;
    page.extend((varint_len(head) as u32 + groups as u32 * width).to_le_bytes());
    varint(page, head);
    let mut bits = 0_u64;
    let mut held = 0;
    for n in 0..groups * 8 {
        bits |= if n < count { level(n) << held } else { 0 };
        held += width;
        while held >= 8 {
            page.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
}

fn bits(page: &mut Vec<u8>, values: impl Iterator<Item = bool>) {
    let mut byte = 0;
    let mut held = 0;
    for value in values {
        byte |= u8::from(value) << held;
        held += 1;
        if held == 8 {
            page.push(byte);
            (byte, held) = (0, 0);
        }
    }
    if held > 0 {
        page.push(byte);
    }
}
