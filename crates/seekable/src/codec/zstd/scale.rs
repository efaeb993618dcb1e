//! The distance between the checkpoints of a table.

use super::header::Header;

/// Minimum of output bytes between checkpoints.
const SPACING: u64 = 16 << 20;

/// Minimum of output between checkpoints, in windows: each checkpoint keeps a window.
const WINDOWS: u64 = 8;

/// Bytes of all windows of a table together.
const ALL_WINDOWS: u64 = 128 << 20;

/// Distance of the last checkpoint from the end of the stream, in output bytes.
const TAIL: u64 = 1 << 20;

/// Frames with a larger window get no checkpoints.
const MAX_WINDOW: u64 = 8 << 20;

/// The granularity at which a stream is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    data_size: u64,
    least: u64,
    tail: u64,
}

impl Scale {
    /// Returns the scale of a stream of `data_size` decoded bytes.
    pub(super) fn of(data_size: u64) -> Self {
        Self { data_size, least: SPACING, tail: TAIL }
    }

    /// Returns a scale so fine that short streams have many checkpoints.
    #[cfg(test)]
    pub(super) fn fine(data_size: u64, least: u64) -> Self {
        Self { data_size, least, tail: least / 4 }
    }

    /// Returns the expected decoded size of the stream.
    pub(super) fn data_size(self) -> u64 {
        self.data_size
    }

    /// True if checkpoints pay off in a frame.
    pub(super) fn is_for(self, frame: Header) -> bool {
        self.data_size > self.least && frame.window <= MAX_WINDOW.min(self.data_size / 4)
    }

    /// Returns the output bytes between checkpoints in a frame.
    pub(super) fn spacing(self, frame: Header) -> u64 {
        let all = (u128::from(self.data_size) * u128::from(frame.window)).div_ceil(ALL_WINDOWS.into());
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        self.least.max(frame.window.saturating_mul(WINDOWS)).max(all)
    }

    /// Returns the decoded offset from which the next checkpoint is due, after one at `offset`. Checkpoints
    /// are counted from the end of the stream, so that the last one is near the end.
    pub(super) fn due(self, offset: u64, frame: Header) -> u64 {
        let spacing = self.spacing(frame);
        let last = self.data_size.saturating_sub(self.tail);
        let earliest = offset.saturating_add(spacing / 2);
        match last.checked_sub(earliest) {
            Some(room) if self.is_for(frame) => last - room / spacing * spacing,
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(data_size: u64, window: u64) -> Vec<u64> {
        let scale = Scale::of(data_size);
        let frame = Header { window, content_size: None, checked: false, needs_more: false };
        let next = |offset: &u64| {
            let due = scale.due(*offset, frame);
            (due < u64::MAX).then_some(due)
        };
        std::iter::successors(next(&0), next).collect()
    }

    #[test]
    fn places_are_counted_from_the_end_and_bounded() {
        const MIB: u64 = 1 << 20;
        assert_eq!(dues(50 * MIB, 2 * MIB), [17 * MIB, 33 * MIB, 49 * MIB]);
        // A checkpoint too close to the start would be of no use.
        assert_eq!(dues(36 * MIB, MIB), [19 * MIB, 35 * MIB]);
        assert_eq!((dues(16 * MIB, 1024), dues(17 * MIB, 1024)), (vec![], vec![16 * MIB]));
        // Windows that are too large, in general or for this data size.
        assert_eq!((dues(1 << 40, 9 * MIB), dues(30 * MIB, 8 * MIB)), (vec![], vec![]));
        for (data_size, window) in [(1 << 29, 1 << 21), (1 << 40, 1 << 23), (1 << 50, 1), (u64::MAX, 1 << 20)]
        {
            let dues = dues(data_size, window);
            assert_eq!(dues.last(), Some(&(data_size - MIB)));
            assert!(dues.len() as u64 * window <= ALL_WINDOWS + window || dues.len() as u64 <= ALL_WINDOWS);
            assert!(dues.is_sorted_by(|one, next| next - one >= (16 * MIB).max(8 * window)));
        }
    }
}
