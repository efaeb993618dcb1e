//! Elements of arrays converted for another format: byte order or type changed.
//!
//! The result is big-endian. Elements are converted while they are read, at any offset.

use std::sync::Arc;

use seekable::error::{Error, Result};

use seekable::content::{Content, fill};

/// Size of elements converted at once, in bytes, if they can't be converted in place.
const SPAN: usize = 256 << 10;
/// Maximum length of a record, in bytes.
const MAX_RECORD: u64 = 1 << 20;

/// The conversion of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// No conversion of an element of this many bytes.
    None(usize),
    /// Conversion of a number of 1, 2, 4 or 8 bytes. `reverse` reverses its bytes. Then `flip` inverts its
    /// top bit, which converts between a signed number and an unsigned one that is offset by half the range.
    Number {
        /// The length in bytes.
        width: usize,
        /// True if the number is little-endian.
        reverse: bool,
        /// True if the top bit is inverted.
        flip: bool,
    },
    /// Conversion of a float16 to a float32.
    Widen {
        /// True if the number is little-endian.
        reverse: bool,
    },
    /// Conversion of a UCS-4 character to ASCII. A character that is not in ASCII becomes a question mark.
    Ascii {
        /// True if the character is little-endian.
        reverse: bool,
    },
    /// Conversion of a boolean byte to `T` or `F`.
    Letter,
    /// Conversion of `T` to 1, and of any other byte to 0.
    Truth,
    /// Conversion of a big-endian number to a float: `zero + scale * number`.
    Scaled {
        /// The length in bytes.
        width: usize,
        /// True if the number is a float.
        is_float: bool,
        /// True for a float32 as the result, false for a float64.
        is_short: bool,
        /// The bits of the factor.
        scale: u64,
        /// The bits of the summand.
        zero: u64,
        /// The integer that becomes NaN.
        null: Option<i64>,
    },
    /// These bytes are left out.
    Skip(usize),
}

impl Conversion {
    /// Returns the length of an element before the conversion, in bytes.
    pub(crate) fn before(self) -> usize {
        match self {
            Self::None(width)
            | Self::Number { width, .. }
            | Self::Scaled { width, .. }
            | Self::Skip(width) => width,
            Self::Widen { .. } => 2,
            Self::Ascii { .. } => 4,
            Self::Letter | Self::Truth => 1,
        }
    }

    /// Returns the length of an element after the conversion, in bytes.
    fn after(self) -> usize {
        match self {
            Self::Widen { .. } => 4,
            Self::Ascii { .. } => 1,
            Self::Scaled { is_short, .. } => {
                if is_short {
                    4
                } else {
                    8
                }
            }
            Self::Skip(_) => 0,
            same => same.before(),
        }
    }

    /// Converts whole elements in place. Both lengths must be equal.
    fn in_place(self, bytes: &mut [u8]) {
        match self {
            Self::Number { width: 1, flip: true, .. } => each(bytes, |[byte]| [byte ^ 0x80]),
            Self::Number { width: 2, reverse: true, flip } => {
                each(bytes, |number| (u16::from_le_bytes(number) ^ u16::from(flip) << 15).to_be_bytes());
            }
            Self::Number { width: 4, reverse: true, flip } => {
                each(bytes, |number| (u32::from_le_bytes(number) ^ u32::from(flip) << 31).to_be_bytes());
            }
            Self::Number { width: 8, reverse: true, flip } => {
                each(bytes, |number| (u64::from_le_bytes(number) ^ u64::from(flip) << 63).to_be_bytes());
            }
            Self::Number { width: width @ (2 | 4 | 8), reverse: false, flip: true } => {
                for number in bytes.chunks_exact_mut(width) {
                    number[0] ^= 0x80;
                }
            }
            Self::Letter => bytes.iter_mut().for_each(|byte| *byte = if *byte == 0 { b'F' } else { b'T' }),
            Self::Truth => each(bytes, |[byte]| [u8::from(byte == b'T')]),
            Self::Scaled { width, .. } => {
                for number in bytes.chunks_exact_mut(width) {
                    let scaled = self.scaled(number);
                    number.copy_from_slice(&scaled[..width]);
                }
            }
            _ => {}
        }
    }

