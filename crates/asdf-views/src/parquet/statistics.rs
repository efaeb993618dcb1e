//! Statistics of column chunks: minimum, maximum, and the number of missing values. Readers skip row groups by
//! them.
//!
//! They are found when the footer is first read, but the length of the file must be known before. Each chunk
//! has a slot of fixed length in the footer. Until its statistics are found, and if they can't be, the slot has
//! only fields with numbers that readers do not know and skip. Only columns that are read without decoding have
//! slots, and not lists.
//!
//! A chunk with a NaN has no minimum and maximum, because readers differ on the order of NaN. A zero counts as
//! -0.0 in the minimum of floating-point numbers and as +0.0 in the maximum, as the format demands.

use std::sync::{Arc, OnceLock};

use asdf_file::array::float16;
use seekable::content::read_exact_at;
use seekable::error::Result;

use super::Leaf;
use super::thrift::{Writer, varint_len};
use super::values::{ColumnShape, Element};

/// Maximum number of bytes of a table that are read for its statistics, where a byte of text counts
/// [`TEXT_COST`] times. Columns that would exceed it have no statistics.
const MAX_READ: u64 = 512 << 20;
const TEXT_COST: u64 = 8;
/// Maximum length of a text with statistics, in bytes.
const MAX_TEXT: u64 = 60;
/// Number of values that are read at a time.
const AT_ONCE: u64 = 1 << 15;

/// Numbers of fields.
const NULL_COUNT: i16 = 3;
const MAX_VALUE: i16 = 5;
const MIN_VALUE: i16 = 6;
/// Distance to the number of a field that readers do not know: the largest that has a short header.
const UNKNOWN: i16 = 15;

/// The statistics of all chunks with a slot, shared by all files of one table. `None` in it: not known.
pub type SharedStatistics = Arc<OnceLock<Vec<Option<ChunkStatistics>>>>;

/// The statistics of a column chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkStatistics {
    missing: u64,
    /// Minimum and maximum in the encoding PLAIN, a text without its length.
    extremes: Option<Extremes<Vec<u8>>>,
}

/// The least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extremes<T> {
    min: T,
    max: T,
}

/// The place of a chunk's statistics in the footer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Offset in the footer.
    pub at: usize,
    /// The column.
    pub leaf: usize,
    /// First row of the chunk, and its number of rows.
    pub first: u64,
    pub rows: u64,
    layout: SlotLayout,
}

/// The lengths of the parts of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotLayout {
    /// Length of the number of missing values.
    count_len: u64,
    /// Length of a value; the maximum for a text.
    value_len: usize,
    is_text: bool,
}

impl Slot {
    pub(super) fn new(at: usize, leaf: usize, first: u64, rows: u64, layout: SlotLayout) -> Self {
        Self { at, leaf, first, rows, layout }
    }

    /// Returns the bytes in the footer.
    pub(super) fn bytes(&self, known: Option<&ChunkStatistics>) -> Vec<u8> {
        let mut out = Writer::new();
        self.layout.write(&mut out, known);
        out.finish()
    }
}

/// True for each column that has statistics.
pub(super) fn wanted(leaves: &[Leaf], rows: u64) -> Vec<bool> {
    let mut read = 0_u64;
    let mut is_wanted = |leaf: &Leaf| {
        let is_cheap =
            !leaf.content.is_slow() && leaf.missing.as_ref().is_none_or(|missing| !missing.is_slow());
        if !is_cheap || !leaf.shape.lists.is_empty() || value_len(leaf.shape.element).is_none() {
            return false;
        }
        let cost = if is_text(leaf.shape.element) { TEXT_COST } else { 1 };
        let size = leaf.shape.element.size().saturating_mul(cost) + u64::from(leaf.missing.is_some());
        let with_it = read.saturating_add(rows.saturating_mul(size));
        let fits = with_it <= MAX_READ;
        if fits {
            read = with_it;
        }
        fits
    };
    leaves.iter().map(&mut is_wanted).collect()
}

fn is_text(element: Element) -> bool {
    matches!(element, Element::Ascii(_) | Element::Ucs4(_))
}

/// Returns the length of a value in the encoding PLAIN, the maximum for a text; `None` if it is too long.
fn value_len(element: Element) -> Option<u64> {
    Some(match element {
        Element::Bool => 1,
        Element::Int { size: 8, .. } | Element::Float { size: 8 } | Element::Timestamp(_) => 8,
        Element::Int { .. } | Element::Float { .. } => 4,
        // A character of UCS-4 has at most four bytes in UTF-8.
        Element::Ascii(_) | Element::Ucs4(_) => return Some(element.size()).filter(|len| *len <= MAX_TEXT),
    })
}

