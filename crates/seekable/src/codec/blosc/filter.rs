//! The filters of Blosc 2: what was done to a block before it was compressed.
//!
//! | code | filter | undone by |
//! |---|---|---|
//! | 1 | shuffle | the inverse byte shuffle; a width in the metadata replaces the size of an element |
//! | 2 | bitshuffle | the inverse bit shuffle of whole eights of elements |
//! | 3 | delta | exclusive or with the first block of the chunk, in which each element was taken with the one before it |
//! | 4, 36 | trunc_prec, int_trunc | nothing: the bits are lost |
//! | 35 | bytedelta | adding up the bytes of each plane of a byte shuffle |
//!
//! A chunk names up to six filters, in the order in which they were applied. Sources: README_CHUNK_FORMAT and
//! the registry of filters of c-blosc2.

use super::shuffle;
use crate::error::{Error, Result};

/// Number of filters that a chunk can name.
pub(super) const COUNT: usize = 6;

const NONE: u8 = 0;
const SHUFFLE: u8 = 1;
const BIT_SHUFFLE: u8 = 2;
const DELTA: u8 = 3;
const TRUNC_PREC: u8 = 4;
const BYTE_DELTA: u8 = 35;
const INT_TRUNC: u8 = 36;

/// A filter with its metadata, as a header names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) code: u8,
    pub(super) meta: u8,
}

/// The filters of a chunk in the order in which they were applied.
pub(crate) type Filters = [Filter; COUNT];

/// A step that undoes a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterStep {
    /// Undoes a byte shuffle of elements of this many bytes.
    Unshuffle(usize),
    /// Undoes a bit shuffle.
    UnshuffleBits,
    /// Undoes the differences to the chunk's first block.
    Delta,
    /// Undoes the differences within each of so many planes of bytes.
    ByteDelta(usize),
}

impl Filter {
    pub(super) const BYTES: Self = Self { code: SHUFFLE, meta: 0 };
    pub(super) const BITS: Self = Self { code: BIT_SHUFFLE, meta: 0 };
    pub(super) const DELTA: Self = Self { code: DELTA, meta: 0 };

    /// Returns the filters that two lists of bytes name: their codes and their metadata.
    pub(super) fn list(codes: &[u8], metas: &[u8]) -> Filters {
        let mut filters = Filters::default();
        for ((filter, code), meta) in filters.iter_mut().zip(codes).zip(metas) {
            *filter = Self { code: *code, meta: *meta };
        }
        filters
    }

    /// True for the entry of a filter that is not there.
    pub fn is_none(self) -> bool {
        self.code == NONE
    }

    /// Returns the filter's name as Blosc2 spells it, with the metadata if there are any.
    pub fn name(self) -> String {
        let name = match self.code {
            NONE => "nofilter",
            SHUFFLE => "shuffle",
            BIT_SHUFFLE => "bitshuffle",
            DELTA => "delta",
            TRUNC_PREC => "trunc_prec",
            32 => "ndcell",
            33 => "ndmean",
            BYTE_DELTA => "bytedelta",
            INT_TRUNC => "int_trunc",
            code => return format!("filter {code}"),
        };
        match self.meta {
            0 => name.to_owned(),
            meta => format!("{name}({meta})"),
        }
    }

    /// Returns how to undo the filter on elements of `typesize` bytes; `None` if there is nothing to undo.
    fn step(self, typesize: usize) -> Result<Option<FilterStep>> {
        let width = if self.meta == 0 { typesize } else { usize::from(self.meta) };
        Ok(match self.code {
            NONE | TRUNC_PREC | INT_TRUNC => None,
            SHUFFLE => (width > 1).then_some(FilterStep::Unshuffle(width)),
            BIT_SHUFFLE => Some(FilterStep::UnshuffleBits),
            DELTA => Some(FilterStep::Delta),
            BYTE_DELTA => Some(FilterStep::ByteDelta(width)),
            _ => {
                let what =
                    format!("the filter {} of a Blosc2 chunk is a plugin that is not read", self.name());
                return Err(Error::unsupported(what));
            }
        })
    }
}

/// Returns the steps that undo the filters, in their order.
pub(super) fn steps(filters: &Filters, typesize: usize) -> Result<impl Iterator<Item = FilterStep> + Clone> {
    let mut steps = [None; COUNT];
    for (step, filter) in steps.iter_mut().zip(filters.iter().rev()) {
        *step = filter.step(typesize)?;
    }
    let steps = steps.into_iter().flatten();
    // Differences are those of the bytes that the filter got to a first block before all filters. Blosc2 undoes them if
    // delta is the first or the last filter; between others it fails for some data.
    let is_delta = |step: &FilterStep| *step == FilterStep::Delta;
    let after = steps.clone().skip_while(|step| is_delta(step));
    let begins = steps.clone().next().as_ref().is_some_and(is_delta);
    if after.clone().skip_while(|step| !is_delta(step)).any(|step| begins || !is_delta(&step)) {
        return Err(Error::unsupported(
            "a Blosc2 chunk has delta between other filters, which Blosc2 itself can't always undo",
        ));
    }
    Ok(steps)
}

