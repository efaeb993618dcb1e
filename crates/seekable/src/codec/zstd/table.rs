//! The checkpoints of a stream, and the CRCs of the output up to the last one.
//!
//! A reader that decodes past the last checkpoint adds more of them. Only one reader at a time can do so: all
//! output before a checkpoint has to be summed without a gap.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::blocks::BlockDecoder;
use super::checksums::Checksums;
use super::dictionary::StoredDictionary;
use super::header::Header;
use super::library::Context;
use super::memory::Memory;
use super::scale::Scale;
use super::stored_table::{self, BlockPosition, Span, StoredZstdTable};
use crate::cache::Cache;
use crate::codec::input::Input;
use crate::codec::seek::SeekTable;
use crate::codec::seek::stored_table::{Completion, Summary, TableSlot};
use crate::codec::seek::trust::TrustedTable;
use crate::content::Content;
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, locked};

/// Maximum size of a dictionary without the output in it: a tree, three tables, three offsets.
const HEAD: u64 = 1 << 10;

/// A stream of frames.
#[derive(Clone, Debug)]
pub(super) struct FrameStream {
    pub(super) stored: Arc<dyn Content>,
    pub(super) scale: Scale,
    pub(super) cache: Arc<Cache>,
}

/// A stream of frames and its table.
pub(super) struct ZstdTable {
    stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    pub(super) scale: Scale,
    /// The window of the first frame.
    pub(super) window: u64,
    state: Mutex<TableState>,
    /// The stored seek table, if there is one.
    pub(super) stored_table: TrustedTable<StoredZstdTable>,
}

struct TableState {
    /// Checkpoints in order of their offsets; the first is the stream's start.
    marks: Vec<ZstdCheckpoint>,
    checksums: Checksums,
    completion: Completion,
}

impl TableState {
    /// Returns the last checkpoint at or before a decoded offset that has a dictionary.
    fn before(&self, offset: u64) -> Option<&ZstdCheckpoint> {
        let after = self.marks.partition_point(|mark| mark.position.offset <= offset);
        let has_dictionary = |mark: &&ZstdCheckpoint| matches!(mark.dictionary, Dictionary::There(_));
        self.marks.get(..after)?.iter().rfind(has_dictionary)
    }
}

/// A checkpoint in the table.
struct ZstdCheckpoint {
    position: BlockPosition,
    /// The header of the frame, and the decoded offset at which the frame begins.
    frame: Option<(Header, u64)>,
    memory: Memory,
    dictionary: Dictionary,
    /// The CRCs of the span that begins at this checkpoint, once the next checkpoint exists.
    crcs: Option<Arc<[u32]>>,
}

#[derive(Clone)]
enum Dictionary {
    /// The stream's start needs no dictionary.
    None,
    Coming,
    There(Arc<StoredDictionary>),
    /// The dictionary could not be stored.
    Lost,
}

/// A checkpoint within a frame, with the state of the decoder.
pub(super) struct EntryPoint {
    pub(super) position: BlockPosition,
    pub(super) header: Header,
    /// The decoded offset at which the frame begins.
    pub(super) decoded_start: u64,
    pub(super) memory: Memory,
}

impl ZstdTable {
    /// Returns the table of a stream whose first frame has this window.
    pub(super) fn new(frames: FrameStream, window: u64, slot: Option<TableSlot>) -> Self {
        let FrameStream { stored, scale, cache } = frames;
        let start = ZstdCheckpoint {
            position: BlockPosition::default(),
            frame: None,
            memory: Memory::default(),
            dictionary: Dictionary::None,
            crcs: None,
        };
        let state = TableState {
            marks: vec![start],
            checksums: Checksums::default(),
            completion: Completion::default(),
        };
        let stored_table = TrustedTable::new(slot, StoredZstdTable::find);
        Self { stored, cache, scale, window, state: Mutex::new(state), stored_table }
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        locked(&self.state)
    }

    /// Returns the stored bytes from `from` on.
    fn input(&self, from: u64) -> Input {
        Input::range(&self.stored, from, u64::MAX)
    }

    /// Returns a decoder of the blocks from the start of the stream on.
    pub(super) fn blocks(&self) -> BlockDecoder {
        BlockDecoder::new(self.input(0), self.cache.scratch::<Context>())
    }

