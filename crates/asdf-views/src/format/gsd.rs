//! GSD, the trajectory format of HOOMD-blue: file layer 0.3, 1.x and 2.x (`file-layer.rst` of gsd 1.0 and
//! 2.0).
//!
//! A file has a header, a list of names, data chunks and an index. Each index entry describes one chunk:
//! frame, name, type, shape, and location of the data. Opening reads the header and the names; entries are
//! read on demand.
//!
//! | module | contents |
//! |---|---|
//! | [`header`], [`names`], [`entry`] | the parts of the file, each parsed from bytes |
//! | [`index`], [`order`] | the entries by number; the entries that make up the frames |
//! | [`file`](mod@file) | an open file: its frames, and lookup of a chunk by frame and name |
//! | [`chunk`], [`facts`] | a chunk as a file; its facts |
//! | [`frames`], [`series`], [`resolved`] | the directories in [`arrays`] |
//! | [`tables`], [`refs`] | `tables/`; `refs.json` |
//! | [`tree`], [`defect`] | the text of `tree.yaml`; damage and notes in words |

use std::sync::Arc;

use asdf_file::container::{Container, Context, Format, references};
use asdf_file::folder::path_dir;
use seekable::error::Result;
use seekable::source::Source;

pub(crate) mod arrays;
pub(crate) mod chunk;
mod container;
pub(crate) mod defect;
pub(crate) mod entry;
pub(crate) mod facts;
pub(crate) mod file;
pub(crate) mod frames;
pub mod header;
pub(crate) mod index;
pub(crate) mod lineage;
pub mod names;
pub(crate) mod order;
mod refs;
pub(crate) mod resolved;
pub(crate) mod schema;
pub(crate) mod series;
pub(crate) mod tables;
pub(crate) mod tree;

pub(crate) use file::GsdFile;

/// The format's name.
pub(crate) const NAME: &str = "gsd";

/// The GSD format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gsd;

impl Format for Gsd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "a GSD file"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".gsd"]
    }

    fn view_names(&self) -> &'static [&'static str] {
        &["arrays", "tables", references::NAME]
    }

    fn recognise(&self, head: &[u8]) -> bool {
        head.starts_with(&header::MAGIC)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(container::Gsd::new(GsdFile::open(source)?, &context.cache)))
    }
}
