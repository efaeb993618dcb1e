//! Reading, stat and listing while saves move the blocks: every byte is always right.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::place::{Ended, Place, file, write};
use common::asdf::{AsdfBuilder, Block, sample};
use common::dice::Dice;
use common::encode::Encoding;
use common::mount::Mounted;

/// Minimum number of reads per reader.
const READS: usize = 400;
/// Minimum duration of the reads and saves.
const MIN_TIME: Duration = Duration::from_secs(2);

/// Returns blocks for each way of reading: small and large, uncompressed, in chunks and in streams.
fn blocks() -> AsdfBuilder {
    let codecs = [Encoding::Zlib, Encoding::Bzip2(2), Encoding::Lz4(4096), Encoding::Zstd, Encoding::Blosc];
    let mut blocks = vec![Block::new(sample(5000, 1)), Block::new(sample(3 << 20, 2))];
    for (n, codec) in codecs.into_iter().enumerate() {
        blocks.push(Block::new(sample(600_000, 3 + n as u32)).encoding(codec));
    }
    file(blocks)
}

/// A step that a reader repeats.
type Reading<'a> = Box<dyn FnMut(&mut Dice) + Send + 'a>;

fn below(dice: &mut Dice, end: usize) -> usize {
    dice.below(end as u64) as usize
}

/// Returns a range of a block, in its middle or at its ends.
fn range(dice: &mut Dice, len: usize) -> (usize, usize) {
    let at = below(dice, len);
    (at, 1 + below(dice, (len - at).min(200_000)))
}

fn readings<'a>(place: &'a Place, mount: &'a Mounted) -> Vec<Reading<'a>> {
    let blocks = &place.built.blocks;
    let paths: Vec<_> = (0..blocks.len()).map(|n| mount.block_path(n)).collect();
    let held: Vec<File> = paths.iter().map(|path| File::open(path).unwrap()).collect();
    let whole = paths.clone();
    let mapped = paths.clone();
    let asked = paths.clone();
    vec![
        // Handles that stay open.
        Box::new(move |dice| {
            let n = below(dice, held.len());
            let (at, len) = range(dice, blocks[n].data.len());
            let mut bytes = vec![0; len];
            held[n].read_exact_at(&mut bytes, at as u64).unwrap();
            assert!(bytes == blocks[n].data[at..at + len], "block {n} at {at}, {len} bytes");
        }),
        // Handles opened for each read.
        Box::new(move |dice| {
            let n = below(dice, whole.len());
            let file = File::open(&whole[n]).unwrap_or_else(|error| panic!("block {n}: {error}"));
            let (at, len) = range(dice, blocks[n].data.len());
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, at as u64).unwrap();
            assert!(bytes == blocks[n].data[at..at + len], "block {n} at {at}, {len} bytes");
        }),
        // Maps.
        Box::new(move |dice| {
            let n = below(dice, mapped.len());
            let file = File::open(&mapped[n]).unwrap();
            // SAFETY: the test asserts that a block never changes or shrinks.
            let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
            let (at, len) = range(dice, blocks[n].data.len());
            assert!(map[at..at + len] == blocks[n].data[at..at + len], "block {n} mapped at {at}");
        }),
        // stat, listing and attributes.
        Box::new(move |dice| {
            let n = below(dice, asked.len());
            assert_eq!(fs::metadata(&asked[n]).unwrap().len(), blocks[n].data.len() as u64);
            assert_eq!(mount.block_count(), blocks.len());
            let of = |name: &str| mount.attribute(format!("blocks/{n}.bin"), name).unwrap();
            assert_eq!(of("user.asdf.used_size"), blocks[n].used_size.to_string());
            let table = fs::read_to_string(mount.path(".asdf-mount/blocks.yaml")).unwrap();
            for (n, block) in blocks.iter().enumerate() {
                let row = table.split("- {block: ").nth(n + 1).unwrap();
                assert!(row.contains(&format!("data_size: {},", block.data_size)), "{row}");
                assert!(row.contains("readable: true"), "{row}");
            }
            if below(dice, 4) == 0 {
                let checked = mount.attribute(format!("blocks/{n}.bin"), "user.asdf.verified");
                assert_eq!(checked.unwrap(), "stored", "block {n}");
            }
        }),
    ]
}

/// Reads in every way while the tree repeatedly grows.
fn reads_rightly(kind: &str, linked: bool) {
    let place = Place::with(kind, &blocks());
    if linked {
        fs::hard_link(&place.source, place.disk.path().join("other name")).unwrap();
    }
    let mount = place.mount();
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut saves = 0;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = readings(&place, &mount)
            .into_iter()
            .enumerate()
            .map(|(n, mut reading)| {
                let (done, reads) = (&done, &reads);
                scope.spawn(move || {
                    let (mut dice, mut own) = (Dice(77 + n as u64), 0);
                    while !done.load(Ordering::Relaxed) || own < READS / 4 {
                        reading(&mut dice);
                        own += 1;
                    }
                    reads.fetch_add(own, Ordering::Relaxed);
                })
            })
            .collect();
        let _ended = Ended(&done);
        let ended = || readers.iter().any(std::thread::ScopedJoinHandle::is_finished);
        while !ended() && (began.elapsed() < MIN_TIME || saves < 8) {
            saves += 1;
            // The text exceeds the padding of the last save; then it shrinks, so that the file does not grow
            // without bound.
            let text = place.named(&"longer ".repeat(1500 * saves));
            write(&mount, &text).unwrap_or_else(|error| panic!("{kind}: {error}: {}", place.log()));
            assert_eq!(place.saved(), text);
        }
    });
    println!("{kind}, {linked}: {saves} saves, {} reads", reads.load(Ordering::Relaxed));
    place.holds(&place.saved());
    let log = place.log();
    assert!(!log.contains("damaged") && !log.contains("panicked"), "{log}");
    let status = fs::read_to_string(mount.path(".asdf-mount/status.yaml")).unwrap();
    assert!(!status.contains("severity"), "{status}");
    assert!(!place.log().contains(" WARN "), "{}", place.log());
    assert!(Path::new(&place.source).exists());
}

#[test]
fn while_ranges_are_inserted_on_ext4() {
    reads_rightly("ext4", false);
}

#[test]
fn while_ranges_are_inserted_on_xfs() {
    reads_rightly("xfs", true);
}

#[test]
fn while_the_file_is_written_anew_through_a_copy() {
    reads_rightly("tmpfs", true);
}

#[test]
fn while_new_files_take_its_place() {
    reads_rightly("btrfs", false);
    reads_rightly("tmpfs", false);
}
