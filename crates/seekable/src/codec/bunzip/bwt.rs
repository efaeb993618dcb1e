//! The inverse Burrows-Wheeler transform.
//!
//! The last column of the sorted rotations gives a permutation of the rows: from each row to the row that
//! begins a byte later in the data. Following it from the origin spells the data, but each step waits for the
//! one before, which is a random access to 3.6 MB. The permutation is therefore cut into segments: some
//! hundred rows are flagged, and several lanes walk side by side, each from one flagged row to the next
//! flagged row it meets. A lane that has finished a segment takes another one. The segments are then linked,
//! beginning with the origin.
//!
//! A permutation takes each row at most once, so the walk ends for any data. Periodic data have several
//! cycles; the data are one of these cycles, repeated.

use std::collections::BTreeMap;

use super::column::LastColumn;

/// Number of segments that are walked side by side.
const LANES: usize = 8;

/// Number of flagged rows, at which segments begin, besides the origin.
const SEGMENTS: usize = 512;

/// Bit of an entry in `rows` that is set if the row is flagged: a segment begins at the row.
const FLAG: u32 = 1 << 31;

/// Bits of an entry that hold the byte; the row is in the bits above.
const BYTE_BITS: u32 = 8;

/// Buffers of the transform, as large as the largest block so far.
#[derive(Debug, Default)]
pub(super) struct Inverse {
    /// For each row: the row that begins a byte later, and the byte with which this row begins.
    rows: Vec<u32>,
    /// The output of each lane.
    lanes: [Vec<u8>; LANES],
}

/// A segment of the data: the output of a lane from one flagged row to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    lane: usize,
    start: usize,
    end: usize,
    /// The row of the permutation at which this segment of the data ends, and the next one begins.
    next: usize,
}

impl Inverse {
    /// Replaces the last column by the data from which the column was made. `origin` is the row that is the
    /// data, and below the column's length.
    pub(super) fn undo(&mut self, column: &mut LastColumn, origin: usize) {
        let len = column.len;
        if self.rows.len() < len {
            self.rows = vec![0; len];
            self.lanes = std::array::from_fn(|_| vec![0; len]);
        }
        self.permute(column);
        let segments = self.walk(len, origin);
        self.link(&segments, origin, &mut column.bytes[..len]);
    }

    /// Computes the permutation.
    fn permute(&mut self, column: &LastColumn) {
        let mut first = [0; 256];
        let mut sum = 0;
        for (slot, count) in first.iter_mut().zip(column.counts.0) {
            *slot = sum;
            sum += count;
        }
        let rows = &mut self.rows[..column.len];
        for (row, &byte) in (0u32..).zip(&column.bytes[..column.len]) {
            let slot = &mut first[usize::from(byte)];
            rows[*slot as usize] = row << BYTE_BITS | u32::from(byte);
            *slot += 1;
        }
    }

    /// Walks all segments and returns them by their first row.
    fn walk(&mut self, len: usize, origin: usize) -> BTreeMap<usize, Segment> {
        let count = SEGMENTS.min(len);
        let starts = (0..count).map(|k| k * len / count);
        let rows = &mut self.rows[..len];
        for row in starts.clone().chain([origin]) {
            rows[row] |= FLAG;
        }
        let on_the_way = starts.filter(|&row| row != origin);
        let mut walk = LaneStepper {
            rows,
            lanes: self.lanes.each_mut().map(|lane| &mut lane[..len]),
            step: 0,
            at: [0; LANES],
            open: [None; LANES],
            starts: std::iter::once(origin).chain(on_the_way),
            done: BTreeMap::new(),
        };
        walk.run();
        walk.done
    }

    /// Joins the segments from the origin on, and repeats their cycle to fill `data`.
    fn link(&self, segments: &BTreeMap<usize, Segment>, origin: usize, data: &mut [u8]) {
        let mut len = 0;
        let mut row = origin;
        while let Some(segment) = segments.get(&row) {
            let spelt = &self.lanes[segment.lane][segment.start..segment.end];
            data[len..len + spelt.len()].copy_from_slice(spelt);
            len += spelt.len();
            row = segment.next;
            if row == origin {
                break;
            }
        }
        while len < data.len() {
            let more = len.min(data.len() - len);
            data.copy_within(..more, len);
            len += more;
        }
    }
}

/// The lanes that walk along the segments. All advance together, so one counter is the write position of
/// each.
struct LaneStepper<'a, Starts> {
    rows: &'a [u32],
    lanes: [&'a mut [u8]; LANES],
    step: usize,
    /// For each lane: the next row.
    at: [usize; LANES],
    /// For each lane: the first row and the first step of its segment; `None` if no segment was left.
    open: [Option<(usize, usize)>; LANES],
    starts: Starts,
    done: BTreeMap<usize, Segment>,
}

