//! Decoding that starts again at checkpoints and at blocks, and the contents of the windows.

use super::*;

/// Makes a pass over the whole stream, checks its output, and returns its checkpoints.
fn pass(stream: &Stream, spacing: u64) -> Vec<Checkpoint> {
    let position = Position::block_at(stream.start, 0);
    let mut pass = Pass::new(&stream.stored, position, &[]).unwrap().with_checkpoints(spacing);
    let mut out = Vec::new();
    let mut checkpoints = Vec::new();
    loop {
        let (bytes, stop) = pass.step(&stream.stored);
        out.extend_from_slice(bytes);
        let stop = stop.unwrap();
        checkpoints.extend(pass.take_checkpoint());
        if stop == Stop::End {
            break;
        }
    }
    assert!(out == stream.plain, "{}", stream.name);
    assert!(pass.step(&stream.stored).0.is_empty(), "{}", stream.name);
    checkpoints
}

#[test]
fn decoding_from_every_checkpoint_gives_the_same_bytes() {
    let mut inflate = Inflate::new();
    let mut packer = Packer::new();
    let mut dice = Dice::new(3);
    let mut sparse = 0;
    for stream in streams() {
        let Stream { name, stored, plain, .. } = &stream;
        let checkpoints = pass(&stream, 40_000);
        assert_eq!(checkpoints.first().map(|first| first.position.offset), Some(0), "{name}");
        let gaps = checkpoints.windows(2).map(|two| two[1].position.offset - two[0].position.offset);
        assert!(gaps.into_iter().all(|gap| gap.abs_diff(40_000) <= 258), "{name}");
        for checkpoint in &checkpoints {
            let rest = &plain[checkpoint.position.offset as usize..];
            let mut out = Vec::new();
            packer.pack(&checkpoint.window).unpack(&mut out).unwrap();
            assert!(out == checkpoint.window, "{name}");
            sparse += usize::from(out.iter().filter(|&&byte| byte == 0).count() > WINDOW / 2);
            for len in [rest.len(), dice.below(rest.len() + 1), dice.below(600).min(rest.len())] {
                out.truncate(checkpoint.window.len());
                inflate.decode_from(stored, checkpoint.position, &mut out, len).unwrap();
                assert!(out[checkpoint.window.len()..] == rest[..len], "{name} at {:?}", checkpoint.position);
                out[..checkpoint.window.len()].copy_from_slice(&checkpoint.window);
            }
        }
    }
    assert!(sparse > 20, "windows are sparse: {sparse}");
}

#[test]
fn a_checkpoint_lies_within_a_block_that_never_ends() {
    let stream = streams().into_iter().find(|stream| stream.name == "one dynamic block").unwrap();
    let checkpoints = pass(&stream, 100_000);
    assert!(checkpoints.len() > 5);
    for checkpoint in &checkpoints[1..] {
        let position = checkpoint.position;
        assert_eq!((position.header, position.block, position.last), (0, Block::Dynamic, true));
        assert!(position.bit > position.header);
    }
}

#[test]
fn places_inside_stored_and_fixed_blocks_serve_too() {
    let mut dice = Dice::new(8);
    let mut writer = Writer::default();
    for kind in [BlockKind::Fixed, BlockKind::Stored, BlockKind::Dynamic, BlockKind::Fixed] {
        writer.block(kind, 3000, false, &mut dice);
    }
    writer.stored(&[], true);
    let stored = Bytes::new(writer.bytes);
    let plain = writer.plain;
    let mut kinds = Vec::new();
    let mut inflate = Inflate::new();
    let mut again = Inflate::new();
    let mut out = vec![0; plain.len()];
    let mut filled = 0;
    while filled < plain.len() {
        let room = if inflate.pending() > 0 { inflate.pending() } else { 997 };
        let end = (filled + room).min(plain.len());
        let stop;
        (filled, stop) = inflate.decode(&stored, &mut out[..end], filled);
        stop.unwrap();
        if inflate.pending() > 0 {
            continue;
        }
        let mut window = plain[filled.saturating_sub(WINDOW)..filled].to_vec();
        let start = window.len();
        again.decode_from(&stored, inflate.position(), &mut window, plain.len() - filled).unwrap();
        assert!(window[start..] == plain[filled..], "{:?}", inflate.position());
        kinds.push(inflate.position().block);
    }
    for kind in [Block::Stored, Block::Fixed, Block::Dynamic] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn it_stops_at_blocks_if_asked() {
    let mut dice = Dice::new(11);
    for _ in 0..20 {
        let writer = Writer::random(&mut dice);
        let stored = Bytes::new(writer.bytes.clone());
        let mut inflate = Inflate::new();
        let mut found = vec![0];
        let mut out = vec![0; writer.plain.len()];
        let mut filled = 0;
        loop {
            let stop;
            (filled, stop) = inflate.decode_block(&stored, &mut out, filled);
            match stop.unwrap() {
                Stop::Block => found.push(inflate.position().header),
                stop => break assert_eq!(stop, Stop::End),
            }
        }
        let blocks: Vec<u64> = writer.blocks.iter().map(|&(bit, _)| bit).collect();
        assert_eq!((found, inflate.position().bit), (blocks, writer.end()));
        assert!(out == writer.plain);
    }
}

#[test]
fn a_match_before_the_window_is_broken() {
    let stream = streams().into_iter().find(|stream| stream.name == "one fixed block").unwrap();
    let checkpoint = pass(&stream, 50_000).remove(3);
    let mut out = checkpoint.window[WINDOW - 100..].to_vec();
    let fault =
        Inflate::new().decode_from(&stream.stored, checkpoint.position, &mut out, 50_000).unwrap_err();
    assert!(matches!(fault.why, Cause::Broken(Reason::TooFar)), "{fault}");
}
