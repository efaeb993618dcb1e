//! A writer of deflate streams of any shape, with their decoded bytes.

/// The standard's order of the code lengths in a header.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A deterministic pseudo-random generator: splitmix64.
#[derive(Debug)]
pub(in super::super) struct Dice(u64);

impl Dice {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// The kind of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockKind {
    Stored,
    Fixed,
    /// Dynamic codes, some of 15 bits.
    Dynamic,
}

/// A stream that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    bits: usize,
    pub(super) plain: Vec<u8>,
    /// The first bit of each block's header, and true if a finder finds the block.
    pub(super) blocks: Vec<(u64, bool)>,
}

impl Writer {
    pub(super) fn put(&mut self, value: u64, count: u32) {
        for at in 0..count {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> at & 1) as u8) << (self.bits % 8);
            self.bits += 1;
        }
    }

    /// Writes a stored block of these bytes, at most 65535.
    pub(super) fn stored(&mut self, bytes: &[u8], last: bool) {
        self.blocks.push((self.bits as u64, false));
        self.put(u64::from(last), 3);
        self.bits = self.bits.next_multiple_of(8);
        let len = bytes.len() as u16;
        for part in [&len.to_le_bytes()[..], &(!len).to_le_bytes(), bytes] {
            self.bytes.extend_from_slice(part);
        }
        self.bits = self.bytes.len() * 8;
        self.plain.extend_from_slice(bytes);
    }

    /// Writes a block of `symbols` random literals and matches.
    pub(super) fn block(&mut self, kind: BlockKind, symbols: usize, last: bool, dice: &mut Dice) {
        if let BlockKind::Stored = kind {
            let bytes: Vec<u8> = (0..symbols.min(65535)).map(|_| dice.next() as u8).collect();
            return self.stored(&bytes, last);
        }
        let dynamic = matches!(kind, BlockKind::Dynamic);
        self.blocks.push((self.bits as u64, dynamic && !last));
        self.put(u64::from(last) | if dynamic { 4 } else { 2 }, 3);
        let (literals, distances) = if dynamic {
            (lengths(286, dice), lengths(30, dice))
        } else {
            ([[8; 144].as_slice(), &[9; 112], &[7; 24], &[8; 8]].concat(), vec![5; 32])
        };
        if dynamic {
            self.header(&literals, &distances);
        }
        let literals = codes(&literals);
        let distances = codes(&distances);
        for _ in 0..symbols {
            self.symbol(&literals, &distances, dice);
        }
        self.code(literals[256]);
    }

    pub(super) fn header(&mut self, literals: &[u8], distances: &[u8]) {
        self.put(literals.len() as u64 - 257, 5);
        self.put(distances.len() as u64 - 1, 5);
        self.put(15, 4);
        // Sixteen codes of four bits for the lengths 0 to 15, none for repetitions.
        for symbol in ORDER {
            self.put(if symbol < 16 { 4 } else { 0 }, 3);
        }
        for &length in literals.iter().chain(distances) {
            self.put(u64::from(length.reverse_bits() >> 4), 4);
        }
    }

    pub(super) fn code(&mut self, (code, length): (u64, u32)) {
        self.put(code, length);
    }

    fn symbol(&mut self, literals: &[(u64, u32)], distances: &[(u64, u32)], dice: &mut Dice) {
        if self.plain.is_empty() || dice.below(3) == 0 {
            let byte = dice.next() as u8 & 31;
            self.plain.push(byte);
            return self.code(literals[usize::from(byte)]);
        }
        let n = dice.below(29);
        let extra = if (8..28).contains(&n) { n as u32 / 4 - 1 } else { 0 };
        let base: usize = 3 + (0..n.min(28)).map(|n| 1 << if n < 8 { 0 } else { n / 4 - 1 }).sum::<usize>();
        let more = dice.below(1 << extra);
        let length = if n == 28 { 258 } else { base + more };
        self.code(literals[257 + n]);
        self.put(more as u64, extra);
        let far = |n: usize| if n < 4 { 0 } else { n / 2 - 1 };
        let base = |n: usize| 1 + (0..n).map(|n| 1usize << far(n)).sum::<usize>();
        let furthest =
            (0..30).rfind(|&n| base(n) + (1 << far(n)) <= self.plain.len().min(32768) + 1).unwrap_or(0);
        let n = dice.below(furthest + 1);
        let more = dice.below(1 << far(n));
        let distance = base(n) + more;
        self.code(distances[n]);
        self.put(more as u64, far(n) as u32);
        for _ in 0..length {
            self.plain.push(self.plain[self.plain.len() - distance]);
        }
    }

    /// Returns a stream of random blocks.
    pub(super) fn random(dice: &mut Dice) -> Self {
        let mut writer = Self::default();
        let count = 1 + dice.below(12);
        for n in 0..count {
            let kind =
                [BlockKind::Stored, BlockKind::Fixed, BlockKind::Dynamic, BlockKind::Dynamic][dice.below(4)];
            let symbols = [0, 1, 40, 700, 3000][dice.below(5)];
            writer.block(kind, symbols, n + 1 == count, dice);
        }
        writer
    }

    /// Returns the bit after the last block.
    pub(super) fn end(&self) -> u64 {
        self.bits as u64
    }
}

/// Returns the lengths of a complete code for `count` symbols, by random splits: uneven, up to 15 bits.
pub(in super::super) fn lengths(count: usize, dice: &mut Dice) -> Vec<u8> {
    let mut lengths = vec![1u8, 1];
    while lengths.len() < count {
        let at = if dice.below(3) == 0 { lengths.len() - 1 } else { dice.below(lengths.len()) };
        if lengths[at] < 15 {
            lengths[at] += 1;
            lengths.push(lengths[at]);
        }
    }
    for at in (1..count).rev() {
        lengths.swap(at, dice.below(at + 1));
    }
    lengths
}

/// Returns the standard's codes for these lengths, first bit lowest.
pub(super) fn codes(lengths: &[u8]) -> Vec<(u64, u32)> {
    let mut codes = vec![(0, 0); lengths.len()];
    let mut code = 0u64;
    for length in 1..=15u32 {
        for symbol in (0..lengths.len()).filter(|&symbol| u32::from(lengths[symbol]) == length) {
            codes[symbol] = (code.reverse_bits() >> (64 - length), length);
            code += 1;
        }
        code <<= 1;
    }
    codes
}
