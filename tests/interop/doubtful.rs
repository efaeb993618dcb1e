//! Files with damaged or unusual block headers: a block never appears under another's number, and if Python
//! asdf can read the array, its bytes are the same.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::asdf::{AsdfBuilder, Block, Built, Header, Index, sample};
use common::mount::{Mounted, fresh_folder, program};
use common::python::{python, run};

/// Offset in a block header, and the bytes written there.
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

/// The usual header sizes; each is wrong in the other layouts.
const SIZES: [(usize, &[u8]); 4] = [(4, b"\0\x24"), (4, b"\0\x28"), (4, b"\0\x2c"), (4, b"\0\x30")];

const OLD_LAYOUTS: [(&str, &str, Header); 5] = [
    ("chain", "#ASDF 0.1.0\n", Header::Chain),
    ("label", "#ASDF 0.1.0\n", Header::Label40),
    ("encoding", "#ASDF 0.1.0\n", Header::Encoding44),
    ("draft", "%ASDF 0.1.0\n", Header::Encoding44),
    ("short-draft", "%ASDF 0.1.0\n", Header::Encoding40),
];

/// Reads a file as far as possible; the flag is true if an error ended it.
fn shown(path: &Path) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|mut file| {
        let mut piece = [0; 512];
        loop {
            assert!(bytes.len() < 1 << 20, "{} goes on behind its end", path.display());
            match file.read(&mut piece)? {
                0 => return Ok(()),
                read => bytes.extend(&piece[..read]),
            }
        }
    });
    (bytes, read.is_err())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A damaged file.
struct Damaged {
    path: PathBuf,
    what: String,
}

/// Makes files with each kind of damage in each of the blocks.
fn damaged(folder: &Path, name: &str, built: &Built, damages: &[(usize, &[u8])]) -> Vec<Damaged> {
    let mut files = Vec::new();
    for (n, block) in built.blocks.iter().enumerate() {
        for (at, damage) in damages {
            let mut bytes = built.bytes.clone();
            let from = block.offset as usize + at;
            bytes[from..from + damage.len()].copy_from_slice(damage);
            let path = folder.join(format!("{name}-{}.asdf", files.len()));
            fs::write(&path, bytes).unwrap();
            let what = format!("{name}: block {n}, byte {at}: {}", damage.escape_ascii());
            files.push(Damaged { path, what });
        }
    }
    files
}

/// Returns true if `--check` calls a file sound, and its output.
fn checked(path: &Path) -> (bool, String) {
    let check = Command::new(program()).arg("--check").arg(path).output().unwrap();
    (check.status.success(), String::from_utf8_lossy(&check.stdout).into_owned())
}

#[test]
fn what_python_reads_of_a_damaged_file_is_shown_or_an_error() {
    compare(&python());
}

pub(crate) fn compare(python: &Path) {
    let folder = fresh_folder();
    let blocks = [1, 2].map(|seed| Block::new(sample(600, seed)));
    let mut files = Vec::new();
    for (name, index, padding) in [
        ("no-index", Index::Absent, 0),
        ("no-index-padding", Index::Absent, 500),
        ("index", Index::Right, 0),
        ("index-padding", Index::Right, 500),
    ] {
        let built = AsdfBuilder::new().padding(vec![0; padding]).blocks(blocks.clone()).index(index).build();
        files.extend(damaged(folder.path(), name, &built, &DAMAGES));
    }
    let read = run(python, "read_arrays.py", files.iter().map(|file| &file.path));
    let mount = Mounted::file(folder.path());
    for (n, Damaged { path, what }) in files.iter().enumerate() {
        let (sound, said) = checked(path);
        for block in 0..blocks.len() {
            let name = format!("blocks/{block}.bin");
            let (bytes, failed) = shown(&mount.path(path.file_name().unwrap()).join(name));
            let bytes = hexadecimal(&bytes);
            let read = read.lines().nth(n).unwrap().split(' ').nth(block).unwrap();
            // A stream may have more data after the array.
            let same = read != "-" && bytes.starts_with(read);
            let error = !sound && (read == "-" || (failed && read.starts_with(&bytes)));
            assert!(same || error, "{what}: block {block}: {bytes}, not {read}; {said}");
        }
    }
    mount.unmount();
}

/// Python asdf can't read these layouts; all bytes must be the block's own.
#[test]
fn damaged_headers_of_old_layouts_show_no_other_bytes() {
    let folder = fresh_folder();
    let truth = [1, 2].map(|seed| sample(600, seed));
    let in_front = DAMAGES.iter().filter(|(at, _)| [4, 6].contains(at));
    let damages: Vec<_> = in_front.chain(&SIZES).copied().collect();
    let mut files = Vec::new();
    for (name, head, header) in OLD_LAYOUTS {
        let blocks = truth.clone().map(|data| Block::new(data).header(header));
        let built = AsdfBuilder::new().head(head).index(Index::Absent).blocks(blocks).build();
        files.extend(damaged(folder.path(), name, &built, &damages));
    }
    let mount = Mounted::file(folder.path());
    for Damaged { path, what } in files {
        let (sound, said) = checked(&path);
        for (block, truth) in truth.iter().enumerate() {
            let name = format!("blocks/{block}.bin");
            let (bytes, failed) = shown(&mount.path(path.file_name().unwrap()).join(name));
            let same = bytes.starts_with(truth);
            let error = !sound && failed && truth.starts_with(&bytes);
            let len = bytes.len();
            assert!(same || error, "{what}: block {block}: {len} bytes, failed {failed}; {said}");
        }
    }
    mount.unmount();
}
