//! Tests of reads during saves and changes by other programs, in every order.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use asdf_access::local::path::link::LinkPolicy;
use asdf_access::local::path::{LocalPath, OpenedDirectory};
use asdf_file::container::Context;
use seekable::cache::Cache;

use super::*;

const HEAD: &[u8] = b"#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n...\n";
/// Size of the file, and the offset of bytes that no save writes.
const SIZE: usize = 9000;
const DATA: u64 = 5000;

/// A file with the bytes of two generations: all `1` after the head, or all `2`.
struct Test {
    folder: tempfile::TempDir,
    bytes: Arc<FileBytes>,
}

impl Test {
    fn new() -> Self {
        seekable::source::count_writes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.asdf");
        std::fs::write(&path, content(b'1')).unwrap();
        // A change from now on shows in the times, however coarse the clock is.
        std::thread::sleep(Duration::from_millis(20));
        let origin = OpenedDirectory::open(folder.path()).unwrap();
        let links = LinkPolicy::new(&origin, folder.path(), None, true).unwrap();
        let location = Location::Local(LocalPath::new(&links, "a.asdf"));
        let bytes = FileBytes::new(location.open().unwrap(), location);
        Self { folder, bytes }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.asdf")
    }

    fn file(&self) -> File {
        File::options().read(true).write(true).open(self.path()).unwrap()
    }

    fn identity(&self) -> Identity {
        Identity::of(&self.file().metadata().unwrap())
    }

    fn generation(&self) -> (Arc<GenerationSource>, Arc<dyn Container>) {
        let source = self.bytes.generation(Arc::default()).unwrap();
        let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
        let container = asdf_views::format::open(source.clone(), &context).unwrap();
        source.note_parsed(&container);
        (source, container)
    }

    fn keep(&self, save: &mut SaveReaders, range: Range<u64>) {
        save.keep(self.identity(), std::slice::from_ref(&range));
    }

    /// Writes the file in place, as another program does.
    fn rewrite(&self, byte: u8) {
        self.file().write_all_at(&content(byte), 0).unwrap();
    }

    /// Sets the time back after a change, as `cp -p` does.
    fn put_back(&self, change: impl FnOnce()) {
        let before = self.file().metadata().unwrap().modified().unwrap();
        change();
        self.file().set_modified(before).unwrap();
    }
}

fn content(byte: u8) -> Vec<u8> {
    let mut bytes = vec![byte; SIZE];
    bytes[..HEAD.len()].copy_from_slice(HEAD);
    bytes
}

/// Returns the byte at [`DATA`], or `None` if the generation can no longer be read.
fn data(source: &GenerationSource) -> Option<u8> {
    let mut byte = [0];
    match source.read_at(DATA, &mut byte) {
        Ok(_) => Some(byte[0]),
        Err(error) => {
            assert_eq!(error.kind(), Kind::Changed);
            None
        }
    }
}

#[test]
fn a_file_that_is_replaced_during_a_save_can_be_read_on() {
    for is_replaced_first in [true, false] {
        let test = Test::new();
        let (identity, file) = (test.identity(), test.file());
        let (source, _container) = test.generation();
        let replace = || {
            let new = test.folder.path().join("new");
            std::fs::write(&new, content(b'3')).unwrap();
            std::fs::rename(new, test.path()).unwrap();
        };
        let mut save = SaveReaders(test.bytes.clone());
        if is_replaced_first {
            replace();
        }
        save.keep(identity, &[0..100, DATA..DATA + 10]);
        if !is_replaced_first {
            replace();
        }
        save.write(identity, &mut || {
            file.write_all_at(&[b'2'; 10], DATA).unwrap();
            true
        });
        assert_eq!(data(&source), Some(b'1'), "{is_replaced_first}");
        let mut rest = [0; 10];
        assert_eq!(source.read_at(DATA + 10, &mut rest), Ok(10), "{is_replaced_first}");
        assert_eq!(rest, [b'1'; 10]);
    }
}

