//! LZ4 blocks of every shape, intact and broken, compared with lz4_flex and with the format itself.

use std::sync::Arc;

use super::*;
use crate::codec::input::Input;
use crate::codec::lz4::block;
use crate::codec::samples::Dice;
use crate::content::{Content, Text};

/// Decodes byte by byte as the format says. Returns the output up to the end or the error; true if there is
/// no error.
fn by_the_book(block: &[u8], history: &[u8], room: usize) -> (Vec<u8>, bool) {
    let mut out = history.to_vec();
    let good = by_the_book_into(block, &mut out, history.len() + room);
    (out.split_off(history.len()), good.is_some())
}

fn by_the_book_into(block: &[u8], out: &mut Vec<u8>, most: usize) -> Option<()> {
    let mut bytes = block.iter().copied();
    let length = |code: u8, bytes: &mut dyn Iterator<Item = u8>| {
        let mut length = usize::from(code);
        let mut goes_on = code == 15;
        while goes_on {
            let more = bytes.next()?;
            length += usize::from(more);
            goes_on = more == 255;
        }
        Some(length)
    };
    loop {
        let token = bytes.next()?;
        for _ in 0..length(token >> 4, &mut bytes)? {
            let literal = bytes.next()?;
            (out.len() < most).then(|| out.push(literal))?;
        }
        let Some(low) = bytes.next() else { return Some(()) };
        let offset = usize::from(u16::from_le_bytes([low, bytes.next()?]));
        let count = length(token & 15, &mut bytes)? + 4;
        for _ in 0..count {
            let from = out.len().checked_sub(offset).filter(|_| offset > 0)?;
            (out.len() < most).then(|| out.push(out[from]))?;
        }
    }
}

/// Decodes with our decoder into exactly `room` bytes.
fn ours(block: &[u8], history: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut out = history.to_vec();
    out.resize(history.len() + room, 0xa5);
    let count = decode(block, &mut out, history.len());
    assert!(out[..history.len()] == *history, "the history is left alone");
    count.map(|count| out[history.len()..][..count].to_vec())
}

/// Asserts that our decoder agrees with lz4_flex, with the format, and, without a history, with our
/// incremental decoder.
#[track_caller]
fn agree(block: &[u8], history: &[u8], room: usize) -> bool {
    let got = ours(block, history, room);
    let mut theirs = vec![0; room];
    let count = lz4_flex::block::decompress_into_with_dict(block, &mut theirs, history);
    let theirs = count.ok().map(|count| theirs[..count].to_vec());
    assert!(got == theirs, "lz4_flex: {:?}, ours: {:?}", theirs.map(|t| t.len()), got.map(|g| g.len()));
    let (prefix, good) = by_the_book(block, history, room);
    assert!(got.as_ref() == good.then_some(&prefix), "the format");
    if history.is_empty() {
        let stored: Arc<dyn Content> = Arc::new(Text::new(block.to_vec()));
        let mut piecemeal = Vec::new();
        let whole = block::decode(Input::new(&stored), room as u64, &mut piecemeal);
        // The incremental decoder also accepts a block that ends after a match.
        let may_be_whole = prefix.len() == room;
        assert!(if whole.is_ok() { may_be_whole } else { !(good && may_be_whole) }, "piecemeal: {whole:?}");
        assert!(piecemeal == prefix, "piecemeal, {} bytes, not {}", piecemeal.len(), prefix.len());
    }
    good
}

/// A block that is being written, and its output after a history.
struct Written {
    block: Vec<u8>,
    truth: Vec<u8>,
    history: usize,
    dice: Dice,
}

impl Written {
    fn new(history: &[u8], seed: u64) -> Self {
        Self { block: Vec::new(), truth: history.to_vec(), history: history.len(), dice: Dice(seed | 1) }
    }

    fn lengths(&mut self, literals: usize, code: usize) {
        self.block.push((literals.min(15) << 4 | code.min(15)) as u8);
        self.more(literals);
        for _ in 0..literals {
            let byte = self.dice.roll(256) as u8;
            self.block.push(byte);
            self.truth.push(byte);
        }
    }

    fn more(&mut self, length: usize) {
        if let Some(more) = length.checked_sub(15) {
            self.block.extend(std::iter::repeat_n(255, more / 255));
            self.block.push((more % 255) as u8);
        }
    }

