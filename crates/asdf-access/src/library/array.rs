//! A typed array of a file.

use std::sync::Arc;

use asdf_file::array::zarr::MAX_CHUNKS;
use asdf_file::array::{self, ByteOrder, Datatype, Gather, Scalar, float16};
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Kind, Result};

/// Number of bytes that are read at once.
const PIECE: usize = 256 << 10;

/// An array. Its elements are read when they are asked for, in C order (the last index varies fastest),
/// whatever strides or order the file has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Array {
    /// The path in the file.
    pub path: String,
    /// The type of an element.
    pub datatype: Datatype,
    /// The order of the bytes of an element, unless it is a record; its fields have orders of their own.
    pub byteorder: ByteOrder,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The size of an element in bytes.
    item: u64,
    elements: Arc<dyn Content>,
}

/// Some indices of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The first index.
    pub start: u64,
    /// The distance from one index to the next; negative to count down.
    pub step: i64,
    /// The number of indices.
    pub count: u64,
}

impl Selection {
    /// True if all indices are below `len`.
    fn is_within(&self, len: u64) -> bool {
        let Some(last) = self.count.checked_sub(1) else { return true };
        let last = i128::from(self.start) + i128::from(self.step) * i128::from(last);
        self.start < len && (0..i128::from(len)).contains(&last)
    }
}

/// A Rust type for the elements of an array. Implemented for integers, floats (`f32` also for `float16`),
/// `bool`, and `[f32; 2]` and `[f64; 2]` for complex numbers.
pub trait Element: Sized + private::Sealed {
    /// True if the elements of an array of this type can be read.
    fn reads(datatype: &Datatype) -> bool;

    /// Makes an element from its bytes.
    #[doc(hidden)]
    fn of_bytes(bytes: &[u8], byteorder: ByteOrder) -> Self;
}

mod private {
    pub trait Sealed {}
}

/// Implements [`Element`] for a number.
macro_rules! number {
    ($rust:ty, $datatype:ident) => {
        impl private::Sealed for $rust {}

        impl Element for $rust {
            fn reads(datatype: &Datatype) -> bool {
                *datatype == Datatype::Scalar(Scalar::$datatype)
            }

            fn of_bytes(bytes: &[u8], byteorder: ByteOrder) -> Self {
                number(bytes, byteorder, Self::from_le_bytes, Self::from_be_bytes)
            }
        }
    };
}

number!(i8, Int8);
number!(i16, Int16);
number!(i32, Int32);
number!(i64, Int64);
number!(u8, Uint8);
number!(u16, Uint16);
number!(u32, Uint32);
number!(u64, Uint64);
number!(f64, Float64);

fn number<T, const N: usize>(
    bytes: &[u8],
    byteorder: ByteOrder,
    little: fn([u8; N]) -> T,
    big: fn([u8; N]) -> T,
) -> T {
    let bytes = bytes.first_chunk().copied().unwrap_or([0; N]);
    match byteorder {
        ByteOrder::Little => little(bytes),
        ByteOrder::Big => big(bytes),
    }
}

impl private::Sealed for f32 {}

impl Element for f32 {
    fn reads(datatype: &Datatype) -> bool {
        matches!(datatype, Datatype::Scalar(Scalar::Float16 | Scalar::Float32))
    }

    fn of_bytes(bytes: &[u8], byteorder: ByteOrder) -> Self {
        if bytes.len() == 2 {
            return float16(u16::of_bytes(bytes, byteorder));
        }
        number(bytes, byteorder, Self::from_le_bytes, Self::from_be_bytes)
    }
}

impl private::Sealed for bool {}

impl Element for bool {
    fn reads(datatype: &Datatype) -> bool {
        *datatype == Datatype::Scalar(Scalar::Bool8)
    }

    fn of_bytes(bytes: &[u8], _: ByteOrder) -> Self {
        bytes.iter().any(|byte| *byte != 0)
    }
}

/// Implements [`Element`] for complex numbers.
macro_rules! complex {
    ($part:ty, $datatype:ident) => {
        impl private::Sealed for [$part; 2] {}

        impl Element for [$part; 2] {
            fn reads(datatype: &Datatype) -> bool {
                *datatype == Datatype::Scalar(Scalar::$datatype)
            }

            fn of_bytes(bytes: &[u8], byteorder: ByteOrder) -> Self {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                [<$part>::of_bytes(real, byteorder), <$part>::of_bytes(imaginary, byteorder)]
            }
        }
    };
}

complex!(f32, Complex64);
complex!(f64, Complex128);

/// Returns the numbers of rows in chunks that end at multiples of `step` bytes, or in the row after, of `rows` rows with
/// `row` bytes each. One number stands for equal ones.
fn chunks_of_parts(row: u64, rows: u64, step: u64) -> Vec<u64> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut end = step;
    while start < rows {
        let next = end.div_ceil(row).min(rows);
        if next > start {
            chunks.push(next - start);
        }
        start = next;
        end = end.saturating_add(step);
    }
    let is_regular = chunks.split_last().is_none_or(|(last, others)| {
        others.iter().all(|chunk| *chunk == others[0]) && others.first().is_none_or(|first| last <= first)
    });
    if is_regular {
        chunks.truncate(1);
    }
    chunks
}

