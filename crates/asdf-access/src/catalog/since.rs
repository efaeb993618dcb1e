//! An older catalogue. In memory, each line takes 16 bytes: a hash and the line's position.

use std::fs::File;
use std::hash::Hasher;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use memchr::memmem;
use twox_hash::XxHash64;

use seekable::error::{Error, Result};

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 256 << 20;
/// Bytes of the first read that looks for the end of a line, and the factor by which each further read grows.
const PIECE: (usize, usize) = (16 << 10, 16);
/// The JSON between the parts of a line: after the URI, after the start of the line, before and after a strong
/// ETag. No string can contain these texts, because quotes within a string are escaped.
const SIZE: &[u8] = b",\"size\":";
const FORMAT: &[u8] = b",\"format\":";
const STRONG_ETAG: &[u8] = b",\"etag\":\"\\\"";
const ETAG_END: &[u8] = b"\\\"\"";

/// An older catalogue, with the positions of its lines.
#[derive(Debug)]
pub(super) struct Since {
    file: File,
    /// The hash of the URI and the offset of each line, sorted.
    lines: Vec<(u64, u64)>,
}

impl Since {
    /// Finds the lines of a catalogue. Skips cut-off lines, and the lines of files that could not be read.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let of_file = |error: std::io::Error| Error::from(error).of(path);
        let file = File::open(path).map_err(of_file)?;
        if file.metadata().map_err(of_file)?.file_type().is_fifo() {
            return Err(Error::unsupported("is a pipe; --since needs a file").of(path));
        }
        let mut text = BufReader::with_capacity(1 << 20, file.try_clone().map_err(of_file)?);
        let mut lines = Vec::new();
        let mut line = Vec::new();
        let mut at = 0;
        loop {
            line.clear();
            let read = std::io::Read::take(&mut text, MAX_LINE as u64).read_until(b'\n', &mut line);
            let read = read.map_err(of_file)?;
            if read == 0 {
                lines.sort_unstable();
                return Ok(Self { file, lines });
            }
            if let Some(start) = start_of(&line) {
                lines.push((hash(uri_of(start)), at));
            }
            at += read as u64;
        }
    }

    /// True if there is a line for `uri`, which is written as in JSON.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.offset(uri.as_bytes()).is_some()
    }

    /// Returns the line with this start (URI, size, ETag, time), without its line break, if there is one. If several
    /// lines have the URI, the last one counts.
    pub(super) fn line(&self, start: &str) -> Option<Vec<u8>> {
        let start = start.as_bytes();
        let mut line = self.line_at(self.offset(uri_of(start))?)?;
        // The catalogue may have changed, and another URI may have the same hash.
        if sure_of(start_of(&line)?) != sure_of(start) {
            return None;
        }
        line.pop();
        Some(line)
    }

    /// Returns the offset of the last line for `uri`, which is written as in JSON.
    fn offset(&self, uri: &[u8]) -> Option<u64> {
        let hash = hash(uri);
        let after = self.lines.partition_point(|(of_line, _)| *of_line <= hash);
        let (of_line, offset) = self.lines.get(after.checked_sub(1)?)?;
        (*of_line == hash).then_some(*offset)
    }

    /// Returns the line at an offset, with its line break.
    fn line_at(&self, offset: u64) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let (mut more, factor) = PIECE;
        loop {
            let known = line.len();
            line.resize((known + more).min(MAX_LINE), 0);
            let read = self.file.read_at(&mut line[known..], offset + known as u64).ok()?;
            if let Some(end) = memchr::memchr(b'\n', &line[known..known + read]) {
                line.truncate(known + end + 1);
                return Some(line);
            }
            if read == 0 {
                return None;
            }
            line.truncate(known + read);
            more *= factor;
        }
    }
}

/// Returns the start of a line: URI, size, ETag, time. `None` for an error or a cut-off line.
fn start_of(line: &[u8]) -> Option<&[u8]> {
    if !line.starts_with(b"{\"uri\":\"") || !line.ends_with(b"}\n") {
        return None;
    }
    line.get(..memmem::find(line, FORMAT)?)
}

/// Returns the URI in the start of a line, in JSON.
fn uri_of(start: &[u8]) -> &[u8] {
    let end = memmem::find(start, SIZE).unwrap_or(start.len());
    start.get(b"{\"uri\":".len()..end).unwrap_or_default()
}

/// Returns the part of a start that identifies the file's bytes: everything up to a strong ETag, or all if
/// there is no strong ETag.
fn sure_of(start: &[u8]) -> &[u8] {
    let Some(etag) = memmem::find(start, STRONG_ETAG).map(|at| at + STRONG_ETAG.len()) else { return start };
    let end = memmem::find(&start[etag..], ETAG_END).map(|end| etag + end + ETAG_END.len());
    end.map_or(start, |end| &start[..end])
}

fn hash(uri: &[u8]) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(uri);
    hasher.finish()
}
