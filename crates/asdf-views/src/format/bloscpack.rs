//! Bloscpack, versions 1 to 3, and the proposal of 2012 for items of variable length.
//!
//! A file has a header, metadata, the offsets of the chunks, and the chunks: Blosc buffers, each followed by
//! its checksum. Opening reads the header of the file and the headers of two chunks.
//!
//! | module | contents |
//! |---|---|
//! | [`header`], [`metadata`], [`checksum`] | the parts of the file, each parsed from bytes |
//! | [`places`], [`chain`], [`map`] | locations of the chunks: by the offsets, and by walking the chain |
//! | [`reader`], [`cursor`] | reading many small chunks with few reads |
//! | [`body`] | the chunks as parts of the payload; their checksums |
//! | [`array`](mod@array) | the values in the metadata; the array that they describe |
//! | [`container`] | the file as a directory |
//! | [`refs`] | `refs.json` |
//! | [`facts`], [`tree`], [`check`] | the facts of a chunk; the text of `tree.yaml`; damage and notes |

use std::sync::Arc;

use asdf_file::container::{Container, Context, Format, references};
use seekable::codec::blosc;
use seekable::error::Result;
use seekable::source::{Source, SourceStat};

pub mod array;
pub(crate) mod body;
pub(crate) mod chain;
mod check;
pub(crate) mod checksum;
mod container;
pub(crate) mod cursor;
mod facts;
pub mod header;
pub mod map;
pub(crate) mod metadata;
pub(crate) mod places;
pub(crate) mod reader;
mod refs;
mod tree;

/// The format's name.
pub(crate) const NAME: &str = "bloscpack";

/// The Bloscpack format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bloscpack;

impl Format for Bloscpack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "a Bloscpack file"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".blp"]
    }

    fn view_names(&self) -> &'static [&'static str] {
        &["arrays", "data.bin", "meta.json", references::NAME]
    }

    fn recognise(&self, head: &[u8]) -> bool {
        head.starts_with(header::MAGIC)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(container::BloscpackFile::open(source, context)?))
    }

    /// Recognises a bare Blosc buffer, which has no magic: its header is valid and states the file's size.
    fn related(&self, head: &[u8], stat: &SourceStat) -> Option<String> {
        let found = blosc::Header::parse(head.first_chunk()?).ok()?;
        (u64::from(found.cbytes()) == stat.size).then(|| {
            format!(
                "is a bare Blosc buffer of {} uncompressed bytes, without the header of a Bloscpack file: \
                 decode it by \
                 blosc.decompress of python-blosc, or pack its data by blpk",
                found.nbytes()
            )
        })
    }
}
