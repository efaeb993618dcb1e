//! One plane of an array, averaged to the size of a picture.
//!
//! The elements are read where they lie, also those with strides, in the order of their offsets. What is read is bounded
//! for arrays of any shape and strides, in bytes, in elements and in reads: a plane beyond that is sampled, evenly for
//! all pixels, and if that would leave a pixel without an element, the picture is smaller.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use asdf_file::array::numbers::{ToNumber, to_number};
use asdf_file::asdf::arrays::{Elements, Order};
use asdf_file::asdf::ndarray::{Datatype, Scalar};
use seekable::content::{Content, Strided, on_server, read_exact_at};
use seekable::error::{Error, Result};

/// Maximum number of pixels in each direction.
const MAX_SIDE: u64 = 1024;
/// Limit of the reads of an array.
const LIMIT: Limit = Limit { bytes: 56 << 20, reads: 32 << 10 };
/// Limit of the reads of an uncompressed array on a server, where each may be a request.
const LIMIT_ON_SERVER: Limit = Limit { bytes: 6 << 20, reads: 512 };
/// Maximum number of elements that are read of a plane: as many as an image of 4096 by 4096 has.
const MAX_ELEMENTS: u64 = 16 << 20;
/// Maximum number of bytes that are requested from a server at once, unless a row of pixels takes more.
const MAX_AT_ONCE: u64 = 2 << 20;
/// Maximum number of bytes read at once, and the bytes of a group of short lines.
const BUFFER: u64 = 256 << 10;
const GROUP: u64 = 16 << 10;
/// Maximum distance of the colors of a place that are read together, in bytes.
const NEAR: u64 = 64;
/// Maximum distance of elements, in bytes, at which the gap between them is read, too.
const APART: u64 = 4 << 10;

/// Minimum number of planes that are searched for a finite number, and maximum number of elements in them.
const MIN_PLANES: u64 = 16;
const MAX_SEARCHED: u64 = 4 << 20;
/// Lines of a plane that are searched, parts of each, and bytes of each part. Planes shorter than a group are read
/// together.
const LINES_SEARCHED: u64 = 16;
const PARTS_SEARCHED: u64 = 16;
const PART: u64 = 1 << 10;

/// A limit of reads.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: u64,
    reads: u64,
}

impl Limit {
    fn part(self, part: u64, of: u64) -> Self {
        Self { bytes: self.bytes / of * part, reads: self.reads / of * part }
    }
}

/// How an array is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// True for flags: a pixel shows the greatest of its elements, and no bit of a number is a sign.
    pub(super) is_flags: bool,
    /// True if the last dimension has the colors of a pixel.
    pub(super) has_colors: bool,
    /// The number of masked elements, which are shown as NaN is.
    pub(super) masked: Option<f64>,
}

/// A dimension, in the order of the elements' offsets.
#[derive(Clone, Copy, Debug)]
struct PlaneAxis {
    len: u64,
    /// The distance of two elements, in bytes.
    step: u64,
    /// True if the last index has the lowest offset.
    is_backwards: bool,
}

impl PlaneAxis {
    /// Moves `start` to the element with the lowest offset.
    fn new(len: u64, stride: i64, start: &mut u64) -> Self {
        let step = stride.unsigned_abs();
        if stride < 0 {
            *start = start.saturating_sub(step.saturating_mul(len - 1));
        }
        Self { len, step, is_backwards: stride < 0 }
    }

    /// Returns the bytes from the first element to the start of the last.
    fn reach(&self) -> u64 {
        self.step.saturating_mul(self.len - 1)
    }

    /// Returns the `n`th group of `block` indices by offset: its number by index, its first element by offset, and the
    /// number of elements.
    fn group(&self, n: u64, block: u64) -> (u64, u64, u64) {
        let number = if self.is_backwards { self.len.div_ceil(block) - 1 - n } else { n };
        let first = number * block;
        let count = block.min(self.len - first);
        (number, if self.is_backwards { self.len - first - count } else { first }, count)
    }
}

/// A plane of numbers. A pixel is the mean of a square of elements; each of its colors is, if it has several.
#[derive(Debug)]
pub(super) struct Plane {
    /// The elements of all planes.
    pub content: Arc<dyn Content>,
    /// The bytes in which the elements lie.
    whole: Arc<dyn Content>,
    /// The offset in `whole` of the first element of the first plane.
    start: u64,
    /// The dimensions of the planes, the outermost first, with the stride of each in bytes.
    planes: Vec<(u64, i64)>,
    lines: PlaneAxis,
    /// The places of a line: each has an element of every color.
    places: PlaneAxis,
    /// The offset of each color from the one with the lowest offset; one for grey, 3 or 4 for colors.
    colors: Vec<u64>,
    /// True if the colors of a place lie apart, and are read one after the other.
    are_colors_apart: bool,
    is_flags: bool,
    masked: Option<f64>,
    /// The greatest number of the elements' type, if they are unsigned integers.
    pub largest: Option<f64>,
    to_number: ToNumber,
    /// Bytes of an element.
    item: u64,
    /// True if a line is a column of the picture, false if it is a row.
    transposed: bool,
    /// The width and the height of a pixel, in elements.
    block: u64,
    limit: Limit,
}

