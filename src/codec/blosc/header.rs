//! The 16-byte header of a Blosc 1 buffer, little-endian.
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | version | version of the format: 2 |
//! | 1 | versionlz | version of the inner codec's format: 1 for all of them |
//! | 2 | flags | 1 byte shuffle, 2 memcpyed, 4 bit shuffle, 8 zero, 16 not split, bits 5 to 7 the codec |
//! | 3 | typesize | bytes in an element |
//! | 4 | nbytes | decoded size |
//! | 8 | blocksize | decoded size of a block; the last one may be shorter |
//! | 12 | cbytes | size of the buffer, these 16 bytes included |
//!
//! Source: `README_CHUNK_FORMAT.rst` of c-blosc 1, and the headers that c-blosc 1.21 accepts.

use crate::error::{Error, Result};

/// Size of the header in bytes.
pub(crate) const HEADER_SIZE: u32 = 16;

/// Version of the format that Blosc 1 has written since 1.0.
const VERSION: u8 = 2;
/// Version of every inner format that Blosc 1 has written.
const INNER_VERSION: u8 = 1;
/// Blocks of elements wider than this are not split.
const MAX_SPLITS: u32 = 16;
/// Blocks with fewer elements than this are not split.
const MIN_SPLIT: u32 = 128;

const BYTE_SHUFFLE: u8 = 1;
const MEMCPYED: u8 = 2;
const BIT_SHUFFLE: u8 = 4;
const RESERVED: u8 = 8;
const NOT_SPLIT: u8 = 16;

/// The codec that compressed a buffer's splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Blosc's own codec, related to FastLZ.
    Blosclz,
    /// LZ4 blocks, from the fast or the HC compressor.
    Lz4,
    /// Snappy, without framing.
    Snappy,
    /// A zlib stream.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

/// The order of the bytes of a block before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// Unchanged.
    None,
    /// All first bytes of the elements, all second bytes, and so on.
    Bytes,
    /// The first bit of every element, then the second bit of every element, and so on. The lowest bit of an
    /// element's first byte is its first bit.
    Bits,
}

/// A header that has passed all checks that need no other bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    inner: Option<Inner>,
    flags: u8,
    typesize: u32,
    nbytes: u32,
    blocksize: u32,
    cbytes: u32,
}

