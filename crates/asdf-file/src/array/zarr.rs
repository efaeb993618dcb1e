//! References to the chunks of arrays in a file, in the JSON of kerchunk version 1: a Zarr version 2 hierarchy
//! whose chunks are ranges of the file.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use seekable::error::{Error, Result, to_json};
use seekable::source::SCHEMES;

/// Usual length of a chunk of unencoded bytes.
const CHUNK: u64 = 1 << 20;
/// Usual maximum number of chunks of an array; more if only shorter chunks divide the array, or if a codec made
/// them.
pub const MAX_CHUNKS: u64 = 1 << 16;
/// A chunk may be shorter than usual by this factor.
const SHORTER: u64 = 16;
/// Maximum number of divisors that are tried.
const TRIES: u64 = 4096;

/// Maximum size of the metadata that are repeated, and maximum depth of the groups that repeat them.
const MAX_KEPT: usize = 4 << 20;
const MAX_DEPTH: usize = 8;

/// The metadata of a group.
const GROUP: &str = r#"{"zarr_format":2}"#;

/// The compressor of chunks that are stored as they are.
pub const NO_COMPRESSOR: &str = "null";

/// The start of the root's attributes.
const LEFT_OUT: &str = concat!(",\".zattrs\":", r#""{\"left_out\":{"#);

/// An array of the hierarchy. Its elements are in C order.
#[derive(Clone, Debug)]
pub struct ZarrArray {
    /// The names of the groups that contain the array, and the array's own name.
    pub path: Vec<String>,
    /// The type of an element in numpy's notation.
    pub dtype: String,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The length of each dimension of a chunk. They divide the lengths of the array.
    pub chunks: Vec<u64>,
    /// The configuration of the compressor, in JSON.
    pub compressor: &'static str,
    /// The element of chunks that have no reference, in JSON; `None` if all have one.
    pub fill: Option<String>,
    /// True if the first dimension counts the frames of a trajectory.
    pub has_frames: bool,
}

impl ZarrArray {
    /// Describes an array all of whose chunks have references.
    pub fn new(
        path: Vec<String>,
        dtype: String,
        shape: Vec<u64>,
        chunks: Vec<u64>,
        compressor: &'static str,
    ) -> Self {
        Self { path, dtype, shape, chunks, compressor, fill: None, has_frames: false }
    }

    /// Returns the number of chunks; `None` on overflow.
    pub fn count(&self) -> Option<u64> {
        let counts = self.shape.iter().zip(&self.chunks).map(|(len, chunk)| len.div_ceil((*chunk).max(1)));
        counts.into_iter().try_fold(1_u64, u64::checked_mul)
    }

    /// Returns the key of a chunk, counted in C order.
    fn key(&self, chunk: u64) -> String {
        let mut rest = chunk;
        let mut numbers = Vec::with_capacity(self.shape.len());
        for (len, chunk_len) in self.shape.iter().zip(&self.chunks).rev() {
            let count = len.div_ceil((*chunk_len).max(1)).max(1);
            numbers.push((rest % count).to_string());
            rest /= count;
        }
        numbers.reverse();
        if numbers.is_empty() { "0".to_owned() } else { numbers.join(".") }
    }

    /// Returns the names of the dimensions. A name has the dimension's position, counted from the last one,
    /// and its length. Arrays of a group thus share the dimensions that numpy would broadcast together.
    fn dimensions(&self) -> Vec<String> {
        let count = self.shape.len();
        let name = |(n, len): (usize, &u64)| match n {
            0 if self.has_frames => format!("frame_{len}"),
            _ => format!("dim{}_{len}", count - n),
        };
        self.shape.iter().enumerate().map(name).collect()
    }
}

/// Returns the shape of chunks of `bytes` bytes each that together are an array of this shape, with elements of
/// `item` bytes, in C order; `None` if there is none.
pub fn chunks_of(shape: &[u64], item: u64, bytes: u64) -> Option<Vec<u64>> {
    let mut row = item;
    let mut chunks = vec![1; shape.len()];
    for (chunk, len) in chunks.iter_mut().zip(shape).rev() {
        let rows = bytes.checked_div(row).filter(|rows| bytes.is_multiple_of(row) && *rows > 0)?;
        if rows <= *len {
            *chunk = rows;
            return len.is_multiple_of(rows).then_some(chunks);
        }
        *chunk = *len;
        row = row.checked_mul(*len)?;
    }
    (row == bytes).then_some(chunks)
}

/// Returns the shape of chunks of whole rows, about 1 MiB each, that divide an array of unencoded elements.
pub fn usual_chunks(shape: &[u64], item: u64) -> Vec<u64> {
    let rows = |from: usize| shape[from..].iter().try_fold(item, |size, len| size.checked_mul(*len));
    let total = rows(0).unwrap_or(u64::MAX);
    let wanted = CHUNK.max(total.div_ceil(MAX_CHUNKS));
    let mut chunks: Vec<u64> = shape.iter().map(|len| (*len).max(1)).collect();
    for (n, len) in shape.iter().enumerate() {
        let row = rows(n + 1).unwrap_or(u64::MAX);
        if total == 0 || rows(n).is_some_and(|size| size <= wanted) {
            break;
        }
        chunks[n] = 1;
        if row <= wanted {
            let least = len.div_ceil((wanted / row.max(1)).max(1));
            let most = (*len).min(least.saturating_mul(SHORTER)).min(least.saturating_add(TRIES));
            let count = (least..=most).find(|count| len.is_multiple_of(*count)).unwrap_or(1);
            chunks[n] = len / count;
            break;
        }
    }
    chunks
}

/// Returns the name of a Zarr group or array for a component of a path in `arrays/`. Names that Zarr
/// reserves, and characters that readers misunderstand, are escaped reversibly, as file names in `arrays/` are.
pub fn name(component: &str) -> String {
    // fsspec takes a `*` for a pattern, and VirtualiZarr takes each name with a dot at its start for metadata.
    let name = component.replace('\\', "%5C").replace('*', "%2A");
    match name.as_str() {
        "zarr.json" => "zarr%2Ejson".to_owned(),
        _ => name.strip_prefix('.').map_or_else(|| name.clone(), |rest| format!("%2E{rest}")),
    }
}

/// Returns the URL of a source. The URL of a local file is not escaped, because fsspec does not unescape it.
///
/// # Errors
/// The path is not UTF-8.
pub(crate) fn url(path: &Path) -> Result<String> {
    // The path of a source on a server is its address.
    let is_address =
        |text: &&str| text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme));
    if let Some(address) = path.to_str().filter(is_address) {
        return Ok(address.to_owned());
    }
    let path = std::path::absolute(path)?;
    let path = path.to_str().ok_or_else(|| Error::unsupported("the name of the file is not UTF-8"))?;
    Ok(format!("file://{path}"))
}

