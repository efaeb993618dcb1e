//! Outputs that can't be written: no command panics, and the exit status reports lost output.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use common::asdf::{AsdfBuilder, Block, sample};
use common::mount::{fresh_folder, program};

/// Returns a file on a full disk.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Returns a pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    OwnedFd::from(writer).into()
}

/// Returns the exit status of a command with these outputs.
fn status(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let folder = fresh_folder();
    let built = AsdfBuilder::new().blocks([Block::new(sample(10, 1))]).build();
    fs::write(folder.path().join("a.asdf"), &built.bytes).unwrap();
    fs::write(folder.path().join("cut.asdf"), &built.bytes[..built.tree().len() + 58]).unwrap();
    fs::write(folder.path().join("bad.yaml"), "a: [\n").unwrap();
    let mut same = built.tree().to_vec();
    same.splice(same.len() - 4.., *b"new: 99999999999999999999\n...\n");
    fs::write(folder.path().join("good.yaml"), same).unwrap();
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder.path()).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.env("XDG_STATE_HOME", folder.path()).env("XDG_CACHE_HOME", folder.path()).env("EDITOR", "true");
    command.status().unwrap().code()
}

#[test]
fn an_output_that_can_not_be_written_is_no_panic() {
    let cases: [(&[&str], i32, i32); 14] = [
        // Arguments, exit status if stdout is full, and exit status if stdout is a pipe without a reader.
        (&["--help"], 1, 0),
        (&["-h"], 1, 0),
        (&["--version"], 1, 0),
        (&["--generate", "man"], 1, 0),
        (&["--generate", "bash"], 1, 0),
        (&["--check", "cut.asdf"], 2, 1),
        (&["--check", "--json", "a.asdf"], 2, 0),
        (&["--check", "missing"], 2, 2),
        (&["--index", "missing", "a.asdf"], 2, 2),
        (&["--set-tree", "bad.yaml", "a.asdf"], 1, 1),
        (&["--set-tree", "good.yaml", "a.asdf"], 0, 0),
        (&["--edit", "a.asdf"], 0, 0),
        (&["-u", "missing"], 1, 1),
        (&["--nonsense"], 2, 2),
    ];
    for (arguments, when_full, when_closed) in cases {
        assert_eq!(status(arguments, full(), full()), Some(when_full), "{arguments:?} > full");
        assert_eq!(status(arguments, closed(), closed()), Some(when_closed), "{arguments:?} > closed");
        let silent = || Stdio::null();
        assert_eq!(
            status(arguments, silent(), full()),
            status(arguments, silent(), silent()),
            "{arguments:?}"
        );
    }
}
