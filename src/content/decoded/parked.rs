//! Decoders that stand somewhere in a stream and wait for the next read of it.
//!
//! There is one such place for a whole mount, so that the memory of the decoders is bounded however
//! many blocks are open. The one that was used longest ago goes first.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Decoder;
use crate::cache::ContentId;

/// Decoders of one content that may wait, or be at work: one for each of a few readers.
pub(super) const PER_CONTENT: usize = 4;

/// Decoders of a mount that may wait.
const PER_MOUNT: usize = 16;

/// Bytes that the waiting decoders of a mount may take up; the last parked one stays in any case.
const WEIGHT: u64 = 16 << 20;

/// A stream: which content, and where in it the stream begins.
pub(super) type Stream = (ContentId, u64);

/// The decoders that wait, oldest first.
#[derive(Default)]
pub struct Parked(Mutex<Vec<Waiting>>);

struct Waiting {
    stream: Stream,
    /// The decoded offset in the content that it gives next.
    at: u64,
    decoder: Box<dyn Decoder>,
}

impl Parked {
    /// Where the decoder stands that has the shortest way to `wanted`.
    pub(super) fn nearest(&self, stream: Stream, wanted: u64) -> Option<u64> {
        let waiting = self.waiting();
        waiting.iter().filter(|one| one.stream == stream && one.at <= wanted).map(|one| one.at).max()
    }

    /// Takes a decoder that stands at `at`.
    pub(super) fn take(&self, stream: Stream, at: u64) -> Option<Box<dyn Decoder>> {
        let mut waiting = self.waiting();
        let place = waiting.iter().position(|one| one.stream == stream && one.at == at)?;
        Some(waiting.remove(place).decoder)
    }

    /// Lets a decoder wait, and drops those for which there is no room any more.
    pub(super) fn park(&self, stream: Stream, at: u64, decoder: Box<dyn Decoder>) {
        let mut dropped = Vec::new();
        let mut waiting = self.waiting();
        waiting.push(Waiting { stream, at, decoder });
        let of_content = waiting.iter().filter(|one| one.stream.0 == stream.0).count();
        if of_content > PER_CONTENT
            && let Some(oldest) = waiting.iter().position(|one| one.stream.0 == stream.0)
        {
            dropped.push(waiting.remove(oldest));
        }
        let weight = |waiting: &[Waiting]| waiting.iter().map(|one| one.decoder.weight()).sum::<u64>();
        while waiting.len() > 1 && (waiting.len() > PER_MOUNT || weight(&waiting) > WEIGHT) {
            dropped.push(waiting.remove(0));
        }
        // Freeing their memory, or closing a file, holds up nobody.
        drop(waiting);
    }

    /// Bytes that the decoders take up, roughly.
    pub(crate) fn weight(&self) -> u64 {
        self.waiting().iter().map(|one| one.decoder.weight()).sum()
    }

    /// Drops the decoders of a content.
    pub(crate) fn forget(&self, content: ContentId) {
        let mut waiting = self.waiting();
        let (gone, stay) = std::mem::take(&mut *waiting).into_iter().partition(|one| one.stream.0 == content);
        *waiting = stay;
        drop(waiting);
        drop::<Vec<_>>(gone);
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.waiting().iter().map(|one| (one.stream, one.at))).finish()
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
        let (parked, id) = (Parked::default(), Cache::new(0).id());
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
    fn is_bounded_for_a_content_and_for_the_mount_by_number_and_weight() {
        let (parked, cache) = (Parked::default(), Cache::new(0));
        let id = cache.id();
        for at in 0..9 {
            parked.park((id, 0), at, Box::new(Heavy(1)));
        }
        assert_eq!(parked.waiting().iter().map(|one| one.at).collect::<Vec<_>>(), [5, 6, 7, 8]);
        for _ in 0..100 {
            parked.park((cache.id(), 0), 0, Box::new(Heavy(1)));
        }
        assert_eq!(parked.waiting().len(), PER_MOUNT);
        parked.park((id, 0), 3, Box::new(Heavy(2 * WEIGHT)));
        assert_eq!(parked.waiting().len(), 1);
    }
}