impl Array {
    /// Returns the array in a file of the view of arrays.
    pub(super) fn of(path: &str, content: &Arc<dyn Content>) -> Result<Self> {
        let Some(array) = array::Array::of(&**content) else {
            // A text of a GSD file.
            let shape = vec![content.len()];
            let elements = content.clone();
            let datatype = Datatype::Scalar(Scalar::Uint8);
            let byteorder = ByteOrder::Little;
            return Ok(Self { path: path.to_owned(), datatype, byteorder, shape, item: 1, elements });
        };
        let (datatype, byteorder) = (array.datatype.clone(), array.byteorder);
        let unknown = || {
            let descr = datatype.descr(byteorder);
            Error::unsupported(format!("the size of the type {descr} is not known"))
        };
        let item = datatype.size().ok_or_else(unknown)?;
        let shape = array.shape.clone();
        let elements = if array.fortran_order && shape.len() > 1 {
            Arc::new(Gather::in_c_order(array.elements.clone(), item, &shape)?)
        } else {
            array.elements.clone()
        };
        Ok(Self { path: path.to_owned(), datatype, byteorder, shape, item, elements })
    }

    /// Returns some of the elements as an array, without reading them.
    ///
    /// # Errors
    /// [`Kind::Usage`] unless there is a selection for each dimension, and all its indices are in the array.
    pub fn select(&self, selections: &[Selection]) -> Result<Self> {
        let outside = || Error::new(Kind::Usage, "the selection is not within the array");
        if selections.len() != self.shape.len() {
            return Err(outside());
        }
        let strided = self.elements.strided().filter(|strided| strided.strides.len() == self.shape.len());
        let (whole, start, strides) = match strided {
            Some(strided) => (strided.whole, strided.start, strided.strides),
            None => (self.elements.clone(), 0, self.strides().ok_or_else(outside)?),
        };
        let mut at = i128::from(start);
        let mut dimensions = Vec::with_capacity(selections.len());
        for ((selection, len), stride) in selections.iter().zip(&self.shape).zip(strides) {
            if !selection.is_within(*len) {
                return Err(outside());
            }
            at += i128::from(selection.start) * i128::from(stride);
            // With one index, the step has no meaning.
            let step = if selection.count > 1 { selection.step } else { 0 };
            dimensions.push((selection.count, stride.checked_mul(step).ok_or_else(outside)?));
        }
        let shape: Vec<u64> = selections.iter().map(|selection| selection.count).collect();
        let at = if shape.contains(&0) { 0 } else { u64::try_from(at).map_err(|_| outside())? };
        let elements = Arc::new(Gather::new(whole, at, self.item, dimensions)?);
        Ok(Self { shape, elements, ..self.clone() })
    }

    /// Returns the lengths of chunks in which the array is read without decoding a part twice, for each dimension: one
    /// length if all but the last are equal. Chunks have about as many `bytes`: whole chunks or rows as the file has them,
    /// or the whole array if each element takes the decoding of all before it. Of data in parts that are not whole rows,
    /// a chunk ends with a part, or in the row after.
    pub fn chunks(&self, bytes: u64) -> Vec<Vec<u64>> {
        let part = self.elements.decoded_at_once().max(1);
        let stored = self.elements.chunk_shape().filter(|shape| shape.len() == self.shape.len());
        let has_parts = stored.is_none() && (2..u64::MAX).contains(&part);
        let mut lengths = match stored {
            Some(shape) => shape,
            None if part == u64::MAX => self.shape.clone(),
            None => vec![1; self.shape.len()],
        };
        let mut chunks = vec![Vec::new(); self.shape.len()];
        for axis in (0..self.shape.len()).rev() {
            let row = lengths.iter().fold(self.item, |row, length| row.saturating_mul(*length)).max(1);
            let rows = self.shape[axis];
            lengths[axis] = lengths[axis].saturating_mul((bytes / row).max(1)).min(rows).max(1);
            let step = (bytes / part).max(1).saturating_mul(part);
            let is_short = row.saturating_mul(rows) / step < MAX_CHUNKS;
            chunks[axis] = if has_parts && is_short && (2..rows).contains(&lengths[axis]) {
                chunks_of_parts(row, rows, step)
            } else {
                vec![lengths[axis]]
            };
        }
        chunks
    }

    /// Returns the strides of contiguous elements in C order.
    fn strides(&self) -> Option<Vec<i64>> {
        let mut strides = Vec::with_capacity(self.shape.len());
        let mut step = i64::try_from(self.item).ok()?;
        for len in self.shape.iter().rev() {
            strides.push(step);
            step = step.checked_mul(i64::try_from((*len).max(1)).ok()?)?;
        }
        strides.reverse();
        Some(strides)
    }

