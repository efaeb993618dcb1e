//! A file with two blocks, mounted for writing, and assertions about its saves.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use asdf_views::format::view_names;
use rustix::process::{Pid, Signal, kill_process};

use crate::asdf::{AsdfBuilder, Block, sample};
use crate::mount::{Mounted, fresh_folder, program, wait_until};

/// A text that occurs once in the tree of a case, to be replaced.
pub const OLD: &str = "first light";
/// The replacement of [`OLD`] in a valid text.
pub const NEW: &str = "second light, which is longer";
/// The replacement of [`OLD`] in an invalid text.
pub const BAD: &str = "a: b: c";

/// A mounted file.
#[derive(Debug)]
pub struct Case {
    pub mount: Mounted,
    pub source: PathBuf,
    pub text: String,
    blocks: Vec<Vec<u8>>,
    folder: tempfile::TempDir,
}

/// Returns the tree of a case.
pub fn tree() -> String {
    let lines: String = (0..40).map(|n| format!("key{n}: value {n}   # a comment\n")).collect();
    format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nname: {OLD}\n\
         data: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: little, shape: [3000]}}\n{lines}...\n"
    )
}

/// Writes the file of a case.
pub fn build(path: &Path) -> (String, Vec<Vec<u8>>) {
    let blocks = vec![sample(3000, 1), sample(500, 2)];
    let built =
        AsdfBuilder::new().tree(tree()).blocks(blocks.iter().map(|data| Block::new(data.clone()))).build();
    fs::write(path, &built.bytes).unwrap();
    (String::from_utf8(built.tree().to_vec()).unwrap(), blocks)
}

impl Case {
    /// Unmounts. Retries, because a program that another test starts at this moment may have inherited an
    /// open file.
    pub fn unmount(&self) -> Output {
        let unmount = || Command::new(program()).arg("-u").arg(self.mount.root()).output().unwrap();
        let mut output = unmount();
        wait_until(|| {
            let is_busy = String::from_utf8_lossy(&output.stderr).contains("in use: ");
            if is_busy {
                output = unmount();
            }
            !is_busy
        });
        output
    }

    /// Returns the paths in the state directory, except that of the history.
    pub fn in_state(&self) -> Vec<PathBuf> {
        let mut names: Vec<_> =
            fs::read_dir(self.mount.state()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.retain(|path| !path.ends_with("history"));
        names
    }

    /// Ends the daemon by a signal, and waits until it has released its locks.
    pub fn ends_by(&self, signal: Signal) {
        let daemon = self.mount.daemon().unwrap();
        kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), signal).unwrap();
        // The daemon's locks end with its open files, which the last of its threads closes. The first thread may have
        // ended before.
        let is_over = |task: fs::DirEntry| match fs::read_to_string(task.path().join("stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        let has_ended = || match fs::read_dir(format!("/proc/{daemon}/task")) {
            Ok(mut tasks) => tasks.all(|task| task.is_ok_and(is_over)),
            Err(_) => true,
        };
        assert!(wait_until(|| self.mount.daemon().is_none() && has_ended()));
    }

    /// Makes another mount with the same state directory.
    pub fn next(&self, arguments: &[&str], source: &Path) -> Mounted {
        let arguments = arguments.iter().map(OsStr::new).chain([source.as_os_str()]);
        let state = self.mount.state();
        Mounted::prepared(arguments, |command| {
            command.env("XDG_STATE_HOME", state.parent().unwrap());
        })
        .unwrap_or_else(|output| panic!("{output:?}"))
    }

    /// Returns the prefix of the names in the state directory.
    pub fn stem(&self) -> String {
        let folder = self.source.parent().unwrap().file_name().unwrap().to_str().unwrap();
        format!("{folder}-a.asdf-")
    }
}

