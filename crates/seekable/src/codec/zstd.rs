//! zstd: frames decode independently, and a long frame has checkpoints between its blocks.
//!
//! | part | what it is |
//! |---|---|
//! | [`header`], [`frame`] | the headers of frames; the cutting of a stream between frames |
//! | [`table`], [`scale`] | checkpoints within a long frame; decoding past the last one adds more |
//! | [`reader`], [`blocks`] | decodes from a checkpoint on, block by block |
//! | [`memory`], [`block`], [`sequences`], [`fse`], [`bits`] | the decoder state at a checkpoint |
//! | [`checksums`], [`dictionary`], [`stored_table`] | the seek table as it is stored between mounts |
//! | [`library`] | libzstd, which decodes; its pass from the start of the stream decides what is damaged |
//!
//! The seek table of the seekable format, in a skippable frame at the end, is skipped like any other
//! skippable frame. It would give the length of frames that do not give it themselves. But only decoding
//! proves that length, and a read in the middle would rely on it unproved. Frames are found quickly without
//! it, from header to header.

mod bits;
mod block;
mod blocks;
mod checksums;
mod dictionary;
mod everywhere;
mod frame;
mod fse;
mod header;
mod library;
mod memory;
mod reader;
mod scale;
mod sequences;
mod stored_table;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock};

use super::input::Input;
use super::parts::PartTable;
use super::seek::stored_table::{TableKind, TableSlot};
use super::seek::trust::TableTrust;
use super::seek::{self, Seekable, SegmentReader};
use crate::cache::Cache;
use crate::codec::StoredStream;
use crate::content::Content;
use crate::decode::{Decoder, Sequential};
use crate::error::{Error, Result};
use crate::sync::locked;
use frame::Frames;
use header::Header;
use library::Unpacking;
use reader::FrameReader;
use scale::Scale;
use table::{FrameStream, ZstdTable};

pub use everywhere::Everywhere;
pub(super) use frame::each_frame;

/// Magics of skippable frames; LZ4 has the same.
pub(super) use header::SKIPPABLE;

/// Memory of a decoder without its windows, in bytes.
const WEIGHT: u64 = 2 << 20;

/// Maximum expansion of zstd: a block of four bytes decodes to 128 KiB.
pub(super) const RATIO: u64 = 32 << 10;

/// Limit for a first frame that does not state its size: if it decodes to more, the stream is treated as a single
/// frame.
const LONG: u64 = 64 << 20;

/// Opens a stream of frames. If it has a name, the seek table of a long frame is stored.
pub(super) fn open(stream: StoredStream, cache: &Arc<Cache>) -> impl Sequential + use<> + 'static {
    let scale = Scale::of(stream.data_size);
    open_with(stream, scale, cache)
}

/// Returns a decoder of the frame that is all of `stored`.
///
/// # Errors
/// The stored bytes do not begin with a frame, or do not end with it.
pub(super) fn decode_once(stored: &Arc<dyn Content>) -> Result<Box<dyn Decoder>> {
    let mut input = Input::new(stored);
    if u32::from_le_bytes(input.magic()?) != header::MAGIC || frame::end_of_frame(stored, 0)? != stored.len()
    {
        return Err(Error::unsupported("the data are not one zstd frame"));
    }
    Ok(Box::new(Unpacking::new(input, library::Context::default(), true)?))
}

/// Opens a stream as [`open`] does, with other distances between checkpoints.
fn open_with(stream: StoredStream, scale: Scale, cache: &Arc<Cache>) -> impl Sequential + use<> + 'static {
    let slot = Mutex::new(TableSlot::new(cache.store(), TableKind::Zstd, &stream));
    let frames = FrameStream { stored: stream.stored, scale, cache: cache.clone() };
    Zstd { frames, slot, stream: OnceLock::new() }
}

/// A stream of frames that decode independently, or of a long frame with checkpoints between its blocks.
#[derive(Debug)]
struct Zstd {
    frames: FrameStream,
    slot: Mutex<Option<TableSlot>>,
    /// The stream, cut between its frames or with checkpoints; chosen at the first read.
    stream: OnceLock<Arc<dyn Sequential>>,
}

impl Zstd {
    fn stream(&self) -> &dyn Sequential {
        &**self.stream.get_or_init(|| {
            let FrameStream { stored, scale, cache } = &self.frames;
            let data_size = scale.data_size();
            let frames = Frames::new(stored.clone(), data_size, cache);
            // If frames give their length, parts are found without a table.
            let is_long = |frame: &Header| match frame.content_size {
                Some(size) => size > data_size / 2,
                None => self.has_table() || frames.begin_longer_than(LONG.min(data_size / 2)),
            };
            match frames.first().filter(|frame| is_long(frame) && scale.is_for(*frame)) {
                Some(frame) => self.with_table(frame),
                None => self.parted(),
            }
        })
    }

    /// True if a seek table of the stream is stored: an earlier reader found the stream long.
    fn has_table(&self) -> bool {
        let slot = locked(&self.slot);
        slot.as_ref().is_some_and(TableSlot::has_table)
    }

    /// Returns the stream with checkpoints within frames like the first one.
    fn with_table(&self, first: Header) -> Arc<dyn Sequential> {
        let slot = locked(&self.slot).take();
        let table = ZstdTable::new(self.frames.clone(), first.window, slot);
        Arc::new(Seekable::new(table, library::library(self.frames.stored.clone())))
    }

    /// Returns the stream cut between its frames.
    fn parted(&self) -> Arc<dyn Sequential> {
        let FrameStream { stored, scale, cache } = &self.frames;
        let frames = Frames::new(stored.clone(), scale.data_size(), cache);
        let parts = PartTable::new(frames, scale.data_size(), cache);
        Arc::new(Seekable::new(parts, library::library(stored.clone())))
    }
}

impl Sequential for Zstd {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.stream().start()
    }

    fn inner(&self) -> Option<&dyn Sequential> {
        Some(self.stream())
    }
}

impl seek::SeekTable for ZstdTable {
    fn weight(&self) -> u64 {
        // Three windows: libzstd's, that of a dictionary, and that of the next dictionary.
        WEIGHT.saturating_add(self.window.saturating_mul(3))
    }

    fn nearest(&self, wanted: u64) -> u64 {
        match self.stored_table.get() {
            Some(table) => table.spans.start(table.spans.at(wanted)),
            None => self.offset_before(wanted),
        }
    }

    fn stored_table(&self) -> Option<&dyn TableTrust> {
        Some(&self.stored_table)
    }

    fn read_without_stored_table(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        let table = self.stored_table.get();
        Ok(Box::new(FrameReader::against(self, table)))
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        if let Some(table) = self.stored_table.get() {
            let span = table.spans.at(from);
            return Ok((
                table.spans.start(span),
                Box::new(FrameReader::from_stored_table(self, table, span)),
            ));
        }
        if let Some((within, aside)) = self.before(from)
            && let Some(dictionary) = aside.dictionary()
        {
            match self.blocks_at(within.position, within.header, &dictionary) {
                Ok(blocks) => {
                    let at = within.position.offset;
                    return Ok((at, Box::new(FrameReader::from_within(self, within, blocks))));
                }
                Err(error) if !error.lasts() => return Err(error),
                Err(error) => tracing::debug!("decoding can't start at a checkpoint: {error}"),
            }
        }
        // A checkpoint without its dictionary is useless: decoding starts at the beginning.
        Ok((0, Box::new(FrameReader::from_start(self))))
    }
}
