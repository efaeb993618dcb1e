//! The layout of a file, as a save needs it.

use std::path::Path;

use seekable::error::{Error, Result};
use seekable::source::storage::Storage;
use seekable::source::{Identity, Source, SourceStat, read_up_to};

use super::index::{self, Tail};
use crate::asdf::block::{self, Blocks};
use crate::asdf::head::{self, Head};
use crate::asdf::header::{Generation, Header, MAX_FIELDS};
use crate::container::Severity;
use crate::container::text_version::TextVersion;

/// Maximum length of a tail (the bytes after the last block) that is parsed. A longer tail is treated as unknown and
/// kept.
const MAX_TAIL: u64 = 16 << 20;
/// Bytes read at once.
const PIECE: usize = 256 << 10;

/// The layout of an ASDF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The specification that the file follows.
    pub generation: Generation,
    /// The file's identity when the layout was read.
    pub identity: Identity,
    /// The version of the head's text. The length in it is the offset of the head's end.
    pub head: TextVersion,
    /// The start of the bytes to keep: the first block, or unidentified bytes before it. It is the end of the
    /// file if there are neither.
    pub kept_from: u64,
    /// The end of the bytes to keep: the end of the last block or of the file.
    pub kept_to: u64,
    /// The offsets of the blocks.
    pub offsets: Vec<u64>,
    /// True if the last block is streamed: it reaches to the end of the file, and may grow.
    pub streamed: bool,
    /// The end of the last block, if it is known. Unknown for a streamed block.
    pub blocks_end: Option<u64>,
    /// The bytes after the last block; `None` if the end of that block is not known.
    pub tail: Option<Tail>,
    /// True if all blocks are found by their headers alone, and none is damaged.
    pub sound: bool,
}

impl Layout {
    /// Reads the layout of an open file.
    pub(crate) fn read<S: Storage>(storage: &S, file: &S::File, path: &Path) -> Result<Self> {
        let source = Opened { storage, file, path };
        let identity = storage.meta(file)?.identity;
        let mut beginning = [0; 16];
        let read = read_up_to(&source, 0, &mut beginning)?;
        if !crate::asdf::head::recognises(&beginning[..read]) {
            return Err(Error::new(seekable::Kind::Unrecognised, "is not an ASDF file"));
        }
        let head = head::read(&source)?;
        let blocks = block::find(&source, identity.size, head.generation, head.end)?;
        let mut layout = Self {
            generation: head.generation,
            identity,
            head: version(storage, file, head.end)?,
            kept_from: identity.size,
            kept_to: identity.size,
            offsets: Vec::new(),
            streamed: false,
            blocks_end: None,
            tail: None,
            sound: true,
        };
        match blocks.offsets.first() {
            Some(first) => {
                layout.kept_from = doubtful_padding(&source, &head, *first)?.unwrap_or(*first);
                layout.after_blocks(&source, blocks)?;
            }
            None => layout.without_blocks(&source)?,
        }
        Ok(layout)
    }

    /// Finds the end of the last block, and classifies the bytes after it.
    fn after_blocks(&mut self, source: &dyn Source, blocks: Blocks) -> Result<()> {
        let size = self.identity.size;
        let last = blocks.offsets.last().copied().unwrap_or_default();
        let mut fields = [0; MAX_FIELDS];
        let fields_len = read_up_to(source, last, &mut fields)?;
        let header = Header::parse(self.generation, last, &fields[..fields_len]).ok();
        self.streamed = header.as_ref().is_some_and(Header::streamed);
        let end = header.and_then(|header| header.end()).filter(|end| *end <= size);
        self.offsets = blocks.offsets;
        self.sound = blocks.defects.iter().all(|defect| defect.severity == Severity::Note);
        self.blocks_end = end.filter(|_| !self.streamed);
        let Some(end) = self.blocks_end else { return Ok(()) };
        let mut tail = match size - end {
            long if long > MAX_TAIL => Tail::Unknown,
            len => {
                let mut bytes = vec![0; len as usize];
                let read = read_up_to(source, end, &mut bytes)?;
                index::classify(&bytes[..read], &self.offsets)
            }
        };
        // After damage an index may list blocks that the chain does not reach, so the tail is kept.
        if !self.sound && tail == Tail::Free && size > end {
            tail = Tail::Unknown;
        }
        if tail != Tail::Unknown {
            self.kept_to = end;
        }
        self.tail = Some(tail);
        Ok(())
    }

    /// Classifies the bytes after the head of a file without blocks: padding, or unknown bytes, which are
    /// kept.
    fn without_blocks(&mut self, source: &dyn Source) -> Result<()> {
        let mut piece = vec![0; PIECE];
        let mut at = self.head.len;
        loop {
            let read = read_up_to(source, at, &mut piece)?;
            let bytes = &piece[..read];
            if let Some(found) = bytes.iter().position(|byte| !block::is_blank(*byte)) {
                let from = at + found as u64;
                let rest = self.identity.size.saturating_sub(from);
                let mut tail = vec![0; rest.min(MAX_TAIL) as usize];
                let tail_len = read_up_to(source, from, &mut tail)?;
                // An index that lists no blocks is not worth keeping.
                if rest > MAX_TAIL || index::classify(&tail[..tail_len], &[]) == Tail::Unknown {
                    self.kept_from = from;
                }
                return Ok(());
            }
            if read < piece.len() {
                return Ok(());
            }
            at += read as u64;
        }
    }

    /// True if any bytes after the head are to be kept.
    pub fn keeps_anything(&self) -> bool {
        self.kept_from < self.kept_to
    }
}

/// Returns the offset of the first byte that is not blank in the padding before the first block, if the
/// padding contains a block's magic: it may hold a damaged block that the reader took for padding.
fn doubtful_padding(source: &dyn Source, head: &Head, first: u64) -> Result<Option<u64>> {
    let mut piece = vec![0; PIECE.min(usize::try_from(first - head.end).unwrap_or(PIECE))];
    let mut at = head.end;
    let mut from = None;
    while at < first {
        let len = piece.len().min(usize::try_from(first - at).unwrap_or(usize::MAX));
        let read = read_up_to(source, at, &mut piece[..len])?;
        let bytes = &piece[..read];
        let other = bytes.iter().position(|byte| !block::is_blank(*byte));
        from = from.or(other.map(|other| at + other as u64));
        if head.generation.find_magic(bytes).is_some() {
            return Ok(from);
        }
        if read < len || at + read as u64 == first {
            break;
        }
        // A magic may span two pieces.
        at += (read - 3) as u64;
    }
    Ok(None)
}

/// Returns the version of the text that is the first `len` bytes of a file.
pub(crate) fn version<S: Storage>(storage: &S, file: &S::File, len: u64) -> std::io::Result<TextVersion> {
    TextVersion::read(len, |at, piece| storage.read_at(file, at, piece))
}

/// An open file as a [`Source`], for the parsers.
#[derive(Debug)]
pub(super) struct Opened<'a, S: Storage> {
    pub(super) storage: &'a S,
    pub(super) file: &'a S::File,
    pub(super) path: &'a Path,
}

impl<S: Storage> Source for Opened<'_, S> {
    fn path(&self) -> &Path {
        self.path
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.storage.meta(self.file)?.identity.into())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset > i64::MAX as u64 {
            return Ok(0);
        }
        self.storage.read_at(self.file, offset, buf).map_err(|error| Error::from(error).at(offset))
    }
}
