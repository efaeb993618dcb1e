//! A file on a file system of its own, mounts of it that share a state directory, and a model of what
//! saves make of it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::asdf::{AsdfBuilder, Block, Built, index_text, sample};
use crate::common::disk::{Disk, run};
use crate::common::encode::Encoding;
use crate::common::mount::{Mounted, fresh_folder, program};

/// What the tree of a place says once, so that it can be replaced.
pub(crate) const OLD: &str = "first light";
/// What replaces it in a text that is refused.
pub(crate) const BAD: &str = "a: b: c";

/// The file systems, and how each makes room for a longer text.
pub(crate) const KINDS: [&str; 4] = ["ext4", "xfs", "btrfs", "tmpfs"];

/// A file on a file system of its own.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) disk: Disk,
    pub(crate) source: PathBuf,
    pub(crate) built: Built,
    folder: tempfile::TempDir,
}

/// Tells other threads to end, also where a test fails.
pub(crate) struct Ended<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A tree that names so many blocks, and says [`OLD`].
pub(crate) fn tree(blocks: &[Block]) -> String {
    let mut tree =
        format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n# a comment\nname: {OLD}\n");
    for (n, block) in blocks.iter().enumerate() {
        let (source, shape) = match block.is_streamed() {
            true => ("-1".to_owned(), "'*'".to_owned()),
            false => (n.to_string(), block.data().len().to_string()),
        };
        tree += &format!(
            "block{n}: !core/ndarray-1.1.0 {{source: {source}, datatype: uint8, byteorder: little, shape: [{shape}]}}\n"
        );
    }
    tree + "...\n"
}

/// A small block, one that is encoded, and one that is read past the kernel's cache.
pub(crate) fn blocks() -> Vec<Block> {
    vec![
        Block::new(sample(3000, 1)),
        Block::new(sample(200_000, 2)).encoding(Encoding::Zlib),
        Block::new(sample(1_500_000, 3)),
    ]
}

/// An ASDF file of these blocks.
pub(crate) fn file(blocks: Vec<Block>) -> AsdfBuilder {
    AsdfBuilder::new().tree(tree(&blocks)).blocks(blocks)
}

impl Place {
    /// The usual file on a file system of this kind.
    pub(crate) fn on(kind: &str) -> Self {
        Self::with(kind, &file(blocks()))
    }

    /// Another file.
    pub(crate) fn with(kind: &str, builder: &AsdfBuilder) -> Self {
        let mebibytes = match kind {
            "xfs" | "xfs of 1 KiB" => 320,
            "btrfs" => 128,
            _ => 64,
        };
        Self::sized(kind, mebibytes, builder)
    }

    /// Another file on a file system of another size.
    pub(crate) fn sized(kind: &str, mebibytes: u64, builder: &AsdfBuilder) -> Self {
        let disk = Disk::new(kind, mebibytes);
        let built = builder.build();
        let source = built.save(&disk.path(), "a.asdf");
        Self { disk, source, built, folder: fresh_folder() }
    }

    /// A folder on the disk of the build.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder().join("state/asdf-mount")
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

    /// Mounts something, with these arguments.
    pub(crate) fn try_mount(&self, source: &Path, arguments: &[&str]) -> Result<Mounted, Output> {
        self.try_mount_as(source, arguments, |_| {})
    }

    /// The same after a change to the command.
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

    /// The program, in the folder, with the state directory that the mounts have.
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

    /// The text that the file began with.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.built.tree().to_vec()).unwrap()
    }

    /// The text with another name in it.
    pub(crate) fn named(&self, name: &str) -> String {
        self.text().replace(OLD, name)
    }

    /// The text that is in the file.
    pub(crate) fn saved(&self) -> String {
        saved(&self.source)
    }

    /// Asserts that the file is this text, spaces, the blocks as they were and an index.
    #[track_caller]
    pub(crate) fn holds(&self, text: &str) {
        let bytes = fs::read(&self.source).unwrap();
        assert!(bytes.starts_with(text.as_bytes()), "{}", self.saved());
        let first = self.first_block(&bytes);
        assert_eq!((first as u64) % 4096, self.built.blocks[0].offset % 4096);
        assert!(bytes == self.model(text, first), "{} bytes", bytes.len());
    }

    /// Asserts that the file is one of these texts with the rest as it should be; which one it is.
    #[track_caller]
    pub(crate) fn holds_one_of(&self, texts: &[&str]) -> usize {
        let saved = self.saved();
        let found = texts.iter().position(|text| **text == saved);
        let found = found.unwrap_or_else(|| panic!("a text that was never written: {saved}"));
        self.holds(texts[found]);
        found
    }

    /// Whether the file is one of these texts with the rest as it should be.
    pub(crate) fn is_whole(&self, texts: &[&str]) -> bool {
        let bytes = fs::read(&self.source).unwrap();
        let first = bytes.windows(4).position(|four| four == crate::common::asdf::MAGIC);
        texts.iter().any(|text| {
            bytes.starts_with(text.as_bytes()) && first.is_some_and(|first| bytes == self.model(text, first))
        })
    }

    /// Bytes before the first block.
    pub(crate) fn room(&self) -> usize {
        self.first_block(&fs::read(&self.source).unwrap())
    }

    fn first_block(&self, bytes: &[u8]) -> usize {
        bytes.windows(4).position(|four| four == crate::common::asdf::MAGIC).unwrap()
    }

    /// What the file has to be when it holds `text` and its first block lies at `first`.
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

    /// Asserts that the mount shows the blocks as they are.
    #[track_caller]
    pub(crate) fn shows_blocks(&self, mount: &Mounted) {
        for (n, block) in self.built.blocks.iter().enumerate() {
            assert!(mount.block(n) == block.data, "block {n}");
        }
    }

    /// Asserts that nothing of ours lies beside the file.
    #[track_caller]
    pub(crate) fn nothing_is_beside(&self) {
        assert_eq!(self.ours_beside(), [""; 0]);
    }

    /// What lies beside the file that is ours.
    pub(crate) fn ours_beside(&self) -> Vec<String> {
        ours_in(self.source.parent().unwrap())
    }

    /// The texts that are kept in the state directory.
    pub(crate) fn kept(&self) -> Vec<String> {
        let files = fs::read_dir(self.state()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        files.map(|path| fs::read_to_string(path).unwrap()).collect()
    }
}

/// A copy of the program where every user may run it.
///
/// By another process: no file that this one writes can be run at once, as a child that another thread is
/// about to start may still have it open.
pub(crate) fn copy_program(place: &Place) -> PathBuf {
    let copy = place.disk.path().join("program");
    run("cp", &[program(), copy.to_str().unwrap()]);
    copy
}

/// The text that is in a file.
pub(crate) fn saved(source: &Path) -> String {
    let bytes = fs::read(source).unwrap();
    let end = bytes.windows(5).position(|five| five == b"\n...\n").map_or(bytes.len(), |at| at + 5);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What lies in a folder that is ours.
pub(crate) fn ours_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("asdf-mount")).collect()
}

/// Writes a text as `cat > tree.yaml` does; what close said.
pub(crate) fn write(mount: &Mounted, text: &str) -> io::Result<()> {
    let mut file = File::create(mount.path("tree.yaml"))?;
    file.write_all(text.as_bytes())?;
    close(file)
}

/// Closes a file and says what close answered, which dropping it does not.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was given up by its owner just now.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The errno of a failure.
#[track_caller]
pub(crate) fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

/// What a program said on stderr.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
