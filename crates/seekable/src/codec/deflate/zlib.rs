//! The zlib wrapper of a deflate stream (RFC 1950): a two-byte header before it, an Adler-32 after it.

use super::fault::{Cause, Fault};
use super::inflate::Position;
use super::input::Input;
use crate::content::Content;
use crate::error::{Error, Result};

/// The first bit of the deflate stream.
pub const FIRST_BIT: u64 = 16;

/// Size of the checksum in bytes.
const CHECKSUM: usize = 4;

/// The two-byte zlib header, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Maximum distance of a match, as declared by the writer: 256 bytes to 32 KiB.
    ///
    /// No reader, zlib included, enforces this maximum.
    pub window: usize,
}

impl Header {
    /// Reads the header from `stored`.
    pub fn read(stored: &dyn Content) -> Result<Self> {
        let mut bytes = [0; 2];
        crate::content::read_exact_at(stored, 0, &mut bytes)?;
        Self::parse(bytes)
    }

    /// Parses the two bytes of a header.
    pub fn parse(bytes: [u8; 2]) -> Result<Self> {
        let [method, flags] = bytes;
        if !u16::from_be_bytes(bytes).is_multiple_of(31) || method & 15 != 8 || method >> 4 > 7 {
            return Err(Error::damaged(format!(
                "a zlib stream can't begin with bytes {method:02x} {flags:02x}"
            ))
            .at(0));
        }
        if flags & 0x20 != 0 {
            return Err(Error::unsupported("the zlib stream needs a dictionary, which isn't in it"));
        }
        Ok(Self { window: 256 << (method >> 4) })
    }
}

/// Returns the stored checksum after a deflate stream that ends at `end`.
pub fn stored_checksum(stored: &dyn Content, end: Position) -> std::result::Result<u32, Fault> {
    let mut input = Input::default();
    let bytes = input.from(stored, end.bit.div_ceil(8), CHECKSUM);
    match bytes.first_chunk() {
        Some(checksum) => Ok(u32::from_be_bytes(*checksum)),
        None => {
            let why = input.take_error().map_or(Cause::Cut, Cause::Unreadable);
            Err(Fault { bit: end.bit, offset: end.offset, why })
        }
    }
}

/// The Adler-32 of some bytes, which may be part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adler {
    /// The checksum of these bytes alone.
    pub sum: u32,
    /// Number of bytes.
    pub len: u64,
}

impl Adler {
    /// Checksum of no bytes.
    pub const EMPTY: Self = Self { sum: 1, len: 0 };

    /// Returns the checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { sum: simd_adler32::adler32(&bytes), len: bytes.len() as u64 }
    }

    /// Returns the checksum of these bytes followed by the bytes of `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        /// The largest prime below 2^16.
        const MODULUS: u64 = 65521;
        let low = |sum: u32| u64::from(sum & 0xffff);
        let high = |sum: u32| u64::from(sum >> 16);
        // `low` is one more than the sum of the bytes; `high` is the sum of `low` after each byte.
        let gained = low(self.sum) + MODULUS - 1;
        let a = (gained + low(next.sum)) % MODULUS;
        let b = (high(self.sum) + high(next.sum) + (next.len % MODULUS) * gained) % MODULUS;
        Self { sum: (b << 16 | a) as u32, len: self.len.saturating_add(next.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_make_that_of_the_whole() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8 | 0x80).collect();
        for cut in [0, 1, 65_521, 131_042, 199_999, 200_000] {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(Adler::of(first).then(Adler::of(second)), Adler::of(&bytes), "{cut}");
        }
        assert_eq!(Adler::of(b""), Adler::EMPTY);
    }

    #[test]
    fn headers_are_told_from_other_bytes() {
        assert_eq!(Header::parse([0x78, 0x9c]).unwrap().window, 32 << 10);
        assert_eq!(Header::parse([0x18, 0x19]).unwrap().window, 512);
        for wrong in [[0x78, 0x9d], [0x79, 0x9b], [0x88, 0x1c], [0, 0]] {
            assert!(Header::parse(wrong).is_err(), "{wrong:?}");
        }
        let dictionary = Header::parse([0x78, 0xbb]).unwrap_err();
        assert_eq!(dictionary.kind(), crate::Kind::Unsupported);
    }
}
