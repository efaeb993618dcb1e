//! Tests of the chain with files built byte by byte.

use proptest::prelude::*;
use seekable::source::MemorySource;

use super::super::header;
use super::*;
use crate::counted::CountedSource;

const HEAD: &[u8] = b"#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n...\n";

fn block(flags: u32, allocated: u64, used: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xd3BLK\0\x30".to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(allocated.to_be_bytes());
    bytes.extend(used.to_be_bytes());
    bytes.extend(used.to_be_bytes());
    bytes.extend([0; 16]);
    bytes.extend(data);
    bytes
}

fn plain(data: &[u8]) -> Vec<u8> {
    block(0, data.len() as u64, data.len() as u64, data)
}

fn index_of(offsets: &[u64]) -> Vec<u8> {
    format!("#ASDF BLOCK INDEX\n%YAML 1.1\n--- {offsets:?}\n...\n").into_bytes()
}

/// Concatenates the parts after a head. Returns the file and the offset of each part.
fn file(parts: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = HEAD.to_vec();
    let starts = parts
        .iter()
        .map(|part| {
            let start = bytes.len() as u64;
            bytes.extend(part);
            start
        })
        .collect();
    (bytes, starts)
}

fn blocks_of(bytes: Vec<u8>) -> Blocks {
    let size = bytes.len() as u64;
    find(&MemorySource(bytes), size, Generation::One, HEAD.len() as u64).unwrap()
}

fn severities(blocks: &Blocks) -> Vec<Severity> {
    blocks.defects.iter().map(|defect| defect.severity).collect()
}

#[test]
fn the_chain_is_followed_and_every_index_is_only_a_hint() {
    let (bytes, starts) = file(&[plain(b"one"), plain(b""), block(0, 10, 4, b"fourxxxxxx")]);
    let right = index_of(&starts);
    assert_eq!(
        blocks_of(bytes.clone()),
        Blocks { offsets: starts.clone(), defects: vec![], distrusted: vec![] }
    );
    let zeros = [&right[..], &[0; 5000]].concat();
    for index in [right.clone(), zeros] {
        assert_eq!(
            blocks_of([&bytes[..], &index].concat()),
            Blocks { offsets: starts.clone(), defects: vec![], distrusted: vec![] }
        );
    }
    let wrong = [
        vec![starts[0]],
        vec![starts[0], starts[1] + 1, starts[2]],
        vec![starts[2], starts[1], starts[0]],
        vec![starts[0], starts[1], starts[2], starts[2] + 60],
        vec![0, 1, 2],
        vec![u64::MAX; 3],
        vec![],
    ];
    for offsets in wrong {
        let found = blocks_of([&bytes[..], &index_of(&offsets)].concat());
        assert_eq!(found.offsets, starts, "{offsets:?}");
        assert_eq!(severities(&found), [Severity::Note], "{offsets:?}");
    }
    for len in 18..right.len() - 5 {
        let found = blocks_of([&bytes[..], &right[..len]].concat());
        assert_eq!((found.offsets, found.defects.len()), (starts.clone(), 1), "{len}");
    }
}

#[test]
fn another_file_behind_the_index_is_noted_and_its_index_not_judged() {
    let (bytes, starts) = file(&[plain(b"one"), plain(b"two")]);
    let first = [&bytes[..], &index_of(&starts)].concat();
    let (second, others) = file(&[plain(b"another, longer"), plain(b"2"), plain(b"3")]);
    for behind in [second.clone(), [&second[..], &index_of(&others)].concat()] {
        let found = blocks_of([&first[..], &behind].concat());
        assert_eq!(found.offsets, starts);
        let defect = &found.defects[0];
        assert_eq!((found.defects.len(), defect.offset), (1, first.len() as u64), "{:?}", found.defects);
        assert!(defect.what.starts_with("another ASDF file begins here"), "{defect:?}");
    }
}