    /// Returns the bytes of the elements, in C order.
    pub(super) fn elements(&self) -> &Arc<dyn Content> {
        &self.elements
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        self.shape.iter().fold(1, |count, len| count.saturating_mul(*len))
    }

    /// True if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of an element in bytes.
    pub fn item_size(&self) -> u64 {
        self.item
    }

    /// Reads bytes of the elements into `buf`, and returns how many. `offset` counts bytes. The bytes have the
    /// array's own byte order. Only a read at the end of the array, or before bytes that can't be decoded, is
    /// short.
    ///
    /// # Errors
    /// The bytes at `offset` can't be read or decoded.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.elements.read_at(offset, buf).map_err(|error| self.described(error))
    }

    /// Reads as many bytes of the elements as `buf` holds, like [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// A byte can't be read or decoded, or the array ends before.
    pub fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        read_exact_at(&*self.elements, offset, buf).map_err(|error| self.described(error))
    }

    /// Reads elements into `out`, from element `first` on, and returns how many: fewer than asked only at the
    /// end of the array. Elements are counted in C order.
    ///
    /// # Errors
    /// The array has elements of another type, or can't be read.
    pub fn read<T: Element>(&self, first: u64, out: &mut [T]) -> Result<usize> {
        self.check_type::<T>()?;
        let rest = self.len().saturating_sub(first);
        let count = usize::try_from(rest).map_or(out.len(), |rest| rest.min(out.len()));
        let mut places = out.iter_mut();
        self.each_piece(first, count as u64, |bytes| {
            for (element, place) in bytes.chunks_exact(self.item as usize).zip(&mut places) {
                *place = T::of_bytes(element, self.byteorder);
            }
        })?;
        Ok(count)
    }

    /// Returns all elements, in C order.
    ///
    /// # Errors
    /// [`Kind::Usage`] if the array has elements of another type, [`Kind::TooLarge`] if they do not fit in
    /// memory; other kinds if an element can't be read.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        let count = self.len();
        let too_large = || {
            let what = format!("the {count} elements of \"{}\" do not fit in memory", self.path);
            Error::new(Kind::TooLarge, what)
        };
        let mut elements = Vec::new();
        let capacity = usize::try_from(count).map_err(|_| too_large())?;
        elements.try_reserve_exact(capacity).map_err(|_| too_large())?;
        self.each_piece(0, count, |bytes| {
            let pieces = bytes.chunks_exact(self.item as usize);
            elements.extend(pieces.map(|element| T::of_bytes(element, self.byteorder)));
        })?;
        Ok(elements)
    }

    /// Passes the bytes of `count` elements from element `first` on to `take`, whole elements at a time.
    fn each_piece(&self, first: u64, count: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
        let in_piece = (PIECE as u64 / self.item).max(1);
        let mut buf = vec![0; (in_piece.min(count) * self.item) as usize];
        let mut done = 0;
        while done < count {
            let now = in_piece.min(count - done);
            let bytes = &mut buf[..(now * self.item) as usize];
            let offset = first.saturating_add(done).saturating_mul(self.item);
            read_exact_at(&*self.elements, offset, bytes).map_err(|error| self.described(error))?;
            take(bytes);
            done += now;
        }
        Ok(())
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        if T::reads(&self.datatype) {
            return Ok(());
        }
        let wanted = std::any::type_name::<T>();
        let what = format!(
            "the array \"{}\" has elements of the type {}, which can't be read as {wanted}",
            self.path.escape_debug(),
            self.datatype
        );
        Err(Error::new(Kind::Usage, what))
    }

    fn described(&self, error: Error) -> Error {
        error.within(format_args!("the array \"{}\"", self.path.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_with_the_parts_or_in_the_row_after() {
        // Parts of 10 bytes, rows of 4: they end in the 3rd row, the 5th, the 8th, the 10th.
        assert_eq!(chunks_of_parts(4, 10, 10), [3, 2, 3, 2]);
        assert_eq!(chunks_of_parts(4, 9, 10), [3, 2, 3, 1]);
        assert_eq!(chunks_of_parts(5, 9, 10), [2]);
        assert_eq!(chunks_of_parts(5, 3, 100), [3]);
        assert_eq!(chunks_of_parts(100, 3, 10), [1]);
        assert!(chunks_of_parts(u64::MAX, 0, u64::MAX).is_empty());
        assert_eq!(chunks_of_parts(1, u64::MAX, u64::MAX), [u64::MAX]);
    }

    #[test]
    fn a_selection_is_within_its_dimension() {
        let within = |start, step, count, len| Selection { start, step, count }.is_within(len);
        assert!(within(0, 1, 5, 5) && within(4, -1, 5, 5) && within(0, i64::MIN, 0, 0) && within(4, 9, 1, 5));
        assert!(!within(0, 1, 6, 5) && !within(4, -1, 6, 5) && !within(5, 0, 1, 5));
        assert!(!within(0, i64::MAX, u64::MAX, u64::MAX) && !within(u64::MAX, 1, 1, u64::MAX));
    }
}
