//! Opens generated files, and compares the library's results with the builder's data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::Result;
use asdf_file::container::{Container, Context};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::Content;
use seekable::source::FileSource;

use common::asdf::Built;
use common::mount::fresh_folder;

/// A file as users open it, its container, and the directory of the file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: asdf_access::File,
    pub(crate) container: Arc<dyn Container>,
    _folder: tempfile::TempDir,
}

/// Opens a file with these bytes.
pub(crate) fn open(bytes: &[u8]) -> Result<Opened> {
    let folder = fresh_folder();
    let path = folder.path().join("file.asdf");
    std::fs::write(&path, bytes).unwrap();
    let file = asdf_access::File::open(&path)?;
    Ok(Opened { file, container: open_path(&path)?, _folder: folder })
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
    let file = &opened.file;
    let tree = file.tree().unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(tree.as_bytes() == built.tree(), "{case}: text of the tree");
    assert_eq!(file.block_count().unwrap(), built.blocks.len(), "{case}: how many blocks");
    for (n, wanted) in built.blocks.iter().enumerate() {
        let block = file.block(n).unwrap_or_else(|error| panic!("{case}: block {n}: {error}"));
        assert_eq!(block.offset(), wanted.offset, "{case}: offset of block {n}");
        let fact = |key: &str| block.facts().find(|(name, _)| *name == key).map(|(_, value)| value);
        let (size, flags) = (wanted.header_size.to_string(), wanted.flags.to_string());
        assert_eq!(fact("header_size"), Some(size), "{case}: header_size of block {n}");
        assert_eq!(fact("flags"), Some(flags), "{case}: flags of block {n}");
        assert_eq!(block.is_streamed(), wanted.streamed, "{case}: whether block {n} is streamed");
        assert_eq!(block.len(), wanted.data.len() as u64, "{case}: size of block {n}");
        let data = block.to_vec().unwrap_or_else(|error| panic!("{case}: block {n}: {error}"));
        assert!(data == wanted.data, "{case}: block {n} holds other bytes");
    }
    assert!(file.block(built.blocks.len()).is_err(), "{case}: a block past the last");
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