/// A writer of references. The arrays must be sorted by their paths.
#[derive(Debug)]
pub struct References {
    /// The URL of the file, in JSON.
    url: String,
    /// The groups of the last array.
    groups: Vec<String>,
    has_left_out: bool,
    /// The metadata so far; `None` if they are too large.
    metadata: Option<ConsolidatedMetadata>,
}

/// Metadata that are repeated in the consolidated metadata of groups.
#[derive(Debug, Default)]
struct ConsolidatedMetadata {
    /// Keys and values in their order: each group is followed by everything in it.
    entries: Vec<(String, String)>,
    /// The numbers of the entries that are groups.
    groups: Vec<usize>,
    /// The members of the root's attribute `left_out`.
    left_out: String,
    size: usize,
}

impl References {
    /// Creates references to chunks of the file with this URL. Each chunk has the URL: GDAL and VirtualiZarr do
    /// not read templates.
    pub(crate) fn new(url: &str) -> Self {
        let metadata = Some(ConsolidatedMetadata::default());
        Self { url: to_json(url), groups: Vec::new(), has_left_out: false, metadata }
    }

    /// Writes the start, with the root.
    pub(crate) fn begin(out: &mut Vec<u8>) {
        push(out, &[r#"{"version":1,"refs":{".zgroup":"{\"zarr_format\":2}""#]);
    }

    /// Writes the metadata of an array and of its groups.
    pub(crate) fn array(&mut self, array: &ZarrArray, out: &mut Vec<u8>) {
        let Some((_, groups)) = array.path.split_last() else { return };
        let shared = self.groups.iter().zip(groups).take_while(|(one, other)| one == other).count();
        for depth in shared..groups.len() {
            if depth < MAX_DEPTH
                && let Some(metadata) = self.metadata.as_mut()
            {
                metadata.groups.push(metadata.entries.len());
            }
            self.entry(format!("{}/.zgroup", groups[..=depth].join("/")), GROUP.to_owned(), out);
        }
        self.groups = groups.to_vec();
        let path = array.path.join("/");
        let meta = format!(
            r#"{{"zarr_format":2,"shape":{:?},"chunks":{:?},"dtype":{},"compressor":{},"fill_value":{},"order":"C","filters":null}}"#,
            array.shape,
            array.chunks,
            to_json(&array.dtype),
            array.compressor,
            array.fill.as_deref().unwrap_or("null")
        );
        self.entry(format!("{path}/.zarray"), meta, out);
        let attributes = format!(r#"{{"_ARRAY_DIMENSIONS":{}}}"#, to_json(&array.dimensions()));
        self.entry(format!("{path}/.zattrs"), attributes, out);
    }

    /// Writes metadata, and keeps them if they are not too many.
    fn entry(&mut self, key: String, value: String, out: &mut Vec<u8>) {
        push(out, &[",", &to_json(&key), ":", &to_json(&value)]);
        self.keep(key.len() + value.len(), |metadata| metadata.entries.push((key, value)));
    }

    fn keep(&mut self, size: usize, keep: impl FnOnce(&mut ConsolidatedMetadata)) {
        self.metadata = self.metadata.take().filter(|metadata| metadata.size + size <= MAX_KEPT);
        if let Some(metadata) = &mut self.metadata {
            metadata.size += size;
            keep(metadata);
        }
    }

    /// Writes the consolidated metadata of the root (number 0) or of another group, which spare readers a
    /// listing; false if there is no such group. No array may follow.
    pub(crate) fn consolidated(&self, number: usize, out: &mut Vec<u8>) -> bool {
        let Some(metadata) = &self.metadata else { return false };
        let (first, prefix, mut members) = match number.checked_sub(1) {
            None if self.has_left_out => {
                (0, "", format!(r#"".zgroup":{GROUP},".zattrs":{{"left_out":{{{}}}}}"#, metadata.left_out))
            }
            None => (0, "", format!(r#"".zgroup":{GROUP}"#)),
            Some(group) => {
                let Some(first) = metadata.groups.get(group) else { return false };
                let key = metadata.entries.get(*first).map_or("", |(key, _)| key.as_str());
                (*first, key.strip_suffix(".zgroup").unwrap_or(key), String::new())
            }
        };
        let entries = metadata.entries.get(first..).unwrap_or_default().iter();
        for (key, value) in entries.map_while(|(key, value)| Some((key.strip_prefix(prefix)?, value))) {
            members.push_str(if members.is_empty() { "" } else { "," });
            members.push_str(&format!("{}:{value}", to_json(key)));
        }
        let text = format!(r#"{{"metadata":{{{members}}},"zarr_consolidated_format":1}}"#);
        push(out, &[",", &to_json(&format!("{prefix}.zmetadata")), ":", &to_json(&text)]);
        true
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.metadata.as_ref().map_or(0, |metadata| metadata.size as u64 * 2)
    }

    /// Writes the range of a chunk of an array, counted in C order.
    pub fn chunk(&self, array: &ZarrArray, chunk: u64, (offset, len): (u64, u64), out: &mut Vec<u8>) {
        let key = to_json(&format!("{}/{}", array.path.join("/"), array.key(chunk)));
        push(out, &[",", &key, ":[", &self.url, &format!(",{offset},{len}]")]);
    }

    /// Writes the only chunk of an array as data in the text.
    pub fn inline_chunk(&self, array: &ZarrArray, bytes: &[u8], out: &mut Vec<u8>) {
        let key = to_json(&format!("{}/{}", array.path.join("/"), array.key(0)));
        push(out, &[",", &key, ":\"base64:", &BASE64_STANDARD.encode(bytes), "\""]);
    }

    /// Writes the reason why an array is left out. No array may follow.
    pub(crate) fn left_out(&mut self, path: &str, why: &str, out: &mut Vec<u8>) {
        let is_first = !std::mem::replace(&mut self.has_left_out, true);
        let member = format!("{}:{}", to_json(path), to_json(why));
        let entry = to_json(&member);
        let entry = entry.get(1..entry.len().saturating_sub(1)).unwrap_or_default();
        push(out, &[if is_first { LEFT_OUT } else { "," }, entry]);
        self.keep(member.len() + 1, |metadata| {
            metadata.left_out.push_str(if is_first { "" } else { "," });
            metadata.left_out.push_str(&member);
        });
    }

    /// Ends the list of arrays that are left out.
    pub(crate) fn end_left_out(&self, out: &mut Vec<u8>) {
        push(out, &[if self.has_left_out { r#"}}""# } else { "" }]);
    }

    /// Writes the end.
    pub(crate) fn end(out: &mut Vec<u8>) {
        push(out, &["}}\n"]);
    }
}

fn push(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_rows_of_about_a_mebibyte() {
        for (shape, item, expected) in [
            (&[10, 10][..], 4, &[10, 10][..]),
            (&[4096, 4096], 2, &[128, 4096]),
            (&[4096, 4096], 4, &[64, 4096]),
            (&[4088, 4088], 4, &[56, 4088]),
            (&[8, 512, 512], 4, &[1, 512, 512]),
            (&[8, 4096, 4096], 4, &[1, 64, 4096]),
            // A prime number of rows.
            (&[4093, 4096], 4, &[4093, 4096]),
            (&[10_000_000], 8, &[125_000]),
            (&[0, 3], 8, &[1, 3]),
            (&[], 8, &[]),
            (&[1 << 40], 8, &[1 << 24]),
            (&[u64::MAX, u64::MAX], 8, &[1, 1]),
        ] {
            let chunks = usual_chunks(shape, item);
            if shape.first() != Some(&u64::MAX) {
                assert_eq!(chunks, expected, "{shape:?}");
            }
            let divide = |(len, chunk): (&u64, &u64)| *len == 0 || len.is_multiple_of(*chunk);
            assert!(shape.iter().zip(&chunks).all(divide), "{shape:?}");
        }
    }

    #[test]
    fn chunks_of_a_length_divide_the_array_or_are_none() {
        for (shape, bytes, expected) in [
            (&[8, 6][..], 48, Some(&[2, 6][..])),
            (&[8, 6], 12, Some(&[1, 3])),
            (&[8, 6], 192, Some(&[8, 6])),
            (&[8, 6], 36, None),
            (&[8, 6], 16, None),
            (&[8, 6], 72, None),
            (&[8, 6], 384, None),
            (&[8, 6], 2, None),
            (&[], 4, Some(&[])),
            (&[5], 4, Some(&[1])),
        ] {
            assert_eq!(chunks_of(shape, 4, bytes).as_deref(), expected, "{shape:?} {bytes}");
        }
    }

    #[test]
    fn names_that_mean_something_to_zarr_are_escaped() {
        for (component, expected) in [
            ("a", "a"),
            (".zarray", "%2Ezarray"),
            (".a*", "%2Ea%2A"),
            ("zarr.json", "zarr%2Ejson"),
            ("a\\b", "a%5Cb"),
            ("%25", "%25"),
        ] {
            assert_eq!(name(component), expected);
        }
    }

    #[test]
    fn the_text_is_json_within_json() {
        let mut out = Vec::new();
        References::begin(&mut out);
        let mut references = References::new("file:///a \"{{b}}\"");
        let path = vec!["a".into(), "it's \"x\"".into()];
        let array = ZarrArray::new(path, "<f4".into(), vec![4, 6], vec![2, 6], NO_COMPRESSOR);
        assert_eq!(array.count(), Some(2));
        references.array(&array, &mut out);
        references.chunk(&array, 1, (99, 48), &mut out);
        references.left_out("b", "it is \"big\"", &mut out);
        references.left_out("c", "too", &mut out);
        references.end_left_out(&mut out);
        assert!((0..2).all(|number| references.consolidated(number, &mut out)));
        assert!(!references.consolidated(2, &mut out));
        References::end(&mut out);
        let text = String::from_utf8(out).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).expect(&text);
        // With templates, "{{" would be one.
        assert_eq!(value["templates"], serde_json::Value::Null);
        let refs = &value["refs"];
        assert_eq!(refs["a/it's \"x\"/1.0"], serde_json::json!(["file:///a \"{{b}}\"", 99, 48]));
        assert_eq!(refs["a/.zgroup"], "{\"zarr_format\":2}");
        let inner =
            |key: &str| -> serde_json::Value { serde_json::from_str(refs[key].as_str().unwrap()).unwrap() };
        let metadata = inner(".zmetadata")["metadata"].take();
        assert_eq!(metadata[".zattrs"], inner(".zattrs"));
        assert_eq!(metadata["a/it's \"x\"/.zarray"], inner("a/it's \"x\"/.zarray"));
        let metadata = inner("a/.zmetadata")["metadata"].take();
        assert_eq!(metadata["it's \"x\"/.zarray"], inner("a/it's \"x\"/.zarray"));
        assert_eq!(metadata[".zgroup"], inner("a/.zgroup"));
        assert_eq!(inner(".zattrs")["left_out"], serde_json::json!({"b": "it is \"big\"", "c": "too"}));
        assert_eq!(inner("a/it's \"x\"/.zarray")["chunks"], serde_json::json!([2, 6]));
        assert_eq!(
            inner("a/it's \"x\"/.zattrs"),
            serde_json::json!({"_ARRAY_DIMENSIONS": ["dim2_4", "dim1_6"]})
        );
    }
}