impl Case {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Mounts a case with these arguments of the program.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = fresh_folder();
        let source = folder.path().join("a.asdf");
        let (text, blocks) = build(&source);
        let log = folder.path().join("log");
        let mut all = vec!["-v", "--log-file", log.to_str().unwrap()];
        all.extend(arguments);
        all.push(source.to_str().unwrap());
        let mount = Mounted::new(&all);
        Self { mount, source, text, blocks, folder }
    }

    /// Returns a path in the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mount.path(name)
    }

    pub fn tree(&self) -> PathBuf {
        self.path("tree.yaml")
    }

    /// Returns the text with [`OLD`] replaced by `name`.
    pub fn named(&self, name: &str) -> String {
        self.text.replace(OLD, name)
    }

    /// Returns the tree in the file on disk.
    pub fn saved(&self) -> String {
        let bytes = fs::read(&self.source).unwrap();
        let end = bytes.windows(5).position(|five| five == b"\n...\n").unwrap() + 5;
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    }

    /// Writes a text as `cat > tree.yaml` does; returns the result of close.
    pub fn save(&self, text: &str) -> io::Result<()> {
        let mut file = File::create(self.tree()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        close(file)
    }

    /// Returns the number of saves.
    pub fn saves(&self) -> u64 {
        let status = self.status();
        let line = status.lines().find_map(|line| line.strip_prefix("generation: ")).unwrap();
        line.parse().unwrap()
    }

    pub fn status(&self) -> String {
        fs::read_to_string(self.path(".asdf-mount/status.yaml")).unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the names in the mount, except those that are always there.
    pub fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.mount.root()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let is_view =
            |name: &str| matches!(name, "blocks" | ".asdf-mount") || view_names().any(|view| view == name);
        names.retain(|name| !is_view(name));
        names
    }

    /// Asserts that this text is saved and shown after `saves` saves, with no other files beside it.
    #[track_caller]
    pub fn is_saved(&self, text: &str, saves: u64) {
        self.is_saved_beside(text, saves, &[]);
    }

    /// Asserts that this text is saved and shown after `saves` saves, with these other files beside it.
    #[track_caller]
    pub fn is_saved_beside(&self, text: &str, saves: u64, beside: &[&str]) {
        assert_eq!(self.saved(), text, "{}", self.log());
        assert_eq!(fs::read_to_string(self.tree()).unwrap(), text);
        assert_eq!(fs::metadata(self.tree()).unwrap().len(), text.len() as u64);
        assert_eq!(self.saves(), saves, "{}", self.log());
        let mut names: Vec<_> =
            beside.iter().map(|name| (*name).to_owned()).chain(["tree.yaml".into()]).collect();
        names.sort();
        assert_eq!(self.names(), names);
        self.blocks_are_whole();
    }

    #[track_caller]
    pub fn blocks_are_whole(&self) {
        for (n, block) in self.blocks.iter().enumerate() {
            assert!(self.mount.block(n) == *block, "block {n}");
        }
    }

    /// Asserts that the mount shows `text` as refused, keeps it, and still shows the blocks.
    #[track_caller]
    pub fn is_refused(&self, text: &str) {
        assert_eq!(fs::read_to_string(self.path("tree.yaml.rejected")).unwrap(), text);
        assert!(!fs::read_to_string(self.path("tree.yaml.error")).unwrap().is_empty());
        let kept = self.kept();
        assert!(kept.iter().any(|kept| kept == text.as_bytes()), "{} files are kept", kept.len());
        assert!(self.status().contains("last_refusal:\n"), "{}", self.status());
        self.blocks_are_whole();
    }

    /// Returns the directory of the mount's scratch files.
    pub fn drawer(&self) -> PathBuf {
        let mut found = fs::read_dir(self.mount.state()).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.is_dir() && !path.ends_with("history")).expect("a folder for scratch files")
    }

    /// Returns the texts in the state directory.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let files = fs::read_dir(self.mount.state()).into_iter().flatten();
        let files = files.map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        files
            .map(|path| {
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
                fs::read(path).unwrap()
            })
            .collect()
    }

    /// Runs a script in the mount.
    pub fn sh(&self, script: &str) -> Output {
        self.sh_with(script, &[])
    }

    /// Runs a script in the mount with these variables.
    pub fn sh_with(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["60", "bash", "-c", script]).current_dir(self.mount.root());
        // The user's editor settings must not affect the test.
        command.env("HOME", self.folder.path()).envs(variables.iter().copied());
        command.env("NEW", self.new_file(NEW)).env("BAD", self.new_file(BAD)).output().unwrap()
    }

    /// Writes the text with [`OLD`] replaced by `name` to a file outside of the mount; returns its path.
    pub fn new_file(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name.replace([' ', ':'], "_"));
        fs::write(&path, self.named(name)).unwrap();
        path
    }
}

/// Returns the errno of a failure.
#[track_caller]
pub fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

/// Closes a file and returns the result of close, which is lost when a file is dropped.
pub fn close(file: File) -> io::Result<()> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the file gave up ownership of the descriptor.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