#[test]
fn a_generation_that_was_outdated_before_a_save_is_not_read_during_the_save() {
    let test = Test::new();
    let (old, _old) = test.generation();
    assert_eq!(data(&old), Some(b'1'));
    test.rewrite(b'2');
    let (new, _new) = test.generation();
    let mut save = SaveReaders(test.bytes.clone());
    test.keep(&mut save, 0..100);
    assert_eq!((data(&old), data(&new)), (None, Some(b'2')));
    save.write(test.identity(), &mut || {
        test.file().write_all_at(b"#NEW", 0).unwrap();
        true
    });
    assert_eq!((data(&old), data(&new)), (None, Some(b'2')));
    let mut first = [0; 4];
    new.read_at(0, &mut first).unwrap();
    assert_eq!(&first, b"#ASD");
    assert!(old.read_at(0, &mut first).is_err() && !old.is_whole() && new.is_whole());
    let version = test.bytes.version().unwrap();
    assert_eq!(new.end_save(None, Some(version)), Some(version));
    assert_eq!((data(&old), data(&new)), (None, Some(b'2')));
}

#[test]
fn a_change_by_another_program_during_a_save_is_noticed_between_the_writes_of_the_save() {
    for is_inserted in [false, true] {
        let test = Test::new();
        let (source, _container) = test.generation();
        let mut save = SaveReaders(test.bytes.clone());
        test.keep(&mut save, 0..100);
        let write = || test.file().write_all_at(b"#NEW", 0).unwrap();
        if is_inserted {
            save.relocate(test.identity(), SIZE as u64, 0, &mut || {
                write();
                Moved::Yes
            });
        } else {
            save.write(test.identity(), &mut || {
                write();
                true
            });
        }
        assert_eq!(data(&source), Some(b'1'));
        test.rewrite(b'2');
        assert_eq!(data(&source), None);
        save.write(test.identity(), &mut || {
            write();
            true
        });
        assert_eq!(data(&source), None);
        // The version that the save leaves is not that of a file with the bytes of this generation.
        assert_eq!(source.end_save(None, Some(test.bytes.version().unwrap())), None);
        assert_eq!(data(&source), None);
    }
}

#[test]
fn a_change_by_another_program_during_a_write_of_a_save_is_never_read() {
    let test = Test::new();
    let (source, _container) = test.generation();
    let mut save = SaveReaders(test.bytes.clone());
    test.keep(&mut save, 0..100);
    let (begins, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let source = &source;
        let reader = scope.spawn(move || {
            begun.recv().unwrap();
            data(source)
        });
        save.write(test.identity(), &mut || {
            test.rewrite(b'2');
            begins.send(()).unwrap();
            // Only a pause can show that the reader waits.
            std::thread::sleep(std::time::Duration::from_millis(50));
            test.file().write_all_at(b"#NEW", 0).unwrap();
            false
        });
        assert_eq!(reader.join().unwrap(), None);
    });
    assert_eq!(data(&source), None);
}

#[test]
fn a_change_between_the_announcements_of_a_save_is_not_kept_for_older_readers() {
    let test = Test::new();
    let (source, _container) = test.generation();
    let mut save = SaveReaders(test.bytes.clone());
    test.keep(&mut save, 0..100);
    test.rewrite(b'2');
    test.keep(&mut save, DATA..DATA + 10);
    assert_eq!(data(&source), None);
}

#[test]
fn a_file_that_is_put_back_with_its_time_is_another_version() {
    let test = Test::new();
    let (source, _container) = test.generation();
    let before = test.identity();
    test.put_back(|| test.rewrite(b'2'));
    let after = test.identity();
    assert_eq!((before.size, before.mtime), (after.size, after.mtime));
    assert_eq!(data(&source), None);
    assert!(!source.is_whole());
    // Also after the next save.
    let mut save = SaveReaders(test.bytes.clone());
    test.keep(&mut save, 0..100);
    assert_eq!(data(&source), None);
}