/// Which elements of each row of pixels are read.
#[derive(Clone, Copy, Debug)]
struct Sampling {
    /// Groups of lines, evenly spaced, and the lines of a group.
    groups: u64,
    lines: u64,
    /// Places of each pixel in a line.
    places: u64,
    /// True if a group of lines is read with the gaps between them.
    are_together: bool,
}

/// Some elements of a pixel in one line.
struct Run {
    /// The offset of the first element.
    at: u64,
    count: u64,
    /// The end of the bytes that are worth reading at once.
    end: u64,
    /// The number of the pixel.
    pixel: usize,
}

impl Plane {
    /// Returns the first plane of an array.
    pub(super) fn first(of: &Elements, shown: Shown) -> Result<Self> {
        let none = || Error::unsupported("the array is not an image");
        let too_large = || Error::damaged("the array is too large");
        let Datatype::Scalar(scalar) = of.datatype else { return Err(none()) };
        let to_number = to_number(scalar, of.byteorder).ok_or_else(none)?;
        let item = scalar.size().filter(|size| *size > 0).ok_or_else(none)?;
        if of.dimensions.contains(&0) {
            return Err(Error::unsupported("the array has no elements to show"));
        }
        let Strided { whole, mut start, strides, .. } = match of.content.strided() {
            Some(strided) => strided,
            None => Strided {
                whole: of.content.clone(),
                start: 0,
                strides: contiguous(of, item).ok_or_else(too_large)?,
                span: of.content.len(),
            },
        };
        let axes: Vec<(u64, i64)> = of.dimensions.iter().copied().zip(strides).collect();
        let (sides, colors) = match &axes[..] {
            [sides @ .., (count @ (3 | 4), stride)] if shown.has_colors => {
                let axis = PlaneAxis::new(*count, *stride, &mut start);
                let offset = |n: u64| axis.step * if axis.is_backwards { count - 1 - n } else { n };
                (sides, (0..*count).map(offset).collect())
            }
            sides => (sides, vec![0]),
        };
        let are_colors_apart = colors.iter().any(|offset| *offset > NEAR);
        let [planes @ .., (height, down), (width, across)] = sides else { return Err(none()) };
        // A line has the dimension whose elements lie closer together.
        let distance = |len: u64, stride: i64| if len == 1 { u64::MAX } else { stride.unsigned_abs() };
        let transposed = distance(*height, *down) < distance(*width, *across);
        let rows = PlaneAxis::new(*height, *down, &mut start);
        let columns = PlaneAxis::new(*width, *across, &mut start);
        let (lines, places) = if transposed { (columns, rows) } else { (rows, columns) };
        let limit = if on_server(&*whole).is_some() { LIMIT_ON_SERVER } else { LIMIT };
        let mut plane = Self {
            content: of.content.clone(),
            whole,
            start,
            planes: planes.to_vec(),
            lines,
            places,
            colors,
            are_colors_apart,
            is_flags: shown.is_flags,
            masked: shown.masked.filter(|_| !shown.is_flags),
            largest: match scalar {
                Scalar::Uint8 => Some(u8::MAX.into()),
                Scalar::Uint16 => Some(u16::MAX.into()),
                _ => None,
            },
            to_number,
            item,
            transposed,
            block: lines.len.max(places.len).div_ceil(MAX_SIDE),
            limit,
        };
        // A picture of one pixel needs one element.
        let least = if plane.planes() > 1 { plane.limit_of_other() } else { limit };
        while plane.block < lines.len.max(places.len) && plane.sampling(least).is_none() {
            plane.block = plane.block.saturating_add(plane.block / 8 + 1);
        }
        Ok(plane)
    }

    /// Returns the number of pixels in a line, and the number of lines of pixels.
    fn averaged(&self) -> (usize, usize) {
        // Both are at most MAX_SIDE.
        (self.places.len.div_ceil(self.block) as usize, self.lines.len.div_ceil(self.block) as usize)
    }

    /// Returns the width and the height of the picture.
    pub(super) fn size(&self) -> (u32, u32) {
        let (across, along) = self.averaged();
        let (width, height) = if self.transposed { (along, across) } else { (across, along) };
        (width as u32, height as u32)
    }

    /// True if pixels are flags.
    pub(super) fn is_flags(&self) -> bool {
        self.is_flags
    }

    /// Returns the number of colors of a pixel.
    pub(super) fn colors(&self) -> usize {
        self.colors.len()
    }

    /// Returns the index in [`averages`](Self::averages) of the first color of the pixel in column `x` and row `y` of the
    /// picture. The bottom row of the picture shows the array's first row; of a picture in colors, the top row does.
    pub(super) fn place(&self, x: usize, y: u32) -> usize {
        let (across, _) = self.averaged();
        let row = if self.colors() > 1 { y } else { self.size().1 - 1 - y } as usize;
        let pixel = if self.transposed { x * across + row } else { row * across + x };
        pixel * self.colors()
    }

