//! A part of an array in C order, gathered in tiles.
//!
//! A tile spans some elements of the axis that is innermost in C order, and some of the axes with the
//! smallest strides in the data. Its elements are read and written in runs that are as long as possible.
//! Copying single elements would cost a system call or a cache line for each.

use seekable::error::Result;

use seekable::content::{Content, read_exact_at};

use super::{APART, Axis};

/// Size of a line of a tile, and of a tile, in bytes.
const LINE: u64 = 8 << 10;
const TILE: u64 = 512 << 10;
/// Maximum number of lines in a tile if they lie far apart. With more lines, a tile would need too many granules
/// of a compressed block at once.
const MAX_LINES: u64 = 128;

/// An axis, with a stride in the data (`from`) and one in the slab (`to`).
#[derive(Clone, Copy, Debug)]
struct SlabAxis {
    len: u64,
    from: i64,
    to: u64,
}

/// A part to gather: axes from the outermost to the innermost, and elements of `item` bytes. The first
/// element is at offset `start`.
pub(super) struct Slab<'s> {
    pub(super) whole: &'s dyn Content,
    pub(super) start: u64,
    pub(super) item: u64,
    pub(super) axes: &'s [Axis],
}

/// A callback for each tile: the offset of its first element, its lengths along `loops`, and its offset in
/// the slab.
type TakeTile<'m> = &'m mut dyn FnMut(u64, &[u64], u64) -> Result<()>;

/// The division of a slab into tiles.
struct Tiles {
    item: usize,
    /// The lines of a tile, with the strides between them.
    lines: SlabAxis,
    /// The axes of a line, the innermost first.
    line: Vec<SlabAxis>,
    /// The axes that lead from tile to tile, with the length of a tile along each.
    loops: Vec<(SlabAxis, u64)>,
    /// True if a tile is read at once, including the gaps between its lines.
    at_once: bool,
}

impl Slab<'_> {
    /// Gathers the whole slab.
    pub(super) fn gather(&self, out: &mut [u8]) -> Result<()> {
        let mut out_stride = self.item;
        let mut axes = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            axes.push(SlabAxis { len: axis.len, from: axis.stride, to: out_stride });
            out_stride = out_stride.saturating_mul(axis.len);
        }
        let tiles = Tiles::new(self.item, axes);
        let mut tile = Vec::new();
        tiles.each(self.start, &mut |start, lengths, to| {
            tiles.copy(
                self.whole,
                (start, lengths),
                &mut tile,
                out.get_mut(to as usize..).unwrap_or_default(),
            )
        })
    }
}

/// Returns the number of bytes that the elements span in the data, from the lowest to the end of the highest.
fn span(axes: &[SlabAxis], item: u64) -> u64 {
    axes.iter().map(|axis| (axis.len - 1) * axis.from.unsigned_abs()).sum::<u64>() + item
}

impl Tiles {
    /// Divides a slab into tiles. `axes` are its axes, the innermost first.
    fn new(item: u64, mut axes: Vec<SlabAxis>) -> Self {
        let one = SlabAxis { len: 1, from: 0, to: item };
        let mut lines = if axes.is_empty() { one } else { axes.remove(0) };
        axes.sort_by_key(|axis| axis.from.unsigned_abs());
        let mut line: Vec<SlabAxis> = Vec::new();
        let mut loops: Vec<(SlabAxis, u64)> = Vec::new();
        for axis in axes {
            let so_far = span(&line, item);
            let step = axis.from.unsigned_abs();
            let is_near = loops.is_empty() && step <= so_far.saturating_add(APART) && step < LINE;
            let count =
                if is_near { (1 + LINE.saturating_sub(so_far) / step.max(1)).min(axis.len) } else { 1 };
            if count > 1 {
                line.push(SlabAxis { len: count, ..axis });
            }
            if count < axis.len {
                loops.push((axis, count));
            }
        }
        let of_line = span(&line, item);
        let step = lines.from.unsigned_abs();
        let at_once = step <= of_line.saturating_add(APART);
        let most = if at_once { 1 + TILE.saturating_sub(of_line) / step.max(1) } else { MAX_LINES };
        let all = lines;
        lines.len = lines.len.min(most.min((TILE / of_line).max(1)).max(1));
        if at_once {
            lines.len = all.len.min(most);
        }
        if lines.len < all.len {
            loops.push((all, lines.len));
        }
        // Tiles are read roughly in the order of the data, so that each granule of a compressed block is decoded
        // once.
        loops.sort_by_key(|(axis, count)| std::cmp::Reverse(axis.from.unsigned_abs().saturating_mul(*count)));
        Self { item: item as usize, lines, line, loops, at_once }
    }

