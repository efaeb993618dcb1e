//! The requests that reading a file on a server takes, for files much larger than what is read of them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use asdf_file::container::{Container, Context};
use asdf_file::folder::Node;
use asdf_remote::{Address, Remote, RemoteOptions, Trust};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::Content;

use common::asdf::index_text;
use common::server::{Reply, Server};

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
        self.serve_ranges(true)
    }

    /// Serves the file by a server that sends several ranges in a reply, or only one.
    fn serve_ranges(self, sends_several: bool) -> (Server, Remote, Arc<dyn Container>) {
        let server = Server::start(move |request, _| {
            let reply = match request.ranges() {
                Some(_) if !sends_several => Reply::status(200),
                _ => Reply::part_of(self.len as usize, "\"v1\"", request, |range| self.read(range)),
            };
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

fn literal(n: u32) -> u8 {
    (n.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Decoded length of a piece, and of each row in it.
const PIECE: u32 = 4 << 20;
const ROW: u32 = 4096;

/// Returns an LZ4 block after its headers, in ASDF's framing. Each row has some different bytes, then zeros. A block ends
/// with five literals.
fn piece(literals: u32) -> Vec<u8> {
    let more = |block: &mut Vec<u8>, mut rest: u32| {
        while rest >= 255 {
            block.push(255);
            rest -= 255;
        }
        block.push(rest as u8);
    };
    let mut block = Vec::new();
    for row in (0..PIECE).step_by(ROW as usize) {
        block.push(0xff);
        more(&mut block, literals + 1 - 15);
        block.extend((row..row + literals).map(literal));
        block.extend([0, 1, 0]);
        let at_end = if row + ROW == PIECE { 5 } else { 0 };
        more(&mut block, ROW - literals - 1 - at_end - 4 - 15);
    }
    block.extend([0x50, 0, 0, 0, 0, 0]);
    let n = block.len() as u32 + 4;
    [&n.to_be_bytes()[..], &PIECE.to_le_bytes(), &block].concat()
}

/// Reads bytes in a block of LZ4 pieces whose rows have so many literals each. Returns the number of requests and the bytes
/// that were transferred.
fn read_pieces(literals: &[u32], sends_several: bool, at: u64, len: usize) -> (usize, u64) {
    let mut file = Sparse::default();
    let decoded = u64::from(PIECE) * literals.len() as u64;
    file.push(
        format!("{HEAD}a: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: big, shape: [{decoded}]}}\n...\n")
            .into_bytes(),
    );
    // Equal pieces share their memory.
    let mut made: HashMap<u32, Arc<[u8]>> = HashMap::new();
    let mut of = |literals: &u32| made.entry(*literals).or_insert_with(|| piece(*literals).into()).clone();
    let pieces: Vec<Arc<[u8]>> = literals.iter().map(&mut of).collect();
    file.push(header(b"lz4\0", pieces.iter().map(|piece| piece.len() as u64).sum(), decoded));
    for piece in pieces {
        file.push(piece);
    }
    let (server, remote, container) = file.serve_ranges(sends_several);
    let content = container.block(0).unwrap().content.unwrap();
    let mut bytes = vec![0; len];
    assert_eq!(content.read_at(at, &mut bytes).unwrap(), len);
    let literals = literals[(at / u64::from(PIECE)) as usize];
    for (n, byte) in ((at % u64::from(PIECE)) as u32..).zip(bytes) {
        assert_eq!(byte, if n % ROW < literals { literal(n) } else { 0 }, "{n}");
    }
    (server.count(), remote.stats().bytes)
}

#[test]
fn headers_of_lz4_pieces_are_requested_together() {
    let at = 64 * 4 * MIB / 10 * 9;
    let (requests, bytes) = read_pieces(&[4000; 64], true, at, 4096);
    assert!(requests <= 12, "{requests}");
    assert!(bytes <= 4 * MIB, "{bytes}");
}

/// The sizes are those of an image with a bright object, as Python writes it.
#[test]
fn headers_of_few_lz4_pieces_take_a_request_each_at_most() {
    let image = [2055, 2060, 2197, 2394, 2360, 2138, 1959];
    for sizes in [image, [4000; 7]] {
        for sends_several in [true, false] {
            let (requests, bytes) = read_pieces(&sizes, sends_several, 2000 * 2700 * 4, 32 * 2700 * 4);
            assert!(requests <= 8, "{sizes:?}: {requests} requests");
            assert!(bytes <= 4_000_000, "{sizes:?}: {bytes} bytes");
        }
    }
}

#[test]
fn headers_of_many_unequal_lz4_pieces_take_few_requests_in_vain() {
    let sizes: Vec<u32> = (0..64_u32).map(|n| 1450 + n.wrapping_mul(2_654_435_761) % 200).collect();
    let at = 64 * 4 * MIB / 10 * 9;
    for (sends_several, most) in [(true, 45), (false, 95)] {
        let (requests, bytes) = read_pieces(&sizes, sends_several, at, 4096);
        assert!(requests <= most, "{sends_several}: {requests}");
        assert!(bytes <= 6_000_000, "{sends_several}: {bytes}");
    }
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