impl<Starts: Iterator<Item = usize>> LaneStepper<'_, Starts> {
    fn run(&mut self) {
        for lane in 0..LANES {
            self.begin(lane);
        }
        while self.open.iter().all(Option::is_some) {
            self.step += 1;
            self.stride();
            self.advance_lanes();
        }
        while self.open.iter().any(Option::is_some) {
            self.step += 1;
            self.advance_lanes();
        }
    }

    /// Advances all lanes until one of them reaches a flagged row.
    #[inline(always)]
    fn stride(&mut self) {
        let len = self.rows.len();
        let mut at = self.at;
        let mut lanes = self.lanes.each_mut().map(|lane| &mut lane[..len]);
        let mut step = self.step;
        while step < len {
            let entries = at.map(|row| self.rows[row]);
            if entries.iter().fold(0, |all, entry| all | entry) & FLAG != 0 {
                break;
            }
            for (lane, out) in lanes.iter_mut().enumerate() {
                out[step] = entries[lane] as u8;
                at[lane] = (entries[lane] >> BYTE_BITS) as usize;
            }
            step += 1;
        }
        self.at = at;
        self.step = step;
    }

    /// Advances each lane by one step. A lane that reaches a flagged row begins a new segment.
    fn advance_lanes(&mut self) {
        for lane in 0..LANES {
            let Some((first, start)) = self.open[lane] else { continue };
            let entry = self.rows[self.at[lane]];
            if entry & FLAG == 0 {
                self.spell(lane, entry);
            } else {
                let segment = Segment { lane, start, end: self.step, next: self.at[lane] };
                self.done.insert(first, segment);
                self.begin(lane);
            }
        }
    }

    /// Gives a lane the next segment, and makes the first step of that segment.
    fn begin(&mut self, lane: usize) {
        self.open[lane] = self.starts.next().map(|row| (row, self.step));
        if let Some((row, _)) = self.open[lane] {
            self.spell(lane, self.rows[row] & !FLAG);
        }
    }

    fn spell(&mut self, lane: usize, entry: u32) {
        self.lanes[lane][self.step] = entry as u8;
        self.at[lane] = (entry >> BYTE_BITS) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::Counts;
    use super::*;
    use proptest::prelude::*;

    /// Returns the last column of the sorted rotations of `data`, and the row that is `data`.
    fn transform(data: &[u8]) -> (LastColumn, usize) {
        let rotated = |start: usize| data[start..].iter().chain(&data[..start]);
        let mut rotations: Vec<usize> = (0..data.len()).collect();
        rotations.sort_by(|&a, &b| rotated(a).cmp(rotated(b)));
        let bytes = rotations.iter().map(|&start| data[(start + data.len() - 1) % data.len()]).collect();
        let origin = rotations.iter().position(|&start| start == 0).unwrap();
        (column(bytes), origin)
    }

    fn column(bytes: Vec<u8>) -> LastColumn {
        let mut counts = Counts::default();
        for &byte in &bytes {
            counts.0[usize::from(byte)] += 1;
        }
        LastColumn { len: bytes.len(), bytes, counts }
    }

    /// Follows the permutation step by step from the origin, as libbz2 does.
    fn slowly(column: &LastColumn, origin: usize) -> Vec<u8> {
        let mut rows: Vec<usize> = (0..column.len).collect();
        rows.sort_by_key(|&row| column.bytes[row]);
        let mut row = rows[origin];
        let step = || {
            let byte = column.bytes[row];
            row = rows[row];
            byte
        };
        std::iter::repeat_with(step).take(column.len).collect()
    }

    proptest! {
        #[test]
        fn undoes_the_transform(
            part in prop::collection::vec(0u8..5, 1..400),
            times in 1usize..5,
        ) {
            let data = part.repeat(times);
            let (mut column, origin) = transform(&data);
            Inverse::default().undo(&mut column, origin);
            prop_assert_eq!(&column.bytes[..column.len], &data[..]);
        }

        #[test]
        fn any_column_is_walked_as_step_by_step(
            bytes in prop::collection::vec(0u8..4, 1..2000),
            origin in any::<prop::sample::Index>(),
        ) {
            let origin = origin.index(bytes.len());
            let mut column = column(bytes);
            let wanted = slowly(&column, origin);
            let mut inverse = Inverse::default();
            // Buffers that are too large and hold old data.
            inverse.undo(&mut self::column(vec![9; 2500]), 7);
            inverse.undo(&mut column, origin);
            prop_assert_eq!(&column.bytes[..column.len], &wanted[..]);
        }
    }
}
