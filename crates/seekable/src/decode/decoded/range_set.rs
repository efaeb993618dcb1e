//! The set of byte ranges of a content that were decoded without error.

use std::collections::BTreeMap;

/// Maximum number of ranges. Beyond this number a range is dropped, and the content's soundness stays
/// unknown.
const RANGES: usize = 4096;

/// A set of ranges in which adjacent ranges merge.
#[derive(Debug, Default)]
pub(super) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds `start..end`.
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        // Ranges that touch the new one start at or before its end. They are merged from the last one
        // backwards.
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.0.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        if self.0.len() >= RANGES {
            self.0.pop_last();
        }
        self.0.insert(start, end);
    }

    /// True if `start..end` is covered.
    pub(super) fn contains(&self, start: u64, end: u64) -> bool {
        start >= end || self.0.range(..=start).next_back().is_some_and(|(_, &to)| to >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_what_a_bitmap_says(ranges in prop::collection::vec((0_u64..60, 0_u64..12), 0..40)) {
            let (mut covered, mut map) = (RangeSet::default(), [false; 80]);
            for (start, len) in ranges {
                covered.add(start, start + len);
                map[start as usize..(start + len) as usize].fill(true);
            }
            for end in 0..80 {
                for start in 0..=end {
                    let all = map[start as usize..end as usize].iter().all(|bit| *bit);
                    prop_assert_eq!(covered.contains(start, end), all);
                }
            }
            let ranges: Vec<_> = covered.0.into_iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
        }
    }
}
