//! An ASDF file as it is stored: head and blocks. Nothing here depends on the content of the tree.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;
use seekable::codec::{self, Codec, StoredStream, StreamName};
use seekable::content::{Content, Slice, Soundness};
use seekable::error::{Error, Kind, Result, if_readable};
use seekable::source::{Source, SourceStat, read_up_to};
use seekable::sync::locked;

use super::block::{BlockSearch, Blocks, IndexedBlocks, KeptHeaders, is_far};
use super::chain::{self, EncodingChain};
use super::growth::Growing;
use super::head::{self, Head};
use super::header::{Header, Layout, MAX_FIELDS};
use super::{checksum, defect, facts};
use crate::container::{Block, Context, Defect, Facts, Verified};

/// The number of decoded contents kept between two opens of a block, so that its readers share decoded bytes.
const KEPT_CONTENTS: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

/// The number of parsed headers kept of a file on a server, and of a local file.
const KEPT_HEADERS: NonZeroUsize = NonZeroUsize::new(1 << 14).expect("it is not zero");
const KEPT_LOCAL_HEADERS: NonZeroUsize = NonZeroUsize::new(256).expect("it is not zero");

/// Maximum number of headers that are announced to a server for a reader that goes from block to block.
const AHEAD: usize = 64;

/// An ASDF file whose head was read.
#[derive(Debug)]
pub struct StoredFile {
    /// The bytes of the file.
    pub source: Arc<dyn Source>,
    /// Its size and version when the head was read.
    pub source_stat: SourceStat,
    /// How the file was opened.
    pub context: Context,
    /// The head: header line, comments, tree.
    pub head: Head,
    blocks: OnceLock<Blocks>,
    /// The search for the blocks, which is continued after an error.
    search: Mutex<BlockSearch>,
    /// The blocks of a file on a server as its index lists them, if it is believed.
    indexed: OnceLock<Option<IndexedBlocks>>,
    /// True once a header contradicted the index.
    is_index_wrong: AtomicBool,
    /// The headers that were parsed last.
    headers: KeptHeaders,
    run: Mutex<HeaderRun>,
    contents: Mutex<LruCache<usize, Arc<dyn Content>>>,
    /// The faults in the data of blocks that are no longer among `contents`.
    damage: Mutex<BTreeMap<usize, DataFault>>,
    /// The tree and the header of the streamed block, set when that header is read; `None` if the tree could
    /// not be read.
    growing: OnceLock<Option<Growing>>,
}

/// The headers that a reader reads one after the other.
#[derive(Debug, Default)]
struct HeaderRun {
    /// The block that would continue the run. `None` before the first: one block alone is no run.
    next: Option<usize>,
    /// Number of headers read in a row.
    len: usize,
    /// End of the announced blocks.
    ahead: usize,
    /// True if no headers are read ahead.
    is_off: bool,
}

/// A fault in the data of a block.
#[derive(Clone, Debug)]
struct DataFault {
    /// The error as reported, with its place in the block.
    error: Error,
    /// The first decoded byte that can't be read, and the error that readers get from there on.
    broken: Option<(u64, Error)>,
}

impl StoredFile {
    /// Reads the head of `source`, which [`head::recognises`] has accepted.
    pub(crate) fn open(source: Arc<dyn Source>, context: &Context) -> Result<Self> {
        let source_stat = source.stat()?;
        let head = head::read(&*source).map_err(|error| error.of(source.path()))?;
        Ok(Self::new(source, context, source_stat, head))
    }

