//! An older catalogue. In memory is only a hash and the place of each line.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;
use twox_hash::XxHash64;

use crate::error::{Error, Result};

/// Maximal length of a line in bytes.
const LONGEST: usize = 256 << 20;
/// The keys after the URI, after the start of a line, and of a strong ETag. Quotes within a JSON string are
/// escaped, so that only keys match.
const SIZE: &[u8] = b",\"size\":";
const FORMAT: &[u8] = b",\"format\":";
const STRONG_ETAG: &[u8] = b",\"etag\":\"\\\"";
const ETAG_END: &[u8] = b"\\\"\"";

/// An older catalogue, with the positions of its lines.
#[derive(Debug)]
pub(super) struct Since {
    file: File,
    /// Offset and length of each line, by the hash of its URI.
    lines: HashMap<u64, (u64, u32)>,
}

impl Since {
    /// Finds the lines of a catalogue. Lines that are cut off, or of files that could not be read, are skipped.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let of_file = |error: std::io::Error| Error::from(error).of(path);
        let file = File::open(path).map_err(of_file)?;
        let mut text = BufReader::with_capacity(1 << 20, file.try_clone().map_err(of_file)?);
        let (mut lines, mut line, mut at) = (HashMap::new(), Vec::new(), 0);
        loop {
            line.clear();
            let read = std::io::Read::take(&mut text, LONGEST as u64).read_until(b'\n', &mut line);
            let read = read.map_err(of_file)?;
            if read == 0 {
                return Ok(Self { file, lines });
            }
            if let (Some(start), Ok(len)) = (start_of(&line), u32::try_from(read)) {
                lines.insert(hash(uri_of(start)), (at, len));
            }
            at += read as u64;
        }
    }

    /// True if there is a line for the URI, which is in JSON.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.lines.contains_key(&hash(uri.as_bytes()))
    }

    /// Returns the line with this start (URI, size, ETag, time), if there is one. Of lines for the same URI
    /// the last one counts.
    pub(super) fn line(&self, start: &str) -> Option<Vec<u8>> {
        let start = start.as_bytes();
        let (offset, len) = self.lines.get(&hash(uri_of(start)))?;
        let mut line = vec![0; *len as usize];
        self.file.read_exact_at(&mut line, *offset).ok()?;
        // The catalogue may have changed, and another URI may have the same hash.
        (sure_of(start_of(&line)?) == sure_of(start)).then_some(line)
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

/// Returns the part of a start that names the bytes: a strong ETag makes the time superfluous.
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
