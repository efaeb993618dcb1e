//! Which bytes of a content cannot be decoded, and why.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Decoded, Encoded, Span};
use crate::content::Soundness;
use crate::error::Error;

/// Damaged pieces remembered at most. One that is forgotten is decoded again, and found damaged again.
const PIECES: usize = 4096;

/// What is known not to be had.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// From here on nothing, and why.
    whole: Option<(u64, Error)>,
    /// Of pieces that stand alone: from where on, up to where, and why.
    pieces: BTreeMap<u64, (u64, Error)>,
    /// What is wrong there, or was found wrong besides.
    pub(super) trouble: Option<Error>,
}

impl Damage {
    /// Why byte `at` can't be had, if it is known that it can't.
    pub(super) fn error_at(&self, at: u64) -> Option<&Error> {
        let whole = self.whole.as_ref().filter(|(from, _)| *from <= at).map(|(_, error)| error);
        whole.or_else(|| {
            let (_, (end, error)) = self.pieces.range(..=at).next_back()?;
            (at < *end).then_some(error)
        })
    }

    /// The first lost byte from `start` up to `end`.
    fn first_in(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end || self.error_at(start).is_some() {
            return Some(start).filter(|_| start < end);
        }
        let whole = self.whole.as_ref().map(|(from, _)| *from).filter(|from| *from < end);
        whole.into_iter().chain(self.pieces.range(start..end).next().map(|(from, _)| *from)).min()
    }

    /// The first byte that is lost.
    pub(super) fn first(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|(from, _)| *from);
        whole.into_iter().chain(self.pieces.first_key_value().map(|(from, _)| *from)).min()
    }

    /// The error of what begins at the end of the content, or behind it.
    pub(super) fn behind(&self, end: u64) -> Option<&Error> {
        self.whole.as_ref().filter(|(from, _)| *from >= end).map(|(_, error)| error)
    }

    fn broken(&mut self, limit: &AtomicU64, from: u64, error: &Error) {
        limit.fetch_min(from, Ordering::AcqRel);
        if self.whole.as_ref().is_none_or(|(before, _)| from < *before) {
            // Read-ahead may find damage before a reader finds an earlier one.
            self.trouble = Some(error.clone());
            self.whole = Some((from, error.clone()));
        }
    }

    fn lost(&mut self, from: u64, end: u64, error: &Error) {
        if from < end && self.pieces.len() < PIECES {
            self.pieces.insert(from, (end, error.clone()));
        }
        self.trouble.get_or_insert_with(|| error.clone());
    }
}

impl Decoded {
    /// Notes that nothing can be had from `from` on, and gives the error back.
    pub(super) fn broken(&self, from: u64, error: Error) -> Error {
        self.state().damage.broken(&self.limit, from, &error);
        error
    }

    /// The same of what was found in a span.
    pub(super) fn broken_in(&self, span: Span, from: u64, error: Error) -> Error {
        self.note(&mut self.state().damage, span, from, &error);
        error
    }

    /// Notes that nothing can be had from `from` on: of the span, if it stands alone.
    pub(super) fn note(&self, damage: &mut Damage, span: Span, from: u64, error: &Error) {
        match (span.piece, &self.encoded) {
            (Some(piece), Encoded::Pieces(pieces)) if self.stand_alone => {
                damage.lost(from, pieces.lost_end(piece, from).min(span.end), error);
            }
            _ => damage.broken(&self.limit, from, error),
        }
    }

    /// Whether all bytes of a range can be read, as far as is known; `Broken` counts from its start.
    pub(crate) fn soundness_of(&self, start: u64, end: u64) -> Soundness {
        let state = self.state();
        match state.damage.first_in(start, end) {
            Some(from) => Soundness::Broken(from - start),
            None if state.covered.holds(start, end) => Soundness::Sound,
            None => Soundness::Unknown,
        }
    }

    /// Why byte `at` can't be read, if it is known that it can't.
    pub(crate) fn error_at(&self, at: u64) -> Option<Error> {
        self.state().damage.error_at(at).cloned()
    }

    /// The error of reading at `at`, where nothing can be had.
    pub(super) fn why_not(&self, at: u64) -> Error {
        self.error_at(at).unwrap_or_else(|| Error::damaged(format!("byte {at} can't be decoded")))
    }

    /// The lost bytes that are known: from where on, and why.
    pub(crate) fn lost(&self) -> Vec<(u64, Error)> {
        let damage = &self.state().damage;
        let pieces = damage.pieces.iter().map(|(from, (_, error))| (*from, error.clone()));
        pieces.chain(damage.whole.clone()).collect()
    }
}
