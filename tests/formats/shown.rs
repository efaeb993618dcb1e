//! The views of a container, read without a mount.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_access::{Error, Result};
use asdf_file::container::{Container, Context};
use asdf_file::folder::{File, Node};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::Content;
use seekable::source::MemorySource;

pub(crate) fn context() -> Context {
    Context::new(Arc::new(Cache::new(64 << 20)))
}

pub(crate) fn open(bytes: &[u8]) -> Result<Arc<dyn Container>> {
    format::open(Arc::new(MemorySource(bytes.to_vec())), &context())
}

/// Reads a content up to an error.
pub(crate) fn read(content: &dyn Content) -> (Vec<u8>, Option<Error>) {
    let mut all = Vec::new();
    let mut piece = vec![0; 77_777];
    loop {
        assert!(all.len() as u64 <= content.len(), "it goes on behind its end");
        match content.read_at(all.len() as u64, &mut piece) {
            Ok(0) => return (all, None),
            Ok(read) => all.extend(&piece[..read]),
            Err(error) => return (all, Some(error)),
        }
    }
}

pub(crate) fn whole(content: &dyn Content) -> Vec<u8> {
    let (bytes, error) = read(content);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(bytes.len() as u64, content.len());
    bytes
}

/// Returns the file at a path in a container's directory.
pub(crate) fn file(container: &Arc<dyn Container>, path: &str) -> Option<File> {
    let mut path = path.split('/');
    let first = path.next().unwrap();
    let mut node = container.clone().views().unwrap().into_iter().find(|(name, _)| *name == first)?.1;
    for name in path {
        let Node::Dir(folder) = node else { return None };
        node = folder.lookup(OsStr::new(name)).unwrap()?;
    }
    match node {
        Node::File(file) => Some(file),
        _ => None,
    }
}

pub(crate) fn view(container: &Arc<dyn Container>, path: &str) -> Option<Vec<u8>> {
    file(container, path).map(|file| whole(&*file.content.unwrap()))
}
