//! Opens GSD files through the library, and walks their directories.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use asdf_access::Result;
use asdf_file::container::{Container, Context};
use asdf_file::folder::{Dir, EntryKind, File, Node};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::source::MemorySource;

use crate::open::read;

/// Opens a file with these bytes.
pub(crate) fn open(bytes: &[u8]) -> Result<Arc<dyn Container>> {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    format::open(Arc::new(MemorySource(bytes.to_vec())), &context)
}

/// Returns the node at a path in the directory of a file.
pub(crate) fn at(container: &Arc<dyn Container>, path: &str) -> Option<Node> {
    let (top, rest) = path.split_once('/').unwrap_or((path, ""));
    let view = container.clone().views().unwrap().into_iter().find(|(name, _)| *name == top)?.1;
    let rest: Vec<&OsStr> = rest.split('/').filter(|name| !name.is_empty()).map(OsStr::new).collect();
    match (view, &rest[..]) {
        (view, []) => Some(view),
        (Node::Dir(folder), rest) => folder.find(rest).unwrap(),
        _ => None,
    }
}

/// Returns the directory at a path.
pub(crate) fn folder(container: &Arc<dyn Container>, path: &str) -> Arc<dyn Dir> {
    match at(container, path) {
        Some(Node::Dir(folder)) => folder,
        other => panic!("{path} is no folder: {other:?}"),
    }
}

/// Returns the file at a path.
pub(crate) fn file(container: &Arc<dyn Container>, path: &str) -> File {
    match at(container, path) {
        Some(Node::File(file)) => file,
        other => panic!("{path} is no file: {other:?}"),
    }
}

/// Reads the file at a path.
pub(crate) fn bytes(container: &Arc<dyn Container>, path: &str) -> Vec<u8> {
    read(&*file(container, path).content.unwrap()).unwrap()
}

/// Returns the names in a directory, each with its kind.
pub(crate) fn names(folder: &dyn Dir) -> Vec<(String, EntryKind)> {
    let mut names = Vec::new();
    folder
        .list(0, &mut |name, kind| {
            names.push((name.to_str().unwrap().to_owned(), kind));
            true
        })
        .unwrap();
    names
}

/// Returns all files below a directory, by path.
pub(crate) fn walk(folder: &dyn Dir) -> BTreeMap<String, File> {
    let mut found = BTreeMap::new();
    for (name, kind) in names(folder) {
        match folder.lookup(OsStr::new(&name)).unwrap() {
            Some(Node::Dir(inner)) => {
                assert_eq!(kind, EntryKind::Dir, "{name}");
                let inner = walk(&*inner).into_iter();
                found.extend(inner.map(|(path, file)| (format!("{name}/{path}"), file)));
            }
            Some(Node::File(file)) => {
                assert_eq!(kind, EntryKind::File, "{name}");
                assert!(found.insert(name, file).is_none());
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    found
}

/// Returns an array as numpy saves it.
pub(crate) fn npy(descr: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
    [&asdf_file::array::npy::header(descr, false, shape)[..], data].concat()
}
