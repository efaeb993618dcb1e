//! The first plane of an array, averaged to the size of a picture.

use std::sync::Arc;

use super::super::arrays::{Elements, Order};
use super::super::ndarray::{Datatype, Scalar};
use super::super::numbers::{ToNumber, to_number};
use crate::content::{Content, Gather, on_server, read_exact_at};
use crate::error::{Error, Result};
use crate::source::Source;

/// Maximum number of pixels in each direction.
const MAX_SIDE: u64 = 1024;
/// The approximate number of elements that are read. An image of up to 4096 by 4096 elements is read
/// completely. From a larger image about this number is sampled, evenly for all pixels.
const MAX_READ: u64 = 16 << 20;
/// Maximum number of bytes that are read of an uncompressed array on a server. From a longer plane one line is read for
/// each line of a smaller picture.
const MAX_FROM_SERVER: u64 = 6 << 20;
/// Maximum number of bytes that are requested from a server at once, unless a line is longer.
const MAX_AT_ONCE: u64 = 2 << 20;
/// Bytes read at once.
const BUFFER: usize = 256 << 10;

/// Minimum number of planes that are searched for a finite number. Of smaller planes, as many more are searched as have
/// together the elements that so many large planes have.
const MIN_PLANES: u64 = 16;

/// How an array is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// True if rows and columns of the elements are exchanged.
    pub(super) turned: bool,
    /// True for flags: a pixel shows the greatest of its elements, and no bit of a number is a sign.
    pub(super) is_flags: bool,
    /// True if the last dimension has the colors of a pixel.
    pub(super) has_colors: bool,
}

/// A plane of numbers, read line by line in storage order. A pixel is the mean of a square of elements; each of its colors
/// is, if it has several.
#[derive(Debug)]
pub(super) struct Plane {
    /// The elements of all planes.
    pub content: Arc<dyn Content>,
    /// The number of planes in `content`.
    planes: u64,
    is_flags: bool,
    /// The greatest number of the elements' type, if they are unsigned integers.
    pub largest: Option<f64>,
    to_number: ToNumber,
    /// Bytes of an element.
    item: u64,
    lines: u64,
    /// Places of a line: each has an element of every color.
    places: u64,
    /// 1 for grey, 3 or 4 for colors.
    colors: u64,
    /// True if a line is a column of the picture, false if it is a row.
    transposed: bool,
    /// The width and the height of a pixel, in elements.
    block: u64,
}

