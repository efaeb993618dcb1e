//! The two magics of 48 bits, and a search for positions where they could stand.
//!
//! A magic may begin at any bit. It always contains four whole pairs of neighbouring bytes, at four
//! consecutive byte offsets. The search therefore looks up only every fourth pair of bytes, in a bitmap of
//! the 64 pairs that occur in the magics at any shift. It looks closely only at hits: one pair in a thousand
//! in compressed data.

use std::ops::Range;

use crate::content::Content;
use crate::error::Result;

/// Number of bits in a magic.
pub(super) const MAGIC_BITS: u32 = 48;

/// Magic of a block: the digits of π.
const BLOCK: u64 = 0x3141_5926_5359;

/// Magic of a stream's footer: the digits of √π.
const END_OF_STREAM: u64 = 0x1772_4538_5090;

/// Bytes of a content that are searched at once.
const PIECE: usize = 256 << 10;

/// Bytes that a search reads after its last position: those of a magic, and two more.
const BEHIND: usize = 8;

/// Distance in bytes between the pairs that are looked up.
const STRIDE: usize = 4;

/// The kinds of magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// A block follows.
    Block,
    /// A footer follows.
    EndOfStream,
}

impl Magic {
    /// Returns the magic with these 48 bits.
    pub(super) fn of(bits: u64) -> Option<Self> {
        match bits {
            BLOCK => Some(Self::Block),
            END_OF_STREAM => Some(Self::EndOfStream),
            _ => None,
        }
    }
}

/// The kind of data after a block or after a stream's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Follows {
    /// A magic.
    Magic(Magic),
    /// Data that are not a magic.
    Neither,
    /// Too few bits, or bits that can't be read.
    Cut,
}

/// A position where a block or a footer could begin. Data can look like a magic by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The magic's first bit, counted from the content's start.
    pub bit: u64,
    /// The kind of magic.
    pub magic: Magic,
}

/// Bitmap of the byte pairs that lie whole within a magic at any shift. The first byte of a pair is the low
/// one.
static PAIRS: [u64; 1024] = pairs();

const fn pairs() -> [u64; 1024] {
    let mut map = [0; 1024];
    let marks = [BLOCK, END_OF_STREAM];
    let mut which = 0;
    while which < marks.len() {
        let mut shift = 0;
        while shift < 8 {
            let bytes = (marks[which] << (16 - shift)).to_be_bytes();
            // The byte in which the magic begins is whole only without a shift, so it is left out.
            let mut at = 1;
            while at <= STRIDE {
                let pair = bytes[at] as usize | (bytes[at + 1] as usize) << 8;
                map[pair >> 6] |= 1 << (pair & 63);
                at += 1;
            }
            shift += 1;
        }
        which += 1;
    }
    map
}

#[inline(always)]
fn may_lie_in_mark(pair: u16) -> bool {
    PAIRS[usize::from(pair >> 6)] >> (pair & 63) & 1 == 1
}

/// Calls `take` for each magic that begins in one of the first `count` bytes of `bytes`, in order.
fn search(bytes: &[u8], count: usize, mut take: impl FnMut(Candidate)) {
    // A magic that begins in one of the four bytes before a pair contains that pair.
    let mut try_pair = |pair: usize| {
        for start in pair - STRIDE..pair.min(count) {
            let mut eight = [0; 8];
            let available = &bytes[start..bytes.len().min(start + 8)];
            eight[..available.len()].copy_from_slice(available);
            for shift in 0..8 {
                let mark = u64::from_be_bytes(eight) << shift >> (64 - MAGIC_BITS);
                let whole = shift + MAGIC_BITS as usize <= available.len() * 8;
                if whole && let Some(magic) = Magic::of(mark) {
                    take(Candidate { bit: (start * 8 + shift) as u64, magic });
                }
            }
        }
    };
    let pairs = bytes.get(STRIDE..).unwrap_or_default();
    let (eights, rest) = pairs.as_chunks::<8>();
    let mut at = STRIDE;
    for eight in eights {
        if at >= count + STRIDE {
            return;
        }
        let word = u64::from_le_bytes(*eight);
        let first = may_lie_in_mark(word as u16);
        let second = may_lie_in_mark((word >> 32) as u16);
        if first | second {
            if first {
                try_pair(at);
            }
            if second {
                try_pair(at + STRIDE);
            }
        }
        at += 8;
    }
    for (k, pair) in rest.chunks(STRIDE).enumerate() {
        if let [low, high, ..] = *pair
            && may_lie_in_mark(u16::from_le_bytes([low, high]))
        {
            try_pair(at + k * STRIDE);
        }
    }
}