impl SlotLayout {
    /// Returns the layout for a chunk with this number of values.
    pub(super) fn of(shape: &ColumnShape, values: u64) -> Self {
        Self {
            count_len: varint_len(values << 1),
            value_len: value_len(shape.element).unwrap_or_default() as usize,
            is_text: is_text(shape.element),
        }
    }

    /// Writes the fields of a slot. Their lengths are the same whatever is known.
    pub(super) fn write(&self, out: &mut Writer, known: Option<&ChunkStatistics>) {
        let zeros = vec![0; self.value_len];
        let extremes = known.and_then(|known| known.extremes.as_ref());
        let (min, max) = extremes.map_or((&zeros, &zeros), |extremes| (&extremes.min, &extremes.max));
        let mut last = 0;
        let mut number = |is_known: bool, id: i16| {
            last = if is_known { id } else { last + UNKNOWN };
            last
        };
        out.padded(
            number(known.is_some(), NULL_COUNT),
            known.map_or(0, |known| known.missing),
            self.count_len,
        );
        out.bytes(number(extremes.is_some(), MAX_VALUE), max);
        out.bytes(number(extremes.is_some(), MIN_VALUE), min);
        if self.is_text {
            // The rest of the space of both texts.
            let rest = 2 * self.value_len - min.len() - max.len();
            out.bytes(number(false, 0), &vec![0; rest]);
        }
    }
}

impl Leaf {
    /// Finds the statistics of some rows.
    pub(super) fn statistics(&self, first: u64, rows: u64) -> Result<ChunkStatistics> {
        let ColumnShape { element, big_endian, .. } = self.shape;
        let size = element.size();
        let mut found = FoundValues { missing: 0, values: Values::new(element) };
        let mut at = first;
        let end = first.saturating_add(rows);
        let mut elements = Vec::new();
        let mut missing = Vec::new();
        while at < end {
            let count = (end - at).min(AT_ONCE);
            elements.resize((count * size) as usize, 0);
            read_exact_at(&*self.content, at * size, &mut elements)?;
            if let Some(content) = &self.missing {
                missing.resize(count as usize, 0);
                read_exact_at(&**content, at, &mut missing)?;
            }
            found.take(&self.shape, &elements, &missing, count, big_endian)?;
            at += count;
        }
        Ok(ChunkStatistics { missing: found.missing, extremes: found.values.extremes(element) })
    }
}

/// The statistics of the values so far.
struct FoundValues {
    missing: u64,
    values: Values,
}

/// The extremes of the values so far, by their order.
enum Values {
    Signed(Option<Extremes<i64>>),
    Unsigned(Option<Extremes<u64>>),
    /// `None` once there was a NaN.
    Float(Option<Option<Extremes<f64>>>),
    Text(Option<Extremes<Vec<u8>>>),
}

impl Values {
    fn new(element: Element) -> Self {
        match element {
            Element::Int { signed: true, .. } | Element::Timestamp(_) => Self::Signed(None),
            Element::Int { .. } | Element::Bool => Self::Unsigned(None),
            Element::Float { .. } => Self::Float(Some(None)),
            Element::Ascii(_) | Element::Ucs4(_) => Self::Text(None),
        }
    }

