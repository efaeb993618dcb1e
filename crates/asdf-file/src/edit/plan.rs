//! Plans a save: computes the bytes of the new file from an accepted text, and lists the ways to write them.
//!
//! The new file consists of the text, spaces up to the first block, the unchanged blocks, and the index. If
//! the text fits before the first block, nothing moves. Otherwise everything from the first block on moves by
//! a multiple of 4096, so that each block keeps its place within its page. The bytes of the new file are the
//! same for every way.

use std::ops::Range;

use memchr::memmem;
use seekable::error::{Error, Kind, Result};
use seekable::source::{Identity, Source, SourceStat, SourceVersion};

use super::index::{self, Indexed, Tail};
use super::layout::Layout;
use super::{SaveOptions, SavePlan};
use crate::asdf::head;
use crate::asdf::header::Generation;
use crate::container::Severity;
use crate::container::text_version::TextVersion;

/// The distance by which bytes move is a multiple of this.
pub(crate) const GRAIN: u64 = 4096;
/// The least padding left for further edits.
const MIN_PADDING: u64 = 4096;
/// Maximum padding that can be asked for.
const MAX_PADDING: u64 = 1 << 40;
/// Maximum padding, in bytes, that is filled with spaces if the text fits before the first block. Of longer
/// padding, only the bytes of a longer old text are filled; all others stay.
const BLANKED: u64 = 16 << 20;

/// A planned change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedChange<'a> {
    /// The new head.
    pub(crate) text: &'a [u8],
    /// The file's identity now.
    pub(crate) identity: Identity,
    /// The version of the file's present head.
    pub(crate) old_head: TextVersion,
    /// True if the last block is streamed: another program may append to the file at any time.
    pub(crate) streamed: bool,
    /// The end of text and spaces in the new file.
    pub(crate) head_to: u64,
    /// The bytes of the old file that are kept.
    pub(crate) kept: Range<u64>,
    /// The distance by which the kept bytes move.
    pub(crate) shift: u64,
    /// The bytes that follow the kept ones in the new file.
    pub(crate) tail: Vec<u8>,
    /// The outcome for the block index.
    pub(crate) indexed: Indexed,
}

impl<'a> PlannedChange<'a> {
    /// Plans the change of a file to a new head `text`.
    ///
    /// # Errors
    ///
    /// [`Kind::Refused`] if a reader would not find `text` to be the head.
    pub(crate) fn new(layout: &Layout, text: &'a [u8], options: &SaveOptions) -> Result<Self> {
        check_text(layout, text)?;
        let len = text.len() as u64;
        let mut change = Self {
            text,
            identity: layout.identity,
            old_head: layout.head,
            streamed: layout.streamed,
            head_to: len,
            kept: layout.identity.size..layout.identity.size,
            shift: 0,
            tail: Vec::new(),
            indexed: Indexed::None,
        };
        if !layout.keeps_anything() {
            return Ok(change);
        }
        change.kept = layout.kept_from..layout.kept_to;
        // Bytes that do not start a block could be read as part of the text, so a space must precede them.
        let least = len + u64::from(layout.offsets.first() != Some(&layout.kept_from));
        if least > layout.kept_from {
            change.shift = shift(least - layout.kept_from, len, options)?;
        }
        change.head_to = layout.kept_from + change.shift;
        if change.shift == 0 && layout.kept_from - len.max(layout.head.len) > BLANKED {
            change.head_to = len.max(layout.head.len);
        }
        change.decide_index(layout);
        Ok(change)
    }

    fn decide_index(&mut self, layout: &Layout) {
        self.indexed = match layout.tail {
            _ if layout.streamed || layout.offsets.is_empty() => Indexed::None,
            // The draft specification of 2014 has no index.
            _ if layout.generation == Generation::Draft => Indexed::None,
            None => Indexed::Damaged,
            Some(Tail::Unknown) => Indexed::Unknown,
            Some(Tail::Current) if self.shift == 0 => Indexed::Kept,
            Some(Tail::Current | Tail::Free) => Indexed::Written,
        };
        if self.indexed == Indexed::Written {
            let moved: Vec<u64> = layout.offsets.iter().map(|offset| offset + self.shift).collect();
            self.tail = index::text(&moved);
        } else {
            // The bytes after the blocks move with them.
            self.kept.end = layout.identity.size;
        }
    }

    /// True if the blocks move together with the unchanged bytes after them. An index in those bytes would
    /// become stale.
    pub(crate) fn carries_tail(&self) -> bool {
        self.shift > 0 && self.indexed != Indexed::Written
    }

    /// Returns this change with an updated index: `tail` follows the bytes up to `kept_to`.
    pub(crate) fn with_index(mut self, kept_to: u64, tail: Vec<u8>) -> Self {
        (self.kept.end, self.tail, self.indexed) = (kept_to, tail, Indexed::Written);
        self
    }

    /// Returns the size of the new file in bytes.
    pub(crate) fn new_size(&self) -> u64 {
        if self.keeps_anything() { self.kept.end + self.shift + self.tail.len() as u64 } else { self.head_to }
    }

    /// True if the blocks move although another program may append to the last one.
    pub(crate) fn moves_a_stream(&self) -> bool {
        self.streamed && self.shift > 0
    }

