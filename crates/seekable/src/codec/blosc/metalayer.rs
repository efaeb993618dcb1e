//! The metalayers of a frame: named bytes, in its header and in its trailer.
//!
//! ```text
//! 93                  an array of three
//! cd u16              length of the map
//! de u16 count        a map, for each metalayer:
//!     a0+n name       a string of up to 31 bytes
//!     d2 i32          offset of its value, from the start of the header or trailer
//! dc u16 count        an array, for each metalayer:
//!     c6 u32 value    bytes
//! ```

use crate::content::Borrowed;
use crate::error::{Error, Result};

use super::{Buffer, Header, Scratch};

/// Maximum number of metalayers; the C library allows 16, and 8192 of variable length.
const MAX_LAYERS: u16 = 8 << 10;

/// Maximum decoded size of the value of a variable-length metalayer that is shown.
const MAX_VALUE: u32 = 1 << 20;

/// A metalayer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name, with escapes if it is no UTF-8.
    pub name: String,
    /// The value, as stored.
    pub value: Vec<u8>,
}

impl Layer {
    /// Returns the value of a variable-length metalayer, which is stored as a Blosc buffer.
    pub fn decoded(&self) -> Result<Vec<u8>> {
        let header =
            Header::of_chunk(&self.value[..self.value.len().min(super::header::EXTENDED_SIZE as usize)])?;
        if header.nbytes() > MAX_VALUE {
            return Err(Error::unsupported(format!("it has {} bytes", header.nbytes())));
        }
        let stored = Borrowed(&self.value);
        let mut value = Vec::new();
        Scratch::lend(|scratch| Buffer::new(&stored, 0, header).decode(scratch, &mut value))?;
        Ok(value)
    }
}

/// Returns the metalayers that the bytes from `at` on describe. All offsets count from the start of `bytes`.
pub(super) fn list(bytes: &[u8], at: usize) -> Result<Vec<Layer>> {
    let broken = |at: usize| Error::damaged("the metalayers of the frame are broken").at(at as u64);
    let head: &[u8; 7] = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(|| broken(at))?;
    let &[0x93, 0xcd, _, _, 0xde, high, low] = head else { return Err(broken(at)) };
    let count = u16::from_be_bytes([high, low]);
    if count > MAX_LAYERS {
        return Err(Error::damaged(format!("the frame says that it has {count} metalayers")).at(at as u64));
    }
    let mut layers = Vec::new();
    let mut at = at + head.len();
    for _ in 0..count {
        let layer = entry(bytes, &mut at).ok_or_else(|| broken(at))?;
        layers.push(layer);
    }
    Ok(layers)
}

/// Returns the metalayer whose entry in the map is at `at`, and moves on.
fn entry(bytes: &[u8], at: &mut usize) -> Option<Layer> {
    let (mark, rest) = bytes.get(*at..)?.split_first()?;
    let len = usize::from(mark & 0x1f);
    let (name, rest) = rest.split_at_checked(len).filter(|_| mark & 0xe0 == 0xa0)?;
    let &[0xd2, o0, o1, o2, o3] = rest.first_chunk()? else { return None };
    let place = usize::try_from(i32::from_be_bytes([o0, o1, o2, o3])).ok()?;
    let (&[0xc6, n0, n1, n2, n3], value) = bytes.get(place..)?.split_first_chunk()? else { return None };
    let value = value.get(..usize::try_from(u32::from_be_bytes([n0, n1, n2, n3])).ok()?)?;
    *at += 1 + len + 5;
    let name = match std::str::from_utf8(name) {
        Ok(name) => name.to_owned(),
        Err(_) => name.escape_ascii().to_string(),
    };
    Some(Layer { name, value: value.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_found() {
        let bytes =
            b"\x93\xcd\0\x0e\xde\0\x02\xa1a\xd2\0\0\0\x18\xa2bc\xd2\0\0\0\x1f__\xc6\0\0\0\x02xy\xc6\0\0\0\0";
        let layer = |name: &str, value: &[u8]| Layer { name: name.to_owned(), value: value.to_vec() };
        assert_eq!(list(bytes, 0).unwrap(), [layer("a", b"xy"), layer("bc", b"")]);
        for cut in 0..bytes.len() {
            assert!(list(&bytes[..cut], 0).is_err(), "{cut}");
        }
        for at in [0, 1, 4, 7, 9, 24] {
            let mut bad = bytes.to_vec();
            bad[at] = 0x10;
            assert!(list(&bad, 0).is_err(), "{at}");
        }
        assert!(list(bytes, usize::MAX).is_err());
    }
}
