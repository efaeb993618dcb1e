//! Interrupted insertions, on the file systems that can insert ranges.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use asdf_access::Kind;
use asdf_file::edit::recovery::SaveSide;
use asdf_file::edit::{SaveOptions, SavePlan, Target};
use seekable::source::storage::{Extents, HeldDir, Meta, Storage, System, Watch};

use crate::files::text;
use crate::plans::parts;
use common::disk::{Disk, run, write_sparse};

/// The real file system, except that insertions happen too far back in the file and then fail, as after a
/// crash. With `dead`, undoing fails as well.
#[derive(Clone, Debug, Default)]
struct Halfway {
    back: u64,
    dead: bool,
    writer: Option<LateWriter>,
    beside: Option<Beside>,
}

/// Another program, which acts just before a call of the save about this file.
#[derive(Clone, Debug)]
struct Beside {
    path: PathBuf,
    script: String,
    before: Call,
    /// The number of such calls that the program lets pass.
    calls_before: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
}

impl Beside {
    fn before(&self, call: Call, file: &File) {
        if call != self.before {
            return;
        }
        let inode = file.metadata().unwrap().ino();
        let is_this = fs::metadata(&self.path).is_ok_and(|named| named.ino() == inode);
        if is_this && self.calls_before.fetch_sub(1, Ordering::Relaxed) == 0 {
            let done = Command::new("sh").args(["-ec", &self.script, "sh"]).arg(&self.path).status().unwrap();
            assert!(done.success());
        }
    }
}

/// Another program, which writes to the file just after the blocks have moved back. The insertion is complete then, and
/// the first sync after it fails.
#[derive(Clone, Debug)]
struct LateWriter {
    path: PathBuf,
    is_inserted: Arc<AtomicBool>,
}

impl LateWriter {
    fn write(&self) {
        let script = "printf other | dd of=\"$1\" bs=1 seek=3000 conv=notrunc status=none";
        let done = Command::new("sh").args(["-c", script, "sh"]).arg(&self.path).status().unwrap();
        assert!(done.success());
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl Storage for Halfway {
    type File = File;
    type Dir = HeldDir;

    fn insert(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        if let Some(writer) = &self.writer {
            writer.is_inserted.store(true, Ordering::Relaxed);
            return System.insert(file, offset, len);
        }
        if self.beside.is_some() {
            return System.insert(file, offset, len);
        }
        let end = file.metadata()?.size();
        match offset + self.back * 4096 {
            at if at < end => System.insert(file, at, len)?,
            _ => file.set_len(end + len)?,
        }
        Err(gone())
    }

    fn collapse(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        if self.dead {
            return Err(gone());
        }
        System.collapse(file, offset, len)?;
        if let Some(writer) = &self.writer {
            writer.write();
        }
        Ok(())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        if self.dead { Err(gone()) } else { System.set_len(file, len) }
    }

    fn hold(&self, path: &Path) -> io::Result<HeldDir> {
        System.hold(path)
    }
    fn label(&self, dir: &HeldDir) -> String {
        System.label(dir)
    }
    fn key(&self, dir: &HeldDir, name: &OsStr) -> io::Result<String> {
        System.key(dir, name)
    }
    fn open_state(&self, path: &Path, makes: bool) -> io::Result<HeldDir> {
        System.open_state(path, makes)
    }
    fn open(&self, dir: &HeldDir, name: &OsStr, write: bool) -> io::Result<File> {
        System.open(dir, name, write)
    }
    fn create(&self, dir: &HeldDir, name: &OsStr) -> io::Result<File> {
        System.create(dir, name)
    }
    fn names(&self, dir: &HeldDir, start: &OsStr) -> io::Result<Vec<OsString>> {
        System.names(dir, start)
    }
    fn meta(&self, file: &File) -> io::Result<Meta> {
        System.meta(file)
    }
    fn meta_at(&self, dir: &HeldDir, name: &OsStr) -> io::Result<Meta> {
        System.meta_at(dir, name)
    }
    fn read_at(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        System.read_at(file, offset, buf)
    }
    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            beside.before(Call::Write, file);
        }
        if self.dead && file.metadata()?.size() > 1 << 20 {
            Err(gone())
        } else {
            System.write_at(file, offset, bytes)
        }
    }
    fn next_data(&self, file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        System.next_data(file, range)
    }
    fn touch(&self, file: &File) {
        System.touch(file);
    }
    fn punch(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        System.punch(file, range)
    }
    fn clone_range(&self, from: &File, range: Range<u64>, to: &File, at: u64) -> io::Result<()> {
        System.clone_range(from, range, to, at)
    }
    fn copy_range(&self, from: &File, range: Range<u64>, to: &File, at: u64) -> io::Result<()> {
        System.copy_range(from, range, to, at)
    }
    fn inserts_by_extent(&self, file: &File) -> bool {
        System.inserts_by_extent(file)
    }
    fn extents(&self, file: &File) -> io::Result<Extents> {
        System.extents(file)
    }
    fn keep_attributes(&self, from: &File, to: &File) -> io::Result<()> {
        System.keep_attributes(from, to)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            beside.before(Call::Sync, file);
        }
        if self.writer.as_ref().is_some_and(|writer| writer.is_inserted.swap(false, Ordering::Relaxed)) {
            return Err(gone());
        }
        System.sync(file)
    }
    fn sync_dir(&self, dir: &HeldDir) -> io::Result<()> {
        System.sync_dir(dir)
    }
    fn rename(&self, dir: &HeldDir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        System.rename(dir, from, to)
    }
    fn unlink(&self, dir: &HeldDir, name: &OsStr) -> io::Result<()> {
        System.unlink(dir, name)
    }
    fn lock(&self, file: &File) -> io::Result<()> {
        System.lock(file)
    }
    fn watch(&self, file: &File) -> Option<Watch> {
        System.watch(file)
    }
}

