//! A block's header, in the four layouts of the three ASDF specifications.
//!
//! ```text
//!              2014 draft          0.1.0, January 2015   0.1.0, February 2015   from March 2015 on
//! magic        89|d3 42 4c 4b      d3 42 4c 4b           d3 42 4c 4b            d3 42 4c 4b
//! header_size  u16 = 44 (or 40)    u16 = 36              u16 = 40               u16 >= 48
//!  0           flags u32           flags u32             flags u32              flags u32
//!  4           allocated_size u64  allocated_size u64    compression 4 bytes    compression 4 bytes
//!  8                                                     allocated_size u64     allocated_size u64
//! 12           used_size u64       used_size u64
//! 16                                                     used_size u64          used_size u64
//! 20           checksum u64        memory_size u64
//! 24                                                     data_size u64          data_size u64
//! 28           encoding 16 bytes   checksum u64
//! 32                                                     checksum u64           checksum 16 bytes
//! ```
//!
//! All numbers are big-endian. `header_size` counts the bytes after itself. Bytes of a larger header after
//! the known fields are skipped. The file's first line and `header_size` determine the layout.

use seekable::error::{Error, Result};

/// Bytes of a block's magic and its `header_size` field.
pub(crate) const PREFIX: u64 = 6;
/// Bytes from the magic on that suffice to parse any header.
pub(crate) const MAX_FIELDS: usize = PREFIX as usize + 48;
/// The flag of a streamed block: the data reach to the end of the file.
pub const STREAMED: u32 = 1;
/// The flag of an encoded block: the data begin with a chain of encodings (0.1.0 of January 2015 only).
pub(crate) const ENCODED: u32 = 2;

/// The magic at the start of a block.
pub(crate) const MAGIC: [u8; 4] = *b"\xd3BLK";
/// The magic in the document of 2014. Its writers used [`MAGIC`].
const DRAFT_MAGIC: [u8; 4] = *b"\x89BLK";

/// The specification that a file follows, determined by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// `%ASDF`, 2014.
    Draft,
    /// `#ASDF 0.x`, 2014-10 to 2015-09.
    Zero,
    /// `#ASDF 1.x`, since 2015-09.
    One,
}

impl Generation {
    /// True if the bytes begin with a block's magic.
    pub fn is_magic(self, bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC) || (self == Self::Draft && bytes.starts_with(&DRAFT_MAGIC))
    }

    /// Returns the position of the first magic.
    pub fn find_magic(self, bytes: &[u8]) -> Option<usize> {
        let usual = memchr::memmem::find(bytes, &MAGIC);
        if self != Self::Draft {
            return usual;
        }
        let before = &bytes[..usual.unwrap_or(bytes.len())];
        memchr::memmem::find(before, &DRAFT_MAGIC).or(usual)
    }
}

/// The layout of a header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 2014: no compression field. The encoding field of 16 bytes was never defined.
    Draft,
    /// January 2015: the data begin with a chain of encodings if the flag is set.
    Chain,
    /// February 2015: compression and a checksum of 8 bytes.
    ShortChecksum,
    /// Since March 2015: compression and an MD5.
    Md5,
}

impl Layout {
    /// Returns the layout of a header of `header_size` bytes. Fails if that is too short for any layout.
    fn of(generation: Generation, header_size: u16, flags: u32) -> Result<Self> {
        let layout = match (generation, header_size) {
            (Generation::Draft, 40..) => Self::Draft,
            (Generation::Zero, 36..=39) => Self::Chain,
            (Generation::Zero, _) if header_size >= 36 && flags & ENCODED != 0 => Self::Chain,
            (Generation::Zero, 40..=43) => Self::ShortChecksum,
            (Generation::Zero, 44..=47) => Self::Draft,
            (Generation::Zero | Generation::One, 48..) => Self::Md5,
            _ => {
                let least = match generation {
                    Generation::Draft => 40,
                    Generation::Zero => 36,
                    Generation::One => 48,
                };
                let what = format!("header_size is {header_size}, which is less than {least}");
                return Err(Error::damaged(what));
            }
        };
        Ok(layout)
    }
}

