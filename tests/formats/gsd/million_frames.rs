//! A synthetic file of a million frames, generated on demand: the cost of accessing it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use asdf_access::Result;
use asdf_file::container::Context;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::source::{Source, SourceStat, SourceVersion};

use super::walked::{at, bytes, file, folder, names, walk};

const FRAMES: u64 = 1_000_000;
const CHUNKS: u64 = 3;
const SLOTS: u64 = 1 << 22;
const INDEX: u64 = 4096;
const DATA: u64 = INDEX + SLOTS * 32;

/// The file; it counts reads and bytes.
#[derive(Debug, Default)]
struct Million {
    is_old: bool,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Million {
    fn entry(&self, slot: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        let frame = slot / CHUNKS;
        if frame < FRAMES {
            // In the old layout the names are in reverse order.
            let id = if self.is_old { CHUNKS - 1 - slot % CHUNKS } else { slot % CHUNKS };
            bytes[..8].copy_from_slice(&frame.to_le_bytes());
            bytes[8] = 8;
            bytes[16..24].copy_from_slice(&(DATA + frame * CHUNKS * 8 + id * 8).to_le_bytes());
            bytes[24] = 1;
            bytes[28] = id as u8;
            bytes[30] = 1;
        }
        bytes
    }

    fn header(&self) -> Vec<u8> {
        let header = [0x65df_65df_65df_65df_u64, INDEX, SLOTS, 256, 4];
        let version = if self.is_old { 0x1_0000_u64 } else { 0x2_0001 };
        let schema = 0x1_0004;
        let header = header.into_iter().chain([version << 32 | schema]).flat_map(u64::to_le_bytes);
        let names = if self.is_old {
            [&b"log/a"[..], &[0; 59], b"b", &[0; 63], b"c"].concat()
        } else {
            b"log/a\0b\0c".to_vec()
        };
        let mut head: Vec<u8> = header.collect();
        head.resize(112, 0);
        head.extend(b"hoomd");
        head.resize(256, 0);
        head.extend(names);
        head.resize(INDEX as usize, 0);
        head
    }

    /// Returns the bytes from an offset to the end of the header, or of the entry or chunk that they belong to.
    fn piece(&self, at: u64) -> Vec<u8> {
        match at {
            ..INDEX => self.header()[at as usize..].to_vec(),
            INDEX..DATA => self.entry((at - INDEX) / 32)[((at - INDEX) % 32) as usize..].to_vec(),
            // Each chunk holds the number of its frame.
            _ => ((at - DATA) / (CHUNKS * 8)).to_le_bytes()[((at - DATA) % 8) as usize..].to_vec(),
        }
    }
}

impl Source for Million {
    fn path(&self) -> &Path {
        Path::new("million")
    }

    fn stat(&self) -> Result<SourceStat> {
        let size = DATA + FRAMES * CHUNKS * 8;
        Ok(SourceStat { size, mtime: (0, 0), version: SourceVersion::of_tag("million") })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Relaxed);
        let mut done = 0;
        while done < buf.len() {
            let piece = self.piece(offset + done as u64);
            let len = piece.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&piece[..len]);
            done += len;
        }
        Ok(done)
    }
}

#[test]
fn a_chunk_of_a_million_frames_costs_a_few_reads() {
    for is_old in [false, true] {
        let source = Arc::new(Million { is_old, ..Million::default() });
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let container = format::open(source.clone(), &context).unwrap();
        let cost = || (source.reads.swap(0, Relaxed), source.bytes.swap(0, Relaxed));
        // Header and names, and one bisection each for the end of the index and the last frame.
        let (reads, read) = cost();
        assert!(reads <= 70 && read <= 256 << 10, "{reads} reads, {read} bytes");
        let number = |frame: u64| {
            let bytes = bytes(&container, &format!("arrays/frames/{frame}/b.npy"));
            u64::from_le_bytes(*bytes.last_chunk().unwrap())
        };
        assert_eq!(number(999_999), 999_999);
        let (reads, read) = cost();
        assert!(reads <= 30 && read <= 128 << 10, "{reads} reads, {read} bytes");
        for frame in (0..200).map(|n| n * 7919 % FRAMES) {
            assert_eq!(number(frame), frame);
        }
        let (reads, read) = cost();
        assert!(reads <= 4000 && read <= 20 << 20, "{reads} reads, {read} bytes");
        assert!(at(&container, "arrays/frames/1000000").is_none());
        let tree = crate::open::read(&*container.tree()).unwrap();
        assert!(tree.windows(15).any(|line| line == b"frames: 1000000"));
        assert!(cost().1 < 1 << 20);
    }
}

#[test]
fn all_frames_are_listed_without_a_read_and_walked_with_few() {
    let source = Arc::new(Million::default());
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let container = format::open(source.clone(), &context).unwrap();
    let frames = folder(&container, "arrays/frames");
    source.reads.store(0, Relaxed);
    assert_eq!(names(&*frames).len() as u64, FRAMES);
    assert_eq!(source.reads.load(Relaxed), 0);
    // A page of the index covers 42 frames, so most frames need no read.
    for frame in 500_000..501_000 {
        assert_eq!(walk(&*folder(&container, &format!("arrays/frames/{frame}"))).len(), 3);
    }
    let reads = source.reads.load(Relaxed);
    assert!(reads < 100, "{reads} reads");
}

#[test]
fn rows_of_a_million_frames_are_found_as_they_are_read() {
    for is_old in [false, true] {
        let source = Arc::new(Million { is_old, ..Million::default() });
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let container = format::open(source.clone(), &context).unwrap();
        // This makes the pass over the index.
        let content = file(&container, "arrays/resolved/series/log/a.npy").content.unwrap();
        let table = file(&container, "tables/log.parquet").content.unwrap();
        assert!(content.len() == 128 + 8 * FRAMES && table.len() > 8 * FRAMES);
        source.bytes.store(0, Relaxed);
        for first in [0, 777_777, FRAMES - 1000] {
            let mut rows = vec![0; 8000];
            assert_eq!(content.read_at(128 + 8 * first, &mut rows).unwrap(), 8000);
            let numbers = rows.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            // The 8 elements of one byte are a row, and form the number.
            assert!(numbers.eq(first..first + 1000));
        }
        let read = source.bytes.load(Relaxed);
        assert!(read < 2 << 20, "{read} bytes");
    }
}
