//! Makes a sound file of a damaged one, for `--repair`.
//!
//! [`Repair::plan`] reads all of the damaged file, and decides what of each block is kept. [`Repair::write`] writes the new
//! file: header line, comments and tree, then the blocks, each with a new header and without gaps, then the index.
//!
//! A block keeps its number, as the arrays of the tree name it. A lost block therefore stays as an empty one: an array in it
//! can't be read, and no array is read from a block that is not its own. A block whose number is not known comes after
//! those that the tree names.

mod text;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use md5::{Digest, Md5};
use seekable::codec::{self, Codec};
use seekable::content::{Content, ContentWindow, Slice, Soundness, Text, each_piece, read_through};
use seekable::error::{Error, Result, if_readable};
use seekable::source::read_up_to;
use serde::Serialize;

use super::index;
use crate::asdf::block::BlockSearch;
use crate::asdf::defect::AsdfDefect;
use crate::asdf::header::{Generation, Header, MAGIC, MAX_FIELDS, PREFIX, header_bytes};
use crate::asdf::stored::{StoredFile, codec_of};
use crate::asdf::view::AsdfFile;
use crate::container::{Container, Severity};
use text::HeadText;

/// Maximum number of times that the chain is continued after a break.
const MAX_BREAKS: usize = 1024;
/// Maximum number of empty blocks that are added because the tree names them.
const MAX_ADDED: u64 = 1 << 16;
const WRONG_CHECKSUM: &str = "its checksum is wrong, and left out";
/// Larger sizes are those of no file.
const MAX_SIZE: u64 = i64::MAX as u64;
/// Maximum number of bytes after a damaged tree that may belong to it.
const MAX_REST: u64 = 1 << 20;

/// The plan of a repair.
#[derive(Debug)]
pub struct Repair {
    text: Vec<u8>,
    blocks: Vec<NewBlock>,
    /// The outcomes: for each block of the new file, in order, then for the rest.
    pub findings: Vec<Finding>,
}

/// The outcome for a block, or for a part of the file outside of the blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The number of the block in the new file.
    pub block: Option<usize>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason.
    pub what: String,
}

/// The outcome for a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All data are kept.
    Kept,
    /// All data are kept. What was damaged around them is made anew.
    Mended,
    /// All bytes are kept, but nothing proves that they are right.
    Doubtful,
    /// The data are kept up to a place.
    Cut,
    /// No data are kept.
    Lost,
}

/// A block of the new file.
#[derive(Clone, Debug)]
struct NewBlock {
    data: Arc<dyn Content>,
    label: Vec<u8>,
    data_size: u64,
    /// Zeros for none.
    checksum: [u8; 16],
    streamed: bool,
}

impl NewBlock {
    fn empty() -> Self {
        Self::uncompressed(Arc::new(Text::new(Vec::new())))
    }

    fn uncompressed(data: Arc<dyn Content>) -> Self {
        Self { data_size: data.len(), data, label: vec![0; 4], checksum: [0; 16], streamed: false }
    }

    fn header(&self) -> Vec<u8> {
        let stored = if self.streamed { 0 } else { self.data.len() };
        let decoded = if self.streamed { 0 } else { self.data_size };
        header_bytes(self.streamed, &self.label, stored, decoded, self.checksum)
    }
}

/// A block of the new file, with the outcome for the block of the old one.
struct Verdict {
    block: NewBlock,
    outcome: Outcome,
    what: String,
}

impl Verdict {
    fn lost(what: impl Into<String>) -> Self {
        Self { block: NewBlock::empty(), outcome: Outcome::Lost, what: what.into() }
    }
}

