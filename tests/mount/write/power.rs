//! Power cuts on real file systems: each file is the old one or the new one after a recovery.
//!
//! A FUSE file system of one file, the image of a disk, lies below the loop device. It records each write and each flush of
//! the real file system. After a power cut, the disk has all writes before the last flush, and any of those after it, torn
//! at sectors. A number of such images are mounted again. For more:
//! `POWER_STATES=1000 cargo test --all-features --test write power::`

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use asdf_file::edit::Target;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use seekable::error::Kind;
use seekable::source::storage::System;

use crate::files::{Parts, block};
use common::dice::Dice;
use common::disk::{Disk, run};
use common::mount::program;

const PAGE: usize = 4096;
const FILES: usize = 50;
/// States that are mounted of each case.
const STATES: u64 = 12;

/// The bytes of a disk; pages that are not there are zeros.
#[derive(Clone, Debug, Default)]
struct Image {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let len = len.min(usize::try_from(self.size.saturating_sub(offset)).unwrap());
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let at = offset as usize + done;
            let part = (PAGE - at % PAGE).min(len - done);
            if let Some(page) = self.pages.get(&((at / PAGE) as u64)) {
                bytes[done..done + part].copy_from_slice(&page[at % PAGE..][..part]);
            }
            done += part;
        }
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset as usize + done;
            let part = (PAGE - at % PAGE).min(bytes.len() - done);
            let page = self.pages.entry((at / PAGE) as u64).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[at % PAGE..][..part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
    }

    fn of_file(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let mut image = Self { size: file.metadata().unwrap().len(), pages: BTreeMap::new() };
        let mut page = [0; PAGE];
        for n in 0..image.size / PAGE as u64 {
            file.read_exact_at(&mut page, n * PAGE as u64).unwrap();
            if page != [0; PAGE] {
                image.pages.insert(n, Arc::new(page));
            }
        }
        image
    }

    fn to_file(&self, file: &File) {
        file.set_len(self.size).unwrap();
        for (n, page) in &self.pages {
            file.write_all_at(&page[..], n * PAGE as u64).unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Write(u64, Vec<u8>),
    Flush,
}

/// A disk, and what has happened to it since recording began.
#[derive(Debug, Default)]
struct Recorded {
    image: Image,
    events: Option<Vec<Event>>,
}

/// The file system with the image.
struct ImageServer(Arc<Mutex<Recorded>>);

const IMAGE: INodeNo = INodeNo(2);

impl ImageServer {
    fn attr(&self, node: INodeNo) -> FileAttr {
        let is_image = node == IMAGE;
        FileAttr {
            ino: node,
            size: if is_image { self.0.lock().unwrap().image.size } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_image { FileType::RegularFile } else { FileType::Directory },
            perm: if is_image { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

const FOR_EVER: Duration = Duration::from_secs(3600);

impl Filesystem for ImageServer {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "image" {
            reply.entry(&FOR_EVER, &self.attr(IMAGE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attr(node));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.0.lock().unwrap().image.read(offset, size as usize));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut recorded = self.0.lock().unwrap();
        recorded.image.write(offset, data);
        if let Some(events) = &mut recorded.events {
            events.push(Event::Write(offset, data.to_vec()));
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let Some(events) = &mut self.0.lock().unwrap().events {
            events.push(Event::Flush);
        }
        reply.ok();
    }
}

/// A file system on a recorded disk.
struct RecordedDisk {
    folder: tempfile::TempDir,
    recorded: Arc<Mutex<Recorded>>,
}

impl RecordedDisk {
    fn new(image: Image) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorded = Arc::new(Mutex::new(Recorded { image, events: None }));
        let served = folder.path().join("served");
        fs::create_dir(&served).unwrap();
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0", std::os::fd::AsRawFd::as_raw_fd(&device));
        let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
        let options = CString::new(options).unwrap();
        rustix::mount::mount("image", &served, "fuse", flags, &*options).unwrap();
        let server = ImageServer(recorded.clone());
        let session = Session::from_fd(server, device.into(), SessionACL::All, Config::default()).unwrap();
        // It ends when the file system is unmounted.
        std::thread::spawn(move || session.run());
        let disk = Self { folder, recorded };
        fs::create_dir(disk.path()).unwrap();
        run("mount", &["-o", "loop", served.join("image").to_str().unwrap(), disk.path().to_str().unwrap()]);
        disk
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Makes everything durable, and starts to record. Returns the disk as it is.
    fn record(&self) -> Image {
        rustix::fs::syncfs(File::open(self.path()).unwrap()).unwrap();
        let mut recorded = self.recorded.lock().unwrap();
        recorded.events = Some(Vec::new());
        recorded.image.clone()
    }

    fn events(&self) -> Vec<Event> {
        self.recorded.lock().unwrap().events.take().unwrap()
    }
}

impl RecordedDisk {
    /// Unmounts the file system: no other disk with its UUID can be mounted before.
    fn unmount(&self) {
        run("umount", &[self.path().to_str().unwrap()]);
    }
}

impl Drop for RecordedDisk {
    fn drop(&mut self) {
        for path in [self.path(), self.folder.path().join("served")] {
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// A power cut after flush number `flush`, with `weight` sixteenths of the sectors that were written after it.
#[derive(Clone, Copy, Debug)]
struct Cut {
    flush: usize,
    weight: u64,
}

/// Returns the disk after a power cut.
fn after_power_cut(start: &Image, events: &[Event], cut: Cut, kind: &str, dice: &mut Dice) -> Image {
    // btrfs does not find another copy of a superblock that is torn.
    let sector = if kind == "btrfs" { 4096 } else { 512 };
    let Cut { flush, weight } = cut;
    let mut image = start.clone();
    let mut flushes = 0;
    for event in events {
        match event {
            Event::Flush => flushes += 1,
            Event::Write(offset, bytes) if flushes < flush => image.write(*offset, bytes),
            Event::Write(offset, bytes) if flushes == flush => {
                for (n, part) in bytes.chunks(sector).enumerate() {
                    if dice.below(16) < weight {
                        image.write(offset + (n * sector) as u64, part);
                    }
                }
            }
            Event::Write(..) => {}
        }
    }
    image
}

fn text(n: usize, name: &str) -> Vec<u8> {
    let comments = "# a comment that makes the text longer\n".repeat(n % 7 * 40);
    format!(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !core/asdf-1.1.0\n{comments}name: {name}\n...\n"
    )
    .into_bytes()
}

/// Returns the bytes of all files.
fn read_all(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A command that was recorded.
struct Recording {
    command: String,
    start: Image,
    events: Vec<Event>,
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

fn name(n: usize) -> String {
    format!("{n}.asdf")
}

/// Runs a command on all files of a disk.
fn record(disk: &RecordedDisk, state: &Path, arguments: &[&str]) -> Recording {
    let paths: Vec<_> = (0..FILES).map(|n| disk.path().join(name(n))).collect();
    let before = read_all(&paths);
    let start = disk.record();
    // `--undo` takes one file.
    for paths in paths.chunks(if arguments == ["--undo"] { 1 } else { FILES }) {
        let mut command = Command::new(program());
        let output = command.args(arguments).args(paths).env("XDG_STATE_HOME", state).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let events = disk.events();
    Recording { command: arguments[0].to_owned(), start, events, before, after: read_all(&paths) }
}

fn flushes(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Flush)).count()
}

/// Returns some power cuts, the first one after everything.
fn some_cuts(flushes: usize, dice: &mut Dice) -> Vec<Cut> {
    let states = std::env::var("POWER_STATES").map_or(STATES, |text| text.parse().unwrap());
    let flush = |n, dice: &mut Dice| if n == 0 { flushes } else { dice.below(flushes as u64 + 1) as usize };
    (0..states).map(|n| Cut { flush: flush(n, dice), weight: dice.below(17) }).collect()
}

/// Returns a power cut right after each flush.
fn each_cut(flushes: usize, _: &mut Dice) -> Vec<Cut> {
    (0..=flushes).map(|flush| Cut { flush, weight: 0 }).collect()
}

/// Recovers the files of states that power cuts during a command may leave.
fn recover_all(kind: &str, recording: &Recording, cuts: &[Cut], dice: &mut Dice) {
    let Recording { command, start, events, before, after } = recording;
    let flushes = flushes(events);
    assert!(flushes > 10, "{kind}, {command}: {flushes} flushes");
    let mut new = 0;
    for cut in cuts {
        let shown = format!("{kind}, {command}, {cut:?} of {flushes}, {dice:?}");
        let image = after_power_cut(start, events, *cut, kind, dice);
        let disk = Disk::of_image(kind, |file| image.to_file(file));
        for n in 0..FILES {
            let path = disk.path().join(name(n));
            let recovered = Target::open_in(System, &path, Some(disk.state())).map(drop);
            if recovered.as_ref().is_err_and(|error| error.kind() == Kind::Busy) {
                // Another process has the id of the one that saved. After a real power cut, the ids are of another boot.
                run(program(), &["--recover", path.to_str().unwrap()]);
            } else {
                assert!(recovered.is_ok(), "{shown}: {recovered:?}");
            }
            let bytes = fs::read(&path).unwrap();
            let is_new = bytes == after[n];
            assert!(is_new || bytes == before[n], "{shown}: {} is neither", path.display());
            assert!(is_new || cut.flush < flushes, "{shown}: {} was saved", path.display());
            new += u64::from(is_new);
        }
        let left = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("asdf-mount")).collect();
        assert!(left.is_empty(), "{shown}: {left:?}");
    }
    let states = cuts.len();
    let old = (states * FILES) as u64 - new;
    println!("{kind}, {command}: {states} states of {flushes} flushes, {old} old files, {new} new ones");
}

fn all_commands(kind: &str, mebibytes: u64, cuts: fn(usize, &mut Dice) -> Vec<Cut>) {
    let made = Disk::new(kind, mebibytes);
    for n in 0..FILES {
        let parts =
            Parts { text: text(n, "a"), blocks: vec![block(&[n as u8; 9000], 9000, 0)], ..Parts::default() };
        // Half of the texts fit into the space before the block.
        let padding = if n % 2 == 0 { vec![b' '; 9000] } else { Vec::new() };
        fs::write(made.path().join(format!("{n}.asdf")), Parts { padding, ..parts }.bytes()).unwrap();
    }
    made.unmount();
    let image = Image::of_file(&made.image());
    drop(made);
    let state = tempfile::tempdir().unwrap();
    let mut dice = Dice(7);
    let longer = format!("name={}", "a longer name ".repeat(500).trim_end());
    let disk = RecordedDisk::new(image);
    let recordings =
        [&["--set", &longer][..], &["--undo"]].map(|arguments| record(&disk, state.path(), arguments));
    disk.unmount();
    for recording in &recordings {
        let cuts = cuts(flushes(&recording.events), &mut dice);
        recover_all(kind, recording, &cuts, &mut dice);
    }
}

/// Power cuts after each flush of `--set` and `--undo`, and of `--repack` to a new file.
pub(crate) fn after_each_flush(kind: &str, mebibytes: u64) {
    all_commands(kind, mebibytes, each_cut);
    new_file(kind, mebibytes);
}

/// A new file has its name only once it is complete: a copy of `imploded.asdf` as `--repack` writes it.
fn new_file(kind: &str, mebibytes: u64) {
    let made = Disk::new(kind, mebibytes);
    let array = "a: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {source: 0.asdf, datatype: uint8, byteorder: little, shape: [900000]}\n...\n";
    let tree = String::from_utf8(text(3, "a")).unwrap().replace("...\n", array);
    fs::write(made.path().join("all.asdf"), tree).unwrap();
    let other =
        Parts { text: text(0, "b"), blocks: vec![block(&[7; 900_000], 900_000, 0)], ..Parts::default() };
    fs::write(made.path().join("0.asdf"), other.bytes()).unwrap();
    let path = |name: &str| made.path().join(name);
    let output = Command::new(program())
        .arg("--extract")
        .arg(path("all.asdf"))
        .args(["imploded.asdf", "-C"])
        .arg(made.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    made.unmount();
    let image = Image::of_file(&made.image());
    drop(made);
    let disk = RecordedDisk::new(image);
    let start = disk.record();
    let [old, new] = ["imploded.asdf", "new.asdf"].map(|name| disk.path().join(name));
    let output = Command::new(program()).arg("--repack").arg(&old).arg("-O").arg(&new).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    rustix::fs::syncfs(File::open(disk.path()).unwrap()).unwrap();
    let events = disk.events();
    let [old, new] = [old, new].map(|path| fs::read(path).unwrap());
    disk.unmount();
    assert!(new.len() > 900_000);
    let mut dice = Dice(7);
    let mut there = [0, 0];
    for flush in 0..=flushes(&events) {
        // ext4 does not find another copy of a superblock that is torn, which syncfs writes.
        for weight in [0, 16] {
            let image = after_power_cut(&start, &events, Cut { flush, weight }, kind, &mut dice);
            let disk = Disk::of_image(kind, |file| image.to_file(file));
            assert!(fs::read(disk.path().join("imploded.asdf")).unwrap() == old, "{kind}, {flush}, {weight}");
            let found = fs::read(disk.path().join("new.asdf"));
            assert!(
                found.as_ref().map_or(true, |found| *found == new),
                "{kind}, {flush}, {weight}: half a file"
            );
            there[usize::from(found.is_ok())] += 1;
        }
    }
    println!("{kind}, --repack: {} states without the new file, {} with it", there[0], there[1]);
    assert!(there[0] > 0 && there[1] > 0);
}

#[test]
fn of_ext4() {
    all_commands("ext4", 32, some_cuts);
}

#[test]
fn of_xfs() {
    all_commands("xfs", 320, some_cuts);
}

#[test]
fn of_btrfs() {
    all_commands("btrfs", 128, some_cuts);
}
