//! Blocks that no encoder writes, made symbol by symbol.

use super::super::crc::Crc;
use super::super::{Decoder, Level};
use super::*;

/// A bit writer, most significant bit first.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    used: usize,
}

impl Writer {
    fn put(&mut self, value: u64, count: usize) {
        for k in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            self.bytes[self.used / 8] |= ((value >> k & 1) as u8) << (7 - self.used % 8);
            self.used += 1;
        }
    }
}

/// A block, given by its last column and its oddities.
struct Written {
    /// The last column, as bytes with their run lengths.
    column: Vec<(u8, usize)>,
    origin: u64,
    crc: u32,
    randomised: bool,
    /// Number of selectors beyond those needed.
    more_selectors: isize,
    /// Number of steps up and down before the first code length.
    wandering: usize,
    /// The stated length of all codes.
    code_length: u64,
}

impl Written {
    fn new(column: Vec<(u8, usize)>, origin: u64, decoded: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(decoded);
        Self {
            column,
            origin,
            crc: crc.value(),
            randomised: false,
            more_selectors: 0,
            wandering: 0,
            code_length: 9,
        }
    }

    /// Returns a stream of level 9 with this block.
    fn stream(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.put(0x425a_6839, 32);
        out.put(0x3141_5926_5359, 48);
        out.put(u64::from(self.crc), 32);
        out.put(u64::from(self.randomised), 1);
        out.put(self.origin, 24);
        let mut list: Vec<u8> = self.column.iter().map(|&(byte, _)| byte).collect();
        list.sort_unstable();
        list.dedup();
        let occurs = |byte: u8| u64::from(list.contains(&byte));
        let row = |row: u8| (0..16).fold(0, |bits, column| bits << 1 | occurs(row * 16 + column));
        out.put((0..16).fold(0, |bits, k| bits << 1 | u64::from(row(k) != 0)), 16);
        for bits in (0..16).map(row).filter(|&bits| bits != 0) {
            out.put(bits, 16);
        }
        let last_symbol = list.len() as u64 + 1;
        let symbols = self.symbols(list);
        out.put(2, 3);
        let selectors = symbols.len().div_ceil(50).saturating_add_signed(self.more_selectors);
        out.put(selectors as u64, 15);
        for _ in 0..selectors {
            out.put(0, 1);
        }
        for _ in 0..2 {
            out.put(self.code_length, 5);
            for _ in 0..self.wandering {
                out.put(0b1011, 4);
            }
            for _ in 0..=last_symbol {
                out.put(0, 1);
            }
        }
        for &symbol in &symbols {
            out.put(symbol, self.code_length as usize);
        }
        out.put(0x1772_4538_5090, 48);
        out.put(u64::from(self.crc), 32);
        out.bytes
    }

    fn symbols(&self, mut list: Vec<u8>) -> Vec<u64> {
        let last_symbol = list.len() as u64 + 1;
        let mut symbols = Vec::new();
        for &(byte, count) in &self.column {
            let place = list.iter().position(|&listed| listed == byte).unwrap();
            list[..=place].rotate_right(1);
            let mut run = count;
            if place > 0 {
                symbols.push(place as u64 + 1);
                run -= 1;
            }
            while run > 0 {
                symbols.push(1 - (run % 2) as u64);
                run = (run - 1) / 2;
            }
        }
        symbols.push(last_symbol);
        symbols
    }
}

/// Returns the block of 900 000 bytes with the longest output: four equal bytes and 255 more, repeated. Its
/// rotations sort into five classes.
fn longest() -> Written {
    let mut block = Written::new(vec![(0xff, 180_000), (b'a', 720_000)], 0, b"");
    let mut crc = Crc::new();
    for _ in 0..180_000 {
        crc.update(&[b'a'; 259]);
    }
    block.crc = crc.value();
    block
}

fn small() -> Written {
    // "banana": the sorted rotations end in nnbaaa, and the fourth is the word.
    Written::new(vec![(b'n', 2), (b'b', 1), (b'a', 3)], 3, b"banana")
}

fn assert_both_refuse(stream: &[u8]) {
    assert!(!by_library(stream).1);
    let (out, fault) = by_us(stream);
    assert!(out.is_empty() && matches!(fault, Some(Fault::Broken { .. })), "{fault:?}");
}

