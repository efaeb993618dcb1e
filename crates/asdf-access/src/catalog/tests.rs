use std::fs;
use std::path::Path;

use seekable::error::Error;
use serde_json::{Value, json};

use super::*;
use crate::File;

fn lines_of(paths: &[PathBuf], since: Option<PathBuf>) -> Vec<Line> {
    let mut lines = Vec::new();
    let take = &mut |line| {
        lines.push(line);
        Ok(())
    };
    each(paths.iter().cloned(), &Request { since, ..Request::default() }, take).unwrap();
    lines
}

fn catalog(paths: &[PathBuf], since: Option<PathBuf>) -> Vec<Value> {
    lines_of(paths, since).iter().map(|line| serde_json::from_slice(&line.text).unwrap()).collect()
}

/// Returns the catalogue as it is saved.
fn saved(paths: &[PathBuf], since: Option<PathBuf>) -> String {
    let lines = lines_of(paths, since).into_iter();
    lines.map(|line| String::from_utf8(line.text).unwrap() + "\n").collect()
}

/// Returns a catalogue whose lines have a mark, which shows which lines are copies.
fn marked(paths: &[PathBuf]) -> String {
    saved(paths, None).replace("\"format\":\"asdf\"", "\"format\":\"copy\"")
}

fn tree(name: &str) -> String {
    format!(
        "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/core/\n---\nname: {name}\na: !ndarray-1.1.0 [1, 2]\n...\n"
    )
}

/// Returns the path of a file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn each_file_has_a_line_in_the_order_of_the_names() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..50 {
        fs::write(folder.path().join(format!("f{n:02}.asdf")), tree(&format!("n\"{n}"))).unwrap();
    }
    fs::write(folder.path().join("other.txt"), "text").unwrap();
    let paths = vec![folder.path().to_owned(), folder.path().join("other.txt"), "/none".into()];
    let lines = catalog(&paths, None);
    assert_eq!(lines.len(), 52);
    for (n, line) in lines[..50].iter().enumerate() {
        assert_eq!(line["tree"], json!({"name": format!("n\"{n}"), "a": [1, 2]}));
        assert_eq!(line["uri"], format!("file://{}", folder.path().join(format!("f{n:02}.asdf")).display()));
        let array = json!([{"path": "a", "datatype": "int64", "shape": [2], "source": "inline"}]);
        assert_eq!((&line["arrays"], &line["blocks"], &line["format"]), (&array, &json!([]), &json!("asdf")));
    }
    assert!(lines[50]["error"].as_str().unwrap().contains("is not an ASDF file"));
    assert_eq!(lines[51]["uri"], "file:///none");
}

#[test]
fn lines_of_unchanged_files_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a.asdf", "b.asdf", "c.asdf"] {
        fs::write(path(name), tree(name)).unwrap();
    }
    let paths = ["a.asdf", "b.asdf", "c.asdf"].map(path);
    // The last line is cut off, as after a crash.
    let old = marked(&paths);
    fs::write(path("old"), &old[..old.len() - 2]).unwrap();
    fs::write(path("b.asdf"), tree("another")).unwrap();
    let is_copy: Vec<bool> = lines_of(&paths, Some(path("old"))).iter().map(|line| line.is_copy).collect();
    assert_eq!(is_copy, [true, false, false]);
    let lines = catalog(&paths, Some(path("old")));
    let formats: Vec<&Value> = lines.iter().map(|line| &line["format"]).collect();
    assert_eq!(formats, ["copy", "asdf", "asdf"]);
    assert_eq!(lines[1]["tree"]["name"], "another");
}

/// Such lines are read in several pieces.
#[test]
fn long_lines_are_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let names = [(0, 10), (1, 20_000), (2, 300_000), (3, 10)].map(|(n, len)| {
        let path = folder.path().join(format!("{n}.asdf"));
        fs::write(&path, tree(&"x".repeat(len))).unwrap();
        path
    });
    let old = folder.path().join("old");
    let marked = marked(&names);
    fs::write(&old, &marked).unwrap();
    assert_eq!(saved(&names, Some(old)), marked);
}

#[test]
fn the_last_line_of_a_file_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.asdf");
    let old = folder.path().join("old");
    let mut lines = String::new();
    for name in ["one", "another", "a third"] {
        fs::write(&file, tree(name)).unwrap();
        lines += &marked(std::slice::from_ref(&file));
    }
    fs::write(&old, lines).unwrap();
    let line = &catalog(&[file], Some(old))[0];
    assert_eq!((&line["format"], &line["tree"]["name"]), (&json!("copy"), &json!("a third")));
}