/// An iterator over the positions of a content where a block or a footer could begin, in order.
///
/// It reads the content in pieces and ends after an error.
#[derive(Debug)]
pub struct Candidates<'a> {
    content: &'a dyn Content,
    starts: Range<u64>,
    piece: Vec<u8>,
    candidates: std::collections::VecDeque<Candidate>,
}

impl<'a> Candidates<'a> {
    /// Returns the magics whose first bit lies in the bytes `starts` of `content`; they may end after
    /// `starts`.
    pub fn new(content: &'a dyn Content, starts: Range<u64>) -> Self {
        Self { content, starts, piece: Vec::new(), candidates: std::collections::VecDeque::new() }
    }

    /// Searches the next piece.
    fn search(&mut self) -> Result<()> {
        let first = self.starts.start;
        let wanted = (PIECE as u64).min(self.starts.end - first) as usize;
        self.piece.resize(PIECE + BEHIND, 0);
        let piece = &mut self.piece[..wanted + BEHIND];
        let mut read = 0;
        while read < piece.len() {
            match self.content.read_at(first.saturating_add(read as u64), &mut piece[read..]) {
                Ok(0) => break,
                Ok(more) => read = piece.len().min(read + more),
                // The bytes before the error are searched first.
                Err(_) if read > BEHIND => break,
                Err(error) => return Err(error),
            }
        }
        let complete = if read == piece.len() { wanted } else { read.saturating_sub(BEHIND) };
        let done = if complete == 0 { read.min(wanted) } else { complete };
        let candidates = &mut self.candidates;
        search(&piece[..read], done, |candidate| {
            candidates.push_back(Candidate { bit: first * 8 + candidate.bit, ..candidate });
        });
        self.starts.start = if done == 0 { self.starts.end } else { first + done as u64 };
        Ok(())
    }
}

impl Iterator for Candidates<'_> {
    type Item = Result<Candidate>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.candidates.is_empty() && !self.starts.is_empty() {
            if let Err(error) = self.search() {
                self.starts.start = self.starts.end;
                return Some(Err(error));
            }
        }
        self.candidates.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;
    use proptest::prelude::*;

    fn plant(bytes: &mut [u8], bit: usize, mark: u64) {
        for k in 0..48 {
            let mask = 0x80 >> ((bit + k) % 8);
            let byte = &mut bytes[(bit + k) / 8];
            *byte = if mark >> (47 - k) & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }

    /// Searches for magics at every bit.
    fn slowly(bytes: &[u8], starts: Range<usize>) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut last = 0u64;
        for bit in 0..bytes.len() * 8 {
            last = (last << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1)) & ((1 << 48) - 1);
            if bit >= 47
                && starts.contains(&((bit - 47) / 8))
                && let Some(magic) = Magic::of(last)
            {
                found.push(Candidate { bit: bit as u64 - 47, magic });
            }
        }
        found
    }

    proptest! {
        #[test]
        fn finds_what_a_look_at_every_bit_finds(
            noise in prop::collection::vec(any::<u8>(), 0..300),
            at in prop::collection::vec((any::<u16>(), any::<bool>()), 0..6),
            (from, to) in (0usize..320, 0usize..320),
        ) {
            let mut bytes = noise;
            for (bit, block) in at {
                let room = (bytes.len() * 8).saturating_sub(48);
                if room > 0 {
                    plant(&mut bytes, usize::from(bit) % room, if block { BLOCK } else { END_OF_STREAM });
                }
            }
            let content = Text::new(bytes.clone());
            let starts = from as u64..to as u64;
            let ours: Vec<_> = Candidates::new(&content, starts).map(|found| found.unwrap()).collect();
            prop_assert_eq!(ours, slowly(&bytes, from..to));
        }
    }

    #[test]
    fn finds_marks_across_the_borders_of_pieces_and_at_the_end() {
        for near in [PIECE * 8, (2 * PIECE + 100) * 8 - 48] {
            for bit in near - 64..=near {
                let mut bytes = vec![0xa5; 2 * PIECE + 100];
                plant(&mut bytes, bit, BLOCK);
                let content = Text::new(bytes);
                let found: Vec<_> =
                    Candidates::new(&content, 0..content.len()).map(|found| found.unwrap()).collect();
                assert_eq!(found, [Candidate { bit: bit as u64, magic: Magic::Block }]);
            }
        }
    }
}