impl Plane {
    /// Returns the first plane of an array.
    pub(super) fn first(of: &Elements, shown: Shown) -> Result<Self> {
        let none = || Error::unsupported("the array is not an image");
        let Datatype::Scalar(scalar) = of.datatype else { return Err(none()) };
        let to_number = to_number(scalar, of.byteorder).ok_or_else(none)?;
        let item = scalar.size().filter(|size| *size > 0).ok_or_else(none)?;
        let (sides, colors) = match &of.dimensions[..] {
            [sides @ .., colors @ (3 | 4)] if shown.has_colors => (sides, *colors),
            sides => (sides, 1),
        };
        let [planes @ .., height, width] = sides else { return Err(none()) };
        let height = *height;
        let width = *width;
        if of.dimensions.contains(&0) {
            return Err(Error::unsupported("the array has no elements to show"));
        }
        let by_columns = of.order == Order::Fortran;
        let content = if by_columns && (colors > 1 || !planes.is_empty()) {
            let apart = |count: u64| -> Option<i64> {
                let before =
                    planes.iter().try_fold(item.checked_mul(count)?, |sum, n| sum.checked_mul(*n))?;
                i64::try_from(before).ok()
            };
            let too_large = || Error::damaged("the array is too large");
            let next = apart(1).ok_or_else(too_large)?;
            let line = apart(height).ok_or_else(too_large)?;
            let mut dimensions = Vec::with_capacity(of.dimensions.len());
            let mut stride = i64::try_from(item).map_err(|_| too_large())?;
            for len in planes {
                dimensions.push((*len, stride));
                stride =
                    i64::try_from(*len).ok().and_then(|len| stride.checked_mul(len)).ok_or_else(too_large)?;
            }
            dimensions.extend([(width, line), (height, next)]);
            if colors > 1 {
                let color = height.checked_mul(width).and_then(apart).ok_or_else(too_large)?;
                dimensions.push((colors, color));
            }
            Arc::new(Gather::new(of.content.clone(), 0, item, dimensions)?) as Arc<dyn Content>
        } else {
            of.content.clone()
        };
        let (lines, places) = if by_columns { (width, height) } else { (height, width) };
        let mut block = height.max(width).div_ceil(MAX_SIDE);
        let len = height.saturating_mul(width).saturating_mul(colors).saturating_mul(item);
        if on_server(&*content).is_some() && len > MAX_FROM_SERVER {
            block = block.max(len.div_ceil(MAX_FROM_SERVER));
        }
        let count = planes.iter().fold(1, |count: u64, n| count.saturating_mul(*n));
        Ok(Self {
            content,
            to_number,
            item,
            lines,
            places,
            colors,
            transposed: by_columns != shown.turned,
            block,
            planes: count,
            is_flags: shown.is_flags,
            largest: match scalar {
                Scalar::Uint8 => Some(u8::MAX.into()),
                Scalar::Uint16 => Some(u16::MAX.into()),
                _ => None,
            },
        })
    }

    /// Returns the number of pixels in a line, and the number of lines of pixels.
    fn averaged(&self) -> (usize, usize) {
        // Both are at most MAX_SIDE.
        (self.places.div_ceil(self.block) as usize, self.lines.div_ceil(self.block) as usize)
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
        self.colors as usize
    }

    /// Returns the index in [`averages`](Self::averages) of the first color of the pixel in column `x` and row `y` of the
    /// picture. The bottom row of the picture shows the array's first row; of a picture in colors, the top row does.
    pub(super) fn place(&self, x: usize, y: u32) -> usize {
        let (across, _) = self.averaged();
        let row = if self.colors > 1 { y } else { self.size().1 - 1 - y } as usize;
        let pixel = if self.transposed { x * across + row } else { row * across + x };
        pixel * self.colors()
    }

    /// Computes all pixels of the first plane that has a finite number, or of the first one, in storage order:
    /// the mean of each pixel's elements, or the greatest of flags; NaN if none is a number.
    pub(super) fn averages(&self) -> Result<Vec<f64>> {
        let first = self.averages_of(0)?;
        if first.iter().any(|mean| mean.is_finite()) {
            return Ok(first);
        }
        let is_on_server = on_server(&*self.content).is_some();
        let of_plane = self.lines.saturating_mul(self.places).saturating_mul(self.colors);
        let most = if is_on_server { MAX_FROM_SERVER / self.item } else { MAX_READ };
        let searched = (MIN_PLANES * most / of_plane.max(1)).max(MIN_PLANES);
        for plane in 1..self.planes.min(searched) {
            let averages = self.averages_of(plane)?;
            if averages.iter().any(|mean| mean.is_finite()) {
                return Ok(averages);
            }
        }
        Ok(first)
    }