    /// Writes a sequence; too large an offset is reduced.
    fn sequence(&mut self, literals: usize, offset: usize, count: usize) {
        let literals = if self.truth.is_empty() { literals.max(1) } else { literals };
        self.lengths(literals, count - 4);
        let offset = offset.min(self.truth.len()).min(0xffff);
        self.block.extend((offset as u16).to_le_bytes());
        self.more(count - 4);
        for _ in 0..count {
            self.truth.push(self.truth[self.truth.len() - offset]);
        }
    }

    /// Writes the last literals.
    fn end(mut self, literals: usize) -> (Vec<u8>, Vec<u8>) {
        self.lengths(literals, 0);
        (self.block, self.truth.split_off(self.history))
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed | 1);
    (0..len).map(|_| dice.roll(256) as u8).collect()
}

/// Returns a length on either side of an edge: of a token, of a copy, of the room, or of a length byte.
fn edge(dice: &mut Dice) -> usize {
    const EDGES: [usize; 16] = [0, 1, 8, 12, 14, 15, 16, 18, 19, 32, 33, 64, 128, 144, 270, 525];
    match dice.roll(8) {
        0 => dice.roll(80),
        1 => dice.roll(700),
        _ => (EDGES[dice.roll(EDGES.len())] + dice.roll(3)).saturating_sub(1),
    }
}

fn offset(dice: &mut Dice) -> usize {
    1 + match dice.roll(6) {
        0 => dice.roll(16),
        1 => dice.roll(70),
        2 => dice.roll(1000),
        _ => dice.roll(70_000),
    }
}

#[test]
fn every_length_of_literals_and_match_at_every_place_near_the_end() {
    for literals in 0..=50 {
        for count in 4..=52 {
            for tail in 0..=5 {
                let mut written = Written::new(&[], (literals * 100 + count) as u64);
                written.sequence(40, 1 + literals, count);
                written.sequence(literals, 20 + literals + count % 7, count);
                written.sequence(literals % 17, 35, 4);
                let (block, truth) = written.end(tail * 13 + literals % 5);
                for more in [0, 1, 2, 17, 60] {
                    assert!(agree(&block, &[], truth.len() + more), "{literals}, {count}, {tail}");
                }
                assert!(!agree(&block, &[], truth.len() - 1));
                assert_eq!(ours(&block, &[], truth.len()), Some(truth));
            }
        }
    }
}

#[test]
fn every_small_offset_repeats_what_it_should() {
    for offset in 1..=70 {
        for count in (4..=150).chain([255, 256, 273, 274, 275, 1000, 5000]) {
            for tail in [0, 5, 20, 200] {
                let mut written = Written::new(&[], (offset * 1000 + count) as u64);
                written.sequence(70, offset, count);
                written.sequence(offset % 20, offset, count);
                let (block, truth) = written.end(tail);
                assert_eq!(ours(&block, &[], truth.len()), Some(truth), "{offset}, {count}, {tail}");
            }
        }
    }
}

#[test]
fn blocks_of_all_shapes_behind_histories_of_all_lengths() {
    let mut dice = Dice(3);
    let past = noise(70_000, 1);
    let mut far = 0;
    for round in 0..3000 {
        let history = match round % 4 {
            0 => 0,
            1 => dice.roll(100),
            2 => 65_535 - 2 + dice.roll(4),
            _ => dice.roll(past.len()),
        };
        let history = &past[past.len() - history..];
        let mut written = Written::new(history, round);
        for _ in 0..dice.roll(60) {
            let there = written.truth.len();
            // The offset reaches back as far as possible, or nearly.
            let offset = if dice.roll(8) == 0 { there - dice.roll(2).min(there) } else { offset(&mut dice) };
            far += usize::from(offset > there - history.len() && offset <= there);
            written.sequence(edge(&mut dice), offset.max(1), 4 + edge(&mut dice));
        }
        let (block, truth) = written.end(edge(&mut dice));
        assert!(agree(&block, history, truth.len()), "round {round}");
        assert!(agree(&block, history, truth.len() + edge(&mut dice)), "round {round}");
        assert!(truth.is_empty() || !agree(&block, history, dice.roll(truth.len())), "round {round}");
        assert_eq!(ours(&block, history, truth.len()), Some(truth), "round {round}");
    }
    assert!(far > 1000, "{far} matches in the history");
}

