//! The requests that reading a file on a server takes, for files much larger than what is read of them.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use asdf_mount::internals::content::dir::Node;
use asdf_mount::internals::format::{self, Container, Context};
use asdf_mount::internals::remote::{Address, Remote, RemoteOptions, Trust};
use seekable::cache::Cache;
use seekable::content::Content;

use crate::common::asdf::index_text;
use crate::common::server::{Reply, Server};

const MIB: u64 = 1 << 20;
const HEAD: &str =
    "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

/// A file of pieces at their offsets, with zeros between them.
#[derive(Debug, Default)]
struct Sparse {
    pieces: Vec<(u64, Arc<[u8]>)>,
    len: u64,
}

impl Sparse {
    fn push(&mut self, bytes: impl Into<Arc<[u8]>>) {
        let bytes = bytes.into();
        self.pieces.push((self.len, bytes.clone()));
        self.len += bytes.len() as u64;
    }

    fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut out = vec![0; range.len()];
        let (start, end) = (range.start as u64, range.end as u64);
        let first = self.pieces.partition_point(|(at, bytes)| at + bytes.len() as u64 <= start);
        for (at, bytes) in self.pieces[first..].iter().take_while(|(at, _)| *at < end) {
            let from = start.max(*at);
            let until = end.min(at + bytes.len() as u64);
            let piece = &bytes[(from - at) as usize..(until - at) as usize];
            out[(from - start) as usize..][..piece.len()].copy_from_slice(piece);
        }
        out
    }

    fn serve(self) -> (Server, Remote, Arc<dyn Container>) {
        let server = Server::start(move |request, _| {
            let reply = Reply::part_of(self.len as usize, "\"v1\"", request, |range| self.read(range));
            // Requests that are sent at the same time overlap.
            Reply { delay: Duration::from_millis(10), ..reply }
        });
        let options = RemoteOptions { anonymous: true, ..RemoteOptions::default() };
        let remote = Remote::new(options, Arc::new(Cache::new(64 << 20))).unwrap();
        remote.start_threads();
        let source = remote.open(&Address::parse(&server.url("/x")).unwrap(), Trust::Mounted).unwrap();
        let container = format::open(source, &Context::new(Arc::new(Cache::new(64 << 20)))).unwrap();
        (server, remote, container)
    }
}

fn header(label: &[u8; 4], stored: u64, decoded: u64) -> Vec<u8> {
    let mut header = b"\xd3BLK\x00\x30\0\0\0\0".to_vec();
    header.extend(label);
    for size in [stored, stored, decoded] {
        header.extend(size.to_be_bytes());
    }
    header.extend([0; 16]);
    header
}

/// Returns a file of `count` arrays in blocks of `len` bytes, of which only the first ones are not zero. Each begins
/// with its number.
fn arrays(count: u64, len: u64, has_index: bool) -> Sparse {
    let mut file = Sparse::default();
    let lines: String = (0..count)
        .map(|n| {
            format!(
                "a{n}: !core/ndarray-1.1.0 {{source: {n}, datatype: uint8, byteorder: big, shape: [{len}]}}\n"
            )
        })
        .collect();
    file.push(format!("{HEAD}{lines}...\n").into_bytes());
    let mut offsets = Vec::new();
    for n in 0..count {
        offsets.push(file.len);
        file.push([header(&[0; 4], len, len), n.to_be_bytes().to_vec()].concat());
        file.len += len - 8;
    }
    if has_index {
        file.push(index_text(&offsets));
    }
    file
}