impl Repair {
    /// Reads a file and plans its repair. `count` gets the numbers of bytes read.
    ///
    /// # Errors
    /// The file is not one that can be repaired, or can't be read now.
    pub fn plan(container: &dyn Container, count: &dyn Fn(u64)) -> Result<Self> {
        let file = remade(container, "repaired")?;
        let found = FoundBlocks::of(file)?;
        let mut head = head_text(file)?;
        let named = head.named_blocks()?;
        let mut plan = Self { text: Vec::new(), blocks: Vec::new(), findings: Vec::new() };
        for n in 0..found.numbered.block_count()? {
            let mut verdict = found.judge(&found.numbered, n, count)?;
            if let Some(reasons) = found.of_blocks.get(&n) {
                verdict.outcome = verdict.outcome.max(Outcome::Mended);
                verdict.what = format!("{}: {}", verdict.what, reasons.join("; "));
            }
            plan.add(verdict);
        }
        let missing = named.count.saturating_sub(plan.blocks.len() as u64);
        if missing <= MAX_ADDED && named.from_end <= 1 {
            for _ in 0..missing {
                plan.add(Verdict::lost("an array names it, and it is not in the file"));
            }
        }
        for n in 0..found.unnumbered.block_count()? {
            let offset = found.unnumbered.offset(n)?;
            if named.from_end > 0 {
                let why = "its number is unknown, and arrays count blocks from the end";
                plan.note(Outcome::Lost, format!("a block at byte {offset}: {why}"));
                continue;
            }
            let mut verdict = found.judge(&found.unnumbered, n, count)?;
            verdict.outcome = verdict.outcome.max(Outcome::Doubtful);
            verdict.what = format!("the block at byte {offset}, whose number is unknown: {}", verdict.what);
            plan.add(verdict);
        }
        if let Some((_, others)) = plan.blocks.split_last_mut() {
            for block in others {
                block.streamed = false;
            }
        }
        plan.shorten_arrays(&mut head)?;
        if head.lost_lines > 0 {
            let what = match head.lost_lines {
                1 => "1 line of the tree is a comment, as the tree is not valid with it".to_owned(),
                lines => {
                    format!("{lines} lines of the tree are comments, as the tree is not valid with them")
                }
            };
            plan.note(Outcome::Cut, what);
        }
        if head.not_text > 0 {
            let what = format!("{} replacement characters stand for bytes that are no text", head.not_text);
            plan.note(Outcome::Doubtful, what);
        }
        let doubtful = plan.findings.iter().filter(|finding| finding.outcome >= Outcome::Doubtful);
        let notes: Vec<String> = doubtful.map(Finding::to_string).collect();
        head.note(&notes);
        plan.text = head.text;
        if head.has_new_start {
            plan.note(Outcome::Mended, "the tree does not begin with %YAML".to_owned());
        }
        let another = AsdfDefect::AnotherFile.to_string();
        for what in found.outside {
            plan.note(if what == another { Outcome::Lost } else { Outcome::Mended }, what);
        }
        Ok(plan)
    }

    fn add(&mut self, verdict: Verdict) {
        let Verdict { block, outcome, what } = verdict;
        self.findings.push(Finding { block: Some(self.blocks.len()), outcome, what });
        self.blocks.push(block);
    }

    fn note(&mut self, outcome: Outcome, what: String) {
        self.findings.push(Finding { block: None, outcome, what });
    }

    /// Shortens the arrays in blocks that are cut.
    fn shorten_arrays(&mut self, head: &mut HeadText) -> Result<()> {
        let cut = self.findings.iter().filter(|finding| finding.outcome == Outcome::Cut);
        let sizes = cut.filter_map(|finding| Some((finding.block?, self.blocks[finding.block?].data_size)));
        for (n, told) in head.shorten(&sizes.collect(), self.blocks.len())? {
            // The findings about blocks come first.
            if let Some(finding) = self.findings.get_mut(n) {
                finding.what = format!("{}; {told}", finding.what);
            }
        }
        Ok(())
    }

    /// True if there is anything to repair.
    pub fn is_needed(&self) -> bool {
        self.findings.iter().any(|finding| finding.outcome > Outcome::Kept)
    }

