//! `.png`, a picture with transparency, grey or in colors (PNG, third edition).
//!
//! The pixels are stored uncompressed, so the length of the file follows from the picture's size and kind alone.

use std::ops::Range;

use super::Picture;

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
const NOTE: &[u8] = b"Description\0";
const NOTE_LEN: u64 = 100;
/// The header of a zlib stream without compression.
const ZLIB: [u8; 2] = [0x78, 0x01];
/// Maximum length of a stored Deflate block, in bytes.
const MAX_STORED: u64 = 65_535;

/// Returns the length of a picture's file, in bytes.
pub(crate) fn len(width: u32, height: u32, pixel: Pixel) -> u64 {
    let pixels = u64::from(width) * u64::from(height) * pixel.len() as u64;
    SIGNATURE.len() as u64 + 4 * CHUNK + HEADER + NOTE_LEN + stream_len(u64::from(height), pixels)
}

/// Returns the length of the zlib stream: the pixels, with a filter type before each line.
fn stream_len(lines: u64, pixels: u64) -> u64 {
    let len = lines + pixels;
    ZLIB.len() as u64 + len.div_ceil(MAX_STORED).max(1) * 5 + len + 4
}

/// Returns the file of a picture, with the beginning of its note, a text in ASCII.
pub(crate) fn encode(picture: &Picture) -> Vec<u8> {
    let stream_len = stream_len(picture.lines().len() as u64, picture.pixels.len() as u64);
    let len = SIGNATURE.len() as u64 + 4 * CHUNK + HEADER + NOTE_LEN + stream_len;
    let mut file = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    file.extend(SIGNATURE);
    let mut header = [picture.width, picture.height].map(|side| (side as u32).to_be_bytes()).concat();
    // 8 bits, the type of pixels, the only compression and filter methods, not interlaced.
    header.extend([8, picture.kind, 0, 0, 0]);
    chunk(&mut file, b"IHDR", HEADER, |file| file.extend(header));
    chunk(&mut file, b"tEXt", NOTE_LEN, |file| {
        let mut text = [NOTE, picture.note.as_bytes()].concat();
        text.resize(NOTE_LEN as usize, b' ');
        file.extend(text);
    });
    chunk(&mut file, b"IDAT", stream_len, |file| {
        let mut stream = StoredStream::begin(file, (picture.height + picture.pixels.len()) as u64);
        for line in picture.lines() {
            stream.add(&[0]);
            stream.add(line);
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
            let picture = Picture::drawn(width, height, kind, "a note".to_owned(), |y, line| {
                line.iter_mut().enumerate().for_each(|(x, byte)| *byte = pixel(x, y))
            });
            let file = encode(&picture);
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