/// A block's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The layout of the fields.
    pub layout: Layout,
    /// The offset of the magic in the file.
    pub offset: u64,
    /// The number of header bytes after this field.
    pub header_size: u16,
    /// The flags: [`STREAMED`], [`ENCODED`].
    pub flags: u32,
    /// The compression label, or the encoding in a header of 2014. Zeros if the header names none; empty if
    /// the layout has no such field.
    pub label: Vec<u8>,
    /// The number of bytes allocated for the data.
    pub allocated_size: u64,
    /// The number of bytes used by the data.
    pub used_size: u64,
    /// The size of the decoded data in bytes; `used_size` if the layout has no such field.
    pub data_size: u64,
    /// The checksum of 8 or 16 bytes; zeros for none.
    pub checksum: Vec<u8>,
}

impl Header {
    /// Parses a header. `bytes` begin with its magic and hold [`MAX_FIELDS`] bytes, or fewer at the end
    /// of the file.
    ///
    /// # Errors
    ///
    /// Damage if there is no magic, the header is cut off, or `header_size` is too small. The sizes are not
    /// checked here.
    pub(crate) fn parse(generation: Generation, offset: u64, bytes: &[u8]) -> Result<Self> {
        if !generation.is_magic(bytes) {
            let found = bytes.get(..4).unwrap_or(bytes).escape_ascii().to_string();
            return Err(Error::damaged(format!("there is no block magic here, but \"{found}\"")).at(offset));
        }
        let cut = || Error::damaged("the file is cut off within a block's header").at(offset);
        let mut fields = Fields(bytes.get(4..).unwrap_or_default());
        let header_size = fields.u16().ok_or_else(cut)?;
        let available = fields.0;
        let mut fields = Fields(&available[..available.len().min(header_size.into())]);
        let flags = fields.u32().ok_or_else(cut)?;
        let layout = Layout::of(generation, header_size, flags).map_err(|error| error.at(offset))?;
        let mut header = Self {
            layout,
            offset,
            header_size,
            flags,
            label: Vec::new(),
            allocated_size: 0,
            used_size: 0,
            data_size: 0,
            checksum: Vec::new(),
        };
        header.fill(&mut fields).ok_or_else(cut)?;
        Ok(header)
    }

    fn fill(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        if matches!(self.layout, Layout::ShortChecksum | Layout::Md5) {
            self.label = fields.take(4)?.to_vec();
        }
        self.allocated_size = fields.u64()?;
        self.used_size = fields.u64()?;
        if self.layout != Layout::Draft {
            self.data_size = fields.u64()?;
        }
        self.checksum = fields.take(if self.layout == Layout::Md5 { 16 } else { 8 })?.to_vec();
        if self.layout == Layout::Draft {
            self.data_size = self.used_size;
            // The draft's text gives 40 bytes, but its fields sum to 44. The label is read as far as the
            // header reaches.
            self.label = fields.0[..fields.0.len().min(16)].to_vec();
        }
        Some(())
    }

    /// True if the block is streamed: its data reach to the end of the file.
    pub fn streamed(&self) -> bool {
        self.flags & STREAMED != 0
    }

    /// Returns the flags that no specification defines.
    pub(crate) fn unknown_flags(&self) -> u32 {
        let encoded = if self.layout == Layout::Chain { ENCODED } else { 0 };
        self.flags & !(STREAMED | encoded)
    }

    /// True if the data begin with a chain of encodings.
    pub(crate) fn encoded(&self) -> bool {
        self.layout == Layout::Chain && self.flags & ENCODED != 0
    }

    /// Returns the offset of the data in the file.
    pub fn data_offset(&self) -> u64 {
        self.offset.saturating_add(PREFIX).saturating_add(self.header_size.into())
    }

    /// Returns the end of the allocated space; `None` if it exceeds any possible file.
    pub(crate) fn end(&self) -> Option<u64> {
        self.data_offset().checked_add(self.allocated_size).filter(|end| *end <= i64::MAX as u64)
    }

