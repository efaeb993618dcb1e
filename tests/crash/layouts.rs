//! Files of every kind can be saved, or are refused with a reason and left alone.

use asdf_mount::Kind;
use asdf_mount::edit::{Indexed, Plan, SaveOptions};

use crate::files::{block, index, text};
use crate::sim::{Abilities, Disk, Sim};
use crate::simulated::{open, source};

fn disk(parts: &[&[u8]]) -> Sim {
    Disk::with(source(), &parts.concat(), Abilities::default()).mount()
}

fn bytes(sim: &Sim) -> Vec<u8> {
    sim.disk().bytes(source()).unwrap()
}

/// Saves `text`, and says what became of the index.
fn save(sim: &Sim, text: &[u8]) -> asdf_mount::Result<Indexed> {
    let saved = open(sim)?.save(text, &SaveOptions { padding: Some(0), only: None })?;
    assert_eq!(open(sim)?.layout().head_end, text.len() as u64);
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
    for foreign in [&b"junk"[..], &other_file, &[index(&[300]), b"\0\0junk".to_vec()].concat()] {
        for len in [200, 300, 400] {
            let sim = disk(&[&head, &data, foreign]);
            assert_eq!(save(&sim, &text('b', len)).unwrap(), Indexed::Foreign);
            assert!(bytes(&sim).ends_with(&[&data, foreign].concat()));
        }
    }
    // The same without blocks, behind some padding.
    let sim = disk(&[&head, b"  \0\0", b"junk"]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::None);
    assert!(bytes(&sim).ends_with(b" junk"));
    // A last block that is cut off: nobody knows where an index would go.
    let sim = disk(&[&head, &data, &block(&[7; 100], 100, 0)[..80]]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::Damaged);
    assert!(bytes(&sim).ends_with(&block(&[7; 100], 100, 0)[..80]));
}

#[test]
fn a_streamed_block_is_never_moved_but_the_padding_can_be_used() {
    let stream = block(&[7; 500], 500, 1);
    let sim = disk(&[&text('a', 300), &[0; 100], &stream]);
    assert_eq!(save(&sim, &text('b', 400)).unwrap(), Indexed::None);
    let before = bytes(&sim);
    assert_eq!(before, [text('b', 400), stream].concat());
    let error = save(&sim, &text('c', 401)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::TooLarge, libc::EFBIG));
    assert!(error.message().contains("streamed"), "{error}");
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
        assert_eq!(saved.plan, Some(Plan::Copy));
        let first = open(&sim).unwrap().layout().kept_from as usize;
        assert!((len + least..len + least + 4096).contains(&first));
        assert_eq!((saved.grew_by % 4096, first), (0, 300 + saved.grew_by as usize));
    }
}
