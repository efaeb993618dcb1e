//! The output before a checkpoint, kept small.
//!
//! Of the 32 KiB before a place the output after it refers to a fifth or so. The rest is set to zero,
//! and deflate makes 5 KB of what is left. Which bytes are referred to is known once the next 32 KiB
//! were decoded as symbols with markers: no match after these reaches back before the place.

use std::io::Read;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::WINDOW;
use super::unit::MARKER;
use crate::error::{Error, Result};

/// Which bytes of a window are referred to.
#[derive(Clone, Debug)]
pub(super) struct Used(Box<[bool; WINDOW]>);

impl Used {
    /// Those that the markers among `symbols` stand for.
    pub(super) fn by(symbols: &[u16]) -> Self {
        let mut used = Box::new([false; WINDOW]);
        for symbol in symbols.iter().filter(|&&symbol| symbol >= MARKER) {
            used[usize::from(symbol - MARKER)] = true;
        }
        Self(used)
    }

    /// `window` with zeros for what isn't used; it is the last part of 32 KiB if it is shorter.
    fn sparse(&self, window: &[u8]) -> Vec<u8> {
        let used = &self.0[WINDOW - window.len().min(WINDOW)..];
        window.iter().zip(used).map(|(&byte, &used)| if used { byte } else { 0 }).collect()
    }
}

/// What a decoder needs of the output before a place, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedWindow {
    len: usize,
    packed: Vec<u8>,
}

/// Compresses windows one after the other.
#[derive(Debug)]
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// Compresses what is used of `window`, the last 32 KiB of output or all if there is less.
    pub(super) fn pack(&mut self, window: &[u8], used: &Used) -> PackedWindow {
        let sparse = used.sparse(window);
        self.0.reset();
        // Room for bytes that can't be compressed, so that one call does it.
        let mut packed = Vec::with_capacity(sparse.len() + sparse.len() / 8 + 64);
        let status = self.0.compress_vec(&sparse, &mut packed, FlushCompress::Finish);
        debug_assert!(matches!(status, Ok(Status::StreamEnd)));
        packed.shrink_to_fit();
        PackedWindow { len: sparse.len(), packed }
    }
}

impl PackedWindow {
    /// The window in front of a stream's first byte.
    pub fn empty() -> Self {
        Self { len: 0, packed: Vec::new() }
    }

    /// What [`len`](Self::len) and [`packed`](Self::packed) gave; both may be anything.
    pub fn from_parts(len: usize, packed: Vec<u8>) -> Self {
        Self { len: len.min(WINDOW), packed }
    }

    /// How many bytes it unpacks to, 32 KiB at most.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing before the place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The compressed bytes: raw deflate.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Puts the window in front of what `out` will hold: replaces all of `out`.
    pub fn unpack(&self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if self.len == 0 {
            return Ok(());
        }
        let mut decoder = flate2::read::DeflateDecoder::new(&self.packed[..]).take(self.len as u64 + 1);
        let read = decoder.read_to_end(out);
        if read.is_err() || out.len() != self.len {
            out.clear();
            return Err(Error::damaged("the window of a checkpoint is damaged"));
        }
        Ok(())
    }
}