    /// Returns the size of the new file without its index.
    pub fn size(&self) -> u64 {
        let blocks: u64 = self.blocks.iter().map(|block| MAX_FIELDS as u64 + block.data.len()).sum();
        self.text.len() as u64 + blocks
    }

    /// Writes the new file. `count` gets the numbers of bytes written.
    pub fn write(&self, out: &mut dyn Write, count: &dyn Fn(u64)) -> Result<()> {
        out.write_all(&self.text)?;
        let mut offset = self.text.len() as u64;
        let mut offsets = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            offsets.push(offset);
            out.write_all(&block.header())?;
            each_piece(&*block.data, &mut |piece| {
                count(piece.len() as u64);
                Ok(out.write_all(piece)?)
            })?;
            offset += MAX_FIELDS as u64 + block.data.len();
        }
        if self.blocks.last().is_some_and(|last| !last.streamed) {
            out.write_all(&index::text(&offsets))?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = self.block {
            write!(out, "block {n}: ")?;
        }
        write!(out, "{}: {}", self.outcome.word(), self.what)
    }
}

impl Outcome {
    /// Returns the word for the outcome.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Mended => "mended",
            Self::Doubtful => "doubtful",
            Self::Cut => "cut",
            Self::Lost => "lost",
        }
    }
}

/// Returns the file if a new one can be made of it. `made` says what becomes of it, for messages: repaired.
pub(super) fn remade<'c>(container: &'c dyn Container, made: &str) -> Result<&'c AsdfFile> {
    let Some(file) = (container as &dyn Any).downcast_ref::<AsdfFile>() else {
        let message = format!("only ASDF files are {made}, not those of the format {}", container.format());
        return Err(Error::unsupported(message));
    };
    if file.fits.is_some() {
        let message =
            format!("ASDF in FITS is not {made}: write the FITS file anew, for instance with astropy");
        return Err(Error::unsupported(message));
    }
    if file.head.generation != Generation::One {
        let message =
            format!("only files of ASDF 1.0.0 are {made}; the first line says {}", file.head.version);
        return Err(Error::unsupported(message));
    }
    Ok(file)
}

/// Returns the mended text of the head.
fn head_text(file: &AsdfFile) -> Result<HeadText> {
    let mut end = file.head.end;
    if file.head.defects.iter().any(|defect| defect.severity == Severity::Damage) {
        // The text may go on after bytes that are no text.
        let first = file.blocks()?.offsets.first().copied().unwrap_or(file.source_stat.size);
        end = first.clamp(end, end.saturating_add(MAX_REST));
    }
    let mut text = vec![0; usize::try_from(end).unwrap_or(usize::MAX)];
    let read = read_up_to(&*file.source, 0, &mut text)?;
    text.truncate(read);
    if end > file.head.end {
        text.truncate(text.iter().rposition(|byte| !matches!(byte, 0 | b' ')).map_or(0, |last| last + 1));
    }
    HeadText::mend(text)
}

fn md5_of(content: &dyn Content, count: &dyn Fn(u64)) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    each_piece(content, &mut |piece| {
        count(piece.len() as u64);
        md5.update(piece);
        Ok(())
    })?;
    Ok(md5.finalize().into())
}

/// The blocks of a damaged file.
struct FoundBlocks {
    /// The blocks whose numbers are known.
    numbered: StoredFile,
    /// Blocks behind breaks of the chain.
    unnumbered: StoredFile,
    /// The defects of blocks, and those outside of blocks.
    of_blocks: BTreeMap<usize, Vec<String>>,
    outside: Vec<String>,
    /// The blocks whose `header_size` does not lead to the data, in ascending order.
    distrusted: Vec<u64>,
}

