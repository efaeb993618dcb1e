//! The search for blocks, and streams put together from pieces.

use super::*;

/// Returns the output of a stream and the checkpoints of its pieces. The pieces begin at blocks found from
/// the bits `cuts` on, and each is decoded without the output before it.
fn two_stages(stream: &Stream, cuts: &[u64], cap: usize) -> (Vec<u8>, Vec<Checkpoint>, Taken) {
    let stored = &stream.stored;
    let mut inflate = Inflate::new();
    let mut finder = BlockFinder::new();
    let mut resolver = Resolver::new();
    let end = stored.len() * 8;
    let mut pieces = Vec::new();
    for (n, &cut) in cuts.iter().enumerate() {
        let until = cuts.get(n + 1).copied().unwrap_or(end);
        if let Some(bit) = finder.find(stored, cut, until).unwrap() {
            let request = PieceRequest { start: Position::block_at(bit, 0), until, cap, spacing: 50_000 };
            let mut piece = Piece::new();
            piece.decode(&mut inflate, stored, request, None);
            if let Ending::Block = piece.ending() {
                assert_eq!(finder.find(stored, until, end).unwrap(), Some(piece.end().bit));
            }
            pieces.push(piece);
        }
    }
    // Old contents and length of the buffer must not matter.
    let mut out = Vec::new();
    let mut bytes = vec![0x55; 50_000];
    let mut window = Vec::new();
    let mut checkpoints = Vec::new();
    let mut taken = Taken::default();
    let mut position = Position::block_at(stream.start, 0);
    let mut known = Piece::new();
    let mut pieces = pieces.iter().peekable();
    loop {
        while pieces.next_if(|piece| piece.start().bit < position.bit).is_some() {
            taken.skipped += 1;
        }
        let piece = match pieces
            .next_if(|piece| piece.start().bit == position.bit && position.block == Block::Between)
        {
            Some(piece) => {
                taken.used += 1;
                taken.with_markers += usize::from(piece.has_markers());
                piece
            }
            None => {
                let until = pieces.peek().map_or(end, |piece| piece.start().bit);
                let request = PieceRequest { start: position, until, cap, spacing: 50_000 };
                known.decode(&mut inflate, stored, request, Some(&window));
                taken.known += 1;
                &known
            }
        };
        resolver.know(&window);
        bytes.resize(piece.len(), 7);
        assert_eq!(resolver.write(piece, 0, &mut bytes), piece.len());
        checkpoints.extend(piece.checkpoints(position.offset, |passed| resolver.window_at(piece, passed)));
        window = resolver.window_at(piece, piece.len()).unwrap();
        out.extend_from_slice(&bytes);
        assert!(window == out[out.len().saturating_sub(WINDOW)..]);
        position = Position { offset: out.len() as u64, ..piece.end() };
        match piece.ending() {
            Ending::End => return (out, checkpoints, taken),
            Ending::Fault(fault) => panic!("{}: {fault}", stream.name),
            Ending::Full => assert!((cap..cap + 258).contains(&piece.len())),
            Ending::Block => {}
        }
    }
}

/// Counts of the pieces that a stream was put together from.
#[derive(Debug, Default)]
struct Taken {
    used: usize,
    skipped: usize,
    known: usize,
    with_markers: usize,
}

#[test]
fn pieces_from_any_cuts_make_the_whole() {
    let mut dice = Dice::new(21);
    let mut inflate = Inflate::new();
    let mut all = Taken::default();
    for stream in streams() {
        for cap in [usize::MAX, 30_000, 100_000] {
            let bits = stream.stored.len() as usize * 8;
            let mut cuts: Vec<u64> = (0..dice.below(9)).map(|_| dice.below(bits) as u64).collect();
            cuts.sort_unstable();
            let (out, checkpoints, taken) = two_stages(&stream, &cuts, cap);
            assert!(out == stream.plain, "{} cut at {cuts:?}", stream.name);
            for checkpoint in checkpoints {
                let mut out = checkpoint.window.clone();
                let rest = &stream.plain[checkpoint.position.offset as usize..];
                let len = rest.len().min(70_000);
                inflate.decode_from(&stream.stored, checkpoint.position, &mut out, len).unwrap();
                assert!(out[checkpoint.window.len()..] == rest[..len], "{}", stream.name);
            }
            all.used += taken.used;
            all.known += taken.known;
            all.with_markers += taken.with_markers;
        }
    }
    assert!(all.used > 100 && all.with_markers > 100 && all.known > 100, "{all:?}");
}

