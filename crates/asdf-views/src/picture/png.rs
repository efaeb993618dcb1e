//! `.png`, a picture with transparency, grey or in colors (PNG, third edition).
//!
//! The pixels are stored uncompressed, so the length of the file follows from the picture's size and kind alone.

use std::ops::Range;

/// The kinds of pixels, with the number of their type in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pixel {
    /// Grey level and alpha.
    GreyAlpha = 4,
    /// Red, green, blue and alpha.
    Rgba = 6,
}

impl Pixel {
    /// Returns the length of a pixel in bytes.
    #[allow(clippy::len_without_is_empty)] // no pixel is empty
    pub(crate) fn len(self) -> usize {
        match self {
            Self::GreyAlpha => 2,
            Self::Rgba => 4,
        }
    }
}

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Length of a chunk's own fields, in bytes: length, type and checksum.
const CHUNK: u64 = 12;
const HEADER: u64 = 13;
/// The keyword before a note, and the length of both in bytes.
pub(super) const NOTE: &[u8] = b"Description\0";
const NOTE_LEN: u64 = 100;
/// The header of a zlib stream without compression.
const ZLIB: [u8; 2] = [0x78, 0x01];
/// Maximum length of a stored Deflate block, in bytes.
const MAX_STORED: u64 = 65_535;

/// Returns the length of a picture's file, in bytes.
pub(crate) fn len(width: u32, height: u32, pixel: Pixel) -> u64 {
    SIGNATURE.len() as u64 + 4 * CHUNK + HEADER + NOTE_LEN + stream_len(width, height, pixel)
}

/// Returns the length of the zlib stream: the lines of pixels, each after its filter type.
fn stream_len(width: u32, height: u32, pixel: Pixel) -> u64 {
    let lines = u64::from(height) * (1 + u64::from(width) * pixel.len() as u64);
    ZLIB.len() as u64 + lines.div_ceil(MAX_STORED).max(1) * 5 + lines + 4
}

/// Returns the file of a picture. `line` writes the pixels of a line; the top line is number 0. The file also has
/// the beginning of `note`, a text in ASCII that says how numbers became levels.
pub(crate) fn encode(
    width: u32,
    height: u32,
    pixel: Pixel,
    note: &str,
    mut line: impl FnMut(u32, &mut [u8]),
) -> Vec<u8> {
    let mut file = Vec::with_capacity(usize::try_from(len(width, height, pixel)).unwrap_or_default());
    file.extend(SIGNATURE);
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // 8 bits, the type of pixels, the only compression and filter methods, not interlaced.
    header.extend([8, pixel as u8, 0, 0, 0]);
    chunk(&mut file, b"IHDR", HEADER, |file| file.extend(header));
    chunk(&mut file, b"tEXt", NOTE_LEN, |file| {
        let mut text = [NOTE, note.as_bytes()].concat();
        text.resize(NOTE_LEN as usize, b' ');
        file.extend(text);
    });
    chunk(&mut file, b"IDAT", stream_len(width, height, pixel), |file| {
        let mut row = vec![0; 1 + width as usize * pixel.len()];
        let mut stream = StoredStream::begin(file, u64::from(height) * row.len() as u64);
        for number in 0..height {
            line(number, &mut row[1..]);
            stream.add(&row);
        }
        stream.end();
    });
    chunk(&mut file, b"IEND", 0, |_| {});
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], len: u64, write: impl FnOnce(&mut Vec<u8>)) {
    file.extend((len as u32).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    write(file);
    let checked: Range<usize> = start..file.len();
    file.extend(crc32fast::hash(&file[checked]).to_be_bytes());
}

/// A zlib stream of stored Deflate blocks.
struct StoredStream<'f> {
    file: &'f mut Vec<u8>,
    /// Bytes that are still to be added.
    bytes_left: u64,
    /// Bytes that still go into the current Deflate block.
    part: u64,
    checksum: simd_adler32::Adler32,
}

impl<'f> StoredStream<'f> {
    fn begin(file: &'f mut Vec<u8>, len: u64) -> Self {
        file.extend(ZLIB);
        let mut stream = Self { file, bytes_left: len, part: 0, checksum: simd_adler32::Adler32::new() };
        stream.begin_part();
        stream
    }

    fn begin_part(&mut self) {
        self.part = self.bytes_left.min(MAX_STORED);
        self.file.push(u8::from(self.part == self.bytes_left));
        let len = self.part as u16;
        self.file.extend(len.to_le_bytes());
        self.file.extend((!len).to_le_bytes());
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.checksum.write(bytes);
        while !bytes.is_empty() {
            if self.part == 0 {
                self.begin_part();
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.part as usize));
            self.file.extend(now);
            self.part -= now.len() as u64;
            self.bytes_left -= now.len() as u64;
            bytes = later;
        }
    }

    fn end(self) {
        self.file.extend(self.checksum.finish().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Returns the chunks of a file, after a check of their checksums.
    fn chunks(file: &[u8]) -> Vec<(&[u8], &[u8])> {
        let mut rest = file.strip_prefix(SIGNATURE).unwrap();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let kind = &rest[4..8];
            let data = &rest[8..8 + len];
            let crc = &rest[8 + len..12 + len];
            assert_eq!(crc, crc32fast::hash(&rest[4..8 + len]).to_be_bytes());
            chunks.push((kind, data));
            rest = &rest[12 + len..];
        }
        chunks
    }

    #[test]
    fn an_image_has_the_length_that_its_size_says() {
        for (width, height) in [(1, 1), (3, 2), (1024, 1024), (1, 1024), (1024, 1), (32_767, 1), (257, 255)] {
            let kind = if width == 3 { Pixel::Rgba } else { Pixel::GreyAlpha };
            let pixel = |x: usize, y: u32| (x as u32 * 7 + y * 13) as u8;
            let file = encode(width, height, kind, "a note", |y, line| {
                line.iter_mut().enumerate().for_each(|(x, byte)| *byte = pixel(x, y))
            });
            assert_eq!(file.len() as u64, len(width, height, kind), "{width} x {height}");
            let chunks = chunks(&file);
            assert_eq!(
                chunks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
                [b"IHDR", b"tEXt", b"IDAT", b"IEND"]
            );
            let mut lines = Vec::new();
            flate2::read::ZlibDecoder::new(chunks[2].1).read_to_end(&mut lines).unwrap();
            let row = 1 + width as usize * kind.len();
            assert_eq!(lines.len(), row * height as usize);
            for (y, line) in lines.chunks(row).enumerate() {
                assert_eq!(line[0], 0);
                assert!(line[1..].iter().enumerate().all(|(x, byte)| *byte == pixel(x, y as u32)));
            }
        }
    }
}