impl FoundBlocks {
    fn of(file: &AsdfFile) -> Result<Self> {
        let blocks = file.blocks()?;
        let search = |head_end| BlockSearch {
            size: file.source_stat.size,
            generation: file.head.generation,
            head_end,
            begun: None,
        };
        let mut numbered = blocks.offsets.clone();
        let mut unnumbered = Vec::new();
        let mut distrusted = blocks.distrusted.clone();
        let mut last = numbered.last().copied();
        for _ in 0..MAX_BREAKS {
            let Some(at) = last else { break };
            let Some(further) = search(at).further(&*file.source, at)? else { break };
            let is_numbered = further.is_next && unnumbered.is_empty();
            let mut more = vec![further.at];
            if !further.is_damaged {
                let found = search(further.at).run(&*file.source, None)?;
                distrusted.extend(found.distrusted);
                more = found.offsets;
            }
            last = more.last().copied().filter(|last| *last > at);
            let found = if is_numbered { &mut numbered } else { &mut unnumbered };
            found.extend(more);
        }
        let mut of_blocks: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut outside = Vec::new();
        for defect in file.head.defects.iter().chain(&blocks.defects) {
            let of_block = defect.block.map(|n| of_blocks.entry(n).or_default());
            of_block.unwrap_or(&mut outside).push(defect.what.clone());
        }
        let with = |offsets| {
            StoredFile::new(file.source.clone(), &file.context, file.source_stat, file.head.clone())
                .with_blocks_at(offsets)
        };
        Ok(Self { numbered: with(numbered), unnumbered: with(unnumbered), of_blocks, outside, distrusted })
    }

    /// Reads block `n` of a file, and decides what is kept of it.
    fn judge(&self, file: &StoredFile, n: usize, count: &dyn Fn(u64)) -> Result<Verdict> {
        let offset = file.offset(n)?;
        let size = file.source_stat.size;
        let next = file.offsets()?.get(n + 1).copied();
        let parsed = if self.distrusted.binary_search(&offset).is_ok() {
            None
        } else {
            if_readable(file.header_of(n))?
        };
        let is_damaged = parsed.is_none();
        let Some(mut header) =
            parsed.map_or_else(|| usual_header(file, offset), |header| Ok(Some(header)))?
        else {
            return Ok(Verdict::lost("its header is damaged"));
        };
        let ends_within = header.end().is_some_and(|end| end <= size);
        let is_stream = header.streamed() && next.is_none() && (header.allocated_size == 0 || !ends_within);
        if !is_stream {
            header.flags = 0;
        }
        let start = header.data_offset();
        let room = next.unwrap_or(size).saturating_sub(start);
        let used = if is_stream {
            room
        } else if header.used_size.max(header.data_size) > MAX_SIZE {
            // A reader does not trust such sizes, and gets nothing.
            0
        } else {
            header.used_size.min(header.allocated_size).min(room)
        };
        let proven = if is_stream { None } else { self.proven_len(file, &header, used, next, count)? };
        let len = proven.unwrap_or(used);
        if is_damaged && proven.is_none() && !leads_on(file, &header, next)? {
            return Ok(Verdict::lost("its header is damaged, and its checksum proves no repair of it"));
        }
        let stored = Slice::new(file.source.clone(), start, len);
        if !header.label_text().is_empty() {
            let as_read = Slice::new(file.source.clone(), start, header.used_size).cut(len);
            let as_read = if proven.is_some() || is_stream { stored.clone() } else { as_read };
            return judge_compressed(file, &header, (stored, as_read), proven.is_some(), count);
        }
        let mut block = NewBlock::uncompressed(Arc::new(stored));
        block.streamed = is_stream;
        let outcome = if proven.is_some() {
            block.checksum = header.checksum.as_slice().try_into().unwrap_or_default();
            Outcome::Kept
        } else if is_stream || !header.has_checksum() && len == header.used_size {
            Outcome::Kept
        } else if len == header.used_size {
            Outcome::Doubtful
        } else if len == 0 {
            Outcome::Lost
        } else {
            Outcome::Cut
        };
        let what = match outcome {
            Outcome::Cut | Outcome::Lost => format!("{len} of {} bytes are there", header.used_size),
            Outcome::Doubtful => WRONG_CHECKSUM.to_owned(),
            _ => format!("{len} bytes"),
        };
        Ok(Verdict { block, outcome, what })
    }

