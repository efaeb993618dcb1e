//! The parts of a stored stream that codecs of other programs can decode independently. The codecs have the
//! names of numcodecs, the codecs of Zarr.
//!
//! | stored | parts |
//! |---|---|
//! | zlib, bzip2 | the whole stream |
//! | lz4 in ASDF's framing | each LZ4 block with its little-endian decoded size before it, as in numcodecs |
//! | zstd | the whole stream if its first frame states the whole decoded size, else each frame |
//! | Blosc | each buffer |
//!
//! Only headers are read.

use std::sync::Arc;

pub use super::part::ExternalPart;

use super::Codec;
use crate::content::Content;
use crate::error::{Error, Result};

/// Maximum number of parts that are listed.
pub const MAX_PARTS: usize = 1 << 20;

/// Returns the parts of `stored` in order, which together decode to `data_size` bytes.
///
/// # Errors
/// The stream is damaged, or other programs can't decode it in parts.
pub fn parts(codec: Codec, stored: &Arc<dyn Content>, data_size: u64) -> Result<Vec<ExternalPart>> {
    let mut parts = ExternalParts::default();
    codec.each_part(stored, data_size, &mut |part| parts.add(part))?;
    if parts.len == data_size {
        Ok(parts.parts)
    } else {
        Err(Error::damaged("the parts of the compressed block do not add up to its size"))
    }
}

#[derive(Default)]
struct ExternalParts {
    parts: Vec<ExternalPart>,
    len: u64,
}

impl ExternalParts {
    fn add(&mut self, part: ExternalPart) -> Result<()> {
        if self.parts.len() >= MAX_PARTS {
            return Err(Error::unsupported(format!("the block has more than {MAX_PARTS} chunks")));
        }
        self.len = self.len.saturating_add(part.len);
        self.parts.push(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    fn of(codec: Codec, stored: &[u8], data_size: u64) -> Result<Vec<ExternalPart>> {
        let stored: Arc<dyn Content> = Arc::new(Text::new(stored));
        parts(codec, &stored, data_size)
    }

    #[test]
    fn the_parts_of_each_codec_are_found() {
        let whole = [ExternalPart { offset: 0, stored: 9, len: 50 }];
        assert_eq!(of(Codec::Zlib, &[0; 9], 50).unwrap(), whole);
        let piece = |bytes: &[u8]| {
            let block = lz4_flex::block::compress_prepend_size(bytes);
            [&(block.len() as u32).to_be_bytes()[..], &block].concat()
        };
        let one = piece(&[7; 100]);
        let other = piece(&[8; 100]);
        let found = of(Codec::Lz4, &[&one[..], &other].concat(), 200).unwrap();
        let part = |offset: usize, stored: usize| ExternalPart {
            offset: offset as u64,
            stored: stored as u64,
            len: 100,
        };
        assert_eq!(found, [part(4, one.len() - 4), part(one.len() + 4, other.len() - 4)]);
        assert!(of(Codec::Lz4, &[&one[..], &other].concat(), 199).is_err());
        assert!(of(Codec::Lz4, &one[..one.len() - 1], 100).is_err());

        let frame = |bytes: &[u8]| ::zstd::bulk::compress(bytes, 1).unwrap();
        let one = frame(&[7; 100]);
        let other = frame(&[8; 100]);
        assert_eq!(of(Codec::Zstd, &one, 100).unwrap(), [part(0, one.len())]);
        let found = of(Codec::Zstd, &[&one[..], &other].concat(), 200).unwrap();
        assert_eq!(found, [part(0, one.len()), part(one.len(), other.len())]);
        assert!(of(Codec::Zstd, &[&one[..], &other[..3]].concat(), 200).is_err());
        for codec in [Codec::Lz4, Codec::Zstd, Codec::Blosc] {
            assert!(of(codec, &[1; 40], 100).is_err(), "{codec:?}");
        }
    }
}