    fn averages_of(&self, plane: u64) -> Result<Vec<f64>> {
        let of_line = self.places.saturating_mul(self.colors);
        let len = self.lines.saturating_mul(of_line).saturating_mul(self.item);
        if let Some((source, offset)) = on_server(&*self.content)
            && len > MAX_FROM_SERVER
        {
            return self.averages_of_lines(&**source, offset.saturating_add(plane.saturating_mul(len)));
        }
        let base = plane * self.lines;
        let (across, along) = self.averaged();
        let wanted = (MAX_READ / along as u64 / self.colors).max(1);
        // Places of a line that are read for each pixel: all of them, or an equal number for every pixel.
        let run =
            if self.places <= wanted { self.block } else { (wanted / across as u64).clamp(1, self.block) };
        let taken_of_line = self.places.min(run.saturating_mul(across as u64));
        let lines = (wanted / taken_of_line).clamp(1, self.block);
        let mut means = Vec::with_capacity(across * along * self.colors());
        let mut sums = vec![Sum::default(); across * self.colors()];
        let mut buffer = vec![0; BUFFER];
        for number in 0..along as u64 {
            let first = number * self.block;
            let there = self.block.min(self.lines - first);
            let taken = lines.min(there);
            if run == self.block && taken == there {
                self.add_lines(base + first, there, &mut sums, &mut buffer)?;
            } else {
                // The lines that are read are equally spaced.
                for n in 0..taken {
                    let line = first + (u128::from(n) * u128::from(there) / u128::from(taken)) as u64;
                    self.add_line(base + line, run, &mut sums, &mut buffer)?;
                }
            }
            means.extend(sums.iter_mut().map(|sum| self.pixel(std::mem::take(sum))));
        }
        Ok(means)
    }

    /// Computes all pixels from one line each, which are requested many at a time.
    fn averages_of_lines(&self, source: &dyn Source, offset: u64) -> Result<Vec<f64>> {
        let (across, along) = self.averaged();
        let len = self.places.saturating_mul(self.colors).saturating_mul(self.item);
        let at_once = (MAX_AT_ONCE / len.max(1)).max(1) as usize;
        let mut means = Vec::with_capacity(across * along * self.colors());
        let numbers: Vec<u64> = (0..along as u64).collect();
        for batch in numbers.chunks(at_once) {
            let ranges: Vec<_> = batch
                .iter()
                .map(|number| {
                    // The middle one of the pixel's lines.
                    let first = number * self.block;
                    let line = first + self.block.min(self.lines - first) / 2;
                    let start = offset.saturating_add(line.saturating_mul(len));
                    start..start.saturating_add(len)
                })
                .collect();
            for (range, line) in ranges.iter().zip(source.read_ranges(&ranges)?) {
                if line.len() as u64 != len {
                    return Err(Error::damaged("the data of the array are cut off").at(range.start));
                }
                for pixel in line.chunks((self.block * self.colors * self.item) as usize) {
                    let mut sums = [Sum::default(); 4];
                    for (number, element) in pixel.chunks_exact(self.item as usize).enumerate() {
                        sums[number % self.colors()].add(self.number(element));
                    }
                    means.extend(sums[..self.colors()].iter().map(|sum| self.pixel(*sum)));
                }
            }
        }
        Ok(means)
    }

    /// Adds the first `run` places of each pixel in a line to the pixel's sums.
    fn add_line(&self, line: u64, run: u64, sums: &mut [Sum], buffer: &mut [u8]) -> Result<()> {
        if run == self.block {
            return self.add_lines(line, 1, sums, buffer);
        }
        for (number, of_pixel) in sums.chunks_exact_mut(self.colors()).enumerate() {
            let from = number as u64 * self.block;
            let count = run.min(self.places - from);
            let mut color = 0;
            let first = (line * self.places + from) * self.colors;
            self.each(first, count * self.colors, buffer, |value| {
                of_pixel[color].add(value);
                color = if color + 1 == of_pixel.len() { 0 } else { color + 1 };
            })?;
        }
        Ok(())
    }

    /// Adds the elements of `count` whole lines, from `line` on, to the sums of the pixels.
    fn add_lines(&self, line: u64, count: u64, sums: &mut [Sum], buffer: &mut [u8]) -> Result<()> {
        let colors = self.colors();
        let of_line = self.places * self.colors;
        let mut number = 0;
        let mut color = 0;
        let mut of_block = 0;
        let mut place = 0;
        self.each(line * of_line, count * of_line, buffer, |value| {
            if let Some(sum) = sums.get_mut(number + color) {
                sum.add(value);
            }
            color += 1;
            if color < colors {
                return;
            }
            color = 0;
            of_block += 1;
            place += 1;
            if place == self.places {
                number = 0;
                of_block = 0;
                place = 0;
            } else if of_block == self.block {
                number += colors;
                of_block = 0;
            }
        })
    }

