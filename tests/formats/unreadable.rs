//! A source of which a read fails: nothing that is then unknown is shown as missing or empty, and nothing of the
//! failure is kept.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use asdf_access::{Error, Kind, Result};
use asdf_file::container::{Container, Context, Verified};
use asdf_file::folder::{Dir, Node};
use asdf_mount::view::root::RootDir;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::Text;
use seekable::source::{MemorySource, Source, SourceStat};

use crate::open::read;
use common::asdf::{AsdfBuilder, Block, Index, sample};

const REASON: &str = "the disk fails";

/// Bytes of which one read, or all from one on, or all of a range, fail.
#[derive(Debug)]
struct FailingSource {
    source: MemorySource,
    reads: AtomicUsize,
    /// The number of the read that fails.
    fails: AtomicUsize,
    /// True if later reads fail, too.
    for_good: AtomicBool,
    /// The range that can't be read.
    window: Mutex<Range<u64>>,
    /// True once a read of the range failed.
    touched: AtomicBool,
}

impl Source for FailingSource {
    fn path(&self) -> &Path {
        Path::new("failing.asdf")
    }

    fn stat(&self) -> Result<SourceStat> {
        self.source.stat()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let fails = self.fails.load(Ordering::Relaxed);
        if read == fails || read > fails && self.for_good.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::System(libc::EIO), REASON));
        }
        let window = self.window.lock().unwrap().clone();
        if offset < window.end && window.start < offset + buf.len() as u64 {
            self.touched.store(true, Ordering::Relaxed);
            return Err(Error::new(Kind::System(libc::EIO), REASON));
        }
        self.source.read_at(offset, buf)
    }
}

/// Everything that a program can find out about a file: names, lengths, bytes. Errors stand for themselves.
type Shown = BTreeMap<String, std::result::Result<String, i32>>;

fn note<T>(shown: &mut Shown, what: String, found: Result<T>, text: impl FnOnce(T) -> String) {
    shown.insert(what, found.map(text).map_err(|error| error.errno()));
}

/// Walks a directory. Each entry is found from the root, as in a mount.
fn walk(root: &dyn Dir, dir: &dyn Dir, path: &str, shown: &mut Shown) {
    let mut names = Vec::new();
    let listed = dir.list(0, &mut |name, kind| {
        names.push((name.to_str().unwrap().to_owned(), kind));
        true
    });
    note(shown, format!("{path}/"), listed, |()| format!("{names:?}"));
    for (name, _) in names {
        let path = format!("{path}/{name}");
        let names: Vec<_> = path.split('/').skip(1).map(OsStr::new).collect();
        match root.find(&names) {
            Ok(Some(Node::Dir(dir))) => walk(root, &*dir, &path, shown),
            Ok(Some(Node::File(file))) => {
                note(shown, format!("{path}#"), Ok(file.len()), |len| len.to_string());
                let bytes = file.content.and_then(|content| read(&*content));
                // A page says in its midst what it can't show.
                let text = |bytes: Vec<u8>| match path.strip_suffix("index.html") {
                    Some(_) => String::from_utf8(bytes).unwrap(),
                    None => format!("{bytes:?}"),
                };
                note(shown, path.clone(), bytes, text);
            }
            found => note(shown, path, found, |node| format!("{node:?}")),
        }
    }
}

/// Returns all that is shown of a container.
fn shown(container: &Arc<dyn Container>) -> Shown {
    let mut shown = Shown::new();
    let root = RootDir::new(Some(container.clone()), Arc::new(Text::default), Arc::new(|_| None));
    walk(&root, &root, "", &mut shown);
    let count = container.block_count();
    let blocks = count.as_ref().map_or(0, |count| *count);
    note(&mut shown, "count".into(), count, |count| count.to_string());
    for n in 0..blocks {
        note(&mut shown, format!("verified {n}"), container.verify(n), |v: Verified| v.word().to_owned());
    }
    note(&mut shown, "arrays".into(), container.arrays(), |arrays| format!("{arrays:?}"));
    note(&mut shown, "tree".into(), container.check_tree(), |defects| format!("{defects:?}"));
    shown
}

fn open(bytes: &[u8]) -> (Arc<FailingSource>, Result<Arc<dyn Container>>) {
    let source = Arc::new(FailingSource {
        source: MemorySource(bytes.to_vec()),
        reads: AtomicUsize::new(0),
        fails: AtomicUsize::new(usize::MAX),
        for_good: AtomicBool::new(false),
        window: Mutex::new(0..0),
        touched: AtomicBool::new(false),
    });
    let container = format::open(source.clone(), &Context::new(Arc::new(Cache::new(1 << 20))));
    (source, container)
}

