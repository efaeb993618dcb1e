use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::content::read_exact_at;

fn key(n: u8) -> TableKey {
    TableKey([n; 16])
}

fn keep(store: &Store, n: u8, len: usize) {
    store.keep(key(n), &mut |out| out.write_all(&vec![n; len]));
}

fn read(store: &Store, n: u8) -> Option<Vec<u8>> {
    let found = store.find(key(n))?;
    let mut bytes = vec![0; found.len() as usize];
    read_exact_at(&*found, 0, &mut bytes).ok()?;
    assert_eq!(found.read_at(found.len(), &mut [0]).unwrap(), 0);
    Some(bytes)
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_kept_is_found_private_and_whole_and_goes_when_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    for store in [Store::at(&path).unwrap(), Store::in_memory()] {
        keep(&store, 1, 1000);
        keep(&store, 2, 200_000);
        keep(&store, 1, 70_000);
        assert_eq!(read(&store, 1).unwrap(), [1; 70_000]);
        assert_eq!(read(&store, 2).unwrap(), [2; 200_000]);
        assert!(read(&store, 3).is_none());
        store.remove(key(2));
        assert!(read(&store, 2).is_none());
        assert!(store.keeps() && store.error().is_none());
    }
    assert_eq!(names(&path), [format!("{}.seek", key(1))]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join(format!("{}.seek", key(1))))), (0o700, 0o600));
    let nowhere = Store::nowhere();
    keep(&nowhere, 1, 10);
    assert!(read(&nowhere, 1).is_none() && !nowhere.keeps());
}

#[test]
fn what_can_not_be_written_to_its_end_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path()).unwrap();
    keep(&store, 1, 10);
    store.keep(key(1), &mut |out| {
        out.write_all(&[9; 100_000])?;
        Err(io::Error::from_raw_os_error(libc::EIO))
    });
    assert_eq!(read(&store, 1).unwrap(), [1; 10]);
    assert_eq!(names(folder.path()).len(), 1);
    assert_eq!(store.error().unwrap().errno(), libc::EIO);
}

#[test]
fn those_used_longest_ago_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let directory = Arc::new(Directory::open(folder.path()).unwrap().bounded(3000));
    let store = Store { backing: Backing::Directory(directory), ..Store::default() };
    let age = |n: u8, seconds: u64| {
        let file = std::fs::File::options().write(true).open(folder.path().join(format!("{}.seek", key(n))));
        file.unwrap().set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    for n in 1..=3 {
        keep(&store, n, 1000);
        age(n, 1000 + u64::from(n));
    }
    assert!(read(&store, 1).is_some(), "being found counts as being used");
    keep(&store, 4, 1000);
    assert!(read(&store, 2).is_none());
    assert!([1, 3, 4].iter().all(|&n| read(&store, n).is_some()));
    keep(&store, 5, 3001);
    assert!(read(&store, 5).is_none() && read(&store, 4).is_some(), "too large for all the room");
    keep(&store, 6, 2500);
    assert_eq!(names(folder.path()), [format!("{}.seek", key(6))]);
}

#[test]
fn files_that_others_may_have_written_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path()).unwrap();
    let path = |n: u8| folder.path().join(format!("{}.seek", key(n)));
    keep(&store, 1, 10);
    std::fs::set_permissions(path(1), std::fs::Permissions::from_mode(0o620)).unwrap();
    assert!(read(&store, 1).is_none());
    keep(&store, 2, 10);
    symlink(path(2), path(3)).unwrap();
    assert!(read(&store, 2).is_some() && read(&store, 3).is_none());
    std::fs::create_dir(path(4)).unwrap();
    assert!(read(&store, 4).is_none());
    assert!(std::process::Command::new("mkfifo").arg(path(5)).status().unwrap().success());
    assert!(read(&store, 5).is_none());
    // A file that can't be replaced is only recorded as an error.
    keep(&store, 4, 10);
    assert!(read(&store, 4).is_none() && store.error().is_some());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Store::at(folder.path()).is_err());
}

#[test]
fn a_table_that_had_to_be_closed_is_read_again_unless_it_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path()).unwrap();
    let found: Vec<_> = (0..40_u8)
        .map(|n| {
            keep(&store, n, 100);
            store.find(key(n)).unwrap()
        })
        .collect();
    let byte = |n: usize| {
        let mut byte = [0];
        found[n].read_at(50, &mut byte).map(|_| byte[0])
    };
    assert!((0..40).all(|n| byte(n).unwrap() == n as u8));
    // While number 0 is closed, another mount replaces it.
    std::fs::remove_file(folder.path().join(format!("{}.seek", key(1)))).unwrap();
    Store::at(folder.path()).unwrap().keep(key(0), &mut |out| out.write_all(&[77; 101]));
    assert!(byte(0).is_err() && byte(1).is_err() && byte(2).is_ok());
}

#[test]
fn a_removed_table_can_be_read_on_by_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::at(folder.path()).unwrap(), Store::in_memory()] {
        keep(&store, 1, 1000);
        let found = store.find(key(1)).unwrap();
        store.remove(key(1));
        assert!(store.find(key(1)).is_none());
        // A new table with the same key does not affect the opened one.
        keep(&store, 1, 500);
        store.keep(key(1), &mut |out| out.write_all(&[7; 1000]));
        assert!(store.find(key(1)).is_some());
        let mut bytes = [0; 1000];
        assert_eq!((found.read_at(0, &mut bytes).unwrap(), bytes), (1000, [1; 1000]));
    }
}

#[test]
fn the_end_waits_for_what_was_promised() {
    let store = Arc::new(Store::in_memory());
    store.wait_for_writes();
    let promise = store.pending_write();
    let other = store.pending_write();
    let theirs = store.clone();
    let thread = std::thread::spawn(move || {
        keep(&theirs, 1, 10);
        drop(promise);
    });
    drop(other);
    store.wait_for_writes();
    assert!(read(&store, 1).is_some());
    thread.join().unwrap();
}

#[test]
fn two_that_keep_the_same_leave_one_that_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::at(folder.path()).unwrap();
                for n in 0..20 {
                    keep(&store, 1, 100_000 + n);
                    let bytes = read(&store, 1);
                    assert!(
                        bytes.is_none_or(|bytes| bytes.len() >= 100_000 && bytes.iter().all(|&b| b == 1))
                    );
                }
            });
        }
    });
    assert_eq!(names(folder.path()).len(), 1);
}