#[test]
fn what_looks_like_an_index_inside_a_block_is_none() {
    let (inner, _) = file(&[plain(b"inner")]);
    let fake = [&inner[..], &index_of(&[1, 2, 3])].concat();
    let (bytes, starts) = file(&[plain(b"one"), plain(&fake)]);
    assert_eq!(blocks_of(bytes), Blocks { offsets: starts, defects: vec![], distrusted: vec![] });
    let (bytes, starts) = file(&[plain(b"one"), block(header::STREAMED, 0, 0, &fake)]);
    assert_eq!(blocks_of(bytes), Blocks { offsets: starts, defects: vec![], distrusted: vec![] });
}

#[test]
fn magic_in_padding_behind_other_bytes_is_stepped_over() {
    for padding in
        [&b"old \xd3BLK      "[..], b"\0\0?\xd3BLK\0\0\0\0\0\0\0\0", b"-\xd3BLK", b"-\xd3BLK\xd3BLK\0"]
    {
        let (bytes, starts) = file(&[padding.to_vec(), plain(b"one"), plain(b"two")]);
        for index in [vec![], index_of(&starts[1..])] {
            let found = blocks_of([&bytes[..], &index].concat());
            assert_eq!(found.offsets, starts[1..], "{}", padding.escape_ascii());
            assert_eq!(severities(&found), [Severity::Note]);
        }
    }
    // Only an index can tell a leftover of a block in the padding from a block.
    let leftover = [&b"-"[..], &block(0, 50, 50, b"old")].concat();
    let (bytes, starts) = file(&[leftover, b"  ".to_vec(), plain(&[7; 99])]);
    let found = blocks_of([&bytes[..], &index_of(&starts[2..])].concat());
    assert_eq!(found.offsets, starts[2..]);
}

#[test]
fn the_first_magic_behind_blanks_is_the_first_block_whatever_follows_it() {
    for padding in [&b""[..], b"     ", &[0; 5000], b"\r\n\0 "] {
        for header in [&b""[..], b"   ", &[0; 8], b"\xff\xff????", b"\xd3BLK\0", &[0xff; 60]] {
            let first = [padding, b"\xd3BLK", header].concat();
            let (bytes, starts) = file(&[first, plain(b"one"), plain(b"two")]);
            let found = blocks_of(bytes.clone());
            let at = starts[0] + padding.len() as u64;
            assert_eq!(found.offsets, [at], "{}", header.escape_ascii());
            assert!(severities(&found).contains(&Severity::Damage), "{:?}", found.defects);
            // An index that lists the damaged block gives the offsets of the others.
            let found = blocks_of([&bytes[..], &index_of(&[at, starts[1], starts[2]])].concat());
            assert_eq!(found.offsets, [at, starts[1], starts[2]], "{}", header.escape_ascii());
            assert!(severities(&found).contains(&Severity::Damage), "{:?}", found.defects);
            // An index without the damaged block contradicts the chain.
            let found = blocks_of([&bytes[..], &index_of(&starts[1..])].concat());
            assert_eq!(found.offsets, starts[1..], "{}", header.escape_ascii());
        }
    }
}

/// Overwrites bytes at offset `at` of block `n` in a file of three blocks. Returns the blocks found, and the
/// true offsets of the blocks.
fn damaged(n: usize, at: usize, damage: &[u8]) -> (Blocks, Vec<u64>) {
    let (mut bytes, starts) = file(&[b"  ".to_vec(), plain(b"one"), plain(b"two"), plain(b"three")]);
    bytes[starts[n + 1] as usize + at..][..damage.len()].copy_from_slice(damage);
    (blocks_of(bytes), starts[1..].to_vec())
}

