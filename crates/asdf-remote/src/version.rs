//! The version of an object, from the headers of a reply.

use seekable::error::{Error, Kind};
use seekable::source::{Revision, Time};
use ureq::http::HeaderMap;

use super::date;
use super::retry::{Answer, eio};

/// Maximum length of an ETag or a date; longer ones are ignored.
const MAX_TAG: usize = 1024;
/// Length of the record of a version.
pub(super) const RECORD: usize = 4096;

/// The `Content-Range` of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes FIRST-LAST/TOTAL`.
    Part {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte.
        last: u64,
        /// Size of the object.
        total: u64,
    },
    /// `bytes */TOTAL`, for a range beyond the end.
    Beyond {
        /// Size of the object.
        total: u64,
    },
}

impl ContentRange {
    /// Parses the header's value; `None` if it is not valid or lacks the total.
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, rest) = value.trim().split_once(' ')?;
        let (range, total) = rest.trim().split_once('/')?;
        let total = number(total)?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        if range == "*" {
            return Some(Self::Beyond { total });
        }
        let (first, last) = range.split_once('-')?;
        let first = number(first)?;
        let last = number(last)?;
        (first <= last && last < total).then_some(Self::Part { first, last, total })
    }
}

/// Parses digits. Offsets are at most `i64::MAX`, as in system calls.
fn number(digits: &str) -> Option<u64> {
    let is_valid = (1..=19).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_valid && *number <= i64::MAX as u64)
}

/// The version of an object by its last reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    /// The ETag with its quotes, and with `W/` if it is weak.
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    pub(super) size: u64,
}

impl ObjectVersion {
    pub(super) fn of(headers: &HeaderMap, size: u64) -> Self {
        let text = |name| text(headers, name).filter(|text| text.len() <= MAX_TAG);
        let etag = text("etag").filter(|etag| is_etag(etag)).map(str::to_owned);
        Self { etag, last_modified: text("last-modified").map(str::to_owned), size }
    }

    /// Returns the ETag for If-Match, if it is strong.
    pub(super) fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| etag.starts_with('"'))
    }

    /// True if both are the same version. With a strong ETag only ETag and size are compared, otherwise
    /// everything.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        if self.strong().is_some() {
            return self.size == other.size && self.etag == other.etag;
        }
        self == other
    }

    /// Returns a text that differs between versions.
    pub(super) fn tag(&self) -> String {
        let modified = if self.strong().is_some() { None } else { self.last_modified.as_deref() };
        format!(
            "{}\n{}\n{}",
            self.etag.as_deref().unwrap_or_default(),
            modified.unwrap_or_default(),
            self.size
        )
    }

    /// Returns the record of the version: size, ETag and date, each with a line break, then zeros.
    /// `None` if they are too long.
    pub(super) fn record(&self) -> Option<Vec<u8>> {
        let [etag, date] = [&self.etag, &self.last_modified].map(|text| text.as_deref().unwrap_or_default());
        let mut record = format!("{}\n{etag}\n{date}\n", self.size).into_bytes();
        (record.len() <= RECORD).then(|| record.resize(RECORD, 0))?;
        Some(record)
    }

    /// Returns the version of a record, if its ETag is strong.
    pub(super) fn of_record(record: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(record).ok()?.split('\n');
        let size = lines.next()?;
        let etag = lines.next()?;
        let date = lines.next()?;
        let version = Self {
            size: number(size)?,
            etag: is_etag(etag).then(|| etag.to_owned()),
            last_modified: (!date.is_empty()).then(|| date.to_owned()),
        };
        version.strong().is_some().then_some(version)
    }

    /// Returns the modification time, if the reply had one.
    pub(super) fn modified(&self) -> Option<Time> {
        Some((self.last_modified.as_deref().and_then(date::http)?, 0))
    }

    /// Returns the version for other programs.
    pub(super) fn revision(&self) -> Revision {
        Revision { size: self.size, etag: self.etag.clone(), mtime: self.modified() }
    }
}

