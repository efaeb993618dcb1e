//! Tests of the tree without a mount, with real directories and files of the fake format.

mod container;
mod elsewhere;
mod mirror;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use seekable::cache::Cache;

use super::fake::{self, Counts};
use super::*;

/// A small file of the fake format.
const FILE: &str = "#ASDF fake\n--- x: 1\n...\nBLOCK 5\nhelloBLOCK 0\n";

/// A temporary directory for sources, and the options of the trees made from it.
struct Test {
    dir: tempfile::TempDir,
    options: Options,
    counts: Arc<Counts>,
}

impl Test {
    fn new() -> Self {
        let counts = Arc::new(Counts::default());
        let mut options = Options::new(Context::new(Arc::new(Cache::new(0))));
        let opener = counts.clone();
        options.opener = Arc::new(move |source| fake::open(source, &opener));
        Self { dir: tempfile::tempdir().unwrap(), options, counts }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn tree(&self, name: &str) -> Vfs {
        Vfs::new(&[self.path(name).into()], &self.options).unwrap()
    }
}

impl Vfs {
    /// Looks up a path, name by name, without following links.
    fn at(&self, path: impl AsRef<OsStr>) -> Result<Attr> {
        let mut found = self.attr(Ino::ROOT)?;
        for name in Path::new(path.as_ref()) {
            found = self.lookup(found.ino, name)?;
        }
        Ok(found)
    }

    fn errno(&self, path: impl AsRef<OsStr>) -> i32 {
        self.at(path).map_or_else(|error| error.errno(), |_| 0)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let reader = self.open(self.at(path).unwrap().ino).unwrap();
        read(&reader).unwrap()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let listing = self.open_dir(self.at(path).unwrap().ino).unwrap();
        let mut names = Vec::new();
        let mut take = |item: DirItem<'_>| {
            names.push(item.name.to_string_lossy().into_owned());
            false
        };
        self.read_dir(&listing, 0, false, &mut take).unwrap();
        assert_eq!(names[..2], [".", ".."]);
        let mut names = names.split_off(2);
        names.sort();
        names
    }

    fn link_text(&self, path: &str) -> String {
        let attr = self.at(path).unwrap();
        assert_eq!(attr.kind, FileKind::Link, "{path}");
        self.read_link(attr.ino).unwrap().into_string().unwrap()
    }
}

/// Returns all bytes of a handle.
fn read(reader: &ReadHandle) -> Result<Vec<u8>> {
    let content = reader.content()?;
    let mut bytes = vec![0; content.len() as usize + 1];
    let read = content.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Waits until a source is checked for changes again.
fn wait() {
    sleep(Duration::from_millis(230));
}
