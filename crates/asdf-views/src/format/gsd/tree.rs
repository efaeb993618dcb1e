//! The text of `tree.yaml`: contents of header, names and index.

use std::fmt::Write;

use seekable::error::{Result, if_readable};

use seekable::content::is_printable;

use super::file::GsdFile;
use super::header::{ENTRY, SIZE, SLOT};
use super::index::SURVEYED;
use base64::prelude::{BASE64_STANDARD, Engine};

/// Returns the text. If the index is damaged, only its location is included.
pub(crate) fn text(file: &GsdFile) -> Result<Vec<u8>> {
    let header = file.header();
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{key}: {value}");
    };
    line("gsd_version", &format!("\"{}\"", header.version));
    line("schema", &scalar(&header.schema));
    line("schema_version", &format!("\"{}\"", header.schema_version));
    line("application", &scalar(&header.application));
    line("byte_order", &"little");
    line("file_size", &file.stat().size);
    line("index_location", &header.index.offset);
    line("index_allocated_entries", &(header.index.len / ENTRY));
    if let (Some(used), Some(shown)) = (if_readable(file.index().used())?, if_readable(file.shown())?) {
        line("index_used_entries", &used);
        line("namelist_location", &header.names.offset);
        line("namelist_allocated_entries", &(header.names.len / SLOT));
        line("frames", &shown.frames);
        if shown.unfinished > 0 {
            line("chunks_of_unfinished_frame", &shown.unfinished);
        }
        // Omitted for a large index, which would need a full scan.
        if let Some(unused) = if_readable(unused(file, used))?.flatten() {
            line("unused_bytes", &unused);
        }
    }
    if file.names().is_empty() {
        line("names", &"[]");
    } else {
        line("names", &"");
    }
    for name in file.names().iter() {
        let _ = writeln!(text, "- {}", scalar(name));
    }
    Ok(text.replace(": \n", ":\n").into_bytes())
}

/// Returns the number of unused bytes: old copies of index and names, data of unfinished frames. `None` for a
/// large index.
fn unused(file: &GsdFile, used: u64) -> Result<Option<u64>> {
    if used > SURVEYED {
        return Ok(None);
    }
    let header = file.header();
    let mut ranges = vec![(0, SIZE)];
    ranges.extend([header.index, header.names].map(|piece| (piece.offset, piece.offset + piece.len)));
    file.index().scan(0..used, &mut |entry| {
        if let Ok((offset, len)) = entry.range(file.stat().size) {
            ranges.push((offset, offset + len));
        }
        Ok(true)
    })?;
    ranges.sort_unstable();
    let mut covered = 0;
    let mut unused = 0;
    for (start, end) in ranges {
        unused += u64::saturating_sub(start, covered);
        covered = covered.max(end);
    }
    Ok(Some(unused + file.stat().size.saturating_sub(covered)))
}

/// Returns bytes as a YAML scalar: a quoted string, or `!!binary` if they are not UTF-8.
fn scalar(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return format!("!!binary \"{}\"", BASE64_STANDARD.encode(bytes));
    };
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            ' '..='~' => out.push(char),
            _ if is_printable(char) => out.push(char),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(char));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_a_string_or_binary() {
        assert_eq!(scalar(b"particles/N"), r#""particles/N""#);
        assert_eq!(scalar("größe \"\\\n\u{feff}°".as_bytes()), r#""größe \"\\\U0000000a\U0000feff°""#);
        assert_eq!(scalar(b"\xff"), r#"!!binary "/w==""#);
    }
}