#[test]
fn flags_that_nobody_knows_are_noted_and_unmake_no_header() {
    for n in [0, 1] {
        for flags in [0x8000_0000_u32, 2, 4, 0xffff_fffe] {
            let (found, starts) = damaged(n, 6, &flags.to_be_bytes());
            assert_eq!(found.offsets, starts, "{flags:#x}");
            assert_eq!(severities(&found), [Severity::Note], "{flags:#x}: {:?}", found.defects);
        }
        // With the stream flag set the block becomes a stream, which its sizes contradict.
        for flags in [1_u32, 0x8000_0001, 0xffff_ffff] {
            let (found, starts) = damaged(n, 6, &flags.to_be_bytes());
            assert_eq!(found.offsets, starts[..=n], "{flags:#x}");
            assert!(severities(&found).contains(&Severity::Damage), "{flags:#x}: {:?}", found.defects);
        }
    }
}

/// Nothing can follow the data of a streamed block, so no index is searched for in these data.
#[test]
fn no_index_is_sought_behind_a_streamed_block() {
    let stream = block(1, 0, 0, &vec![7; 10 << 20]);
    for parts in [vec![stream.clone()], vec![plain(b"one"), stream]] {
        let (bytes, starts) = file(&parts);
        let source = CountedSource::new(bytes);
        let size = source.stat().unwrap().size;
        let found = find(&*source, size, Generation::One, HEAD.len() as u64).unwrap();
        assert_eq!(found.offsets, starts);
        assert!(source.counts().1 < 1 << 20, "{:?}", source.counts());
    }
}

#[test]
fn a_damaged_magic_or_header_size_keeps_the_numbers_without_an_index() {
    let damages: [(usize, &[u8]); 8] = [
        (0, b"\xd4"),
        (0, b"\0"),
        (0, b"    "),
        (0, b"????"),
        (2, b"\xff"),
        (4, b"\x10\0"),
        (4, b"\0\x20"),
        (4, b"\0\x31\x80\0\0\0"),
    ];
    for n in [0, 1] {
        for (at, damage) in damages {
            let (found, starts) = damaged(n, at, damage);
            assert_eq!(found.offsets, starts, "{n} {at}: {:?}", found.defects);
            let bad = |defect: &crate::container::Defect| {
                defect.block == Some(n) && defect.severity == Severity::Damage
            };
            assert!(found.defects.iter().any(bad), "{n} {at}: {:?}", found.defects);
        }
    }
}

#[test]
fn a_damaged_header_is_bridged_by_the_index_and_keeps_the_numbers() {
    let parts = [plain(b"one"), plain(b"two"), plain(b"three"), plain(b"four")];
    let (bytes, starts) = file(&parts);
    for broken in [0, 5, 14, 22] {
        for value in [0xff, 0x00] {
            let mut bytes = bytes.clone();
            bytes[starts[1] as usize + broken] = value;
            let found = blocks_of([&bytes[..], &index_of(&starts)].concat());
            if bytes == file(&parts).0 {
                continue;
            }
            assert_eq!(found.offsets, starts, "byte {broken}");
            assert!(severities(&found).contains(&Severity::Damage), "byte {broken}");
        }
    }
}

/// Bytes are removed from or added to blocks of a file with an unchanged index.
#[test]
fn lost_and_added_bytes_shift_the_blocks_behind_them() {
    let data: Vec<Vec<u8>> = (0..7_u8).map(|n| plain(&vec![n + 1; 100 + 40 * usize::from(n % 2)])).collect();
    let (bytes, starts) = file(&data);
    for lost in [&[0_usize][..], &[3], &[5], &[0, 1], &[2, 4], &[0, 1, 2, 3, 4, 5], &[6]] {
        for by in [-1_i64, -20, 1, 20] {
            let mut bytes = [&bytes[..], &index_of(&starts)].concat();
            for n in lost.iter().rev() {
                let at = starts[*n] as usize + 60;
                match usize::try_from(by) {
                    Ok(by) => drop(bytes.splice(at..at, vec![b'+'; by])),
                    Err(_) => drop(bytes.drain(at..at + by.unsigned_abs() as usize)),
                }
            }
            let found = blocks_of(bytes);
            let shift = |n: usize| by * lost.iter().filter(|lost| **lost < n).count() as i64;
            let expected: Vec<u64> =
                (0..7).map(|n| starts[n].checked_add_signed(shift(n)).unwrap()).collect();
            assert_eq!(found.offsets, expected, "{lost:?} {by}: {:?}", found.defects);
            for n in lost.iter().filter(|n| by < 0 || **n < 6) {
                let bytes = format!("it is {} bytes too {}", by.abs(), if by < 0 { "short" } else { "long" });
                let told = |defect: &crate::container::Defect| {
                    defect.block == Some(*n)
                        && defect.severity == Severity::Damage
                        && defect.what.contains(&bytes)
                };
                assert!(found.defects.iter().any(told), "{lost:?} {by}: {:?}", found.defects);
            }
        }
    }
}