fn is_etag(text: &str) -> bool {
    let tag = text.strip_prefix("W/").unwrap_or(text);
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'))
}

/// Returns a header's value if it is one line of ASCII.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the error of a reader after its object has changed.
pub(super) fn changed() -> Error {
    Error::new(Kind::Changed, "the object was changed on the server")
}

/// Refuses a body with a Content-Encoding, whose ranges are not ranges of the object.
pub(super) fn check_encoding(headers: &HeaderMap) -> Answer<()> {
    let values = headers.get_all("content-encoding").iter();
    let mut codings = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    match codings.find(|coding| {
        !matches!(coding.trim().to_ascii_lowercase().as_str(), "" | "identity" | "aws-chunked")
    }) {
        None => Ok(()),
        Some(coding) => Err(eio(format!(
            "the server sends the object encoded (Content-Encoding: {}), so its ranges are not those of the \
             file; store it without an encoding",
            coding.trim()
        ))
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_parsed_strictly() {
        assert_eq!(
            ContentRange::parse("bytes 0-9/10"),
            Some(ContentRange::Part { first: 0, last: 9, total: 10 })
        );
        assert_eq!(ContentRange::parse("Bytes */0"), Some(ContentRange::Beyond { total: 0 }));
        for value in [
            "",
            "bytes",
            "bytes 0-9/*",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "bytes -9/10",
            "bytes 0-/10",
            "0-9/10",
            "bytes +0-9/10",
            "bytes 0-9/99999999999999999999",
            "bytes 0-9/9999999999999999999",
            "lines 0-9/10",
            "bytes */*",
            "bytes 0-9/1 0",
            "bytes=0-9/10",
        ] {
            assert_eq!(ContentRange::parse(value), None, "{value}");
        }
    }

    fn version(etag: &str, modified: &str, size: u64) -> ObjectVersion {
        let mut headers = HeaderMap::new();
        for (name, value) in [("etag", etag), ("last-modified", modified)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        ObjectVersion::of(&headers, size)
    }

    #[test]
    fn versions_are_compared_by_all_that_is_known() {
        let strong = version("\"a\"", "x", 1);
        assert_eq!(strong.strong(), Some("\"a\""));
        assert!(strong.is_same(&version("\"a\"", "y", 1)));
        assert!(!strong.is_same(&version("\"b\"", "x", 1)) && !strong.is_same(&version("\"a\"", "x", 2)));
        assert!(!strong.is_same(&version("", "x", 1)) && !strong.is_same(&version("W/\"a\"", "x", 1)));
        let weak = version("W/\"a\"", "x", 1);
        assert!(weak.strong().is_none() && weak.is_same(&weak) && !weak.is_same(&version("W/\"a\"", "y", 1)));
        for etag in ["a", "\"", "\"a\"b\"", "\"a b\"", "W/a", "w/\"a\""] {
            assert_eq!(version(etag, "", 1).etag, None, "{etag}");
        }
        assert_eq!(version(&format!("\"{}\"", "a".repeat(2000)), "", 1).etag, None);
        assert_ne!(weak.tag(), version("W/\"a\"", "y", 1).tag());
        assert_eq!(version("", "Sun, 06 Nov 1994 08:49:37 GMT", 1).modified(), Some((784_111_777, 0)));
    }

    #[test]
    fn records_of_strong_versions_are_read_back() {
        for version in [version("\"a\"", "x", 7), version(&format!("\"{}\"", "a".repeat(1022)), "", 0)] {
            let record = version.record().unwrap();
            assert_eq!((record.len(), ObjectVersion::of_record(&record)), (RECORD, Some(version)));
        }
        assert_eq!(ObjectVersion::of_record(&version("W/\"a\"", "x", 1).record().unwrap()), None);
        for record in [&b""[..], b"7", b"7\n\"a\"", b"-7\n\"a\"\nx\n", b"7\n\"\xff\"\nx\n"] {
            assert_eq!(ObjectVersion::of_record(record), None, "{record:?}");
        }
    }
}
