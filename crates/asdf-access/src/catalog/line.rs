//! The catalogue's line for one file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_file::container::{Cone, Context, FactValue, Facts};
use asdf_file::time::precise_instant;
use asdf_views::format::TreeJson;
use seekable::error::{Error, Result, in_json, to_json};
use seekable::source::{BufferedSource, Revision, Source};
use serde::ser::{SerializeMap, Serializer as _};
use serde_json::Serializer;

use super::since::Since;
use crate::files::{Elsewhere, Found, open_whole};
use crate::{library, named};

/// Maximum number of blocks, and of arrays, that are described.
const MAX_ROWS: usize = 1 << 16;
/// Maximum length of a tree in JSON, and of the blocks or the arrays, in bytes: a line is shorter than 32 MiB,
/// the length that docs/scale.md gives to DuckDB.
const MAX_TREE: u64 = 16 << 20;
const MAX_TABLE: usize = 7 << 20;

/// A line of the catalogue.
#[derive(Debug)]
pub struct Line {
    /// The path or address of the file, without password and query.
    pub path: PathBuf,
    /// The text, without a line break.
    pub text: Vec<u8>,
    /// True if the line is from an older catalogue.
    pub is_copy: bool,
    /// True if the file can't be read.
    pub is_error: bool,
}

/// Describes an open file. Nothing is opened again: the line is about the bytes that the file was opened with.
///
/// # Errors
/// The file can't be read.
pub fn line(file: &library::File) -> Result<Vec<u8>> {
    let start = start(&uri(file.path()), &file.revision());
    described(file, start).map_err(|error| error.of(file.path()))
}

/// Describes a file, or copies its line from an older catalogue; the file is then not opened. Returns `None` for a
/// file that is skipped.
pub(super) fn of(
    found: Found,
    since: Option<&Since>,
    near: Option<&Cone>,
    context: &Context,
) -> Option<Line> {
    let describe = |source, start| described_near(source, near, context, start);
    let (path, described) = match found {
        Found::Local { ref path, .. } => match local(path, since, &describe) {
            Err(error) if found.is_passed_over(&error) => return None,
            text => (path.clone(), text),
        },
        Found::Elsewhere(ref file) => match elsewhere(file, since, &describe) {
            Err(error) if found.is_passed_over(&error) => return None,
            text => (file.place.label().to_owned(), text),
        },
        Found::Failed(path, error) => (path, Err(error)),
    };
    Some(match described {
        Ok(Some((text, is_copy))) => Line { path, text, is_copy, is_error: false },
        Ok(None) => return None,
        Err(error) => of_error(path, error),
    })
}

/// Returns the line of a file that can't be read.
fn of_error(path: PathBuf, error: Error) -> Line {
    let error = error.of(&path).to_string();
    let text = format!("{{\"uri\":{},\"error\":{}}}", to_json(&uri(&path)), to_json(&error));
    Line { path, text: text.into_bytes(), is_copy: false, is_error: true }
}

/// Returns the line of the file in a source, which begins with `start`; `None` if no image of it is near.
fn described_near(
    source: Arc<dyn Source>,
    near: Option<&Cone>,
    context: &Context,
    start: String,
) -> Result<NearLine> {
    let file = library::File::of_source(Arc::new(BufferedSource::new(source)), context)?;
    if let Some(cone) = near
        && !file.footprints()?.iter().any(|footprint| footprint.touches(cone))
    {
        return Ok(None);
    }
    Ok(Some((described(&file, start)?, false)))
}

/// The text of a line, and true if it is a copy; `None` if no image of the file is near.
type NearLine = Option<(Vec<u8>, bool)>;

/// Describes the file in a source. The line begins with the text.
type Describe<'d> = dyn Fn(Arc<dyn Source>, String) -> Result<NearLine> + 'd;

/// Returns the line of a local file.
fn local(path: &Path, since: Option<&Since>, describe: &Describe<'_>) -> Result<NearLine> {
    let meta = fs::metadata(path)?;
    let mtime = (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0));
    let uri = uri(path);
    let start = start(&uri, &Revision { size: meta.size(), etag: None, mtime: Some(mtime) });
    // Names with different bytes that are not UTF-8 have the same URI.
    let since = since.filter(|_| !uri.contains(char::REPLACEMENT_CHARACTER));
    if let Some(text) = since.and_then(|since| since.line(&start)) {
        return Ok(Some((text, true)));
    }
    describe(open_whole(path)?, start)
}

/// Returns the line of a file on a server.
fn elsewhere(file: &Elsewhere, since: Option<&Since>, describe: &Describe<'_>) -> Result<NearLine> {
    let uri = uri(file.place.label());
    // The URI lacks the query, so files that differ only in their query share a URI.
    let since = since.filter(|since| !uri.ends_with("?…") && since.has(&to_json(&uri)));
    if let Some(since) = since {
        let is_sure =
            |revision: &&Revision| revision.etag.as_deref().is_some_and(|etag| etag.starts_with('"'));
        let listed = file.revision.as_ref().filter(is_sure).cloned();
        let revision = listed.map_or_else(|| file.place.revision(), Ok)?;
        if let Some(text) = since.line(&start(&uri, &revision)) {
            return Ok(Some((text, true)));
        }
    }
    let source = file.place.open().map_err(|error| match error.errno() {
        libc::ENOENT | libc::EISDIR if file.is_named => {
            error.advise("the address of a directory ends with a slash")
        }
        _ => error,
    })?;
    let stat = || source.stat().map(|stat| Revision { size: stat.size, etag: None, mtime: Some(stat.mtime) });
    let revision = source.revision().map_or_else(stat, Ok)?;
    describe(source, start(&uri, &revision))
}