/// Fails each of the reads that showing a file takes.
fn fail_each_read(name: &str, bytes: &[u8]) {
    let (source, container) = open(bytes);
    source.reads.store(0, Ordering::Relaxed);
    let sound = shown(&container.unwrap());
    let reads = source.reads.load(Ordering::Relaxed);
    assert!(reads > 3, "{name}: {reads}");
    for fails in (0..reads).step_by(1 + reads / 16) {
        for for_good in [false, true] {
            let (source, container) = open(bytes);
            let container = container.unwrap();
            source.reads.store(0, Ordering::Relaxed);
            source.for_good.store(for_good, Ordering::Relaxed);
            source.fails.store(fails, Ordering::Relaxed);
            let case = format!("{name}: read {fails}, {for_good}");
            assert_sound_or_failed(&shown(&container), &sound, &case);
            source.fails.store(usize::MAX, Ordering::Relaxed);
            assert_same(&shown(&container), &sound, &case);
        }
    }
}

fn assert_sound_or_failed(found: &Shown, sound: &Shown, case: &str) {
    for (what, value) in found {
        let says_so = value.as_ref().is_ok_and(|text| text.contains(REASON) && what == "/index.html");
        if *value != Err(libc::EIO) && !says_so {
            assert_eq!(Some(value), sound.get(what), "{case}: {what}");
        }
    }
}

/// Asserts that nothing of a failure is left.
fn assert_same(found: &Shown, sound: &Shown, case: &str) {
    for (what, value) in sound {
        assert_eq!(found.get(what), Some(value), "{case}, later: {what}");
    }
}

/// Fails each of the windows of a file in turn. Returns the number of those that were read.
fn fail_each_window(name: &str, bytes: &[u8], windows: impl IntoIterator<Item = Range<u64>>) -> usize {
    let sound = shown(&open(bytes).1.unwrap());
    let mut touched = 0;
    for window in windows {
        let (source, container) = open(bytes);
        let container = container.unwrap();
        let case = format!("{name}: bytes {window:?}");
        *source.window.lock().unwrap() = window;
        assert_sound_or_failed(&shown(&container), &sound, &case);
        touched += usize::from(source.touched.load(Ordering::Relaxed));
        *source.window.lock().unwrap() = 0..0;
        assert_same(&shown(&container), &sound, &case);
    }
    touched
}

fn blocks(count: u8) -> AsdfBuilder {
    AsdfBuilder::new().blocks((0..count).map(|n| Block::new(sample(100, u32::from(n)))))
}

#[test]
fn what_a_failed_read_leaves_unknown_is_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in [
        "examples/sample.asdf",
        "examples/trajectory.gsd",
        "tests/fixtures/asdf/lz4-small-chunks.asdf",
        "tests/fixtures/asdf/zlib.asdf",
        "tests/fixtures/bloscpack/bcolz1.2.1_f8__0.blp",
    ] {
        fail_each_read(path, &std::fs::read(root.join(path)).unwrap());
    }
}

#[test]
fn a_failed_read_in_the_chain_of_blocks_is_an_error() {
    fail_each_read("no index", &blocks(20).index(Index::Absent).build().bytes);
    let with_index = blocks(6).build().bytes;
    let second = memchr::memmem::find_iter(&with_index, b"\xd3BLK").nth(1).unwrap();
    for (name, at) in [("magic", 1), ("header_size", 5), ("allocated_size", 16)] {
        let mut damaged = with_index.clone();
        damaged[second + at] ^= 0x51;
        fail_each_read(name, &damaged);
    }
}

#[test]
fn a_header_that_cannot_be_read_makes_no_array_empty_or_missing() {
    let blocks = (0..6).map(|n| Block::new(sample(40_000, n)));
    let bytes = AsdfBuilder::new().blocks(blocks).build().bytes;
    let headers: Vec<_> = memchr::memmem::find_iter(&bytes, b"\xd3BLK").map(|at| at as u64).collect();
    assert_eq!(headers.len(), 6);
    let windows = headers.iter().map(|at| *at..at + 54);
    assert!(fail_each_window("headers", &bytes, windows) >= 4);
}

#[test]
fn a_part_of_another_format_that_cannot_be_read_is_an_error() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in [
        "gsd/gsd5.0.1_grown_index.gsd",
        "gsd/gsd1.10.0_alltypes.gsd",
        "blosc2/cube.b2nd",
        "blosc2/tiny.b2frame",
        "blosc2/moved.b2frame",
    ] {
        let bytes = std::fs::read(fixtures.join(name)).unwrap();
        let mut starts: Vec<_> = (0..bytes.len() as u64).step_by(bytes.len().div_ceil(16)).collect();
        if name.ends_with(".gsd") {
            // The index and the list of names.
            starts.extend([8, 24].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())));
        }
        let windows = starts.into_iter().map(|at| at..at + 32);
        assert!(fail_each_window(name, &bytes, windows) > 0, "{name}");
    }
}
