//! Files whose block headers are damaged or odd: a block is never shown under another's number, and Python
//! asdf, where it reads the array, does not see other bytes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::asdf::{AsdfBuilder, Block, Index, sample};
use crate::common::mount::{Mounted, fresh_folder, program};
use crate::common::python::{old_python, python, run};

/// Where in a header something stands, and what is written there.
const DAMAGES: [(usize, &[u8]); 17] = [
    (0, b"?"),
    (0, b"\0\0\0\0"),
    (4, b"\x10\0"),
    (4, b"\x10\0\x80\0\0\0"),
    (4, b"\0\x10"),
    (4, b"\0\x31"),
    (4, b"\xff\xff"),
    (6, b"\x80\0\0\0"),
    (6, b"\x80\0\0\x01"),
    (6, b"\xff\xff\xff\xff"),
    (6, b"\0\0\0\x02"),
    (10, b"what"),
    (14, &[0xff; 8]),
    (14, b"\0\0\0\0\0\0\0\x08"),
    (22, b"\0\0\0\0\0\x10\0\0"),
    (14, b"\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0"),
    (0, &[0; 54]),
];

/// What can be read of a file, up to the first error.
fn shown(path: &Path) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 512]);
    if let Ok(mut file) = fs::File::open(path) {
        while let Ok(read @ 1..) = file.read(&mut piece) {
            bytes.extend(&piece[..read]);
        }
    }
    bytes
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn no_block_is_shown_under_anothers_number_and_python_sees_no_other_bytes() {
    let folder = fresh_folder();
    let mut files: Vec<(PathBuf, String, bool)> = Vec::new();
    let blocks = [1, 2].map(|seed| Block::new(sample(6000, seed)));
    let truth: Vec<Vec<u8>> = [1, 2].map(|seed| sample(6000, seed)).into();
    for (index, padding) in [(Index::Absent, 0), (Index::Absent, 500), (Index::Right, 0), (Index::Right, 500)]
    {
        let built = AsdfBuilder::new().padding(vec![0; padding]).blocks(blocks.clone()).index(index.clone());
        let built = built.build();
        for (n, (at, damage)) in (0..2).flat_map(|n| DAMAGES.map(|damage| (n, damage))) {
            let mut bytes = built.bytes.clone();
            let at = built.blocks[n].offset as usize + at;
            bytes[at..at + damage.len()].copy_from_slice(damage);
            let path = folder.path().join(format!("{}.asdf", files.len()));
            fs::write(&path, bytes).unwrap();
            let what = format!("{index:?}, {padding}: block {n}, {at}: {}", damage.escape_ascii());
            // Nothing tells a header without a magic, an index or sizes from padding.
            let nothing_left = damage.len() == 54 && index == Index::Absent;
            files.push((path, what, nothing_left));
        }
    }
    let paths: Vec<_> = files.iter().map(|(path, ..)| path).collect();
    let pythons = [python(), old_python()].map(|python| run(&python, "read_arrays.py", &paths));
    let mount = Mounted::file(folder.path());
    for (n, (path, what, nothing_left)) in files.iter().enumerate() {
        let check = Command::new(program()).arg("--check").arg(path).output().unwrap();
        let odd_flags =
            what.ends_with("\\x80\\x00\\x00\\x00") && !what.contains("\\x10") || what.ends_with("\\x02");
        assert_eq!(check.status.success(), odd_flags, "{what}: {check:?}");
        for (block, truth) in truth.iter().enumerate() {
            let bytes = shown(&mount.path(path.file_name().unwrap()).join(format!("blocks/{block}.bin")));
            let common = bytes.len().min(truth.len());
            let right = bytes[..common] == truth[..common];
            for read in &pythons {
                let read = read.lines().nth(n).unwrap().split(' ').nth(block).unwrap();
                let as_python = read != "-" && read.starts_with(&hexadecimal(&bytes[..common]));
                assert!(right || as_python || *nothing_left, "{what}: block {block} shows other bytes");
                let whole = right && bytes.len() >= truth.len();
                // Sizes that contradict each other: it can't be told which is right.
                let contradicts = what.ends_with("\\x00\\x08");
                assert!(
                    whole || contradicts || read != hexadecimal(truth),
                    "{what}: only Python reads block {block}"
                );
            }
        }
    }
    mount.unmount();
}