fn file_at(container: &Arc<dyn Container>, view: &str, name: &str) -> Arc<dyn Content> {
    let (_, node) = container.clone().views().unwrap().into_iter().find(|(known, _)| *known == view).unwrap();
    let Node::Dir(folder) = node else { panic!("{view} is a directory") };
    match folder.find(&[OsStr::new(name)]).unwrap() {
        Some(Node::File(file)) => file.content.unwrap(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Checks the first bytes of an array.
fn check_array(container: &Arc<dyn Container>, n: u64) {
    let mut bytes = vec![0; 4096];
    let read = file_at(container, "arrays", &format!("a{n}.npy")).read_at(0, &mut bytes).unwrap();
    assert!(read == 4096 && bytes[128..136] == n.to_be_bytes(), "array {n}");
}

#[test]
fn an_array_of_a_file_with_an_index_takes_few_requests_whatever_the_number_of_blocks() {
    for count in [10, 300, 10_000] {
        for n in [count - 1, count / 2, 0] {
            let (server, remote, container) = arrays(count, 8 * MIB, true).serve();
            check_array(&container, n);
            let stats = remote.stats();
            let ranges: Vec<_> = server.requests().iter().map(|request| request.range()).collect();
            // The header of block 0 comes with the tree. The headers after it are not asked for: one block is no run.
            let most = if n == 0 { 5 } else { 6 };
            assert!(server.count() <= most, "{count} blocks: {ranges:?}");
            assert!(stats.bytes <= 2_000_000, "{count} blocks: {ranges:?}");
        }
    }
}

#[test]
fn headers_in_a_row_are_requested_together_and_stay_known() {
    let (server, remote, container) = arrays(100, 8 * MIB, true).serve();
    for n in 0..100 {
        container.block(n).unwrap();
    }
    assert!(server.most_busy() > 2, "{}", server.most_busy());
    let stats = remote.stats();
    assert!(stats.bytes <= 2 * MIB + 100 * (128 << 10), "{}", stats.bytes);
    let before = server.count();
    assert!((0..100).all(|n| container.block(n).is_ok()));
    assert_eq!(server.count(), before);
}

#[test]
fn without_an_index_headers_of_equal_blocks_are_requested_together() {
    let (server, remote, container) = arrays(200, 2 * MIB + 4096, false).serve();
    assert_eq!(container.block_count().unwrap(), 200);
    assert!(server.most_busy() > 2, "{}", server.most_busy());
    check_array(&container, 199);
    assert!(remote.stats().bytes <= 2 * MIB + 200 * (128 << 10), "{}", remote.stats().bytes);
}

#[test]
fn an_index_that_a_header_contradicts_is_not_believed() {
    let count = 20;
    let mut file = arrays(count, 2 * MIB, false);
    let mut offsets: Vec<u64> = file.pieces[1..].iter().map(|(at, _)| *at).collect();
    // The numbers behind a missing block are wrong, and the last block proves itself.
    offsets.remove(10);
    file.push(index_text(&offsets));
    let (_server, _remote, container) = file.serve();
    assert_eq!(container.block_count().unwrap(), 19);
    assert_eq!(container.block(9).unwrap().facts.offset, offsets[9]);
    assert_eq!(container.block_count().unwrap(), 20);
    check_array(&container, 19);
    container.find_all_blocks().unwrap();
    let defects = container.defects();
    assert!(defects.iter().any(|defect| defect.what.contains("index")), "{defects:?}");
}

#[test]
fn an_index_that_lists_fewer_blocks_than_the_tree_names_is_not_believed() {
    let mut file = arrays(20, 2 * MIB, false);
    let mut offsets: Vec<u64> = file.pieces[1..].iter().map(|(at, _)| *at).collect();
    offsets.remove(10);
    file.push(index_text(&offsets));
    let (_server, _remote, container) = file.serve();
    for n in [3, 9, 10, 11, 19] {
        check_array(&container, n);
    }
    assert_eq!(container.block_count().unwrap(), 20);
}

/// Returns a literals-only LZ4 block of `len` bytes after its headers, in ASDF's framing.
fn piece(len: u32) -> Vec<u8> {
    let mut block = vec![0xf0];
    let mut rest = len - 15;
    while rest >= 255 {
        block.push(255);
        rest -= 255;
    }
    block.push(rest as u8);
    block.extend((0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    let n = block.len() as u32 + 4;
    [&n.to_be_bytes()[..], &len.to_le_bytes(), &block].concat()
}

#[test]
fn headers_of_lz4_pieces_are_requested_together() {
    let (pieces, len) = (64, 4 << 20);
    let one: Arc<[u8]> = piece(len).into();
    let mut file = Sparse::default();
    let decoded = u64::from(len) * pieces;
    file.push(
        format!("{HEAD}a: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: big, shape: [{decoded}]}}\n...\n")
            .into_bytes(),
    );
    file.push(header(b"lz4\0", one.len() as u64 * pieces, decoded));
    for _ in 0..pieces {
        file.push(one.clone());
    }
    let (server, remote, container) = file.serve();
    let content = container.block(0).unwrap().content.unwrap();
    let mut bytes = vec![0; 4096];
    let at = decoded / 10 * 9;
    assert_eq!(content.read_at(at, &mut bytes).unwrap(), 4096);
    let within = (at % u64::from(len)) as u32;
    assert!((0..4096).all(|n| bytes[n as usize] == ((within + n).wrapping_mul(2_654_435_761) >> 24) as u8));
    assert!(server.count() <= 12, "{}", server.count());
    assert!(remote.stats().bytes <= 4 * MIB, "{}", remote.stats().bytes);
}

#[test]
fn random_reads_move_little_more_than_they_ask_for() {
    let (server, remote, container) = arrays(2, 200 * MIB, false).serve();
    let content = file_at(&container, "arrays", "a1.npy");
    let before = remote.stats().bytes;
    for n in 1..21 {
        content.read_at(n * 7 * MIB + n * 5000, &mut [0; 4096]).unwrap();
    }
    let moved = remote.stats().bytes - before;
    assert!(moved <= 2_500_000, "{moved} bytes");
    assert!(server.count() <= 26, "{}", server.count());
}
