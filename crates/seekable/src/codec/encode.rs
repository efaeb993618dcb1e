//! Encodes contents, in bounded memory, as other programs read them.

use std::io::Write;

use lz4_flex::block::{compress_into, get_maximum_output_size};
use lz4_flex::frame::FrameEncoder;

use super::Codec;
use crate::content::{Content, each_piece};
use crate::error::{Error, Result};

/// Maximum length of a part, in bytes: it is encoded in memory.
pub const MAX_PART: u64 = 64 << 20;

impl Codec {
    /// True if [`encode`] writes streams of this codec.
    pub fn is_encoded(self) -> bool {
        !matches!(self, Self::Blosc | Self::Blosc2)
    }
}

/// Writes `content` as one stream of `codec`; LZ4 in ASDF's framing, in parts of `part` bytes, of which the last may be
/// shorter. Other codecs have no parts. `count` gets the numbers of bytes read.
///
/// # Errors
/// The content can't be read, `out` can't be written, a part is empty or longer than [`MAX_PART`], or streams of the codec
/// are not written.
pub fn encode(
    codec: Codec,
    content: &dyn Content,
    part: u64,
    out: &mut dyn Write,
    count: &dyn Fn(u64),
) -> Result<()> {
    let copy = |out: &mut dyn Write| {
        each_piece(content, &mut |piece| {
            count(piece.len() as u64);
            Ok(out.write_all(piece)?)
        })
    };
    match codec {
        Codec::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
            copy(&mut encoder)?;
            encoder.finish()?;
        }
        Codec::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(out, bzip2::Compression::best());
            copy(&mut encoder)?;
            encoder.finish()?;
        }
        Codec::Zstd => {
            let mut encoder = ::zstd::stream::write::Encoder::new(out, ::zstd::DEFAULT_COMPRESSION_LEVEL)?;
            // Readers take a frame that states its size for one chunk.
            encoder.set_pledged_src_size(Some(content.len()))?;
            encoder.include_contentsize(true)?;
            encoder.include_checksum(true)?;
            copy(&mut encoder)?;
            encoder.finish()?;
        }
        Codec::Lz4Frame => {
            let mut encoder = FrameEncoder::new(out);
            copy(&mut encoder)?;
            encoder.finish().map_err(std::io::Error::from)?;
        }
        Codec::Lz4 => encode_pieces(content, part, out, count)?,
        Codec::Blosc | Codec::Blosc2 => return Err(Error::unsupported("Blosc is read, but not written")),
    }
    Ok(())
}

/// Writes blocks of LZ4, each behind the stored length (u32, big-endian) and the decoded length (u32, little-endian).
fn encode_pieces(content: &dyn Content, part: u64, out: &mut dyn Write, count: &dyn Fn(u64)) -> Result<()> {
    let too_large = || Error::unsupported(format!("a part of {part} bytes is not encoded"));
    if part == 0 || part > MAX_PART {
        return Err(too_large());
    }
    let mut piece = vec![0; part.min(content.len()) as usize];
    let mut block = vec![0; get_maximum_output_size(piece.len())];
    let mut at = 0;
    while at < content.len() {
        let len = (content.len() - at).min(part) as usize;
        crate::content::read_exact_at(content, at, &mut piece[..len])?;
        let stored = compress_into(&piece[..len], &mut block)
            .map_err(|error| Error::unsupported(error.to_string()))?;
        let stored_len = u32::try_from(stored + 4).map_err(|_| too_large())?;
        let decoded_len = u32::try_from(len).map_err(|_| too_large())?;
        out.write_all(&stored_len.to_be_bytes())?;
        out.write_all(&decoded_len.to_le_bytes())?;
        out.write_all(&block[..stored])?;
        count(len as u64);
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Cache;
    use crate::content::{Borrowed, Text};

    #[test]
    fn what_is_encoded_is_decoded_to_the_same_bytes() {
        let cache = Arc::new(Cache::new(1 << 20));
        for len in [1, 1000, 300_000] {
            let bytes: Vec<u8> = (0..len).map(|n: u32| (n.wrapping_mul(n) / 7) as u8).collect();
            for codec in Codec::ALL.into_iter().filter(|codec| codec.is_encoded()) {
                let mut stored = Vec::new();
                encode(codec, &Borrowed(&bytes), 4096, &mut stored, &|_| {}).unwrap();
                let content =
                    crate::codec::open(codec, Arc::new(Text::new(stored)), bytes.len() as u64, &cache)
                        .unwrap();
                let mut decoded = vec![0; bytes.len()];
                crate::content::read_exact_at(&*content, 0, &mut decoded).unwrap();
                assert!(decoded == bytes, "{codec:?} {len}");
                assert!(
                    content.read_at(bytes.len() as u64, &mut [0]).unwrap() == 0 && content.damage().is_none()
                );
            }
        }
        assert!(encode(Codec::Blosc, &Borrowed(b"x"), 1, &mut Vec::new(), &|_| {}).is_err());
        assert!(encode(Codec::Lz4, &Borrowed(b"x"), 0, &mut Vec::new(), &|_| {}).is_err());
    }
}