impl Header {
    /// Parses a header and checks that its fields are consistent.
    ///
    /// Another version or an unknown codec gives [`Kind::Unsupported`](crate::Kind::Unsupported), any other
    /// fault [`Kind::Damaged`](crate::Kind::Damaged).
    pub fn parse(bytes: &[u8; HEADER_SIZE as usize]) -> Result<Self> {
        let [version, inner_version, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] =
            *bytes;
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "version {version} of the Blosc format is not known, only {VERSION}"
            )));
        }
        if flags & RESERVED != 0 {
            return Err(Error::unsupported("Blosc flag 8 is set, which no version of Blosc 1 writes"));
        }
        let mut header = Self {
            inner: None,
            flags,
            typesize: typesize.into(),
            nbytes: u32::from_le_bytes([n0, n1, n2, n3]),
            blocksize: u32::from_le_bytes([b0, b1, b2, b3]),
            cbytes: u32::from_le_bytes([c0, c1, c2, c3]),
        };
        header.check_sizes()?;
        if header.nbytes > 0 && !header.is_memcpyed() {
            header.inner = Some(inner(flags >> 5)?);
            if inner_version != INNER_VERSION {
                return Err(Error::unsupported(format!(
                    "version {inner_version} of a codec within Blosc is not known, only {INNER_VERSION}"
                )));
            }
        }
        Ok(header)
    }

    fn check_sizes(&self) -> Result<()> {
        let &Self { typesize, nbytes, blocksize, cbytes, .. } = self;
        // The C library counts in int32_t, so no writer exceeds this.
        if nbytes > i32::MAX as u32 || blocksize > i32::MAX as u32 || cbytes > i32::MAX as u32 {
            return Err(Error::damaged("a Blosc buffer says that it is larger than 2 GiB"));
        }
        if cbytes < HEADER_SIZE {
            return Err(Error::damaged(format!(
                "a Blosc buffer says that it is {cbytes} bytes long, less than its header"
            )));
        }
        if nbytes == 0 {
            return Ok(());
        }
        if typesize == 0 {
            return Err(Error::damaged("a Blosc buffer says that its elements have 0 bytes"));
        }
        if blocksize == 0 || blocksize > nbytes {
            return Err(Error::damaged(format!(
                "a Blosc buffer of {nbytes} bytes says that its blocks have {blocksize}"
            )));
        }
        if self.is_memcpyed() {
            if cbytes - HEADER_SIZE != nbytes {
                return Err(Error::damaged(format!(
                    "a Blosc buffer says that its {nbytes} bytes are stored uncompressed, but in a buffer of {cbytes} bytes"
                )));
            }
            return Ok(());
        }
        if u64::from(self.blocks()) * 4 > u64::from(cbytes - HEADER_SIZE) {
            return Err(Error::damaged(format!(
                "a Blosc buffer of {cbytes} bytes says that it holds {} blocks",
                self.blocks()
            )));
        }
        if self.splits(0) > 1 && blocksize % typesize != 0 {
            return Err(Error::damaged(format!(
                "a Blosc buffer has blocks of {blocksize} bytes, which can't be split by {typesize}"
            )));
        }
        Ok(())
    }

    /// Returns the codec of the buffer's splits; `None` if nothing is compressed.
    pub fn inner(&self) -> Option<Inner> {
        self.inner
    }

    /// Returns the name of the codec that the writer was set to, even if nothing is compressed.
    pub fn inner_name(&self) -> &'static str {
        inner(self.flags >> 5).map_or("unknown", Inner::name)
    }

    /// True if the data follow the header uncompressed.
    pub fn is_memcpyed(&self) -> bool {
        self.flags & MEMCPYED != 0
    }

    /// Returns the size of an element in bytes, 1 to 255; may be 0 in an empty buffer.
    pub fn typesize(&self) -> u32 {
        self.typesize
    }

    /// Returns the number of decoded bytes, below 2 GiB.
    pub fn nbytes(&self) -> u32 {
        self.nbytes
    }

    /// Returns the decoded size of a block in bytes: 1 to `nbytes`, or any number in an empty buffer.
    pub fn blocksize(&self) -> u32 {
        self.blocksize
    }

    /// Returns the number of stored bytes, with the header: 16 to 2 GiB.
    pub fn cbytes(&self) -> u32 {
        self.cbytes
    }

    /// Returns the shuffle of a block. If both flags are set, the byte shuffle wins, as in the C library.
    pub fn shuffle(&self) -> Shuffle {
        if self.is_memcpyed() {
            Shuffle::None
        } else if self.flags & BYTE_SHUFFLE != 0 && self.typesize > 1 {
            Shuffle::Bytes
        } else if self.flags & BIT_SHUFFLE != 0 {
            Shuffle::Bits
        } else {
            Shuffle::None
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u32 {
        if self.nbytes == 0 { 0 } else { self.nbytes.div_ceil(self.blocksize) }
    }

    /// Returns the decoded size of block `index` in bytes; 0 past the last block.
    pub fn block_len(&self, index: u32) -> u32 {
        let start = u64::from(index) * u64::from(self.blocksize);
        let rest = u64::from(self.nbytes).saturating_sub(start);
        u32::try_from(rest).unwrap_or(u32::MAX).min(self.blocksize)
    }

    /// Returns the number of streams, of equal decoded length, into which block `index` is split.
    pub fn splits(&self, index: u32) -> u32 {
        let split = self.flags & NOT_SPLIT == 0
            && (1..=MAX_SPLITS).contains(&self.typesize)
            && self.blocksize / self.typesize >= MIN_SPLIT
            && self.block_len(index) == self.blocksize;
        if split { self.typesize } else { 1 }
    }
}

fn inner(format: u8) -> Result<Inner> {
    Ok(match format {
        0 => Inner::Blosclz,
        1 => Inner::Lz4,
        2 => Inner::Snappy,
        3 => Inner::Zlib,
        4 => Inner::Zstd,
        _ => return Err(Error::unsupported(format!("Blosc codec {format} is not known"))),
    })
}

impl Inner {
    /// Returns the codec's name as Blosc spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blosclz => "blosclz",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn bytes(flags: u8, typesize: u8, nbytes: u32, blocksize: u32, cbytes: u32) -> [u8; 16] {
        let mut bytes = [2, 1, flags, typesize, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..8].copy_from_slice(&nbytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&blocksize.to_le_bytes());
        bytes[12..].copy_from_slice(&cbytes.to_le_bytes());
        bytes
    }

    #[test]
    fn a_sound_header_says_what_it_holds() {
        let header = Header::parse(&bytes(0x21, 4, 10_000, 4096, 5000)).expect("sound");
        assert_eq!(
            (header.blocks(), header.inner(), header.shuffle()),
            (3, Some(Inner::Lz4), Shuffle::Bytes)
        );
        assert_eq!([0, 1, 2, 3].map(|index| header.block_len(index)), [4096, 4096, 1808, 0]);
        assert_eq!([0, 1, 2].map(|index| header.splits(index)), [4, 4, 1], "a short last block is not split");
    }

    #[test]
    fn the_rule_of_splits() {
        let splits = |flags, typesize, blocksize| {
            Header::parse(&bytes(flags, typesize, blocksize, blocksize, 9999))
                .map(|header| header.splits(0))
                .ok()
        };
        assert_eq!(splits(0x20, 16, 2048), Some(16));
        assert_eq!(splits(0x30, 16, 2048), Some(1), "the flag says no");
        assert_eq!(splits(0x20, 17, 17 * 128), Some(1), "too wide");
        assert_eq!(splits(0x20, 16, 2047), Some(1), "too few elements, though 16 does not divide them");
        assert_eq!(splits(0x20, 16, 2049), None, "can't be split evenly");
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused() {
        for (what, bytes) in [
            ("cbytes", bytes(0, 1, 100, 100, 15)),
            ("cbytes", bytes(0, 1, 100, 100, 1 << 31)),
            ("nbytes", bytes(0, 1, 1 << 31, 100, 1000)),
            ("blocksize 0", bytes(0, 1, 100, 0, 100)),
            ("blocksize above nbytes", bytes(0, 1, 100, 101, 100)),
            ("typesize", bytes(0, 0, 100, 100, 100)),
            ("memcpyed", bytes(2, 1, 100, 100, 115)),
            ("blocks", bytes(0, 1, 100, 1, 415)),
        ] {
            let error = Header::parse(&bytes).expect_err(what);
            assert_eq!(error.kind(), Kind::Damaged, "{what}: {error}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for format in 5..8 {
            let error = Header::parse(&bytes(format << 5, 1, 100, 100, 100)).expect_err("no such codec");
            assert_eq!(error.kind(), Kind::Unsupported);
            assert_eq!(error.message(), format!("Blosc codec {format} is not known"));
            Header::parse(&bytes((format << 5) | 2, 1, 100, 100, 116)).expect("the codec is not needed");
        }
        let mut other = bytes(0, 1, 100, 100, 100);
        other[0] = 3;
        assert!(Header::parse(&other).expect_err("version").message().contains("version 3"));
        let mut other = bytes(0, 1, 100, 100, 100);
        other[1] = 2;
        assert_eq!(Header::parse(&other).expect_err("versionlz").kind(), Kind::Unsupported);
        assert_eq!(Header::parse(&bytes(8, 1, 100, 100, 100)).expect_err("flag").kind(), Kind::Unsupported);
    }

    #[test]
    fn no_bytes_at_all_are_fine() {
        let header = Header::parse(&bytes(0xe5, 0, 0, 0, 16)).expect("sound");
        assert_eq!((header.blocks(), header.block_len(0), header.splits(0), header.inner()), (0, 0, 1, None));
    }
}
