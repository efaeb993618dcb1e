//! The header of a Blosc buffer, little-endian: 16 bytes in Blosc 1, 32 in Blosc 2.
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | version | version of the format: 2 in Blosc 1, 3 to 6 in Blosc 2 |
//! | 1 | versionlz | version of the inner codec's format: 1 for all of them |
//! | 2 | flags | 1 byte shuffle, 2 memcpyed, 4 bit shuffle, 8 delta (Blosc 2), 16 not split, bits 5 to 7 the codec |
//! | 3 | typesize | bytes in an element |
//! | 4 | nbytes | decoded size |
//! | 8 | blocksize | decoded size of a block; the last one may be shorter |
//! | 12 | cbytes | size of the buffer, the header included |
//!
//! Both flags of shuffles together mean that 16 more bytes follow:
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 16 | filters | six codes, in the order in which the filters were applied |
//! | 22 | codec | the codec, if bits 5 to 7 of the flags are 6 |
//! | 23 | | metadata of that codec |
//! | 24 | filters_meta | a byte for each filter |
//! | 30 | flags2 | 1 blocks of variable length, in version 6; else zero |
//! | 31 | blosc2_flags | 1 dictionary, 8 lazy, bits 4 to 6 a special value, 128 instrumented |
//!
//! Sources: `README_CHUNK_FORMAT.rst` of c-blosc 1 and c-blosc2, the headers that c-blosc 1.21 accepts, and
//! those that c-blosc2 3.3 writes.

use super::filter::{self, Filter, Filters};
use crate::error::{Error, Result};

/// Size of the header of Blosc 1 in bytes.
pub const HEADER_SIZE: u32 = 16;
/// Size of the header of Blosc 2 in bytes.
pub const EXTENDED_SIZE: u32 = 32;

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
/// Reserved in Blosc 1.
const DELTA: u8 = 8;
const NOT_SPLIT: u8 = 16;

/// The first version of Blosc 2 whose headers name six filters, not five.
const SIX_FILTERS: u8 = 4;
/// The last version of Blosc 2 that is known.
const LAST_VERSION: u8 = 6;
/// The codec is named at byte 22.
const PLUGIN_CODEC: u8 = 6;

const DICTIONARY: u8 = 1;
const LONGER_HEADER: u8 = 2;
const CODEC_ELSEWHERE: u8 = 4;
const LAZY: u8 = 8;
const INSTRUMENTED: u8 = 128;

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

/// The value of all elements of a chunk that has no blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Zeros.
    Zeros,
    /// Floating-point numbers that are not a number.
    Nan,
    /// The bytes after the header, over and over.
    Value,
    /// Any: the writer did not set the elements. They read as zeros.
    Unset,
}

impl Special {
    /// Returns the special value with a number, or `None` for ordinary chunks.
    fn of(number: u8) -> Result<Option<Self>> {
        Ok(Some(match number {
            0 => return Ok(None),
            1 => Self::Zeros,
            2 => Self::Nan,
            3 => Self::Value,
            4 => Self::Unset,
            _ => {
                return Err(Error::unsupported(format!(
                    "special value {number} of a Blosc2 chunk is not known"
                )));
            }
        }))
    }

    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Nan => "nan",
            Self::Value => "value",
            Self::Unset => "uninit",
        }
    }
}

/// A header that has passed all checks that need no other bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    inner: Option<Inner>,
    version: u8,
    /// Size of the header itself.
    size: u32,
    flags: u8,
    typesize: u32,
    nbytes: u32,
    blocksize: u32,
    cbytes: u32,
    filters: Filters,
    special: Option<Special>,
    has_dictionary: bool,
}

