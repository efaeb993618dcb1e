//! LZ4 in both forms that ASDF files have.
//!
//! Under the label `lz4\0` Python's asdf and most others write pieces that can be decoded apart
//! ([`Pieces`]); some writers put an LZ4 frame there, which has a label of its own too ([`frames`]).

mod block;
mod format;
mod frame;
mod library;
mod pieces;
mod running;
mod unframe;
mod whole;

use std::sync::Arc;

use super::parts::Parted;
use super::seek::Seekable;
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::Sequential;

pub(super) use pieces::Pieces;
pub(super) use whole::decode;

/// The frames in `stored`, of `data_size` bytes together as the header says.
pub(super) fn frames(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> impl Sequential + use<> + 'static {
    let frames = frame::Frames::new(stored.clone(), data_size);
    Seekable::new(Parted::new(frames, data_size, cache), library::library(stored))
}

#[cfg(test)]
pub(super) use block::decode as decode_block;

/// What LZ4 can make of a byte at most: each byte of a match's length stands for 255.
pub(super) const RATIO: u64 = 255;

/// What an LZ4 frame begins with.
pub(super) const FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
