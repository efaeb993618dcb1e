//! A file on a separate file system, mounts of it that share a state directory, and a model of the saved
//! file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::asdf::{AsdfBuilder, Block, Built, index_text, sample};
pub(crate) use common::case::{close, errno};
use common::disk::{Disk, run};
use common::encode::Encoding;
use common::mount::{Mounted, program};

/// A text that occurs once in the tree of a place, to be replaced.
pub(crate) const OLD: &str = "first light";
/// The replacement of [`OLD`] in a text that is refused.
pub(crate) const BAD: &str = "a: b: c";

/// The file systems; each makes space for a longer text in another way.
pub(crate) const KINDS: [&str; 4] = ["ext4", "xfs", "btrfs", "tmpfs"];

/// A file on a separate file system.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) disk: Disk,
    pub(crate) source: PathBuf,
    pub(crate) built: Built,
    /// In memory, so that no fsync of the state directory waits for a disk.
    folder: Disk,
}

/// A guard that stops other threads when dropped, also if a test fails.
pub(crate) struct Ended<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns a tree that refers to these blocks and contains [`OLD`].
pub(crate) fn tree(blocks: &[Block]) -> String {
    let mut tree =
        format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n# a comment\nname: {OLD}\n");
    for (n, block) in blocks.iter().enumerate() {
        let (source, shape) = if block.is_streamed() {
            ("-1".to_owned(), "'*'".to_owned())
        } else {
            (n.to_string(), block.data().len().to_string())
        };
        tree += &format!(
            "block{n}: !core/ndarray-1.1.0 {{source: {source}, datatype: uint8, byteorder: little, shape: [{shape}]}}\n"
        );
    }
    tree + "...\n"
}

/// Returns a small block, a compressed one, and one that is read past the kernel's cache.
pub(crate) fn blocks() -> Vec<Block> {
    vec![
        Block::new(sample(3000, 1)),
        Block::new(sample(200_000, 2)).encoding(Encoding::Zlib),
        Block::new(sample(1_500_000, 3)),
    ]
}

/// Returns an ASDF file with these blocks.
pub(crate) fn file(blocks: Vec<Block>) -> AsdfBuilder {
    AsdfBuilder::new().tree(tree(&blocks)).blocks(blocks)
}

impl Place {
    /// Makes a place with the default file on a file system of this kind.
    pub(crate) fn on(kind: &str) -> Self {
        Self::with(kind, &file(blocks()))
    }

    /// Makes a place with another file.
    pub(crate) fn with(kind: &str, builder: &AsdfBuilder) -> Self {
        let mebibytes = match kind {
            "xfs" | "xfs of 1 KiB" => 320,
            // Some tests copy the program to the disk.
            _ => 160,
        };
        Self::sized(kind, mebibytes, builder)
    }

    /// Makes a place with another file on a file system of this size.
    pub(crate) fn sized(kind: &str, mebibytes: u64, builder: &AsdfBuilder) -> Self {
        let disk = Disk::new(kind, mebibytes);
        let built = builder.build();
        let source = built.save(&disk.path(), "a.asdf");
        Self { disk, source, built, folder: Disk::new("tmpfs", 64) }
    }

