//! A block: its header in one of the layouts, its data, and any damage.
//!
//! | header | after `header_size` (all numbers big-endian) | bytes |
//! |---|---|---|
//! | [`Header::Label48`], 1.0.0 and 0.1.0 of March 2015 on | flags u32, compression 4, allocated u64, used u64, data u64, checksum 16 | 48 |
//! | [`Header::Label40`], 0.1.0 of February 2015 | flags u32, compression 4, allocated u64, used u64, data u64, checksum u64 | 40 |
//! | [`Header::Chain`], 0.1.0 of January 2015 | flags u32, allocated u64, used u64, memory u64, checksum u64 | 36 |
//! | [`Header::Encoding44`], 2014 | flags u32, allocated u64, used u64, checksum u64, encoding 16 | 44 |
//! | [`Header::Encoding40`], 2014, with the length given in its document | flags u32, allocated u64, used u64, checksum u64, encoding 12 | 40 |

use md5::{Digest, Md5};

use crate::encode::Encoding;

/// The magic of a block.
pub const MAGIC: [u8; 4] = *b"\xd3BLK";

/// The magic of a block in the document of 2014.
pub const MAGIC_2014: [u8; 4] = *b"\x89BLK";

/// The flag of a block that extends to the end of the file.
pub const STREAMED: u32 = 1;

/// The flag of a block that begins with a YAML chain of encodings (0.1.0 only).
pub(super) const ENCODED: u32 = 2;

/// The layout of a header; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Label48,
    Label40,
    Chain,
    Encoding44,
    Encoding40,
}

/// Content of the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The MD5 of the stored bytes, as the standard requires.
    Stored,
    /// The MD5 of the decoded bytes, as Python asdf up to 5.2 wrote it.
    Decoded,
    /// Zeros.
    None,
    /// An MD5 that matches nothing.
    Wrong,
}

/// A block to build. Defaults: 48-byte header, stored without compression, with the standard's checksum.
#[derive(Clone, Debug)]
pub struct Block {
    data: Vec<u8>,
    header: Header,
    encoding: Encoding,
    checksum: Checksum,
    streamed: bool,
    magic: [u8; 4],
    extra: Vec<u8>,
    slack: Vec<u8>,
    gap: Vec<u8>,
    chain: Option<Vec<u8>>,
    claims: Claims,
}

/// Header fields that differ from the truth.
#[derive(Clone, Debug, Default)]
struct Claims {
    flags: Option<u32>,
    header_size: Option<u16>,
    allocated_size: Option<u64>,
    used_size: Option<u64>,
    data_size: Option<u64>,
}

/// The facts and data that a reader must find for a block.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Offset of the magic.
    pub offset: u64,
    pub header_size: u16,
    /// Offset of the stored bytes.
    pub data_offset: u64,
    pub flags: u32,
    /// The compression label, including its NULs; all NULs if the layout has no label.
    pub label: [u8; 4],
    pub allocated_size: u64,
    pub used_size: u64,
    pub data_size: u64,
    /// The decoded data.
    pub data: Vec<u8>,
    pub checksum: Vec<u8>,
    pub streamed: bool,
}

