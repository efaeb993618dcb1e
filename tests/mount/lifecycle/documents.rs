//! The examples in the documents behave as documented.

mod python;

use std::fs;
use std::path::{Path, PathBuf};

use common::daemon::Bench;
use common::site::Site;

/// Documents whose examples are run by a test here: all but those of [`ELSEWHERE`].
const RUN_HERE: [&str; 7] = [
    "README.md",
    "docs/daily-use.md",
    "docs/gsd.md",
    "docs/remote.md",
    "docs/scale.md",
    "docs/semantics.md",
    "docs/views.md",
];

/// Examples that are not run here: the document, a part of the example, and the reason.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("README.md", "scripts/demo ", "tests/scripts.sh runs scripts/demo and scripts/install"),
    ("CONTRIBUTING.md", "scripts/test ", "these commands run the tests"),
    ("CONTRIBUTING.md", "cargo test", "these commands run the tests"),
    ("docs/install.md", "scripts/package", "it builds for minutes; the release runs it"),
    ("docs/install.md", "scripts/install --prefix", "tests/scripts.sh and scripts/test-package run it"),
    ("docs/install.md", "x-systemd.automount", "lines of a file: fstab.rs mounts by such lines"),
    ("docs/install.md", "sudo apt purge", "scripts/test-package runs it in clean installations of Debian"),
    ("docs/daily-use.md", "MOUNTPOINT     SOURCE", "lists all mounts of the machine: listed.rs has the form"),
    (
        "docs/scale.md",
        "--refs s3://",
        "names no bucket of its own: tests/interop reads such references from a server",
    ),
    ("docs/python.md", "pip install", "scripts/test-wheel runs it in clean installations of Debian"),
    ("docs/python.md", "import asdf_mount\n", "tests/python/package runs it"),
    ("docs/python.md", "import xarray\n\n", "tests/python/package runs it"),
    ("docs/python.md", "import icechunk\n", "tests/python/package runs it"),
    ("docs/scale.md", "footprints", "tests/python/package runs it"),
    ("docs/scale.md", "FROM files_at", "tests/python/package runs it"),
    ("docs/scale.md", "pyspark", "scripts/test-spark runs it: Java and Spark take minutes to install"),
    ("docs/adding-a-format.md", "impl Format for Note", "src/format.rs compiles and tests it"),
    ("docs/adding-a-format.md", "const FORMATS", "a line to add, not a program"),
    ("docs/adding-a-view.md", "impl View for Csv", "src/format/asdf/tests.rs compiles and tests it"),
    ("docs/adding-a-view.md", "const VIEWS", "a line to add, not a program"),
];

/// An example of a document.
struct Example {
    /// The document and the line.
    place: String,
    language: String,
    text: String,
}

/// Removes owner and time, which depend on the machine, from a line of `ls -l`, and collapses spaces.
fn without_owner_and_time(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [mode, links, _, _, size, _, _, _, name] if mode.len() == 10 => {
            format!("{mode} {links} {size} {name}")
        }
        _ => line.to_owned(),
    }
}

