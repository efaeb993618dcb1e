//! Pictures in memory: decoded from the files of [`png`](crate::picture::png), scaled, and encoded.

pub mod png;

use std::io::{self, Read, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::picture::png::NOTE;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Maximum length of a side in pixels.
const MAX_SIDE: usize = 1 << 14;

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

    /// Decodes a PNG file as this program writes it: 8 bits, not interlaced, lines without filters.
    pub fn decode(file: &[u8]) -> Option<Self> {
        let mut rest = file.strip_prefix(SIGNATURE)?;
        let mut header = None;
        let mut data = Vec::new();
        let mut note = String::new();
        while let Some((start, after)) = rest.split_at_checked(8) {
            let (len, kind) = start.split_at(4);
            let len = usize::try_from(u32::from_be_bytes(len.try_into().ok()?)).ok()?;
            let (body, after) = after.split_at_checked(len)?;
            match kind {
                b"IHDR" => header = Some(body),
                b"IDAT" => data.extend_from_slice(body),
                b"tEXt" => {
                    let text = body.strip_prefix(NOTE).unwrap_or_default();
                    note = String::from_utf8_lossy(text).trim_end().to_owned();
                }
                b"IEND" => break,
                _ => {}
            }
            rest = after.get(4..)?;
        }
        let header = header?;
        let side = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(bytes)).ok().filter(|side| (1..=MAX_SIDE).contains(side))
        };
        let (width, height) = (side(0)?, side(4)?);
        let [8, kind, 0, 0, 0] = *header.get(8..)? else { return None };
        let line = width.checked_mul(Self::channels(kind)?)?;
        let len = (line + 1).checked_mul(height)?;
        let mut lines = Vec::new();
        ZlibDecoder::new(&*data).take(len as u64).read_to_end(&mut lines).ok()?;
        if lines.len() != len {
            return None;
        }
        let mut pixels = Vec::with_capacity(line * height);
        for row in lines.chunks_exact(line + 1) {
            let (filter, row) = row.split_first()?;
            if *filter != 0 {
                return None;
            }
            pixels.extend_from_slice(row);
        }
        Some(Self { width, height, kind, pixels, note })
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
        let line = self.pixels.len() / self.height.max(1);
        let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.pixels.chunks_exact(line.max(1)) {
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
    use crate::picture::png;

    #[test]
    fn a_picture_is_averaged_to_its_size() {
        let file = png::encode(4, 2, png::Pixel::GreyAlpha, "a note", |y, line| {
            for (x, pixel) in line.chunks_exact_mut(2).enumerate() {
                pixel.copy_from_slice(&[10 * x as u8 + y as u8, if x == 3 { 0 } else { 255 }]);
            }
        });
        let picture = Picture::decode(&file).unwrap();
        assert_eq!((picture.width, picture.height, picture.kind, picture.note.as_str()), (4, 2, 4, "a note"));
        assert_eq!(Picture::decode(&picture.encode().unwrap()).unwrap().pixels, picture.pixels);
        let small = picture.scaled(2);
        // The transparent pixels do not count.
        assert_eq!((small.width, small.height, &small.pixels[..]), (2, 1, &[6, 255, 21, 127][..]));
        assert_eq!(Picture::decode(&file).unwrap().scaled(9), Picture::decode(&file).unwrap());
        for end in 0..file.len() {
            Picture::decode(&file[..end]);
        }
        let large = Picture::decode(&file).unwrap().enlarged(8);
        assert_eq!((large.width, large.height, &large.pixels[..6]), (8, 4, &[0, 255, 0, 255, 10, 255][..]));
        assert_eq!(large.pixels[..16], large.pixels[16..32]);
        let tiny = png::encode(300, 1, png::Pixel::Rgba, "", |_, _| {});
        assert_eq!(Picture::decode(&tiny).unwrap().scaled(2).height, 1);
    }
}
