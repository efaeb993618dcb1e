//! A bit reader over a content, most significant bit first.
//!
//! The content is read in pieces of fixed size. A loop that can't check for the end at every symbol takes a
//! [`Bits::window`] with enough bits for a whole group of symbols. Behind the end of the content the window
//! has zeros; [`Bits::move_to`] then fails if any of them was used.

use super::fault::Fault;
use crate::content::Content;
use crate::error::Error;

/// Bytes of the content read at once.
const PIECE: usize = 64 << 10;

/// Size of a window in bytes: 50 symbols of 20 bits that begin within a byte, and the rest of the last 8-byte
/// load.
pub(super) const WINDOW: usize = 136;

/// Bytes read at once for a header or a footer.
const SHORT_PIECE: usize = 2 * WINDOW;

/// A buffer for the bytes read at once. It is reused, so that it is not allocated for each block.
#[derive(Debug, Default)]
pub(super) struct Piece(Vec<u8>);

impl Piece {
    /// Returns a small buffer, for single fields at scattered positions.
    pub(super) fn short() -> Self {
        Self(vec![0; SHORT_PIECE + WINDOW])
    }
}

/// A bit reader with a position in a content.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    content: &'a dyn Content,
    piece: &'a mut [u8],
    /// Offset in the content of the first byte of `piece`.
    first: u64,
    /// Number of bytes in `piece` that are from the content; [`WINDOW`] zeros follow.
    filled: usize,
    /// Position of the next bit, counted from the content's start.
    bit: u64,
    /// Set once a read after the buffered bytes has met the end of the content or an error.
    end: Option<End>,
}

/// The reason why a content gives no more bytes.
#[derive(Debug)]
enum End {
    Reached,
    Unread(Error),
}

impl<'a> Bits<'a> {
    /// Returns a reader at `bit` of `content`, which reads nothing yet.
    pub(super) fn new(content: &'a dyn Content, bit: u64, piece: &'a mut Piece) -> Self {
        if piece.0.is_empty() {
            piece.0.resize(PIECE + WINDOW, 0);
        }
        Self { content, piece: &mut piece.0, first: bit >> 3, filled: 0, bit, end: None }
    }

    /// Returns the position of the next bit.
    pub(super) fn bit(&self) -> u64 {
        self.bit
    }

    /// Reads `count` bits, at most 32.
    pub(super) fn take(&mut self, count: u32) -> Result<u32, Fault> {
        let value = self.peek(count);
        self.move_to(self.bit + u64::from(count))?;
        Ok(value)
    }

    /// Returns the next `count` bits, at most 32, with zeros after the end.
    pub(super) fn peek(&mut self, count: u32) -> u32 {
        debug_assert!((1..=32).contains(&count));
        let (window, skip) = self.window();
        (load(window, skip) >> (64 - count)) as u32
    }

    /// Returns a window with at least 1000 bits from the position on, and the index of the position's bit
    /// within the window's first byte.
    #[inline]
    pub(super) fn window(&mut self) -> (&[u8; WINDOW], u64) {
        let mut at = self.at();
        if at + WINDOW > self.filled && self.end.is_none() {
            self.refill(at);
            at = 0;
        }
        let window = self.piece.get(at..).and_then(|rest| rest.first_chunk());
        (
            window.expect("a window of zeros follows the bytes, and the reader stands at most behind those"),
            self.bit & 7,
        )
    }

    /// Moves to `bit`; fails if the content ends before it.
    #[inline]
    pub(super) fn move_to(&mut self, bit: u64) -> Result<(), Fault> {
        self.check(bit)?;
        self.bit = bit;
        Ok(())
    }

    /// Fails if the content ends before `bit`, which lies within the last window.
    #[inline]
    pub(super) fn check(&self, bit: u64) -> Result<(), Fault> {
        let end = (self.first + self.filled as u64) * 8;
        if bit <= end {
            return Ok(());
        }
        Err(match &self.end {
            Some(End::Unread(error)) => Fault::Unread(error.clone()),
            _ => Fault::Truncated { bit: end },
        })
    }

    /// Returns the index in `piece` of the current byte.
    #[inline]
    fn at(&self) -> usize {
        ((self.bit >> 3) - self.first) as usize
    }

    /// Reads further bytes, so that `piece` begins with the current byte.
    #[cold]
    fn refill(&mut self, at: usize) {
        self.piece.copy_within(at..self.filled.max(at), 0);
        self.first += at as u64;
        self.filled -= at.min(self.filled);
        let size = self.piece.len() - WINDOW;
        while self.filled < size {
            let offset = self.first + self.filled as u64;
            match self.content.read_at(offset, &mut self.piece[self.filled..size]) {
                Ok(0) => self.end = Some(End::Reached),
                Ok(read) => self.filled += read.min(size - self.filled),
                Err(error) => self.end = Some(End::Unread(error)),
            }
            if self.end.is_some() {
                break;
            }
        }
        self.piece[self.filled..self.filled + WINDOW].fill(0);
    }
}

/// Returns 64 bits of `window`, of which at least the first 57 are valid, from `bit` on.
///
/// `bit` is below 8 · ([`WINDOW`] − 8).
#[inline]
pub(super) fn load(window: &[u8; WINDOW], bit: u64) -> u64 {
    let at = (bit >> 3) as usize;
    let eight = window.get(at..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(0, |bytes| u64::from_be_bytes(*bytes) << (bit & 7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    #[test]
    fn reads_across_pieces_as_from_one_number() {
        let bytes: Vec<u8> =
            (0..3 * PIECE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let content = Text::new(bytes.clone());
        let mut piece = Piece::default();
        let mut bits = Bits::new(&content, 3, &mut piece);
        let mut at = 3u64;
        let mut count = 1u32;
        while at + u64::from(count) <= bytes.len() as u64 * 8 {
            let wanted = (0..u64::from(count)).fold(0u32, |value, k| {
                let bit = at + k;
                value << 1 | u32::from(bytes[(bit >> 3) as usize] >> (7 - (bit & 7)) & 1)
            });
            assert_eq!(bits.take(count).unwrap(), wanted, "{count} bits at {at}");
            at += u64::from(count);
            count = count % 32 + 1;
        }
        assert!(matches!(bits.take(32), Err(Fault::Truncated { bit }) if bit == bytes.len() as u64 * 8));
    }

    #[test]
    fn stands_at_most_behind_the_last_bit() {
        let content = Text::new(vec![0xff; 2]);
        let mut piece = Piece::default();
        let mut bits = Bits::new(&content, 16, &mut piece);
        assert_eq!(bits.peek(8), 0);
        assert!(matches!(bits.take(1), Err(Fault::Truncated { bit: 16 })));
        // An earlier piece leaves no bytes behind.
        let mut bits = Bits::new(&content, 1 << 40, &mut piece);
        assert_eq!(bits.peek(32), 0);
        assert!(bits.take(1).is_err());
    }
}
