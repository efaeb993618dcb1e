//! The bytes of an open file, read as the kernel would read them through a mount.

use std::io;
use std::str::FromStr;

use seekable::error::{Error, Kind, Result};

use seekable::content::next_data;

use crate::vfs::ReadHandle;

/// Bytes read at once, as in `cat`: few enough to stay in the CPU cache until they are written.
const PIECE: usize = 128 << 10;

/// Number of times that a read is repeated because another program has changed the file.
const RENEWALS: usize = 20;

/// A range of the bytes of a file. A part beyond the end of the file is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All bytes from this offset on.
    From(u64),
    /// The bytes from the first offset to the second, both included.
    Between(u64, u64),
    /// This many of the last bytes.
    Last(u64),
}

impl Range {
    /// All bytes.
    pub(crate) const ALL: Self = Self::From(0);

    /// Returns the first offset, and the offset after the last, in a file of `len` bytes.
    fn within(self, len: u64) -> (u64, u64) {
        match self {
            // A stream may grow while it is read.
            Self::From(from) => (from, u64::MAX),
            Self::Between(from, to) => (from, to.saturating_add(1)),
            Self::Last(count) => (len.saturating_sub(count), len),
        }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |digits: &str| {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse::<u64>().map_err(|_| "the number is too large".to_owned())
            } else {
                Err("write FROM-TO, FROM- or -COUNT, in bytes".to_owned())
            }
        };
        match text.split_once('-') {
            None | Some(("", "")) => Err("write FROM-TO, FROM- or -COUNT, in bytes".to_owned()),
            Some(("", count)) => number(count).map(Self::Last),
            Some((from, "")) => number(from).map(Self::From),
            Some((from, to)) => match (number(from)?, number(to)?) {
                (from, to) if from <= to => Ok(Self::Between(from, to)),
                (from, to) => Err(format!("{from} is after {to}")),
            },
        }
    }
}

/// The side on which a copy failed.
#[derive(Debug)]
pub(super) enum Failure {
    Read(Error),
    Write(io::Error),
}

/// The destination of a copy.
pub(super) trait CopyTarget {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Takes the next `zeros` bytes, which are a hole of the source. Returns false if it needs the bytes themselves.
    fn skip(&mut self, zeros: u64) -> io::Result<bool> {
        let _ = zeros;
        Ok(false)
    }
}

/// Passes a range of a file to `target`, piece by piece.
pub(super) fn all(
    reader: &ReadHandle,
    range: Range,
    target: &mut dyn CopyTarget,
) -> std::result::Result<(), Failure> {
    let read_failure = |error| {
        reader.report(&error);
        Failure::Read(error)
    };
    let len = reader.content().map_err(read_failure)?.len();
    let (mut at, end) = range.within(len);
    let mut copy = Copying { reader, buffer: Vec::new(), target };
    let mut renewals = 0;
    let mut data_end = 0;
    while at < end {
        if at >= data_end
            && let Ok(content) = reader.content()
            && let Some(data) = next_data(&*content, at)
        {
            let hole = data.start.min(end) - at;
            if hole > 0 {
                // The file may have changed since the hole was found: then this read fails.
                let last = content.read_at(at + hole - 1, &mut [0]).map_err(read_failure)?;
                if last == 1 && copy.target.skip(hole).map_err(Failure::Write)? {
                    at += hole;
                    continue;
                }
            }
            data_end = data.end.max(at + PIECE as u64);
        }
        let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        match copy.next(at, wanted) {
            Ok(Ok(0)) => break,
            Ok(Ok(read)) => at += read as u64,
            Ok(Err(error)) => return Err(Failure::Write(error)),
            Err(error) if error.kind() == Kind::Changed && renewals < RENEWALS => {
                renewals += 1;
                reader.renew().map_err(read_failure)?;
            }
            Err(error) => return Err(read_failure(error)),
        }
    }
    Ok(())
}

/// Returns the number of bytes of a file that a copy without its holes takes; at most `enough`.
pub(super) fn size_of_data(reader: &ReadHandle, enough: u64) -> Result<u64> {
    let len = reader.content()?.len();
    let mut at = 0;
    let mut size = 0;
    while at < len && size < enough {
        let data = next_data(&*reader.content()?, at).unwrap_or(at..len.min(at + PIECE as u64));
        size += data.end.saturating_sub(data.start);
        at = data.end.max(at + 1);
    }
    Ok(size)
}

/// A copy of a file that is being made.
struct Copying<'a> {
    reader: &'a ReadHandle,
    buffer: Vec<u8>,
    target: &'a mut dyn CopyTarget,
}

impl Copying<'_> {
    /// Reads the piece at `at` and passes it on. Returns its length, which is 0 at the end.
    fn next(&mut self, at: u64, wanted: usize) -> Result<io::Result<usize>> {
        let reading = self.reader.current()?;
        reading.admit()?;
        let content = reading.content();
        if content.is_slow()
            && let Some(shared) = content.share(at, wanted, true)
            && !shared.is_empty()
        {
            return Ok(self.target.write(&shared).map(|()| shared.len()));
        }
        // Small files need no large buffer.
        let room = wanted.min(usize::try_from(content.len().saturating_sub(at)).unwrap_or(PIECE).max(1));
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let room = self.buffer.get_mut(..room).unwrap_or_default();
        let read = content.read_at(at, room)?.min(room.len());
        Ok(self.target.write(room.get(..read).unwrap_or_default()).map(|()| read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_its_ends() {
        for (text, range, within) in [
            ("0-0", Range::Between(0, 0), (0, 1)),
            ("2-5", Range::Between(2, 5), (2, 6)),
            ("7-", Range::From(7), (7, u64::MAX)),
            ("-3", Range::Last(3), (7, 10)),
            ("-11", Range::Last(11), (0, 10)),
            ("-0", Range::Last(0), (10, 10)),
            ("0-18446744073709551615", Range::Between(0, u64::MAX), (0, u64::MAX)),
        ] {
            assert_eq!(text.parse(), Ok(range), "{text}");
            assert_eq!(range.within(10), within, "{text}");
        }
        for text in
            ["", "-", "5", "5-2", "a-b", "1-2-3", "+1-2", "--3", " 1-2", "1-99999999999999999999", "1K-2K"]
        {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}
