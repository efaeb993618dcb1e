//! Opens generated files, and compares the library's results with the builder's data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_mount::cache::Cache;
use asdf_mount::content::Content;
use asdf_mount::error::Result;
use asdf_mount::format::{self, Container, Context};
use asdf_mount::source::FileSource;

use crate::common::asdf::Built;
use crate::common::mount::fresh_folder;

/// A container and the directory of its file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) container: Arc<dyn Container>,
    _folder: tempfile::TempDir,
}

/// Opens a file with these bytes.
pub(crate) fn open(bytes: &[u8]) -> Result<Opened> {
    let folder = fresh_folder();
    let path = folder.path().join("file.asdf");
    std::fs::write(&path, bytes).unwrap();
    Ok(Opened { container: open_path(&path)?, _folder: folder })
}

fn open_path(path: &Path) -> Result<Arc<dyn Container>> {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    format::open(Arc::new(FileSource::open(&PathBuf::from(path))?), &context)
}

/// Reads a content to its end in pieces of odd length.
pub(crate) fn read(content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 4099];
    loop {
        assert!(bytes.len() as u64 <= content.len(), "it goes on behind its end");
        match content.read_at(bytes.len() as u64, &mut piece)? {
            0 => return Ok(bytes),
            n => bytes.extend(&piece[..n]),
        }
    }
}

/// Compares a complete file: tree, number of blocks, facts and data of each block.
pub(crate) fn assert_found(case: &str, built: &Built) -> Opened {
    let opened = open(&built.bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_holds(case, &opened, built);
    opened
}

/// Compares an opened container with the builder's data.
pub(crate) fn assert_holds(case: &str, opened: &Opened, built: &Built) {
    let container = &opened.container;
    assert_eq!(container.tree().len(), built.tree_end as u64, "{case}: end of the tree");
    assert!(read(&*container.tree()).unwrap() == built.tree(), "{case}: text of the tree");
    assert_eq!(container.block_count().unwrap(), built.blocks.len(), "{case}: how many blocks");
    for (n, wanted) in built.blocks.iter().enumerate() {
        let block = container.block(n).unwrap_or_else(|error| panic!("{case}: block {n}: {error}"));
        assert_eq!(block.facts.offset, wanted.offset, "{case}: offset of block {n}");
        assert_eq!(
            block.facts.get("header_size"),
            Some(wanted.header_size.to_string()),
            "{case}: header_size of block {n}"
        );
        assert_eq!(block.facts.get("flags"), Some(wanted.flags.to_string()), "{case}: flags of block {n}");
        assert_eq!(block.streamed, wanted.streamed, "{case}: whether block {n} is streamed");
        let content = block.content.unwrap_or_else(|error| panic!("{case}: block {n}: {error}"));
        assert_eq!(content.len(), wanted.data.len() as u64, "{case}: size of block {n}");
        let data = read(&*content).unwrap_or_else(|error| panic!("{case}: block {n}: {error}"));
        assert!(data == wanted.data, "{case}: block {n} holds other bytes");
    }
    assert!(container.block(built.blocks.len()).is_err(), "{case}: a block past the last");
}

#[test]
fn each_view_has_a_name_that_the_option_knows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in
        ["examples/sample.asdf", "examples/trajectory.gsd", "tests/fixtures/bloscpack/bcolz1.2.1_f8__0.blp"]
    {
        let container = open_path(&root.join(path)).unwrap();
        let derived = container.derived_files().unwrap();
        let views = container.views().unwrap().into_iter().map(|(name, _)| name).chain(derived);
        let unknown: Vec<_> =
            views.filter(|name| !format::view_names().any(|known| known == *name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}