    /// Returns the extremes in the encoding PLAIN.
    fn extremes(self, element: Element) -> Option<Extremes<Vec<u8>>> {
        let len = value_len(element)? as usize;
        let low = |value: u64| value.to_le_bytes()[..len.min(8)].to_vec();
        let float = |value: f64| {
            if len == 4 { (value as f32).to_le_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
        };
        match self {
            Self::Signed(found) => {
                found.map(|found| Extremes { min: low(found.min as u64), max: low(found.max as u64) })
            }
            Self::Unsigned(found) => found.map(|found| Extremes { min: low(found.min), max: low(found.max) }),
            Self::Float(found) => found.flatten().map(|found| Extremes {
                min: float(if found.min == 0.0 { -0.0 } else { found.min }),
                max: float(if found.max == 0.0 { 0.0 } else { found.max }),
            }),
            Self::Text(found) => found,
        }
    }
}

impl FoundValues {
    /// Adds `count` values; `missing` has a byte for each, not 0 if it is missing, or is empty.
    fn take(
        &mut self,
        shape: &ColumnShape,
        elements: &[u8],
        missing: &[u8],
        count: u64,
        big_endian: bool,
    ) -> Result<()> {
        self.missing += missing.iter().filter(|byte| **byte != 0).count() as u64;
        let element = shape.element;
        match &mut self.values {
            Values::Signed(found) => match element.size() {
                1 => extend(found, numbers(elements, missing, big_endian, i8::from_le_bytes)),
                2 => extend(found, numbers(elements, missing, big_endian, i16::from_le_bytes)),
                4 => extend(found, numbers(elements, missing, big_endian, i32::from_le_bytes)),
                _ => extend(found, numbers(elements, missing, big_endian, i64::from_le_bytes)),
            },
            Values::Unsigned(found) => match element.size() {
                1 if element == Element::Bool => {
                    extend(found, numbers(elements, missing, false, |[byte]| u8::from(byte != 0)));
                }
                1 => extend(found, numbers(elements, missing, big_endian, u8::from_le_bytes)),
                2 => extend(found, numbers(elements, missing, big_endian, u16::from_le_bytes)),
                4 => extend(found, numbers(elements, missing, big_endian, u32::from_le_bytes)),
                _ => extend(found, numbers(elements, missing, big_endian, u64::from_le_bytes)),
            },
            Values::Float(found) => match element.size() {
                2 => extend_floats(
                    found,
                    numbers(elements, missing, big_endian, |bytes| float16(u16::from_le_bytes(bytes)).into()),
                ),
                4 => extend_floats(
                    found,
                    numbers(elements, missing, big_endian, |bytes| f32::from_le_bytes(bytes).into()),
                ),
                _ => extend_floats(found, numbers(elements, missing, big_endian, f64::from_le_bytes)),
            },
            Values::Text(found) => {
                let size = element.size() as usize;
                for n in 0..count as usize {
                    if missing.get(n).is_some_and(|byte| *byte != 0) {
                        continue;
                    }
                    let bytes = elements.get(n * size..(n + 1) * size).unwrap_or_default();
                    extend_texts(found, shape.text(bytes)?.as_bytes());
                }
            }
        }
        Ok(())
    }
}

/// Returns the values that are not missing.
fn numbers<const N: usize, T>(
    elements: &[u8],
    missing: &[u8],
    big_endian: bool,
    of: impl Fn([u8; N]) -> T,
) -> impl Iterator<Item = T> {
    elements.chunks_exact(N).enumerate().filter_map(move |(n, bytes)| {
        if missing.get(n).is_some_and(|byte| *byte != 0) {
            return None;
        }
        let mut bytes = *bytes.first_chunk()?;
        if big_endian {
            bytes.reverse();
        }
        Some(of(bytes))
    })
}

fn extend<W: Ord + Copy + From<T>, T: Ord + Copy>(
    found: &mut Option<Extremes<W>>,
    values: impl Iterator<Item = T>,
) {
    let fold = values.fold(None, |so_far: Option<Extremes<T>>, value| {
        Some(so_far.map_or(Extremes { min: value, max: value }, |extremes| Extremes {
            min: extremes.min.min(value),
            max: extremes.max.max(value),
        }))
    });
    if let Some(Extremes { min, max }) = fold {
        let (min, max) = (W::from(min), W::from(max));
        *found = Some(found.map_or(Extremes { min, max }, |found| Extremes {
            min: found.min.min(min),
            max: found.max.max(max),
        }));
    }
}

fn extend_floats(found: &mut Option<Option<Extremes<f64>>>, values: impl Iterator<Item = f64>) {
    let Some(before) = *found else { return };
    let mut min = f64::INFINITY;
    let mut max = f64::NEG_INFINITY;
    let mut has_nan = false;
    let mut is_empty = true;
    for value in values {
        has_nan |= value.is_nan();
        min = min.min(value);
        max = max.max(value);
        is_empty = false;
    }
    if has_nan {
        *found = None;
    } else if !is_empty {
        *found = Some(Some(before.map_or(Extremes { min, max }, |before| Extremes {
            min: before.min.min(min),
            max: before.max.max(max),
        })));
    }
}

fn extend_texts(found: &mut Option<Extremes<Vec<u8>>>, text: &[u8]) {
    match found {
        None => *found = Some(Extremes { min: text.to_vec(), max: text.to_vec() }),
        Some(found) if text < &found.min[..] => found.min = text.to_vec(),
        Some(found) if text > &found.max[..] => found.max = text.to_vec(),
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::Text;

    fn leaf(element: Element, bytes: Vec<u8>, missing: Option<Vec<u8>>) -> Leaf {
        let content = |bytes| Arc::new(Text::new(bytes)) as Arc<dyn seekable::content::Content>;
        let nullable = missing.is_some();
        Leaf {
            path: vec!["a".to_owned()],
            shape: ColumnShape { element, big_endian: false, lists: Vec::new(), nullable },
            per_row: 1,
            content: content(bytes),
            missing: missing.map(content),
        }
    }

    fn floats(values: &[f64], missing: Option<Vec<u8>>) -> ChunkStatistics {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        leaf(Element::Float { size: 8 }, bytes, missing).statistics(0, values.len() as u64).unwrap()
    }

    fn known(missing: u64, min: &[u8], max: &[u8]) -> ChunkStatistics {
        ChunkStatistics { missing, extremes: Some(Extremes { min: min.to_vec(), max: max.to_vec() }) }
    }

    #[test]
    fn columns_that_would_take_too_long_to_read_have_no_statistics() {
        let of = |element| leaf(element, Vec::new(), None);
        let leaves = [of(Element::Bool), of(Element::Ascii(36)), of(Element::Float { size: 8 })];
        // A row takes 1, 8 * 36 and 8 bytes.
        assert_eq!(wanted(&leaves, MAX_READ / 297), [true, true, true]);
        assert_eq!(wanted(&leaves, MAX_READ / 288), [true, false, true]);
        assert_eq!(wanted(&leaves, MAX_READ / 8), [true, false, false]);
    }

    #[test]
    fn extremes_are_those_of_the_values_that_are_not_missing() {
        let none = |missing| ChunkStatistics { missing, extremes: None };
        let le = f64::to_le_bytes;
        assert_eq!(floats(&[3.0, -1.0, 2.0], None), known(0, &le(-1.0), &le(3.0)));
        assert_eq!(floats(&[0.0, 1.0], None), known(0, &le(-0.0), &le(1.0)));
        assert_eq!(floats(&[-2.0, -0.0], None), known(0, &le(-2.0), &le(0.0)));
        assert_eq!(floats(&[1.0, f64::NAN, 2.0], None), none(0));
        assert_eq!(floats(&[1.0, f64::NAN, 2.0], Some(vec![0, 1, 0])), known(1, &le(1.0), &le(2.0)));
        assert_eq!(floats(&[1.0, 2.0], Some(vec![1, 7])), none(2));
        assert_eq!(floats(&[f64::INFINITY, 2.0], None), known(0, &le(2.0), &le(f64::INFINITY)));
        let ints = |size, signed| leaf(Element::Int { size, signed }, vec![0x80, 1, 0x7f, 0xff], None);
        let all = |leaf: &Leaf, rows| leaf.statistics(0, rows).unwrap();
        assert_eq!(all(&ints(1, true), 4), known(0, &(-128_i32).to_le_bytes(), &127_i32.to_le_bytes()));
        assert_eq!(all(&ints(1, false), 4), known(0, &1_u32.to_le_bytes(), &255_u32.to_le_bytes()));
        assert_eq!(all(&ints(4, false), 1), known(0, &[0x80, 1, 0x7f, 0xff], &[0x80, 1, 0x7f, 0xff]));
        let texts = leaf(Element::Ascii(3), b"b\0\0abcab\0".to_vec(), None);
        assert_eq!(all(&texts, 3), known(0, b"ab", b"b"));
        assert!(leaf(Element::Ascii(1), vec![0xff], None).statistics(0, 1).is_err());
        let truths = leaf(Element::Bool, vec![2, 2, 0], None);
        assert_eq!((all(&truths, 2), all(&truths, 3)), (known(0, &[1], &[1]), known(0, &[0], &[1])));
    }

    #[test]
    fn a_slot_has_one_length_whatever_is_known() {
        for is_text in [false, true] {
            let layout = SlotLayout { count_len: varint_len(20_000 << 1), value_len: 8, is_text };
            let slot = Slot::new(0, 0, 0, 20_000, layout);
            let len = slot.bytes(None).len();
            let text: &[u8] = if is_text { b"x" } else { b"12345678" };
            for missing in [0, 1, 63, 64, 20_000] {
                assert_eq!(slot.bytes(Some(&known(missing, text, b"12345678"))).len(), len);
                assert_eq!(slot.bytes(Some(&ChunkStatistics { missing, extremes: None })).len(), len);
            }
        }
    }
}
