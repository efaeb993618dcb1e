//! Help, version and man page.

use std::fs;
use std::process::Command;

use common::daemon::{Bench, succeeded};

fn text(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_has_examples_options_and_statuses() {
    let bench = Bench::new();
    let help = text(&bench, &["--help=all"]);
    for wanted in [
        "Usage: asdf-mount",
        "Examples:",
        "asdf-mount -u /mnt/x",
        "allow_other",
        "Exit status:",
        "cache=SIZE",
        "--generate <WHAT>",
        "\nMount:\n",
        "\nLook, without mounting:\n",
        "\nEdit, without mounting:\n",
        "\nCheck and repair, without mounting:\n",
    ] {
        assert!(help.contains(wanted), "{wanted} is not in\n{help}");
    }
    for brief in ["-h", "--help"] {
        let brief = text(&bench, &[brief]);
        assert!(brief.lines().count() <= 50 && brief.contains("--help=all"), "{brief}");
    }
    assert_eq!(text(&bench, &["--version"]), format!("asdf-mount {}\n", env!("CARGO_PKG_VERSION")));
}

/// `tests/help.txt` has the help in full. After a change of texts write it anew, and read its diff.
#[test]
fn the_help_is_the_one_that_was_read() {
    let help = text(&Bench::new(), &["--help=all"]);
    let read = include_str!("../../help.txt");
    let differs = help.lines().zip(read.lines()).find(|(now, then)| now != then);
    assert!(help == read, "{differs:?}: asdf-mount --help=all >tests/help.txt writes it anew");
}

#[test]
fn the_verbose_version_has_what_a_bug_report_needs() {
    let bench = Bench::new();
    let version = text(&bench, &["-V", "--verbose"]);
    assert!(version.starts_with(&format!("asdf-mount {}\n", env!("CARGO_PKG_VERSION"))), "{version}");
    let fact = |name: &str| {
        let line = version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in\n{version}")).trim().to_owned()
    };
    assert!(fact("codecs").contains("Blosc") && fact("system").contains("Debian"), "{version}");
    assert_eq!(fact("kernel"), fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    assert_eq!((fact("/dev/fuse").as_str(), fact("trial mount").as_str()), ("usable", "works"));
    assert!(fact("FUSE protocol").starts_with("7."), "{version}");
    assert!(fact("FUSE capabilities").contains("readdirplus"), "{version}");
    assert!(fact("fusermount3").contains("/fusermount3, version 3."), "{version}");
    assert!(["on in", "off in", "off: "].iter().any(|begin| fact("user_allow_other").starts_with(begin)));
    assert_eq!(version, text(&bench, &["-vV"]));

    let broken = bench.command(["-vV"]).env("FUSERMOUNT_PATH", "/nowhere/fusermount3").output().unwrap();
    let broken = String::from_utf8(broken.stdout).unwrap();
    assert!(broken.contains("/nowhere/fusermount3, which does not exist"), "{broken}");
    bench.nothing_is_left();
}

#[test]
fn the_man_page_is_sound_roff() {
    let bench = Bench::new();
    fs::write(bench.path("asdf-mount.1"), text(&bench, &["--generate", "man"])).unwrap();
    let page = Command::new("man")
        .args(["--warnings", "-l"])
        .arg(bench.path("asdf-mount.1"))
        .env("MANWIDTH", "80")
        // The terminal supports only ASCII.
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    succeeded(&page);
    let page = String::from_utf8(page.stdout).unwrap();
    for title in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "LOOK, WITHOUT MOUNTING",
        "MOUNT OPTIONS (-o)",
        "EXAMPLES",
        "EXIT STATUS",
        "FILES",
        "BUGS",
        "SEE ALSO",
    ] {
        assert!(page.lines().any(|line| line == title), "{title} is not in\n{page}");
    }
    assert!(page.contains(r"as '\,'"), "{page}");
    let long: Vec<_> = page.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_bench_measures_what_cargo_built() {
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let asked = "from benches import coded, machine; print(machine.BINARY, coded.LIBRARY, sep='\\n')";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", asked]).current_dir(scripts).env("CARGO_TARGET_DIR", "/built");
    let output = python.output().unwrap();
    succeeded(&output);
    let paths = String::from_utf8(output.stdout).unwrap();
    assert_eq!(paths, "/built/release/asdf-mount\n/built/library-bench/release/library-bench\n");
}