#[test]
fn what_reaches_before_the_start_makes_no_sense() {
    for history in [0, 1, 10, 40, 65_530] {
        let history = noise(history, 9);
        for literals in 1..40 {
            for count in [4, 9, 18, 19, 40] {
                let reach = history.len() + 40 + 4 + literals - 1;
                for (offset, good) in [(reach, true), (reach + 1, false), (0, false)] {
                    let Ok(offset) = u16::try_from(offset) else { continue };
                    let mut written = Written::new(&history, 5);
                    written.lengths(40, 0);
                    // A match comes first, so that the tested one is in the middle of a block.
                    written.block.extend([30, 0]);
                    written.lengths(literals - 1, count - 4);
                    written.truth.extend([0; 4]);
                    written.block.extend(offset.to_le_bytes());
                    written.more(count - 4);
                    let room = written.truth.len() - history.len() + count + 100;
                    let (block, _) = written.end(100);
                    assert_eq!(agree(&block, &history, room), good, "{offset} with {}", history.len());
                }
            }
        }
    }
}

#[test]
fn what_lz4_flex_writes_is_read() {
    let mut dice = Dice(77);
    for round in 0..600 {
        let len = dice.roll(80_000);
        let values = 1 + dice.roll(40);
        let step = 1 + dice.roll(9);
        let bytes: Vec<u8> = (0..len).map(|at| (at / step % 7 + dice.roll(values)) as u8).collect();
        let block = lz4_flex::block::compress(&bytes);
        assert!(agree(&block, &[], len));
        let history = noise(dice.roll(65_536), round);
        let linked = [&history[..], &bytes[..len / 2]].concat();
        let block = lz4_flex::block::compress_with_dict(&linked, &history);
        assert!(agree(&block, &history, linked.len()));
        assert_eq!(ours(&block, &history, linked.len()), Some(linked));
    }
}

#[test]
fn the_broken_and_the_random_are_judged_alike() {
    let mut dice = Dice(8);
    let mut good = 0;
    let mut bad = 0;
    let past = noise(66_000, 4);
    for round in 0..6000 {
        let history = &past[..if round % 3 == 0 { dice.roll(past.len()) } else { 0 }];
        let mut written = Written::new(history, round);
        for _ in 0..dice.roll(25) {
            let offset = if dice.roll(3) == 0 { offset(&mut dice) } else { 1 + dice.roll(300) };
            written.sequence(edge(&mut dice) % 60, offset, 4 + edge(&mut dice) % 60);
        }
        let (block, truth) = written.end(edge(&mut dice) % 90);
        for _ in 0..10 {
            let mut broken = block.clone();
            for _ in 0..1 + dice.roll(3) {
                let at = dice.roll(broken.len());
                match dice.roll(5) {
                    0 => broken[at] ^= 1 << dice.roll(8),
                    1 => broken[at] = dice.roll(256) as u8,
                    2 => broken[at] = [0, 255, 0xf0, 0x0f, 0xff][dice.roll(5)],
                    3 => broken.insert(at, dice.roll(256) as u8),
                    _ => drop(broken.remove(at)),
                }
                if broken.is_empty() {
                    break;
                }
            }
            if dice.roll(4) == 0 {
                broken.truncate(dice.roll(broken.len() + 1));
            }
            let room = (truth.len() + dice.roll(60)).saturating_sub(dice.roll(60));
            if agree(&broken, history, room) { good += 1 } else { bad += 1 }
        }
        let random: Vec<u8> = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
        agree(&random, history, dice.roll(3000));
    }
    assert!(good > 5000 && bad > 20_000, "{good} good, {bad} bad");
}

#[test]
fn a_length_beyond_all_room_is_refused() {
    // Literals and a match that claim 2 GiB each.
    let mut block = vec![0xff];
    block.resize(8_500_000, 255);
    block.push(0);
    assert_eq!(ours(&block, &[], 1000), None);
    let mut block = vec![0x1f, b'a', 1, 0];
    block.resize(8_500_000, 255);
    block.extend([0, 0]);
    assert_eq!(ours(&block, &[], 1000), None);
    assert_eq!(ours(&[0], &[], 0), Some(vec![]));
    assert_eq!(ours(&[], &[], 0), None);
    assert_eq!(decode(&[0x10, b'a'], &mut [0; 4], 5), None, "a start behind the end");
}
