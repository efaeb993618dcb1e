//! GSD, the trajectories of HOOMD-blue: file layer 0.3, 1.x and 2.x (`file-layer.rst` of gsd 1.0 and 2.0).
//!
//! A file is a header, a list of names, chunks of data, and an index with an entry for each chunk: its frame, its
//! name, its type and shape, and where its data lie. Opening reads header and names; entries are looked for when a
//! program asks.
//!
//! | module | what it is |
//! |---|---|
//! | [`header`], [`names`], [`entry`] | the parts of the file, each parsed from bytes |
//! | [`index`], [`order`] | the entries, by number; which of them make up the frames |
//! | [`file`](mod@file) | a file: its frames, and the chunk of a frame and a name |
//! | [`chunk`], [`facts`] | a chunk as a file, and what is said of it |
//! | [`frames`], [`series`], [`resolved`] | the folders in [`arrays`] |
//! | [`tables`] | `tables/` |
//! | [`tree`], [`defect`] | the text of `tree.yaml`; what is wrong, worded |

use std::sync::Arc;

use super::{Container, Context, Format};
use crate::content::path_folder;
use crate::error::Result;
use crate::source::Source;

pub mod arrays;
pub mod chunk;
mod container;
pub mod defect;
pub mod entry;
pub mod facts;
pub mod file;
pub mod frames;
pub mod header;
pub mod index;
pub mod lineage;
pub mod names;
pub mod order;
pub mod resolved;
pub mod schema;
pub mod series;
pub mod tables;
pub mod tree;

pub use file::GsdFile;

/// The format's name.
pub const NAME: &str = "gsd";

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Gsd;

impl Format for Gsd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "a GSD file"
    }

    fn magic(&self) -> &'static str {
        r"\xdfe\xdfe\xdfe\xdfe"
    }

    fn view_names(&self) -> &'static [&'static str] {
        &["arrays", "tables"]
    }

    fn recognise(&self, head: &[u8]) -> bool {
        head.starts_with(&header::MAGIC)
    }

    fn open(&self, source: Arc<dyn Source>, _: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(container::Gsd::new(GsdFile::open(source)?)))
    }
}