    /// Returns the number of planes.
    fn planes(&self) -> u64 {
        self.planes.iter().fold(1, |count: u64, (len, _)| count.saturating_mul(*len))
    }

    /// Returns the offset of the first element of a plane.
    fn start_of(&self, mut plane: u64) -> u64 {
        let mut at = i128::from(self.start);
        for (len, stride) in self.planes.iter().rev() {
            at += i128::from(plane % len) * i128::from(*stride);
            plane /= len;
        }
        // All elements lie in the content.
        u64::try_from(at).unwrap_or_default()
    }

    /// Returns the limit of the first of several planes.
    fn limit_of_first(&self) -> Limit {
        self.limit.part(8, 16)
    }

    /// Returns the limit of a plane that is shown because those before it have no finite number. A sixteenth is for the
    /// search.
    fn limit_of_other(&self) -> Limit {
        self.limit.part(7, 16)
    }

    /// Computes all pixels of the first plane in which a finite number is found, or of the first one: the mean of each
    /// pixel's elements, or the greatest of flags; NaN if none is a number.
    pub(super) fn averages(&self) -> Result<Vec<f64>> {
        if self.planes() == 1 {
            return self.averages_of(0, self.limit);
        }
        let first = self.averages_of(0, self.limit_of_first())?;
        if first.iter().any(|mean| mean.is_finite()) {
            return Ok(first);
        }
        match self.finite_plane()? {
            Some(plane) => self.averages_of(plane, self.limit_of_other()),
            None => Ok(first),
        }
    }

    /// Searches the planes after the first one for a finite number. Of large planes, a part is searched.
    fn finite_plane(&self) -> Result<Option<u64>> {
        let mut windows = Windows::new(&*self.whole);
        let mut searched = 0;
        let is_short = self.lines.reach().saturating_add(self.places.reach()) < GROUP;
        for plane in 1..self.planes() {
            if plane > MIN_PLANES && (searched > MAX_SEARCHED || windows.read > self.limit.part(1, 16).bytes)
            {
                break;
            }
            let start = self.start_of(plane);
            let lines = self.lines.len.min(LINES_SEARCHED);
            let parts = self.places.len.min(PARTS_SEARCHED);
            let count = (PART / self.places.step.max(1)).clamp(1, self.places.len.div_ceil(parts));
            let ahead = if is_short { GROUP } else { PART };
            for line in (0..lines).map(|n| spaced(n, lines, self.lines.len)) {
                for first in (0..parts).map(|n| spaced(n, parts, self.places.len)) {
                    let count = count.min(self.places.len - first);
                    let at = start + line * self.lines.step + first * self.places.step;
                    let end = at.saturating_add(ahead).min(self.whole.len());
                    let mut is_found = false;
                    let run = Run { at, count, end, pixel: 0 };
                    self.each(&mut windows, &run, &self.colors[..1], |_, value| {
                        is_found |= value.is_finite()
                    })?;
                    if is_found {
                        return Ok(Some(plane));
                    }
                    searched += count;
                }
            }
        }
        Ok(None)
    }

    /// Returns which elements are read; `None` if there would be pixels without an element.
    fn sampling(&self, limit: Limit) -> Option<Sampling> {
        let (across, along) = self.averaged();
        let across = across as u64;
        let along = along as u64;
        let colors = self.colors.len() as u64;
        // If each color is read on its own, it has a part of the limit.
        let passes = if self.are_colors_apart { colors } else { 1 };
        let bytes = limit.bytes / passes;
        let reads = limit.reads / passes;
        let extent = self.extent();
        let are_places_apart = self.places.step > APART;
        let reach = self.places.reach().saturating_add(extent);
        let plane = self.lines.reach().saturating_add(reach);
        // The bytes of a line, and its reads.
        let line = if are_places_apart { self.places.len.saturating_mul(extent) } else { reach };
        let of_line = if are_places_apart { self.places.len } else { line.div_ceil(BUFFER) };
        let are_together = plane <= BUFFER
            || !are_places_apart
                && self.lines.step >= reach
                && self.lines.step <= reach.saturating_add(APART);
        let elements = self.lines.len.saturating_mul(self.places.len).saturating_mul(colors);
        let of_all = |of_line: u64| of_line.saturating_mul(self.lines.len);
        let fits =
            if are_together { plane <= bytes } else { of_all(line) <= bytes && of_all(of_line) <= reads };
        if fits && elements <= MAX_ELEMENTS {
            return Some(Sampling { groups: 1, lines: self.block, places: self.block, are_together });
        }
        let bytes_of_row = bytes / along;
        let reads_of_row = reads / along;
        let elements_of_row = MAX_ELEMENTS / along / colors;
        if line <= bytes_of_row && self.places.len <= elements_of_row && of_line <= reads_of_row {
            let step = if are_together { self.lines.step } else { line };
            let most = (bytes_of_row / step.max(1)).min(elements_of_row / self.places.len);
            let most = if self.lines.step == 0 { 1 } else { most.clamp(1, self.block) };
            let lines = if are_together { (GROUP / step.max(1)).clamp(1, most) } else { 1 };
            let groups = (most / lines).min(reads_of_row / of_line);
            return Some(Sampling { groups, lines, places: self.block, are_together });
        }
        if across > reads_of_row || across > elements_of_row {
            return None;
        }
        let of_pixel = (bytes_of_row / across).min(BUFFER);
        let places = if self.places.step == 0 {
            1
        } else if are_places_apart {
            reads_of_row / across
        } else {
            of_pixel / self.places.step
        };
        let places = places.min(elements_of_row / across).clamp(1, self.block);
        Some(Sampling { groups: 1, lines: 1, places, are_together: false })
    }

