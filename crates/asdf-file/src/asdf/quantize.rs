//! Quantized floating-point values: integers of any bit width with a scale and an offset, in chunks.
//!
//! The stream is a sequence of chunks (document of ASDF 0.1.0, January 2015, "Built-in array-to-binary
//! encodings"). All numbers are big-endian:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 1 | `encoded_bits` | bits of a value |
//! | 8 | `offset` | double |
//! | 8 | `scale` | double |
//! | 8 | `nvalues` | values of the chunk |
//! | ⌈`encoded_bits` · `nvalues` / 8⌉ | the values | two's complement, packed without gaps, most significant bit first, zero-padded to a byte |
//!
//! A value decodes to `encoded · scale + offset`. The computation is in double precision, and rounded to
//! single precision at the end if 32 bits are wanted. The document does not define the byte order of the
//! decoded values in memory; they are little-endian, as on the machines of the writers.
//!
//! Only values that are read are decoded.

mod chunks;
mod integer;

use std::sync::Arc;

use seekable::error::{Error, Result};

use chunks::{Chunk, Chunks};
use integer::{SPARE, unpack};
use seekable::content::{Content, Soundness, read_exact_at};

/// The number of values unpacked at once: at most 64 KiB of packed values.
const BATCH: u64 = 2048;

/// The floating-point type of the decoded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

impl Float {
    /// Returns the size of a value in bytes.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// The decoded values of a stream of chunks.
#[derive(Debug)]
pub(crate) struct Quantized {
    chunks: Chunks,
    len: u64,
    float: Float,
}

impl Quantized {
    /// Returns the `values` values in the chunks `packed`.
    ///
    /// `ends_known` says whether the length of `packed` is exact. If not, the length is an upper bound, as
    /// after a decompressor with an unknown output size. An error after the last chunk is then taken for the
    /// end.
    pub(crate) fn new(packed: Arc<dyn Content>, ends_known: bool, values: u64, float: Float) -> Result<Self> {
        let len = values
            .checked_mul(float.size())
            .ok_or_else(|| Error::damaged("more quantized values than a file can hold"))?;
        Ok(Self { chunks: Chunks::new(packed, ends_known, values), len, float })
    }

    /// Reads the packed values `start..start + count` of a chunk into `bits`. Returns the number of values
    /// read and the bit at which they begin.
    fn fetch(&self, chunk: &Chunk, start: u64, count: u64, bits: &mut Vec<u8>) -> Result<(u64, u64)> {
        let width = u64::from(chunk.encoded_bits);
        if width == 0 {
            bits.clear();
            bits.resize(SPARE, 0);
            return Ok((count, 0));
        }
        // The number of a chunk's bits may overflow a u64; the number of its bytes does not.
        let first_bit = u128::from(start) * u128::from(width);
        let skip = (first_bit % 8) as u64;
        let at = chunk.data + (first_bit / 8) as u64;
        let len = (skip + count * width).div_ceil(8) as usize;
        bits.clear();
        bits.resize(len + SPARE, 0);
        let mut done = 0;
        while done < len {
            match self.chunks.packed.read_at(at + done as u64, &mut bits[done..len]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        let there = (done as u64 * 8).saturating_sub(skip) / width;
        if there == 0 {
            // The read is repeated to get the content's own error.
            read_exact_at(&*self.chunks.packed, at, &mut bits[..len])?;
        }
        Ok((there.min(count), skip))
    }

    /// Returns a decoded value's bytes in the first [`Float::size`] places.
    fn bytes(&self, value: f64) -> [u8; 8] {
        let mut bytes = [0; 8];
        match self.float {
            Float::Single => bytes[..4].copy_from_slice(&(value as f32).to_le_bytes()),
            Float::Double => bytes = value.to_le_bytes(),
        }
        bytes
    }
}

impl Content for Quantized {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        if wanted == 0 {
            return self.chunks.check_end().map(|()| 0);
        }
        let size = self.float.size();
        let mut packed = Vec::new();
        let mut chunk = None::<Chunk>;
        let mut done = 0;
        while done < wanted {
            let place = offset + done as u64;
            let value = place / size;
            let mut skip = (place % size) as usize;
            let fetched = match chunk {
                Some(chunk) if value < chunk.end() => Ok(chunk),
                _ => self.chunks.find(value, chunk),
            }
            .and_then(|found| {
                chunk = Some(found);
                let count = (skip as u64 + (wanted - done) as u64).div_ceil(size);
                let count = count.min(found.end() - value).min(BATCH);
                let (count, first_bit) = self.fetch(&found, value - found.first, count, &mut packed)?;
                Ok((found, count, first_bit))
            });
            let (found, count, first_bit) = match fetched {
                Ok(fetched) => fetched,
                Err(error) if done == 0 => return Err(error),
                // Returns the values before the error. A read that starts here gets the error.
                Err(_) => break,
            };
            for n in 0..count {
                let bit = first_bit + n * u64::from(found.encoded_bits);
                let decoded = unpack(&packed, bit as usize, found.encoded_bits) * found.scale + found.offset;
                let bytes = self.bytes(decoded);
                let part = &bytes[skip..size as usize];
                let len = part.len().min(wanted - done);
                buf[done..done + len].copy_from_slice(&part[..len]);
                done += len;
                skip = 0;
            }
        }
        Ok(done)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.chunks.packed)
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        // Only a read of the whole stream would find all damage.
        Soundness::Unknown
    }