    /// Returns a decoder of the blocks from a checkpoint on, with its dictionary.
    pub(super) fn blocks_at(
        &self,
        position: BlockPosition,
        header: Header,
        dictionary: &[u8],
    ) -> Result<BlockDecoder> {
        let context = self.cache.scratch::<Context>();
        BlockDecoder::within(self.input(position.block), context, header, dictionary)
    }

    /// Returns a decoder that starts at a span of the stored table. The span has `crcs` CRCs.
    pub(super) fn blocks_of(
        &self,
        table: &StoredZstdTable,
        span: usize,
        crcs: usize,
    ) -> Result<BlockDecoder> {
        let lost = || Error::damaged("the seek table does not fit the stream");
        let position = table.position(span).ok_or_else(lost)?;
        if position.block == 0 {
            return Ok(self.blocks());
        }
        let header = Header::read(&mut self.input(position.frame))?;
        if !self.scale.is_for(header) {
            return Err(lost());
        }
        let most = usize::try_from(header.window + HEAD).map_err(|_| lost())?;
        let dictionary = table.dictionary(span, crcs, most).ok_or_else(lost)?;
        self.blocks_at(position, header, &dictionary)
    }

    /// Returns the decoded offset from which the next checkpoint in a frame is due, for a reader at `offset`.
    pub(super) fn due(&self, offset: u64, frame: Header) -> u64 {
        let last = self.state().marks.last().map_or(0, |mark| mark.position.offset);
        self.scale.due(last.max(offset), frame)
    }

    /// Notes that a frame begins at `frame` in the stored and at `offset` in the decoded bytes.
    pub(super) fn begin(&self, frame: u64, header: Header, offset: u64) {
        let mut state = self.state();
        if state.checksums.at == offset {
            state.checksums.begin(frame, header.checked);
        }
    }

    /// Adds output at `offset` to the CRCs: a block or part of one. `ends` says that the block ends with it.
    pub(super) fn add_output(&self, offset: u64, bytes: &[u8], ends: bool) {
        self.state().checksums.add(offset, bytes, ends);
    }

    /// True if the checksum of a frame that ends at `offset` is right, or if the frame was not summed.
    pub(super) fn is_right(&self, frame: u64, offset: u64, checksum: u32) -> bool {
        let state = self.state();
        state.checksums.at != offset
            || state.checksums.checksum(frame).is_none_or(|summed| summed == checksum)
    }

    /// Returns the CRCs of the span that begins at a decoded offset, if known, and the offset at which it
    /// ends.
    pub(super) fn span_from(&self, offset: u64) -> Option<(Arc<[u32]>, u64)> {
        let state = self.state();
        let at = state.marks.binary_search_by_key(&offset, |mark| mark.position.offset).ok()?;
        let end = state.marks.get(at + 1)?.position.offset;
        Some((state.marks.get(at)?.crcs.clone()?, end))
    }

    /// Adds a checkpoint, unless another reader has decoded further. Its dictionary is `head` followed by
    /// `content` from `start` on.
    pub(super) fn add(self: &Arc<Self>, within: EntryPoint, head: Vec<u8>, content: Vec<u8>, start: usize) {
        let number = {
            let mut state = self.state();
            let last_offset = state.marks.last().map_or(0, |mark| mark.position.offset);
            if state.checksums.at != within.position.offset || last_offset >= within.position.offset {
                return;
            }
            let crcs = state.checksums.end_span().into();
            if let Some(last) = state.marks.last_mut() {
                last.crcs = Some(crcs);
            }
            state.marks.push(ZstdCheckpoint {
                position: within.position,
                frame: Some((within.header, within.decoded_start)),
                memory: within.memory,
                dictionary: Dictionary::Coming,
                crcs: None,
            });
            state.completion.begin();
            state.marks.len() - 1
        };
        let room = self.cache.reserve(content.capacity() as u64);
        let on_another_thread = room.is_some() && self.cache.threads() > 1;
        let mut pending = PendingDictionary { zstd: self.clone(), number, dictionary: Dictionary::Lost };
        let note = move || {
            let output = content.get(start..).unwrap_or_default();
            let stored = StoredDictionary::put(&head, output, &pending.zstd.cache);
            pending.dictionary =
                stored.map_or(Dictionary::Lost, |stored| Dictionary::There(Arc::new(stored)));
            pending.zstd.cache.used(Arc::new(content));
            drop(room);
        };
        if on_another_thread { self.cache.run(note) } else { note() }
    }