impl Header {
    /// Parses a header and checks that its fields are consistent.
    ///
    /// Another version or an unknown codec gives [`Kind::Unsupported`](crate::Kind::Unsupported), any other
    /// fault [`Kind::Damaged`](crate::Kind::Damaged).
    pub fn parse(bytes: &[u8; HEADER_SIZE as usize]) -> Result<Self> {
        let [version, _, flags, ..] = *bytes;
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "version {version} of the Blosc format is not known, only {VERSION}"
            )));
        }
        if flags & DELTA != 0 {
            return Err(Error::unsupported("Blosc flag 8 is set, which no version of Blosc 1 writes"));
        }
        Self::fields(bytes, HEADER_SIZE).checked(bytes[1], 0)
    }

    /// Parses the header of a chunk of Blosc 2, which may be a buffer of Blosc 1. `bytes` are the first 32 of the
    /// chunk, or fewer if there are no more.
    pub fn of_chunk(bytes: &[u8]) -> Result<Self> {
        let cut_off = || Error::damaged("a Blosc2 chunk is cut off within its header");
        let start: &[u8; HEADER_SIZE as usize] = bytes.first_chunk().ok_or_else(cut_off)?;
        let [version, inner_version, flags, ..] = *start;
        if version <= VERSION {
            return Self::parse(start);
        }
        if version > LAST_VERSION {
            return Err(Error::unsupported(format!(
                "version {version} of the Blosc2 format is not known, only up to {LAST_VERSION}"
            )));
        }
        if flags & (BYTE_SHUFFLE | BIT_SHUFFLE) != BYTE_SHUFFLE | BIT_SHUFFLE {
            return Self::fields(start, HEADER_SIZE).checked(inner_version, 0);
        }
        let bytes: &[u8; EXTENDED_SIZE as usize] = bytes.first_chunk().ok_or_else(cut_off)?;
        let [.., more_flags, chunk_flags] = *bytes;
        if more_flags != 0 {
            return Err(Error::unsupported(
                "a Blosc2 chunk has blocks of variable length, which are not read",
            ));
        }
        for (flag, what) in [
            (LONGER_HEADER, "has a longer header, or is of a big-endian machine"),
            (CODEC_ELSEWHERE, "names its codec in another place"),
            (LAZY, "is lazy: its data are elsewhere"),
            (INSTRUMENTED, "has measurements of a codec for data"),
        ] {
            if chunk_flags & flag != 0 {
                return Err(Error::unsupported(format!("a Blosc2 chunk {what}, which is not read")));
            }
        }
        let count = if version < SIX_FILTERS { filter::COUNT - 1 } else { filter::COUNT };
        let header = Self {
            filters: Filter::list(&bytes[16..16 + count], &bytes[24..24 + count]),
            special: Special::of(chunk_flags >> 4 & 7)?,
            has_dictionary: chunk_flags & DICTIONARY != 0,
            ..Self::fields(start, EXTENDED_SIZE)
        };
        header.checked(inner_version, bytes[22])
    }

    /// Returns the fields at the beginning of a chunk of Blosc 2, unchecked; `None` if `head` is something else.
    pub fn beginning(head: &[u8]) -> Option<Self> {
        let start: &[u8; HEADER_SIZE as usize] = head.first_chunk()?;
        let [version, inner_version, flags, ..] = *start;
        let is_chunk = (VERSION + 1..=LAST_VERSION).contains(&version)
            && inner_version == INNER_VERSION
            && flags & (BYTE_SHUFFLE | BIT_SHUFFLE) == BYTE_SHUFFLE | BIT_SHUFFLE;
        is_chunk.then(|| Self::fields(start, EXTENDED_SIZE))
    }

    /// Returns the header of a chunk that a frame does not store, because all its elements are alike.
    pub(super) fn of_special(special: Special, nbytes: u32, typesize: u32) -> Result<Self> {
        let header = Self {
            inner: None,
            version: LAST_VERSION,
            size: EXTENDED_SIZE,
            flags: 0,
            typesize,
            nbytes,
            blocksize: nbytes,
            cbytes: EXTENDED_SIZE,
            filters: Filters::default(),
            special: Some(special),
            has_dictionary: false,
        };
        header.check_sizes()?;
        Ok(header)
    }

    /// Returns the fields that all headers have.
    fn fields(bytes: &[u8; HEADER_SIZE as usize], size: u32) -> Self {
        let [version, _, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = *bytes;
        let mut header = Self {
            inner: None,
            version,
            size,
            flags,
            typesize: typesize.into(),
            nbytes: u32::from_le_bytes([n0, n1, n2, n3]),
            blocksize: u32::from_le_bytes([b0, b1, b2, b3]),
            cbytes: u32::from_le_bytes([c0, c1, c2, c3]),
            filters: Filters::default(),
            special: None,
            has_dictionary: false,
        };
        let [.., delta, shuffle] = &mut header.filters;
        // If both flags are set, the byte shuffle wins, as in the C library.
        if flags & BYTE_SHUFFLE != 0 && typesize > 1 {
            *shuffle = Filter::BYTES;
        } else if flags & BIT_SHUFFLE != 0 {
            *shuffle = Filter::BITS;
        }
        if flags & DELTA != 0 {
            *delta = Filter::DELTA;
        }
        header
    }

    /// Checks the fields. `plugin` is the codec that the header names beside the flags.
    fn checked(mut self, inner_version: u8, plugin: u8) -> Result<Self> {
        self.check_sizes()?;
        if self.nbytes > 0 && !self.is_memcpyed() && self.special.is_none() {
            self.inner = Some(match self.flags >> 5 {
                PLUGIN_CODEC if self.size == EXTENDED_SIZE => {
                    let what = format!(
                        "the codec {} of a Blosc2 chunk is a plugin that is not read",
                        codec_name(plugin)
                    );
                    return Err(Error::unsupported(what));
                }
                format => inner(format)?,
            });
            if inner_version != INNER_VERSION {
                return Err(Error::unsupported(format!(
                    "version {inner_version} of a codec within Blosc is not known, only {INNER_VERSION}"
                )));
            }
            filter::steps(&self.filters, self.typesize as usize).map(drop)?;
        }
        Ok(self)
    }

    fn check_sizes(&self) -> Result<()> {
        let &Self { typesize, nbytes, blocksize, cbytes, .. } = self;
        // The C library counts in int32_t, so no writer exceeds this.
        if nbytes > i32::MAX as u32 || blocksize > i32::MAX as u32 || cbytes > i32::MAX as u32 {
            return Err(Error::damaged("a Blosc buffer says that it is larger than 2 GiB"));
        }
        if cbytes < self.size {
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
        match self.special {
            None => {}
            Some(Special::Value) if cbytes == self.size => {
                return Err(Error::damaged("a Blosc2 chunk of one repeated value has no value"));
            }
            Some(Special::Nan) if !matches!(typesize, 4 | 8) => {
                let what =
                    format!("a Blosc2 chunk says that its elements of {typesize} bytes are not numbers");
                return Err(Error::damaged(what));
            }
            Some(_) => return Ok(()),
        }
        if blocksize == 0 || blocksize > nbytes {
            return Err(Error::damaged(format!(
                "a Blosc buffer of {nbytes} bytes says that its blocks have {blocksize}"
            )));
        }
        if self.is_memcpyed() {
            if cbytes - self.size != nbytes {
                return Err(Error::damaged(format!(
                    "a Blosc buffer says that its {nbytes} bytes are stored uncompressed, but in a buffer of {cbytes} bytes"
                )));
            }
            return Ok(());
        }
        if u64::from(self.blocks()) * 4 > u64::from(cbytes - self.size) {
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

    /// Returns the size of the header itself in bytes.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the offset of the first byte after the table of blocks.
    pub(super) fn table_end(&self) -> u64 {
        u64::from(self.size) + u64::from(self.blocks()) * 4
    }

    /// True if a dictionary for the codec follows the table of blocks.
    pub(super) fn has_dictionary(&self) -> bool {
        self.has_dictionary
    }

    /// True in Blosc 2, where a stream can be a run of one byte, and bits of whole eights of elements are shuffled.
    pub(super) fn is_of_blosc2(&self) -> bool {
        self.version > VERSION
    }

    /// Returns the value of all elements, if the chunk has no blocks.
    pub fn special(&self) -> Option<Special> {
        self.special
    }

    /// Returns the filters in the order in which they were applied.
    pub fn filters(&self) -> &Filters {
        &self.filters
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
        let by_type = self.is_of_blosc2()
            || (1..=MAX_SPLITS).contains(&self.typesize) && self.blocksize / self.typesize >= MIN_SPLIT;
        let split = self.flags & NOT_SPLIT == 0 && by_type && self.block_len(index) == self.blocksize;
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

/// Returns the name of a codec of Blosc 2, as Blosc2 spells it.
pub fn codec_name(code: u8) -> String {
    let name = match code {
        0 => "blosclz",
        1 => "lz4",
        2 => "lz4hc",
        4 => "zlib",
        5 => "zstd",
        32 => "ndlz",
        33 => "zfp_acc",
        34 => "zfp_prec",
        35 => "zfp_rate",
        36 => "openhtj2k",
        37 => "grok",
        38 => "openzl",
        39 => "j2k",
        40 => "htj2k",
        _ => return format!("{code}"),
    };
    name.to_owned()
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
