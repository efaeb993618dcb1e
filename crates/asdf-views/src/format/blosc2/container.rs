//! A Blosc2 frame as a container.

use std::sync::{Arc, OnceLock};

use asdf_file::array::{self, npy};
use asdf_file::container::{
    ArrayFacts, ArraySource, Block, Container, Context, Defect, ElementType, IN_BLOCKS, Severity, Views,
};
use asdf_file::folder::{Attributes, Node};
use seekable::codec::blosc::metalayer::Layer;
use seekable::codec::blosc::{FrameChunks, Payload, frame};
use seekable::content::{Content, Slice, Text, UnreadableText};
use seekable::error::{self, Error, Result, if_readable};
use seekable::source::{Source, SourceStat};

use super::array::{Array, B2ND};
use super::meta::Meta;
use super::{NAME, elsewhere, facts, tree};
use crate::format::buffered;

/// A file whose header was read.
#[derive(Debug)]
pub(super) struct Blosc2File {
    source: Arc<dyn Source>,
    stat: SourceStat,
    chunks: Arc<FrameChunks>,
    payload: Payload,
    described: OnceLock<Described>,
}

/// The contents of the metalayers, those of the trailer included.
#[derive(Debug)]
struct Described {
    array: Option<std::result::Result<Array, String>>,
    meta: Meta,
    /// The error of the metalayers in the trailer.
    damage: Option<Error>,
    tree: Text,
}

impl Blosc2File {
    /// Opens a file, and reads the header of its frame and of the index.
    pub(super) fn open(source: Arc<dyn Source>, context: &Context) -> Result<Self> {
        let stat = source.stat()?;
        let of_file = |error: Error| error.of(source.path());
        let stored: Arc<dyn Content> = Arc::new(Slice::new(source.clone(), 0, stat.size));
        let header = frame::Frame::read(&*stored).map_err(of_file)?;
        let len = header.nbytes;
        let mut chunks = FrameChunks::new(stored.clone(), header, &context.cache).map_err(of_file)?;
        if elsewhere::may_be(&chunks.frame().layers) {
            let trailing = if_readable(chunks.frame().trailing_layers(&*stored)).map_err(of_file)?;
            chunks.leave_out(elsewhere::not_stored(&chunks, trailing.as_deref()));
        }
        let chunks = Arc::new(chunks);
        let payload = Payload::new(chunks.clone(), len, &context.cache);
        Ok(Self { source, stat, chunks, payload, described: OnceLock::new() })
    }

    /// Returns what the metalayers describe. The first call reads the trailer.
    fn described(&self) -> Result<&Described> {
        if let Some(described) = self.described.get() {
            return Ok(described);
        }
        let frame = self.chunks.frame();
        let stored = Slice::new(self.source.clone(), 0, self.stat.size);
        let mut damage = None;
        let trailing: Vec<Layer> = match frame.trailing_layers(&stored) {
            Ok(layers) => layers,
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => {
                damage = Some(error);
                Vec::new()
            }
        };
        let array = Array::of(&self.chunks, &trailing);
        let shown = array.as_ref().and_then(|array| array.as_ref().ok());
        let meta = Meta::new(&frame.layers, &trailing, shown.map(|_| B2ND));
        let tree = Text::new(tree::text(&self.chunks, shown, &meta));
        Ok(self.described.get_or_init(|| Described { array, meta, damage, tree }))
    }

    fn array(&self) -> Result<Option<&Array>> {
        Ok(self.described()?.array.as_ref().and_then(|array| array.as_ref().ok()))
    }
}

impl Container for Blosc2File {
    fn format(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        self.chunks.frame().version.to_string()
    }

    fn tree(&self) -> Arc<dyn Content> {
        self.tree_to_show().unwrap_or_else(|error| Arc::new(UnreadableText(error)))
    }

    fn tree_to_show(&self) -> Result<Arc<dyn Content>> {
        Ok(Arc::new(self.described()?.tree.clone()))
    }

    fn is_slow(&self) -> bool {
        !self.chunks.is_known()
    }

    fn block_count(&self) -> Result<usize> {
        usize::try_from(self.chunks.count()).map_err(|_| Error::unsupported("the file has too many chunks"))
    }

    fn block(&self, n: usize) -> Result<Block> {
        let n = n as u64;
        if n >= self.chunks.count() {
            return Err(Error::new(error::Kind::NotFound, format!("there is no block {n}")));
        }
        let place = self.chunks.range(n)?;
        match self.chunks.chunk(n) {
            Ok(chunk) => Ok(Block {
                facts: facts::of(&chunk),
                content: Ok(self.payload.part(place.start, place.len)),
                streamed: false,
            }),
            Err(error) if error.lasts() => Ok(Block {
                facts: facts::unknown(error.offset().unwrap_or(0)),
                content: Err(error.in_block(n)),
                streamed: false,
            }),
            Err(error) => Err(error),
        }
    }

    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        if let Some(array) = self.array()? {
            let is_one = self.chunks.count() == 1;
            take(ArrayFacts {
                path: "data".to_owned(),
                datatype: ElementType::of(&array.datatype),
                shape: array.shape.clone(),
                source: if is_one { ArraySource::Block(0) } else { ArraySource::Text(IN_BLOCKS.to_owned()) },
            });
        }
        Ok(())
    }

    fn attributes(&self) -> Attributes {
        vec![("user.blosc2.format", NAME.to_owned()), ("user.blosc2.version", self.version())]
    }

    fn defects(&self) -> Vec<Defect> {
        let frame = self.chunks.frame();
        let note = |offset, what| Defect { severity: Severity::Note, offset, block: None, what };
        let mut defects = Vec::new();
        if let Some(Described { array, damage, .. }) = self.described.get() {
            if let Some(error) = damage {
                let offset = error.offset().unwrap_or(0);
                defects.push(Defect {
                    severity: Severity::Damage,
                    offset,
                    block: None,
                    what: error.message(),
                });
            }
            if let Some(Err(why)) = array {
                defects.push(note(0, format!("the array of the metadata {why}, so it is not shown")));
            }
        }
        defects.extend(self.chunks.unfetched().map(|what| note(0, what)));
        if self.stat.size > frame.len {
            defects.push(note(frame.len, format!("{} bytes follow the frame", self.stat.size - frame.len)));
        }
        defects.extend(buffered::damage(&self.payload, &*self.chunks));
        defects
    }

    fn check_tree(&self) -> Result<Vec<Defect>> {
        self.described().map(|_| Vec::new())
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn source_stat(&self) -> SourceStat {
        self.stat
    }
}

impl Views for Blosc2File {
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        let mut views = Vec::new();
        if self.chunks.lack().is_none() {
            views.push(("data.bin", buffered::file(Ok(self.payload.content()))));
        }
        let described = self.described()?;
        if let Some(array) = self.array()?
            && let Ok(elements) = array.elements(&self.payload)
            && let Ok(npy) = npy::file(array::Array {
                datatype: array.datatype.clone(),
                byteorder: array.byteorder,
                fortran_order: false,
                shape: array.shape.clone(),
                elements,
            })
        {
            views.push(("arrays", buffered::arrays(npy)));
        }
        if !described.meta.is_empty() {
            views.push(("meta.json", buffered::file(Ok(Arc::new(Text::new(described.meta.json()))))));
        }
        Ok(views)
    }
}
