//! Many saves at once on a disk that becomes full: each file is the old one or the new one at once, without a recovery.

use std::ffi::OsString;
use std::fs::{self, File};

use asdf_file::edit::SaveOptions;

use crate::files::{Parts, block};
use common::disk::Disk;
use common::mount::program;

const FILES: usize = 100;

/// Returns the text number `n`, with a value.
fn text(n: usize, name: &str) -> Vec<u8> {
    let comments = "# a comment that makes the text longer\n".repeat(n % 7 * 40);
    let array = "!core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [9000]}";
    format!(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{comments}\
         name: {name}\ndata: {array}\n...\n"
    )
    .into_bytes()
}

#[test]
fn many_saves_at_once_leave_old_files_and_new_ones() {
    for (kind, size) in [
        ("ext4 of 1 KiB", 32),
        ("ext4", 32),
        ("xfs of 1 KiB", 320),
        ("xfs", 320),
        ("tmpfs", 32),
        ("btrfs", 128),
        ("btrfs of two kinds of room", 160),
    ] {
        // Files with two names are written over where the file system can't insert.
        for linked in [false, true] {
            // btrfs needs more room for its own tables.
            let more = if kind.starts_with("btrfs") { 18_000 } else { 0 };
            for (name, free) in [
                ("a longer name ".repeat(600), 400),
                ("a longer name ".repeat(600), 1200),
                ("b".to_owned(), 60),
            ] {
                save_all(
                    &Disk::new(kind, size),
                    &format!("{kind}, {linked}, {free}"),
                    linked,
                    name.trim_end(),
                    (free + more) << 10,
                );
            }
        }
    }
}

fn save_all(disk: &Disk, shown: &str, linked: bool, name: &str, free: u64) {
    let folder = disk.path();
    let old: Vec<_> = (0..FILES)
        .map(|n| Parts {
            text: text(n, "a"),
            blocks: vec![block(&[n as u8; 9000], 9000, 0)],
            ..Parts::default()
        })
        .collect();
    let paths: Vec<_> = (0..FILES).map(|n| folder.join(format!("{n}.asdf"))).collect();
    fs::create_dir(folder.join("other names")).unwrap();
    for (path, parts) in paths.iter().zip(&old) {
        fs::write(path, parts.bytes()).unwrap();
        if linked {
            fs::hard_link(path, folder.join("other names").join(path.file_name().unwrap())).unwrap();
        }
    }
    let ballast = File::create(folder.join("ballast")).unwrap();
    crate::plans::fill(&ballast, free);
    let run = |arguments: &[OsString]| {
        let mut command = std::process::Command::new(program());
        command.args(arguments).args(&paths).env("XDG_STATE_HOME", folder.join("state"));
        command.output().unwrap()
    };
    let done = run(&["--set".into(), format!("name={name}").into(), "-j".into(), "16".into()]);
    let mut new = 0;
    for (n, (path, parts)) in paths.iter().zip(&old).enumerate() {
        let bytes = fs::read(path).unwrap();
        let is_new = bytes == parts.saved(&text(n, name), &SaveOptions::default()).bytes();
        new += usize::from(is_new);
        assert!(is_new || bytes == parts.bytes(), "{shown}: {} is neither: {done:?}", path.display());
    }
    // On a full btrfs, even removing a new file can fail; the next save removes it.
    let journals = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let journals: Vec<_> =
        journals.filter(|name| name.to_string_lossy().contains("asdf-mount-journal")).collect();
    assert!(journals.is_empty(), "{shown}: {journals:?}, {done:?}");
    println!("{shown}: {new} of {FILES} saved");
}
