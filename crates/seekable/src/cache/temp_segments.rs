//! Segments of an unnamed temporary file, for small data that would otherwise take memory.
//!
//! The file is in the directory for large temporary files and ends with the process. Each owner fills a
//! [`SegmentList`]; a dropped segment is punched out of the file. If the file can't be created, or the disk
//! is full, nothing is stored.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use crate::sync::locked;
use crate::user_dirs;

/// Size of a segment in bytes; it holds many sliding windows.
const SEGMENT: u64 = 256 << 10;

/// Maximum number of bytes of all segments in use.
const MAX_BYTES: u64 = 1 << 30;

/// The temporary file of a mount; created with the first segment.
#[derive(Debug, Default)]
pub struct TempSegments(Arc<Mutex<SegmentFile>>);

#[derive(Debug, Default)]
struct SegmentFile {
    file: Option<Arc<File>>,
    /// True if the file could not be created.
    refused: bool,
    end: u64,
    used: u64,
}

/// A part of the temporary file, which belongs to one list.
#[derive(Debug)]
struct Segment {
    state: Arc<Mutex<SegmentFile>>,
    file: Arc<File>,
    start: u64,
    filled: u64,
}

impl TempSegments {
    /// Allocates a segment, if the limit allows.
    fn segment(&self) -> Option<Segment> {
        let mut state = locked(&*self.0);
        if state.refused || state.used + SEGMENT > MAX_BYTES {
            return None;
        }
        let file = match &state.file {
            Some(file) => file.clone(),
            None => match user_dirs::unnamed(&user_dirs::temporary()) {
                Ok(file) => state.file.insert(Arc::new(file)).clone(),
                Err(error) => {
                    tracing::warn!("no temporary file, so seeking in compressed blocks is slow: {error}");
                    state.refused = true;
                    return None;
                }
            },
        };
        let start = state.end;
        state.end += SEGMENT;
        state.used += SEGMENT;
        Some(Segment { state: self.0.clone(), file, start, filled: 0 })
    }

    /// Returns the bytes of all segments in use.
    #[cfg(test)]
    fn used(&self) -> u64 {
        self.0.lock().unwrap().used
    }
}

impl Segment {
    /// Writes `bytes` and returns their offset in the segment; `None` if they do not fit or can't be written.
    fn put(&mut self, bytes: &[u8]) -> Option<u32> {
        let at = self.filled;
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= SEGMENT)?;
        self.file.write_all_at(bytes, self.start + at).ok()?;
        self.filled = end;
        u32::try_from(at).ok()
    }

    /// Reads `len` bytes from `at` on.
    fn get(&self, at: u32, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, self.start + u64::from(at)).ok()?;
        Some(bytes)
    }
}

/// The location of bytes in a [`SegmentList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBytes {
    segment: u32,
    at: u32,
    len: u32,
}

impl SegmentBytes {
    /// Returns the number of bytes.
    pub(crate) fn len(self) -> u64 {
        self.len.into()
    }
}

/// The segments of one owner, filled in order.
#[derive(Debug, Default)]
pub struct SegmentList(Vec<Segment>);

impl SegmentList {
    /// Writes `bytes`, which must fit into a segment; `None` on failure.
    pub fn put(&mut self, bytes: &[u8], file: &TempSegments) -> Option<SegmentBytes> {
        let len = u32::try_from(bytes.len()).ok()?;
        let at = match self.0.last_mut().and_then(|segment| segment.put(bytes)) {
            Some(at) => at,
            None => {
                let mut segment = file.segment()?;
                let at = segment.put(bytes)?;
                self.0.push(segment);
                at
            }
        };
        Some(SegmentBytes { segment: u32::try_from(self.0.len() - 1).ok()?, at, len })
    }

    /// Reads stored bytes.
    pub fn get(&self, stored: SegmentBytes) -> Option<Vec<u8>> {
        let segment = self.0.get(usize::try_from(stored.segment).ok()?)?;
        segment.get(stored.at, usize::try_from(stored.len).ok()?)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        use rustix::fs::{FallocateFlags, fallocate};
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&self.file, punch, self.start, SEGMENT);
        let mut state = locked(&*self.state);
        // A segment that can't be punched out stays in use.
        if punched.is_ok() {
            state.used -= SEGMENT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_give_back_what_was_put_and_room_when_dropped() {
        let state = TempSegments::default();
        let mut one = state.segment().unwrap();
        let mut other = state.segment().unwrap();
        let places: Vec<_> = (0..5_u8).map(|n| (one.put(&[n; 1000]), other.put(&[n + 100; 7]))).collect();
        for (n, (at, at_other)) in (0..).zip(places) {
            assert_eq!(one.get(at.unwrap(), 1000).unwrap(), [n; 1000]);
            assert_eq!(other.get(at_other.unwrap(), 7).unwrap(), [n + 100; 7]);
        }
        assert_eq!(one.put(&vec![0; SEGMENT as usize]), None);
        assert_eq!(state.used(), 2 * SEGMENT);
        drop(one);
        assert_eq!(state.used(), SEGMENT);
        assert_eq!(other.get(0, 7).unwrap(), [100; 7]);
    }

    #[test]
    fn there_are_only_so_many_segments() {
        let state = TempSegments::default();
        let all: Vec<_> = std::iter::from_fn(|| state.segment()).collect();
        assert_eq!(all.len() as u64, MAX_BYTES / SEGMENT);
        drop(all);
        assert!(state.segment().is_some());
    }
}
