//! Reads all HDUs of a FITS file, for `--check`.
//!
//! The checksums are those of the FITS standard 4.0, 4.4.2.7 and appendix J: the ones' complement sum of the big-endian
//! words of 32 bits. `DATASUM` is the sum of the data with their padding. `CHECKSUM` makes the sum of the whole HDU
//! zero, of which all bits are set.

use std::ops::Range;

use seekable::error::Result;

use seekable::content::{Slice, read_through};

use super::header::{RECORD, read_fully};
use super::{FitsFile, Hdu, MAX_HDUS, padded};
use crate::container::{Defect, Severity};

/// The first keyword of the header of each HDU but the first.
const XTENSION: &[u8] = b"XTENSION";

/// A sum of words of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
struct WordSum {
    /// The sums of the first, second, third and fourth bytes of the words.
    bytes: [u64; 4],
}

impl WordSum {
    /// Adds bytes at an offset.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let first = (4 - offset % 4) as usize % 4;
        let (before, words) = bytes.split_at(first.min(bytes.len()));
        for (n, byte) in before.iter().enumerate() {
            self.bytes[4 - first + n] += u64::from(*byte);
        }
        for word in words.chunks(4) {
            for (sum, byte) in self.bytes.iter_mut().zip(word) {
                *sum += u64::from(*byte);
            }
        }
    }

    /// Returns the ones' complement sum. Of its two zeros it is the one without a set bit.
    fn total(&self) -> u64 {
        let all = self.bytes.iter().fold(0_u128, |all, sum| (all << 8) + u128::from(*sum));
        (all % u128::from(u32::MAX)) as u64
    }
}

impl FitsFile {
    /// Returns the number of bytes that [`check`](Self::check) reads.
    pub(crate) fn len_to_check(&self) -> u64 {
        self.hdus.iter().enumerate().map(|(number, hdu)| self.len_of(number, hdu)).sum()
    }

    /// Reads the HDUs to their ends, and returns their defects. `count` gets the numbers of bytes read.
    pub(crate) fn check(&self, count: &dyn Fn(u64)) -> Result<Vec<Defect>> {
        let mut defects = Vec::new();
        let mut found = |severity, offset, what| {
            defects.push(Defect { severity, offset, block: None, what });
        };
        for (number, hdu) in self.hdus.iter().enumerate() {
            let name = self.file_name(number);
            let end = padded(hdu.data.end);
            if self.stat.size < hdu.data.end && !hdu.data.is_empty() {
                let there = self.stat.size.saturating_sub(hdu.data.start);
                let len = hdu.data.end - hdu.data.start;
                let what = format!("the data of {name} are cut off: {there} of {len} bytes are there");
                found(Severity::Damage, self.stat.size, what);
            } else if self.stat.size < end {
                let missing = end - self.stat.size;
                let what = format!("{missing} bytes of padding are missing after the data of {name}");
                found(Severity::Note, self.stat.size, what);
            }
            let (header, data) = self.read_hdu(number, hdu, count)?;
            if self.stat.size < end {
                continue;
            }
            if let Some(stored) = &hdu.sums.of_data
                && stored.trim().parse().ok().map(|sum: u64| sum % u64::from(u32::MAX)) != Some(data.total())
            {
                let what = format!("the data of {name} do not agree with its DATASUM");
                found(Severity::Damage, hdu.data.start, what);
            } else if hdu.sums.of_hdu && (header.total() + data.total()) % u64::from(u32::MAX) != 0 {
                // If DATASUM agrees, the header is what has changed.
                let what = format!("{name} does not agree with its CHECKSUM");
                found(Severity::Damage, hdu.header.start, what);
            }
        }
        defects.extend(self.check_rest()?);
        Ok(defects)
    }

    /// Returns the number of bytes of an HDU to read. What `--check` reads in any case, as the tree and the blocks of
    /// the ASDF file, is not read a second time unless a checksum needs it.
    fn len_of(&self, number: usize, hdu: &Hdu) -> u64 {
        if self.is_asdf(number) && hdu.sums.of_data.is_none() && !hdu.sums.of_hdu {
            return 0;
        }
        let end = padded(hdu.data.end).min(self.stat.size);
        end.saturating_sub(hdu.header.start)
    }