#[test]
fn a_file_that_lost_its_name_is_read_to_its_end() {
    let gone: [fn(&Test); 3] = [
        |test| std::fs::remove_file(test.path()).unwrap(),
        |test| std::fs::rename(test.path(), test.folder.path().join("b.asdf")).unwrap(),
        |test| {
            let new = test.folder.path().join("new");
            std::fs::write(&new, content(b'2')).unwrap();
            std::fs::rename(new, test.path()).unwrap();
        },
    ];
    for gone in gone {
        let test = Test::new();
        let (source, _container) = test.generation();
        let mut held = test.file();
        gone(&test);
        assert_eq!(data(&source), Some(b'1'));
        assert!(source.is_whole());
        // It may be written nevertheless.
        held.write_all_at(&content(b'3'), 0).unwrap();
        assert_eq!(data(&source), None);
        let mut read = Vec::new();
        held.read_to_end(&mut read).unwrap();
        assert_eq!(read[DATA as usize], b'3');
    }
}

/// Its size and times are then those of a file that was only renamed.
#[test]
fn a_file_that_was_written_before_it_lost_its_name_is_not_read() {
    for is_saving in [false, true] {
        let test = Test::new();
        let (source, _container) = test.generation();
        let identity = test.identity();
        test.put_back(|| test.rewrite(b'2'));
        std::fs::rename(test.path(), test.folder.path().join("b.asdf")).unwrap();
        if is_saving {
            SaveReaders(test.bytes.clone()).keep(identity, std::slice::from_ref(&(0..100)));
        }
        assert_eq!(data(&source), None, "{is_saving}");
        assert!(!source.is_whole());
    }
}

#[test]
fn a_change_of_permissions_is_a_change_as_long_as_the_file_has_its_name() {
    let test = Test::new();
    let (source, _container) = test.generation();
    std::fs::hard_link(test.path(), test.folder.path().join("b.asdf")).unwrap();
    assert_eq!(data(&source), None);
}

/// The ctime changes while the rename of another program is under way, which a loaded machine may interrupt.
#[test]
fn a_reader_waits_for_a_rename_that_is_under_way() {
    let test = Test::new();
    let (source, _container) = test.generation();
    let new = test.folder.path().join("new");
    std::fs::write(&new, content(b'2')).unwrap();
    std::fs::set_permissions(test.path(), test.file().metadata().unwrap().permissions()).unwrap();
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| data(&source));
        std::thread::sleep(Duration::from_millis(120));
        std::fs::rename(&new, test.path()).unwrap();
        reader.join().unwrap()
    });
    assert_eq!(read, Some(b'1'));
}

#[test]
fn the_ctime_may_change_before_a_save_gives_the_name_to_another_file() {
    let test = Test::new();
    let (source, _container) = test.generation();
    source.begin_save();
    std::fs::hard_link(test.path(), test.folder.path().join("b.asdf")).unwrap();
    let new = test.folder.path().join("new");
    std::fs::write(&new, content(b'2')).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            std::fs::rename(new, test.path()).unwrap();
        });
        assert_eq!(data(&source), Some(b'1'));
    });
    assert_eq!(source.end_save(None, None), None);
    assert!(source.is_whole());
}

#[test]
fn a_reader_that_notices_the_rename_of_a_save_does_not_take_it_for_another_programs_change() {
    let test = Test::new();
    let (source, _container) = test.generation();
    source.begin_save();
    let from = test.bytes.version().unwrap();
    let new = test.folder.path().join("new");
    std::fs::write(&new, content(b'2')).unwrap();
    std::fs::rename(new, test.path()).unwrap();
    let replacement = test.identity().into();
    assert_eq!(data(&source), Some(b'1'));
    assert_ne!(test.bytes.version().unwrap(), from, "the ctime has changed");
    assert!(source.end_save(Some(from), Some(replacement)).is_some());
}
