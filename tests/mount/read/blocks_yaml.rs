//! `.asdf-mount/blocks.yaml` of real mounts.

use std::fs;
use std::process::Command;

use common::asdf::{AsdfBuilder, Block, sample};
use common::mount::{Mounted, fresh_folder};
use common::python::python;

fn table(mount: &Mounted) -> String {
    let path = mount.path(".asdf-mount/blocks.yaml");
    let size = fs::metadata(&path).unwrap().len();
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.len() as u64, size);
    assert!(text.lines().all(|line| line.len() < 80 && !line.ends_with(' ')), "{text}");
    text
}

fn tree(paths: &[&str]) -> String {
    let array = |n: usize| {
        format!("!core/ndarray-1.1.0 {{source: {n}, datatype: uint8, byteorder: little, shape: [9]}}")
    };
    let nodes: String =
        paths.iter().enumerate().map(|(n, path)| format!("  {path}: {}\n", array(n / 2))).collect();
    format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nroman:\n{nodes}...\n")
}

#[test]
fn it_says_which_arrays_use_each_block() {
    let folder = fresh_folder();
    let blocks = [1, 2].map(|seed| Block::new(sample(9000, seed)));
    let built = AsdfBuilder::new().tree(tree(&["data", "err", "dq"])).blocks(blocks).build();
    let mount = super::SOURCES.file(built.save(folder.path(), "a.asdf"));
    let rows = table(&mount);
    let row = |path: &str, rows: &str| rows.lines().find(|line| line.contains(path)).unwrap_or("").to_owned();
    assert!(row("roman.data", &rows).starts_with("- {block: 0, "), "{rows}");
    assert!(row("roman.err", &rows).starts_with("- {block: 0, "), "{rows}");
    assert!(row("roman.dq", &rows).starts_with("- {block: 1, "), "{rows}");
    // Any YAML parser can read the file.
    let script = "import sys, yaml\nprint([r['arrays'] for r in yaml.safe_load(open(sys.argv[1]))])";
    let output = Command::new(python())
        .args(["-c", script])
        .arg(mount.path(".asdf-mount/blocks.yaml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim(), "[['roman.data', 'roman.err'], ['roman.dq']]", "{output:?}");
    mount.unmount();
}

#[test]
fn keys_are_readable_and_differ() {
    let folder = fresh_folder();
    let blocks = [1, 2].map(|seed| Block::new(sample(9000, seed)));
    let paths = ["1", "'1'", "\"für \\u00b0C\"", "\"\\u2192\\U0001F600\""];
    let built = AsdfBuilder::new().tree(tree(&paths)).blocks(blocks).build();
    let mount = super::SOURCES.file(built.save(folder.path(), "a.asdf"));
    let rows = table(&mount);
    assert!(rows.contains("arrays: [roman.1, \"roman.1~1\"]"), "{rows}");
    assert!(rows.contains("arrays: [\"roman.für °C\", \"roman.→😀\"]"), "{rows}");
    mount.unmount();
}

#[test]
fn it_is_had_of_many_blocks() {
    let folder = fresh_folder();
    let count = 20_000;
    let names: Vec<String> = (0..2 * count).map(|n| format!("a{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let built =
        AsdfBuilder::new().tree(tree(&names)).blocks((0..count).map(|_| Block::new(vec![7; 9]))).build();
    let mount = super::SOURCES.file(built.save(folder.path(), "a.asdf"));
    let rows = table(&mount);
    assert_eq!(rows.matches("- {block: ").count(), count);
    let last = rows.lines().nth_back(3).unwrap();
    assert!(last.starts_with("- {block: 19999, readable: true, arrays: [roman.a39998, "), "{last}");
    mount.unmount();
}