/// One byte of a header or a magic is lost. Only the block with this header is lost.
#[test]
fn a_byte_lost_in_a_header_loses_one_block() {
    let data: Vec<Vec<u8>> = (0..6).map(|n| plain(&[n; 300])).collect();
    let (bytes, starts) = file(&data);
    for at in [0, 2, 5, 8, 17, 21, 29, 37, 50] {
        let mut bytes = [&bytes[..], &index_of(&starts)].concat();
        bytes.remove(starts[2] as usize + at);
        let found = blocks_of(bytes);
        let behind: Vec<u64> = starts[3..].iter().map(|start| start - 1).collect();
        assert_eq!(found.offsets.len(), 6, "{at}: {:?}", found.defects);
        assert_eq!((&found.offsets[..2], &found.offsets[3..]), (&starts[..2], &behind[..]), "{at}");
        assert!(severities(&found).contains(&Severity::Damage), "{at}");
    }
}

/// The blocks have one size. A damaged header must not give its number to the next block.
#[test]
fn a_block_with_another_number_is_not_taken_for_one_that_is_shifted() {
    let data: Vec<Vec<u8>> = (0..6).map(|n| plain(&[n; 30])).collect();
    let (mut bytes, starts) = file(&data);
    bytes.extend(index_of(&starts));
    bytes[starts[2] as usize..][..54].fill(b'?');
    assert_eq!(blocks_of(bytes).offsets, starts);
}

#[test]
fn a_first_or_last_block_with_a_damaged_header_keeps_its_number_by_the_index() {
    let parts = [plain(b"one"), plain(b"two"), plain(b"three")];
    let (bytes, starts) = file(&parts);
    let index = index_of(&starts);
    for lost in [vec![0], vec![2], vec![0, 1], vec![1, 2], vec![0, 2], vec![0, 1, 2]] {
        // Damage to the magic, the header_size, and the whole header.
        for (from, to) in [(0, 1), (1, 4), (4, 6), (0, 54)] {
            let mut bytes = [&bytes[..], &index].concat();
            for n in &lost {
                bytes[starts[*n] as usize..][from..to].fill(b'?');
            }
            let found = blocks_of(bytes);
            assert_eq!(found.offsets, starts, "{lost:?} {from}..{to}: {:?}", found.defects);
            for n in &lost {
                let bad = |defect: &crate::container::Defect| {
                    defect.block == Some(*n) && defect.severity == Severity::Damage
                };
                assert!(found.defects.iter().any(bad), "{lost:?} {from}..{to}: {:?}", found.defects);
            }
        }
    }
}

/// A sector of zeros lies over whole blocks. The next block must not get their number.
#[test]
fn a_block_of_zeros_keeps_its_number_by_the_index() {
    let (bytes, starts) = file(&[plain(b"one"), plain(b"two"), plain(b"three"), plain(b"four")]);
    for (from, to) in [(1, 2), (1, 3), (2, 3)] {
        for fill in [0, b' '] {
            let mut bytes = [&bytes[..], &index_of(&starts)].concat();
            bytes[starts[from] as usize..starts[to] as usize].fill(fill);
            let found = blocks_of(bytes);
            assert_eq!(found.offsets, starts, "{from}..{to}: {:?}", found.defects);
            assert_eq!(severities(&found), vec![Severity::Damage; to - from], "{:?}", found.defects);
        }
    }
}