    /// Returns the bytes from the first color of a place that is read to the end of the last.
    fn extent(&self) -> u64 {
        let last = if self.are_colors_apart { 0 } else { self.colors.iter().copied().max().unwrap_or(0) };
        last + self.item
    }

    fn averages_of(&self, plane: u64, limit: Limit) -> Result<Vec<f64>> {
        let (across, along) = self.averaged();
        // With one pixel at least, there is always a way.
        let one = Sampling { groups: 1, lines: 1, places: 1, are_together: false };
        let sampling = self.sampling(limit).unwrap_or(one);
        let colors = self.colors();
        let mut means = vec![f64::NAN; across * along * colors];
        let mut sums = vec![Sum::default(); across * colors];
        let mut windows = Windows::new(&*self.whole);
        for first_color in (0..colors).step_by(if self.are_colors_apart { 1 } else { colors }) {
            let together = if self.are_colors_apart { first_color..first_color + 1 } else { 0..colors };
            let offsets = &self.colors[together.clone()];
            for n in 0..along as u64 {
                if windows.ahead.is_empty() {
                    windows.request(|| self.ranges_of(plane, n..along as u64, sampling, offsets))?;
                }
                let mut failed = None;
                self.each_run(plane, n, sampling, |run| {
                    let of_pixel = &mut sums[run.pixel * colors..][together.clone()];
                    let added =
                        self.each(&mut windows, run, offsets, |color, value| of_pixel[color].add(value));
                    failed = added.err();
                    failed.is_none()
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                let (row, _, _) = self.lines.group(n, self.block);
                let row = &mut means[row as usize * across * colors..][..across * colors];
                for (mean, sum) in row.chunks_mut(colors).zip(sums.chunks_mut(colors)) {
                    for color in together.clone() {
                        mean[color] = self.pixel(std::mem::take(&mut sum[color]));
                    }
                }
            }
        }
        Ok(means)
    }

    /// Calls `take` with each run of elements in the `n`th row of pixels by offset, until it returns false.
    fn each_run(&self, plane: u64, n: u64, sampling: Sampling, mut take: impl FnMut(&Run) -> bool) {
        let start = self.start_of(plane);
        let (across, _) = self.averaged();
        let extent = self.extent();
        let (_, first, count) = self.lines.group(n, self.block);
        let groups = sampling.groups.min(count);
        // The lines of the only pixel in a row follow each other.
        let is_one_run = across == 1
            && sampling.places == self.block
            && self.places.step.checked_mul(self.places.len) == Some(self.lines.step);
        for group in 0..groups {
            let begin = first + spaced(group, groups, count);
            let last = (begin + sampling.lines).min(first + count) - 1;
            if is_one_run {
                let at = start + begin * self.lines.step;
                let count = (last + 1 - begin) * self.places.len;
                let end = at + (count - 1) * self.places.step + extent;
                if !take(&Run { at, count, end, pixel: 0 }) {
                    return;
                }
                continue;
            }
            for line in begin..=last {
                let line_at = start + line * self.lines.step;
                let last_line_at = start + last * self.lines.step;
                let last_read = if sampling.are_together { last_line_at } else { line_at };
                for pixel in 0..across as u64 {
                    let (pixel, first, count) = self.places.group(pixel, self.block);
                    let count = count.min(sampling.places);
                    let at = line_at + first * self.places.step;
                    let end = if self.places.step > APART && !sampling.are_together {
                        at
                    } else if sampling.places < self.block {
                        at + (count - 1) * self.places.step
                    } else {
                        last_read + self.places.reach()
                    };
                    if !take(&Run { at, count, end: end + extent, pixel: pixel as usize }) {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the ranges that some rows of pixels need, from the first one on until they are long enough for a request.
    fn ranges_of(&self, plane: u64, rows: Range<u64>, sampling: Sampling, colors: &[u64]) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let extent = self.extent();
        let first_color = if self.are_colors_apart { colors[0] } else { 0 };
        let mut bytes = 0;
        for n in rows {
            self.each_run(plane, n, sampling, |run| {
                let mut at = run.at + first_color;
                let mut rest = run.count;
                while rest > 0 {
                    let window = match ranges.last() {
                        Some(last) if last.start <= at && at + extent <= last.end => last.clone(),
                        _ => {
                            let window = at..window_end(at, extent, run.end + first_color);
                            bytes += window.end - window.start;
                            ranges.push(window.clone());
                            window
                        }
                    };
                    let fit = self.fit(window.end - at).min(rest);
                    at += fit * self.places.step;
                    rest -= fit;
                }
                true
            });
            if bytes >= MAX_AT_ONCE {
                break;
            }
        }
        ranges
    }

    /// Returns how many places begin and end within `len` bytes from a place on.
    fn fit(&self, len: u64) -> u64 {
        len.saturating_sub(self.extent()).checked_div(self.places.step).map_or(u64::MAX, |more| more + 1)
    }

    /// Calls `take` with the number of each color in `colors` and its value, for the elements of a run.
    fn each(
        &self,
        windows: &mut Windows<'_>,
        run: &Run,
        colors: &[u64],
        mut take: impl FnMut(usize, f64),
    ) -> Result<()> {
        let extent = self.extent();
        let item = self.item as usize;
        let step = self.places.step as usize;
        let first_color = if self.are_colors_apart { colors[0] } else { 0 };
        let mut at = run.at + first_color;
        let mut rest = run.count;
        while rest > 0 {
            let bytes = windows.bytes(at, extent, run.end + first_color)?;
            let fit = self.fit(bytes.len() as u64).min(rest);
            for n in 0..fit as usize {
                for (color, offset) in colors.iter().enumerate() {
                    let from = n * step + (offset - first_color) as usize;
                    if let Some(element) = bytes.get(from..from + item) {
                        take(color, self.number(element));
                    }
                }
            }
            at += fit * self.places.step;
            rest -= fit;
        }
        Ok(())
    }

    /// Returns the number that an element shows.
    fn number(&self, element: &[u8]) -> f64 {
        let number = (self.to_number)(element);
        if self.masked == Some(number) {
            return f64::NAN;
        }
        // The highest of the flags in a signed integer.
        if self.is_flags && number < 0.0 { number + 2_f64.powi(8 * self.item as i32) } else { number }
    }

    /// Returns the number that a pixel shows.
    fn pixel(&self, sum: Sum) -> f64 {
        if self.is_flags { sum.greatest } else { sum.mean() }
    }
}

/// Returns the strides of contiguous elements; `None` if they are too many to count.
fn contiguous(of: &Elements, item: u64) -> Option<Vec<i64>> {
    let mut strides = vec![0; of.dimensions.len()];
    let mut step = i64::try_from(item).ok()?;
    let mut set = |n: usize| {
        strides[n] = step;
        step = step.checked_mul(i64::try_from(of.dimensions[n]).ok()?)?;
        Some(())
    };
    let count = of.dimensions.len();
    match of.order {
        Order::C => (0..count).rev().try_for_each(&mut set)?,
        Order::Fortran => (0..count).try_for_each(&mut set)?,
    }
    Some(strides)
}

/// Returns the `n`th of `count` evenly spaced indices below `len`.
fn spaced(n: u64, count: u64, len: u64) -> u64 {
    (u128::from(n) * u128::from(len) / u128::from(count.max(1))) as u64
}

/// Returns the end of a read at `at` of at least `extent` bytes, if the bytes up to `end` are worth reading.
fn window_end(at: u64, extent: u64, end: u64) -> u64 {
    end.min(at.saturating_add(BUFFER)).max(at.saturating_add(extent))
}

/// The bytes that were read last.
struct Windows<'c> {
    content: &'c dyn Content,
    at: u64,
    bytes: Vec<u8>,
    /// Windows that were requested from a server ahead of the reader.
    ahead: VecDeque<Vec<u8>>,
    /// Number of bytes read so far.
    read: u64,
}

impl<'c> Windows<'c> {
    fn new(content: &'c dyn Content) -> Self {
        Self { content, at: 0, bytes: Vec::new(), ahead: VecDeque::new(), read: 0 }
    }

    /// If the content is on a server, requests ranges at once, which are then read in their order.
    fn request(&mut self, ranges: impl FnOnce() -> Vec<Range<u64>>) -> Result<()> {
        let Some((source, offset)) = on_server(self.content) else { return Ok(()) };
        let ranges = ranges();
        let on_server =
            |range: &Range<u64>| range.start.saturating_add(offset)..range.end.saturating_add(offset);
        let read = source.read_ranges(&ranges.iter().map(on_server).collect::<Vec<_>>())?;
        self.ahead = read.into();
        self.bytes.clear();
        Ok(())
    }

    /// Returns the bytes from `at` on, at least `extent`. Bytes up to `end` are worth reading.
    fn bytes(&mut self, at: u64, extent: u64, end: u64) -> Result<&[u8]> {
        let is_held = self.at <= at && at + extent <= self.at + self.bytes.len() as u64;
        if !is_held {
            self.at = at;
            if let Some(bytes) = self.ahead.pop_front() {
                // In the order in which they were requested.
                self.bytes = bytes;
            } else {
                self.bytes.resize((window_end(at, extent, end) - at) as usize, 0);
                read_exact_at(self.content, at, &mut self.bytes)?;
            }
            self.read += self.bytes.len() as u64;
            if (self.bytes.len() as u64) < extent {
                return Err(Error::damaged("the data of the array are cut off").at(at));
            }
        }
        Ok(self.bytes.get((at - self.at) as usize..).unwrap_or_default())
    }
}

/// The sum of the elements of a pixel.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    count: u64,
    /// The greatest finite element, or 0 if that is greater.
    greatest: f64,
    /// An infinite element, if there is one.
    infinite: Option<f64>,
}

impl Sum {
    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.sum += value;
            self.count += 1;
            self.greatest = self.greatest.max(value);
        } else if !value.is_nan() {
            self.infinite = Some(value);
        }
    }

    /// Returns the mean of the finite elements; without any, an infinite element or NaN.
    fn mean(self) -> f64 {
        match self.count {
            0 => self.infinite.unwrap_or(f64::NAN),
            // The sum may overflow although the mean does not.
            count => (self.sum / count as f64).clamp(f64::MIN, f64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use asdf_file::asdf::ndarray::ByteOrder;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use asdf_file::array::Gather;
    use seekable::content::Text;

    fn plane(dimensions: &[u64], order: Order, bytes: Vec<u8>) -> Plane {
        let elements = Elements {
            dimensions: dimensions.to_vec(),
            datatype: Datatype::Scalar(Scalar::Uint8),
            byteorder: ByteOrder::Big,
            order,
            content: Arc::new(Text::new(bytes)),
        };
        Plane::first(&elements, Shown::default()).unwrap()
    }

    /// Returns the lines of the picture, the top one first.
    fn shown(plane: &Plane) -> Vec<Vec<f64>> {
        let averages = plane.averages().unwrap();
        let (width, height) = plane.size();
        let line = |y| (0..width as usize).map(|x| averages[plane.place(x, y)]).collect();
        (0..height).map(line).collect()
    }

    #[test]
    fn the_first_row_is_below() {
        let expected = [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]];
        assert_eq!(shown(&plane(&[2, 3], Order::C, (0..6).collect())), expected);
        assert_eq!(shown(&plane(&[2, 3], Order::Fortran, vec![0, 3, 1, 4, 2, 5])), expected);
        assert_eq!(shown(&plane(&[4, 2, 3], Order::C, (0..24).collect())), expected);
        let cube: Vec<u8> = [0, 3, 1, 4, 2, 5].into_iter().flat_map(|value| [value, 99, 99, 99]).collect();
        assert_eq!(shown(&plane(&[4, 2, 3], Order::Fortran, cube)), expected);
    }

    #[test]
    fn the_first_plane_with_a_finite_number_is_shown_and_each_flag_is_seen() {
        let numbers: Vec<f32> = [[f32::NAN; 4], [1.0, 2.0, 3.0, 4.0]].concat();
        let elements = Elements {
            dimensions: vec![1, 2, 2, 2],
            datatype: Datatype::Scalar(Scalar::Float32),
            byteorder: ByteOrder::Big,
            order: Order::C,
            content: Arc::new(Text::new(numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>())),
        };
        let plane = Plane::first(&elements, Shown::default()).unwrap();
        assert_eq!(shown(&plane), [[3.0, 4.0], [1.0, 2.0]]);
        let flags: Vec<u8> = [0_u32, 1, 2, 1 << 31].iter().flat_map(|n| n.to_be_bytes()).collect();
        let elements = Elements {
            dimensions: vec![1, 4],
            datatype: Datatype::Scalar(Scalar::Uint32),
            content: Arc::new(Text::new(flags)),
            ..elements
        };
        let plane = Plane::first(&elements, Shown { is_flags: true, ..Shown::default() }).unwrap();
        let flags = [0.0, 1.0, 2.0, 2_147_483_648.0];
        assert_eq!(shown(&plane), [flags]);
        let elements = Elements { datatype: Datatype::Scalar(Scalar::Int32), ..elements };
        let plane = Plane::first(&elements, Shown { is_flags: true, ..Shown::default() }).unwrap();
        assert_eq!(shown(&plane), [flags]);
        // A single flag among elements that share a pixel.
        let mut bits = vec![0; 4 * 4096];
        bits[4097] = 1;
        let elements = Elements {
            dimensions: vec![4, 4096],
            datatype: Datatype::Scalar(Scalar::Uint8),
            content: Arc::new(Text::new(bits)),
            ..elements
        };
        let plane = Plane::first(&elements, Shown { is_flags: true, ..Shown::default() }).unwrap();
        assert_eq!(shown(&plane)[0][..2], [1.0, 0.0]);
    }

    #[test]
    fn each_color_is_averaged() {
        let colors = |dimensions: &[u64], order, bytes: Vec<u8>| {
            let elements = Elements {
                dimensions: dimensions.to_vec(),
                datatype: Datatype::Scalar(Scalar::Uint8),
                byteorder: ByteOrder::Big,
                order,
                content: Arc::new(Text::new(bytes)),
            };
            let plane = Plane::first(&elements, Shown { has_colors: true, ..Shown::default() }).unwrap();
            (plane.size(), plane.averages().unwrap())
        };
        let numbers: Vec<f64> = (0..18).map(f64::from).collect();
        assert_eq!(colors(&[2, 3, 3], Order::C, (0..18).collect()), ((3, 2), numbers.clone()));
        let by_columns = (0..18_u8).map(|n| (n % 2 * 3 + n / 2 % 3) * 3 + n / 6).collect();
        let (size, columns) = colors(&[2, 3, 3], Order::Fortran, by_columns);
        assert_eq!((size, &columns[..6]), ((3, 2), &[0.0, 1.0, 2.0, 9.0, 10.0, 11.0][..]));
        // Pixels of 2 by 2 elements.
        let line: Vec<u8> = (0..2048).flat_map(|n| [(n % 2) as u8 * 2, 7, 9, 255]).collect();
        let (size, means) = colors(&[2, 2048, 4], Order::C, line.repeat(2));
        assert_eq!((size, &means[4092..]), ((1024, 1), &[1.0, 7.0, 9.0, 255.0][..]));
    }

    #[test]
    fn blocks_are_averaged() {
        let row: Vec<u8> = (0..2050).map(|n| (n / 3 % 200) as u8).collect();
        let long = plane(&[4, 2050], Order::C, row.repeat(4));
        assert_eq!(long.size(), (684, 2));
        let lines = shown(&long);
        assert_eq!(lines[0][..3], [0.0, 1.0, 2.0]);
        // The last pixel of a line averages one column, and the pixels of the upper line average one row.
        assert_eq!((lines[0][683], lines[1][683]), (83.0, 83.0));
    }

    /// An endless content that counts bytes and reads.
    #[derive(Debug, Default)]
    struct Endless {
        byte: u8,
        bytes: AtomicU64,
        reads: AtomicU64,
    }

    impl Content for Endless {
        fn len(&self) -> u64 {
            i64::MAX as u64
        }

        fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<usize> {
            self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.reads.fetch_add(1, Ordering::Relaxed);
            buf.fill(self.byte);
            Ok(buf.len())
        }
    }

    /// Makes the picture of an array, and asserts that its cost is bounded. Without strides, the elements are contiguous.
    fn assert_bounded(dimensions: &[u64], strides: &[i64], scalar: Scalar, byte: u8) {
        let item = scalar.size().unwrap();
        let endless = Arc::new(Endless { byte, ..Endless::default() });
        let content: Arc<dyn Content> = if strides.is_empty() {
            endless.clone()
        } else {
            let axes = dimensions.iter().copied().zip(strides.iter().copied()).collect();
            Arc::new(Gather::new(endless.clone(), 1 << 62, item, axes).unwrap())
        };
        let elements = Elements {
            dimensions: dimensions.to_vec(),
            datatype: Datatype::Scalar(scalar),
            byteorder: ByteOrder::Big,
            order: Order::C,
            content,
        };
        let has_colors = dimensions.len() > 2 && dimensions.last() == Some(&3);
        let plane = Plane::first(&elements, Shown { has_colors, ..Shown::default() }).unwrap();
        let (width, height) = plane.size();
        let of = format!("{dimensions:?} {strides:?} {scalar:?}");
        assert!((1..=1024).contains(&width) && (1..=1024).contains(&height), "{of}");
        let averages = plane.averages().unwrap();
        assert_eq!(averages.len(), width as usize * height as usize * plane.colors(), "{of}");
        assert!(averages.iter().all(|mean| mean.is_nan() == (byte == 0xff)), "{of}");
        let bytes = endless.bytes.load(Ordering::Relaxed);
        let reads = endless.reads.load(Ordering::Relaxed);
        assert!(bytes <= 60 << 20 && reads <= 40_000, "{of}: {bytes} bytes in {reads} reads");
    }

    #[test]
    fn the_cost_of_a_picture_is_bounded_for_any_shape_and_strides() {
        use Scalar::{Complex128, Float32, Uint8};
        const BIG: u64 = 17_007_376;
        for dimensions in [
            &[BIG, 1][..],
            &[1, BIG],
            &[BIG, 2],
            &[2, BIG],
            &[BIG, 16],
            &[16, BIG],
            &[4124, 4124],
            &[30_000, 30_000],
            &[1_000_000, 1_000_000],
            &[1 << 40, 1 << 10],
            &[3, 1 << 50],
            &[1 << 50, 3],
            &[100, 4096, 4096],
            &[4096, 100, 4096],
            &[BIG, 1, 1],
            &[1, BIG, 1],
            &[1 << 30, 100, 100],
            &[1 << 10, 1 << 10, 300, 300],
            &[20_000, 20_000, 3],
            &[BIG, 1, 3],
        ] {
            for (scalar, byte) in [(Uint8, 7), (Complex128, 0xff)] {
                assert_bounded(dimensions, &[], scalar, byte);
            }
        }
        let strided = [
            (&[BIG, 1][..], &[8_i64, 4][..]),
            (&[BIG, 1], &[1 << 30, 4]),
            (&[BIG, 1], &[-8, 4]),
            (&[1, BIG], &[4, 1 << 30]),
            (&[BIG, 2], &[0, 4]),
            (&[BIG, 2], &[1 << 20, 1 << 45]),
            (&[BIG, BIG], &[0, 0]),
            (&[BIG, BIG], &[4, 4]),
            (&[BIG, BIG], &[0, 1 << 30]),
            (&[BIG, BIG], &[1 << 30, 0]),
            (&[16, BIG], &[4, 4]),
            (&[4096, 4096], &[1 << 40, 1 << 13]),
            (&[4096, 4096], &[4, 1 << 20]),
            (&[4096, 4096], &[-(1 << 20), -8]),
            (&[4096, 4096], &[3 << 20, 512]),
            (&[2000, 2000], &[1 << 20, 4]),
            (&[BIG, 3, 3], &[0, 16, 8]),
            (&[BIG, 3, 3], &[1 << 30, 16, 8]),
            (&[1000, 1000, 3, 3], &[1 << 20, -(1 << 40), 1 << 10, 8]),
            (&[3000, 3000, 3], &[8, 1 << 20, 1 << 40]),
            (&[3000, 3000, 3], &[1 << 20, 16, -4]),
        ];
        for ((dimensions, strides), byte) in strided.into_iter().zip([7, 0xff].into_iter().cycle()) {
            assert_bounded(dimensions, strides, Float32, byte);
        }
    }

    #[test]
    fn elements_with_strides_make_the_picture_of_contiguous_ones() {
        let bytes: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251 + n / 251 % 5) as u8).collect();
        let whole: Arc<dyn Content> = Arc::new(Text::new(bytes));
        for (dimensions, strides, start) in [
            (&[1025, 2050][..], &[2050_i64, 1][..], 0),
            (&[1025, 2050], &[1, 1025], 0),
            (&[1025, 2050], &[-2050, -1], 1025 * 2050 - 1),
            (&[1025, 1040], &[5000, -2], 2078),
            (&[2050, 1025], &[-2, 5000], 4098),
            (&[2000, 1], &[-3000, 1], 1999 * 3000),
            (&[2000, 2], &[0, 1], 9),
            (&[1030, 1030], &[3, 3], 0),
            (&[3, 400, 300], &[1, 900, 3], 1),
            (&[20, 30, 3], &[9000, 17, 5], 0),
            (&[20, 30, 3], &[90, 3, -1], 2),
            (&[1200, 1030, 3], &[1030, -1, 1_300_000], 1029),
        ] {
            let axes = dimensions.iter().copied().zip(strides.iter().copied()).collect();
            let gather = Arc::new(Gather::new(whole.clone(), start, 1, axes).unwrap());
            let mut gathered = vec![0; gather.len() as usize];
            read_exact_at(&*gather, 0, &mut gathered).unwrap();
            let picture = |content: Arc<dyn Content>| {
                let elements = Elements {
                    dimensions: dimensions.to_vec(),
                    datatype: Datatype::Scalar(Scalar::Uint8),
                    byteorder: ByteOrder::Big,
                    order: Order::C,
                    content,
                };
                let shown = Shown { has_colors: dimensions.last() == Some(&3), ..Shown::default() };
                let plane = Plane::first(&elements, shown).unwrap();
                let averages = plane.averages().unwrap();
                let (width, height) = plane.size();
                let of_pixel = |x, y| averages[plane.place(x, y)..][..plane.colors()].to_vec();
                let rows = (0..height).map(|y| (0..width as usize).map(|x| of_pixel(x, y)).collect());
                rows.collect::<Vec<Vec<Vec<f64>>>>()
            };
            let expected = picture(Arc::new(Text::new(gathered)));
            assert!(picture(gather) == expected, "{dimensions:?} {strides:?}");
        }
    }

    #[test]
    fn a_plane_after_many_without_a_number_is_found() {
        for (planes, side) in [(900_u64, 1_u64), (900, 20), (20, 300)] {
            let of_plane = (side * side) as usize;
            let mut numbers = vec![f32::NAN; of_plane * planes as usize];
            let last = numbers.len() - of_plane;
            numbers[last..].fill(7.0);
            let elements = Elements {
                dimensions: vec![planes, side, side],
                datatype: Datatype::Scalar(Scalar::Float32),
                byteorder: ByteOrder::Big,
                order: Order::C,
                content: Arc::new(Text::new(
                    numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>(),
                )),
            };
            let plane = Plane::first(&elements, Shown::default()).unwrap();
            assert!(plane.averages().unwrap().iter().all(|mean| *mean == 7.0), "{planes} {side}");
        }
    }
}
