//! The examples in the documents behave as documented.

use std::fs;
use std::path::Path;

use crate::common::daemon::Bench;

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

/// Returns the `console` examples of a document, each with its first line number.
fn examples(document: &str) -> Vec<(usize, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).unwrap();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        match line {
            "```console" => {
                inside = true;
                found.push((number + 2, String::new()));
            }
            "```" => inside = false,
            _ if inside => {
                let (_, example) = found.last_mut().unwrap();
                example.push_str(line);
                example.push('\n');
            }
            _ => {}
        }
    }
    found
}

/// Runs an example command by command and compares each output.
fn run(bench: &Bench, place: &str, example: &str) {
    for step in format!("\n{example}").split("\n$ ").skip(1) {
        let (command, wanted) = step.split_once('\n').unwrap_or((step, ""));
        if command.starts_with("python3") && !bench.shell("python3 -c 'import numpy'").status.success() {
            continue;
        }
        let output = bench.shell(&format!("exec 2>&1; {command}"));
        let printed = String::from_utf8(output.stdout).unwrap();
        let lines = |text: &str| text.trim_end().lines().map(without_owner_and_time).collect::<Vec<_>>();
        let (printed, wanted) = (lines(&printed), lines(wanted));
        let same = printed.len() == wanted.len()
            && printed.iter().zip(&wanted).all(|(printed, wanted)| is_like(printed, wanted));
        assert!(same, "{place}: {command}\nprinted {printed:#?}\nwanted {wanted:#?}");
    }
}

/// The README's examples from the first mount to the unmount form one session.
#[test]
fn the_quick_start_of_the_readme() {
    let bench = Bench::new();
    fs::create_dir(bench.path("examples")).unwrap();
    copy_sample(&bench, "examples/sample.asdf");
    let examples = examples("README.md");
    let first = examples.iter().position(|(_, example)| example.contains("asdf-mount galaxy.asdf galaxy"));
    let last = examples.iter().position(|(_, example)| example.contains("--extract galaxy.asdf"));
    for (line, example) in &examples[first.unwrap()..=last.unwrap()] {
        run(&bench, &format!("README.md:{line}"), example);
    }
    bench.nothing_is_left();
}

/// The examples of this page begin without a mount.
#[test]
fn what_the_page_on_daily_use_promises() {
    let examples = examples("docs/daily-use.md");
    assert!(examples.len() >= 3);
    for (line, example) in examples {
        let bench = Bench::new();
        fs::remove_file(bench.source()).unwrap();
        fs::remove_dir(bench.mountpoint()).unwrap();
        copy_sample(&bench, "galaxy.asdf");
        run(&bench, &format!("docs/daily-use.md:{line}"), &example);
        bench.nothing_is_left();
    }
}

#[test]
fn what_the_page_on_saving_promises() {
    let examples = examples("docs/semantics.md");
    assert!(examples.len() >= 5);
    for (line, example) in examples {
        let bench = Bench::new();
        fs::remove_file(bench.source()).unwrap();
        fs::remove_dir(bench.mountpoint()).unwrap();
        fs::create_dir(bench.path("galaxy")).unwrap();
        copy_sample(&bench, "galaxy.asdf");
        run(&bench, "the mount", "$ asdf-mount galaxy.asdf galaxy\n");
        run(&bench, &format!("docs/semantics.md:{line}"), &example);
        bench.shell("asdf-mount -u galaxy");
        bench.nothing_is_left();
    }
}

fn copy_sample(bench: &Bench, to: &str) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
    fs::copy(sample, bench.path(to)).unwrap();
}