    /// Notes the end of the stream: its stored and its decoded offset, and the checksum of the last frame.
    /// Stores the table.
    pub(super) fn ended(self: &Arc<Self>, at: u64, offset: u64, checksum: u32) {
        let Some(slot) = self.stored_table.slot().filter(|slot| slot.data_size() == offset) else { return };
        {
            let mut state = self.state();
            if state.completion.has_ended() || state.marks.len() < 2 || state.checksums.at != offset {
                return;
            }
            let crcs = state.checksums.end_span().into();
            if let Some(last) = state.marks.last_mut() {
                last.crcs = Some(crcs);
            }
            let whole = Summary { end: at.saturating_mul(8), checksum, interval: 0 };
            state.completion.end(whole, slot);
        }
        let zstd = self.clone();
        self.cache.run(move || zstd.keep());
    }

    /// Stores the table once the stream has ended and all dictionaries are stored.
    fn keep(self: &Arc<Self>) {
        let Some((whole, _pending)) = self.state().completion.take() else { return };
        let (Some(slot), Some(spans)) = (self.stored_table.slot(), self.spans()) else { return };
        stored_table::keep(slot, whole, &spans, &|| self.clone().read_without_stored_table());
    }

    /// Returns all spans for the stored table, with packed dictionaries; `None` if a dictionary is missing.
    fn spans(&self) -> Option<Vec<Span>> {
        let count = self.state().marks.len();
        let mut spans = Vec::with_capacity(count);
        for number in 0..count {
            let (position, crcs, dictionary) = {
                let state = self.state();
                let mark = state.marks.get(number)?;
                (mark.position, mark.crcs.as_ref()?.to_vec(), mark.dictionary.clone())
            };
            let dictionary = match dictionary {
                Dictionary::None => None,
                Dictionary::There(stored) if stored.packed => Some(stored),
                Dictionary::There(stored) => {
                    let packed = Arc::new(stored.pack(&self.cache)?);
                    if let Some(mark) = self.state().marks.get_mut(number) {
                        mark.dictionary = Dictionary::There(packed.clone());
                    }
                    Some(packed)
                }
                Dictionary::Coming | Dictionary::Lost => return None,
            };
            spans.push(Span { position, crcs, dictionary });
        }
        Some(spans)
    }

    /// Returns the decoded offset of the last checkpoint up to `wanted` that has a dictionary; 0 if it is the
    /// start.
    pub(super) fn offset_before(&self, wanted: u64) -> u64 {
        self.state().before(wanted).map_or(0, |mark| mark.position.offset)
    }

    /// Returns the last checkpoint up to a decoded offset that has a dictionary, unless it is the start.
    pub(super) fn before(&self, offset: u64) -> Option<(EntryPoint, Arc<StoredDictionary>)> {
        let state = self.state();
        let mark = state.before(offset)?;
        let (Dictionary::There(stored), Some((header, decoded_start))) = (&mark.dictionary, mark.frame)
        else {
            return None;
        };
        Some((
            EntryPoint { position: mark.position, header, decoded_start, memory: mark.memory.clone() },
            stored.clone(),
        ))
    }
}

/// A dictionary that is being stored. The table of a finished stream is stored only after it.
struct PendingDictionary {
    zstd: Arc<ZstdTable>,
    number: usize,
    dictionary: Dictionary,
}

impl Drop for PendingDictionary {
    fn drop(&mut self) {
        {
            let mut state = self.zstd.state();
            if let Some(mark) = state.marks.get_mut(self.number) {
                mark.dictionary = self.dictionary.clone();
            }
            state.completion.done();
        }
        self.zstd.keep();
    }
}

impl fmt::Debug for ZstdTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = self.state().marks.len();
        out.debug_struct("ZstdTable")
            .field("stored", &self.stored.len())
            .field("marks", &marks)
            .finish_non_exhaustive()
    }
}