    /// Reads an HDU; returns the sums of its header and of its data.
    fn read_hdu(&self, number: usize, hdu: &Hdu, count: &dyn Fn(u64)) -> Result<(WordSum, WordSum)> {
        let read = |place: Range<u64>| -> Result<WordSum> {
            let mut sum = WordSum::default();
            if !place.is_empty() {
                let slice = Slice::new(self.source.clone(), place.start, place.end - place.start);
                read_through(&slice, count, &mut |offset, bytes| sum.add(offset, bytes))?;
            }
            Ok(sum)
        };
        let end = hdu.header.start + self.len_of(number, hdu);
        let start = hdu.data.start.min(end);
        Ok((read(hdu.header.start..start)?, read(start..end)?))
    }

    /// Returns the defect of the bytes after the last HDU.
    fn check_rest(&self) -> Result<Option<Defect>> {
        let rest = self.stat.size.saturating_sub(self.end);
        if rest == 0 {
            return Ok(None);
        }
        let mut record = [0; RECORD as usize];
        let read = read_fully(&|at, buf| self.source.read_at(at, buf), self.end, &mut record)?;
        let is_empty = record[..read].iter().all(|byte| matches!(byte, 0 | b' '));
        let (severity, what) = if self.hdus.len() >= MAX_HDUS {
            (Severity::Damage, format!("there are more than {MAX_HDUS} HDUs; the rest is not shown"))
        } else if record.starts_with(XTENSION) {
            let what =
                format!("the header of a further HDU is damaged or cut off: {rest} bytes can't be read");
            (Severity::Damage, what)
        } else if is_empty {
            (Severity::Note, format!("{rest} bytes follow the last HDU"))
        } else {
            // Special records are allowed here, but a header whose first bytes are lost looks the same.
            (Severity::Damage, format!("{rest} bytes follow the last HDU that begin no further one"))
        };
        Ok(Some(Defect { severity, offset: self.end, block: None, what }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use seekable::error::{Error, Kind};
    use seekable::source::{MemorySource, Source, SourceStat};

    /// A source of which some bytes can't be read.
    #[derive(Debug)]
    struct Failing(MemorySource, Range<u64>);

    impl Source for Failing {
        fn path(&self) -> &Path {
            self.0.path()
        }

        fn stat(&self) -> Result<SourceStat> {
            self.0.stat()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let end = offset + buf.len() as u64;
            if offset < self.1.end && self.1.start < end {
                return Err(Error::new(Kind::System(libc::EIO), "the disk fails"));
            }
            self.0.read_at(offset, buf)
        }
    }

    /// Length of the data of an image.
    const LEN: usize = 300_000;
    /// Length of an HDU with such an image.
    const OF_HDU: usize = 2880 + 302_400;

    /// Returns an HDU of these cards and data. With `sums` it has DATASUM and CHECKSUM.
    fn hdu(cards: &[&str], data: &[u8], sums: bool) -> Vec<u8> {
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(RECORD as usize), 0);
        let sum = |bytes: &[u8]| {
            let mut sum = WordSum::default();
            sum.add(0, bytes);
            sum.total()
        };
        let header = || {
            let mut cards: Vec<String> = cards.iter().map(|card| format!("{card:80}")).collect();
            if sums {
                // In place of an encoded value, a word of the comment makes the sum zero.
                cards.push(format!("{:80}", "CHECKSUM= 'x'"));
                cards.push(format!("{:80}", "COMMENT @@@@"));
                cards.push(format!("{:80}", format!("DATASUM = '{}'", sum(&data))));
            }
            let mut bytes = format!("{}{:80}", cards.concat(), "END").into_bytes();
            bytes.resize(bytes.len().next_multiple_of(RECORD as usize), b' ');
            bytes
        };
        let zero = u64::from(u32::MAX);
        let mut bytes = header();
        let without = zero - (sum(&bytes) + sum(&data)) % zero;
        let word = u64::from(u32::from_be_bytes(*b"@@@@")) + without;
        let at = bytes.windows(4).position(|word| word == b"@@@@");
        if let Some(at) = at.filter(|_| sums) {
            bytes[at..at + 4].copy_from_slice(&((word % zero) as u32).to_be_bytes());
        }
        [bytes, data].concat()
    }

    /// Returns a file with an ASDF file before two images.
    fn file(sums: bool) -> Vec<u8> {
        let primary = ["SIMPLE  =                    T", "BITPIX  =                    8", "NAXIS   = 0"];
        let extension = |name: &str, len: usize| {
            let image = ["XTENSION= 'IMAGE   '", "BITPIX  = 8", "NAXIS   = 1"].map(str::to_owned);
            [&image[..], &[format!("NAXIS1  = {len}"), format!("EXTNAME = '{name}'")]].concat()
        };
        let with = |name: &str, data: &[u8]| {
            let cards = extension(name, data.len());
            hdu(&cards.iter().map(String::as_str).collect::<Vec<_>>(), data, sums)
        };
        let data: Vec<u8> = (0..LEN).map(|n| ((n * n) >> 5) as u8).collect();
        let asdf = with("ASDF", b"#ASDF 1.0.0\n...\n");
        [hdu(&primary, b"", sums), asdf, with("SCI", &data), with("ERR", &data)].concat()
    }

    fn check(bytes: &[u8], failing: Range<u64>) -> Result<Vec<String>> {
        let source = Arc::new(Failing(MemorySource(bytes.to_vec()), failing));
        let defects = FitsFile::open(source)?.check(&|_| ())?;
        let text = |defect: Defect| format!("{:?} {} {}", defect.severity, defect.offset, defect.what);
        Ok(defects.into_iter().map(text).collect())
    }

    #[test]
    fn data_that_cannot_be_read_are_an_error_and_no_sound_file() {
        let bytes = file(false);
        assert_eq!(check(&bytes, 0..0).unwrap(), [""; 0]);
        let sci = (bytes.len() - 2 * OF_HDU) as u64;
        for at in [sci + 20_000, sci + 250_000, bytes.len() as u64 - 1] {
            let error = check(&bytes, at..at + 1).unwrap_err();
            assert!(error.is_of_reading() && error.to_string().contains("the disk fails"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_damaged() {
        let bytes = file(false);
        let len = bytes.len();
        for (there, expected) in [
            (len - OF_HDU - 150_000, "Damage, the data of SCI are cut off: "),
            (len - OF_HDU + 100, "Damage, the header of a further HDU is damaged or cut off: 100 bytes"),
            (len - OF_HDU + 2880, "Damage, the data of ERR are cut off: 0 of 300000 bytes are there"),
            (len - 1, "Note, 1 bytes of padding are missing after the data of ERR"),
        ] {
            let found = check(&bytes[..there], 0..0).unwrap();
            let (severity, what) = expected.split_once(", ").unwrap();
            assert!(
                found.len() == 1 && found[0].starts_with(severity) && found[0].contains(what),
                "{found:?}"
            );
        }
        let followed = |rest: &[u8]| check(&[&bytes, rest].concat(), 0..0).unwrap().concat();
        assert!(followed(&[0; 2880]).starts_with("Note "), "{}", followed(&[0; 2880]));
        assert!(followed(&[7; 2880]).starts_with("Damage "), "{}", followed(&[7; 2880]));
    }

    #[test]
    fn a_sum_that_does_not_agree_is_damage_of_its_hdu() {
        let bytes = file(true);
        assert_eq!(check(&bytes, 0..0).unwrap(), [""; 0]);
        for (at, expected) in [
            (bytes.len() - OF_HDU - 10_000, "the data of SCI do not agree with its DATASUM"),
            (bytes.len() - 4000, "the data of ERR do not agree with its DATASUM"),
            (bytes.len() - OF_HDU + 1000, "ERR does not agree with its CHECKSUM"),
            (1000, "PRIMARY does not agree with its CHECKSUM"),
        ] {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            let found = check(&changed, 0..0).unwrap();
            assert!(found.len() == 1 && found[0].ends_with(expected), "{at}: {found:?}");
        }
    }

    #[test]
    fn a_sum_is_that_of_words_however_it_is_added() {
        let bytes: Vec<u8> = (0..4000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let words = bytes.chunks(4).map(|word| u64::from(u32::from_be_bytes(word.try_into().unwrap())));
        let expected = words.sum::<u64>() % u64::from(u32::MAX);
        for step in [1, 2, 3, 5, 7, 64, 4000] {
            let mut sum = WordSum::default();
            for (n, piece) in bytes.chunks(step).enumerate() {
                sum.add((n * step) as u64, piece);
            }
            assert_eq!(sum.total(), expected, "{step}");
        }
    }
}