    /// Calls `take` for each tile.
    fn each(&self, start: u64, take: TakeTile<'_>) -> Result<()> {
        let mut at = vec![0_u64; self.loops.len()];
        loop {
            let mut from = i128::from(start);
            let mut to = 0;
            let mut lengths = Vec::with_capacity(at.len());
            for ((axis, count), place) in self.loops.iter().zip(&at) {
                from += i128::from(axis.from) * i128::from(*place);
                to += axis.to * place;
                lengths.push((*count).min(axis.len - place));
            }
            // All elements lie in the content.
            take(u64::try_from(from).unwrap_or_default(), &lengths, to)?;
            let mut n = at.len();
            loop {
                let Some(before) = n.checked_sub(1) else { return Ok(()) };
                n = before;
                at[n] += self.loops[n].1;
                if at[n] < self.loops[n].0.len {
                    break;
                }
                at[n] = 0;
            }
        }
    }

    /// Returns the axes of a tile, cut at the end of the slab: the lines, and the axes of a line.
    fn cut(&self, lengths: &[u64]) -> (SlabAxis, Vec<SlabAxis>) {
        let cut = |axis: &SlabAxis| {
            let of_loop = self.loops.iter().position(|(all, _)| (all.from, all.to) == (axis.from, axis.to));
            SlabAxis { len: of_loop.map_or(axis.len, |n| lengths[n].min(axis.len)), ..*axis }
        };
        (cut(&self.lines), self.line.iter().map(cut).collect())
    }

    /// Reads a tile and copies its elements to their places in the slab.
    fn copy(
        &self,
        whole: &dyn Content,
        (start, lengths): (u64, &[u64]),
        tile: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<()> {
        let (lines, line) = self.cut(lengths);
        let item = self.item as u64;
        let reach = |axis: &SlabAxis| (axis.len - 1) * axis.from.unsigned_abs();
        let below = |axes: &[SlabAxis]| axes.iter().filter(|axis| axis.from < 0).map(reach).sum::<u64>();
        let of_line = span(&line, item);
        let below_line = below(&line);
        if line.is_empty() && lines.len == 1 {
            return match out.get_mut(..self.item) {
                Some(out) => read_exact_at(whole, start, out),
                None => Ok(()),
            };
        }
        let backwards = lines.from < 0;
        let pitch = if self.at_once {
            lines.from as isize
        } else if backwards {
            -(of_line as isize)
        } else {
            of_line as isize
        };
        if self.at_once {
            let lowest = start - below_line - below(&[lines]);
            tile.resize((of_line + reach(&lines)) as usize, 0);
            read_exact_at(whole, lowest, tile)?;
        } else {
            tile.resize((of_line * lines.len) as usize, 0);
            for (n, bytes) in tile.chunks_exact_mut(of_line as usize).enumerate() {
                let n = if backwards { lines.len - 1 - n as u64 } else { n as u64 };
                let from = i128::from(start) + i128::from(lines.from) * i128::from(n);
                read_exact_at(whole, u64::try_from(from).unwrap_or_default() - below_line, bytes)?;
            }
        }
        let run = lines.len as usize * self.item;
        let mut at = vec![0_u64; line.len()];
        loop {
            let mut from = below_line as i64;
            let mut to = 0;
            for (axis, place) in line.iter().zip(&at) {
                from += axis.from * *place as i64;
                to += axis.to * place;
            }
            let elements = tile.get(from as usize..).unwrap_or_default();
            if let Some(out) = out.get_mut(to as usize..).and_then(|out| out.get_mut(..run)) {
                pick(elements, pitch, self.item, out);
            }
            let mut n = 0;
            while n < line.len() {
                at[n] += 1;
                if at[n] < line[n].len {
                    break;
                }
                at[n] = 0;
                n += 1;
            }
            if n == line.len() {
                return Ok(());
            }
        }
    }
}

/// Copies an element of each line. Lines are `pitch` bytes apart, and in reverse order if it is negative.
fn pick(from: &[u8], pitch: isize, item: usize, out: &mut [u8]) {
    let (pitch, backwards) = (pitch.unsigned_abs(), pitch < 0);
    match (item, backwards) {
        (1, false) => pick_some::<1>(from, pitch, out),
        (2, false) => pick_some::<2>(from, pitch, out),
        (4, false) => pick_some::<4>(from, pitch, out),
        (8, false) => pick_some::<8>(from, pitch, out),
        (16, false) => pick_some::<16>(from, pitch, out),
        _ => {
            let lines = out.len() / item;
            for (n, element) in out.chunks_exact_mut(item).enumerate() {
                let at = pitch * if backwards { lines - 1 - n } else { n };
                if let Some(from) = from.get(at..at + item) {
                    element.copy_from_slice(from);
                }
            }
        }
    }
}

fn pick_some<const ITEM: usize>(from: &[u8], pitch: usize, out: &mut [u8]) {
    if pitch < ITEM {
        // The elements overlap.
        for (n, element) in out.as_chunks_mut::<ITEM>().0.iter_mut().enumerate() {
            if let Some(from) = from.get(n * pitch..).and_then(|from| from.first_chunk()) {
                *element = *from;
            }
        }
        return;
    }
    for (element, line) in out.as_chunks_mut::<ITEM>().0.iter_mut().zip(from.chunks(pitch)) {
        if let Some(first) = line.first_chunk() {
            *element = *first;
        }
    }
}