/// Two such names have one URI, so their lines are not copied.
#[test]
fn a_file_with_a_name_that_is_not_utf_8_is_read_again() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.asdf"));
    fs::write(&file, tree("a")).unwrap();
    let old = folder.path().join("old");
    fs::write(&old, marked(std::slice::from_ref(&file))).unwrap();
    assert_eq!(catalog(&[file], Some(old))[0]["format"], "asdf");
}

#[test]
fn an_older_catalogue_from_a_pipe_is_refused() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    let request = Request { since: Some(pipe.into()), ..Request::default() };
    let error = each([], &request, &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("is a pipe"), "{error}");
}

/// Arrays and tree come from one pass. A problem of one must not change the other.
#[test]
fn the_tree_is_that_of_tree_json_and_the_arrays_are_there_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.asdf");
    let array = "a: !ndarray-1.1.0 [1, 2]\n";
    // The fast parser leaves the third text to libyaml from the second key on.
    for (nodes, has_tree, arrays) in [
        ("b: {c: [1, 2.50, x], d: \"x\\n  y\"}\n", true, 1),
        ("b: &b {c: 1}\nd: {<<: *b, e: 2}\nf: *b\n", true, 1),
        ("b: 1\n? c\n: 2\n", true, 1),
        ("b: *none\n", false, 1),
        ("[b]: 1\n", false, 1),
        ("b: 1\n--- 2\n", false, 1),
        ("b: [\n", false, 0),
    ] {
        let text = tree("t").replace(array, &format!("{array}{nodes}"));
        fs::write(&file, &text).unwrap();
        let line = &catalog(std::slice::from_ref(&file), None)[0];
        let expected = asdf_views::views::json::of_text(text.as_bytes(), false);
        let expected = expected.map(|json| serde_json::from_slice(&json).unwrap());
        assert_eq!(expected.is_ok(), has_tree, "{nodes}");
        assert_eq!(line["tree"], expected.clone().unwrap_or(Value::Null), "{nodes}");
        let error = expected.err().map_or(Value::Null, |error| json!(error.message()));
        assert_eq!((&line["tree_error"], &line["array_count"]), (&error, &json!(arrays)), "{nodes}");
    }
}

/// Short keys of a tree become long paths. DuckDB reads lines of up to 32 MiB by the statement in docs/scale.md.
#[test]
fn a_line_is_shorter_than_32_mib() {
    const ARRAYS: usize = 9_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.asdf");
    let open = format!("{{{}: ", "k".repeat(240)).repeat(8);
    let close = "}".repeat(8);
    let arrays = "!ndarray-1.1.0 [1],\n".repeat(ARRAYS);
    let mut bytes = tree("t").replace("...\n", &format!("b: {open}[\n{arrays}]{close}\n...\n")).into_bytes();
    let block = [&b"\xd3BLK\0\x30"[..], &[0; 48]].concat();
    bytes.extend(block.repeat((1 << 16) + 9));
    fs::write(&file, &bytes).unwrap();
    let line = &catalog(&[file], None)[0];
    assert_eq!((&line["array_count"], &line["block_count"]), (&json!(ARRAYS + 1), &json!((1 << 16) + 9)));
    for (table, least) in [("arrays", 3000), ("blocks", 30_000)] {
        let count = line[table].as_array().unwrap().len();
        let len = line[table].to_string().len();
        assert!(count > least && len <= 7 << 20 && len > 6 << 20, "{table}: {count}, {len} bytes");
    }
}

/// A file of each format that is in the repository.
#[test]
fn every_format_has_arrays_and_a_tree() {
    let paths = ["sample.asdf", "trajectory.gsd"].map(|name| repository("examples").join(name));
    let lines = catalog(&paths, None);
    assert_eq!(lines[0]["arrays"][0]["datatype"], "int16", "{}", lines[0]["arrays"]);
    assert_eq!(lines[0]["blocks"][0]["data_size"], 51_200);
    assert_eq!(lines[1]["tree"]["schema"], "hoomd", "{}", lines[1]["tree"]);
    assert!(lines[1]["arrays"].as_array().unwrap().iter().any(|array| array["path"] == "configuration/box"));
}

