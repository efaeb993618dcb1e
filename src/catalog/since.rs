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
/// The key of the modification time, which is the last value in the start of a line.
const MTIME: &[u8] = b"\"mtime\":\"";

/// An older catalogue, with the positions of its lines.
#[derive(Debug)]
pub(super) struct Since {
    file: File,
    /// Offset and length of each line, by the hash of its start.
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
                lines.insert(hash(start), (at, len));
            }
            at += read as u64;
        }
    }

    /// Returns the line that begins with `start` (URI, size, time), if there is one.
    pub(super) fn line(&self, start: &str) -> Option<Vec<u8>> {
        let (offset, len) = self.lines.get(&hash(start.as_bytes()))?;
        let mut line = vec![0; *len as usize];
        self.file.read_exact_at(&mut line, *offset).ok()?;
        // The catalogue may have changed, and another start may have the same hash.
        (start_of(&line)? == start.as_bytes()).then_some(line)
    }
}

/// Returns the start of a line: URI, size and time. `None` for an error or a cut-off line.
fn start_of(line: &[u8]) -> Option<&[u8]> {
    if !line.starts_with(b"{\"uri\":\"") || !line.ends_with(b"}\n") {
        return None;
    }
    // Quotes within a JSON string are escaped, so this match is the key.
    let time = memmem::find(line, MTIME)? + MTIME.len();
    let end = time + line[time..].iter().position(|byte| *byte == b'"')? + 1;
    line.get(..end)
}

fn hash(start: &[u8]) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(start);
    hasher.finish()
}
