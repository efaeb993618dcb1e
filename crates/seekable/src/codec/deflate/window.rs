//! The window of a checkpoint, compressed. The window is the 32 KiB of output before the checkpoint.
//!
//! The output after a checkpoint refers to about a fifth of the window's bytes. The other bytes are set to
//! zero (`probe.rs`), and deflate compresses the window to 5 to 7 KB. Compression takes longer than all other
//! work for a checkpoint, so it is a separate step that any idle thread can take.

use std::io::Read;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::WINDOW;
use crate::error::{Error, Result};

/// The window before a position, with unused bytes zeroed, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedWindow {
    len: usize,
    packed: Vec<u8>,
}

/// A compressor for windows, one after the other.
#[derive(Debug)]
pub struct Packer(Compress);

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl Packer {
    /// Returns a packer, which takes some 300 KB of memory.
    pub fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// Compresses a window, or the last 32 KiB of a longer one.
    pub fn pack(&mut self, window: &[u8]) -> PackedWindow {
        let window = &window[window.len().saturating_sub(WINDOW)..];
        self.0.reset();
        // Enough for incompressible bytes, so that one call suffices.
        let mut packed = Vec::with_capacity(window.len() + window.len() / 8 + 64);
        let status = self.0.compress_vec(window, &mut packed, FlushCompress::Finish);
        debug_assert!(matches!(status, Ok(Status::StreamEnd)));
        packed.shrink_to_fit();
        PackedWindow { len: window.len(), packed }
    }
}

impl PackedWindow {
    /// Returns the window of `len` bytes with these [`packed`](Self::packed) bytes. Both may be
    /// invalid: [`unpack`](Self::unpack) checks them.
    pub fn from_parts(len: usize, packed: Vec<u8>) -> Self {
        Self { len, packed }
    }

    /// True if the window is empty: there is no output before the checkpoint.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the compressed bytes: raw deflate.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Replaces all of `out` by the uncompressed window; an error leaves `out` empty.
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
