//! Encoding chains, as ASDF 0.1.0 had them in January 2015 (asdf-standard, pull requests 45 and 47).
//!
//! A block with the flag ENCODED begins with a YAML document that lists the encodings in the order in which
//! the writer applied them. Reading undoes them from last to first. The document ends with a line `...`, and
//! the encoded bytes follow it directly. `used_size` counts both:
//!
//! ```text
//! --- [[tile, {shape: [32, 32], original_shape: [99, 99], item_size: 8}], zlib]
//! ...
//! <encoded bytes>
//! ```
//!
//! An entry is a name, a list of a name, or a list of a name and a mapping of arguments. Unknown arguments
//! are ignored (`quality` of `quantize` is for the writer only).
//!
//! | name | takes | gives | arguments |
//! |---|---|---|---|
//! | `tile` | array | array | `shape`, `original_shape`, `item_size` |
//! | `quantize` | array | bytes | `dtype` (32 or 64), `original_shape` |
//! | `zlib` | bytes, or the bytes of an array | bytes | |
//!
//! Three rules go beyond the text of these pull requests:
//!
//! - The reference implementation gave every encoding the shape of the array before the first one. After
//!   `tile`, the `original_shape` of `quantize` may therefore be that shape or the shape of the tiles.
//! - The decoded values of `quantize` are little-endian, as on the machines of the writers.
//! - `shape` may have fewer dimensions than the array, as in the reference implementation. Tiles then span
//!   the remaining dimensions.

mod document;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::codec::{self, Codec, StoredStream};
use seekable::error::{Error, Result};

use seekable::content::Content;

use crate::array::tile::{Tiled, Tiling};
use crate::asdf::quantize::{Float, Quantized};
pub(crate) use document::HEAD;
pub use document::parse;

/// Maximum number of bytes to which one byte of a zlib stream can decode: two bits for 258 bytes.
const ZLIB_RATIO: u64 = 1032;

/// An encoding with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Encoding {
    Tile(Tiling),
    Quantize {
        float: Float,
        /// The number of values in an array of `original_shape`.
        values: u64,
    },
    Zlib,
}

impl Encoding {
    fn name(&self) -> &'static str {
        match self {
            Self::Tile(_) => "tile",
            Self::Quantize { .. } => "quantize",
            Self::Zlib => "zlib",
        }
    }
}

/// The encodings of a block, in the order in which they were applied.
///
/// Displayed as in a block's facts: `tile+zlib`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingChain {
    encodings: Vec<Encoding>,
}

impl fmt::Display for EncodingChain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, encoding) in self.encodings.iter().enumerate() {
            let plus = if n == 0 { "" } else { "+" };
            write!(out, "{plus}{}", encoding.name())?;
        }
        Ok(())
    }
}

/// Opens the decoded bytes, `memory_size` of them, of a block whose encoded bytes are `stored`.
///
/// `stored` begins after the chain's document, at the offset that [`parse`] returns, and ends with the
/// block's `used_size`. Nothing is decoded yet. An error means that the chain contradicts the sizes.
pub fn open(
    chain: &EncodingChain,
    stored: Arc<dyn Content>,
    memory_size: u64,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    open_stream(chain, StoredStream::new(stored, memory_size), cache)
}

/// Opens the decoded bytes of a block that may have a name ([`codec::open_stream`]).
pub(crate) fn open_stream(
    chain: &EncodingChain,
    stream: StoredStream,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    // The first stream that is opened is the stored one. Streams nested in it have no name.
    let name = Cell::new(stream.name);
    open_with(chain, stream.stored, stream.data_size, &|codec, stored, data_size| {
        codec::open_stream(codec, StoredStream { stored, data_size, name: name.take() }, cache)
    })
    .map_err(|error| error.within(format!("the encoding chain {chain}")))
}

/// A function that opens a compressed stream: codec, stored bytes, decoded size.
type Decompress<'a> = &'a dyn Fn(Codec, Arc<dyn Content>, u64) -> Result<Arc<dyn Content>>;