    /// Returns the number of bytes of a block's data that its checksum proves. If sizes in the header are damaged, it may
    /// also be another one of them, or lead to the next block.
    fn proven_len(
        &self,
        file: &StoredFile,
        header: &Header,
        used: u64,
        next: Option<u64>,
        count: &dyn Fn(u64),
    ) -> Result<Option<u64>> {
        if !header.has_checksum() {
            return Ok(None);
        }
        let start = header.data_offset();
        let room = next.unwrap_or(file.source_stat.size).saturating_sub(start);
        let further = next.or(self.unnumbered.offsets()?.first().copied());
        let to_further = further.and_then(|further| further.checked_sub(start)).unwrap_or(used);
        let mut tried = Vec::new();
        for len in [used, header.used_size, header.data_size, header.allocated_size, room, to_further] {
            if len > room || tried.contains(&len) {
                continue;
            }
            tried.push(len);
            if md5_of(&Slice::new(file.source.clone(), start, len), count)?[..] == header.checksum[..] {
                return Ok(Some(len));
            }
        }
        Ok(None)
    }
}

/// Decides what is kept of a compressed block: all of it, still compressed, if it can be decoded, otherwise as much as can be
/// decoded. `stored` are its bytes, and `as_read` those that a reader takes for them.
fn judge_compressed(
    file: &StoredFile,
    header: &Header,
    (stored, as_read): (Slice, Slice),
    is_proven: bool,
    count: &dyn Fn(u64),
) -> Result<Verdict> {
    let codec = codec_of(header.label_text()).ok();
    let has_own_checksum = matches!(codec, Some(Codec::Zlib | Codec::Bzip2));
    let decoded = match codec {
        Some(codec) => decode(file, header, codec, &as_read, is_proven || has_own_checksum, count)?,
        None => None,
    };
    let as_stored = |data_size: u64, has_checksum: bool| -> Result<NewBlock> {
        let checksum = if has_checksum { md5_of(&stored, &|_| {})? } else { [0; 16] };
        let label = header.label.clone();
        Ok(NewBlock { data: Arc::new(stored.clone()), label, data_size, checksum, streamed: false })
    };
    let has_checksum = header.has_checksum();
    if codec.is_none() {
        let is_usual = header.unknown_flags() == 0 && stored.len() == header.used_size;
        let is_right = is_proven || is_usual && !has_checksum;
        let outcome = if is_right { Outcome::Kept } else { Outcome::Doubtful };
        let what = format!("{} bytes, which this program can't decode", stored.len());
        return Ok(Verdict { block: as_stored(header.data_size.min(MAX_SIZE), is_proven)?, outcome, what });
    }
    match decoded {
        Some(Decoded { content, len, is_whole: true, .. }) => {
            let is_proven = is_proven || has_checksum && md5_of(&*content, count)?[..] == header.checksum[..];
            let is_mended = has_checksum && !is_proven || len != header.data_size;
            let (outcome, what) = match (is_mended, is_proven || has_own_checksum) {
                (false, _) => (Outcome::Kept, format!("{len} bytes")),
                (true, true) => (Outcome::Mended, format!("{len} bytes, which a checksum proves")),
                (true, false) => (Outcome::Doubtful, WRONG_CHECKSUM.to_owned()),
            };
            let block = as_stored(len, has_checksum && outcome != Outcome::Doubtful)?;
            Ok(Verdict { block, outcome, what })
        }
        Some(Decoded { content, len, doubt, .. }) if len > 0 => {
            let outcome = if len == header.data_size { Outcome::Doubtful } else { Outcome::Cut };
            let mut what = format!("{len} of {} bytes can be decoded", header.data_size);
            if let Some(doubt) = doubt {
                what += &format!(", but nothing proves them: {}", doubt.message());
            }
            let block = NewBlock::uncompressed(Arc::new(ContentWindow::new(content, 0, len)));
            Ok(Verdict { block, outcome, what })
        }
        _ => Ok(Verdict::lost("nothing of it can be decoded without an error")),
    }
}

