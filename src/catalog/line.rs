//! The catalogue's line for one file.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::{SerializeMap, Serializer as _};
use serde_json::{Serializer, to_string, to_writer};

use super::since::Since;
use crate::error::{Error, Result, in_json};
use crate::format::{self, Container, Context, FactValue, Facts};
use crate::source::{BufferedSource, FileSource};

/// Maximal number of blocks, and of arrays, that are described.
const MOST: usize = 1 << 16;
/// Maximal length of a tree in JSON, in bytes.
const LONGEST_TREE: u64 = 16 << 20;

/// A line of the catalogue.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) path: PathBuf,
    /// The text, with the line break.
    pub(super) text: Vec<u8>,
    /// True if the line is from an older catalogue.
    pub(super) is_copy: bool,
    /// True if the file can't be read.
    pub(super) is_error: bool,
}

/// Describes a file, or copies its line from an older catalogue.
pub(super) fn of(path: PathBuf, since: Option<&Since>, context: &Context) -> Line {
    let start = match start_of(&path) {
        Ok(start) => start,
        Err(error) => return of_error(path, error),
    };
    if let Some(text) = since.and_then(|since| since.line(&start)) {
        return Line { path, text, is_copy: true, is_error: false };
    }
    match described(&path, start.into_bytes(), context) {
        Ok(text) => Line { path, text, is_copy: false, is_error: false },
        Err(error) => of_error(path, error),
    }
}

/// Returns the line of a file that can't be read.
pub(super) fn of_error(path: PathBuf, error: Error) -> Line {
    let error = error.of(&path).to_string();
    let text = format!("{{\"uri\":{},\"error\":{}}}\n", text_of(&uri(&path)), text_of(&error));
    Line { path, text: in_json(&text).into_owned().into_bytes(), is_copy: false, is_error: true }
}

/// Returns the start of a line: URI, size and time. A file with the same start counts as unchanged.
fn start_of(path: &Path) -> Result<String> {
    let meta = fs::metadata(path)?;
    let (size, mtime) = (meta.size(), time(meta.mtime(), meta.mtime_nsec()));
    Ok(format!("{{\"uri\":{},\"size\":{size},\"mtime\":\"{mtime}\"", text_of(&uri(path))))
}

fn described(path: &Path, mut line: Vec<u8>, context: &Context) -> Result<Vec<u8>> {
    let source = Arc::new(BufferedSource::new(Arc::new(FileSource::open(path)?)));
    let container = format::open(source, context)?;
    let (format, version) = (text_of(container.format()), text_of(&container.version()));
    line.extend(format!(",\"format\":{format},\"version\":{version}").into_bytes());
    push_blocks(&*container, &mut line)?;
    push_arrays(&*container, &mut line)?;
    push_tree(container, &mut line);
    line.extend(b"}\n");
    Ok(line)
}

/// Adds the table of blocks: numbers and texts by the names of `blocks.yaml`.
fn push_blocks(container: &dyn Container, line: &mut Vec<u8>) -> Result<()> {
    let count = container.block_count()?;
    line.extend(format!(",\"block_count\":{count},\"blocks\":[").into_bytes());
    for n in 0..count.min(MOST) {
        line.extend(if n > 0 { &b","[..] } else { b"" });
        write_facts(&container.block(n)?.facts, line)?;
    }
    line.push(b']');
    Ok(())
}

fn write_facts(facts: &Facts, line: &mut Vec<u8>) -> Result<()> {
    let invalid = |error: serde_json::Error| Error::unsupported(error.to_string());
    let mut writer = Serializer::new(line);
    let mut map = writer.serialize_map(None).map_err(invalid)?;
    for fact in facts.iter() {
        let written = match &fact.value {
            FactValue::Number(number) | FactValue::Size(number) => map.serialize_entry(fact.key(), number),
            FactValue::Word { text, .. } | FactValue::Quoted { text, .. } => {
                map.serialize_entry(fact.key(), text)
            }
        };
        written.map_err(invalid)?;
    }
    map.end().map_err(invalid)
}

fn push_arrays(container: &dyn Container, line: &mut Vec<u8>) -> Result<()> {
    let (mut count, mut arrays) = (0, Vec::new());
    container.each_array(&mut |array| {
        if count < MOST {
            arrays.extend(if count > 0 { &b","[..] } else { b"" });
            // A structure of texts and numbers can always be written.
            let _ = to_writer(&mut arrays, &array);
        }
        count += 1;
    })?;
    line.extend(format!(",\"array_count\":{count},\"arrays\":[").into_bytes());
    line.extend(arrays);
    line.push(b']');
    Ok(())
}

/// Adds the tree, or the reason why it can't be shown.
fn push_tree(container: Arc<dyn Container>, line: &mut Vec<u8>) {
    let kept = line.len();
    line.extend(b",\"tree\":");
    if let Err(error) = tree(container, line) {
        line.truncate(kept);
        line.extend(format!(",\"tree\":null,\"tree_error\":{}", text_of(&error.message())).into_bytes());
    }
}

fn tree(container: Arc<dyn Container>, line: &mut Vec<u8>) -> Result<()> {
    let text = format::tree_in_json(container, LONGEST_TREE)?;
    // Line breaks and indentation occur only between values, never in a string.
    for (n, part) in text.split(|byte| *byte == b'\n').enumerate() {
        line.extend(if n > 0 { part.trim_ascii_start() } else { part });
    }
    Ok(())
}

/// Returns the URI of a file. Bytes that are not UTF-8 become U+FFFD.
fn uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("file://{}", path.to_string_lossy())
}

fn text_of(text: &str) -> String {
    // A text can always be written.
    to_string(text).unwrap_or_default()
}

/// Formats a time since 1970 in UTC as in ISO 8601.
fn time(seconds: i64, nanoseconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar repeats every 400 years; years begin in March here.
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", second % 60);
    let _ = write!(text, ".{nanoseconds:09}Z");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_795_392_000, "2026-11-23T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(time(seconds, 5), format!("{expected}.000000005Z"));
        }
    }
}
