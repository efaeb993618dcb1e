//! A Bloscpack file as a container.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock};

use asdf_file::array::{self, npy};
use asdf_file::container::references::{self, RefsFile};
use asdf_file::container::{
    ArrayFacts, ArraySource, Block, Container, Context, Defect, ElementType, Verified, Views,
};
use asdf_file::folder::{Attributes, File, Node};
use lru::LruCache;
use seekable::codec::blosc::{Buffer, Buffers, DecodedRun, Payload};
use seekable::content::{Content, Text, UnreadableText};
use seekable::error::{self, Error, Result, if_readable};
use seekable::source::{Source, SourceStat};
use seekable::sync::locked;

use super::array::{Array, Metadata};
use super::body::{Body, MISMATCH};
use super::chain::LocatedChunk;
use super::checksum::Checksum;
use super::header::{Header, Layout};
use super::refs::FileArray;
use super::{NAME, check, facts, tree};
use crate::format::buffered;

/// Number of item contents that are cached between opens, so that readers share decoded data.
const KEPT_ITEMS: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

/// A file whose header was read.
#[derive(Debug)]
pub(super) struct BloscpackFile {
    source: Arc<dyn Source>,
    stat: SourceStat,
    context: Context,
    header: Header,
    body: Arc<Body>,
    payload: OnceLock<Payload>,
    metadata: Option<Metadata>,
    tree: OnceLock<Text>,
    items: Mutex<LruCache<u64, Arc<dyn Content>>>,
    refs: RefsFile<FileArray>,
}

impl BloscpackFile {
    /// Opens a file and reads its header.
    pub(super) fn open(source: Arc<dyn Source>, context: &Context) -> Result<Self> {
        let stat = source.stat()?;
        let of_file = |error: Error| error.of(source.path());
        let header = Header::read(&*source, stat.size).map_err(of_file)?;
        let body = Arc::new(Body::new(&source, stat.size, &header).map_err(of_file)?);
        let metadata = read_metadata(&*source, &header).map_err(of_file)?;
        let array = FileArray { source: source.clone(), header: header.clone(), body: body.clone() };
        Ok(Self {
            stat,
            context: context.clone(),
            header,
            body,
            payload: OnceLock::new(),
            metadata,
            tree: OnceLock::new(),
            items: Mutex::new(LruCache::new(KEPT_ITEMS)),
            refs: RefsFile::new(array, &context.cache),
            source,
        })
    }

    /// Returns all chunks as one content. If the header does not state the total length, all
    /// chunks are walked to add it up.
    fn payload(&self) -> Result<&Payload> {
        if let Some(payload) = self.payload.get() {
            return Ok(payload);
        }
        let len = self.body.size()?;
        let payload = Payload::new(self.body.clone(), len, &self.context.cache);
        Ok(self.payload.get_or_init(|| payload))
    }

    fn facts(&self) -> check::File<'_> {
        let header = &self.header;
        let body = &*self.body;
        let size = self.stat.size;
        check::File { header, body, size, metadata: self.metadata.as_ref() }
    }

    /// Returns the array that the metadata describe, if its size is that of the payload.
    fn array(&self) -> Result<Option<&Array>> {
        let array = self.metadata.as_ref().and_then(|metadata| metadata.array.as_ref()?.as_ref().ok());
        let Some(array) = array else { return Ok(None) };
        let size = if_readable(self.body.size())?;
        Ok((size == Some(array.size)).then_some(array))
    }

    fn tree_text(&self) -> Result<&Text> {
        if let Some(text) = self.tree.get() {
            return Ok(text);
        }
        let fields = tree::TreeFields {
            header: &self.header,
            size: self.body.told_size(),
            metadata: self.metadata.as_ref(),
            array: self.array()?,
        };
        let text = Text::new(tree::text(&fields));
        Ok(self.tree.get_or_init(|| text))
    }

    /// Returns the decoded bytes of chunk `n`.
    fn content(&self, n: u64) -> Result<Arc<dyn Content>> {
        let found = self.body.chunk(n)?;
        if let Some((start, len)) = self.body.stated_place(n) {
            return Ok(self.payload()?.part(start, len));
        }
        let mut items = locked(&self.items);
        let item = items.get_or_insert(n, || {
            let item = LocatedPayload { body: self.body.clone(), n, found };
            Payload::new(Arc::new(item), found.header.nbytes().into(), &self.context.cache).content()
        });
        Ok(item.clone())
    }

    /// Returns the damage found by the reads of the payload so far.
    fn damage(&self) -> Vec<Defect> {
        self.payload.get().map(|payload| buffered::damage(payload, &*self.body)).unwrap_or_default()
    }
}

impl Container for BloscpackFile {
    fn format(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        match self.header.kind {
            Layout::Variable => format!("{} ({})", self.header.version, self.header.kind.name()),
            _ => self.header.version.to_string(),
        }
    }

    fn tree(&self) -> Arc<dyn Content> {
        self.tree_to_show().unwrap_or_else(|error| Arc::new(UnreadableText(error)))
    }