/// Returns the start of a line: URI, size, ETag, time. [`Since`] compares it.
fn start(uri: &str, revision: &Revision) -> String {
    let Revision { size, etag, mtime } = revision;
    let mut start = format!("{{\"uri\":{},\"size\":{size}", to_json(uri));
    if let Some(etag) = etag {
        start += &format!(",\"etag\":{}", to_json(etag));
    }
    if let Some(mtime) = mtime {
        start += &format!(",\"mtime\":\"{}\"", precise_instant(*mtime));
    }
    start
}

/// Returns the line that begins with `start`.
fn described(file: &library::File, start: String) -> Result<Vec<u8>> {
    let mut line = start.into_bytes();
    let format = to_json(file.format());
    let version = to_json(&file.version());
    line.extend(format!(",\"format\":{format},\"version\":{version}").into_bytes());
    push_blocks(file, &mut line)?;
    let tree = push_arrays(file, &mut line)?;
    push_footprints(file, &mut line)?;
    push_tree(tree, &mut line);
    line.push(b'}');
    Ok(line)
}

/// Adds the table of blocks: numbers and texts, under the field names of `blocks.yaml`.
fn push_blocks(file: &library::File, line: &mut Vec<u8>) -> Result<()> {
    let count = file.block_count()?;
    line.extend(format!(",\"block_count\":{count},\"blocks\":").into_bytes());
    let mut blocks = Rows::default();
    for n in 0..count {
        let row = match file.far_block(n)? {
            Some(offset) => format!("{{\"offset\":{offset}}}"),
            None => row(file.block(n)?.typed_facts())?,
        };
        blocks.add(&row);
        if blocks.is_full {
            break;
        }
    }
    line.extend(blocks.text());
    Ok(())
}

/// A list in JSON that is cut off when it is full.
#[derive(Default)]
struct Rows {
    text: Vec<u8>,
    count: usize,
    is_full: bool,
}

impl Rows {
    fn add(&mut self, row: &str) {
        self.is_full |= self.count == MAX_ROWS || self.text.len() + row.len() >= MAX_TABLE;
        if !self.is_full {
            self.text.push(if self.count == 0 { b'[' } else { b',' });
            self.text.extend(row.as_bytes());
            self.count += 1;
        }
    }

    fn text(mut self) -> Vec<u8> {
        self.text.extend(if self.count == 0 { &b"[]"[..] } else { b"]" });
        self.text
    }
}

/// Returns the facts of a block in JSON.
fn row(facts: &Facts) -> Result<String> {
    let invalid = |error: serde_json::Error| Error::unsupported(error.to_string());
    let mut text = Vec::new();
    let mut writer = Serializer::new(&mut text);
    let mut map = writer.serialize_map(None).map_err(invalid)?;
    for fact in facts.iter() {
        let written = match &fact.value {
            FactValue::Number(number) | FactValue::Size(number) => map.serialize_entry(fact.key(), number),
            FactValue::Word(word) | FactValue::Quoted(word) => map.serialize_entry(fact.key(), word),
        };
        written.map_err(invalid)?;
    }
    map.end().map_err(invalid)?;
    Ok(in_json(&String::from_utf8_lossy(&text)).to_string())
}

/// Adds the arrays. Returns the tree in JSON, or the reason why it can't be shown.
fn push_arrays(file: &library::File, line: &mut Vec<u8>) -> Result<Result<TreeJson>> {
    let mut count = 0;
    let mut arrays = Rows::default();
    let tree = file.describe(MAX_TREE, &mut |array| {
        if !arrays.is_full {
            arrays.add(&to_json(&array));
        }
        count += 1;
    })?;
    line.extend(format!(",\"array_count\":{count},\"arrays\":").into_bytes());
    line.extend(arrays.text());
    Ok(tree)
}

/// Adds the footprints of the images, if there are any.
fn push_footprints(file: &library::File, line: &mut Vec<u8>) -> Result<()> {
    let footprints = file.footprints()?;
    if !footprints.is_empty() {
        line.extend(format!(",\"footprints\":{}", to_json(&footprints)).into_bytes());
    }
    Ok(())
}

fn push_tree(tree: Result<TreeJson>, line: &mut Vec<u8>) {
    match tree {
        Ok(json) => {
            line.extend(b",\"tree\":");
            line.extend(json.text);
            if let Some(note) = json.note {
                line.extend(format!(",\"tree_note\":{}", to_json(&note)).into_bytes());
            }
        }
        Err(error) => {
            line.extend(format!(",\"tree\":null,\"tree_error\":{}", to_json(&error.message())).into_bytes());
        }
    }
}

/// Returns the URI of a local file, or an address as it is. Bytes that are not UTF-8 become U+FFFD.
fn uri(path: &Path) -> String {
    if !named::is_local(path).unwrap_or(false) {
        return path.to_string_lossy().into_owned();
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("file://{}", path.to_string_lossy())
}
