//! The files of schemas and manifests below directories, as Python packages have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekable::content::{Content, Slice};
use seekable::error::{Error, Kind, Result};
use seekable::source::{FileSource, Source};

use super::value::{self, Value};
use super::{SchemaFile, Schemas};
use crate::limits::MAX_NAME;
use crate::yaml::document::{Document, Id};
use crate::yaml::survey;

/// Maximum number of files and directories that are looked at, and of bytes of schemas that are read.
const MAX_ENTRIES: usize = 1 << 20;
const MAX_BYTES: u64 = 64 << 20;

/// Reads all schemas and manifests below directories: the files `*.yaml` in a directory `schemas` or `manifests`, or below
/// one.
pub(super) fn read(directories: &[PathBuf]) -> Result<Schemas> {
    let mut schemas = Schemas::default();
    let mut entries_left = MAX_ENTRIES;
    let mut bytes_left = MAX_BYTES;
    for directory in directories {
        let before = schemas.files.len();
        for path in found(directory, &mut entries_left)? {
            let source = Arc::new(FileSource::open(&path)?);
            let len = source.stat()?.size;
            bytes_left = bytes_left.checked_sub(len).ok_or_else(|| {
                let what =
                    format!("there are more than {} MiB of schemas; name fewer directories", MAX_BYTES >> 20);
                Error::unsupported(what).of(directory)
            })?;
            schemas.add(path, &Slice::new(source, 0, len))?;
        }
        if schemas.files.len() == before {
            let what = "has no schemas: name a directory with schemas/ and manifests/ in it, such as that of a package";
            return Err(Error::new(Kind::Usage, what).of(directory));
        }
    }
    schemas.read_manifests();
    Ok(schemas)
}

/// Returns the files that may be schemas below a directory, sorted. Links to directories are not followed.
fn found(directory: &Path, entries_left: &mut usize) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![fs::canonicalize(directory).map_err(|error| Error::from(error).of(directory))?];
    while let Some(directory) = open.pop() {
        let of_directory = |error: std::io::Error| Error::from(error).of(&directory);
        let has_schemas = directory.iter().any(|name| name == "schemas" || name == "manifests");
        for entry in fs::read_dir(&directory).map_err(of_directory)? {
            let path = entry.map_err(of_directory)?.path();
            *entries_left = entries_left.checked_sub(1).ok_or_else(|| {
                Error::unsupported("there are too many files here to find schemas").of(&directory)
            })?;
            let is_long = path.as_os_str().len() > MAX_NAME;
            let is_yaml = path.extension().is_some_and(|ending| ending == "yaml");
            if !is_long && path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                open.push(path);
            } else if has_schemas && is_yaml && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

impl Schemas {
    /// Adds a file, if it has an id.
    pub(super) fn add(&mut self, path: PathBuf, content: &dyn Content) -> Result<()> {
        let document = survey::read(content).map_err(|broken| broken.error.of(&path))?;
        let id =
            document.root().and_then(|root| value::text(&document, value::member(&document, root, "id")?));
        if let Some(id) = id.map(|id| id.trim_end_matches('#').to_owned()) {
            self.by_id.entry(id.clone()).or_insert(self.files.len());
            self.files.push(SchemaFile { path, id, document });
        }
        Ok(())
    }

    /// Reads which schemas the manifests name for tags. If two manifests name different ones, the newer manifest counts.
    pub(super) fn read_manifests(&mut self) {
        let mut manifests: Vec<usize> = (0..self.files.len()).collect();
        manifests.sort_by_key(|file| by_version(&self.files[*file].id));
        for file in manifests {
            let SchemaFile { document, .. } = &self.files[file];
            let tags = document.root().and_then(|root| value::member(document, root, "tags"));
            let tags = tags
                .and_then(|tags| document.target(tags))
                .filter(|tags| value::is_sequence(document, *tags));
            for tag in tags.into_iter().flat_map(|tags| document.children(tags)) {
                if let Some((tag, addresses)) = schemas_of_tag(document, tag) {
                    self.by_tag.insert(tag, (addresses, file));
                }
            }
        }
    }
}

/// Returns the tag of an entry of a manifest, and its schemas.
fn schemas_of_tag(document: &Document, entry: Id) -> Option<(String, Vec<String>)> {
    let member = |key| value::member(document, document.target(entry)?, key);
    let tag = value::text(document, member("tag_uri")?)?.to_owned();
    let schemas = document.target(member("schema_uri")?)?;
    match Value::of(document, schemas) {
        Value::Text(address) => Some((tag, vec![address.to_owned()])),
        Value::Sequence => Some((tag, value::texts(document, schemas))),
        _ => None,
    }
}

/// Returns a key by which names are sorted, and their versions by their numbers.
fn by_version(name: &str) -> Vec<(u64, &str)> {
    let parts = name.split_inclusive(|char: char| !char.is_ascii_digit());
    parts
        .map(|part| (part.trim_end_matches(|char: char| !char.is_ascii_digit()).parse().unwrap_or(0), part))
        .collect()
}