#[test]
fn output_without_markers_goes_on_in_bytes() {
    let mut dice = Dice::new(22);
    let mut writer = Writer::default();
    writer.block(BlockKind::Dynamic, 2000, false, &mut dice);
    for _ in 0..3 {
        writer.block(BlockKind::Stored, 60_000, false, &mut dice);
    }
    writer.block(BlockKind::Fixed, 5000, true, &mut dice);
    let stored = Bytes::new(writer.bytes);
    let start = Position::block_at(writer.blocks[1].0, 0);
    let mut piece = Piece::new();
    let request = PieceRequest { start, until: u64::MAX, cap: usize::MAX, spacing: 0 };
    piece.decode(&mut Inflate::new(), &stored, request, None);
    assert!(matches!(piece.ending(), Ending::End));
    assert!(!piece.has_markers());
    let out = resolved(&mut Resolver::new(), &piece, &[0; WINDOW]);
    assert!(writer.plain.ends_with(&out) && out.len() > 180_000 && out.len() == piece.len());
    assert!(piece.checkpoints(0, |_| panic!("there are none")).is_empty());
}

#[test]
fn the_finder_finds_each_block_and_what_looks_like_one() {
    let mut dice = Dice::new(23);
    let mut writer = Writer::default();
    let mut other = Writer::default();
    other.block(BlockKind::Dynamic, 10, false, &mut dice);
    for _ in 0..4 {
        writer.block(BlockKind::Dynamic, 400, false, &mut dice);
        // The stored bytes look like a dynamic block: only decoding up to them shows that no block begins
        // there.
        writer.stored(&other.bytes, false);
        writer.block(BlockKind::Fixed, 30, false, &mut dice);
    }
    writer.block(BlockKind::Dynamic, 400, true, &mut dice);
    let mut stored = Bytes::new(writer.bytes.clone());
    for sip in [usize::MAX, 1] {
        stored.sip = sip;
        let mut finder = BlockFinder::new();
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(bit) = finder.find(&stored, from, stored.len() * 8).unwrap() {
            found.push(bit);
            from = bit + 1;
        }
        let simple = (0..stored.bytes.len() * 8).filter(|&bit| header::is_plausible(&stored.bytes, bit));
        assert_eq!(found, simple.map(|bit| bit as u64).collect::<Vec<_>>());
        assert!(writer.blocks.iter().all(|(bit, plain)| found.contains(bit) == *plain));
        assert_eq!(found.len(), 8);
        assert_eq!(finder.find(&stored, found[2] + 1, found[3]).unwrap(), None);
    }
}

#[test]
fn planted_blocks_are_not_believed() {
    let mut dice = Dice::new(24);
    let mut other = Writer::default();
    other.block(BlockKind::Dynamic, 3000, false, &mut dice);
    let mut writer = Writer::default();
    let mut cuts = Vec::new();
    for _ in 0..6 {
        writer.block(BlockKind::Dynamic, 3000, false, &mut dice);
        cuts.push(writer.end() + 8);
        writer.stored(&other.bytes, false);
    }
    writer.block(BlockKind::Dynamic, 3000, true, &mut dice);
    let stream =
        Stream { name: "planted".into(), stored: Bytes::new(writer.bytes), start: 0, plain: writer.plain };
    let (out, _, taken) = two_stages(&stream, &cuts, usize::MAX);
    assert!(out == stream.plain);
    assert!(taken.skipped >= 5, "{taken:?}");
}

#[test]
fn a_marker_before_the_stream_is_an_error() {
    let mut dice = Dice::new(25);
    let mut writer = Writer::default();
    writer.block(BlockKind::Fixed, 500, false, &mut dice);
    let before = writer.plain.len();
    writer.block(BlockKind::Dynamic, 3000, true, &mut dice);
    let stored = Bytes::new(writer.bytes);
    let mut piece = Piece::new();
    let start = Position::block_at(writer.blocks[1].0, 0);
    piece.decode(
        &mut Inflate::new(),
        &stored,
        PieceRequest { start, until: u64::MAX, cap: usize::MAX, spacing: 0 },
        None,
    );
    let mut resolver = Resolver::new();
    let window = &writer.plain[..before];
    let out = resolved(&mut resolver, &piece, window);
    assert!(out == writer.plain[before..] && resolver.is_whole(&piece));
    for len in [0, 1, before / 2] {
        let out = resolved(&mut resolver, &piece, &window[before - len..]);
        assert!(writer.plain[before..].starts_with(&out) && out.len() < piece.len());
        assert!(!resolver.is_whole(&piece) && resolver.window_at(&piece, out.len() + 1).is_none());
        let known = [&window[before - len..], &out].concat();
        let known = &known[known.len().saturating_sub(WINDOW)..];
        assert!(resolver.window_at(&piece, out.len()).unwrap() == known);
    }
}

