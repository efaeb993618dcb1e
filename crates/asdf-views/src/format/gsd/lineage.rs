//! A check that a newer version of a file only appends frames to an older one.
//!
//! A program that truncates a file and writes it anew puts other data at the same offsets. Opening
//! a file therefore records a sample of the data of the first and the last frame. A newer version must
//! contain the same data there.

use std::hash::{DefaultHasher, Hash, Hasher};

use seekable::error::Result;
use seekable::source::read_up_to;

use super::entry::IndexEntry;
use super::file::GsdFile;

/// Chunks per frame, and bytes at the start of each chunk, that are sampled.
const CHUNKS: usize = 64;
const BYTES: usize = 256;

/// A fingerprint of the frames that later versions must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The first and the last frame with chunks; `None` if there is no frame.
    frames: Option<(u64, u64)>,
    /// The last entry of the last frame.
    last: Option<IndexEntry>,
    /// Hash of the entries and of the sampled data of these frames.
    sample: u64,
}

impl Trace {
    /// Computes the trace of an open file.
    pub(crate) fn of(file: &GsdFile) -> Result<Self> {
        let frames = match (file.entries()?, file.frames()?) {
            (0, _) | (_, 0) => None,
            (_, frames) => Some((file.entry(0)?.frame, frames - 1)),
        };
        Self::of_frames(file, frames)
    }

    fn of_frames(file: &GsdFile, frames: Option<(u64, u64)>) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        let mut last = None;
        for frame in frames.iter().flat_map(|(oldest, newest)| [*oldest, *newest]) {
            let mut entries = file.entries_of(frame)?;
            last = entries.last().copied();
            entries.truncate(CHUNKS);
            for entry in entries {
                let (offset, len) = file.range(&entry).unwrap_or_default();
                let mut bytes = [0; BYTES];
                let bytes = &mut bytes[..len.min(BYTES as u64) as usize];
                let read = read_up_to(&*file.source, offset, bytes)?;
                (entry.slot, entry.n, entry.m, entry.kind, entry.location, &bytes[..read]).hash(&mut hasher);
            }
        }
        Ok(Self { frames, last, sample: hasher.finish() })
    }
}

/// True if `newer` has the names of `older` and the frames sampled in `trace`, the trace of `older`.
pub(crate) fn continues(older: &GsdFile, trace: &Trace, newer: &GsdFile) -> bool {
    let old = older.header();
    let new = newer.header();
    let same_header =
        old.version.0 == new.version.0 && old.schema == new.schema && old.application == new.application;
    // Names are only appended.
    let same_names = older.names().len() <= newer.names().len()
        && older.names().iter().eq(newer.names().iter().take(older.names().len()));
    let has_frames = trace.frames.is_none_or(|(_, last)| newer.frames().is_ok_and(|frames| frames > last));
    same_header
        && same_names
        && has_frames
        && Trace::of_frames(newer, trace.frames).is_ok_and(|now| now == *trace)
}