impl FilterStep {
    /// True if the step needs a second buffer for its output.
    pub(super) fn moves(self) -> bool {
        matches!(self, Self::Unshuffle(_) | Self::UnshuffleBits)
    }
}

/// Undoes the bit shuffle of Blosc 2, which shuffles whole eights of elements and leaves the rest.
pub(super) fn unshuffle_bits(typesize: usize, shuffled: &[u8], out: &mut [u8], planes: &mut Vec<u8>) {
    let count = shuffled.len().checked_div(typesize).unwrap_or(0);
    let whole = (count - count % 8) * typesize;
    let (shuffled, rest) = shuffled.split_at(whole);
    let (out, tail) = out.split_at_mut(whole);
    shuffle::unshuffle_bits(typesize, shuffled, out, planes);
    tail.copy_from_slice(rest);
}

/// Returns the number of bytes whose differences are taken together: those of an element, if a machine has
/// integers of that size.
fn delta_width(typesize: usize) -> usize {
    match typesize {
        2 | 4 | 8 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    }
}

/// Undoes delta in the first block of a chunk.
pub(super) fn undo_delta_within(typesize: usize, block: &mut [u8]) {
    let width = delta_width(typesize);
    let whole = block.len() - block.len() % width;
    for at in width..whole {
        block[at] ^= block[at - width];
    }
}

/// Undoes delta in another block, given the first one, which is at least as long.
pub(super) fn undo_delta(typesize: usize, first: &[u8], block: &mut [u8]) {
    let width = delta_width(typesize);
    let whole = block.len() - block.len() % width;
    for (byte, of_first) in block[..whole].iter_mut().zip(first) {
        *byte ^= of_first;
    }
}

/// Undoes bytedelta in a block of `width` planes. Bytes after the planes are not stored.
pub(super) fn undo_byte_delta(width: usize, block: &mut [u8]) -> Result<()> {
    let plane_len = block.len().checked_div(width).unwrap_or(0);
    if plane_len * width != block.len() {
        let what =
            format!("the filter bytedelta({width}) has lost the last bytes of a block of {}", block.len());
        return Err(Error::damaged(what));
    }
    for plane in block.chunks_exact_mut(plane_len.max(1)) {
        let mut sum = 0_u8;
        for byte in plane {
            sum = sum.wrapping_add(*byte);
            *byte = sum;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(codes: [u8; COUNT]) -> Filters {
        Filter::list(&codes, &[0; COUNT])
    }

    #[test]
    fn filters_are_undone_in_reverse() {
        let steps: Vec<FilterStep> = steps(&list([3, 4, 0, 1, 35, 36]), 4).unwrap().collect();
        assert_eq!(steps, [FilterStep::ByteDelta(4), FilterStep::Unshuffle(4), FilterStep::Delta]);
        for codes in [[1, 3, 0, 0, 0, 0], [3, 3, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0], [1, 2, 4, 3, 3, 0]] {
            assert!(super::steps(&list(codes), 4).is_ok(), "{codes:?}");
        }
    }

    #[test]
    fn what_is_not_read_is_named() {
        for (codes, says) in [
            ([32, 0, 0, 0, 0, 0], "ndcell"),
            ([0, 33, 0, 0, 0, 1], "ndmean"),
            ([0, 0, 160, 0, 0, 0], "filter 160"),
            ([1, 3, 1, 0, 0, 0], "delta between other filters"),
            ([3, 1, 3, 0, 0, 0], "delta between other filters"),
        ] {
            let error = steps(&list(codes), 4).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Unsupported);
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[test]
    fn differences_add_up() {
        let mut block = *b"\x01\x02\x03\x03\x01";
        undo_delta_within(2, &mut block);
        assert_eq!(block, *b"\x01\x02\x02\x01\x01", "the last byte is no element");
        let mut other = *b"\x01\x02\x02\x00\x07";
        undo_delta(2, &block, &mut other);
        assert_eq!(other, *b"\x00\x00\x00\x01\x07");
        let mut planes = *b"\x01\x01\xff\x05\x01\x01";
        undo_byte_delta(2, &mut planes).unwrap();
        assert_eq!(planes, *b"\x01\x02\x01\x05\x06\x07");
        assert!(undo_byte_delta(4, &mut planes).is_err());
        undo_byte_delta(0, &mut []).unwrap();
    }
}