    /// Returns a directory on another file system.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder().join("state/asdf-mount")
    }

    /// Runs `--set-tree` as an ordinary user.
    pub(crate) fn set_tree_as_nobody(&self, tree: &Path) -> Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy_program(self))
            .args([Path::new("--set-tree"), tree, &self.source])
            .env("XDG_STATE_HOME", self.disk.path().join("state"))
            .output()
            .unwrap()
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.folder().join("log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Mounts the file for writing.
    #[track_caller]
    pub(crate) fn mount(&self) -> Mounted {
        self.try_mount(&self.source, &[]).unwrap_or_else(|output| panic!("{output:?}"))
    }

    /// Mounts a source with these arguments.
    pub(crate) fn try_mount(&self, source: &Path, arguments: &[&str]) -> Result<Mounted, Output> {
        self.try_mount_as(source, arguments, |_| {})
    }

    /// Mounts a source after a change to the command.
    pub(crate) fn try_mount_as(
        &self,
        source: &Path,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Mounted, Output> {
        let mut all = vec![OsString::from("-v"), "--log-file".into(), self.log_path().into()];
        all.extend(arguments.iter().map(OsString::from));
        all.push(source.into());
        Mounted::prepared(all, |command| {
            command.env("XDG_STATE_HOME", self.folder().join("state"));
            prepare(command);
        })
    }

    /// Returns the program, to run in the directory, with the state directory of the mounts.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.folder()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.folder().join("state"));
        command
    }

    /// Runs the program.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the original text of the file.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.built.tree().to_vec()).unwrap()
    }

    /// Returns the text with [`OLD`] replaced by `name`.
    pub(crate) fn named(&self, name: &str) -> String {
        self.text().replace(OLD, name)
    }

    /// Returns the current text of the file.
    pub(crate) fn saved(&self) -> String {
        saved(&self.source)
    }

    /// Asserts that the file consists of this text, spaces, the original blocks and an index.
    #[track_caller]
    pub(crate) fn holds(&self, text: &str) {
        let bytes = fs::read(&self.source).unwrap();
        assert!(bytes.starts_with(text.as_bytes()), "{}", self.saved());
        let first = self.first_block(&bytes);
        assert_eq!((first as u64) % 4096, self.built.blocks[0].offset % 4096);
        assert!(bytes == self.model(text, first), "{} bytes", bytes.len());
    }

    /// Asserts that the file has one of these texts and an otherwise correct content; returns the index of
    /// the text.
    #[track_caller]
    pub(crate) fn holds_one_of(&self, texts: &[&str]) -> usize {
        let saved = self.saved();
        let found = texts.iter().position(|text| **text == saved);
        let found = found.unwrap_or_else(|| panic!("a text that was never written: {saved}"));
        self.holds(texts[found]);
        found
    }

    /// True if the file has one of these texts and an otherwise correct content.
    pub(crate) fn is_whole(&self, texts: &[&str]) -> bool {
        let bytes = fs::read(&self.source).unwrap();
        let first = bytes.windows(4).position(|four| four == common::asdf::MAGIC);
        texts.iter().any(|text| {
            bytes.starts_with(text.as_bytes()) && first.is_some_and(|first| bytes == self.model(text, first))
        })
    }

    /// Returns the number of bytes before the first block.
    pub(crate) fn room(&self) -> usize {
        self.first_block(&fs::read(&self.source).unwrap())
    }

    fn first_block(&self, bytes: &[u8]) -> usize {
        bytes.windows(4).position(|four| four == common::asdf::MAGIC).unwrap()
    }

    /// Returns the expected bytes of the file with `text` and the first block at `first`.
    pub(crate) fn model(&self, text: &str, first: usize) -> Vec<u8> {
        let from = self.built.blocks[0].offset;
        let last = self.built.blocks.last().unwrap();
        let to = last.data_offset + last.allocated_size;
        let blocks = &self.built.bytes[from as usize..to as usize];
        let offsets: Vec<u64> =
            self.built.blocks.iter().map(|block| block.offset - from + first as u64).collect();
        let padding = vec![b' '; first - text.len()];
        [text.as_bytes(), &padding, blocks, &index_text(&offsets)].concat()
    }

    /// Asserts that `--check` finds nothing.
    #[track_caller]
    pub(crate) fn is_sound(&self) {
        let output = self.run([OsStr::new("--check"), self.source.as_os_str()]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Asserts that the mount shows the original blocks.
    #[track_caller]
    pub(crate) fn shows_blocks(&self, mount: &Mounted) {
        for (n, block) in self.built.blocks.iter().enumerate() {
            assert!(mount.block(n) == block.data, "block {n}");
        }
    }

    /// Asserts that no file of asdf-mount lies beside the source.
    #[track_caller]
    pub(crate) fn nothing_is_beside(&self) {
        assert_eq!(self.ours_beside(), [""; 0]);
    }

    /// Returns the names of our files beside the source.
    pub(crate) fn ours_beside(&self) -> Vec<String> {
        ours_in(self.source.parent().unwrap())
    }

    /// True if the journal of a save is beside the file.
    pub(crate) fn has_journal(&self) -> bool {
        self.ours_beside().iter().any(|name| name.ends_with("journal"))
    }

    /// Returns the texts kept in the state directory.
    pub(crate) fn kept(&self) -> Vec<String> {
        let files = fs::read_dir(self.state()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        files.map(|path| fs::read_to_string(path).unwrap()).collect()
    }
}

/// Copies the program to a place where every user can run it.
///
/// Another process copies it. A file that this process writes can't be executed at once, because a child that
/// another thread is about to start may have inherited the open file.
pub(crate) fn copy_program(place: &Place) -> PathBuf {
    let copy = place.disk.path().join("program");
    run("cp", &[program(), copy.to_str().unwrap()]);
    copy
}

/// Returns the tree of a file.
pub(crate) fn saved(source: &Path) -> String {
    let bytes = fs::read(source).unwrap();
    let end = bytes.windows(5).position(|five| five == b"\n...\n").map_or(bytes.len(), |at| at + 5);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the names of our files in a directory.
pub(crate) fn ours_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("asdf-mount")).collect()
}

/// Writes a text as `cat > tree.yaml` does; returns the result of close.
pub(crate) fn write(mount: &Mounted, text: &str) -> io::Result<()> {
    write_tree(&mount.path("tree.yaml"), text)
}

/// Writes a text into this `tree.yaml`; returns the result of close.
pub(crate) fn write_tree(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    close(file)
}

/// Returns the stderr of a program.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
