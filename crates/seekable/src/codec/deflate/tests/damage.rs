//! Streams that are cut off, have flipped bits, or can't be read.

use super::*;

/// Returns a stream of some kilobytes with stored, fixed and dynamic blocks.
fn small(seed: u64) -> Writer {
    let mut dice = Dice::new(seed);
    let mut writer = Writer::default();
    for (kind, symbols) in
        [(BlockKind::Dynamic, 150), (BlockKind::Stored, 90), (BlockKind::Fixed, 60), (BlockKind::Fixed, 0)]
    {
        writer.block(kind, symbols, false, &mut dice);
    }
    writer.block(BlockKind::Dynamic, 100, true, &mut dice);
    writer
}

/// Decodes and compares with zlib-rs: both give equal output up to the damage, and an equal verdict.
fn compare(raw: &[u8], what: &str) {
    let (reference, verdict) = reference(raw);
    let stored = Bytes::new(raw);
    // No flipped bit makes an endless stream, so all output is decoded.
    let (out, stop) = decode(&stored, 0, || 20_000);
    match (&stop, verdict) {
        (Ok(_), Ok(true)) => assert!(out == reference, "{what}"),
        (Err(Fault { why: Cause::Cut, .. }), Ok(false)) => assert!(out == reference, "{what}"),
        (Err(Fault { why: Cause::Broken(_), .. }), Err(())) => {
            let common = out.len().min(reference.len());
            assert!(out[..common] == reference[..common], "{what}");
        }
        _ => panic!("{what}: {stop:?} where zlib-rs says {verdict:?}"),
    }
    if let Err(fault) = stop {
        assert_eq!(fault.offset, out.len() as u64, "{what}");
        assert!(fault.bit <= stored.len() * 8, "{what}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_gives_what_zlib_gives() {
    for seed in 0..4 {
        let raw = small(seed).bytes;
        for cut in 0..raw.len() {
            compare(&raw[..cut], &format!("seed {seed}, cut at {cut}"));
        }
    }
    let raw = &zlib(&image(4000), 6)[2..];
    for cut in 0..raw.len() - 4 {
        compare(&raw[..cut], &format!("image, cut at {cut}"));
    }
}

#[test]
fn flipped_bits_are_judged_as_zlib_judges_them() {
    let mut dice = Dice::new(4);
    let image = zlib(&image(4000), 6).split_off(2);
    let streams = [small(1).bytes, small(2).bytes, small(3).bytes, image];
    for round in 0..6000 {
        let mut raw = streams[round % streams.len()].clone();
        for _ in 0..=dice.below(3) {
            // Half of the flips are in the first block's header, where most rules apply.
            let reach = if dice.below(2) == 0 { raw.len() * 8 } else { 800 };
            let bit = dice.below(reach);
            raw[bit / 8] ^= 1 << (bit % 8);
        }
        compare(&raw, &format!("round {round}"));
    }
}

#[test]
fn noise_is_judged_as_zlib_judges_it() {
    let mut dice = Dice::new(5);
    for round in 0..6000 {
        let mut raw: Vec<u8> = (0..dice.below(400)).map(|_| dice.next() as u8).collect();
        if let Some(first) = raw.first_mut() {
            // The first block has fixed or dynamic codes, so that the noise does not end at once.
            *first = *first & !6 | [2, 4][round % 2];
        }
        compare(&raw, &format!("round {round}"));
    }
}

#[test]
fn decoding_goes_on_when_the_input_grows() {
    let writer = small(9);
    let mut inflate = Inflate::new();
    let mut out = vec![0; writer.plain.len()];
    let mut filled = 0;
    inflate.start(&Bytes::new([]), Position::block_at(0, 0)).unwrap();
    for len in 0..writer.bytes.len() {
        let stop;
        (filled, stop) = inflate.decode(&Bytes::new(&writer.bytes[..len]), &mut out, filled);
        assert!(matches!(stop.unwrap_err().why, Cause::Cut), "{len}");
    }
    let stop;
    (filled, stop) = inflate.decode(&Bytes::new(&writer.bytes[..]), &mut out, filled);
    assert_eq!((stop.unwrap(), filled), (Stop::End, writer.plain.len()));
    assert!(out == writer.plain);
}

#[test]
fn an_unreadable_place_gives_what_comes_before_it_and_then_the_error() {
    let plain = image(60_000);
    let mut stored = Bytes::new(zlib(&plain, 6));
    stored.bad = Some(30_000);
    let (out, stop) = decode(&stored, zlib::FIRST_BIT, || 100_000);
    assert!(out.len() > 30_000 && plain.starts_with(&out));
    let fault = stop.unwrap_err();
    assert!(fault.bit.div_ceil(8) <= 30_000 && fault.bit / 8 + 7 >= 30_000, "{fault}");
    assert_eq!(Error::from(fault).errno(), libc::EIO);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let fault = decode(&Bytes::new([0b110]), 0, || 1).1.unwrap_err();
    assert_eq!(
        Error::from(fault).message(),
        "compressed bit 0, decoded offset 0: the compressed data are broken: a block has the reserved type"
    );
    let mut writer = Writer::default();
    writer.stored(b"abc", false);
    let mut cut = writer.bytes.clone();
    cut.push(0);
    let fault = decode(&Bytes::new(cut), 0, || 9).1.unwrap_err();
    assert_eq!(
        Error::from(fault).message(),
        "compressed bit 64, decoded offset 3: the compressed data are cut off"
    );
}

#[test]
fn no_place_that_a_damaged_table_names_can_do_harm() {
    let mut dice = Dice::new(6);
    let raw = small(1).bytes;
    let image = zlib(&image(4000), 6);
    let mut out = vec![0; 3000];
    for _ in 0..20_000 {
        let bytes = if dice.below(2) == 0 { &raw } else { &image };
        let stored = Bytes::new(&bytes[..]);
        let far = [64, 4000, bytes.len() * 8 + 100, usize::MAX][dice.below(4)];
        let header = dice.below(far) as u64;
        let bit = header.wrapping_add(dice.below(1000) as u64).wrapping_sub(dice.below(20) as u64);
        let offset = dice.next() >> dice.below(64);
        let position = Position { header, bit, offset, block: Block::Fixed, last: true };
        let mut inflate = Inflate::new();
        if inflate.start(&stored, position).is_ok() {
            let window = dice.below(out.len());
            let (filled, _) = inflate.decode(&stored, &mut out, window);
            assert!(filled <= out.len());
        }
    }
}