#[test]
fn a_half_shifted_file_is_mended() {
    let options = SaveOptions { padding: None, only: Some(SavePlan::Insert) };
    for (kind, size) in [("ext4", 64), ("xfs", 320), ("ext4 of 1 KiB", 64), ("xfs of 1 KiB", 320)] {
        let disk = Disk::new(kind, size);
        let path = disk.path().join("a.asdf");
        let parts = parts();
        let old = parts.bytes();
        for back in (0..20).chain([250, 260, 271, 800, 2050, 2060, 2064, 2065, 2070]) {
            for dead in [false, true] {
                write_sparse(&path, &old);
                let blocks = fs::metadata(&path).unwrap().blocks();
                let mut target =
                    Target::open_in(Halfway { back, dead, ..Halfway::default() }, &path, None).unwrap();
                let error = target.save(&text('b', 9000), &options).unwrap_err();
                drop(target);
                let shown = format!("{kind}, {back}, {dead}: {error}");
                if dead {
                    assert_eq!(error.kind(), Kind::Unfinished, "{shown}");
                    let target = Target::open_in(System, &path, None).unwrap();
                    let outcome = target.recovered().outcome;
                    // An insertion at the right place is complete, so the save can be finished.
                    let wanted = if back == 0 { SaveSide::New } else { SaveSide::Old };
                    assert_eq!(outcome, Some(wanted), "{shown}");
                    if back == 0 {
                        let wanted = parts.saved(&text('b', 9000), &options).bytes();
                        assert!(fs::read(&path).unwrap() == wanted, "{shown}");
                        continue;
                    }
                } else {
                    assert_eq!(error.errno(), libc::EIO, "{shown}");
                }
                assert!(fs::read(&path).unwrap() == old, "{shown}");
                assert!(fs::metadata(&path).unwrap().blocks() <= blocks + 16, "{shown}");
                assert_eq!(
                    fs::read_dir(disk.path())
                        .unwrap()
                        .filter(|entry| {
                            entry.as_ref().unwrap().file_name().to_string_lossy().contains("asdf-mount")
                        })
                        .count(),
                    0,
                    "{shown}"
                );
            }
        }
    }
}