#[test]
fn a_block_behind_a_break_is_the_next_one_if_no_other_can_lie_before_it() {
    let further = |parts: &[Vec<u8>]| {
        let (bytes, starts) = file(parts);
        let size = bytes.len() as u64;
        let search =
            BlockSearch { size, generation: Generation::One, head_end: HEAD.len() as u64, begun: None };
        let found = search.further(&MemorySource(bytes), starts[0]).unwrap();
        (found.map(|found| (found.at, found.is_next)), starts)
    };
    let one = [7; 500];
    for first in
        [block(0, 500, 500, &one), block(0, 40, 500, &one), block(1, 500, 500, &one), block(0, 500, 9, &one)]
    {
        let (found, starts) = further(&[first.clone(), plain(b"two"), plain(b"three")]);
        assert_eq!(found, Some((starts[1], true)));
        let (found, starts) = further(&[first.clone(), vec![b'?'; 53], plain(b"two")]);
        assert_eq!(found, Some((starts[2], true)));
        let (found, starts) = further(&[first, vec![b'?'; 54], plain(b"two")]);
        assert_eq!(found, Some((starts[2], false)));
    }
    assert_eq!(further(&[block(1, 0, 0, &one), plain(b"two")]).0, None);
    assert_eq!(further(&[plain(&one), HEAD.to_vec(), plain(b"two")]).0, None);
    assert_eq!(further(&[plain(&one), index_of(&[1]), plain(b"two")]).0, None);
    assert_eq!(further(&[plain(&one), vec![b'?'; 99], block(0, 5, 3, b"two")]).0, None);
}

#[test]
fn an_index_that_lists_what_holds_nothing_adds_no_block() {
    let (bytes, starts) = file(&[vec![0; 100], plain(b"one"), plain(b"two")]);
    for more in [vec![HEAD.len() as u64], vec![HEAD.len() as u64 + 7], vec![3], vec![50_000], vec![]] {
        let mut offsets = [&more[..], &starts[1..]].concat();
        let in_front = blocks_of([&bytes[..], &index_of(&offsets)].concat());
        assert_eq!(in_front.offsets, starts[1..], "{more:?}");
        offsets.sort_unstable();
        let in_order = blocks_of([&bytes[..], &index_of(&offsets)].concat());
        assert_eq!(in_order.offsets, starts[1..], "{more:?}");
    }
    // The first of two files in one has no index. The index of the second must not be used.
    let (first, starts) = file(&[plain(b"one")]);
    let (second, mut others) = file(&[plain(b"one"), plain(b"another"), plain(&[7; 200]), plain(b"4")]);
    others.retain(|other| *other <= starts[0] || *other >= first.len() as u64);
    let found = blocks_of([&first[..], &second, &index_of(&others)].concat());
    assert_eq!(found.offsets, starts);
}

#[test]
fn a_first_block_with_a_damaged_size_is_not_taken_for_padding() {
    let (bytes, starts) = file(&[plain(b"one"), plain(b"two")]);
    let damages: [(usize, &[u8]); 6] =
        [(5, b"\x20"), (4, b"\xff\xff"), (14, &[0xff; 8]), (22, &[0x7f; 8]), (21, b"\x02"), (29, b"\x04")];
    for (at, damage) in damages {
        let mut bytes = bytes.clone();
        bytes[starts[0] as usize + at..][..damage.len()].copy_from_slice(damage);
        let found = blocks_of(bytes);
        assert_eq!(found.offsets.first(), starts.first(), "byte {at}: {:?}", found.defects);
        assert!(severities(&found).contains(&Severity::Damage), "byte {at}: {:?}", found.defects);
    }
}

