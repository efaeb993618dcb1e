//! LZ4 in both forms that ASDF files have.
//!
//! Under the label `lz4\0` Python's asdf and most others write pieces that can be decoded apart
//! ([`Pieces`]); some writers put an LZ4 frame there, which has a label of its own too ([`Frames`]).

mod block;
mod frame;
mod pieces;

pub(super) use frame::Frames;
pub(super) use pieces::Pieces;

#[cfg(test)]
pub(super) use block::decode as decode_block;

/// What LZ4 can make of a byte at most: each byte of a match's length stands for 255.
pub(super) const RATIO: u64 = 255;

/// What an LZ4 frame begins with.
pub(super) const FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