#[test]
fn types_of_all_formats_are_written_as_asdf_writes_them() {
    let fixtures = repository("tests/fixtures");
    let field =
        |name: &str, datatype: Value| json!({"name": name, "datatype": datatype, "byteorder": "little"});
    for (name, expected) in [
        ("blosc2/scalar.b2nd", json!("float64")),
        ("blosc2/bool.b2nd", json!("bool8")),
        ("blosc2/text.b2nd", json!(["ucs4", 3])),
        ("blosc2/dates.b2nd", json!("<M8[s]")),
        ("bloscpack/bloscpack0.16.0-blosc1.11.4_np_f4_2d.blp", json!("float32")),
        ("bloscpack/bloscpack0.16.0-blosc1.11.4_np_unicode.blp", json!(["ucs4", 3])),
        (
            "bloscpack/bloscpack0.7.1-blosc1.2.1_record.blp",
            json!([
                field("a", json!("int32")),
                field("b", json!("float64")),
                field("c", json!(["ascii", 3]))
            ]),
        ),
    ] {
        let lines = catalog(&[fixtures.join(name)], None);
        assert_eq!(lines[0]["arrays"][0]["datatype"], expected, "{name}: {}", lines[0]);
    }
}

/// Names of the files in a directory that were opened while `run` ran.
fn opened(folder: &Path, run: impl FnOnce()) -> Vec<String> {
    use rustix::fs::inotify;
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, folder, inotify::WatchFlags::OPEN).unwrap();
    run();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_str().unwrap().to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

#[test]
fn an_unchanged_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    for name in ["a.asdf", "b.asdf", "c.asdf"] {
        fs::write(data.join(name), tree(name)).unwrap();
    }
    let paths = [data.clone()];
    let mut catalogue = String::new();
    assert_eq!(opened(&data, || catalogue = saved(&paths, None)), ["a.asdf", "b.asdf", "c.asdf"]);
    let old = folder.path().join("old");
    fs::write(&old, catalogue).unwrap();
    fs::write(data.join("b.asdf"), tree("another")).unwrap();
    let mut lines = Vec::new();
    assert_eq!(opened(&data, || lines = catalog(&paths, Some(old))), ["b.asdf"]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_file_whose_name_promises_a_format_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("empty.asdf", &b""[..]),
        ("page.ASDF", b"<!DOCTYPE html><title>404 Not Found</title>"),
        ("sound.asdf", tree("x").as_bytes()),
        ("text.txt", b"text"),
        ("wrong.blp", b"text"),
        ("zeros.gsd", &[0; 1000]),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let lines = lines_of(&[folder.path().to_owned()], None);
    let is_error: Vec<bool> = lines.iter().map(|line| line.is_error).collect();
    assert_eq!(is_error, [true, true, false, true, true], "{lines:?}");
    for line in lines {
        let fields: Value = serde_json::from_slice(&line.text).unwrap();
        assert_eq!(fields.get("error").is_some(), line.is_error, "{fields}");
    }
}

#[test]
fn an_open_file_has_the_same_line_and_is_not_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.asdf");
    fs::write(&file, tree("a")).unwrap();
    let expected = lines_of(std::slice::from_ref(&file), None).swap_remove(0).text;
    let open = File::open(&file).unwrap();
    // Another file at the path, with another size.
    fs::remove_file(&file).unwrap();
    fs::write(&file, tree("another")).unwrap();
    let mut text = Vec::new();
    assert_eq!(opened(folder.path(), || text = line(&open).unwrap()), [""; 0]);
    assert_eq!(String::from_utf8(text), String::from_utf8(expected));
}

#[test]
fn bytes_in_memory_have_no_time() {
    let open = File::from_bytes(tree("a")).unwrap();
    let fields: Value = serde_json::from_slice(&line(&open).unwrap()).unwrap();
    assert_eq!((&fields["size"], &fields["mtime"]), (&json!(tree("a").len()), &Value::Null));
    assert_eq!(fields["tree"]["name"], "a");
}

#[test]
fn an_error_of_the_caller_ends_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<PathBuf> = (0..100).map(|n| folder.path().join(format!("{n}.asdf"))).collect();
    let mut count = 0;
    let take = &mut |_| {
        count += 1;
        if count == 3 { Err(Error::unsupported("no more")) } else { Ok(()) }
    };
    assert_eq!(each(names, &Request::default(), take).unwrap_err().message(), "no more");
    assert_eq!(count, 3);
}