#[test]
fn cut_anywhere_the_blocks_before_the_cut_are_found() {
    let (bytes, starts) = file(&[plain(b"one"), plain(&[7; 100])]);
    for len in HEAD.len()..bytes.len() {
        let found = blocks_of(bytes[..len].to_vec());
        let whole = starts.iter().filter(|start| **start + 4 <= len as u64).count();
        assert_eq!(found.offsets, starts[..whole], "{len}");
        let clean_cut = [HEAD.len() as u64, starts[1]].contains(&(len as u64)) || len < HEAD.len() + 4;
        assert_eq!(found.defects.is_empty(), clean_cut, "{len}: {:?}", found.defects);
    }
}

#[test]
fn what_follows_the_last_block_is_told_but_not_taken() {
    let (bytes, starts) = file(&[plain(b"one")]);
    let (another, _) = file(&[plain(b"of another file")]);
    for (rest, defects) in [
        (vec![0; 5000], vec![]),
        (b"junk".to_vec(), vec![Severity::Note]),
        ([&b"junk"[..], b"\xd3BLK", b" more"].concat(), vec![Severity::Note]),
        ([&b"junk"[..], &plain(b"lost")].concat(), vec![Severity::Damage]),
        ([&another[..], &index_of(&[99])].concat(), vec![Severity::Note, Severity::Note]),
        (b"\xd4BLK\0\x30 and so on".to_vec(), vec![Severity::Damage]),
        (b"\xd3BL".to_vec(), vec![Severity::Damage]),
    ] {
        let found = blocks_of([&bytes[..], &rest].concat());
        assert_eq!(found.offsets, starts);
        assert_eq!(severities(&found), defects, "{}", rest.escape_ascii());
    }
}

#[test]
fn sizes_beyond_the_file_are_damage_not_disaster() {
    for (allocated, used) in
        [(u64::MAX, 3), (u64::MAX, u64::MAX), (i64::MAX as u64, 3), (3, 4), (1 << 40, 1 << 39)]
    {
        let (bytes, starts) = file(&[block(0, allocated, used, b"one")]);
        let found = blocks_of(bytes);
        assert_eq!(found.offsets, starts);
        assert_eq!(found.defects.len(), 1, "{allocated} {used}");
    }
}

#[test]
fn padding_between_blocks_is_allowed_for() {
    for gap in [vec![0; 10], vec![b' '; 70_000]] {
        let (bytes, starts) = file(&[plain(b"one"), gap, plain(b"two")]);
        let found = blocks_of(bytes);
        assert_eq!(found.offsets, [starts[0], starts[2]]);
        assert_eq!(severities(&found), [Severity::Note]);
    }
}

proptest! {
    #[test]
    fn any_sequence_of_blocks_is_found(
        sizes in prop::collection::vec((0usize..3000, 0usize..50), 0..40),
        padding in 0usize..9000,
        indexed: bool,
    ) {
        let mut parts = vec![vec![b' '; padding]];
        parts.extend(sizes.iter().map(|(data, slack)| {
            let bytes = vec![0xd3; data + slack];
            block(0, (data + slack) as u64, *data as u64, &bytes)
        }));
        let (mut bytes, starts) = file(&parts);
        if indexed && !sizes.is_empty() {
            bytes.extend(index_of(&starts[1..]));
        }
        let found = blocks_of(bytes);
        prop_assert_eq!(&found.offsets[..], &starts[1..]);
        prop_assert_eq!(found.defects, vec![]);
    }

    #[test]
    fn no_bytes_make_it_panic_or_run_away(mut noise in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..600) {
        let (mut bytes, _) = file(&[plain(b"one"), plain(b"two")]);
        bytes.extend(index_of(&[35, 92]));
        let at = HEAD.len() + at % (bytes.len() - HEAD.len());
        noise.truncate(bytes.len() - at);
        bytes[at..at + noise.len()].copy_from_slice(&noise);
        let found = blocks_of(bytes.clone());
        prop_assert!(found.offsets.iter().all(|offset| *offset < bytes.len() as u64));
        prop_assert!(found.offsets.is_sorted_by(|a, b| a < b));
    }
}
