//! The output before a checkpoint, kept small.
//!
//! Of the 32 KiB before a place the output after it refers to a fifth or so. The rest is set to zero
//! (`probe.rs`), and deflate makes 5 to 7 KB of what is left. That takes longer than all else that a
//! checkpoint costs, so it is a step of its own, for whatever thread has the time.

use std::io::Read;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::WINDOW;
use crate::error::{Error, Result};

/// The output before a place, as far as the output after it refers to it, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedWindow {
    len: usize,
    packed: Vec<u8>,
}

/// Compresses windows one after the other.
#[derive(Debug)]
pub struct Packer(Compress);

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl Packer {
    /// A packer. It takes some 300 KB of memory.
    pub fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// Compresses a window; of one that is longer than 32 KiB the last 32 KiB.
    pub fn pack(&mut self, window: &[u8]) -> PackedWindow {
        let window = &window[window.len().saturating_sub(WINDOW)..];
        self.0.reset();
        // Room for bytes that can't be compressed, so that one call does it.
        let mut packed = Vec::with_capacity(window.len() + window.len() / 8 + 64);
        let status = self.0.compress_vec(window, &mut packed, FlushCompress::Finish);
        debug_assert!(matches!(status, Ok(Status::StreamEnd)));
        packed.shrink_to_fit();
        PackedWindow { len: window.len(), packed }
    }
}

impl PackedWindow {
    /// Puts together what [`len`](Self::len) and [`packed`](Self::packed) gave. Both may be anything:
    /// [`unpack`](Self::unpack) looks at them.
    pub fn from_parts(len: usize, packed: Vec<u8>) -> Self {
        Self { len, packed }
    }

    /// How many bytes it unpacks to.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing comes before the place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The compressed bytes: raw deflate.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Replaces all of `out` by the window; an error leaves it empty.
    pub fn unpack(&self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut decoder = flate2::read::DeflateDecoder::new(&self.packed[..]).take(WINDOW as u64 + 1);
        let read = decoder.read_to_end(out);
        if self.len > WINDOW || read.is_err() || out.len() != self.len {
            out.clear();
            return Err(Error::damaged("the window of a checkpoint is damaged"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_come_back_and_damaged_ones_are_refused() {
        let mut packer = Packer::new();
        let window: Vec<u8> = (0..WINDOW as u32).map(|n| ((n * n) >> 9) as u8).collect();
        let mut out = vec![1];
        for len in [0, 1, 700, WINDOW] {
            let packed = packer.pack(&window[..len]);
            packed.unpack(&mut out).unwrap();
            assert_eq!((&out[..], packed.is_empty()), (&window[..len], len == 0));
            for wrong in [len + 1, len.wrapping_sub(1)] {
                let wrong = PackedWindow::from_parts(wrong, packed.packed().to_vec());
                assert!(wrong.unpack(&mut out).is_err() && out.is_empty());
            }
            let cut = PackedWindow::from_parts(len, packed.packed()[..packed.packed().len() - 1].to_vec());
            assert!(cut.unpack(&mut out).is_err());
        }
        let bomb = packer.pack(&window).packed().repeat(2);
        assert!(PackedWindow::from_parts(2 * WINDOW, bomb).unpack(&mut out).is_err());
    }
}