    fn damage(&self) -> Option<Error> {
        // If the length is an upper bound, `packed` reports its normal end as an error.
        self.chunks.packed.damage().filter(|_| self.chunks.ends_known)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use seekable::content::Text;

    /// Packs a chunk of values, each a two's complement number in an `i128`. Wider numbers are sign-extended.
    pub(crate) fn chunk(bits: u8, offset: f64, scale: f64, values: &[i128]) -> Vec<u8> {
        let mut bytes = vec![bits];
        bytes.extend(offset.to_be_bytes());
        bytes.extend(scale.to_be_bytes());
        bytes.extend((values.len() as u64).to_be_bytes());
        let mut stream = Vec::new();
        for value in values {
            stream.extend((0..i32::from(bits)).rev().map(|bit| value >> bit.min(127) & 1 == 1));
        }
        bytes.extend(
            stream
                .chunks(8)
                .map(|byte| byte.iter().enumerate().fold(0, |sum, (n, &bit)| sum | u8::from(bit) << (7 - n))),
        );
        bytes
    }

    pub(crate) fn quantized(stream: Vec<u8>, values: u64, float: Float) -> Quantized {
        Quantized::new(Arc::new(Text::new(stream)), true, values, float).unwrap()
    }

    /// Returns the value of the lowest `bits` bits of `value`.
    pub(crate) fn cut(value: i128, bits: u8) -> i128 {
        match bits {
            0 => 0,
            1..=127 => value << (128 - u32::from(bits)) >> (128 - u32::from(bits)),
            _ => value,
        }
    }

    #[test]
    fn twelve_bits_across_byte_borders_by_hand() {
        // The values 1, -1 and 2047 in 12 bits each: 0x001, 0xfff, 0x7ff.
        let mut stream = vec![12];
        stream.extend(10f64.to_be_bytes());
        stream.extend(0.5f64.to_be_bytes());
        stream.extend(3u64.to_be_bytes());
        stream.extend([0x00, 0x1f, 0xff, 0x7f, 0xf0]);
        for (float, expected) in [
            (Float::Single, [10.5f32, 9.5, 1033.5].map(f32::to_le_bytes).concat()),
            (Float::Double, [10.5f64, 9.5, 1033.5].map(f64::to_le_bytes).concat()),
        ] {
            let content = quantized(stream.clone(), 3, float);
            let mut buf = [0; 30];
            let read = content.read_at(0, &mut buf).unwrap();
            assert_eq!(buf[..read], expected);
            assert_eq!(content.read_at(read as u64, &mut buf).unwrap(), 0);
        }
    }

    #[test]
    fn a_stream_that_breaks_gives_its_prefix_and_then_the_reason() {
        let one = chunk(16, 0.0, 1.0, &[1, 2, 3]);
        let two = chunk(16, 0.0, 1.0, &[4, 5]);
        let whole = [&one[..], &two].concat();
        let mut buf = [0; 100];
        for (cut, good, reason) in [
            (whole.len() - 1, 4, "the data end"),
            (one.len() + 10, 3, "the header of a chunk at byte 31"),
            (26, 0, "the data end"),
            (0, 0, "the header of a chunk at byte 0"),
        ] {
            let content = quantized(whole[..cut].to_vec(), 5, Float::Single);
            let read = content.read_at(0, &mut buf).unwrap_or(0);
            assert_eq!(read, good * 4, "{cut}");
            let message = content.read_at(read as u64, &mut buf).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn more_values_than_the_array_has_are_named() {
        let mut buf = [0; 8];
        let one = chunk(8, 0.0, 1.0, &[1, 2]);
        let content = quantized(one.clone(), 1, Float::Double);
        assert!(content.read_at(0, &mut buf).unwrap_err().to_string().contains("past the 1 of the array"));
        let content = quantized([&one[..], &one].concat(), 2, Float::Double);
        assert_eq!(content.read_at(8, &mut buf).unwrap(), 8);
        assert!(content.read_at(16, &mut buf).unwrap_err().to_string().contains("past the 2 of the array"));
        let empty = chunk(8, 0.0, 1.0, &[]);
        let content = quantized([&empty[..], &one, &empty].concat(), 2, Float::Double);
        assert_eq!(content.read_at(8, &mut buf).unwrap(), 8);
        assert_eq!(content.read_at(16, &mut buf).unwrap(), 0);
        let content = quantized(empty.repeat(2000), 2, Float::Double);
        assert!(content.read_at(0, &mut buf).unwrap_err().to_string().contains("too many empty chunks"));
    }

    #[test]
    fn hostile_headers_are_errors() {
        let mut buf = [0; 64];
        for (bits, count, values) in
            [(255, u64::MAX, u64::MAX / 8), (1, u64::MAX, 9), (255, u64::MAX / 8, u64::MAX / 8)]
        {
            let mut stream = chunk(bits, f64::NAN, f64::INFINITY, &[]);
            stream[17..25].copy_from_slice(&count.to_be_bytes());
            let content = quantized(stream, values, Float::Double);
            assert!(content.read_at(0, &mut buf).is_err());
            assert!(content.read_at(content.len() - 1, &mut buf).is_err());
        }
        let packed = Arc::new(Text::default());
        assert!(Quantized::new(packed, true, u64::MAX / 4, Float::Double).is_err());
        // Values of 0 bits take no space. All equal the offset, however many there are.
        let mut stream = chunk(0, 2.5, 1.0, &[]);
        stream[17..25].copy_from_slice(&(1u64 << 60).to_be_bytes());
        let content = quantized(stream, 1 << 60, Float::Double);
        assert_eq!(content.read_at((1 << 63) - 64, &mut buf).unwrap(), 64);
        assert_eq!(buf[..8], 2.5f64.to_le_bytes());
    }

    proptest! {
        #[test]
        fn agrees_with_a_model_bit_by_bit(
            chunks in prop::collection::vec(
                (0u8..=128, -1e3f64..1e3, -1e3f64..1e3, prop::collection::vec(any::<i128>(), 0..40)),
                1..6,
            ),
            single: bool,
            reads in prop::collection::vec((any::<prop::sample::Index>(), 1usize..200), 1..8),
        ) {
            let stream: Vec<u8> = chunks.iter().flat_map(|c| chunk(c.0, c.1, c.2, &c.3)).collect();
            let decoded = chunks.iter().flat_map(|(bits, offset, scale, values)| {
                values.iter().map(move |&value| cut(value, *bits) as f64 * scale + offset)
            });
            let model: Vec<u8> = decoded
                .flat_map(|value| if single { (value as f32).to_le_bytes().to_vec() } else { value.to_le_bytes().to_vec() })
                .collect();
            let float = if single { Float::Single } else { Float::Double };
            let content = quantized(stream, model.len() as u64 / float.size(), float);
            prop_assert_eq!(content.len(), model.len() as u64);
            for (start, len) in reads.iter().map(|(at, len)| (at.index(model.len() + 1), *len)) {
                let mut buf = vec![0; len];
                let read = content.read_at(start as u64, &mut buf).unwrap();
                prop_assert_eq!(read, len.min(model.len() - start));
                prop_assert!(buf[..read] == model[start..start + read]);
            }
        }

        #[test]
        fn any_bytes_never_panic(
            mut stream in prop::collection::vec(any::<u8>(), 0..200),
            values in prop_oneof![0u64..50, any::<u64>()],
            zeros in 0usize..30,
            offset: u64,
        ) {
            // Small counts, so that some chunks fit.
            for byte in stream.iter_mut().skip(17).take(zeros) {
                *byte = 0;
            }
            let packed = Arc::new(Text::new(stream));
            if let Ok(content) = Quantized::new(packed, false, values, Float::Single) {
                let mut buf = [0; 64];
                for offset in [0, offset, content.len().saturating_sub(3), content.len()] {
                    let _ = content.read_at(offset, &mut buf);
                }
            }
        }
    }
}
