//! `tables/`: each table of the tree as a file `PATH.parquet`.
//!
//! | module | what it does |
//! |---|---|
//! | [`survey`](mod@survey) | finds the tables of a tree, in one pass for each generation of the file |
//! | [`search`] | finds the arrays in a column, and their metadata |
//! | [`columns`] | converts the elements of arrays to columns of a file |

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::AsdfFile;
use crate::content::folder::{Folder, Kind, Node};
use crate::content::path_folder::PathFolder;
use crate::error::Result;
use crate::format::Container;

mod columns;
mod search;
mod survey;

use survey::Entry;
pub(super) use survey::{Found, find};

/// The directory `tables/`. The tree is searched when a program first looks into the directory.
#[derive(Debug)]
pub(super) struct Tables {
    file: Arc<AsdfFile>,
}

impl Tables {
    pub(super) fn new(file: Arc<AsdfFile>) -> Self {
        Self { file }
    }

    fn folder(&self) -> PathFolder<Entry> {
        let file = self.file.clone();
        let make = move |entry: &Entry| {
            Ok(match entry {
                Entry::Table(sources) => Node::File(columns::file(&file, sources)),
                Entry::Link(target) => Node::Link(OsString::from(&**target)),
            })
        };
        PathFolder::new(&self.file.tables().items, make).with_links(|entry| matches!(entry, Entry::Link(_)))
    }
}

impl Folder for Tables {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.folder().lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, Kind) -> bool) -> Result<()> {
        self.folder().list(from, take)
    }

    fn is_slow(&self) -> bool {
        self.file.is_slow() || self.file.views.tables.get().is_none()
    }
}

impl AsdfFile {
    /// Returns the tables of the tree. They are found at the first call.
    fn tables(&self) -> &Found {
        self.views.tables.get_or_init(|| find(&*self.tree(), &|array| self.unfit_in_block(array)))
    }
}
