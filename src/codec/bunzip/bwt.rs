//! The inverse Burrows-Wheeler transform.
//!
//! The last column of the sorted rotations gives a permutation of the rows: from each row to the one that
//! begins a byte later in the data. Following it from the origin spells the data, but each step waits for
//! the one before, for a number somewhere in 3.6 MB. So the permutation is cut: some hundred rows are
//! flagged, and several lanes walk from one flagged row to the next flagged one they meet, side by side,
//! each taking a new segment when it has finished one. The segments are then linked from the origin on.
//!
//! A walk takes each row at most once, whatever the data: it is a permutation. Periodic data have several
//! cycles, of which the data are one, repeated.

use std::collections::BTreeMap;

use super::column::Column;

/// How many segments are walked side by side.
const LANES: usize = 8;

/// How many rows are flagged, besides the origin.
const SEGMENTS: usize = 512;

/// Marks an entry of the permutation as a flagged row's.
const FLAG: u32 = 1 << 31;

/// Bits of an entry that hold the byte; the row stands above them.
const BYTE_BITS: u32 = 8;

/// The buffers of the transform, as large as the largest block that it was given.
#[derive(Debug, Default)]
pub(super) struct Inverse {
    /// By row: the row that begins a byte later, and the byte this row begins with.
    rows: Vec<u32>,
    /// What each lane has spelt.
    lanes: [Vec<u8>; LANES],
}

/// What a lane spelt from one flagged row to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    lane: usize,
    start: usize,
    end: usize,
    /// The flagged row that comes after it.
    next: usize,
}

impl Inverse {
    /// Replaces the column's bytes by the data whose rotations, sorted, end in them; `origin` is the row
    /// that is the data, below the column's length.
    pub(super) fn undo(&mut self, column: &mut Column, origin: usize) {
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
    fn permute(&mut self, column: &Column) {
        let mut first = [0; 256];
        let mut sum = 0;
        for (first, count) in first.iter_mut().zip(column.counts.0) {
            *first = sum;
            sum += count;
        }
        let rows = &mut self.rows[..column.len];
        for (row, &byte) in (0u32..).zip(&column.bytes[..column.len]) {
            let place = &mut first[usize::from(byte)];
            rows[*place as usize] = row << BYTE_BITS | u32::from(byte);
            *place += 1;
        }
    }

    /// Walks all segments, and gives them by the row they begin with.
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

    /// Joins the segments from the origin on, and repeats the cycle they make as often as there is room.
    fn link(&self, segments: &BTreeMap<usize, Segment>, origin: usize, data: &mut [u8]) {
        let (mut len, mut row) = (0, origin);
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

/// The lanes under way. All make one step at a time, so one counter says where each of them writes.
struct LaneStepper<'a, Starts> {
    rows: &'a [u32],
    lanes: [&'a mut [u8]; LANES],
    step: usize,
    /// By lane: the row it takes next.
    at: [usize; LANES],
    /// By lane: the first row and the first step of its segment, unless there was none left for it.
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
            self.turn();
        }
        while self.open.iter().any(Option::is_some) {
            self.step += 1;
            self.turn();
        }
    }

    /// Steps with all lanes until one of them meets a flag.
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

    /// One step with each lane, into a new segment where it meets a flag.
    fn turn(&mut self) {
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

    /// Gives a lane the next segment, and makes its first step.
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

    /// The last column of the sorted rotations of `data`, and the row that is `data`.
    fn transform(data: &[u8]) -> (Column, usize) {
        let rotated = |start: usize| data[start..].iter().chain(&data[..start]);
        let mut rotations: Vec<usize> = (0..data.len()).collect();
        rotations.sort_by(|&a, &b| rotated(a).cmp(rotated(b)));
        let bytes = rotations.iter().map(|&start| data[(start + data.len() - 1) % data.len()]).collect();
        let origin = rotations.iter().position(|&start| start == 0).unwrap();
        (column(bytes), origin)
    }

    fn column(bytes: Vec<u8>) -> Column {
        let mut counts = Counts::default();
        bytes.iter().for_each(|&byte| counts.0[usize::from(byte)] += 1);
        Column { len: bytes.len(), bytes, counts }
    }

    /// Step by step from the origin, as libbz2 does it.
    fn slowly(column: &Column, origin: usize) -> Vec<u8> {
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
            // Buffers that are larger than needed, and used before.
            inverse.undo(&mut self::column(vec![9; 2500]), 7);
            inverse.undo(&mut column, origin);
            prop_assert_eq!(&column.bytes[..column.len], &wanted[..]);
        }
    }
}
