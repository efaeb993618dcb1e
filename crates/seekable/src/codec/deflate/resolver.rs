//! The second stage of a piece, which replaces its markers once the window before it is known.

use super::WINDOW;
use super::piece::Piece;
use super::symbol::MARKER;

/// A table that replaces the markers of a piece. It is reused for the next piece.
#[derive(Debug)]
pub struct Resolver {
    /// The byte for each of the 2^16 symbols.
    table: Box<[u8; 1 << 16]>,
    /// Number of bytes by which the window is shorter than 32 KiB: that many of the first markers stand for
    /// no byte.
    missing: usize,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver {
    /// Returns a resolver without a window.
    pub fn new() -> Self {
        let mut table = Box::new([0; 1 << 16]);
        for (byte, to) in (0..=u8::MAX).zip(&mut table[..]) {
            *to = byte;
        }
        Self { table, missing: WINDOW }
    }

    /// Sets the window before a piece: 32 KiB, or all there is.
    pub fn know(&mut self, window: &[u8]) {
        let window = &window[window.len().saturating_sub(WINDOW)..];
        self.missing = WINDOW - window.len();
        self.table[usize::from(MARKER) + self.missing..].copy_from_slice(window);
    }

    /// Writes the output of a piece from its byte `from` on to `out`, and returns the number of bytes. Stops
    /// where `out` is full, where the piece ends, or at a match that begins before the stream's first byte.
    pub fn write(&self, piece: &Piece, from: usize, out: &mut [u8]) -> usize {
        let symbols = piece.symbols().get(from..).unwrap_or_default();
        let symbols = &symbols[..symbols.len().min(out.len())];
        let known = &symbols[..self.known(symbols)];
        let (resolved, rest) = out.split_at_mut(known.len());
        replace(known, &self.table, resolved);
        if known.len() < symbols.len() {
            return known.len();
        }
        let behind = (from + known.len()).checked_sub(piece.symbols().len());
        let bytes = behind.and_then(|behind| piece.bytes().get(behind..)).unwrap_or_default();
        let len = bytes.len().min(rest.len());
        rest[..len].copy_from_slice(&bytes[..len]);
        known.len() + len
    }

    /// Returns the window `passed` bytes after the start of a piece: 32 KiB, or all there is. `None` if a
    /// match in it begins before the stream's first byte.
    pub fn window_at(&self, piece: &Piece, passed: usize) -> Option<Vec<u8>> {
        let from = passed.saturating_sub(WINDOW);
        let of_piece = passed - from;
        let mut window = self.table[usize::from(MARKER) + self.missing.max(of_piece)..].to_vec();
        let before = window.len();
        window.resize(before + of_piece, 0);
        (self.write(piece, from, &mut window[before..]) == of_piece).then_some(window)
    }

    /// True if all output of a piece is known.
    pub fn is_whole(&self, piece: &Piece) -> bool {
        self.known(piece.symbols()) == piece.symbols().len()
    }

    /// Returns the number of symbols before the first that stands for no byte.
    fn known(&self, symbols: &[u16]) -> usize {
        let nothing = MARKER..MARKER + (self.missing as u16).min(MARKER - 1);
        // Only a piece within the first 32 KiB of a stream has a short window.
        let first = match self.missing {
            0 => None,
            WINDOW => symbols.iter().position(|&symbol| symbol >= MARKER),
            _ => symbols.iter().position(|symbol| nothing.contains(symbol)),
        };
        first.unwrap_or(symbols.len())
    }
}

/// Writes the byte of each of the `symbols` to `out`, eight at a time.
fn replace(symbols: &[u16], table: &[u8; 1 << 16], out: &mut [u8]) {
    let known = |&symbol: &u16| table[usize::from(symbol)];
    let (eights, rest) = symbols.as_chunks::<8>();
    let (to_eights, last) = out.as_chunks_mut::<8>();
    for (to, eight) in to_eights.iter_mut().zip(eights) {
        let shifted = eight.iter().zip((0..).step_by(8)).map(|(symbol, at)| u64::from(known(symbol)) << at);
        *to = shifted.fold(0, |word, byte| word | byte).to_le_bytes();
    }
    for (to, symbol) in last.iter_mut().zip(rest) {
        *to = known(symbol);
    }
}
