//! Reading bits, most significant first, out of a content.
//!
//! The content is read in pieces of fixed size. Loops that can't ask before every symbol take a
//! [`Bits::window`] with enough bits for a whole group of them; behind the end of the content there are
//! zeros, and [`Bits::move_to`] says afterwards whether any of those was used.

use super::fault::Fault;
use crate::content::Content;
use crate::error::Error;

/// How much of the content is read at once.
const PIECE: usize = 64 << 10;

/// Bytes of a window: 50 symbols of 20 bits, begun within a byte, and the rest of the last 8-byte load.
pub(super) const WINDOW: usize = 136;

/// How much is read at once for a header or a footer.
const SHORT_PIECE: usize = 2 * WINDOW;

/// A place to keep a piece, so that it need not be allocated for each block.
#[derive(Debug, Default)]
pub(super) struct Piece(Vec<u8>);

impl Piece {
    /// For single fields at scattered places: reads little of the content for each.
    pub(super) fn short() -> Self {
        Self(vec![0; SHORT_PIECE + WINDOW])
    }
}

/// A reader of bits, with a position in a content.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    content: &'a dyn Content,
    piece: &'a mut [u8],
    /// Which byte of the content is the piece's first one.
    first: u64,
    /// How many bytes of the piece are the content's; [`WINDOW`] zeros follow.
    filled: usize,
    /// Where the reader stands, from the content's start.
    bit: u64,
    /// Whether, and why, nothing can be read behind the piece.
    end: Option<End>,
}

/// Why a content gives no more bytes.
#[derive(Debug)]
enum End {
    Reached,
    Unread(Error),
}

impl<'a> Bits<'a> {
    /// A reader at `bit` of `content`, which reads nothing yet.
    pub(super) fn new(content: &'a dyn Content, bit: u64, piece: &'a mut Piece) -> Self {
        if piece.0.is_empty() {
            piece.0.resize(PIECE + WINDOW, 0);
        }
        Self { content, piece: &mut piece.0, first: bit >> 3, filled: 0, bit, end: None }
    }

    /// Where the reader stands.
    pub(super) fn bit(&self) -> u64 {
        self.bit
    }

    /// Reads `count` bits, 32 at most.
    pub(super) fn take(&mut self, count: u32) -> Result<u32, Fault> {
        let value = self.peek(count);
        self.move_to(self.bit + u64::from(count))?;
        Ok(value)
    }

    /// The next `count` bits, 32 at most, with zeros for those behind the end.
    pub(super) fn peek(&mut self, count: u32) -> u32 {
        debug_assert!((1..=32).contains(&count));
        let (window, skip) = self.window();
        (load(window, skip) >> (64 - count)) as u32
    }

    /// At least 1000 bits from where the reader stands, and how many bits of the first byte lie before it.
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

    /// Moves on to `bit`, or says why the content ends before it.
    #[inline]
    pub(super) fn move_to(&mut self, bit: u64) -> Result<(), Fault> {
        self.check(bit)?;
        self.bit = bit;
        Ok(())
    }

    /// Says whether all bits before `bit`, which is within the window asked for last, are the content's.
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

    /// Which byte of the piece the reader stands in.
    #[inline]
    fn at(&self) -> usize {
        ((self.bit >> 3) - self.first) as usize
    }

    /// Reads on, so that the piece begins with the byte the reader stands in.
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

/// 64 bits of `window`, of which at least the first 57 are its bits from `bit` on.
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
        let (mut at, mut count) = (3u64, 1u32);
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
        // An earlier piece leaves nothing behind.
        let mut bits = Bits::new(&content, 1 << 40, &mut piece);
        assert_eq!(bits.peek(32), 0);
        assert!(bits.take(1).is_err());
    }
}