    /// Creates a file from a head that was read when the source had the stat `source_stat`.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        context: &Context,
        source_stat: SourceStat,
        head: Head,
    ) -> Self {
        let search = BlockSearch {
            size: source_stat.size,
            generation: head.generation,
            head_end: head.end,
            begun: None,
        };
        let kept = if source.is_slow() { KEPT_HEADERS } else { KEPT_LOCAL_HEADERS };
        Self {
            headers: Mutex::new(LruCache::new(kept)),
            source,
            source_stat,
            context: context.clone(),
            head,
            blocks: OnceLock::new(),
            search: Mutex::new(search),
            indexed: OnceLock::new(),
            is_index_wrong: AtomicBool::new(false),
            run: Mutex::default(),
            contents: Mutex::new(LruCache::new(KEPT_CONTENTS)),
            damage: Mutex::new(BTreeMap::new()),
            growing: OnceLock::new(),
        }
    }

    /// Sets the offsets of the blocks, which are then not searched for.
    pub(crate) fn with_blocks_at(self, offsets: Vec<u64>) -> Self {
        Self { blocks: OnceLock::from(Blocks { offsets, ..Blocks::default() }), ..self }
    }

    /// Returns the kept headers, if a search for blocks is faster with them: from a server, each header may take
    /// a request.
    fn headers_for_search(&self) -> Option<&KeptHeaders> {
        self.source.is_slow().then_some(&self.headers)
    }

    /// Returns the blocks, which are found at the first call. If that fails, the next call goes on.
    pub(crate) fn blocks(&self) -> Result<&Blocks> {
        if let Some(blocks) = self.blocks.get() {
            return Ok(blocks);
        }
        let mut search = locked(&self.search);
        if let Some(blocks) = self.blocks.get() {
            return Ok(blocks);
        }
        let found = search.run(&*self.source, self.headers_for_search());
        let found = found.map_err(|error| error.of(self.source.path()))?;
        Ok(self.blocks.get_or_init(|| found))
    }

    /// Returns the blocks that the index lists, if it is believed: only in a file on a server, and until all blocks
    /// were found.
    fn indexed(&self) -> Result<Option<&IndexedBlocks>> {
        if !self.source.is_slow()
            || self.blocks.get().is_some()
            || self.is_index_wrong.load(Ordering::Relaxed)
        {
            return Ok(None);
        }
        if self.indexed.get().is_none() {
            let search = locked(&self.search);
            if self.indexed.get().is_none() {
                let kept = self.headers_for_search();
                let found = search.by_index(&*self.source, kept, !self.context.spares_requests);
                let found = found.map_err(|error| error.of(self.source.path()))?;
                let _ = self.indexed.set(found);
            }
        }
        Ok(self.indexed.get().and_then(Option::as_ref))
    }

    /// True if the headers of all blocks need not be requested one by one.
    pub(crate) fn knows_headers(&self) -> Result<bool> {
        Ok(self.indexed()?.is_none())
    }

    /// Follows the chain of headers from now on.
    pub(crate) fn disbelieve_index(&self) {
        tracing::debug!("{}: its index is wrong and no longer believed", self.source.path().display());
        self.is_index_wrong.store(true, Ordering::Relaxed);
    }

    /// Returns the offsets of the blocks.
    pub(crate) fn offsets(&self) -> Result<&[u64]> {
        if let Some(indexed) = self.indexed()? {
            return Ok(&indexed.offsets);
        }
        Ok(&self.blocks()?.offsets)
    }

    /// Returns the offset of block `n` if only the index has told it, and its header is not in the parts of the file that
    /// are read to find the blocks.
    pub(crate) fn far_block(&self, n: usize) -> Result<Option<u64>> {
        let Some(indexed) = self.indexed()? else { return Ok(None) };
        // A caller that asks this does not read all blocks, not even if it reads some one after the other.
        locked(&self.run).is_off = true;
        let offset = indexed.offsets.get(n).copied();
        Ok(offset.filter(|offset| n > 0 && is_far(*offset, self.source_stat.size)))
    }

    /// Returns the offset of the block after block `n`, if there is one.
    fn offset_after(&self, n: usize) -> Result<Option<u64>> {
        Ok(self.offsets()?.get(n + 1).copied())
    }

    /// Announces the headers of the next blocks, if the last ones were read one after the other.
    fn announce_after(&self, n: usize, offsets: &[u64]) {
        let mut run = locked(&self.run);
        run.len = if run.next == Some(n) { run.len + 1 } else { 0 };
        run.next = Some(n + 1);
        if run.len == 0 || run.is_off {
            run.ahead = 0;
            return;
        }
        let first = run.ahead.max(n + 1);
        run.ahead = (n + 1 + (2 * run.len).min(AHEAD)).min(offsets.len()).max(run.ahead);
        for offset in offsets.get(first..run.ahead).unwrap_or_default() {
            self.source.will_need(*offset, MAX_FIELDS as u64);
        }
    }

    /// True if the blocks have not been searched for yet.
    pub(crate) fn finds_blocks_slowly(&self) -> bool {
        self.blocks.get().is_none()
    }

    /// Returns the text of the head: header line, comments and tree.
    pub fn tree(&self) -> Arc<dyn Content> {
        Arc::new(Slice::new(self.source.clone(), 0, self.head.end))
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> Result<usize> {
        Ok(self.offsets()?.len())
    }

    /// Returns block `n`, from 0, in file order. Fails only if there is no such block, or the blocks or the
    /// header can't be read now.
    pub(crate) fn block(&self, n: usize) -> Result<Block> {
        let offset = self.offset(n)?;
        let block = match self.header_of(n) {
            Ok(header) => Block {
                facts: self.facts(n, &header)?,
                streamed: header.streamed(),
                content: match self.content(n, &header) {
                    Err(error) if error.is_of_reading() => return Err(error),
                    content => content.map_err(|error| error.in_block(n as u64)),
                },
            },
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => Block {
                facts: facts::unknown(offset),
                streamed: false,
                content: Err(error.in_block(n as u64)),
            },
        };
        Ok(block)
    }

    /// Returns block `n` with its header, as stored in the source.
    pub fn lent_block(&self, n: usize, header: &Header) -> Result<Arc<dyn Content>> {
        let stored = self.stored(n, header)?;
        let before = header.data_offset() - header.offset;
        if header.streamed() {
            return Ok(Arc::new(Slice::new(self.source.clone(), header.offset, before + stored.len())));
        }
        let end = header
            .end()
            .ok_or_else(|| Error::damaged("the block's sizes are larger than any file").at(header.offset))?;
        let next = self.offset_after(n)?.unwrap_or(u64::MAX);
        let block = Slice::new(self.source.clone(), header.offset, end - header.offset);
        Ok(Arc::new(block.cut(next.saturating_sub(header.offset))))
    }

    /// Verifies the checksum of block `n`, reading all of it.
    pub(crate) fn verify(&self, n: usize) -> Result<Verified> {
        let header = self.header_of(n)?;
        let stored = self.stored(n, &header)?;
        checksum::verify(&header, &stored, || self.content(n, &header))
    }

    /// Remembers the tree and the header of the last block, if that block is streamed.
    pub(crate) fn expect_growth(&self) {
        // The last of the blocks that an index lists is not streamed.
        if !self.knows_headers().unwrap_or(true) {
            return;
        }
        if let Some(last) = self.blocks().ok().and_then(|blocks| blocks.offsets.last().copied()) {
            // `header` also sets `growing` if the block is streamed.
            let _ = self.header(last);
        }
    }

    /// Takes over the remembered tree and header from an older generation of a file that has only grown
    /// since, with a sample of this generation's data.
    pub(crate) fn grow_on_from(&self, older: &Self) {
        if let Some(growing) = older.growing.get() {
            let grown = growing.as_ref().and_then(|older| older.grown(&self.source, self.source_stat.size));
            let _ = self.growing.set(grown);
        }
    }

    /// True if `file` has only grown since this version was opened; see
    /// [`Container::still_has`](crate::container::Container::still_has).
    pub(crate) fn has_only_grown(&self, file: &Arc<dyn Source>) -> bool {
        let growing = self.growing.get().and_then(Option::as_ref);
        growing.is_some_and(|growing| growing.is_in(file, &self.head))
            && file.stat().is_ok_and(|stat| stat.size >= self.source_stat.size)
    }

    /// Returns the defects found so far, of the head first.
    pub(crate) fn defects(&self) -> Vec<Defect> {
        let blocks = self.blocks.get();
        let mut defects = self.head.defects.clone();
        defects.extend(blocks.iter().flat_map(|blocks| blocks.defects.iter().cloned()));
        defects.extend(self.damage());
        defects
    }

    /// Returns the decoded size of a block; `None` if there is no such block or its header is damaged.
    pub(crate) fn decoded_size(&self, n: usize) -> Result<Option<u64>> {
        let Some(header) = if_readable(self.header_of(n))? else {
            return Ok(None);
        };
        Ok(if header.streamed() { Some(self.stored(n, &header)?.len()) } else { Some(header.data_size) })
    }

    /// Returns the offset of a block in the file.
    pub fn offset(&self, n: usize) -> Result<u64> {
        let offset = self.offsets()?.get(n).copied();
        offset.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("there is no block {n}")).of(self.source.path())
        })
    }

    /// Returns the header of block `n`, in which the block ends where the next one begins if the index is believed.
    pub fn header_of(&self, n: usize) -> Result<Header> {
        if let Some(indexed) = self.indexed()?
            && let Some(offset) = indexed.offsets.get(n)
        {
            self.announce_after(n, &indexed.offsets);
            match if_readable(self.parsed_header(*offset))? {
                Some(header) if indexed.proves(n, &header) => return Ok(header),
                _ => self.disbelieve_index(),
            }
        }
        self.header(self.offset(n)?)
    }

    /// Reads and parses a header, unless it is kept.
    fn parsed_header(&self, offset: u64) -> Result<Header> {
        if let Some(header) = locked(&self.headers).get(&offset) {
            return Ok(header.clone());
        }
        let mut bytes = [0; MAX_FIELDS];
        let read = read_up_to(&*self.source, offset, &mut bytes)?;
        let header = Header::parse(self.head.generation, offset, &bytes[..read])?;
        locked(&self.headers).push(offset, header.clone());
        Ok(header)
    }

    /// Returns the header at `offset` in the chain of all blocks.
    fn header(&self, offset: u64) -> Result<Header> {
        let header = self.parsed_header(offset)?;
        match self.blocks()?.distrusted.binary_search(&offset) {
            Ok(_) => Err(Error::damaged(format!("header_size {} is damaged", header.header_size)).at(offset)),
            Err(_) => {
                if header.streamed() {
                    let grows = || Growing::of(&self.source, self.head.end, &header, self.source_stat.size);
                    self.growing.get_or_init(grows);
                }
                Ok(header)
            }
        }
    }

    /// Returns the used bytes of a block as stored in the file.
    pub(crate) fn stored(&self, n: usize, header: &Header) -> Result<Slice> {
        let start = header.data_offset();
        if header.streamed() {
            // The size is that of this version. All open files of a version have one length, and move to the
            // next version together, because the kernel takes a short read by one reader as the end of the
            // file for all.
            let size = self.source_stat.size;
            return Ok(Slice::new(self.source.clone(), start, size.saturating_sub(start)));
        }
        let next = self.offset_after(n)?.unwrap_or(u64::MAX);
        let there = header.allocated_size.min(next.saturating_sub(start));
        Ok(Slice::new(self.source.clone(), start, header.used_size).cut(there))
    }

    /// Returns the used bytes of block `n` as stored in the file, their codec if they are compressed, and their
    /// decoded size.
    ///
    /// # Errors
    /// The block can't be read, has an encoding chain, or has an unknown compression.
    pub fn stored_as(&self, n: usize) -> Result<(Slice, Option<Codec>, u64)> {
        let header = self.header_of(n)?;
        let stored = self.stored(n, &header)?;
        if header.encoded() {
            return Err(Error::unsupported("the block is encoded by more than a compression"));
        }
        if header.label_text().is_empty() {
            let len = stored.len();
            return Ok((stored, None, len));
        }
        Ok((stored, Some(codec_of(header.label_text())?), header.data_size))
    }

    fn content(&self, n: usize, header: &Header) -> Result<Arc<dyn Content>> {
        if header.used_size.max(header.data_size) > i64::MAX as u64 {
            return Err(Error::damaged("the block's sizes are larger than any file").at(header.offset));
        }
        let stored = self.stored(n, header)?;
        if !header.encoded() && header.label_text().is_empty() {
            return Ok(Arc::new(stored));
        }
        if let Some(content) = self.kept().get(&n) {
            return Ok(content.clone());
        }
        let content = self.decoded(header, stored).map_err(|error| error.at(header.offset))?;
        // A streamed block may have grown since.
        if !header.streamed()
            && let Some(DataFault { broken: Some((from, error)), .. }) = self.known_damage().get(&n)
        {
            content.inherit(*from, error);
        }
        if let Some((n, dropped)) = self.kept().push(n, content.clone()) {
            self.remember_damage(n, &*dropped);
        }
        Ok(content)
    }

    /// Returns the decoded bytes of a compressed block.
    pub(crate) fn decoded(&self, header: &Header, stored: Slice) -> Result<Arc<dyn Content>> {
        let cache = &self.context.cache;
        let data_size = header.data_size;
        let name = self.name(header);
        if header.encoded() {
            let (chain, len) = read_chain(&stored)?;
            let stream = StoredStream { stored: Arc::new(stored.from(len)), data_size, name };
            return chain::open_stream(&chain, stream, cache);
        }
        let codec = codec_of(header.label_text())?;
        codec::open_stream(codec, StoredStream { stored: Arc::new(stored), data_size, name }, cache)
    }

    /// Returns the names under which a block's seek table is kept; `None` for a streamed block, which grows.
    /// Blocks share a table if their headers are equal except for offset and allocated size, but only in
    /// files that the same users may write: other users might change the bytes while they are hashed.
    fn name(&self, header: &Header) -> Option<StreamName> {
        if header.streamed() {
            return None;
        }
        let provenance = self.source.provenance();
        let mut own = header.label.clone();
        let sizes = [header.flags.into(), header.used_size, header.data_size];
        own.extend(sizes.into_iter().flat_map(u64::to_le_bytes));
        let shared = [&own[..], &provenance.writers].concat();
        own.extend(self.source_stat.version.to_bytes());
        own.extend(header.offset.to_le_bytes());
        own.extend(&provenance.changed);
        own.extend(&header.checksum);
        let md5 = <[u8; 16]>::try_from(&header.checksum[..]).ok();
        // The MD5 of an encoded block covers more bytes than its first stream.
        let md5 = md5.filter(|_| header.layout == Layout::Md5 && header.has_checksum() && !header.encoded());
        Some(StreamName { own, shared: md5.map(|md5| (shared, md5)) })
    }

    /// Returns the facts of a block's header, with the names in its encoding chain.
    fn facts(&self, n: usize, header: &Header) -> Result<Facts> {
        let compression = if header.encoded() {
            let chain = self.stored(n, header).and_then(|stored| Ok(read_chain(&stored)?.0.to_string()));
            if_readable(chain)?.unwrap_or_else(|| "?".to_owned())
        } else {
            header.label_text().escape_ascii().to_string()
        };
        if header.streamed() && compression.is_empty() {
            // The sizes in the header are 0.
            let size = self.source_stat.size.saturating_sub(header.data_offset());
            let header = Header { data_size: size, used_size: size, ..header.clone() };
            return Ok(facts::of(&header, compression));
        }
        Ok(facts::of(header, compression))
    }

    fn kept(&self) -> seekable::sync::MutexGuard<'_, LruCache<usize, Arc<dyn Content>>> {
        locked(&self.contents)
    }

    fn remember_damage(&self, n: usize, content: &dyn Content) {
        if let Some(error) = content.damage() {
            let broken = match content.soundness() {
                Soundness::Broken(from) => Some((from, error.clone())),
                _ => None,
            };
            let error = self.placed(n, error, content);
            let mut damage = self.known_damage();
            // Several threads decode at once, so a later fault may have been found before.
            let is_first = damage.get(&n).is_none_or(|known| match (&known.broken, &broken) {
                (Some((known, _)), Some((from, _))) => from <= known,
                _ => false,
            });
            if is_first {
                damage.insert(n, DataFault { error, broken });
            }
        }
    }

    fn known_damage(&self) -> seekable::sync::MutexGuard<'_, BTreeMap<usize, DataFault>> {
        locked(&self.damage)
    }

    /// Adds to an error the offset of the fault in the stored and in the decoded bytes of a block.
    fn placed(&self, n: usize, error: Error, content: &dyn Content) -> Error {
        let Soundness::Broken(from) = content.soundness() else { return error };
        let start = self.header_of(n).map(|header| header.data_offset()).ok();
        let bit = error.offset().zip(start).and_then(|(at, start)| at.checked_sub(start)?.checked_mul(8));
        error.in_stream(bit, from)
    }

    /// Returns the faults in the data of blocks, as far as these were read.
    fn damage(&self) -> Vec<Defect> {
        for (n, content) in self.kept().iter() {
            self.remember_damage(*n, &**content);
        }
        let damage = self.known_damage();
        let defect = |(n, DataFault { error, .. }): (&usize, &DataFault)| {
            let offset = error.offset().or_else(|| self.offset(*n).ok()).unwrap_or(0);
            defect::AsdfDefect::Data(error.clone()).at(offset, Some(*n))
        };
        damage.iter().map(defect).collect()
    }
}

