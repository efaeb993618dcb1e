//! Files of every layout can be saved, or are refused with a reason and left unchanged.

use asdf_access::Kind;
use asdf_file::edit::{Indexed, SaveOptions, SavePlan};

use crate::cases::{open, source};
use crate::files::{MARKER, block, index, text};
use common::sim::{Abilities, Disk, Sim};

fn disk(parts: &[&[u8]]) -> Sim {
    Disk::with(source(), &parts.concat(), Abilities::default()).mount()
}

fn bytes(sim: &Sim) -> Vec<u8> {
    sim.disk().bytes(source()).unwrap()
}

/// Saves `text`, and returns the outcome for the index.
fn save(sim: &Sim, text: &[u8]) -> asdf_access::Result<Indexed> {
    let saved = open(sim)?.save(text, &SaveOptions { padding: Some(0), only: None })?;
    assert_eq!(open(sim)?.layout().unwrap().head.len, text.len() as u64);
    Ok(saved.indexed)
}

#[test]
fn heads_of_every_kind_are_saved() {
    let data = block(b"data", 4, 0);
    for head in [
        &b"#ASDF 1.0.0\n"[..],
        b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n",
        b"#ASDF 1.0.0\r\n%YAML 1.1\r\n---\r\na: 1\r\n...\r\n",
        b"#ASDF 1.0.0\n# a comment\n%YAML 1.1\n--- {}\n...\n",
        b"#ASDF 1.0.0\n--- {a: \"\xc3\xa9\"}\n...\n",
    ] {
        for others in [&b"#ASDF 1.0.0\n"[..], b"#ASDF 1.0.0\r\n# longer\r\n--- {a: [1, 2]}\r\n...\r\n"] {
            if head == others {
                continue;
            }
            let sim = disk(&[head, &data]);
            save(&sim, others).unwrap();
            let room = bytes(&sim).windows(4).position(|bytes| bytes == b"\xd3BLK").unwrap();
            assert_eq!(room % 4096, head.len() % 4096);
            let padding = vec![b' '; room - others.len()];
            assert_eq!(bytes(&sim), [others, &padding, &data, &index(&[room])].concat());
            let sim = disk(&[head]);
            assert_eq!(save(&sim, others).unwrap(), Indexed::None);
            assert_eq!(bytes(&sim), others);
        }
    }
}

#[test]
fn older_layouts_are_saved() {
    let mut short = b"\xd3BLK\0\x28\0\0\0\0\0\0\0\0".to_vec();
    for _ in 0..3 {
        short.extend(3_u64.to_be_bytes());
    }
    short.extend([0; 8]);
    short.extend(b"abc");
    let mut draft = b"\x89BLK\0\x2c\0\0\0\0".to_vec();
    for _ in 0..2 {
        draft.extend(3_u64.to_be_bytes());
    }
    draft.extend([0; 24]);
    draft.extend(b"abc");
    for (line, block, indexed) in
        [("#ASDF 0.1.0\n", short, Indexed::Written), ("%ASDF 0.1.0\n", draft, Indexed::None)]
    {
        let sim = disk(&[line.as_bytes(), b"--- {}\n...\n", &block]);
        let new = format!("{line}--- {{a: 1}}\n...\n");
        assert_eq!(save(&sim, new.as_bytes()).unwrap(), indexed);
        let at = line.len() + 11 + 4096;
        let tail = if indexed == Indexed::Written { index(&[at]) } else { Vec::new() };
        assert_eq!(bytes(&sim)[at..], [&block[..], &tail].concat());
    }
}

#[test]
fn what_is_not_ours_is_not_destroyed() {
    let head = text('a', 300);
    let data = block(b"data", 4, 0);
    let other_file = [&b"#ASDF 1.0.0\n--- {}\n...\n"[..], &block(b"x", 1, 0)].concat();
    for (foreign, longest) in
        [(&b"junk"[..], 400), (&other_file, 400), (&[index(&[300]), b"\0\0junk".to_vec()].concat(), 300)]
    {
        for len in [200, 300, 400].into_iter().filter(|len| *len <= longest) {
            let sim = disk(&[&head, &data, foreign]);
            assert_eq!(save(&sim, &text('b', len)).unwrap(), Indexed::Unknown);
            assert!(bytes(&sim).ends_with(&[&data, foreign].concat()));
        }
    }
    // A file without blocks, after some padding.
    let sim = disk(&[&head, b"  \0\0", b"junk"]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::None);
    assert!(bytes(&sim).ends_with(b" junk"));
    // The last block is truncated, so the position of an index is unknown.
    let sim = disk(&[&head, &data, &block(&[7; 100], 100, 0)[..80]]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::Damaged);
    assert!(bytes(&sim).ends_with(&block(&[7; 100], 100, 0)[..80]));
}

