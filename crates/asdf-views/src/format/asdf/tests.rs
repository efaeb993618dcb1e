//! The list of views, and the example of `docs/adding-a-view.md`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use asdf_file::container::Views;
use asdf_file::folder::{Dir, Node};
use seekable::cache::Cache;
use seekable::content::read_exact_at;
use seekable::error::{Error, Kind};
use seekable::source::{MemorySource, UrlOpener};

use super::*;

/// The time for which a host that did not answer is not asked again.
const SILENCE: Duration = Duration::from_millis(50);

#[test]
fn the_documents_name_each_view() {
    let document = include_str!("../../../../../docs/views.md");
    for name in Asdf.view_names() {
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
}

/// Returns a file with a table of two columns with two rows, at the path `a/t`.
fn file_with_table() -> Vec<u8> {
    let column = |name: &str, offset: u64| {
        format!(
            "!core/column-1.0.0 {{name: {name}, data: !core/ndarray-1.1.0 {{source: 0, datatype: int8, \
             byteorder: little, shape: [2], offset: {offset}}}}}"
        )
    };
    let tree = format!(
        "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na:\n  t: \
         !<tag:astropy.org:astropy/table/table-1.0.0>\n    columns: [{}, {}]\n...\n",
        column("x", 0),
        column("y", 2)
    );
    let sizes = [4_u64; 3].map(u64::to_be_bytes).concat();
    let header = [&b"\xd3BLK\0\x30\0\0\0\0\0\0\0\0"[..], &sizes, &[0; 16]].concat();
    [tree.as_bytes(), &header, &[1, 2, 3, 0xfc]].concat()
}

fn dir(node: Option<Node>) -> Arc<dyn Dir> {
    match node {
        Some(Node::Dir(dir)) => dir,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_of_the_document_is_a_view() {
    const VIEWS: &[&dyn View] = &[&arrays::Arrays, &csv::Csv];
    let document = include_str!("../../../../../docs/adding-a-view.md");
    assert!(document.contains(&format!("```rust\n{}```", include_str!("tests/csv.rs"))));

    let source = Arc::new(MemorySource(file_with_table()));
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let file = Arc::new(AsdfFile::open(source, &context, VIEWS).unwrap());
    let names: Vec<_> = file.clone().views().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["arrays", "csv"]);

    let below = dir(dir(csv::Csv.node(&file)).lookup("a".as_ref()).unwrap());
    let Some(Node::File(made)) = below.lookup("t.csv".as_ref()).unwrap() else { panic!("{below:?}") };
    let content = made.content.unwrap();
    let mut text = vec![0; content.len() as usize];
    read_exact_at(&*content, 0, &mut text).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "x,y\n1,3\n2,-4\n");
    assert!(below.lookup("u.csv".as_ref()).unwrap().is_none());
}

/// A server that answers once its flag is set, and the number of requests.
#[derive(Debug, Default)]
struct Server {
    answers: AtomicBool,
    asked: AtomicUsize,
}

impl UrlOpener for Server {
    fn open(&self, _: &str) -> Result<Arc<dyn Source>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if !self.answers.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::System(libc::EIO), "the server can't be reached"));
        }
        let tree = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                    a: !core/ndarray-1.1.0 {data: [1, 2], datatype: int8}\n...\n";
        Ok(Arc::new(MemorySource(tree.into())))
    }
}

#[test]
fn a_server_is_asked_for_referred_files_when_arrays_are_listed_and_again_once_it_may_be_back() {
    let tree = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                r: [{$ref: 'http://h/1.asdf#/a'}, {$ref: 'http://h/2.asdf#/a'}]\n...\n";
    for silence in [Duration::from_secs(3600), SILENCE] {
        let is_back = silence == SILENCE;
        let server = Arc::new(Server::default());
        let cache = Arc::new(Cache::new(1 << 20));
        let context = Context { web: Some(server.clone()), silence, ..Context::new(cache) };
        let views: &[&dyn View] = &[&arrays::Arrays, &refs::Refs];
        let file = Arc::new(AsdfFile::open(Arc::new(MemorySource(tree.into())), &context, views).unwrap());
        let asked = || server.asked.load(Ordering::Relaxed);

        let Some(Node::File(listed)) = refs::Refs.node(&file) else { panic!() };
        assert!(listed.content.is_ok() && Container::arrays(&*file).is_ok());
        assert_eq!(asked(), 0);

        let arrays = dir(dir(arrays::Arrays.node(&file)).lookup("r".as_ref()).unwrap());
        let array = |name: &str| match arrays.lookup(name.as_ref()) {
            Ok(Some(Node::File(made))) => made.content,
            Err(error) => Err(error),
            other => panic!("{other:?}"),
        };
        assert!(array("0.npy").is_err() && array("1.npy").is_err());
        assert!(asked() == 1 || is_back);
        server.answers.store(true, Ordering::Relaxed);
        std::thread::sleep(SILENCE);
        assert!(array("0.npy").is_ok() == is_back && array("1.npy").is_ok() == is_back);
    }
}