fn open_with(
    chain: &EncodingChain,
    stored: Arc<dyn Content>,
    memory_size: u64,
    decompress: Decompress<'_>,
) -> Result<Arc<dyn Content>> {
    let (sizes, encoded_size) = sizes(chain, memory_size)?;
    // Missing tiles are reported when they are read, as the tiles before them are right. Extra bytes mean
    // that the block was written with another chain.
    let missing = |size| !chain.encodings.is_empty() && stored.len() < size;
    if let Some(size) = encoded_size
        && size != stored.len()
        && !missing(size)
    {
        return Err(Error::damaged(format!("{} bytes are stored, but {size} belong to it", stored.len())));
    }
    let mut content = stored;
    // True if the length of `content` is exact, false if it is an upper bound.
    let mut ends_known = true;
    for (encoding, decoded_size) in chain.encodings.iter().zip(sizes).rev() {
        content = match encoding {
            Encoding::Tile(tiling) => Arc::new(Tiled::new(content, tiling.clone())),
            Encoding::Quantize { float, .. } => {
                let values = decoded_size.unwrap_or(0) / float.size();
                Arc::new(Quantized::new(content, ends_known, values, *float)?)
            }
            Encoding::Zlib => {
                // If the decoded length is unknown, an upper bound is used. The next encoding reads only the
                // bytes that it needs, so it does not read past the real end.
                let bound = content.len().saturating_mul(ZLIB_RATIO).min(i64::MAX as u64);
                decompress(Codec::Zlib, content, decoded_size.unwrap_or(bound))?
            }
        };
        ends_known = decoded_size.is_some();
    }
    Ok(content)
}

/// Returns the size in bytes of each encoding's input, if it can be known without decoding, and of the output
/// of the last encoding.
fn sizes(chain: &EncodingChain, memory_size: u64) -> Result<(Vec<Option<u64>>, Option<u64>)> {
    let mut size = Some(memory_size);
    let mut sizes = Vec::new();
    // The number of values before the first tiling. The `original_shape` of `quantize` may have this number
    // of values, too.
    let mut whole = None;
    for encoding in &chain.encodings {
        sizes.push(size);
        size = match encoding {
            Encoding::Tile(tiling) => {
                fits(tiling.decoded_len(), size, "tile")?;
                whole.get_or_insert(tiling.items());
                Some(tiling.encoded_len())
            }
            Encoding::Quantize { float, values } => {
                let bytes = values.checked_mul(float.size());
                let given = size.filter(|size| size % float.size() == 0);
                if given.is_none() || (bytes != given && whole != Some(*values)) {
                    fits(bytes.unwrap_or(u64::MAX), size, "quantize")?;
                }
                None
            }
            Encoding::Zlib => None,
        };
    }
    Ok((sizes, size))
}

