//! Computes the bytes of a block's data that an ndarray takes.

use super::{Ndarray, Shape};

/// The bytes of an array's elements, counted from the start of the block's decoded data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementExtent {
    /// The first byte.
    pub start: u64,
    /// The end of the bytes; `start` if there are no elements.
    pub end: u64,
    /// The lengths of all dimensions, with `*` resolved.
    pub dimensions: Vec<u64>,
}

/// The reason why an array does not fit in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// The array takes this many bytes.
    Needs(u64),
    /// Negative strides lead to an offset before the first byte of the block's data.
    BeforeBlock,
    /// The size overflows 64 bits.
    Uncountable,
    /// The stride of `*` is 0 or negative, so its length is not determined.
    Endless,
}

impl Ndarray {
    /// Returns the bytes that the array takes of a block with `size` bytes of decoded data.
    ///
    /// `None` if they are not known: the array is not in a block, or its datatype was too large to be read.
    pub fn extent(&self, size: u64) -> Option<Result<ElementExtent, TooLarge>> {
        let shape = self.shape.as_ref()?;
        let datatype = self.datatype.as_ref()?;
        let item = match datatype.size() {
            Some(item) => item,
            None if *datatype == super::Datatype::Unknown => return None,
            None => return Some(Err(TooLarge::Uncountable)),
        };
        Some(self.extent_of(shape, i128::from(item), size))
    }

    fn extent_of(&self, shape: &Shape, item: i128, size: u64) -> Result<ElementExtent, TooLarge> {
        let dimensions = self.dimensions(shape, item, size)?;
        let counted = dimensions.iter().filter(|len| **len > 0).try_fold(item.max(1), |bytes, len| {
            bytes.checked_mul(i128::from(*len)).filter(|bytes| *bytes <= i128::from(i64::MAX))
        });
        let counted = counted.ok_or(TooLarge::Uncountable)?;
        let offset = i128::from(self.offset);
        let mut first = offset;
        let mut last = offset;
        let empty = dimensions.contains(&0);
        if let Some(strides) = &self.strides
            && !empty
        {
            for (stride, len) in strides.iter().zip(&dimensions) {
                let way = i128::from(*stride).checked_mul(i128::from(*len) - 1);
                let way = way.ok_or(TooLarge::Uncountable)?;
                let end = if way < 0 { &mut first } else { &mut last };
                *end = end.checked_add(way).ok_or(TooLarge::Uncountable)?;
            }
            last = last.checked_add(item).ok_or(TooLarge::Uncountable)?;
        } else if !empty && item > 0 {
            last = last.checked_add(counted).ok_or(TooLarge::Uncountable)?;
        }
        if first < 0 {
            return Err(TooLarge::BeforeBlock);
        }
        let start = u64::try_from(first).map_err(|_| TooLarge::Uncountable)?;
        let end = u64::try_from(last).map_err(|_| TooLarge::Uncountable)?;
        if end <= size { Ok(ElementExtent { start, end, dimensions }) } else { Err(TooLarge::Needs(end)) }
    }

    /// Returns the dimensions with `*` resolved to as many rows as the block has data for. The array's offset
    /// is ignored in this computation, as other readers ignore it.
    fn dimensions(&self, shape: &Shape, item: i128, size: u64) -> Result<Vec<u64>, TooLarge> {
        if !shape.streamed {
            return Ok(shape.dimensions.clone());
        }
        let row = || {
            let lengths = shape.dimensions.iter().map(|len| i128::from(*len));
            lengths.into_iter().try_fold(item, i128::checked_mul)
        };
        let stride = match self.strides.as_deref() {
            Some([stride, ..]) => i128::from(*stride),
            _ => row().ok_or(TooLarge::Uncountable)?,
        };
        if stride <= 0 {
            return Err(TooLarge::Endless);
        }
        let rows = u64::try_from(i128::from(size) / stride).map_err(|_| TooLarge::Uncountable)?;
        Ok([&[rows], shape.dimensions.as_slice()].concat())
    }
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Needs(bytes) => write!(out, "it takes {bytes} bytes"),
            Self::BeforeBlock => out.write_str("its strides lead before the first byte"),
            Self::Uncountable => out.write_str("its size is beyond 64 bits"),
            Self::Endless => out.write_str("the stride of its '*' is not a number from 1 on"),
        }
    }
}
