//! Stored forms of a block's data: one variant for each codec and known dialect.

use std::io::Write;

use super::blosc2_builder;

/// The encoding of a block's data.
#[derive(Clone, Debug)]
pub enum Encoding {
    /// Uncompressed.
    Stored,
    /// One zlib stream.
    Zlib,
    /// This many concatenated bzip2 streams, each with an equal part of the data.
    Bzip2(usize),
    /// Python's framing of raw LZ4 blocks, each of this many uncompressed bytes.
    Lz4(usize),
    /// An LZ4 frame with the label of Python's framing, as some Julia writers made it.
    Lz4FrameAsLz4,
    /// An LZ4 frame with its own label.
    Lz4Frame,
    /// One zstd frame.
    Zstd,
    /// One Blosc buffer of uncompressed bytes.
    Blosc,
    /// Several Blosc buffers of this many bytes each, with length prefixes, as Abacus writes them.
    BloscAbacus(usize),
    /// A contiguous frame of Blosc2 with chunks of this many bytes, as Abacus writes it.
    Blosc2Abacus(usize),
    /// One chunk of Blosc2, as asdf-compression writes it.
    Blosc2Chunk,
    /// Any label with any bytes: unknown codecs, broken streams.
    Raw([u8; 4], Vec<u8>),
}

impl Encoding {
    /// Returns every codec and dialect with ordinary parameters.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Stored,
            Self::Zlib,
            Self::Bzip2(1),
            Self::Bzip2(3),
            Self::Lz4(4096),
            Self::Lz4FrameAsLz4,
            Self::Lz4Frame,
            Self::Zstd,
            Self::Blosc,
            Self::BloscAbacus(4096),
            Self::Blosc2Abacus(4096),
            Self::Blosc2Chunk,
        ]
    }

    /// True for codecs and dialects that Python asdf can read.
    pub fn is_known_to_python(&self) -> bool {
        let is_of_abacus = matches!(self, Self::BloscAbacus(_) | Self::Blosc2Abacus(_));
        !is_of_abacus && !matches!(self, Self::Bzip2(2..) | Self::Lz4FrameAsLz4 | Self::Blosc2Chunk)
    }

    /// Returns the four bytes of the header's `compression` field.
    pub fn label(&self) -> [u8; 4] {
        match self {
            Self::Stored => [0; 4],
            Self::Zlib => *b"zlib",
            Self::Bzip2(_) => *b"bzp2",
            Self::Lz4(_) | Self::Lz4FrameAsLz4 => *b"lz4\0",
            Self::Lz4Frame => *b"lz4f",
            Self::Zstd => *b"zstd",
            Self::Blosc | Self::BloscAbacus(_) => *b"blsc",
            Self::Blosc2Abacus(_) => *b"bsc2",
            Self::Blosc2Chunk => *b"bls2",
            Self::Raw(label, _) => *label,
        }
    }

    /// Encodes `data`.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Stored => data.to_vec(),
            Self::Zlib => zlib(data),
            Self::Bzip2(streams) => {
                data.chunks(data.len().div_ceil(*streams).max(1)).flat_map(bzip2).collect()
            }
            Self::Lz4(size) => data.chunks(*size).flat_map(|part| behind_length(lz4_block(part))).collect(),
            Self::Lz4FrameAsLz4 | Self::Lz4Frame => lz4_frame(data),
            Self::Zstd => zstd::encode_all(data, 3).unwrap(),
            Self::Blosc => blosc(data),
            Self::BloscAbacus(size) => {
                data.chunks(*size).flat_map(|part| behind_length(blosc(part))).collect()
            }
            Self::Blosc2Abacus(size) => {
                blosc2_builder::Frame::new(*size, data, |part| blosc2_builder::compressed(part, 1000)).build()
            }
            Self::Blosc2Chunk => blosc2_builder::compressed(data, 64 << 10),
            Self::Raw(_, bytes) => bytes.clone(),
        }
    }
}

/// Returns one zlib stream.
pub fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Returns one bzip2 stream with blocks of 100 kB, to get several blocks from a few hundred kB.
pub fn bzip2(data: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Returns a raw LZ4 block prefixed with its uncompressed length (u32, little-endian).
fn lz4_block(data: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress_prepend_size(data)
}

fn lz4_frame(data: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Returns a Blosc 1 buffer with flag 2: the uncompressed bytes follow the header.
fn blosc(data: &[u8]) -> Vec<u8> {
    let nbytes = u32::try_from(data.len()).unwrap();
    let mut buffer = vec![2, 1, 2, 1];
    for word in [nbytes, nbytes.max(1), nbytes + 16] {
        buffer.extend(word.to_le_bytes());
    }
    buffer.extend(data);
    buffer
}

/// Prefixes the bytes with their length (u32, big-endian).
fn behind_length(bytes: Vec<u8>) -> Vec<u8> {
    let mut framed = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    framed.extend(bytes);
    framed
}