    /// Returns the number that an element shows.
    fn number(&self, element: &[u8]) -> f64 {
        let number = (self.to_number)(element);
        // The highest of the flags in a signed integer.
        if self.is_flags && number < 0.0 { number + 2_f64.powi(8 * self.item as i32) } else { number }
    }

    /// Returns the number that a pixel shows.
    fn pixel(&self, sum: Sum) -> f64 {
        if self.is_flags { sum.greatest } else { sum.mean() }
    }

    /// Calls `take` with `count` numbers from element `from` on.
    fn each(&self, from: u64, count: u64, buffer: &mut [u8], mut take: impl FnMut(f64)) -> Result<()> {
        let at_once = BUFFER as u64 / self.item;
        let mut done = 0;
        while done < count {
            let now = (count - done).min(at_once);
            let bytes = &mut buffer[..(now * self.item) as usize];
            read_exact_at(&*self.content, (from + done) * self.item, bytes)?;
            for element in bytes.chunks_exact(self.item as usize) {
                take(self.number(element));
            }
            done += now;
        }
        Ok(())
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
    use super::super::super::ndarray::Byteorder;
    use super::*;
    use crate::content::Text;

    fn plane(dimensions: &[u64], order: Order, bytes: Vec<u8>) -> Plane {
        let elements = Elements {
            dimensions: dimensions.to_vec(),
            datatype: Datatype::Scalar(Scalar::Uint8),
            byteorder: Byteorder::Big,
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
            byteorder: Byteorder::Big,
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
                byteorder: Byteorder::Big,
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
    fn turned_elements_make_the_same_picture() {
        let turned = |dimensions: &[u64], order, bytes| {
            shown(&Plane { transposed: order == Order::C, ..plane(dimensions, order, bytes) })
        };
        let expected = [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]];
        assert_eq!(turned(&[3, 2], Order::C, vec![0, 3, 1, 4, 2, 5]), expected);
        assert_eq!(turned(&[3, 2], Order::Fortran, (0..6).collect()), expected);
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

    /// An endless content.
    #[derive(Debug)]
    struct Endless(std::sync::atomic::AtomicU64);

    impl Content for Endless {
        fn len(&self) -> u64 {
            i64::MAX as u64
        }

        fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<usize> {
            self.0.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::Relaxed);
            buf.fill(7);
            Ok(buf.len())
        }
    }

    #[test]
    fn of_a_huge_array_no_more_is_read_than_of_a_large_one() {
        for dimensions in
            [[1_000_000, 1_000_000], [1 << 40, 1 << 20], [3, 1 << 60], [1 << 60, 3], [20_000, 20_000]]
        {
            let content = Arc::new(Endless(0.into()));
            let elements = Elements {
                dimensions: dimensions.to_vec(),
                datatype: Datatype::Scalar(Scalar::Uint8),
                byteorder: Byteorder::Big,
                order: Order::C,
                content: content.clone(),
            };
            let plane = Plane::first(&elements, Shown::default()).unwrap();
            let (width, height) = plane.size();
            assert!(width <= 1024 && height <= 1024, "{dimensions:?}");
            let averages = plane.averages().unwrap();
            assert_eq!(averages.len(), (width * height) as usize);
            assert!(averages.iter().all(|mean| *mean == 7.0));
            let read = content.0.load(std::sync::atomic::Ordering::Relaxed);
            assert!((1 << 20..=MAX_READ).contains(&read), "{read} of {dimensions:?}");
        }
    }
}
