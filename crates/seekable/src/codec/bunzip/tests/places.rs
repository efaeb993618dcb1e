//! Decoding at positions where no block begins, and contents that can't be read.

use super::super::{Decoder, Follows, Level};
use super::*;
use crate::content::Content;
use crate::error::{Error, Result};

const BLOCK: u64 = 0x3141_5926_5359;

#[test]
fn planted_magics_are_no_blocks() {
    let stream = compress(9, &Data::Image.make(1_000_000));
    let mut numbers = Numbers(99);
    let mut decoder = Decoder::new();
    for _ in 0..400 {
        let bit = 400 + numbers.below(stream.len() * 8 - 1000);
        let mut planted = stream[bit / 8..].to_vec();
        for k in 0..48 {
            let at = (bit % 8 + k) / 8;
            let mask = 0x80 >> ((bit + k) % 8);
            planted[at] = if BLOCK >> (47 - k) & 1 == 1 { planted[at] | mask } else { planted[at] & !mask };
        }
        let fault = decoder.decode_at(&Text::new(planted), bit as u64 % 8, Level::MAX).unwrap_err();
        assert!(!matches!(fault, Fault::Unread(_)));
        assert_eq!((decoder.bytes_left(), decoder.read(&mut [0; 9])), (0, 0));
    }
}

#[test]
fn a_block_is_the_same_at_every_bit() {
    let data = Data::Text.make(3000);
    let stream = compress(9, &data);
    let mut decoder = Decoder::new();
    let mut out = vec![0; data.len()];
    for shift in 0..70 {
        let mut shifted = vec![0u8; stream.len() + 10];
        for bit in 32..stream.len() * 8 {
            let to = bit - 32 + shift;
            shifted[to / 8] |= (stream[bit / 8] >> (7 - bit % 8) & 1) << (7 - to % 8);
        }
        let block = decoder.decode_at(&Text::new(shifted), shift as u64, Level::MAX).unwrap();
        assert_eq!(block.len, data.len() as u64);
        assert_eq!(block.follows, Follows::Magic(super::super::Magic::EndOfStream));
        assert_eq!(decoder.read(&mut out), data.len());
        assert_eq!(out, data);
    }
}

#[test]
fn a_block_too_large_for_its_level_is_broken() {
    let content = Text::new(compress(2, &Data::Random.make(150_000)));
    let level = Level::from_digit(b'1').unwrap();
    let fault = Decoder::new().decode_at(&content, 32, level).unwrap_err();
    assert!(matches!(fault, Fault::Broken { .. }), "{fault}");
}

/// A content that can't be read from some offset on.
#[derive(Debug)]
struct Unreadable(Text, u64);

impl Content for Unreadable {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.1.saturating_sub(offset) {
            0 => Err(Error::damaged("a bad sector")),
            good => {
                let len = buf.len().min(good as usize);
                self.0.read_at(offset, &mut buf[..len])
            }
        }
    }
}

#[test]
fn bytes_before_an_unreadable_one_come_then_its_own_error() {
    let data = Data::Random.make(250_000);
    let stream = compress(1, &data);
    for good in [0, 3, 4, 9, 50_000, 150_000, 230_000, stream.len() as u64 - 1] {
        let mut walk = StreamReader::new(Arc::new(Unreadable(Text::new(stream.clone()), good)));
        let mut met = None;
        let (out, _) = drain(|out| walk.read(out).map_err(|fault| met = Some(fault)).ok());
        let cut = by_us(&stream[..good as usize]).0;
        assert!(out == cut, "good up to {good}: {} bytes instead of {}", out.len(), cut.len());
        assert!(matches!(&met, Some(Fault::Unread(error)) if error.message() == "a bad sector"), "{met:?}");
        // A further read gives the error again.
        assert!(matches!(walk.read(&mut [0; 10]), Err(Fault::Unread(_))));
    }
}