/// True if a printed line matches a line of the document, where `…` stands for any text.
fn is_like(printed: &str, wanted: &str) -> bool {
    let mut rest = printed;
    let mut parts = wanted.split('…');
    let Some(after_first) = rest.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    rest = after_first;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the examples of a document. Diagrams have no language.
fn all_examples(document: &str) -> Vec<Example> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let (mut found, mut inside) = (Vec::<Example>::new(), false);
    for (number, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(language) => {
                inside = true;
                let place = format!("{document}:{}", number + 2);
                found.push(Example { place, language: language.to_owned(), text: String::new() });
            }
            None if inside => {
                let example = found.last_mut().unwrap();
                example.text.push_str(line);
                example.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "{document}");
    found.retain(|example| !example.language.is_empty());
    found
}

/// Returns the examples of a document that are run here.
fn examples(document: &str) -> Vec<Example> {
    let mut found = all_examples(document);
    found.retain(|example| {
        !ELSEWHERE.iter().any(|(of, part, _)| *of == document && example.text.contains(part))
    });
    assert!(!found.is_empty(), "{document}");
    found
}

/// Runs an example command by command and compares each output. A last line `…` of an output stands for all
/// further lines.
fn run(bench: &Bench, place: &str, example: &str) {
    for step in format!("\n{example}").split("\n$ ").skip(1) {
        let (command, wanted) = step.split_once('\n').unwrap_or((step, ""));
        if command.starts_with("python3") && !bench.shell("python3 -c 'import numpy'").status.success() {
            continue;
        }
        let output = bench.shell(&format!("exec 2>&1; PATH=$T/tools:$PATH; {command}"));
        let printed = String::from_utf8(output.stdout).unwrap();
        let lines = |text: &str| text.trim_end().lines().map(without_owner_and_time).collect::<Vec<_>>();
        let (mut printed, mut wanted) = (lines(&printed), lines(wanted));
        if wanted.last().is_some_and(|last| last == "…") {
            wanted.pop();
            printed.truncate(wanted.len());
        }
        let same = printed.len() == wanted.len()
            && printed.iter().zip(&wanted).all(|(printed, wanted)| is_like(printed, wanted));
        assert!(same, "{place}: {command}\nprinted {printed:#?}\nwanted {wanted:#?}");
    }
}

#[test]
fn every_example_is_run_or_says_where() {
    let documents = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let of_root = ["README.md", "CONTRIBUTING.md"].map(PathBuf::from);
    let mut reasons: Vec<_> = ELSEWHERE.iter().collect();
    for path in documents.filter(|path| path.extension().is_some_and(|it| it == "md")).chain(of_root) {
        let document = path.strip_prefix(root()).unwrap_or(&path).to_str().unwrap();
        for example in all_examples(document) {
            let elsewhere =
                ELSEWHERE.iter().find(|(of, part, _)| *of == document && example.text.contains(part));
            match elsewhere {
                Some(reason) => reasons.retain(|other| *other != reason),
                None => assert!(RUN_HERE.contains(&document), "no test runs {}", example.place),
            }
        }
    }
    assert!(reasons.is_empty(), "no example has these reasons: {reasons:?}");
}

/// The README's examples from the first mount to the unmount form one session.
#[test]
fn the_quick_start_of_the_readme() {
    let bench = Bench::new();
    fs::create_dir(bench.path("examples")).unwrap();
    copy_sample(&bench, "examples/sample.asdf");
    for example in examples("README.md") {
        run(&bench, &example.place, &example.text);
    }
    bench.nothing_is_left();
}

/// The examples of `docs/daily-use.md` begin without a mount.
#[test]
fn what_the_page_on_daily_use_promises() {
    for example in examples("docs/daily-use.md") {
        let bench = Bench::new();
        fs::remove_file(bench.source()).unwrap();
        fs::remove_dir(bench.mountpoint()).unwrap();
        copy_sample(&bench, "galaxy.asdf");
        run(&bench, &example.place, &example.text);
        if example.text.contains("--extract") {
            let sizes =
                [("image.npy", 51328), ("copy/arrays/image.npy", 51328), ("copy/fits/image.fits", 54720)];
            for (name, size) in sizes {
                assert_eq!(fs::metadata(bench.path(name)).unwrap().len(), size, "{name}");
            }
        }
        bench.nothing_is_left();
    }
}

/// The first example of `docs/semantics.md` mounts the file; it is run before each of the others.
#[test]
fn what_the_page_on_saving_promises() {
    let examples = examples("docs/semantics.md");
    let [start, examples @ ..] = &examples[..] else { panic!("no example") };
    assert!(start.language == "sh" && examples.len() >= 5);
    for example in examples {
        let bench = Bench::new();
        fs::remove_file(bench.source()).unwrap();
        fs::remove_dir(bench.mountpoint()).unwrap();
        fs::create_dir(bench.path("examples")).unwrap();
        copy_sample(&bench, "examples/sample.asdf");
        let output = bench.shell(&start.text);
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", start.place);
        run(&bench, &example.place, &example.text);
        bench.shell("asdf-mount -u galaxy");
        bench.nothing_is_left();
    }
}

/// The servers in the examples are replaced by local ones, and the mountpoint by a directory of the bench.
#[test]
fn what_the_page_on_servers_promises() {
    let (web, s3) = (Site::web(|_, reply| reply), Site::s3());
    let sample = fs::read(root().join("examples/sample.asdf")).unwrap();
    for path in ["x.asdf", "data/x.asdf"] {
        web.put(path, sample.clone());
    }
    for path in ["bucket/key.asdf", "bucket/prefix/x.asdf"] {
        s3.put(path, sample.clone());
    }
    let bench = Bench::new();
    let mut commands = 0;
    for example in examples("docs/remote.md") {
        for line in example.text.lines() {
            let line = line.replace("https://host", web.server.url("").trim_end_matches('/'));
            let line = line.replace("/mnt/x", "$T/x");
            let options = format!("asdf-mount -o anonymous,endpoint={}", s3.server.url(""));
            let line = if line.contains("s3://") { line.replace("asdf-mount", &options) } else { line };
            let output = bench.shell(&format!("unset http_proxy HTTP_PROXY all_proxy ALL_PROXY; {line}"));
            assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
            if line.contains("$T/x") {
                let tree = bench.shell("head -qn 1 x/tree.yaml x/*/tree.yaml 2>&-").stdout;
                assert_eq!(String::from_utf8(tree).unwrap(), "#ASDF 1.0.0\n", "{line}");
                let output = bench.shell("asdf-mount -u x");
                assert!(output.status.success(), "{line}: {output:?}");
            } else {
                assert_eq!(fs::metadata(bench.path("image.npy")).unwrap().len(), 51328);
            }
            commands += 1;
        }
    }
    assert!(commands >= 5);
    bench.nothing_is_left();
}

fn copy_sample(bench: &Bench, to: &str) {
    fs::copy(root().join("examples/sample.asdf"), bench.path(to)).unwrap();
}