#[test]
fn a_piece_is_given_in_parts_of_any_length() {
    let mut dice = Dice::new(25);
    let mut writer = Writer::default();
    writer.block(BlockKind::Fixed, 40_000, false, &mut dice);
    let before = writer.plain.len();
    writer.block(BlockKind::Dynamic, 30_000, false, &mut dice);
    for _ in 0..3 {
        writer.block(BlockKind::Stored, 60_000, false, &mut dice);
    }
    writer.block(BlockKind::Fixed, 5000, true, &mut dice);
    let stored = Bytes::new(writer.bytes);
    let mut piece = Piece::new();
    let start = Position::block_at(writer.blocks[1].0, 0);
    let request = PieceRequest { start, until: u64::MAX, cap: usize::MAX, spacing: 0 };
    piece.decode(&mut Inflate::new(), &stored, request, None);
    // One part has markers, the other has none.
    assert!(piece.has_markers() && !piece.bytes().is_empty());
    let mut resolver = Resolver::new();
    resolver.know(&writer.plain[..before]);
    let truth = &writer.plain[before..];
    for _ in 0..50 {
        let most = 1 + dice.below(100_000);
        let mut buf = vec![0; most];
        let mut at = 0;
        while at < truth.len() {
            let room = 1 + dice.below(most);
            let written = resolver.write(&piece, at, &mut buf[..room]);
            assert!(written == room.min(truth.len() - at) && buf[..written] == truth[at..at + written]);
            at += written;
        }
        let passed = dice.below(truth.len() + 1);
        let end = before + passed;
        assert!(resolver.window_at(&piece, passed).unwrap() == writer.plain[end.saturating_sub(WINDOW)..end]);
    }
    for from in [truth.len(), truth.len() + 1, usize::MAX] {
        assert_eq!(resolver.write(&piece, from, &mut [0; 10]), 0);
    }
}

#[test]
fn what_a_buffer_held_before_shows_nowhere() {
    let mut dice = Dice::new(26);
    let mut writer = Writer::default();
    writer.block(BlockKind::Fixed, 500, false, &mut dice);
    let before = writer.plain.len();
    writer.block(BlockKind::Dynamic, 3000, false, &mut dice);
    writer.block(BlockKind::Stored, 60_000, false, &mut dice);
    writer.block(BlockKind::Stored, 60_000, false, &mut dice);
    writer.block(BlockKind::Fixed, 5000, true, &mut dice);
    let stored = Bytes::new(writer.bytes);
    let mut piece = Piece::new();
    let start = Position::block_at(writer.blocks[1].0, 0);
    let request = PieceRequest { start, until: u64::MAX, cap: usize::MAX, spacing: 0 };
    piece.decode(&mut Inflate::new(), &stored, request, None);
    assert!(piece.has_markers());
    let (window, plain) = writer.plain.split_at(before);
    let mut resolver = Resolver::new();
    for round in 0..200 {
        let room = [0, dice.below(plain.len()), plain.len(), plain.len() + dice.below(99_999)][round % 4];
        let mut out = vec![round as u8; room];
        // A piece that reaches too far, and one that does not, with one table.
        let known = [before, dice.below(before), 0][round % 3];
        resolver.know(&window[before - known..]);
        let written = resolver.write(&piece, 0, &mut out);
        let most = resolved(&mut Resolver::new(), &piece, &window[before - known..]).len();
        assert_eq!((written, resolver.is_whole(&piece)), (most.min(room), most == plain.len()));
        assert!(known < before || most == plain.len());
        assert!(out[..written] == plain[..written] && out[written..].iter().all(|&byte| byte == round as u8));
    }
}