#[test]
fn the_writer_writes_what_the_library_reads() {
    let stream = small().stream();
    assert_eq!(by_library(&stream), (b"banana".to_vec(), true));
    assert_decodes(&stream, b"banana", "banana");
}

#[test]
fn the_longest_block_there_can_be() {
    let content = Text::new(longest().stream());
    let mut decoder = Decoder::new();
    let block = decoder.decode_at(&content, 32, Level::MAX).unwrap();
    assert_eq!(block.len, 180_000 * 259);
    let mut whole = vec![0; 180_000 * 259 + 1];
    assert_eq!(decoder.read(&mut whole) as u64, block.len);
}

#[test]
fn one_byte_more_than_a_block_may_hold() {
    assert_both_refuse(&Written { column: vec![(0xff, 180_000), (b'a', 720_001)], ..longest() }.stream());
    assert_both_refuse(&Written { column: vec![(0xff, 900_000), (b'a', 1)], ..longest() }.stream());
    assert_both_refuse(&Written { column: vec![(0, 1 << 22)], ..longest() }.stream());
}

#[test]
fn a_text_that_ends_where_a_count_should_be() {
    assert_both_refuse(&Written::new(vec![(b'a', 4)], 0, b"aaaa").stream());
    let counted = Written::new(vec![(b'a', 4), (0, 1)], 1, b"").stream();
    let (library, right) = by_library(&counted);
    assert_eq!(by_us(&counted).1.is_none(), right, "{library:?}");
}

#[test]
fn an_origin_behind_the_end() {
    for origin in [6, 7, 900_010, 900_011, (1 << 24) - 1] {
        assert_both_refuse(&Written { origin, ..small() }.stream());
    }
}

#[test]
fn a_column_that_is_no_transform_of_anything() {
    // The permutation has several cycles; the library walks the one with the origin.
    for origin in 0..6 {
        let mut block = Written { origin, ..small() };
        block.column = vec![(b'a', 1), (b'b', 1), (b'n', 1), (b'b', 2), (b'a', 1)];
        let walked = by_library(&block.stream()).0;
        assert!(walked.len() >= 6);
        let mut crc = Crc::new();
        crc.update(&walked);
        block.crc = crc.value();
        assert_decodes(&block.stream(), &walked, "several cycles");
    }
}

#[test]
fn too_few_selectors_and_too_many() {
    assert_both_refuse(&Written { more_selectors: -1, ..small() }.stream());
    let long = [(b'a', 3), (b'b', 1)].repeat(40);
    let block = Written { column: long, ..small() };
    assert_both_refuse(&Written { more_selectors: -1, ..block }.stream());
    for more_selectors in [1, 18_001, 18_002, 32_766] {
        assert_decodes(&Written { more_selectors, ..small() }.stream(), b"banana", "more selectors");
        assert!(by_library(&Written { more_selectors, ..small() }.stream()).1);
    }
}

#[test]
fn code_lengths_that_wander() {
    let stream = Written { wandering: 1000, ..small() }.stream();
    assert!(by_library(&stream).1);
    assert_decodes(&stream, b"banana", "wandering a little");
    let stream = Written { wandering: 100_000, ..small() }.stream();
    assert!(by_library(&stream).1);
    assert!(matches!(by_us(&stream).1, Some(Fault::Unsupported { .. })));
    for code_length in [0, 21, 31] {
        assert_both_refuse(&Written { code_length, ..small() }.stream());
    }
}

#[test]
fn codes_of_all_lengths() {
    // Codes too short for five symbols, and then long enough, up to the longest.
    for code_length in 1..=20 {
        let stream = Written { code_length, ..small() }.stream();
        let (library, right) = by_library(&stream);
        assert_eq!(right, code_length >= 3);
        let (out, fault) = by_us(&stream);
        assert_eq!(fault.is_none(), right, "{code_length}: {fault:?}");
        assert!(library.starts_with(&out));
    }
}

#[test]
fn randomised_blocks_are_left_to_the_library() {
    let stream = Written { randomised: true, ..small() }.stream();
    assert!(matches!(by_us(&stream).1, Some(Fault::Unsupported { bit: 32, .. })));
}
