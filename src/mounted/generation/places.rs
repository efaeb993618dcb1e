//! A map from the offsets of a generation to the current positions of its bytes.

use std::ops::Range;
use std::sync::Arc;

use seekable::source::Source;

/// The current position of a byte.
#[derive(Clone, Debug)]
pub(super) enum BytePlace {
    /// In the file, at this offset.
    File(u64),
    /// In a copy, or in the image of a save, at this offset.
    Copy(Arc<dyn Source>, u64),
    /// Lost: overwritten while no thread held the generation.
    Lost,
}

impl BytePlace {
    /// Returns the place `len` bytes further.
    fn after(&self, len: u64) -> Self {
        match self {
            Self::File(at) => Self::File(at.saturating_add(len)),
            Self::Copy(source, at) => Self::Copy(source.clone(), at.saturating_add(len)),
            Self::Lost => Self::Lost,
        }
    }
}

/// The places of all bytes of a generation, as runs in ascending order. The first run begins at 0, each run
/// extends to the next one, and the last run has no end.
#[derive(Clone, Debug)]
pub(super) struct BytePlaces(Vec<(u64, BytePlace)>);

impl Default for BytePlaces {
    /// Returns the identity map: each byte is in the file, at its original offset.
    fn default() -> Self {
        Self(vec![(0, BytePlace::File(0))])
    }
}

impl BytePlaces {
    /// Returns the place of the byte at `offset`, and the number of contiguous bytes from there on.
    pub(super) fn at(&self, offset: u64) -> (BytePlace, u64) {
        let next = self.0.partition_point(|(start, _)| *start <= offset);
        let end = self.0.get(next).map_or(u64::MAX, |(start, _)| *start);
        match next.checked_sub(1).and_then(|run| self.0.get(run)) {
            Some((start, place)) => (place.after(offset - start), end - offset),
            None => (BytePlace::Lost, end - offset),
        }
    }

    /// True if any of the first `size` bytes is in this range of the file.
    pub(super) fn has_any_in(&self, range: &Range<u64>, size: u64) -> bool {
        self.runs().any(|(bytes, place)| {
            let end = bytes.end.min(size);
            matches!(place, BytePlace::File(at) if bytes.start < end
                && *at < range.end && range.start < at.saturating_add(end - bytes.start))
        })
    }

    /// True if any of the first `size` bytes is lost.
    pub(super) fn has_lost(&self, size: u64) -> bool {
        self.0.iter().any(|(start, place)| *start < size && matches!(place, BytePlace::Lost))
    }

    /// Moves the bytes in a range of the file. `new` returns the new place of a run that begins at an offset
    /// in the file.
    pub(super) fn replace(&mut self, range: &Range<u64>, new: impl Fn(u64) -> BytePlace) {
        let mut runs = Vec::with_capacity(self.0.len() + 2);
        for (bytes, place) in self.runs() {
            let BytePlace::File(at) = *place else {
                runs.push((bytes.start, place.clone()));
                continue;
            };
            let len = bytes.end - bytes.start;
            let from = range.start.max(at);
            let until = range.end.min(at.saturating_add(len));
            if from >= until {
                runs.push((bytes.start, place.clone()));
                continue;
            }
            if from > at {
                runs.push((bytes.start, place.clone()));
            }
            runs.push((bytes.start + (from - at), new(from)));
            if until < at.saturating_add(len) {
                runs.push((bytes.start + (until - at), BytePlace::File(until)));
            }
        }
        self.0 = runs;
        self.join();
    }

    /// Moves the bytes in a copy, as [`replace`](Self::replace) does for the file. `new` returns the new
    /// place of a run that begins at an offset in the copy.
    pub(super) fn replace_copy(&mut self, copy: &Arc<dyn Source>, new: impl Fn(u64) -> BytePlace) {
        for (_, place) in &mut self.0 {
            if let BytePlace::Copy(source, at) = place
                && Arc::ptr_eq(source, copy)
            {
                *place = new(*at);
            }
        }
        self.join();
    }

    fn runs(&self) -> impl Iterator<Item = (Range<u64>, &BytePlace)> {
        self.0.iter().enumerate().map(|(run, (start, place))| {
            let end = self.0.get(run + 1).map_or(u64::MAX, |(next, _)| *next);
            (*start..end, place)
        })
    }

    /// Merges adjacent runs that are contiguous.
    fn join(&mut self) {
        self.0.dedup_by(|next, last| match (&last.1, &next.1) {
            (BytePlace::File(last_at), BytePlace::File(at)) => {
                last_at.checked_add(next.0 - last.0) == Some(*at)
            }
            (BytePlace::Copy(one, last_at), BytePlace::Copy(other, at)) => {
                Arc::ptr_eq(one, other) && last_at.checked_add(next.0 - last.0) == Some(*at)
            }
            (BytePlace::Lost, BytePlace::Lost) => true,
            _ => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::source::MemorySource;

    /// Returns a byte's place as text: the offset in the file, `c` and the offset in a copy, or `lost`.
    fn place(places: &BytePlaces, offset: u64) -> String {
        match places.at(offset) {
            (BytePlace::File(at), _) => at.to_string(),
            (BytePlace::Copy(_, at), _) => format!("c{at}"),
            (BytePlace::Lost, _) => "lost".into(),
        }
    }

    #[test]
    fn each_byte_is_found_after_any_changes() {
        let mut places = BytePlaces::default();
        let copy: Arc<dyn Source> = Arc::new(MemorySource(vec![0; 100]));
        let kept = |from: u64| move |at: u64| BytePlace::Copy(copy.clone(), at - from);
        places.replace(&(10..20), kept(10));
        let found = [0, 9, 10, 19, 20].map(|at| place(&places, at));
        assert_eq!(found, ["0", "9", "c0", "c9", "20"]);
        assert_eq!((places.at(0).1, places.at(12).1, places.at(20).1), (10, 8, u64::MAX - 20));
        // Bytes from 20 on move by 100. Bytes written at 20..120 after that do not belong to this generation.
        places.replace(&(20..u64::MAX), |at| BytePlace::File(at + 100));
        places.replace(&(20..120), |_| BytePlace::Lost);
        assert_eq!([19, 20, 25].map(|at| place(&places, at)), ["c9", "120", "125"]);
        places.replace(&(122..124), |_| BytePlace::Lost);
        assert_eq!([21, 22, 23, 24].map(|at| place(&places, at)), ["121", "lost", "lost", "124"]);
        assert!(places.has_any_in(&(0..1), 5) && !places.has_any_in(&(10..20), 50));
        assert!(places.has_any_in(&(124..125), 25) && !places.has_any_in(&(124..125), 24));
        places.replace(&(124..u64::MAX), |at| BytePlace::File(at - 100));
        assert_eq!(place(&places, 24), "24");
    }

    #[test]
    fn runs_that_lie_in_one_piece_are_joined() {
        let mut places = BytePlaces::default();
        places.replace(&(10..u64::MAX), |at| BytePlace::File(at + 5));
        assert_eq!(places.0.len(), 2);
        places.replace(&(15..u64::MAX), |at| BytePlace::File(at - 5));
        assert_eq!(places.0.len(), 1);
        let image: Arc<dyn Source> = Arc::new(MemorySource(Vec::new()));
        places.replace(&(10..20), |at| BytePlace::Copy(image.clone(), at + 3));
        assert_eq!(place(&places, 12), "c15");
        places.replace_copy(&image, BytePlace::File);
        assert_eq!([9, 10, 20].map(|at| place(&places, at)), ["9", "13", "20"]);
    }
}