/// The journal of an interrupted insertion does not keep a file away that has replaced the half-saved one.
#[test]
fn after_an_interrupted_insertion_another_file_of_the_name_is_taken_as_it_is() {
    let disk = Disk::new("ext4", 64);
    let path = disk.path().join("a.asdf");
    let parts = parts();
    let options = SaveOptions { padding: None, only: Some(SavePlan::Insert) };
    write_sparse(&path, &parts.bytes());
    let mut longer = Target::open_in(System, &path, None).unwrap();
    longer.save(&text('c', 20_000), &options).unwrap();
    drop(longer);
    let other = fs::read(&path).unwrap();
    for back in [0, 20] {
        write_sparse(&path, &parts.bytes());
        let mut target =
            Target::open_in(Halfway { back, dead: true, ..Halfway::default() }, &path, None).unwrap();
        assert_eq!(target.save(&text('b', 9000), &options).unwrap_err().kind(), Kind::Unfinished);
        drop(target);
        for is_renamed in [false, true] {
            let new = if is_renamed { disk.path().join("new") } else { path.clone() };
            let journal = path.with_file_name(".a.asdf.asdf-mount-journal");
            let kept = fs::read(&journal).unwrap();
            fs::write(&new, &other).unwrap();
            if is_renamed {
                fs::rename(&new, &path).unwrap();
            }
            let target = Target::open_in(System, &path, None).unwrap();
            drop(target);
            assert!(fs::read(&path).unwrap() == other, "{back}, {is_renamed}");
            let names = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let ours: Vec<_> = names.filter(|name| name.to_string_lossy().contains("asdf-mount")).collect();
            assert!(ours.is_empty(), "{ours:?}");
            fs::write(&journal, kept).unwrap();
            fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        fs::remove_file(path.with_file_name(".a.asdf.asdf-mount-journal")).unwrap();
    }
}

/// A program that writes while a save is undone may have computed where from the file in which the blocks had moved.
#[test]
fn an_undo_beside_which_another_program_writes_is_told_and_its_journal_kept() {
    let disk = Disk::new("ext4", 64);
    let path = disk.path().join("a.asdf");
    let options = SaveOptions { padding: None, only: Some(SavePlan::Insert) };
    for writes in [false, true] {
        write_sparse(&path, &parts().bytes());
        // Without the other program, a file beside it is written.
        let target = if writes { path.clone() } else { disk.path().join("beside") };
        fs::write(disk.path().join("beside"), [0; 4096]).unwrap();
        let writer = LateWriter { path: target, is_inserted: Arc::default() };
        let storage = Halfway { writer: Some(writer), ..Halfway::default() };
        let mut target = Target::open_in(storage, &path, None).unwrap();
        let error = target.save(&text('b', 9000), &options).unwrap_err();
        drop(target);
        let journal = path.with_file_name(".a.asdf.asdf-mount-journal");
        if writes {
            assert_eq!(error.kind(), Kind::Unfinished, "{error}");
            assert!(error.to_string().contains("another program wrote to the file"), "{error}");
            // The journal keeps the next saves away, too: they would make what may be a mixture look right.
            let now = fs::read(&path).unwrap();
            for _ in 0..2 {
                let error = Target::open_in(System, &path, None).unwrap_err();
                assert!(error.to_string().contains("in the same moment as the save"), "{error}");
                assert!(fs::read(&path).unwrap() == now && journal.exists());
            }
            // Also if the other program has written more than the save changes, and the mixture looks sound.
            let mut sound = parts();
            sound.text = text('c', 5000);
            sound.blocks.remove(0);
            let sound = sound.bytes();
            fs::write(&path, &sound).unwrap();
            let error = Target::open_in(System, &path, None).unwrap_err();
            assert!(error.to_string().contains("in the same moment as the save"), "{error}");
            // A backup that takes the name ends it. While the mixture is open, no other file gets its inode number.
            let _mixture = File::open(&path).unwrap();
            let kept = fs::read(&journal).unwrap();
            let put_back = || {
                fs::write(&journal, &kept).unwrap();
                fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            };
            // So does a user who removes the journal.
            fs::remove_file(&journal).unwrap();
            Target::open_in(System, &path, None).unwrap();
            let backup = disk.path().join("backup");
            for bytes in [sound, parts().bytes()] {
                put_back();
                fs::write(&backup, &bytes).unwrap();
                fs::rename(&backup, &path).unwrap();
                Target::open_in(System, &path, None).unwrap();
                assert!(fs::read(&path).unwrap() == bytes && !journal.exists());
            }
        } else {
            assert_eq!(error.errno(), libc::EIO, "{error}");
            assert!(fs::read(&path).unwrap() == parts().bytes() && !journal.exists());
        }
    }
}

/// A program may write after a save has written everything. The save succeeded if none of that is in the tree, and
/// "not saved" is said only if nothing of the save is left.
#[test]
fn after_a_write_beside_the_end_of_a_save_the_bytes_decide() {
    const BLOCK: &str = "printf ZZZZ | dd of=\"$1\" bs=1 seek=70000 conv=notrunc status=none";
    const APPEND: &str = "printf ZZZZ >>\"$1\"";
    const TREE: &str = "printf ZZZZ | dd of=\"$1\" bs=1 seek=500 conv=notrunc status=none";
    const TRUNCATE: &str = "truncate -s 2000 \"$1\"";
    const REPLACE: &str = "cp \"$1.other\" \"$1\"";
    let disk = Disk::new("ext4", 64);
    let path = disk.path().join("a.asdf");
    let journal = path.with_file_name(".a.asdf.asdf-mount-journal");
    let mut other = parts();
    other.text = text('c', 2500);
    fs::write(disk.path().join("a.asdf.other"), other.bytes()).unwrap();
    let in_place = (SavePlan::InPlace, 3000, 0);
    let insert = (SavePlan::Insert, 9000, 1);
    for ((plan, len, syncs_before), script, kind) in [
        (in_place, BLOCK, None),
        (in_place, APPEND, None),
        (in_place, TREE, Some(Kind::Unfinished)),
        (in_place, TRUNCATE, Some(Kind::Unfinished)),
        (in_place, REPLACE, Some(Kind::Conflict)),
        (insert, BLOCK, Some(Kind::Unfinished)),
        (insert, APPEND, Some(Kind::Unfinished)),
        (insert, TREE, Some(Kind::Unfinished)),
        (insert, TRUNCATE, Some(Kind::Unfinished)),
        (insert, REPLACE, Some(Kind::Conflict)),
    ] {
        write_sparse(&path, &parts().bytes());
        let calls_before = Arc::new(AtomicU32::new(syncs_before));
        let script = script.to_owned();
        let beside =
            Some(Beside { path: path.clone(), script: script.clone(), before: Call::Sync, calls_before });
        let options = SaveOptions { padding: None, only: Some(plan) };
        let mut target = Target::open_in(Halfway { beside, ..Halfway::default() }, &path, None).unwrap();
        let new = text('b', len);
        let saved = target.save(&new, &options);
        let shown = format!("{plan:?}, {script}: {saved:?}");
        assert_eq!(saved.as_ref().err().map(asdf_access::Error::kind), kind, "{shown}");
        assert_eq!(journal.exists(), kind == Some(Kind::Unfinished), "{shown}");
        if saved.is_ok() {
            assert!(fs::read(&path).unwrap().starts_with(&new), "{shown}");
            // The other program's write is a change of the file since.
            assert!(!target.is_untouched(), "{shown}");
            target.save(&text('d', len), &options).unwrap();
        }
        if kind == Some(Kind::Conflict) {
            assert!(fs::read(&path).unwrap() == other.bytes(), "{shown}");
        }
        drop(target);
        if journal.exists() {
            let error = Target::open_in(System, &path, None).unwrap_err();
            assert!(error.to_string().contains("in the same moment as the save"), "{shown}: {error}");
            fs::remove_file(&journal).unwrap();
        }
    }
}

/// A program that has the source open, or mapped, writes to a block while the save writes the tree: neither touches the
/// other's bytes. A program that opens the source and writes it anew is told from it.
#[test]
fn a_write_to_a_block_during_a_save_in_place_is_no_mixture() {
    const HOLDER: &str = "exec 3<>\"$1\"; echo open; read go <\"$1.go\"
        printf ZZZZ | dd bs=1 seek=\"$2\" status=none >&3; echo done >\"$1.done\"";
    const WRITE: &str = "echo go >\"$1.go\"; read answer <\"$1.done\"";
    const REPLACE: &str = "cp \"$1.other\" \"$1\"";
    let old = parts().bytes();
    // The beginning of the first block's data.
    let at = old.windows(4).position(|bytes| bytes == b"\xd3BLK").unwrap() + 54;
    for (kind, size) in [("ext4", 64), ("xfs", 320), ("btrfs", 200), ("tmpfs", 64)] {
        let disk = Disk::new(kind, size);
        let path = disk.path().join("a.asdf");
        let journal = path.with_file_name(".a.asdf.asdf-mount-journal");
        // A file with this text and other blocks.
        let mut other = parts();
        for block in &mut other.blocks {
            block.reverse();
        }
        fs::write(disk.path().join("a.asdf.other"), other.bytes()).unwrap();
        for name in ["a.asdf.go", "a.asdf.done"] {
            run("mkfifo", &[disk.path().join(name).to_str().unwrap()]);
        }
        for (script, before) in
            [(WRITE, Call::Write), (WRITE, Call::Sync), (REPLACE, Call::Write), (REPLACE, Call::Sync)]
        {
            fs::write(&path, &old).unwrap();
            let mut holder = Command::new("sh")
                .args(["-ec", HOLDER, "sh"])
                .arg(&path)
                .arg(at.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = [0; 5];
            holder.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
            let shown = format!("{kind}, {script}, {before:?}");
            let beside = Beside {
                path: path.clone(),
                script: script.to_owned(),
                before,
                calls_before: Arc::default(),
            };
            let storage = Halfway { beside: Some(beside), ..Halfway::default() };
            let mut target = Target::open_in(storage, &path, None).unwrap();
            let new = text('b', 3000);
            let options = SaveOptions { padding: None, only: Some(SavePlan::InPlace) };
            let saved = target.save(&new, &options);
            let _ = holder.kill();
            holder.wait().unwrap();
            let now = fs::read(&path).unwrap();
            if script == WRITE {
                saved.unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert!(now.starts_with(&new) && now[at..].starts_with(b"ZZZZ"), "{shown}");
                assert!(!journal.exists(), "{shown}");
            } else {
                // After all of it was replaced, the text may be saved once more, into the other file.
                match saved {
                    Ok(_) => assert!(now == other.saved(&new, &options).bytes(), "{shown}"),
                    Err(error) => assert_eq!(error.kind(), Kind::Unfinished, "{shown}: {error}"),
                }
            }
            drop(target);
            let _ = fs::remove_file(&journal);
        }
    }
}

/// A person may take the journal of a save that is under way for one of a crash, and remove it.
#[test]
fn a_save_goes_on_when_its_journal_was_removed() {
    const REMOVE: &str = "rm \"$1\"";
    const REPLACE: &str = "mv other a.asdf; rm \"$1\"";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.asdf");
    let journal = folder.path().join(".a.asdf.asdf-mount-journal");
    let mut other = parts();
    other.text = text('c', 2500);
    for (script, kind) in [(REMOVE, None), (REPLACE, Some(Kind::Conflict))] {
        fs::write(&path, parts().bytes()).unwrap();
        fs::write(folder.path().join("other"), other.bytes()).unwrap();
        let script = format!("cd '{}'; {script}", folder.path().display());
        let beside =
            Some(Beside { path: journal.clone(), script, before: Call::Sync, calls_before: Arc::default() });
        let options = SaveOptions { padding: None, only: Some(SavePlan::InPlace) };
        let mut target = Target::open_in(Halfway { beside, ..Halfway::default() }, &path, None).unwrap();
        let new = text('b', 3000);
        let saved = target.save(&new, &options);
        let shown = format!("{kind:?}: {saved:?}");
        assert_eq!(saved.err().map(|error| error.kind()), kind, "{shown}");
        let wanted = if kind.is_none() { new } else { other.text.clone() };
        assert!(fs::read(&path).unwrap().starts_with(&wanted), "{shown}");
        assert!(!journal.exists(), "{shown}");
    }
}