/// The decoded bytes of a block.
struct Decoded {
    content: Arc<dyn Content>,
    /// The number of bytes that can be read.
    len: u64,
    /// True if the stream ends after these bytes as it should.
    is_whole: bool,
    /// The reason why some of the bytes may be wrong.
    doubt: Option<Error>,
}

/// Decodes a block. If `finds_size` is true, a wrong `data_size` is replaced by the size that the stream itself has.
fn decode(
    file: &StoredFile,
    header: &Header,
    codec: Codec,
    stored: &Slice,
    finds_size: bool,
    count: &dyn Fn(u64),
) -> Result<Option<Decoded>> {
    let most = codec.max_decoded(stored.len()).min(MAX_SIZE);
    let mut data_size = if finds_size && most > 0 { header.data_size.min(most) } else { header.data_size };
    let mut first = None;
    // A stream that is longer than data_size is read with the largest size, which finds the right one.
    for _ in 0..3 {
        let header = Header { data_size, ..header.clone() };
        let Some(content) = if_readable(file.decoded(&header, stored.clone()))? else { break };
        let decoded = decoded_of(content, count)?;
        if decoded.is_whole {
            return Ok(Some(decoded));
        }
        let len = decoded.len;
        first = first.or(Some(decoded));
        let size = if len < data_size { len } else { most };
        if !finds_size || size == data_size || size == 0 {
            break;
        }
        data_size = size;
    }
    match first {
        // A wrong checksum casts doubt on all bytes.
        Some(Decoded { content, len: 0, .. }) if codec == Codec::Zlib => {
            let stored = Arc::new(stored.clone());
            let unchecked = codec::open_zlib_unchecked(stored, header.data_size, &file.context.cache);
            let Some(unchecked) = if_readable(unchecked)? else { return Ok(None) };
            Ok(Some(Decoded { doubt: content.damage(), is_whole: false, ..decoded_of(unchecked, count)? }))
        }
        first => Ok(first),
    }
}

/// Decodes all of a content.
fn decoded_of(content: Arc<dyn Content>, count: &dyn Fn(u64)) -> Result<Decoded> {
    let read = if_readable(read_through(&*content, count, &mut |_, _| {}))?;
    let is_whole = matches!(read, Some(None));
    let len = match content.soundness() {
        Soundness::Broken(from) => from.min(content.len()),
        _ if is_whole => content.len(),
        _ => 0,
    };
    let doubt = content.damage().filter(|_| len == content.len());
    Ok(Decoded { content, len, is_whole, doubt })
}

/// Returns the header at `offset` with the usual magic and size, if that is a header.
fn usual_header(file: &StoredFile, offset: u64) -> Result<Option<Header>> {
    let mut bytes = [0; MAX_FIELDS];
    let read = read_up_to(&*file.source, offset, &mut bytes)?;
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&(MAX_FIELDS as u16 - PREFIX as u16).to_be_bytes());
    if_readable(Header::parse(Generation::One, offset, &bytes[..read]))
}

/// True if a header has no contradiction, and its block ends where the next one begins, at the index or at the end of the
/// file.
fn leads_on(file: &StoredFile, header: &Header, next: Option<u64>) -> Result<bool> {
    let Some(end) = header.end() else { return Ok(false) };
    let is_plausible = header.used_size <= header.allocated_size
        && header.allocated_size > 0
        && header.label_text().iter().all(u8::is_ascii_graphic)
        && (!header.label_text().is_empty() || header.data_size == header.used_size);
    if !is_plausible || next.is_some() {
        return Ok(is_plausible && next == Some(end));
    }
    let mut after = [0; crate::asdf::index::MARKER.len()];
    let read = read_up_to(&*file.source, end.min(file.source_stat.size), &mut after)?;
    Ok(end == file.source_stat.size || after[..read] == *crate::asdf::index::MARKER)
}