    /// True if any bytes after the head are kept.
    pub(crate) fn keeps_anything(&self) -> bool {
        self.kept.start < self.kept.end
    }

    /// Returns the offset at which a range is inserted: the start of the first block's page, so that the page
    /// moves as a whole.
    pub(crate) fn insert_at(&self) -> u64 {
        self.kept.start / GRAIN * GRAIN
    }

    /// Returns the offset of the tail in the new file.
    pub(crate) fn tail_from(&self) -> u64 {
        self.kept.end + self.shift
    }

    /// Fills `buf` with the bytes of the new file from `offset` on, outside the kept bytes. Returns the
    /// number of bytes.
    pub(crate) fn new_bytes(&self, offset: u64, buf: &mut [u8]) -> usize {
        let from = if offset < self.head_to { 0 } else { self.tail_from() };
        let skip = usize::try_from(offset - from).unwrap_or(usize::MAX);
        if offset < self.head_to {
            let len = buf.len().min(usize::try_from(self.head_to - offset).unwrap_or(usize::MAX));
            let text = self.text.get(skip..).unwrap_or_default();
            let text = &text[..text.len().min(len)];
            buf[..text.len()].copy_from_slice(text);
            buf[text.len()..len].fill(b' ');
            return len;
        }
        let tail = self.tail.get(skip..).unwrap_or_default();
        let len = tail.len().min(buf.len());
        buf[..len].copy_from_slice(&tail[..len]);
        len
    }

    /// Returns the plans to try, best first. `links` is the number of the file's hard links.
    pub(crate) fn plans(&self, links: u64, options: &SaveOptions) -> Vec<SavePlan> {
        if self.shift > 0
            && let Some(only) = options.only
        {
            return vec![only];
        }
        match (self.shift, links) {
            // On a copy-on-write file system without room, a change in place is not possible.
            (0, ..=1) if !self.streamed => vec![SavePlan::InPlace, SavePlan::Clone, SavePlan::Rewrite],
            (0, _) => vec![SavePlan::InPlace, SavePlan::Rewrite],
            // A plan that changes the same file would move the end, to which another program is about to
            // append.
            _ if self.streamed => vec![SavePlan::Clone, SavePlan::Copy],
            (_, ..=1) => vec![SavePlan::Clone, SavePlan::Insert, SavePlan::Copy, SavePlan::Rewrite],
            // A new file would take one of the hard links, and the other links would keep the old file.
            _ => vec![SavePlan::Insert, SavePlan::Rewrite],
        }
    }
}

/// Returns the padding after a text of `len` bytes unless another is asked for.
pub(super) fn usual_padding(len: u64) -> u64 {
    (len / 10).max(MIN_PADDING)
}

/// Returns the distance by which the kept bytes move, if it must be at least `least`.
fn shift(least: u64, len: u64, options: &SaveOptions) -> Result<u64> {
    let padding = options.padding.unwrap_or_else(|| usual_padding(len));
    if padding > MAX_PADDING {
        return Err(Error::new(Kind::TooLarge, format!("a padding of {padding} bytes is too large")));
    }
    Ok((least + padding).next_multiple_of(GRAIN))
}

/// Refuses a text that readers would not find to be the file's head.
fn check_text(layout: &Layout, text: &[u8]) -> Result<()> {
    let refused = |why: &str| Err(Error::new(Kind::Refused, why));
    if text.is_empty() {
        return refused("the text is empty");
    }
    if layout.generation.find_magic(text).is_some() {
        return refused("the text contains the magic bytes of a block");
    }
    if memmem::find(text, crate::asdf::index::MARKER).is_some() && !layout.keeps_anything() {
        return refused("the text contains a line that begins like the block index");
    }
    if !crate::asdf::head::recognises(text) {
        return refused("the text does not begin with the line '#ASDF'");
    }
    let followed = Followed { text, by_spaces: layout.keeps_anything() };
    let read = head::read(&followed)?;
    if read.generation != layout.generation {
        return refused("the header line has another version");
    }
    let damage = read.defects.iter().find(|defect| defect.severity == Severity::Damage);
    if let Some(damage) = damage {
        return Err(Error::new(Kind::Refused, damage.what.clone()).at(damage.offset));
    }
    if read.end != text.len() as u64 {
        return Err(Error::new(
            Kind::Refused,
            "the tree ends before the text does: there is a line '...' within it, or none at its end",
        )
        .at(read.end));
    }
    Ok(())
}

/// A text followed by spaces, as in the new file.
#[derive(Debug)]
struct Followed<'a> {
    text: &'a [u8],
    by_spaces: bool,
}

impl Source for Followed<'_> {
    fn path(&self) -> &std::path::Path {
        std::path::Path::new("text")
    }

    fn stat(&self) -> Result<SourceStat> {
        let size = self.text.len() as u64;
        Ok(SourceStat { size, mtime: (0, 0), version: SourceVersion::of_tag("text") })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.text.get(start..));
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
            let spaces = (self.text.len() as u64 + 8).saturating_sub(offset).min(buf.len() as u64) as usize;
            let spaces = if self.by_spaces { spaces } else { 0 };
            buf[..spaces].fill(b' ');
            return Ok(spaces);
        };
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}
