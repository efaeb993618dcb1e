//! Reads of blocks on a server: how many requests they take.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::content::Slice;
use crate::source::{MemorySource, Source, SourceStat};

/// A server in memory. Reads beside the announced ranges are requests, and so are ranges that are read at once.
#[derive(Debug, Default)]
struct Server {
    bytes: MemorySource,
    requests: AtomicUsize,
    sent: AtomicUsize,
    announced: Mutex<Vec<Range<u64>>>,
    kept: Mutex<HashMap<String, Vec<u8>>>,
}

impl Server {
    fn count(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    /// Returns the numbers of requests and of bytes since the last call.
    fn take(&self) -> (usize, usize) {
        (self.requests.swap(0, Ordering::Relaxed), self.sent.swap(0, Ordering::Relaxed))
    }
}

impl Source for Server {
    fn path(&self) -> &Path {
        self.bytes.path()
    }

    fn stat(&self) -> Result<SourceStat> {
        self.bytes.stat()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let end = offset + buf.len() as u64;
        let is_announced =
            self.announced.lock().unwrap().iter().any(|range| range.start <= offset && end <= range.end);
        if !is_announced {
            self.count(buf.len() as u64);
        }
        self.bytes.read_at(offset, buf)
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        assert!(extent.contains(&offset), "{extent:?} {offset}");
        self.read_at(offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        assert!(ranges.is_sorted_by_key(|range| range.start));
        self.count(ranges.iter().map(|range| range.end - range.start).sum());
        let read = |range: &Range<u64>| self.bytes.0[range.start as usize..range.end as usize].to_vec();
        Ok(ranges.iter().map(read).collect())
    }

    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        self.kept.lock().unwrap().get(name).cloned()
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        self.kept.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.count(len);
        self.announced.lock().unwrap().push(offset..offset + len);
    }
}

/// Returns a server with a block of LZ4 pieces, and the block's bytes.
fn served(sizes: &[usize]) -> (Arc<Server>, Vec<u8>) {
    let mut dice = Dice(11);
    let mut truth = Vec::new();
    let mut stored = b"before it".to_vec();
    for (n, len) in sizes.iter().enumerate() {
        // Half of the bytes are noise, so that lengths differ a little.
        let bytes: Vec<u8> =
            (0..*len).map(|at| if at % 2 == 0 { dice.roll(256) as u8 } else { n as u8 }).collect();
        stored.extend(piece(&bytes));
        truth.extend(bytes);
    }
    (Arc::new(Server { bytes: MemorySource(stored), ..Server::default() }), truth)
}

fn opened(server: &Arc<Server>, len: usize) -> Arc<dyn Content> {
    let stored = Slice::new(server.clone(), 9, server.bytes.0.len() as u64 - 9);
    server.announced.lock().unwrap().clear();
    open(Codec::Lz4, Arc::new(stored), len as u64, &Arc::new(Cache::new(64 << 20))).unwrap()
}

fn check_at(content: &dyn Content, truth: &[u8], at: usize) {
    let mut buf = [0; 4096];
    let read = content.read_at(at as u64, &mut buf).unwrap();
    assert!(read > 0 && buf[..read] == truth[at..at + read], "{at}");
}

#[test]
fn a_read_far_in_a_block_of_many_pieces_takes_few_requests() {
    let (server, truth) = served(&[128 << 10; 100]);
    let content = opened(&server, truth.len());
    server.take();
    check_at(&*content, &truth, truth.len() / 10 * 9);
    let (requests, sent) = server.take();
    assert!(requests <= 8 && sent < 1 << 20, "{requests} requests, {sent} bytes");
    // The table is kept for the next mount.
    let content = opened(&server, truth.len());
    server.take();
    check_at(&*content, &truth, truth.len() / 2);
    let (requests, sent) = server.take();
    assert!(requests <= 2 && sent < 256 << 10, "{requests} requests, {sent} bytes");
}

#[test]
fn pieces_of_any_sizes_are_read_right() {
    let mut dice = Dice(5);
    let sizes: Vec<usize> = (0..60).map(|_| dice.roll(200_000)).collect();
    let (server, truth) = served(&sizes);
    for seed in 1..6 {
        let content = opened(&server, truth.len());
        let mut dice = Dice(seed);
        for _ in 0..20 {
            check_at(&*content, &truth, dice.roll(truth.len()));
        }
        let mut whole = vec![0; truth.len()];
        crate::content::read_exact_at(&*content, 0, &mut whole).unwrap();
        assert!(whole == truth);
        assert_eq!(content.read_at(truth.len() as u64, &mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_read_in_a_long_piece_requests_its_beginning() {
    let (server, truth) = served(&[2 << 20; 4]);
    let stored = server.bytes.0.len() / 4;
    let content = opened(&server, truth.len());
    server.take();
    let at = 2 * (2 << 20) + (300 << 10);
    for row in 0..20 {
        check_at(&*content, &truth, at + row * 9000);
    }
    let (requests, sent) = server.take();
    assert!(requests <= 8 && sent < stored, "{requests} requests, {sent} of {stored} bytes");
    // A reader that goes on gets whole pieces.
    let mut whole = vec![0; 1 << 20];
    for at in (0..truth.len()).step_by(whole.len()) {
        crate::content::read_exact_at(&*content, at as u64, &mut whole).unwrap();
        assert!(whole == truth[at..at + whole.len()], "{at}");
    }
}

/// A program that reads the header of an array reads 64 KiB. A mount has the first 256 KiB of the file.
#[test]
fn the_first_bytes_of_a_long_piece_request_little_more() {
    let (server, truth) = served(&[4 << 20; 2]);
    let stored = server.bytes.0.len() / 2;
    assert!(stored > 3 << 20, "{stored}");
    let content = opened(&server, truth.len());
    server.take();
    let mut bytes = vec![0; 64 << 10];
    crate::content::read_exact_at(&*content, 0, &mut bytes).unwrap();
    assert!(bytes == truth[..bytes.len()]);
    let (requests, sent) = server.take();
    assert!(requests <= 3 && sent <= 192 << 10, "{requests} requests, {sent} bytes");
}
