//! Idle decoders: each is at some position of a stream and waits for the next read there.
//!
//! One list serves the whole mount, which bounds the memory of all decoders for any number of open blocks.
//! The least recently used decoder is evicted first.

use std::fmt;
use std::sync::Mutex;

use super::Decoder;
use crate::cache::{ContentId, Reclaim};
use crate::sync::{MutexGuard, locked};

/// Maximum active decoders of one content.
pub(super) const PER_CONTENT: usize = 4;

/// Maximum idle decoders of a mount: one for each reader. All may be of one content, whose readers would
/// otherwise evict each other's decoders and decode the same bytes again.
const PER_MOUNT: usize = 32;

/// Maximum memory of a mount's idle decoders in bytes. The most recently parked decoder is never evicted.
const WEIGHT: u64 = 16 << 20;

/// Number of decoders parked after a decoder from which on the reader of that decoder counts as gone.
const TURNS: u64 = 64;

/// A stream: the content, and the stream's start in it.
pub(super) type Stream = (ContentId, u64);

/// The idle decoders, oldest first.
#[derive(Default)]
pub struct IdleDecoders(Mutex<Decoders>);

#[derive(Default)]
struct Decoders {
    waiting: Vec<Waiting>,
    /// Number of decoders parked so far.
    park_count: u64,
}

struct Waiting {
    stream: Stream,
    /// Value of `park_count` when the decoder was parked; true if a new decoder would soon reach the same
    /// position.
    park_count: u64,
    is_cheap_to_replace: bool,
    /// The decoder's position: a decoded offset in the content.
    at: u64,
    decoder: Box<dyn Decoder>,
}

impl IdleDecoders {
    /// Returns the position of the nearest idle decoder at or before `wanted`.
    pub(super) fn nearest(&self, stream: Stream, wanted: u64) -> Option<u64> {
        let decoders = self.decoders();
        decoders.waiting.iter().filter(|one| one.stream == stream && one.at <= wanted).map(|one| one.at).max()
    }

    /// Takes the decoder at position `at`.
    pub(super) fn take(&self, stream: Stream, at: u64) -> Option<Box<dyn Decoder>> {
        let waiting = &mut self.decoders().waiting;
        let place = waiting.iter().position(|one| one.stream == stream && one.at == at)?;
        Some(waiting.remove(place).decoder)
    }

    /// Keeps a decoder for its next read, and evicts others beyond the limits.
    pub(super) fn park(&self, stream: Stream, at: u64, decoder: Box<dyn Decoder>) {
        let mut dropped = Vec::new();
        let is_cheap_to_replace = decoder.is_cheap_to_replace();
        let mut decoders = self.decoders();
        decoders.park_count += 1;
        let Decoders { waiting, park_count } = &mut *decoders;
        waiting.push(Waiting { stream, park_count: *park_count, is_cheap_to_replace, at, decoder });
        let weight = |waiting: &[Waiting]| waiting.iter().map(|one| one.decoder.weight()).sum::<u64>();
        while waiting.len() > 1 && (waiting.len() > PER_MOUNT || weight(waiting) > WEIGHT) {
            dropped.push(waiting.remove(0));
        }
        // Releases the lock first, because dropping the evicted decoders frees memory and closes files.
        drop(decoders);
    }

    fn decoders(&self) -> MutexGuard<'_, Decoders> {
        locked(&self.0)
    }
}

impl Reclaim for IdleDecoders {
    /// Evicts decoders that stayed idle while 64 others were parked: their buffers take memory that others
    /// need. Decoders whose position is expensive to reach again are kept.
    fn make_room(&self) {
        let mut decoders = self.decoders();
        let park_count = decoders.park_count;
        let is_left = |one: &mut Waiting| one.is_cheap_to_replace && park_count - one.park_count >= TURNS;
        let dropped: Vec<_> = decoders.waiting.extract_if(.., is_left).collect();
        drop(decoders);
        drop(dropped);
    }

    /// Returns the approximate memory of the decoders in bytes.
    fn weight(&self) -> u64 {
        self.decoders().waiting.iter().map(|one| one.decoder.weight()).sum()
    }

    /// Drops the decoders of a content.
    fn forget(&self, content: ContentId) {
        let mut decoders = self.decoders();
        let gone: Vec<_> = decoders.waiting.extract_if(.., |one| one.stream.0 == content).collect();
        drop(decoders);
        drop(gone);
    }
}

impl fmt::Debug for IdleDecoders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.decoders().waiting.iter().map(|one| (one.stream, one.at))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::error::Result;

    struct Heavy(u64);

    impl Decoder for Heavy {
        fn read(&mut self, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn weight(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn gives_the_nearest_one_before() {
        let parked = IdleDecoders::default();
        let id = Cache::new(0).id();
        for at in [0, 10, 20] {
            parked.park((id, 0), at, Box::new(Heavy(1)));
        }
        assert_eq!(parked.nearest((id, 0), 15), Some(10));
        assert_eq!(parked.nearest((id, 7), 15), None);
        assert!(parked.take((id, 0), 10).is_some());
        assert!(parked.take((id, 0), 10).is_none());
        assert_eq!(parked.nearest((id, 0), 15), Some(0));
        parked.forget(id);
        assert_eq!(parked.nearest((id, 0), 15), None);
    }

    #[test]
    fn is_bounded_for_the_mount_by_number_and_weight() {
        let parked = IdleDecoders::default();
        let cache = Cache::new(0);
        let id = cache.id();
        for at in 0..PER_MOUNT as u64 + 5 {
            parked.park((id, 0), at, Box::new(Heavy(1)));
        }
        let waiting: Vec<_> = parked.decoders().waiting.iter().map(|one| one.at).collect();
        assert_eq!(waiting, (5..PER_MOUNT as u64 + 5).collect::<Vec<_>>());
        for _ in 0..100 {
            parked.park((cache.id(), 0), 0, Box::new(Heavy(1)));
        }
        assert_eq!(parked.decoders().waiting.len(), PER_MOUNT);
        parked.park((id, 0), 3, Box::new(Heavy(2 * WEIGHT)));
        assert_eq!(parked.decoders().waiting.len(), 1);
    }

    /// A decoder whose position a new one would soon reach.
    struct Soon;

    impl Decoder for Soon {
        fn read(&mut self, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn is_cheap_to_replace(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_decoder_whose_reader_stopped_is_evicted_unless_its_place_is_far() {
        let parked = IdleDecoders::default();
        let id = Cache::new(0).id();
        parked.park((id, 0), 1, Box::new(Soon));
        parked.park((id, 0), 2, Box::new(Heavy(1)));
        for round in 2..TURNS + 2 {
            parked.make_room();
            assert_eq!(parked.nearest((id, 0), 1).is_some(), round <= TURNS, "{round}");
            // A decoder that is used from time to time stays.
            drop(parked.take((id, 0), 3));
            parked.park((id, 0), 3, Box::new(Soon));
        }
        parked.make_room();
        let stay: Vec<_> = parked.decoders().waiting.iter().map(|one| one.at).collect();
        assert_eq!(stay, [2, 3]);
    }
}