    /// Returns the label without trailing NULs.
    pub(crate) fn label_text(&self) -> &[u8] {
        let len = self.label.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        &self.label[..len]
    }

    /// True if the header has a checksum.
    pub fn has_checksum(&self) -> bool {
        self.checksum.iter().any(|byte| *byte != 0)
    }
}

/// Returns a header in the layout of [`Layout::Md5`], of a block without unused space. `stored` and `decoded` are the
/// sizes of the data in bytes. A `checksum` of zeros stands for none.
pub(crate) fn header_bytes(
    streamed: bool,
    label: &[u8],
    stored: u64,
    decoded: u64,
    checksum: [u8; 16],
) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend((MAX_FIELDS as u16 - PREFIX as u16).to_be_bytes());
    header.extend(u32::from(streamed).to_be_bytes());
    header.extend(label);
    for size in [stored, stored, decoded] {
        header.extend(size.to_be_bytes());
    }
    header.extend(checksum);
    header
}

/// A reader of big-endian fields from the front of a slice.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(header_size: u16, fields: &[&[u8]]) -> Vec<u8> {
        let mut bytes = b"\xd3BLK".to_vec();
        bytes.extend(header_size.to_be_bytes());
        bytes.extend(fields.concat());
        bytes
    }

    fn n(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    #[test]
    fn each_layout_is_told_by_generation_and_size() {
        let md5 = bytes(48, &[&[0, 0, 0, 1], b"zlib", &n(7), &n(6), &n(99), &[5; 16]]);
        let header = Header::parse(Generation::One, 10, &md5).unwrap();
        assert_eq!((header.allocated_size, header.used_size, header.data_size), (7, 6, 99));
        assert_eq!((header.label_text(), &header.checksum[..]), (&b"zlib"[..], &[5; 16][..]));
        assert!(header.streamed());
        assert_eq!((header.data_offset(), header.end()), (64, Some(71)));

        let short = bytes(40, &[&[0; 4], b"bzp2", &n(7), &n(6), &n(99), &[5; 8]]);
        let header = Header::parse(Generation::Zero, 0, &short).unwrap();
        assert_eq!((header.layout, header.data_size), (Layout::ShortChecksum, 99));
        assert!(Header::parse(Generation::One, 0, &short).is_err());

        let chain = bytes(36, &[&[0, 0, 0, 2], &n(7), &n(6), &n(99), &[0; 8]]);
        let header = Header::parse(Generation::Zero, 0, &chain).unwrap();
        assert!(header.encoded());
        assert_eq!((header.layout, header.used_size, header.data_size), (Layout::Chain, 6, 99));

        let draft = bytes(44, &[&[0; 4], &n(7), &n(6), &n(0), &[0; 16]]);
        for generation in [Generation::Zero, Generation::Draft] {
            let header = Header::parse(generation, 0, &draft).unwrap();
            assert_eq!((header.layout, header.used_size, header.data_size), (Layout::Draft, 6, 6));
        }
        let mut other_magic = bytes(40, &[&[0; 4], &n(7), &n(6), &n(0), &[0; 12]]);
        other_magic[0] = 0x89;
        assert!(Header::parse(Generation::Draft, 0, &other_magic).is_ok());
        assert!(Header::parse(Generation::Zero, 0, &other_magic).is_err());
    }

    #[test]
    fn a_larger_header_is_skipped_and_a_cut_one_refused() {
        let mut large = bytes(60, &[&[0; 4], &[0; 4], &n(7), &n(6), &n(6), &[5; 16]]);
        large.extend([0xff; 12]);
        assert_eq!(Header::parse(Generation::One, 0, &large).unwrap().data_offset(), 66);
        for len in 0..54 {
            assert!(Header::parse(Generation::One, 0, &large[..len]).is_err(), "{len}");
        }
        assert_eq!(Header::parse(Generation::One, u64::MAX - 3, &large).unwrap().end(), None);
    }
}
