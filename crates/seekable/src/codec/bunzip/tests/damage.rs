//! Damaged streams: our decoder and the library agree on them, and ours never gives wrong bytes.

use super::*;

/// Asserts that both decoders judge a stream alike; true if it is valid.
fn judge(stream: &[u8], what: &str) -> bool {
    let (library, right) = by_library(stream);
    let (out, fault) = by_us(stream);
    if let Some(Fault::Unsupported { .. }) = fault {
        assert!(library.starts_with(&out), "{what}");
        return false;
    }
    assert_eq!(fault.is_none(), right, "{what}: {fault:?}");
    if right {
        assert!(out == library, "{what}: other bytes");
    } else {
        // The library gives a block's bytes before it has checked the block's CRC.
        assert!(library.starts_with(&out), "{what}: bytes that the library doesn't give");
    }
    right
}

fn flip(stream: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = stream.to_vec();
    flipped[bit / 8] ^= 0x80 >> (bit % 8);
    flipped
}

#[test]
fn a_stream_cut_anywhere_gives_exactly_what_the_library_gives() {
    let several = Data::Periodic.make(350_000);
    for (stream, step) in [
        (compress(9, &Data::Text.make(600)), 1),
        (compress(5, &Data::Random.make(300)), 1),
        (compress(1, b""), 1),
        (compress(1, &several), 5),
    ] {
        for len in (0..stream.len()).step_by(step) {
            let (library, right) = by_library(&stream[..len]);
            let (out, fault) = by_us(&stream[..len]);
            assert!(out == library, "cut at {len} of {}", stream.len());
            assert!(!right && matches!(fault, Some(Fault::Truncated { .. })), "cut at {len}: {fault:?}");
        }
    }
}

#[test]
fn every_single_bit_of_small_streams() {
    for (data, origin_matters) in [
        (Data::Text.make(300), true),
        (Data::Random.make(90), true),
        (Data::Equal.make(5000), false),
        (Vec::new(), true),
    ] {
        let stream = compress(3, &data);
        for bit in 0..stream.len() * 8 {
            let right = judge(&flip(&stream, bit), &format!("bit {bit} of {}", stream.len() * 8));
            // Only changes of the level, of the padding, and of the origin in equal bytes may go unnoticed.
            let may_change = bit / 8 == 3 || bit / 8 == stream.len() - 1 || !origin_matters;
            assert!(!right || may_change, "bit {bit} was not noticed");
        }
    }
}

#[test]
fn thousands_of_damaged_streams() {
    let mut numbers = Numbers(7);
    let mut right = 0;
    for round in 0..3000 {
        let kind = Data::ALL[round % 5];
        let data = kind.make(1 + numbers.below(if round % 20 == 0 { 130_000 } else { 3000 }));
        let mut stream = compress(1 + numbers.below(9) as u32, &data);
        for _ in 0..1 + numbers.below(3) {
            let bit = numbers.below(stream.len() * 8);
            match numbers.below(4) {
                0..=1 => stream = flip(&stream, bit),
                2 => stream[bit / 8] = numbers.next() as u8,
                _ => {
                    let from = bit / 8;
                    let to = numbers.below(stream.len());
                    let len = 1 + numbers.below((stream.len() - from.max(to)).min(20));
                    stream.copy_within(from..from + len, to);
                }
            }
        }
        right += usize::from(judge(&stream, &format!("round {round}")));
    }
    assert!(right < 300, "{right} were right: nothing was damaged");
}

#[test]
fn noise_behind_a_right_header() {
    let mut numbers = Numbers(11);
    for round in 0..3000 {
        let mut stream = compress(1, &Data::ALL[round % 5].make(400));
        let from = [4, 10, 14, 20, 40][numbers.below(5)].min(stream.len());
        stream.truncate(from);
        stream.extend((0..40).flat_map(|_| numbers.next().to_le_bytes()));
        judge(&stream, &format!("round {round}"));
    }
}
