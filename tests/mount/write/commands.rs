//! `--edit`, `--set-tree` and `--recover`, as root and as an ordinary user: effects, messages and leftovers.

mod edit;
mod recover;
mod set_tree;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::place::{Place, copy_program, said};

const USER: u32 = 65_534;

/// A file and a program, owned by the same user.
#[derive(Debug)]
struct Bench {
    place: Place,
    user: bool,
}

impl Bench {
    fn new(user: bool) -> Self {
        Self::on("tmpfs", user)
    }

    fn on(kind: &str, user: bool) -> Self {
        let place = Place::on(kind);
        copy_program(&place);
        fs::set_permissions(place.disk.path().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let bench = Self { place, user };
        fs::create_dir(bench.home()).unwrap();
        let names = [bench.place.disk.path(), bench.home(), bench.place.source.clone()];
        for path in names.iter().filter(|_| user) {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
        bench
    }

    /// Returns a directory beside the disk.
    fn home(&self) -> PathBuf {
        self.place.disk.path().parent().unwrap().join("home")
    }

    fn state(&self) -> PathBuf {
        self.home().join("state/asdf-mount")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if self.user {
            chown(&path, Some(USER), Some(USER)).unwrap();
        }
        path
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let program = self.place.disk.path().join("program");
        let mut command = if self.user {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(self.home()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.home().join("state")).env_remove("VISUAL").env_remove("EDITOR");
        command
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs `--edit` with this script as the editor; `$1` is the text.
    fn edit(&self, script: &str) -> Output {
        let editor = self.write("editor", format!("#!/bin/sh\nset -e\n{script}\n"));
        self.command([OsStr::new("--edit"), self.place.source.as_os_str()])
            .env("EDITOR", editor)
            .output()
            .unwrap()
    }

    /// Runs `--edit` on a terminal with these typed lines; returns the terminal's output and the exit status.
    fn edit_on_terminal(&self, script: &str, typed: &str) -> (String, Option<i32>) {
        let editor = self.write("editor", format!("#!/bin/sh\nset -e\n{script}\n"));
        let command = self.command([OsStr::new("--edit"), self.place.source.as_os_str()]);
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        let mut terminal = Command::new("timeout");
        terminal.args(["60", "script", "-qec", &words.join(" "), "/dev/null"]).current_dir(self.home());
        terminal.env("XDG_STATE_HOME", self.home().join("state")).env("EDITOR", editor).env_remove("VISUAL");
        let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    /// Runs `--set-tree` with this text.
    fn set_tree(&self, text: impl AsRef<[u8]>) -> Output {
        let tree = self.write("new", text);
        self.run([OsStr::new("--set-tree"), tree.as_os_str(), self.place.source.as_os_str()])
    }

    fn recover(&self) -> Output {
        self.run([OsStr::new("--recover"), self.place.source.as_os_str()])
    }

    #[track_caller]
    fn has_nothing_to_recover(&self) {
        let output = self.recover();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let told = format!("{}: nothing to recover\n", self.place.source.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), told);
    }

    /// Returns the kept copies of texts; each is in a directory that only its user can access.
    fn copies(&self) -> Vec<String> {
        let folders = fs::read_dir(self.state()).into_iter().flatten().map(|entry| entry.unwrap().path());
        folders
            .filter(|folder| folder.is_dir() && !folder.ends_with("history"))
            .map(|folder| {
                let meta = fs::metadata(&folder).unwrap();
                assert_eq!((meta.mode() & 0o777, meta.uid()), (0o700, if self.user { USER } else { 0 }));
                let text = folder.join("tree.yaml");
                assert_eq!(fs::metadata(&text).unwrap().mode() & 0o777, 0o600);
                fs::read_to_string(text).unwrap()
            })
            .collect()
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert!(fs::read(&self.place.source).unwrap() == self.place.built.bytes);
        self.place.nothing_is_beside();
    }
}

#[track_caller]
fn succeeded(output: &Output, stderr: &str) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(output), stderr);
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[track_caller]
fn failed(output: &Output, says: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = said(output);
    assert!(said.starts_with("asdf-mount: "), "{said}");
    for says in says {
        assert!(said.contains(says), "{says}: {said}");
    }
}
