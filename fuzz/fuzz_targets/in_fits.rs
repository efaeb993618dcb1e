//! Cards of an HDU between the first HDU of a FITS file and its ASDF extension: whatever they say, the file is not one
//! with ASDF, or everything in it can be listed and read within its bounds.
#![no_main]

use std::ffi::OsStr;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::content::Content;
use asdf_file::folder::{Dir, Node};
use asdf_views::format;
use asdf_file::container::Context;
use seekable::source::MemorySource;

const RECORD: usize = 2880;
const ASDF: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: !core/ndarray-1.1.0\n  \
                    {source: 'fits:1', shape: [2], datatype: int16, byteorder: big}\n...\n";
/// Number of bytes read of each file.
const BYTES: u64 = 1 << 16;

libfuzzer_sys::fuzz_target!(|cards: &[u8]| {
    let mut bytes = header([&b"SIMPLE  =                    T"[..], b"BITPIX  = 8", b"NAXIS   = 0"]);
    bytes.extend(header(cards.split(|byte| *byte == b'\n')));
    bytes.extend((0..2 * RECORD).map(|n| n as u8));
    let len = format!("NAXIS1  = {}", ASDF.len());
    let extension =
        [&b"XTENSION= 'IMAGE'"[..], b"BITPIX  = 8", b"NAXIS   = 1", len.as_bytes(), b"EXTNAME = 'ASDF'"];
    bytes.extend(header(extension));
    bytes.extend(ASDF.as_bytes());
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let Ok(file) = format::open(Arc::new(MemorySource(bytes)), &context) else { return };
    for (_, node) in file.clone().views().into_iter().flatten() {
        if let Node::Dir(dir) = node {
            walk(&*dir);
        }
    }
    let _ = file.clone().derived_file("refs.json");
    let _ = file.check_tree();
    let _ = file.defects();
});

/// Returns a header of these cards, cut or padded to whole ones.
fn header<'c>(cards: impl IntoIterator<Item = &'c [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for card in cards.into_iter().chain([&b"END"[..]]) {
        let end = bytes.len() + 80;
        bytes.extend(&card[..card.len().min(80)]);
        bytes.resize(end, b' ');
    }
    bytes.resize(bytes.len().next_multiple_of(RECORD), b' ');
    bytes
}

fn walk(dir: &dyn Dir) {
    let mut names = Vec::new();
    let listed = dir.list(0, &mut |name: &OsStr, _| {
        names.push(name.to_owned());
        true
    });
    listed.expect("a directory can be listed");
    for name in names {
        match dir.lookup(&name) {
            Ok(Some(Node::Dir(dir))) => walk(&*dir),
            Ok(Some(Node::File(file))) => {
                if let Ok(content) = &file.content {
                    read(&**content);
                }
            }
            Ok(Some(Node::Link(_))) => {}
            other => panic!("what is listed is there: {other:?}"),
        }
    }
}

fn read(content: &dyn Content) {
    let mut piece = vec![0; 777];
    let mut at = 0;
    while at < content.len().min(BYTES) {
        match content.read_at(at, &mut piece) {
            Ok(count) if count > 0 => at += count as u64,
            Ok(_) => panic!("a content ends before its length"),
            Err(_) => return,
        }
    }
}
