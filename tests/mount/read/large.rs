//! Files with blocks of any uncompressed size, quickly made: one pattern, compressed once and repeated.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::encode;

/// Uncompressed size of the pattern.
pub(crate) const PATTERN: usize = 1 << 20;

/// The encoding of the repeated pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One zlib stream, with a full flush after each pattern.
    Zlib,
    /// One bzip2 stream per pattern.
    Bzip2,
    /// One LZ4 block in Python's framing per pattern.
    Lz4,
    /// One LZ4 frame of independent blocks, one per pattern.
    Lz4Frame,
    /// One zstd frame per pattern.
    Zstd,
    /// One zstd frame.
    ZstdOne,
    /// One Blosc buffer per pattern, prefixed with its length.
    Blosc,
    /// Blosc buffers of 32 patterns, each a single Blosc block that must be decoded whole.
    BloscWide,
}

impl Kind {
    /// All kinds with cheap random access.
    pub(crate) const ALL: [Self; 7] =
        [Self::Zlib, Self::Bzip2, Self::Lz4, Self::Lz4Frame, Self::Zstd, Self::ZstdOne, Self::Blosc];

    /// Returns the repeated content of a block, which compresses to a thousandth.
    pub(crate) fn pattern(self) -> Vec<u8> {
        let byte = |at| match self {
            Self::ZstdOne => (at >> 17) as u8,
            _ if at % 65_536 == 0 => (at >> 16) as u8 + 1,
            _ => (at >> 12) as u8 & 3,
        };
        (0..PATTERN).map(byte).collect()
    }

    fn label(self) -> [u8; 4] {
        match self {
            Self::Zlib => *b"zlib",
            Self::Bzip2 => *b"bzp2",
            Self::Lz4 => *b"lz4\0",
            Self::Lz4Frame => *b"lz4f",
            Self::Zstd | Self::ZstdOne => *b"zstd",
            Self::Blosc | Self::BloscWide => *b"blsc",
        }
    }

    /// Returns the number of patterns in a repeated piece.
    fn together(self) -> usize {
        if self == Self::BloscWide { 32 } else { 1 }
    }

    /// Returns the bytes before the repeated piece, the piece, and the bytes after the last one.
    fn pieces(self, count: u64) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let pattern = self.pattern();
        let none = Vec::new;
        match self {
            Self::Zlib => {
                let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
                let mut one = Vec::with_capacity(PATTERN);
                deflate.compress_vec(&pattern, &mut one, flate2::FlushCompress::Full).unwrap();
                let mut end = vec![3, 0];
                end.extend(adler(&pattern, count).to_be_bytes());
                (vec![0x78, 0xda], one, end)
            }
            Self::Bzip2 => (none(), encode::bzip2(&pattern), none()),
            Self::Lz4 => (none(), encode::Encoding::Lz4(PATTERN).encode(&pattern), none()),
            Self::Lz4Frame => {
                use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
                let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max1MB);
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&pattern).unwrap();
                let frame = encoder.finish().unwrap();
                (frame[..7].to_vec(), frame[7..frame.len() - 4].to_vec(), vec![0; 4])
            }
            Self::Zstd => (none(), zstd::bulk::compress(&pattern, 3).unwrap(), none()),
            Self::ZstdOne => {
                // Runs of 128 KiB, with a window of 1 MiB and without a size in the header.
                let run = |byte: u8, last: bool| {
                    let header = (128_u32 << 10) << 3 | 1 << 1 | u32::from(last);
                    let mut block = header.to_le_bytes()[..3].to_vec();
                    block.push(byte);
                    block
                };
                let one = (0..8).flat_map(|n| run(n, false)).collect();
                let head = [&0xFD2F_B528_u32.to_le_bytes()[..], &[0, 10 << 3]].concat();
                // An empty last block.
                (head, one, vec![1, 0, 0])
            }
            Self::Blosc | Self::BloscWide => (none(), blosc(&pattern.repeat(self.together())), none()),
        }
    }
}

/// Returns a Blosc buffer prefixed with its length: one LZ4 block, neither shuffled nor split.
fn blosc(bytes: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let size = 24 + block.len() as u32;
    let words = [bytes.len() as u32, bytes.len() as u32, size, 20, block.len() as u32];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    size.to_be_bytes().into_iter().chain([2, 1, 1 << 5 | 1 << 4, 1]).chain(words).chain(block).collect()
}

/// Returns the Adler-32 of `count` repetitions of the same bytes.
fn adler(bytes: &[u8], count: u64) -> u32 {
    const MODULUS: u64 = 65_521;
    let (mut sum, mut weighted) = (0, 0);
    for (left, byte) in (1..=bytes.len() as u64).rev().zip(bytes) {
        sum = (sum + u64::from(*byte)) % MODULUS;
        weighted = (weighted + left % MODULUS * u64::from(*byte)) % MODULUS;
    }
    let (mut a, mut b) = (1, 0);
    for _ in 0..count {
        b = (b + bytes.len() as u64 % MODULUS * a + weighted) % MODULUS;
        a = (a + sum) % MODULUS;
    }
    (b << 16 | a) as u32
}

/// Writes an ASDF file with one block that holds the pattern `count` times; `count` is a multiple of the
/// patterns in a piece.
pub(crate) fn file(folder: &Path, kind: Kind, count: u64) -> PathBuf {
    let path = folder.join(format!("{kind:?}.asdf"));
    let (head, one, end) = kind.pieces(count);
    let repeats = count / kind.together() as u64;
    let used = (head.len() + end.len()) as u64 + one.len() as u64 * repeats;
    let mut out = BufWriter::new(File::create(&path).unwrap());
    out.write_all(b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- {}\n...\n").unwrap();
    out.write_all(b"\xd3BLK\0\x30\0\0\0\0").unwrap();
    out.write_all(&kind.label()).unwrap();
    for size in [used, used, count * PATTERN as u64] {
        out.write_all(&size.to_be_bytes()).unwrap();
    }
    out.write_all(&[0; 16]).unwrap();
    out.write_all(&head).unwrap();
    for _ in 0..repeats {
        out.write_all(&one).unwrap();
    }
    out.write_all(&end).unwrap();
    out.flush().unwrap();
    path
}

/// Reads `count` bytes at `at` of an open block and compares them with the repeated pattern.
pub(crate) fn check(block: &File, pattern: &[u8], at: u64, count: usize) {
    let mut bytes = vec![0; count];
    block.read_exact_at(&mut bytes, at).unwrap_or_else(|error| panic!("{count} bytes at {at}: {error}"));
    let mut from = (at % PATTERN as u64) as usize;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (piece, further) = rest.split_at(rest.len().min(PATTERN - from));
        assert!(*piece == pattern[from..from + piece.len()], "{count} bytes at {at} are wrong");
        (from, rest) = (0, further);
    }
}
