//! A source of which a read fails: nothing that is then unknown is shown as missing or empty, and nothing of the
//! failure is kept.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use asdf_mount::internals::cache::Cache;
use asdf_mount::internals::content::Text;
use asdf_mount::internals::content::dir::{Dir, Node};
use asdf_mount::internals::format::{self, Container, Context, Verified};
use asdf_mount::internals::source::{MemorySource, Source, SourceStat};
use asdf_mount::internals::view::root::RootDir;
use asdf_mount::{Error, Kind, Result};

use crate::common::asdf::{AsdfBuilder, Block, Index, sample};
use crate::open::read;

const REASON: &str = "the disk fails";

/// Bytes of which one read, or all from one on, fail.
#[derive(Debug)]
struct FailingSource {
    source: MemorySource,
    reads: AtomicUsize,
    /// The number of the read that fails.
    fails: AtomicUsize,
    /// True if later reads fail, too.
    for_good: AtomicBool,
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
        self.source.read_at(offset, buf)
    }
}

/// Everything that a program can find out about a file: names, lengths, bytes. Errors stand for themselves.
type Shown = BTreeMap<String, std::result::Result<String, i32>>;

fn note<T>(shown: &mut Shown, what: String, found: Result<T>, text: impl FnOnce(T) -> String) {
    shown.insert(what, found.map(text).map_err(|error| error.errno()));
}

fn walk(dir: &dyn Dir, path: &str, shown: &mut Shown) {
    let mut names = Vec::new();
    let listed = dir.list(0, &mut |name, kind| {
        names.push((name.to_str().unwrap().to_owned(), kind));
        true
    });
    note(shown, format!("{path}/"), listed, |()| format!("{names:?}"));
    for (name, _) in names {
        let path = format!("{path}/{name}");
        match dir.find(&[OsStr::new(&name)]) {
            Ok(Some(Node::Dir(dir))) => walk(&*dir, &path, shown),
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
    walk(&root, "", &mut shown);
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
            for (what, value) in shown(&container) {
                let says_so = value.as_ref().is_ok_and(|text| text.contains(REASON) && what == "/index.html");
                if value != Err(libc::EIO) && !says_so {
                    assert_eq!(Some(&value), sound.get(&what), "{name}: read {fails}, {for_good}: {what}");
                }
            }
            source.fails.store(usize::MAX, Ordering::Relaxed);
            let now = shown(&container);
            for (what, value) in &sound {
                assert_eq!(now.get(what), Some(value), "{name}: later, read {fails}, {for_good}: {what}");
            }
        }
    }
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