#[test]
fn what_may_be_a_damaged_first_block_is_not_overwritten() {
    let whole = block(b"the first", 9, 0);
    let head = text('a', 300);
    for (at, damage) in
        [(4, &b"\0\0"[..]), (4, b"\xff\xff"), (6, b"\xff\xff\xff\xff"), (14, &[0xff; 24]), (0, b"????")]
    {
        let mut first = whole.clone();
        first[at..at + damage.len()].copy_from_slice(damage);
        let blocks = [&first[..], &block(b"the second", 10, 0)].concat();
        for padding in [&b""[..], b"   \0\0", b"  junk"] {
            if damage == b"????" && padding == b"  junk" {
                // No detectable trace of the damage remains.
                continue;
            }
            let sim = disk(&[&head, padding, &blocks]);
            for len in [250, 303, 900, 6000, 400] {
                let before = bytes(&sim);
                if let Err(error) = save(&sim, &text('b', len)) {
                    // The block may be streamed, and a streamed block must not move.
                    assert_eq!((error.kind(), at), (Kind::TooLarge, 6), "{error}");
                }
                let now = bytes(&sim);
                let is_there = now.windows(blocks.len()).any(|bytes| bytes == blocks);
                assert!(is_there, "{at} {len}: {} -> {}", before.escape_ascii(), now.escape_ascii());
            }
        }
    }
}

/// The bytes after two blocks, as a function of the offsets of the blocks.
type Tail = dyn Fn(&[usize]) -> Vec<u8>;

/// Saves a text that fits and one that does not; the file's bytes after the second block must equal those of
/// `before` and `after`.
fn assert_tails(second: &[u8], before: &Tail, after: &Tail) {
    let (head, first) = (text('a', 300), block(b"data", 4, 0));
    let parts = |at: usize, tail: &Tail| [&first, second, &tail(&[at, at + first.len()])].concat();
    let sim = disk(&[&head, &parts(300, before)]);
    save(&sim, &text('b', 250)).unwrap();
    let kept = bytes(&sim)[300..] == parts(300, before);
    assert!(kept, "nothing moves: {}", String::from_utf8_lossy(&before(&[300, 358])));
    for (n, len) in [(1, 400), (2, 5000)] {
        let mut target = open(&sim).unwrap();
        let options = SaveOptions { padding: Some(0), only: None };
        for again in ['c', 'd'] {
            target.save(&text(again, len), &options).unwrap();
            let at = target.layout().unwrap().kept_from as usize;
            assert_eq!(at, 300 + 4096 * n);
            let now = bytes(&sim);
            let tail = &now[at + first.len()..];
            assert!(now[at..] == parts(at, after), "moved {n}: {}", String::from_utf8_lossy(tail));
            assert_eq!(
                *target.layout().unwrap(),
                *open(&sim).unwrap().layout().unwrap(),
                "what is known is what is read"
            );
        }
    }
}

#[test]
fn an_index_among_bytes_that_are_not_ours_is_made_anew() {
    let second = block(b"more data", 9, 0);
    let around = |before: &'static [u8], after: &'static [u8]| {
        move |at: &[usize]| [before, &index(at), after].concat()
    };
    let flow = |at: &[usize]| format!("#ASDF BLOCK INDEX\n--- {at:?}\n...\n").into_bytes();
    for (junk, behind) in [
        (&b""[..], &b"junk"[..]),
        (b"junk", b""),
        (b"junk\n", b"\0\0 more\n"),
        (b"", b"#ASDF 1.0.0\n--- {}\n...\n\xd3BLK\0#ASDF BLOCK INDEX\n--- [300]\n...\n"),
        (b"says #ASDF 1.0.0 but is no file\n", b""),
    ] {
        let right = around(junk, behind);
        assert_tails(&second, &right, &right);
        // A flow-style index, a stale one, one that is not a list, several: one correct index remains.
        assert_tails(&second, &move |at| [junk, &flow(at), behind].concat(), &right);
        assert_tails(&second, &move |_| [junk, &index(&[300, 310]), behind].concat(), &right);
        assert_tails(&second, &move |_| [junk, MARKER, b"\n--- what\n...\n", behind].concat(), &right);
        assert_tails(&second, &move |at| [junk, &flow(at), &index(&[7]), behind].concat(), &right);
    }
    let broken = move |at: &[usize]| [MARKER, b"\n\xffjunk", &index(at), b"junk"].concat();
    assert_tails(&second, &broken, &broken);
    let two = |at: &[usize]| [&b"junk"[..], &index(at), b"junk", &index(at)].concat();
    assert_tails(&second, &two, &|at| [&b"junkjunk"[..], &index(at)].concat());
    // The tail is longer than a search step, with the marker at any position.
    for len in [(256 << 10) - 5, (17 << 20) - 5] {
        let right = move |at: &[usize]| [&vec![b'?'; len][..], &index(at), b"junk"].concat();
        assert_tails(&second, &right, &right);
    }
}

