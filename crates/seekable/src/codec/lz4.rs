//! LZ4 in both forms that occur in ASDF files.
//!
//! Under the label `lz4\0`, Python's asdf and most other writers write pieces that decode independently
//! ([`Lz4Pieces`]). Some writers put an LZ4 frame under this label. LZ4 frames also have a label of their own
//! ([`frames`]).

mod block;
mod format;
mod frame;
mod library;
mod pieces;
mod running;
mod scout;
mod unframe;
mod whole;

use std::sync::Arc;

use super::parts::PartTable;
use super::seek::Seekable;
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::Sequential;

pub(super) use pieces::{Lz4Pieces, each_piece};
pub(super) use whole::{decode, decode_by_the_rule};

/// Opens the frames in `stored`, which together decode to `data_size` bytes.
pub(super) fn frames(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> impl Sequential + use<> + 'static {
    let frames = frame::Frames::new(stored.clone(), data_size);
    Seekable::new(PartTable::new(frames, data_size, cache), library::library(stored))
}

#[cfg(test)]
pub(super) use block::decode as decode_block;

/// Maximum expansion of LZ4: each byte of a match's length stands for at most 255 bytes.
pub(super) const RATIO: u64 = 255;

/// Magic of an LZ4 frame.
pub(super) const FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