/// Reads the encoding chain at the start of a block's data. Returns it with the length of its text.
fn read_chain(stored: &Slice) -> Result<(EncodingChain, u64)> {
    let mut head = vec![0; chain::HEAD.min(usize::try_from(stored.len()).unwrap_or(usize::MAX))];
    let mut read = 0;
    while read < head.len() {
        match stored.read_at(read as u64, &mut head[read..]) {
            Ok(more @ 1..) => read += more,
            Err(error) if error.is_of_reading() => return Err(error),
            // The bytes up to here may hold the whole chain.
            Ok(0) | Err(_) => break,
        }
    }
    let (chain, len) = chain::parse(&head[..read])?;
    Ok((chain, len as u64))
}

/// Returns the codec of a compression label.
pub(crate) fn codec_of(label: &[u8]) -> Result<Codec> {
    match label {
        b"zlib" => Ok(Codec::Zlib),
        b"bzp2" => Ok(Codec::Bzip2),
        b"lz4" => Ok(Codec::Lz4),
        b"lz4f" => Ok(Codec::Lz4Frame),
        b"zstd" => Ok(Codec::Zstd),
        b"blsc" => Ok(Codec::Blosc),
        b"bls2" | b"bsc2" => Ok(Codec::Blosc2),
        _ => Err(Error::unsupported(format!("the compression \"{}\" is not known", label.escape_ascii()))),
    }
}

/// Returns the label of a codec, as headers have it.
pub(crate) fn label_of(codec: Codec) -> [u8; 4] {
    match codec {
        Codec::Zlib => *b"zlib",
        Codec::Bzip2 => *b"bzp2",
        Codec::Lz4 => *b"lz4\0",
        Codec::Lz4Frame => *b"lz4f",
        Codec::Zstd => *b"zstd",
        Codec::Blosc => *b"blsc",
        Codec::Blosc2 => *b"bls2",
    }
}
