//! The daemon's memory does not grow with the size of a block or the number of its readers.

use std::fs::File;

use crate::large::{self, Kind, PATTERN};
use common::mount::{Mounted, Sources, fresh_folder};

/// Number of patterns in 100 GB of uncompressed data.
const COUNT: u64 = 100_000_000_000 / PATTERN as u64;

/// Memory that the daemon may use besides the cache.
const BESIDE: u64 = 64 << 20;

/// Returns the daemon's peak memory.
fn peak(mounted: &Mounted) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", mounted.daemon().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Runs 64 readers at offsets all over the first `reach` bytes; returns the daemon's peak memory.
fn pressure(kind: Kind, cache: u64, reach: u64) -> u64 {
    let folder = fresh_folder();
    let source = large::file(folder.path(), kind, COUNT);
    let mounted =
        super::SOURCES.mount(["-o".as_ref(), format!("cache={cache}").as_ref(), source.as_os_str()]);
    let pattern = kind.pattern();
    assert_eq!(mounted.block_path(0).metadata().unwrap().len(), COUNT * PATTERN as u64);
    std::thread::scope(|scope| {
        for reader in 0..64_u64 {
            let (mounted, pattern) = (&mounted, &pattern);
            scope.spawn(move || {
                let block = File::open(mounted.block_path(0)).unwrap();
                let dice = (reader * 7919 + 1)
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                large::check(&block, pattern, (dice >> 20) % (reach - (2 << 20)), 1 << 20);
                // Then each reader reads sequentially, 8 readers from the same offset.
                let start = reader % 8 * (reach / 8);
                for step in 0..2 {
                    large::check(&block, pattern, start + step * 300_000, 300_000);
                }
            });
        }
    });
    peak(&mounted)
}

#[test]
fn a_hundred_gigabytes_and_64_readers_stay_within_the_budget_and_a_little() {
    // The smaller cache is the harder one.
    let (kinds, larger): (&[Kind], &[Kind]) = match super::SOURCES {
        Sources::Local => (&Kind::ALL, &[Kind::Zlib, Kind::Blosc]),
        Sources::OverHttp => (&[Kind::Zlib, Kind::Lz4, Kind::Blosc], &[]),
    };
    for &kind in kinds {
        let caches: &[u64] = if larger.contains(&kind) { &[8 << 20, 64 << 20] } else { &[8 << 20] };
        // Blocks that must be decoded from the start are not decoded to their end here.
        let reach = match kind {
            Kind::Zlib | Kind::Bzip2 | Kind::ZstdOne => 96 << 20,
            _ => COUNT * PATTERN as u64,
        };
        for &cache in caches {
            let peak = pressure(kind, cache, reach);
            eprintln!("{kind:?}: {} MiB with a cache of {}", peak >> 20, cache >> 20);
            assert!(peak <= cache + BESIDE, "{kind:?}: {peak} bytes with a cache of {cache}");
        }
    }
}

/// A Blosc block can't be decoded in part. One of 32 MiB temporarily takes three times its size, so it
/// reserves as much of the budget. Two such blocks are decoded at once only if both fit in the budget.
#[test]
fn blosc_blocks_that_are_decoded_whole_count_as_what_they_take() {
    let (folder, count, cache) = (fresh_folder(), 32 * 8, 96 << 20);
    let source = large::file(folder.path(), Kind::BloscWide, count);
    let mounted =
        super::SOURCES.mount(["-o".as_ref(), format!("cache={cache}").as_ref(), source.as_os_str()]);
    let pattern = Kind::BloscWide.pattern();
    std::thread::scope(|scope| {
        for reader in 0..64_u64 {
            let (mounted, pattern) = (&mounted, &pattern);
            scope.spawn(move || {
                let block = File::open(mounted.block_path(0)).unwrap();
                let at = reader * 7919 * 4096 % (count * PATTERN as u64 - (1 << 20));
                large::check(&block, pattern, at, 1 << 20);
            });
        }
    });
    let peak = peak(&mounted);
    assert!(peak <= cache + BESIDE, "{peak} bytes with a cache of {cache}");
}

/// Mounts a tree, looks into all views, and returns the number of entries of `arrays/` and the daemon's peak
/// memory.
fn look(nodes: &str) -> (usize, u64) {
    let folder = fresh_folder();
    let source = folder.path().join("tree.asdf");
    let head =
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";
    std::fs::write(&source, [head, nodes, "...\n"].concat()).unwrap();
    std::fs::write(folder.path().join("other.asdf"), [head, "a: ", ARRAY, "\n...\n"].concat()).unwrap();
    let mounted = super::SOURCES.file(&source);
    let count = |view: &str| std::fs::read_dir(mounted.path(view)).unwrap().count();
    let shown = count("arrays");
    for view in ["fits", "tables", "exploded", "preview"] {
        count(view);
    }
    let peak = peak(&mounted);
    eprintln!("{} MiB for {} MB", peak >> 20, nodes.len() / 1_000_000);
    (shown, peak)
}

/// An array in the tree.
const ARRAY: &str = "!core/ndarray-1.0.0 {data: [1], datatype: int8}";
/// Memory that a look into any tree may take.
const MAX_MEMORY: u64 = 200 << 20;

/// The references lead to a missing node, so no array is shown for them.
#[test]
fn a_reference_takes_few_bytes() {
    const COUNT: usize = 300_000;
    let (shown, peak) = look(&format!("a: {ARRAY}\nmany:\n{}", "- {$ref: '#/b'}\n".repeat(COUNT)));
    assert!(shown == 1 && peak <= 80 << 20, "{peak} bytes for {COUNT} references");
}

/// Takes longest. Only `scripts/test --all` runs it.
mod rare {
    use super::*;

    /// The document of this tree has three million nodes. A tree on a server is in the cache, too.
    #[test]
    fn references_into_another_file_are_bounded() {
        let (shown, peak) = look(&format!("many:\n{}", "- {$ref: 'other.asdf#/a'}\n".repeat(1_000_000)));
        assert!(shown == 1 && peak <= MAX_MEMORY + (32 << 20), "{peak} bytes");
    }
}

/// A copy of the path of each array, for each view, would take 250 MiB.
#[test]
fn nested_mappings_take_memory_for_their_own_keys_only() {
    let nested =
        [format!("{{a: {ARRAY}, b: {ARRAY}, c: ").repeat(800), "1".to_owned(), "}".repeat(800)].concat();
    let nodes: String = (0..8).map(|n| format!("n{n}: {nested}\n")).collect();
    let (shown, peak) = look(&nodes);
    assert!(shown == 8 && peak <= 96 << 20, "{peak} bytes");
}

/// A mapping of arrays is a table, but a description of 130 000 columns would take 180 MiB.
#[test]
fn a_mapping_of_many_arrays_is_a_table_of_some() {
    const COUNT: usize = 130_000;
    let nodes: String = (0..COUNT).map(|n| format!("k{n}: {ARRAY}\n")).collect();
    let (shown, peak) = look(&nodes);
    assert!(shown == COUNT && peak <= MAX_MEMORY, "{peak} bytes");
}
