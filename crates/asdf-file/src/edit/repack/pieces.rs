//! Divides a block into pieces, each of which becomes a block of its own.

use std::ops::Range;

use seekable::error::Result;

use super::users::{ArrayUser, NewNumbers};
use crate::array::zarr::usual_chunks;

/// Length of a part where no length fits the rows, in bytes, as Python asdf has it.
const USUAL_PART: u64 = 4 << 20;
/// Maximum length of a part that fits the rows, in bytes, and minimum length of one that is a single row.
const MAX_FITTING: u64 = 16 << 20;
const MIN_ROW: u64 = 4096;

/// A piece of a block's data.
#[derive(Debug)]
pub(super) struct Piece<'u> {
    /// The bytes, counted from the start of the decoded data.
    pub(super) bytes: Range<u64>,
    /// The arrays in it.
    pub(super) users: Vec<&'u ArrayUser>,
    /// The layout of the arrays, if all have one and the same.
    pub(super) layout: Option<Layout>,
}

/// The layout of an array in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The offset of the first element in the block's data.
    pub(super) offset: u64,
    /// The length of each dimension, with the distance in bytes from one element to the next.
    pub(super) axes: Vec<(u64, i64)>,
    /// The size of an element in bytes.
    pub(super) item: u64,
}

/// Divides a block with `size` bytes of decoded data into the bytes of its arrays. Arrays that share bytes, or lie in the
/// bytes between the elements of others, stay together. If any of them does not say what bytes it takes, or `is_whole` is
/// true, the block is one piece.
pub(super) fn divide<'u>(users: &[&'u ArrayUser], size: u64, is_whole: bool) -> Vec<Piece<'u>> {
    let whole = || vec![Piece { bytes: 0..size, users: users.to_vec(), layout: None }];
    if is_whole {
        return whole();
    }
    let mut placed = Vec::with_capacity(users.len());
    for user in users {
        let is_endless = user.array.shape.as_ref().is_none_or(|shape| shape.streamed);
        let extent = user.array.extent(size).and_then(std::result::Result::ok).filter(|_| !is_endless);
        let Some(extent) = extent else { return whole() };
        placed.push((extent.start..extent.end, *user, Layout::of(user, &extent.dimensions)));
    }
    placed.sort_by_key(|(bytes, ..)| (bytes.start, bytes.end));
    let mut pieces: Vec<Piece<'u>> = Vec::new();
    for (bytes, user, layout) in placed {
        match pieces.last_mut() {
            Some(last) if bytes.start < last.bytes.end || bytes == last.bytes => {
                last.bytes.end = last.bytes.end.max(bytes.end);
                last.users.push(user);
                last.layout = last.layout.take().filter(|known| Some(known) == layout.as_ref());
            }
            _ => pieces.push(Piece { bytes, users: vec![user], layout }),
        }
    }
    pieces
}

impl Piece<'_> {
    /// Returns the number of bytes in the new block.
    pub(super) fn len(&self) -> u64 {
        let span = self.bytes.end - self.bytes.start;
        self.layout.as_ref().and_then(Layout::len).map_or(span, |len| len.min(span))
    }

    /// True if there are bytes between the elements, which the new block lacks.
    pub(super) fn has_gaps(&self) -> bool {
        self.len() < self.bytes.end - self.bytes.start
    }

    /// Returns the shape and the size of the elements, if the new block has them in the order that references need.
    pub(super) fn rows(&self) -> Option<(Vec<u64>, u64)> {
        let layout = self.layout.as_ref().filter(|layout| layout.item > 0)?;
        (self.has_gaps() || layout.is_dense()).then(|| (layout.dimensions(), layout.item))
    }

    /// Sets offset and strides of the arrays in the new block.
    pub(super) fn place(&self, numbers: &mut NewNumbers) -> Result<()> {
        let dense = self.layout.as_ref().filter(|_| self.has_gaps()).and_then(Layout::dense);
        for user in &self.users {
            let first = if dense.is_some() { 0 } else { user.array.offset.saturating_sub(self.bytes.start) };
            if let Some(offset) = user.offset {
                numbers.set(offset, i64::try_from(first).unwrap_or(i64::MAX))?;
            }
            for (n, stride) in user.strides.iter().enumerate() {
                let new = dense.as_ref().and_then(|dense| dense.get(n).copied());
                numbers.set(*stride, new.unwrap_or(stride.value))?;
            }
        }
        Ok(())
    }
}

impl Layout {
    fn of(user: &ArrayUser, dimensions: &[u64]) -> Option<Self> {
        let item = user.array.datatype.as_ref()?.size()?;
        let strides = match &user.array.strides {
            Some(strides) => strides.clone(),
            None => c_strides(dimensions, item)?,
        };
        let axes = dimensions.iter().copied().zip(strides).collect();
        Some(Self { offset: user.array.offset, axes, item })
    }

    fn dimensions(&self) -> Vec<u64> {
        self.axes.iter().map(|(len, _)| *len).collect()
    }

    /// Returns the number of bytes of all elements; `None` on overflow.
    fn len(&self) -> Option<u64> {
        self.axes.iter().try_fold(self.item, |len, (axis, _)| len.checked_mul(*axis))
    }

    /// Returns the strides of the same elements without gaps, the last index varying fastest.
    fn dense(&self) -> Option<Vec<i64>> {
        c_strides(&self.dimensions(), self.item)
    }

    /// True if the elements are contiguous, the last index varying fastest.
    fn is_dense(&self) -> bool {
        self.dense().is_some_and(|dense| {
            self.axes.iter().zip(dense).all(|((len, stride), dense)| *len == 1 || *stride == dense)
        })
    }
}

fn c_strides(dimensions: &[u64], item: u64) -> Option<Vec<i64>> {
    let mut strides = Vec::with_capacity(dimensions.len());
    let mut step = item;
    for len in dimensions.iter().rev() {
        strides.push(i64::try_from(step).ok()?);
        step = step.checked_mul(*len)?;
    }
    strides.reverse();
    Some(strides)
}

/// Returns the length of parts that are whole rows and divide an array, in bytes; or the usual length, if no such length
/// is of use.
pub(super) fn part_len(rows: Option<&(Vec<u64>, u64)>) -> u64 {
    let Some((dimensions, item)) = rows else { return USUAL_PART };
    let chunk = usual_chunks(dimensions, *item).iter().try_fold(*item, |len, one| len.checked_mul(*one));
    if let Some(len) = chunk.filter(|len| (1..=MAX_FITTING).contains(len)) {
        return len;
    }
    // The number of rows has no divisor of use.
    let row_len = |n: usize| dimensions[n..].iter().try_fold(*item, |len, one| len.checked_mul(*one));
    let row = (1..=dimensions.len()).find_map(|n| row_len(n).filter(|len| *len <= MAX_FITTING));
    row.filter(|len| *len >= MIN_ROW).unwrap_or(USUAL_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_divide_the_rows() {
        for (dimensions, item, len) in [
            (&[4088, 4088][..], 4, 56 * 4088 * 4),
            (&[10], 4, 40),
            // A prime number of rows.
            (&[4099, 4099], 4, 4099 * 4),
            (&[5_000_011], 8, USUAL_PART),
            (&[], 4, 4),
            (&[3, 20 << 20], 1, 1 << 20),
        ] {
            assert_eq!(part_len(Some(&(dimensions.to_vec(), item))), len, "{dimensions:?}");
        }
        assert_eq!(part_len(None), USUAL_PART);
    }
}
