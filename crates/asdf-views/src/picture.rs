//! Pictures in memory: drawn, scaled, and encoded.

pub(crate) mod file;
pub(crate) mod png;

use std::io::{self, Write};
use std::ops::Range;
use std::slice::ChunksExact;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use seekable::content::Content;
use seekable::error::Result;

use file::PictureFile;
use png::Pixel;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A picture with 8 bits a channel.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The type of PNG: 0 grey, 2 colours, 4 grey with alpha, 6 colours with alpha.
    kind: u8,
    pixels: Vec<u8>,
    /// How the pixels were made, if the file says so.
    pub note: String,
}

impl Picture {
    fn channels(kind: u8) -> Option<usize> {
        match kind {
            0 => Some(1),
            2 => Some(3),
            4 => Some(2),
            6 => Some(4),
            _ => None,
        }
    }

    /// Returns the lines of pixels, from the top one on.
    fn lines(&self) -> ChunksExact<'_, u8> {
        self.pixels.chunks_exact((self.pixels.len() / self.height.max(1)).max(1))
    }

    /// True if pixels have colors.
    pub(crate) fn has_colors(&self) -> bool {
        matches!(self.kind, 2 | 6)
    }

    /// Returns a white square.
    pub fn white(side: usize) -> Self {
        Self { width: side, height: side, kind: 0, pixels: vec![255; side * side], note: String::new() }
    }

    /// Returns the picture at least `width` pixels wide, in the middle, and with `below` more lines. The new pixels are
    /// transparent, or black in a picture without transparency.
    pub fn extended(self, width: usize, below: usize) -> Self {
        let Some(channels) = Self::channels(self.kind) else { return self };
        let width = width.max(self.width);
        let height = self.height + below;
        let margin = (width - self.width) / 2;
        let mut pixels = vec![0; width * height * channels];
        let own_rows = self.pixels.chunks_exact(self.width * channels);
        for (row, own) in pixels.chunks_exact_mut(width * channels).zip(own_rows) {
            row[margin * channels..][..own.len()].copy_from_slice(own);
        }
        Self { width, height, pixels, ..self }
    }

    /// Sets an opaque pixel to a level of grey, if it is in the picture.
    pub fn set_grey(&mut self, x: usize, y: usize, level: u8) {
        let Some(channels) = Self::channels(self.kind).filter(|_| x < self.width) else { return };
        let at = (y * self.width + x) * channels;
        if let Some(pixel) = self.pixels.get_mut(at..at + channels) {
            pixel.fill(level);
            if matches!(self.kind, 4 | 6) {
                pixel[channels - 1] = 255;
            }
        }
    }

    /// Returns the picture that a content is the file of; `None` if it is none of this program's.
    pub fn of(content: &dyn Content) -> Option<Result<Self>> {
        content.written()?.downcast_ref::<PictureFile>().map(PictureFile::picture)
    }

    /// Draws a picture line by line: `line` sets the pixels of a line; the top line is number 0. `note` says how
    /// numbers became levels.
    pub(crate) fn drawn(
        width: u32,
        height: u32,
        kind: Pixel,
        note: String,
        mut line: impl FnMut(u32, &mut [u8]),
    ) -> Self {
        let (width, height) = (width as usize, height as usize);
        let len = width * kind.len();
        let mut pixels = vec![0; len * height];
        for (number, pixels) in (0..).zip(pixels.chunks_exact_mut(len)) {
            line(number, pixels);
        }
        Self { width, height, kind: kind as u8, pixels, note }
    }

    /// Returns the picture, averaged to at most `size` pixels in each direction.
    pub fn scaled(self, size: usize) -> Self {
        let largest = self.width.max(self.height);
        let Some(channels) = Self::channels(self.kind).filter(|_| largest > size && size > 0) else {
            return self;
        };
        let side = |len: usize| (len * size / largest).max(1);
        let (width, height) = (side(self.width), side(self.height));
        let has_alpha = matches!(self.kind, 4 | 6);
        let mut pixels = Vec::with_capacity(width * height * channels);
        for y in 0..height {
            let rows =
                y * self.height / height..((y + 1) * self.height / height).max(y * self.height / height + 1);
            for x in 0..width {
                let columns =
                    x * self.width / width..((x + 1) * self.width / width).max(x * self.width / width + 1);
                pixels
                    .extend_from_slice(&self.average(rows.clone(), columns, channels, has_alpha)[..channels]);
            }
        }
        Self { width, height, pixels, ..self }
    }

    /// Returns the picture with each pixel as a square, as large as fits into `size` pixels in each direction.
    pub fn enlarged(self, size: usize) -> Self {
        let Some(channels) = Self::channels(self.kind) else { return self };
        let times = (size / self.width.max(self.height)).max(1);
        let mut pixels = Vec::with_capacity(self.pixels.len() * times * times);
        for row in self.pixels.chunks_exact(self.width * channels) {
            let wide: Vec<u8> = row.chunks_exact(channels).flat_map(|pixel| pixel.repeat(times)).collect();
            pixels.extend(wide.repeat(times));
        }
        Self { width: self.width * times, height: self.height * times, pixels, ..self }
    }

    /// Returns the average of some pixels, weighted by their alpha.
    fn average(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        channels: usize,
        has_alpha: bool,
    ) -> [u8; 4] {
        let mut sums = [0_u64; 4];
        let mut weights = 0;
        let mut count = 0;
        for y in rows {
            for x in columns.clone() {
                let at = (y * self.width + x) * channels;
                let Some(pixel) = self.pixels.get(at..at + channels) else { continue };
                let weight = if has_alpha { u64::from(pixel[channels - 1]) } else { 255 };
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += u64::from(*value) * weight;
                }
                weights += weight;
                count += 1;
            }
        }
        let mut average = [0; 4];
        for (value, sum) in average.iter_mut().zip(sums) {
            *value = (sum + weights / 2).checked_div(weights).unwrap_or(0) as u8;
        }
        if has_alpha && count > 0 {
            average[channels - 1] = (weights / count) as u8;
        }
        average
    }

    /// Returns the picture as a compressed PNG file.
    ///
    /// # Errors
    /// Compression never fails in memory.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.lines() {
            data.write_all(&[0])?;
            data.write_all(row)?;
        }
        let data = data.finish()?;
        let side = |side: usize| (side as u32).to_be_bytes();
        let header = [&side(self.width)[..], &side(self.height), &[8, self.kind, 0, 0, 0]].concat();
        let mut file = SIGNATURE.to_vec();
        for (kind, body) in [(b"IHDR", &header), (b"IDAT", &data), (b"IEND", &Vec::new())] {
            file.extend((body.len() as u32).to_be_bytes());
            let start = file.len();
            file.extend(kind);
            file.extend(body);
            file.extend(crc32fast::hash(&file[start..]).to_be_bytes());
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_averaged_to_its_size() {
        let drawn = || {
            Picture::drawn(4, 2, Pixel::GreyAlpha, "a note".to_owned(), |y, line| {
                for (x, pixel) in line.chunks_exact_mut(2).enumerate() {
                    pixel.copy_from_slice(&[10 * x as u8 + y as u8, if x == 3 { 0 } else { 255 }]);
                }
            })
        };
        assert_eq!((drawn().width, drawn().height, drawn().kind), (4, 2, 4));
        assert_eq!(&drawn().pixels[8..12], [1, 255, 11, 255]);
        let small = drawn().scaled(2);
        // The transparent pixels do not count.
        assert_eq!((small.width, small.height, &small.pixels[..]), (2, 1, &[6, 255, 21, 127][..]));
        assert_eq!(drawn().scaled(9), drawn());
        let large = drawn().enlarged(8);
        assert_eq!((large.width, large.height, &large.pixels[..6]), (8, 4, &[0, 255, 0, 255, 10, 255][..]));
        assert_eq!(large.pixels[..16], large.pixels[16..32]);
        let tiny = Picture::drawn(300, 1, Pixel::Rgba, String::new(), |_, _| {});
        assert_eq!(tiny.scaled(2).height, 1);
    }
}
