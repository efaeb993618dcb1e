//! The bytes of a content that can't be decoded, and their errors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Decoded, Encoded, Span};
use crate::content::Soundness;
use crate::error::Error;

/// Maximum number of damaged chunks that are remembered. A forgotten chunk is decoded again, with the same
/// error.
const PIECES: usize = 4096;

/// The known damage.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Start of the damage that extends to the end of the content, and its error.
    whole: Option<(u64, Error)>,
    /// Damage within independent chunks: start, end and error.
    pieces: BTreeMap<u64, (u64, Error)>,
    /// The error of the first damaged byte, or else the first one found of those that cost no data.
    pub(super) error: Option<Error>,
}

impl Damage {
    /// Returns the error of byte `at`, if the byte is known to be damaged.
    pub(super) fn error_at(&self, at: u64) -> Option<&Error> {
        let whole = self.whole.as_ref().filter(|(from, _)| *from <= at).map(|(_, error)| error);
        whole.or_else(|| {
            let (_, (end, error)) = self.pieces.range(..=at).next_back()?;
            (at < *end).then_some(error)
        })
    }

    /// Returns the first damaged byte from `start` up to `end`.
    fn first_in(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end || self.error_at(start).is_some() {
            return Some(start).filter(|_| start < end);
        }
        let whole = self.whole.as_ref().map(|(from, _)| *from).filter(|from| *from < end);
        whole.into_iter().chain(self.pieces.range(start..end).next().map(|(from, _)| *from)).min()
    }

    /// Returns the first damaged byte.
    pub(super) fn first(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|(from, _)| *from);
        whole.into_iter().chain(self.pieces.first_key_value().map(|(from, _)| *from)).min()
    }

    /// Returns the error of damage that starts at the end of the content or after it.
    pub(super) fn behind(&self, end: u64) -> Option<&Error> {
        self.whole.as_ref().filter(|(from, _)| *from >= end).map(|(_, error)| error)
    }

    fn broken(&mut self, limit: &AtomicU64, from: u64, error: &Error) {
        limit.fetch_min(from, Ordering::AcqRel);
        if self.whole.as_ref().is_none_or(|(before, _)| from < *before) {
            // Read-ahead may find later damage before a reader finds this damage.
            self.error = Some(error.clone());
            self.whole = Some((from, error.clone()));
        }
    }

    fn lost(&mut self, from: u64, end: u64, error: &Error) {
        if self.error.is_none() || self.first().is_some_and(|first| from < first) {
            self.error = Some(error.clone());
        }
        if from < end && self.pieces.len() < PIECES {
            self.pieces.insert(from, (end, error.clone()));
        }
    }
}

impl Decoded {
    /// Records that no byte from `from` on can be read, and returns the error.
    pub(super) fn broken(&self, from: u64, error: Error) -> Error {
        self.state().damage.broken(&self.limit, from, &error);
        error
    }

    /// Records damage that was found in a span, and returns the error.
    pub(super) fn broken_in(&self, span: Span, from: u64, error: Error) -> Error {
        self.note(&mut self.state().damage, span, from, &error);
        error
    }

    /// Records that no byte from `from` on can be read, up to the end of the chunk if chunks are independent,
    /// else up to the end of the content. Damage behind the last byte, such as surplus data, is that of the content.
    pub(super) fn note(&self, damage: &mut Damage, span: Span, from: u64, error: &Error) {
        match (span.piece, &self.encoded) {
            (Some(piece), Encoded::Pieces(pieces)) if self.stand_alone && from < self.data_size => {
                damage.lost(from, pieces.lost_end(piece, from).min(span.end), error);
            }
            _ => damage.broken(&self.limit, from, error),
        }
    }

    /// Returns the known soundness of a range; the offset in `Broken` counts from the start of the range.
    pub fn soundness_of(&self, start: u64, end: u64) -> Soundness {
        let state = self.state();
        match state.damage.first_in(start, end) {
            Some(from) => Soundness::Broken(from - start),
            None if state.covered.contains(start, end) => Soundness::Sound,
            None => Soundness::Unknown,
        }
    }

    /// Returns the error of byte `at`, if the byte is known to be damaged.
    pub fn error_at(&self, at: u64) -> Option<Error> {
        self.state().damage.error_at(at).cloned()
    }

    /// Returns the error for a read at `at` that failed.
    pub(super) fn why_not(&self, at: u64) -> Error {
        self.error_at(at).unwrap_or_else(|| Error::damaged(format!("byte {at} can't be decoded")))
    }

    /// Returns the known damage: start offsets and errors.
    pub fn lost(&self) -> Vec<(u64, Error)> {
        let damage = &self.state().damage;
        let pieces = damage.pieces.iter().map(|(from, (_, error))| (*from, error.clone()));
        pieces.chain(damage.whole.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_first_damaged_byte_whatever_was_found_first() {
        let mut damage = Damage::default();
        for (from, expected) in [(24, 24), (22, 22), (30, 22)] {
            damage.lost(from, from + 1, &Error::damaged(format!("at {from}")));
            assert_eq!(damage.error.as_ref().unwrap().message(), format!("at {expected}"));
            assert_eq!(damage.first(), Some(expected));
        }
    }
}