impl Block {
    /// Returns a block of `data`.
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        Self {
            data: data.into(),
            header: Header::Label48,
            encoding: Encoding::Stored,
            checksum: Checksum::Stored,
            streamed: false,
            magic: MAGIC,
            extra: Vec::new(),
            slack: Vec::new(),
            gap: Vec::new(),
            chain: None,
            claims: Claims::default(),
        }
    }

    /// Chooses the header's layout.
    pub fn header(mut self, header: Header) -> Self {
        self.header = header;
        self
    }

    /// Chooses the encoding of the data.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Makes a 36-byte ENCODED block: the chain as YAML text, then `stored`, from which the chain decodes the
    /// data.
    pub fn chain(mut self, chain: &str, stored: Vec<u8>) -> Self {
        self.header = Header::Chain;
        self.chain = Some([chain.as_bytes(), &stored].concat());
        self
    }

    /// Chooses the content of the checksum field.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// Makes the block extend to the end of the file, with sizes of zero.
    pub fn streamed(mut self) -> Self {
        self.streamed = true;
        self
    }

    /// Chooses the magic.
    pub fn magic(mut self, magic: [u8; 4]) -> Self {
        self.magic = magic;
        self
    }

    /// Adds unknown bytes to the end of the header.
    pub fn extra_header(mut self, extra: impl AsRef<[u8]>) -> Self {
        self.extra = extra.as_ref().to_vec();
        self
    }

    /// Adds bytes that are allocated but unused.
    pub fn slack(mut self, slack: impl AsRef<[u8]>) -> Self {
        self.slack = slack.as_ref().to_vec();
        self
    }

    /// Inserts junk before the block.
    pub fn gap(mut self, gap: impl AsRef<[u8]>) -> Self {
        self.gap = gap.as_ref().to_vec();
        self
    }

    /// Makes the header claim other flags.
    pub fn claim_flags(mut self, flags: u32) -> Self {
        self.claims.flags = Some(flags);
        self
    }

    /// Makes the header claim another `header_size`.
    pub fn claim_header_size(mut self, size: u16) -> Self {
        self.claims.header_size = Some(size);
        self
    }

    /// Makes the header claim another `allocated_size`.
    pub fn claim_allocated(mut self, size: u64) -> Self {
        self.claims.allocated_size = Some(size);
        self
    }

    /// Makes the header claim another `used_size`.
    pub fn claim_used(mut self, size: u64) -> Self {
        self.claims.used_size = Some(size);
        self
    }

    /// Makes the header claim another `data_size`.
    pub fn claim_data(mut self, size: u64) -> Self {
        self.claims.data_size = Some(size);
        self
    }

    /// Returns the decoded data.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// True if the block extends to the end of the file.
    pub fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// Appends the block to a file.
    pub(super) fn write(&self, file: &mut Vec<u8>) -> Expected {
        let stored = self.chain.clone().unwrap_or_else(|| self.encoding.encode(&self.data));
        let flags = self.claims.flags.unwrap_or_else(|| {
            let streamed = if self.streamed { STREAMED } else { 0 };
            streamed | if self.chain.is_some() { ENCODED } else { 0 }
        });
        let size_of = |bytes: usize| if self.streamed { 0 } else { bytes as u64 };
        let allocated_size =
            self.claims.allocated_size.unwrap_or_else(|| size_of(stored.len() + self.slack.len()));
        let used_size = self.claims.used_size.unwrap_or_else(|| size_of(stored.len()));
        let data_size = self.claims.data_size.unwrap_or_else(|| size_of(self.data.len()));
        let checksum = self.checksum_of(&stored);
        let label = match self.header {
            Header::Label48 | Header::Label40 => self.encoding.label(),
            Header::Chain | Header::Encoding44 | Header::Encoding40 => [0; 4],
        };

        let mut fields = flags.to_be_bytes().to_vec();
        if matches!(self.header, Header::Label48 | Header::Label40) {
            fields.extend(label);
        }
        fields.extend(allocated_size.to_be_bytes());
        fields.extend(used_size.to_be_bytes());
        if matches!(self.header, Header::Label48 | Header::Label40 | Header::Chain) {
            fields.extend(data_size.to_be_bytes());
        }
        fields.extend(&checksum);
        match self.header {
            Header::Encoding44 => fields.extend([0; 16]),
            Header::Encoding40 => fields.extend([0; 12]),
            Header::Label48 | Header::Label40 | Header::Chain => {}
        }
        fields.extend(&self.extra);
        let header_size =
            self.claims.header_size.unwrap_or_else(|| u16::try_from(fields.len()).expect("a short header"));

        file.extend(&self.gap);
        let offset = file.len() as u64;
        file.extend(self.magic);
        file.extend(header_size.to_be_bytes());
        file.extend(fields);
        let data_offset = file.len() as u64;
        file.extend(stored);
        file.extend(&self.slack);
        Expected {
            offset,
            header_size,
            data_offset,
            flags,
            label,
            allocated_size,
            used_size,
            data_size,
            data: self.data.clone(),
            checksum,
            streamed: self.streamed,
        }
    }

    /// Returns the checksum field: 16 bytes of MD5 in the current header. Older headers get 8 zero bytes,
    /// because their checksum rule was never settled.
    fn checksum_of(&self, stored: &[u8]) -> Vec<u8> {
        if self.header != Header::Label48 {
            return vec![0; 8];
        }
        match self.checksum {
            _ if self.streamed => vec![0; 16],
            Checksum::Stored => Md5::digest(stored).to_vec(),
            Checksum::Decoded => Md5::digest(&self.data).to_vec(),
            Checksum::None => vec![0; 16],
            Checksum::Wrong => vec![0xab; 16],
        }
    }
}