    fn tree_to_show(&self) -> Result<Arc<dyn Content>> {
        Ok(Arc::new(self.tree_text()?.clone()))
    }

    fn is_slow(&self) -> bool {
        (self.body.told_size().is_none() || self.body.map().walks()) && !self.body.map().is_walked()
    }

    fn block_count(&self) -> Result<usize> {
        let count = self.body.map().count()?;
        usize::try_from(count).map_err(|_| Error::unsupported("the file has too many chunks"))
    }

    fn block(&self, n: usize) -> Result<Block> {
        let n = n as u64;
        if n >= self.body.map().count()? {
            return Err(Error::new(error::Kind::NotFound, format!("there is no block {n}")));
        }
        let wrong = |error: Error| error.in_block(n);
        let facts = match self.body.map().chunk(n) {
            Ok(found) => facts::of(&found, &self.body.stored_sum(&found)?),
            Err(error) if error.lasts() => {
                let block = Block {
                    facts: facts::unknown(error.offset().unwrap_or(0)),
                    content: Err(wrong(error)),
                    streamed: false,
                };
                return Ok(block);
            }
            Err(error) => return Err(error),
        };
        Ok(Block { facts, content: self.content(n).map_err(wrong), streamed: false })
    }

    fn verify(&self, n: usize) -> Result<Verified> {
        let found = self.body.map().chunk(n as u64)?;
        if self.header.checksum == Checksum::None {
            return Ok(Verified::None);
        }
        Ok(if self.body.check(n as u64, &found)? { Verified::Stored } else { Verified::Mismatch })
    }

    fn mismatch(&self) -> &'static str {
        MISMATCH
    }

    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        if let Some(array) = self.array()? {
            take(ArrayFacts {
                path: "data".to_owned(),
                datatype: ElementType::of(&array.datatype),
                shape: array.shape.clone(),
                source: ArraySource::Block(0),
            });
        }
        Ok(())
    }

    fn attributes(&self) -> Attributes {
        vec![("user.bloscpack.format", NAME.to_owned()), ("user.bloscpack.version", self.version())]
    }

    fn check_tree(&self) -> Result<Vec<Defect>> {
        check::chunks(&self.facts())
    }

    fn defects(&self) -> Vec<Defect> {
        let mut defects = check::header(&self.facts());
        defects.extend(self.damage());
        defects
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn source_stat(&self) -> SourceStat {
        self.stat
    }
}

impl Views for BloscpackFile {
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        let payload = self.payload().map(Payload::content);
        let mut views = vec![("data.bin", buffered::file(payload.clone()))];
        if let (Some(array), Some(payload)) = (self.array()?, if_readable(payload)?)
            && let Ok(array) = npy::file(array::Array {
                datatype: array.datatype.clone(),
                byteorder: array.byteorder,
                fortran_order: array.fortran_order,
                shape: array.shape.clone(),
                elements: payload,
            })
        {
            views.push(("arrays", buffered::arrays(array)));
        }
        if let Some(metadata) = &self.metadata {
            let text = |bytes: &Arc<[u8]>| Arc::new(Text::new(bytes.clone())) as Arc<dyn Content>;
            views
                .push(("meta.json", buffered::file(metadata.bytes.as_ref().map(text).map_err(Clone::clone))));
        }
        Ok(views)
    }

    fn derived_files(&self) -> Result<Vec<&'static str>> {
        Ok(vec![references::NAME])
    }

    fn derived_file(self: Arc<Self>, name: &str) -> Result<Option<File>> {
        if name == references::NAME { self.refs.file().map(Some) } else { Ok(None) }
    }

    fn is_derived_slowly(&self, name: Option<&str>) -> bool {
        name == Some(references::NAME) && !self.refs.is_known()
    }
}

/// Reads the metadata, if there are any. Fails if they can't be read now; damage is kept for their readers.
fn read_metadata(source: &dyn Source, header: &Header) -> Result<Option<Metadata>> {
    let Some(section) = &header.metadata else { return Ok(None) };
    match section.bytes(source) {
        Err(error) if error.is_of_reading() => Err(error),
        bytes => Ok(Some(Metadata::new(bytes, header.kind != Layout::Variable))),
    }
}

/// A chunk as a payload of its own, for files whose header does not have the chunk's location in the payload.
#[derive(Debug)]
struct LocatedPayload {
    body: Arc<Body>,
    n: u64,
    found: LocatedChunk,
}

impl Buffers for LocatedPayload {
    fn buffer_at(&self, offset: u64) -> Result<Option<DecodedRun>> {
        let len = u64::from(self.found.header.nbytes());
        Ok((offset < len).then_some(DecodedRun { n: self.n, count: 1, start: 0, len }))
    }

    fn buffer(&self, _: u64) -> Result<Buffer<'_>> {
        Ok(self.body.open(&self.found))
    }

    fn admit(&self, n: u64) -> Result<()> {
        self.body.admit_found(n, &self.found)
    }
}
