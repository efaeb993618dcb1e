//! Python asdf opens the saves of each plan, also after interrupted saves.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::killed::{WAYS, kill};
use crate::place::{OLD, blocks, file, write};
use common::asdf::{Index, index_text};
use common::mount::{fresh_folder, program};
use common::python::{python, run};

#[test]
fn files_of_each_plan_are_opened() {
    opens_files_of_each_plan(&python());
}

pub(crate) fn opens_files_of_each_plan(python: &Path) {
    let folder = fresh_folder();
    let mut files = 0;
    for way in WAYS {
        let place = way.place();
        let blocks = |name: &str| {
            let at = folder.path().join(format!("{name}.blocks"));
            fs::create_dir(&at).unwrap();
            for (n, block) in place.built.blocks.iter().enumerate() {
                fs::write(at.join(format!("{n}.bin")), &block.data).unwrap();
            }
        };
        let mut text = place.text();
        for n in 0..6 {
            let mount = place.mount();
            text = way.next(&place, &text, n);
            if n % 2 == 0 {
                write(&mount, &text).unwrap();
            } else {
                std::thread::scope(|scope| {
                    let writing = scope.spawn(|| write(&mount, &text));
                    std::thread::sleep(std::time::Duration::from_millis(n as u64));
                    kill(&mount);
                    let _ = writing.join().unwrap();
                });
                drop(mount);
                drop(place.mount());
                text = place.saved();
            }
            place.holds(&text);
            let name = format!("{}-{n}", way.name);
            fs::copy(&place.source, folder.path().join(format!("{name}.asdf"))).unwrap();
            blocks(&name);
            files += 1;
        }
    }
    let compared = run(python, "check_built.py", [folder.path(), Path::new("saved")]);
    assert_eq!(compared.trim(), (3 * files).to_string());
}

/// Python searches for an index anywhere, and trusts it if its first offset is right.
#[test]
fn an_index_among_junk_is_right_after_the_blocks_have_moved() {
    opens_files_with_junk(&python());
}

pub(crate) fn opens_files_with_junk(python: &Path) {
    let folder = fresh_folder();
    let built = file(blocks()).index(Index::Absent).build();
    let offsets: Vec<u64> = built.blocks.iter().map(|block| block.offset).collect();
    let right = index_text(&offsets);
    let grown = index_text(&offsets.iter().map(|offset| offset + 8192).collect::<Vec<_>>());
    let wrong = index_text(&[offsets[0] + 8192, 7, 8]);
    let tails = [
        [&right[..], b"junk"].concat(),
        [b"junk", &right[..]].concat(),
        [&right[..], b"\xff\0junk\n", &right, b"\0\0 more"].concat(),
        [&right[..], &built.bytes].concat(),
        // The index is wrong until the blocks move. If it is not rewritten, Python then trusts it.
        [b"junk", &wrong[..]].concat(),
        [&wrong[..], b"junk"].concat(),
        [b"junk", &grown[..]].concat(),
    ];
    for (n, tail) in tails.iter().enumerate() {
        let path = folder.path().join(format!("tail{n}.asdf"));
        fs::write(&path, [&built.bytes, &tail[..]].concat()).unwrap();
        let of_blocks = folder.path().join(format!("tail{n}.blocks"));
        fs::create_dir(&of_blocks).unwrap();
        for (n, block) in built.blocks.iter().enumerate() {
            fs::write(of_blocks.join(format!("{n}.bin")), &block.data).unwrap();
        }
        let tree = String::from_utf8(built.tree().to_vec()).unwrap();
        let tree = tree.replace(OLD, &format!("{OLD}\nnote: {}", "longer ".repeat(100)));
        let text = folder.path().join("text");
        fs::write(&text, tree).unwrap();
        let state = folder.path().join("state");
        let mut command = Command::new(program());
        command.arg("--set-tree").args([&text, &path]).env("XDG_STATE_HOME", &state);
        let output = command.output().unwrap();
        assert!(output.status.success(), "tail {n}: {output:?}");
        let saved = fs::read(&path).unwrap();
        let at = built.blocks[0].offset as usize + 8192;
        assert!(saved[at..].starts_with(b"\xd3BLK"), "tail {n}: the blocks have not moved");
    }
    let compared = run(python, "check_built.py", [folder.path(), Path::new("saved")]);
    assert_eq!(compared.trim(), (3 * tails.len()).to_string());
}
