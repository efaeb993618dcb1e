//! `--info`, and `.asdf-mount/info.txt`.

use std::fs;

use crate::common::daemon::{Bench, SAMPLE, failed, succeeded};
use crate::common::site::Site;

fn printed(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_file_is_described_on_one_screen_with_and_without_a_mount() {
    let bench = Bench::of_sample();
    let source = bench.source();
    let name = source.file_name().unwrap().to_str().unwrap();
    let here = printed(&bench, &["--info", source.to_str().unwrap()]);
    for line in
        ["\nfilter     V\n", "\nimage: ndarray int16 (160, 160) bzp2 18.0 kB\n", "\n  magnitude: float32\n"]
    {
        assert!(here.contains(line), "{line}{here}");
    }
    let daemon = bench.mount(&bench.mountpoint());
    let path = bench.mountpoint().join(".asdf-mount/info.txt");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), text.len() as u64);
    assert_eq!(text, here.replacen(source.to_str().unwrap(), name, 1));
    succeeded(&bench.run(["-u".as_ref(), bench.mountpoint().as_os_str()]));
    daemon.ends();
    // Nothing is coloured or cut beside a terminal; 20 columns are kept.
    let narrow =
        bench.command(["--info".as_ref(), source.as_os_str()]).env("COLUMNS", "20").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 20) && !narrow.contains('\u{1b}'), "{narrow}");
}

#[test]
fn a_terminal_has_colours_unless_they_are_unwanted() {
    let bench = Bench::of_sample();
    let on_terminal = |environment: &str| {
        let line = format!(
            "env {environment} TERM=xterm script -qec '{} --info {}' /dev/null </dev/null",
            env!("CARGO_BIN_EXE_asdf-mount"),
            bench.source().display()
        );
        String::from_utf8(bench.shell(&line).stdout).unwrap()
    };
    assert!(on_terminal("-u NO_COLOR").contains("\u{1b}[36m"));
    assert!(!on_terminal("NO_COLOR=1").contains('\u{1b}'));
}

#[test]
fn a_directory_has_a_line_for_each_file() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    fs::copy(SAMPLE, bench.path("data/galaxy.asdf")).unwrap();
    fs::write(bench.path("data/empty.asdf"), "#ASDF 1.0.0\n").unwrap();
    fs::write(bench.path("data/notes.txt"), "text").unwrap();
    let data = bench.path("data");
    let rows = printed(&bench, &["--info", data.to_str().unwrap()]);
    let words: Vec<Vec<&str>> = rows.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["FILE", "SIZE", "PRODUCT", "FILTER", "EXPOSURE", "TARGET"], "{rows}");
    assert_eq!(words[1][3..], ["asdf", "-", "-", "-"], "{rows}");
    assert_eq!(words[2][3..], ["asdf", "V", "1200.0", "s", "Sample", "Galaxy"], "{rows}");
    assert_eq!(words.len(), 3);
    // In a narrow terminal, other columns are cut before the filter; a program gets all of a long line.
    let tree = format!(
        "meta: {{model_type: {}, telescope: ROMAN, instrument: {{name: WFI, filter: F158}}}}\n",
        "Long".repeat(40)
    );
    let head = "#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n";
    fs::write(bench.path("data/long.asdf"), format!("{head}{tree}...\n")).unwrap();
    let rows = printed(&bench, &["--info", data.to_str().unwrap()]);
    assert!(
        rows.contains(&"Long".repeat(30)) && rows.contains("F158") && rows.contains("ROMAN WFI"),
        "{rows}"
    );
    let narrow = bench.command(["--info", "data"]).env("COLUMNS", "60").output().unwrap();
    let rows = String::from_utf8(narrow.stdout).unwrap();
    assert!(rows.contains("F158") && rows.lines().all(|row| row.chars().count() <= 60), "{rows}");
    let missing = bench.run(["--info", "missing.asdf"]);
    assert!(failed(&missing, 1).contains("missing.asdf"));
    failed(&bench.run(["--info"]), 2);
    failed(&bench.run(["--info", "-L", "0", "x"]), 2);
}

#[test]
fn a_file_on_a_server_is_described() {
    let bench = Bench::new();
    let site = Site::web(|_, reply| reply);
    site.put("galaxy.asdf", fs::read(SAMPLE).unwrap());
    let url = site.server.url("/galaxy.asdf");
    let text = printed(&bench, &["--info", &url]);
    assert!(text.contains("\nmask: ndarray uint8 (160, 160) zlib 77 B\n"), "{text}");
    let requests = site.asked().len();
    assert!(requests <= 3, "{requests}");
}
