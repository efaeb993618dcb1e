//! Texts accepted by a save, compared with Python asdf: current asdf opens what is saved as the same data. With an older
//! version (`rare`), a variant is saved if and only if both do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use asdf_file::edit::check::{Old, Validation, check};

use common::asdf::{AsdfBuilder, Block};
use common::mount::fresh_folder;
use common::python::{python, run};

mod variants;

use variants::{KNOWN, Variant, variants};

/// The content of the blocks: the elements of `data`, and a mask of six elements.
const BLOCKS: [&[u8]; 2] = [
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    &[0, 1, 0, 1, 0, 1],
];

/// Returns the head of a file of this version of the standard, with these lines at the end of the tree.
fn head(standard: &str, lines: &str) -> String {
    let version = match standard {
        "1.6.0" => "1.1.0",
        "1.7.0" => "1.2.0",
        _ => "1.0.0",
    };
    let line = if standard.is_empty() { String::new() } else { format!("#ASDF_STANDARD {standard}\n") };
    let root = if standard.is_empty() || standard == "1.0.0" { "1.0.0" } else { "1.1.0" };
    let end = if lines.contains("\n...\n") { "" } else { "...\n" };
    let text = format!(
        "#ASDF 1.0.0\n{line}%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-{root}\nname: first light\n\
         data: !A {{source: 0, datatype: uint8, byteorder: little, shape: [24]}}\n{lines}\n{end}"
    );
    text.replace("!A", &format!("!core/ndarray-{version}")).replace("!I", &format!("!core/integer-{version}"))
}

/// Writes the file after a save of `text`; returns true if the text is accepted.
fn write(path: &Path, variant: &Variant) -> bool {
    let (old, new) = (head(&variant.standard, &variant.was), head(&variant.standard, &variant.lines));
    let sizes: Vec<u64> = BLOCKS.iter().map(|block| block.len() as u64).collect();
    let accepted = check(new.as_bytes(), &Old::of(old.as_bytes(), None), &sizes, Validation::Strict);
    let text = accepted.as_ref().map_or(new.as_bytes(), |accepted| &accepted.text);
    let blocks = BLOCKS.map(|block| Block::new(block.to_vec()));
    fs::write(path, AsdfBuilder::new().head(text).no_tree().blocks(blocks).build().bytes).unwrap();
    accepted.is_ok()
}

#[test]
fn what_is_saved_is_opened_by_python_as_the_same_data() {
    compare(&[python()]);
}

/// Compares the accepted texts with what each Python opens. If an older Python is among them, compares the refused texts,
/// too: today's opens some that older ones do not.
pub(crate) fn compare(pythons: &[PathBuf]) {
    let with_older = pythons.len() > 1;
    let folder = fresh_folder();
    let variants = variants();
    let accepted: Vec<bool> = variants
        .iter()
        .enumerate()
        .map(|(n, variant)| write(&folder.path().join(format!("{n:04}.asdf")), variant))
        .collect();
    let found = |python: &Path| -> Vec<String> {
        let told = run(python, "open_saved.py", [folder.path()]);
        told.lines().map(|line| line.split_once('\t').unwrap().1.to_owned()).collect()
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = pythons.iter().map(|python| scope.spawn(|| found(python))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    let mut wrong = String::new();
    let mut known: BTreeMap<&str, &str> =
        KNOWN.iter().flat_map(|(lines, why)| lines.iter().map(|lines| (*lines, *why))).collect();
    for (n, variant) in variants.iter().enumerate() {
        let same = found.iter().all(|found| found[n] == variant.reads);
        let lines = variant.lines.as_str();
        if same != accepted[n] && (accepted[n] || with_older) && known.remove(lines).is_none() {
            let found: Vec<_> = found.iter().map(|found| &found[n]).collect();
            let done = if accepted[n] { "saved" } else { "refused" };
            wrong += &format!(
                "{done} in {:?}: {lines}\n    was {:?}, reads {}\n    Python: {found:?}\n",
                variant.standard, variant.was, variant.reads
            );
        }
    }
    assert!(wrong.is_empty(), "{} variants\n{wrong}", variants.len());
    assert!(!with_older || known.is_empty(), "no differences any more: {known:?}");
}
