//! Contiguous frames of Blosc 2 (`.b2nd`, `.b2frame`), which python-blosc2 writes.
//!
//! A frame is a row of chunks with an index. The codec reads it ([`codec::blosc::frame`](seekable::codec::blosc::frame));
//! here it becomes a directory. Opening reads the header of the frame and the header of its index.
//!
//! | module | contents |
//! |---|---|
//! | [`array`](mod@array) | the array that the metadata describe, and its elements in C order |
//! | [`msgpack`] | the values of metalayers |
//! | [`meta`] | metalayers as JSON |
//! | [`container`] | the file as a directory |
//! | [`elsewhere`] | frames whose data are elsewhere: lazy expressions, caches of proxies |
//! | [`facts`], [`tree`] | the facts of a chunk; the text of `tree.yaml` |

use std::sync::Arc;

use asdf_file::container::{Container, Context, Format};
use seekable::codec::blosc::{self, frame};
use seekable::error::Result;
use seekable::source::{Source, SourceStat};

mod array;
mod container;
mod elsewhere;
mod facts;
mod meta;
mod msgpack;
mod tree;

/// The format's name.
const NAME: &str = "blosc2";

/// The Blosc2 format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blosc2;

impl Format for Blosc2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "a Blosc2 frame"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".b2nd", ".b2frame"]
    }

    fn view_names(&self) -> &'static [&'static str] {
        &["arrays", "data.bin", "meta.json"]
    }

    fn recognise(&self, head: &[u8]) -> bool {
        frame::is_frame(head)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(container::Blosc2File::open(source, context)?))
    }

    /// Recognises a bare chunk, which has no magic: its header states the file's size.
    fn related(&self, head: &[u8], stat: &SourceStat) -> Option<String> {
        let chunk = blosc::Header::beginning(head)?;
        (u64::from(chunk.cbytes()) == stat.size).then(|| {
            format!(
                "is a bare Blosc2 chunk of {} uncompressed bytes, without a frame: decode it by \
                 blosc2.decompress2 of python-blosc2, or append it to a frame by blosc2.SChunk.append_chunk",
                chunk.nbytes()
            )
        })
    }
}