#[test]
fn an_index_that_knows_more_than_damaged_headers_say_moves_with_the_blocks() {
    let mut cut = block(&[7; 100], 1000, 0);
    cut.truncate(54 + 100);
    let mut no_magic = block(b"more data", 9, 0);
    no_magic[..4].fill(b'?');
    let mut no_size = block(b"more data", 9, 0);
    no_size[14..22].fill(0x7f);
    for damaged in [&cut[..], &no_magic, &no_size] {
        for junk in [&b""[..], b"junk"] {
            let known = move |at: &[usize]| [&index(at)[..], junk].concat();
            assert_tails(damaged, &known, &known);
        }
        // There may be a third block that can't be found by its header.
        let third = |at: &[usize]| [&b"????"[..], &index(&[at[0], at[1], at[1] + 63, at[1] + 70])].concat();
        assert_tails(damaged, &third, &third);
    }
}

#[test]
fn more_behind_an_index_than_can_be_moved_is_refused_and_said() {
    let (head, data) = (text('a', 300), block(b"data", 4, 0));
    let sim = disk(&[&head, &data, &index(&[300]), &vec![b'?'; 64 << 20]]);
    save(&sim, &text('b', 290)).unwrap();
    let error = save(&sim, &text('b', 400)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::TooLarge, libc::EFBIG));
    assert!(error.message().contains("truncate -s 358 keeps all blocks"), "{error}");
}

#[test]
fn a_streamed_block_is_not_moved_without_leases_but_the_padding_can_be_used() {
    let stream = block(&[7; 500], 500, 1);
    let sim = disk(&[&text('a', 300), &[0; 100], &stream]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::None);
    let before = bytes(&sim);
    assert_eq!(before, [text('b', 400), stream].concat());
    let error = save(&sim, &text('c', 401)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::TooLarge, libc::EFBIG));
    assert!(error.message().contains("can't be found out on this file system"), "{error}");
    assert_eq!(bytes(&sim), before);
}

#[test]
fn a_text_that_no_reader_would_find_is_refused() {
    let data = block(b"data", 4, 0);
    let sim = disk(&[&text('a', 300), &data]);
    let before = bytes(&sim);
    for text in [
        &b""[..],
        b"a: 1\n",
        b"#ASDF 1.0.0\n--- {}\n",
        b"#ASDF 1.0.0\n--- {}\n...",
        b"#ASDF 1.0.0\n--- {}\n...\n--- {}\n...\n",
        b"#ASDF 1.0.0\n--- \xd3BLK\n...\n",
        b"#ASDF 1.0.0\n--- \0\n...\n",
        b"#ASDF 0.1.0\n--- {}\n...\n",
        b"#ASDF 1.0.0",
    ] {
        let error = save(&sim, text).unwrap_err();
        assert_eq!(error.errno(), libc::EINVAL, "{}", text.escape_ascii());
        assert_eq!(bytes(&sim), before);
    }
    let options = SaveOptions { padding: Some(u64::MAX), only: None };
    let error = open(&sim).unwrap().save(&text('b', 400), &options).unwrap_err();
    assert_eq!(error.errno(), libc::EFBIG);
}

#[test]
fn padding_is_a_tenth_of_the_tree_and_at_least_a_page() {
    let data = block(b"data", 4, 0);
    for (len, least) in [(400, 4096), (200_000, 20_000)] {
        let sim = disk(&[&text('a', 300), &data]);
        let saved = open(&sim).unwrap().save(&text('b', len), &SaveOptions::default()).unwrap();
        assert_eq!(saved.plan, Some(SavePlan::Copy));
        let first = open(&sim).unwrap().layout().unwrap().kept_from as usize;
        assert!((len + least..len + least + 4096).contains(&first));
        assert_eq!((saved.grew_by % 4096, first), (0, 300 + saved.grew_by as usize));
    }
}