/// A server with an array at `a`, and a mapping of two arrays at `tab`.
#[derive(Debug, Default)]
struct Tables {
    answers: AtomicBool,
}

impl UrlOpener for Tables {
    fn open(&self, _: &str) -> Result<Arc<dyn Source>> {
        if !self.answers.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::System(libc::EIO), "HTTP 500"));
        }
        let array = "!core/ndarray-1.1.0 {data: [1, 2], datatype: int8}";
        let tree = format!(
            "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
             a: {array}\ntab: {{x: {array}, y: {array}}}\n...\n"
        );
        Ok(Arc::new(MemorySource(tree.into())))
    }
}

#[test]
fn names_below_an_unreadable_reference_are_unknown_and_appear_once_it_can_be_read() {
    let tree = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                r1: {$ref: 'http://h/1.asdf#/tab'}\nr2: {$ref: 'http://h/1.asdf#/a'}\n\
                in2: {$ref: '#/r1/x'}\nin3: {$ref: '#/in2'}\nall: {$ref: '#/r1'}\nno: {$ref: '#/none/x'}\n...\n";
    let server = Arc::new(Tables::default());
    let context = Context {
        web: Some(server.clone()),
        silence: SILENCE,
        ..Context::new(Arc::new(Cache::new(1 << 20)))
    };
    let views: &[&dyn View] = &[&arrays::Arrays];
    let file = Arc::new(AsdfFile::open(Arc::new(MemorySource(tree.into())), &context, views).unwrap());
    let arrays = dir(arrays::Arrays.node(&file));
    let names = || {
        let mut names = Vec::new();
        let mut take = |name: &std::ffi::OsStr, _| {
            names.push(name.to_str().unwrap().to_owned());
            true
        };
        arrays.list(0, &mut take).unwrap();
        names.join(" ")
    };
    let all = "all all.npy in2 in2.npy in3 in3.npy r1 r1.npy r2 r2.npy";
    assert_eq!(names(), all);
    for name in all.split(' ').filter(|name| !matches!(*name, "r1.npy" | "r2.npy" | "all.npy")) {
        let error = arrays.lookup(name.as_ref()).unwrap_err();
        assert!(error.errno() == libc::EIO && error.message().contains("http://h/1.asdf"), "{name}: {error}");
    }
    assert!(arrays.lookup("none".as_ref()).unwrap().is_none());
    let told = || file.defects().into_iter().map(|defect| defect.what).collect::<Vec<_>>().join("; ");
    assert!(told().contains("in2 can't be read: ") && !told().contains("leaves out in2"), "{}", told());

    server.answers.store(true, Ordering::Relaxed);
    std::thread::sleep(2 * SILENCE);
    assert_eq!(names(), "all in2.npy in3.npy r1 r2.npy");
    let below = dir(arrays.lookup("r1".as_ref()).unwrap());
    for (dir, name) in [(&below, "x.npy"), (&below, "y.npy"), (&arrays, "r2.npy")] {
        assert!(
            matches!(dir.lookup(name.as_ref()), Ok(Some(Node::File(file))) if file.content.is_ok()),
            "{name}"
        );
    }
    assert!(matches!(arrays.lookup("in2.npy".as_ref()), Ok(Some(Node::Link(text))) if text == "r1/x.npy"));
    assert!(!told().contains("can't be read"), "{}", told());
}

/// Returns a file with one block of 100 bytes up to its end, and an array that does not fit in it.
fn file_with_stream() -> Arc<AsdfFile> {
    let array = "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: little, shape: ";
    let tree = format!(
        "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: {array}['*']}}\n\
         b: {array}[1000]}}\n...\n"
    );
    let header = [&b"\xd3BLK\0\x30\0\0\0\x01\0\0\0\0"[..], &[0; 40]].concat();
    let source = Arc::new(MemorySource([tree.as_bytes(), &header, &[7; 100]].concat()));
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    Arc::new(AsdfFile::open(source, &context, &[&arrays::Arrays]).unwrap())
}

#[test]
fn a_streamed_block_has_the_size_of_its_data() {
    let facts = Container::block(&*file_with_stream(), 0).unwrap().facts;
    assert_eq!(facts.data_size, 100);
    let sizes: Vec<_> = facts.iter().map(|fact| (fact.key(), fact.value.to_string())).take(2).collect();
    assert_eq!(sizes, [("data_size", "100".to_owned()), ("used_size", "100".to_owned())]);
}

#[test]
fn omitted_arrays_are_told_without_a_look_at_the_view() {
    let told = |defects: Vec<asdf_file::container::Defect>| {
        defects.into_iter().map(|defect| defect.what).collect::<Vec<_>>()
    };
    let expected = ["line 6: arrays/ leaves out b: it takes 1000 bytes, and block 0 has 100"];
    assert_eq!(told(file_with_stream().check_tree().unwrap()), expected);
    let file = file_with_stream();
    assert!(file.defects().is_empty());
    file.find_omissions(&|_| false);
    assert!(file.defects().is_empty());
    file.find_omissions(&|name| name == "arrays");
    assert_eq!(told(file.defects()), expected);
}
