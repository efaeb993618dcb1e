//! The nine kinds of checksum that follow a chunk or the metadata.
//!
//! A checksum covers the stored bytes, including the chunk's own header. Adler-32 and CRC-32 are stored as
//! little-endian numbers, the others as their digest bytes.

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use seekable::error::{Error, Result};
use seekable::source::{Source, read_up_to};

/// Bytes that are read and hashed at once.
const PIECE: usize = 256 << 10;

/// A kind of checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// No checksum.
    None,
    /// Adler-32, of zlib.
    Adler32,
    /// CRC-32, of zlib.
    Crc32,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Checksum {
    /// All kinds, by their number in headers.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Adler32,
        Self::Crc32,
        Self::Md5,
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
    ];

    /// Returns the kind with this number.
    pub fn of(number: u8) -> Result<Self> {
        Self::ALL.get(usize::from(number)).copied().ok_or_else(|| {
            Error::unsupported(format!("checksum {number} is not known: Bloscpack has the numbers 0 to 8"))
        })
    }

    /// Returns the name of the checksum.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Adler32 => "adler32",
            Self::Crc32 => "crc32",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// Returns the size of the checksum in bytes.
    pub fn size(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Adler32 | Self::Crc32 => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Computes the checksum of `len` bytes of a source, in the form in which files store it.
    pub fn sum(self, source: &dyn Source, start: u64, len: u64) -> Result<Vec<u8>> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Adler32 => {
                let mut sum = simd_adler32::Adler32::new();
                each(source, start, len, |bytes| sum.write(bytes))?;
                Ok(sum.finish().to_le_bytes().to_vec())
            }
            Self::Crc32 => {
                let mut sum = crc32fast::Hasher::new();
                each(source, start, len, |bytes| sum.update(bytes))?;
                Ok(sum.finalize().to_le_bytes().to_vec())
            }
            Self::Md5 => digest::<Md5>(source, start, len),
            Self::Sha1 => digest::<Sha1>(source, start, len),
            Self::Sha224 => digest::<Sha224>(source, start, len),
            Self::Sha256 => digest::<Sha256>(source, start, len),
            Self::Sha384 => digest::<Sha384>(source, start, len),
            Self::Sha512 => digest::<Sha512>(source, start, len),
        }
    }

    /// True if `bytes` end with the checksum of the bytes before it.
    pub fn ends(self, bytes: &[u8]) -> bool {
        let Some((data, stored)) =
            bytes.len().checked_sub(self.size() as usize).map(|len| bytes.split_at(len))
        else {
            return false;
        };
        match self {
            Self::None => true,
            Self::Adler32 => simd_adler32::adler32(&data).to_le_bytes() == stored,
            Self::Crc32 => crc32fast::hash(data).to_le_bytes() == stored,
            Self::Md5 => Md5::digest(data)[..] == *stored,
            Self::Sha1 => Sha1::digest(data)[..] == *stored,
            Self::Sha224 => Sha224::digest(data)[..] == *stored,
            Self::Sha256 => Sha256::digest(data)[..] == *stored,
            Self::Sha384 => Sha384::digest(data)[..] == *stored,
            Self::Sha512 => Sha512::digest(data)[..] == *stored,
        }
    }

    /// Reads the stored checksum at offset `at`.
    pub fn stored(self, source: &dyn Source, at: u64) -> Result<Vec<u8>> {
        let mut stored = vec![0; self.size() as usize];
        match read_up_to(source, at, &mut stored)? {
            read if read == stored.len() => Ok(stored),
            _ => Err(Error::damaged("the checksum is cut off").at(at)),
        }
    }
}

fn digest<D: Digest>(source: &dyn Source, start: u64, len: u64) -> Result<Vec<u8>> {
    let mut digest = D::new();
    each(source, start, len, |bytes| digest.update(bytes))?;
    Ok(digest.finalize().to_vec())
}

/// Passes `len` bytes of a source to `take`, piece by piece.
fn each(source: &dyn Source, start: u64, len: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
    let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
    let mut done = 0;
    while done < len {
        let wanted = piece.len().min(usize::try_from(len - done).unwrap_or(PIECE));
        match source.read_at(start.saturating_add(done), &mut piece[..wanted])? {
            0 => return Err(Error::damaged("the data are cut off").at(start.saturating_add(done))),
            read => {
                take(&piece[..read]);
                done += read as u64;
            }
        }
    }
    Ok(())
}
