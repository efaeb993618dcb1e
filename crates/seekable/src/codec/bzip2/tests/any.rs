//! Random streams, cut anywhere, read in any order, with and without a stored seek table.

use proptest::prelude::*;

use super::*;
use crate::cache::store::Store;
use crate::codec::samples;

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_as_the_truth(
        (len, seed) in (1_usize..900_000, 1_u64..1_000_000),
        cuts in prop::collection::vec((0_usize..900_000, 1_u32..=9), 1..5),
        (threads, budget) in (1_usize..4, prop::sample::select(&[0, 40 << 20, 1 << 28][..])),
        order in prop::collection::vec((0_usize..900_000, 0_usize..70_000), 0..10),
    ) {
        // The data contain magics as well.
        let truth = truth(len, seed);
        let mut places: Vec<_> = cuts.iter().map(|(at, _)| at % (len + 1)).collect();
        places.sort_unstable();
        let ends = places.iter().copied().chain([len]);
        let starts = [0].into_iter().chain(places.iter().copied());
        let levels = cuts.iter().map(|(_, level)| *level).chain([1]);
        let stored: Vec<u8> =
            starts.zip(ends).zip(levels).flat_map(|((from, to), level)| encode(&truth[from..to], level)).collect();
        let first = Arc::new(Cache::new(0).with_store(Store::in_memory()));
        for mount in 0..2 {
            first.store().wait_for_writes();
            let cache = Arc::new(Cache::with_threads(budget, threads).sharing(first.store()));
            let stream = open(samples::stream(&stored, len), &cache);
            let content = Decoded::stream(stream, len as u64, &cache);
            for &(at, count) in &order {
                check(&content, &truth, at % (len + 1), count);
            }
            check(&content, &truth, 0, len);
            prop_assert_eq!(content.soundness(), Soundness::Sound, "mount {}", mount);
            prop_assert!(content.damage().is_none());
        }
    }
}