fn fits(bytes: u64, given: Option<u64>, encoding: &str) -> Result<()> {
    match given {
        Some(given) if given == bytes => Ok(()),
        Some(given) => Err(Error::damaged(format!(
            "{encoding} describes {bytes} bytes, but encoded {given} when the block was written"
        ))),
        None => {
            Err(Error::damaged(format!("{encoding} comes after an encoding whose output is not an array")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use proptest::prelude::*;

    use super::*;
    use seekable::content::{Text, read_exact_at};

    pub(crate) fn chain(text: &str) -> Result<EncodingChain> {
        parse(format!("--- {text}\n...\n").as_bytes()).map(|(chain, _)| chain)
    }

    fn text(bytes: impl Into<Vec<u8>>) -> Arc<dyn Content> {
        Arc::new(Text::new(bytes.into()))
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A stream decompressed at once. If the stream is shorter than its size says, reads return the good
    /// prefix, then an error.
    #[derive(Debug)]
    struct Inflated(Vec<u8>, u64);

    impl Content for Inflated {
        fn len(&self) -> u64 {
            self.1
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let read = Text::new(self.0.clone()).read_at(offset, buf)?;
            match read {
                0 if offset < self.1 && !buf.is_empty() => Err(Error::damaged("the stream ends early")),
                read => Ok(read),
            }
        }
    }

    fn inflate(codec: Codec, stored: Arc<dyn Content>, size: u64) -> Result<Arc<dyn Content>> {
        assert_eq!(codec, Codec::Zlib);
        let mut bytes = vec![0; stored.len().min(1 << 20) as usize];
        let read = stored.read_at(0, &mut bytes)?;
        let mut decoded = Vec::new();
        flate2::read::ZlibDecoder::new(&bytes[..read]).read_to_end(&mut decoded)?;
        assert!(decoded.len() as u64 <= size);
        Ok(Arc::new(Inflated(decoded, size)))
    }

    fn decode(chain: &EncodingChain, stored: Vec<u8>, size: u64) -> Result<Vec<u8>> {
        let content = open_with(chain, text(stored), size, &inflate)?;
        assert_eq!(content.len(), size);
        let mut bytes = vec![0; size as usize];
        read_exact_at(&*content, 0, &mut bytes)?;
        assert_eq!(content.read_at(size, &mut [0])?, 0);
        Ok(bytes)
    }

    fn quantized(values: &[i8]) -> Vec<u8> {
        let mut chunk = vec![8];
        chunk.extend(0.5f64.to_be_bytes());
        chunk.extend(2f64.to_be_bytes());
        chunk.extend((values.len() as u64).to_be_bytes());
        chunk.extend(values.iter().map(|&value| value as u8));
        chunk
    }

    #[test]
    fn encodings_are_undone_from_last_to_first() {
        let tile = chain("[[tile, {shape: [2, 2], original_shape: [3, 3], item_size: 1}], zlib]").unwrap();
        assert_eq!(decode(&tile, deflate(b"abdec-f-gh--i---"), 9).unwrap(), b"abcdefghi");
        let plain = chain("[[tile, {shape: [2, 2], original_shape: [3, 3], item_size: 1}]]").unwrap();
        assert_eq!(decode(&plain, b"abdec-f-gh--i---".to_vec(), 9).unwrap(), b"abcdefghi");
        let twice = chain("[zlib, zlib, zlib]").unwrap();
        assert_eq!(decode(&twice, deflate(&deflate(&deflate(b"abc"))), 3).unwrap(), b"abc");
        assert_eq!(decode(&chain("[]").unwrap(), b"abc".to_vec(), 3).unwrap(), b"abc");
    }

    #[test]
    fn tiles_of_quantized_values_in_a_stream_as_long_as_it_likes() {
        let values = [1i8, 2, 4, 5, 3, 0, 6, 0, -7, -8, 0, 0, -9, 0, 0, 0];
        let packed = [quantized(&values[..5]), quantized(&values[5..])].concat();
        let array = [1i8, 2, 3, 4, 5, 6, -7, -8, -9].map(|value| f32::from(value) * 2.0 + 0.5);
        for original in ["[3, 3]", "[4, 2, 2]", "[16]"] {
            for last in ["", ", zlib", ", zlib, zlib"] {
                let chain = chain(&format!(
                    "[[tile, {{shape: [2, 2], original_shape: [3, 3], item_size: 4}}], \
                     [quantize, {{dtype: 32, original_shape: {original}}}]{last}]"
                ))
                .unwrap();
                let stored = last.matches("zlib").fold(packed.clone(), |bytes, _| deflate(&bytes));
                assert_eq!(decode(&chain, stored, 36).unwrap(), array.map(f32::to_le_bytes).concat());
            }
        }
    }

    #[test]
    fn sizes_that_contradict_each_other_are_named() {
        let tile = "[tile, {shape: [2, 2], original_shape: [3, 3], item_size: 4}]";
        for (text, stored, size, expected) in [
            (format!("[{tile}]"), 64, 35, "tile describes 36 bytes, but encoded 35"),
            (format!("[{tile}]"), 65, 36, "65 bytes are stored, but 64"),
            (format!("[{tile}, {tile}]"), 64, 36, "tile describes 36 bytes, but encoded 64"),
            ("[[quantize, {dtype: 64, original_shape: [2]}]]".to_owned(), 50, 8, "quantize describes 16"),
            ("[[quantize, {dtype: 64, original_shape: [1]}]]".to_owned(), 50, 9, "quantize describes 8"),
            (format!("[{tile}, [quantize, {{dtype: 32, original_shape: [10]}}]]"), 64, 36, "describes 40"),
            ("[]".to_owned(), 3, 4, "3 bytes are stored, but 4"),
        ] {
            let error = decode(&chain(&text).unwrap(), vec![0; stored], size).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn bytes_after_the_last_value_and_cut_streams_are_errors() {
        let quantize = "[quantize, {dtype: 64, original_shape: [2]}]";
        let packed = quantized(&[1, 2]);
        for (text, pack) in [
            (format!("[{quantize}]"), (|b: &[u8]| b.to_vec()) as fn(&[u8]) -> Vec<u8>),
            (format!("[{quantize}, zlib]"), deflate),
        ] {
            let chain = chain(&text).unwrap();
            decode(&chain, pack(&packed), 16).unwrap();
            decode(&chain, pack(&[&packed[..], b"x"].concat()), 16).unwrap_err();
            decode(&chain, pack(&packed[..packed.len() - 1]), 16).unwrap_err();
        }
    }

    #[test]
    fn the_codecs_own_zlib_undoes_its_part() {
        let cache = Arc::new(Cache::new(1 << 20));
        let quantize = "[quantize, {dtype: 64, original_shape: [2]}]";
        let two = [2.5f64, 4.5].map(f64::to_le_bytes).concat();
        for (text, stored, expected) in [
            ("[zlib]".to_owned(), deflate(b"abc"), b"abc".to_vec()),
            ("[zlib, zlib]".to_owned(), deflate(&deflate(b"abc")), b"abc".to_vec()),
            (format!("[{quantize}, zlib]"), deflate(&quantized(&[1, 2])), two.clone()),
            (format!("[{quantize}, zlib, zlib]"), deflate(&deflate(&quantized(&[1, 2]))), two),
        ] {
            let content =
                open(&chain(&text).unwrap(), self::text(stored), expected.len() as u64, &cache).unwrap();
            let mut bytes = vec![0; expected.len()];
            read_exact_at(&*content, 0, &mut bytes).unwrap();
            assert_eq!(bytes, expected);
            assert_eq!(content.read_at(expected.len() as u64, &mut [0]).unwrap(), 0);
        }
    }

    proptest! {
        #[test]
        fn no_document_panics(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("[tile, {shape: [2], original_shape: [3], item_size: 4}]".to_owned()),
                    Just("[quantize, {dtype: 32, original_shape: [4]}]".to_owned()),
                    Just("zlib".to_owned()),
                    "[a-z\\[\\]{}:, 0-9'*&!-]{0,12}",
                    (any::<u64>(), any::<i64>(), any::<u64>()).prop_map(|(a, b, c)| format!(
                        "[tile, {{shape: [{a}, {b}], original_shape: [{c}, 3], item_size: {b}}}]"
                    )),
                ],
                0..5,
            ),
            data in prop::collection::vec(any::<u8>(), 0..80),
            size in prop_oneof![Just(12u64), Just(16), any::<u64>()],
        ) {
            if let Ok(chain) = chain(&format!("[{}]", parts.join(", ")))
                && let Ok(content) = open_with(&chain, text(data), size, &|_, stored, _| Ok(stored))
            {
                let mut buf = [0; 64];
                let _ = content.read_at(0, &mut buf);
                let _ = content.read_at(size / 2, &mut buf);
                let _ = content.read_at(size, &mut buf);
            }
        }
    }
}