    /// Converts whole elements into another buffer.
    fn apply(self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Widen { reverse } => {
                for (half, widened) in from.chunks_exact(2).zip(to.chunks_exact_mut(4)) {
                    let bytes = [half[0], half[1]];
                    let bits = if reverse { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
                    widened.copy_from_slice(&float16(bits).to_be_bytes());
                }
            }
            Self::Ascii { reverse } => {
                for (character, byte) in from.chunks_exact(4).zip(to) {
                    let bytes = [character[0], character[1], character[2], character[3]];
                    let code = if reverse { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
                    *byte = u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(b'?');
                }
            }
            Self::Scaled { width, .. } => {
                for (number, scaled) in from.chunks_exact(width).zip(to.chunks_exact_mut(self.after())) {
                    scaled.copy_from_slice(&self.scaled(number)[..scaled.len()]);
                }
            }
            Self::Skip(_) => {}
            _ => {
                to.copy_from_slice(from);
                self.in_place(to);
            }
        }
    }

    /// Returns the bytes of a scaled number, followed by zeros if it is a float32.
    fn scaled(self, number: &[u8]) -> [u8; 8] {
        let Self::Scaled { is_float, is_short, scale, zero, null, .. } = self else { return [0; 8] };
        let integer = match *number {
            [byte] => i64::from(byte),
            [a, b] => i64::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        };
        let value = match *number {
            [a, b, c, d] if is_float => f64::from(f32::from_be_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] if is_float => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ if null == Some(integer) => f64::NAN,
            _ => integer as f64,
        };
        let (scale, zero) = (f64::from_bits(scale), f64::from_bits(zero));
        let mut bytes = [0; 8];
        if is_short {
            // In the steps, and so with the roundings, of astropy.
            let value = value as f32 * scale as f32 + zero as f32;
            bytes[..4].copy_from_slice(&value.to_be_bytes());
        } else {
            bytes.copy_from_slice(&(value * scale + zero).to_be_bytes());
        }
        bytes
    }
}

/// Converts each number. The compiler vectorizes the loop because it has no branch and reverses integers.
fn each<const WIDTH: usize>(bytes: &mut [u8], change: impl Fn([u8; WIDTH]) -> [u8; WIDTH]) {
    for number in bytes.as_chunks_mut().0 {
        *number = change(*number);
    }
}

/// Converts an IEEE 754 binary16 number.
pub fn float16(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        0 => {
            // The fraction times 2^-24, which is exact in a float32.
            let number = fraction as f32 * f32::from_bits(103 << 23);
            f32::from_bits(number.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Rounds a number to half precision, to nearest, ties to even.
pub fn half(value: f64) -> u16 {
    /// The least number that is rounded to infinity.
    const INFINITE: f64 = 65_520.0;
    const MIN_NORMAL: f64 = 1.0 / 16_384.0;
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    let bits = if size.is_nan() {
        0x7e00
    } else if size >= INFINITE {
        0x7c00
    } else if size < MIN_NORMAL {
        (size * f64::from(1_u32 << 24)).round_ties_even() as u16
    } else {
        let exponent = (size.to_bits() >> 52) as i32 - 1023;
        let mantissa = (size * 2.0_f64.powi(10 - exponent)).round_ties_even() as u16;
        // A mantissa rounded up to a power of two carries into the exponent.
        (((exponent + 15) as u16) << 10) + (mantissa - 1024)
    };
    sign | bits
}

/// Records with elements that are converted while they are read.
#[derive(Debug)]
pub struct Recoded {
    whole: Arc<dyn Content>,
    /// The elements of a record: runs of a conversion and a count.
    parts: Vec<(Conversion, usize)>,
    /// Length of a record in bytes, before and after the conversion.
    before: usize,
    after: usize,
    len: u64,
}

impl Recoded {
    /// Converts each element of `whole`.
    pub fn elements(whole: Arc<dyn Content>, change: Conversion) -> Result<Arc<dyn Content>> {
        Self::records(whole, vec![(change, 1)])
    }

    /// Converts consecutive records that consist of these `parts`. Returns `whole` if there is nothing to
    /// convert.
    ///
    /// # Errors
    /// A record is longer than 1 MiB, or the result is longer than any file can be.
    pub fn records(whole: Arc<dyn Content>, parts: Vec<(Conversion, usize)>) -> Result<Arc<dyn Content>> {
        let size = |bytes: fn(Conversion) -> usize| {
            let sum = parts.iter().try_fold(0_u64, |sum, (change, count)| {
                sum.checked_add((bytes(*change) as u64).checked_mul(*count as u64)?)
            });
            sum.filter(|size| *size <= MAX_RECORD)
                .map(|size| size as usize)
                .ok_or_else(|| Error::unsupported("a row of the table is longer than 1 MiB"))
        };
        if parts.iter().all(|(change, _)| is_none(*change)) {
            return Ok(whole);
        }
        let before = size(Conversion::before)?;
        let after = size(Conversion::after)?;
        let count = whole.len().checked_div(before as u64).unwrap_or(0);
        let len = count.checked_mul(after as u64).filter(|len| *len <= i64::MAX as u64);
        let len = len.ok_or_else(|| Error::damaged("the data are longer than any file can be"))?;
        Ok(Arc::new(Self { whole, parts, before, after, len }))
    }

    /// True if elements keep their length, so that they can be converted in the reader's buffer.
    fn is_in_place(&self) -> bool {
        self.parts.iter().all(|(change, _)| change.before() == change.after())
    }

    fn change_in_place(&self, records: &mut [u8]) {
        if let [(change, _)] = self.parts[..] {
            return change.in_place(records);
        }
        for record in records.chunks_exact_mut(self.after) {
            let mut rest = record;
            for (change, count) in &self.parts {
                let (part, more) = rest.split_at_mut(change.after() * count);
                change.in_place(part);
                rest = more;
            }
        }
    }

    fn change(&self, from: &[u8], to: &mut [u8]) {
        if let [(change, _)] = self.parts[..] {
            return change.apply(from, to);
        }
        for (mut record, mut made) in from.chunks_exact(self.before).zip(to.chunks_exact_mut(self.after)) {
            for (change, count) in &self.parts {
                let (part, more) = record.split_at(change.before() * count);
                let (changed, rest) = made.split_at_mut(change.after() * count);
                change.apply(part, changed);
                (record, made) = (more, rest);
            }
        }
    }

    /// Reads whole records from record `n` on. Returns the number of bytes; an error only if not even one
    /// record can be read.
    fn read_records(&self, n: u64, out: &mut [u8]) -> Result<usize> {
        let at = n.saturating_mul(self.before as u64);
        if self.is_in_place() {
            let read = self.whole_records(at, out)?;
            self.change_in_place(&mut out[..read]);
            return Ok(read);
        }
        let most = (SPAN / self.before).max(1).min(out.len() / self.after);
        let mut span = vec![0; most * self.before];
        let count = self.whole_records(at, &mut span)? / self.before;
        self.change(&span[..count * self.before], &mut out[..count * self.after]);
        Ok(count * self.after)
    }

    /// Fills `out` from byte `at` on with unconverted bytes. Returns the number of bytes in whole records.
    fn whole_records(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.whole.read_at(at + done as u64, &mut out[done..]) {
                Ok(0) if done < self.before => return Err(Error::damaged("the data end within an element")),
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if done < self.before => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done - done % self.before)
    }
}

fn is_none(change: Conversion) -> bool {
    matches!(
        change,
        Conversion::None(_)
            | Conversion::Number { width: 1, flip: false, .. }
            | Conversion::Number { reverse: false, flip: false, .. }
    )
}

impl Content for Recoded {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let after = self.after as u64;
        fill(&mut buf[..wanted], |done, rest| {
            let at = offset + done as u64;
            let n = at / after;
            let within = (at % after) as usize;
            if within == 0 && rest.len() >= self.after {
                let whole = rest.len() - rest.len() % self.after;
                return self.read_records(n, &mut rest[..whole]);
            }
            let mut record = vec![0; self.after];
            self.read_records(n, &mut record)?;
            let len = (self.after - within).min(rest.len());
            rest[..len].copy_from_slice(&record[within..within + len]);
            Ok(len)
        })
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.whole)
    }

    fn first_broken(&self, _: usize, at: u64) -> u64 {
        at / self.before.max(1) as u64 * self.after as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::{Slice, Soundness, Text};
    use seekable::source::{MemorySource, Source};

    fn all(content: &dyn Content, piece: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = vec![0; piece];
        loop {
            match content.read_at(all.len() as u64, &mut buf).unwrap() {
                0 => return all,
                read => all.extend_from_slice(&buf[..read]),
            }
        }
    }

    fn text(bytes: impl IntoIterator<Item = u8>) -> Arc<dyn Content> {
        Arc::new(Text::new(bytes.into_iter().collect::<Vec<u8>>()))
    }

    const SWAP: Conversion = Conversion::Number { width: 4, reverse: true, flip: false };

    #[test]
    fn numbers_are_turned_whatever_is_read_at_once() {
        for (width, flip) in [(1, true), (2, false), (2, true), (4, true), (8, false), (8, true)] {
            let bytes: Vec<u8> = (0..48).collect();
            let mut expected = bytes.clone();
            for number in expected.chunks_exact_mut(width) {
                number.reverse();
                number[0] ^= if flip { 0x80 } else { 0 };
            }
            let recoded =
                Recoded::elements(text(bytes), Conversion::Number { width, reverse: true, flip }).unwrap();
            for piece in 1..50 {
                assert_eq!(all(&*recoded, piece), expected, "{width} {flip} {piece}");
            }
            let mut end = [0; 9];
            assert_eq!(recoded.read_at(45, &mut end).unwrap(), 3);
            assert_eq!(end[..3], expected[45..]);
            assert_eq!(recoded.read_at(u64::MAX, &mut end).unwrap(), 0);
        }
    }

    #[test]
    fn what_needs_no_change_stays_what_it_is() {
        let bytes = text(0..8);
        for change in [
            Conversion::None(3),
            Conversion::Number { width: 4, reverse: false, flip: false },
            Conversion::Number { width: 1, reverse: true, flip: false },
        ] {
            assert!(Arc::ptr_eq(&Recoded::elements(bytes.clone(), change).unwrap(), &bytes), "{change:?}");
        }
    }

    #[test]
    fn records_are_changed_field_by_field() {
        let number = |width, reverse| Conversion::Number { width, reverse, flip: false };
        let parts = vec![
            (Conversion::None(2), 1),
            (number(2, true), 2),
            (Conversion::Letter, 1),
            (Conversion::Ascii { reverse: true }, 2),
            (Conversion::Widen { reverse: false }, 1),
        ];
        let record = [7, 8, 1, 2, 3, 4, 9, b'a', 0, 0, 0, 0xe9, 0, 0, 0, 0x3c, 0x00];
        let expected = [7, 8, 2, 1, 4, 3, b'T', b'a', b'?', 0x3f, 0x80, 0, 0];
        let recoded = Recoded::records(text(record.repeat(5)), parts).unwrap();
        for piece in 1..70 {
            assert_eq!(all(&*recoded, piece), expected.repeat(5), "{piece}");
        }
    }

    /// Expected numbers are from `numpy.array([bits], '<u2').view('<f2')`.
    #[test]
    fn sixteen_bits_are_the_floats_of_numpy() {
        let expected = [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3c00, 1.0),
            (0xc248, -3.140_625),
            (0x7bff, 65_504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, value) in expected {
            assert_eq!(float16(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert!(float16(0x7e00).is_nan());
    }

    #[test]
    fn bytes_before_a_fault_can_be_had_and_no_others() {
        let source: Arc<dyn Source> = Arc::new(MemorySource((0..10).collect()));
        let cut = Arc::new(Slice::new(source, 0, 12));
        let recoded = Recoded::elements(cut, SWAP).unwrap();
        let mut buf = [0; 12];
        assert_eq!(recoded.read_at(0, &mut buf).unwrap(), 8);
        assert_eq!(buf[..8], [3, 2, 1, 0, 7, 6, 5, 4]);
        assert!(recoded.read_at(8, &mut buf).is_err() && recoded.read_at(9, &mut buf).is_err());
        assert_eq!((recoded.soundness(), recoded.len()), (Soundness::Broken(8), 12));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(Recoded::records(text(0..8), vec![(SWAP, usize::MAX)]).is_err());
        assert!(Recoded::records(text(0..8), vec![(SWAP, 300_000)]).is_err());
        let empty = Recoded::records(text(0..8), vec![(SWAP, 0)]).unwrap();
        assert_eq!((empty.len(), empty.read_at(0, &mut [0]).unwrap()), (0, 0));
    }
}
