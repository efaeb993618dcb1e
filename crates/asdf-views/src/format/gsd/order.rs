//! The selection of index entries that make up the frames.

/// The entries that make up the frames, in frame order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All slots below this number, in file order.
    All(u64),
    /// These slots only, in file order: all other slots are damaged or have a frame out of order.
    Some(Vec<u32>),
}

impl Order {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::All(len) => *len,
            Self::Some(slots) => slots.len() as u64,
        }
    }

    /// Returns the slot of entry `k`.
    pub(crate) fn slot(&self, k: u64) -> Option<u64> {
        match self {
            Self::All(len) => (k < *len).then_some(k),
            Self::Some(slots) => slots.get(usize::try_from(k).ok()?).copied().map(u64::from),
        }
    }

    /// True if the entry in a slot is included.
    pub(crate) fn has(&self, slot: u64) -> bool {
        match self {
            Self::All(len) => slot < *len,
            Self::Some(slots) => u32::try_from(slot).is_ok_and(|slot| slots.binary_search(&slot).is_ok()),
        }
    }
}

/// Returns the slots of a longest subsequence of `entries` (frame, slot) with ascending frames.
///
/// One wrong frame thus costs one entry, whether it is too high or too low.
pub(crate) fn ascending(entries: &[(u64, u32)]) -> Vec<u32> {
    // Patience sorting: tops[n] is the entry with the lowest frame that ends a sequence of length n + 1.
    let mut tops: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(entries.len());
    let frame = |at: usize| entries.get(at).map_or(0, |entry| entry.0);
    for (at, entry) in entries.iter().enumerate() {
        let pile = tops.partition_point(|top| frame(*top) <= entry.0);
        before.push(pile.checked_sub(1).and_then(|below| tops.get(below).copied()));
        match tops.get_mut(pile) {
            Some(top) => *top = at,
            None => tops.push(at),
        }
    }
    let mut slots = Vec::with_capacity(tops.len());
    let mut next = tops.last().copied();
    while let Some(at) = next {
        slots.extend(entries.get(at).map(|entry| entry.1));
        next = before.get(at).copied().flatten();
    }
    slots.reverse();
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(frames: &[u64]) -> Vec<u32> {
        let entries: Vec<(u64, u32)> = frames.iter().copied().zip(0..).collect();
        ascending(&entries)
    }

    #[test]
    fn one_wrong_frame_costs_one_entry() {
        assert_eq!(kept(&[0, 0, 1, 1, 2, 2]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(kept(&[0, 0, 1, 1000, 2, 2]), [0, 1, 2, 4, 5]);
        assert_eq!(kept(&[5, 5, 6, 6, 0, 7, 7]), [0, 1, 2, 3, 5, 6]);
        assert_eq!(kept(&[9, 0, 1, 1]), [1, 2, 3]);
        assert!(kept(&[]).is_empty());
        assert_eq!(kept(&[3, 2, 1]).len(), 1);
    }

    #[test]
    fn what_is_kept_ascends_and_is_as_much_as_can_be() {
        // Compares with all subsets of short sequences.
        for number in 0..4_u64.pow(6) {
            let frames: Vec<u64> = (0..6).map(|at| number / 4_u64.pow(at) % 4).collect();
            let kept = kept(&frames);
            assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(kept.windows(2).all(|pair| frames[pair[0] as usize] <= frames[pair[1] as usize]));
            let longest = (0_u32..64)
                .filter(|set| {
                    let part: Vec<u64> =
                        (0..6).filter(|at| set >> at & 1 == 1).map(|at| frames[at]).collect();
                    part.windows(2).all(|pair| pair[0] <= pair[1])
                })
                .map(u32::count_ones)
                .max();
            assert_eq!(Some(kept.len() as u32), longest, "{frames:?}");
        }
    }
}
