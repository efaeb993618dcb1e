use std::cell::Cell;
use std::fs::File;

use super::*;

thread_local! {
    /// The error of lists of buckets on this thread.
    pub(super) static LIST_FAILS: Cell<Option<Errno>> = const { Cell::new(None) };
}

struct Bench {
    folder: tempfile::TempDir,
    dir: File,
    history: History,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.asdf"), "").unwrap();
        let history = History::of(HeldDir::open(STATE, &folder.path().join("state"), None).unwrap());
        Self { dir: File::open(folder.path()).unwrap(), folder, history }
    }

    fn file<'a>(&'a self, name: &'a str) -> (BorrowedFd<'a>, &'a OsStr) {
        (self.dir.as_fd(), OsStr::new(name))
    }

    fn save(&self, name: &str, old: &str, new: &str) {
        let file = self.file(name);
        let replaced = Replaced { file, program: Some("test"), old: old.as_bytes(), new: new.as_bytes() };
        self.history.keep(&replaced).unwrap().saved(file);
    }

    /// Makes a file that is newer than the last save.
    fn make_new(&self, name: &str) {
        let path = self.folder.path().join(name);
        let saved = std::time::SystemTime::now();
        for _ in 0..1000 {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, "").unwrap();
            if path.metadata().unwrap().modified().unwrap() > saved {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("the clock of the file system stands still");
    }

    /// Makes a file with this age, as a program that restores a file does.
    fn restore(&self, name: &str, age: std::time::Duration) {
        self.make_new("restored");
        let file = File::options().write(true).open(self.folder.path().join("restored")).unwrap();
        file.set_modified(std::time::SystemTime::now() - age).unwrap();
        self.rename("restored", name);
    }

    /// Returns the names in the state directory, without texts.
    fn state(&self) -> Vec<String> {
        fn add(dir: &std::path::Path, names: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    add(&path, names);
                }
                let name = path.file_name().unwrap().to_str().unwrap();
                if !name.ends_with(".yaml") && name != ".size" {
                    names.push(name.to_owned());
                }
            }
        }
        let mut names = Vec::new();
        add(&self.folder.path().join("state"), &mut names);
        names.sort();
        names
    }

    fn changes(&self, name: &str, now: &str) -> Vec<Save> {
        self.history.changes(self.file(name), || Ok(Digest::of(now.as_bytes()))).unwrap()
    }

    fn texts(&self, name: &str, now: &str) -> Vec<String> {
        let text = |change: &Save| String::from_utf8(self.history.text(change).unwrap()).unwrap();
        self.changes(name, now).iter().filter(|change| change.is_own).map(text).collect()
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.folder.path().join(from), self.folder.path().join(to)).unwrap();
    }
}

#[test]
fn the_texts_follow_their_file() {
    let bench = Bench::new();
    bench.save("a.asdf", "1", "2");
    bench.rename("a.asdf", "b.asdf");
    assert_eq!(bench.texts("b.asdf", "2"), ["1"]);
    // A save by clone or copy: the new file has another inode.
    let file = bench.file("b.asdf");
    let kept = bench.history.keep(&Replaced { file, program: None, old: b"2", new: b"3" }).unwrap();
    std::fs::write(bench.folder.path().join("new"), "").unwrap();
    bench.rename("new", "b.asdf");
    kept.saved(file);
    bench.rename("b.asdf", "c.asdf");
    assert_eq!(bench.texts("c.asdf", "3"), ["2", "1"]);
    // A copy has no history, and neither has a new file of the old name.
    std::fs::copy(bench.folder.path().join("c.asdf"), bench.folder.path().join("copy.asdf")).unwrap();
    std::fs::write(bench.folder.path().join("a.asdf"), "").unwrap();
    assert!(bench.changes("copy.asdf", "3").is_empty());
    assert!(bench.changes("a.asdf", "2").is_empty());
}

#[test]
fn a_restored_file_has_its_history_and_one_of_another_text_has_none() {
    let bench = Bench::new();
    bench.save("a.asdf", "1", "2");
    bench.restore("a.asdf", std::time::Duration::from_secs(60));
    assert_eq!(bench.texts("a.asdf", "2"), ["1"]);
    assert!(bench.changes("a.asdf", "other").is_empty());
    bench.save("a.asdf", "2", "3");
    assert_eq!(bench.texts("a.asdf", "3"), ["2", "1"]);
}

#[test]
fn a_new_file_of_the_same_name_and_text_has_no_history() {
    let bench = Bench::new();
    bench.save("a.asdf", "1", "2");
    bench.save("a.asdf", "2", "1");
    bench.rename("a.asdf", "old.asdf");
    bench.make_new("a.asdf");
    assert!(bench.changes("a.asdf", "1").is_empty());
    bench.save("a.asdf", "1", "3");
    assert_eq!(bench.texts("a.asdf", "3"), ["1"]);
    assert_eq!(bench.texts("old.asdf", "1"), ["2", "1"]);
}

#[test]
fn a_text_that_is_put_back_in_place_has_its_saves() {
    let bench = Bench::new();
    for texts in ["12", "23", "34"] {
        bench.save("a.asdf", &texts[..1], &texts[1..]);
    }
    // `cp` writes the text 2 into the file.
    let listed: Vec<_> = bench.changes("a.asdf", "2").iter().map(|change| change.is_own).collect();
    assert_eq!(listed, [true, false, false]);
    assert_eq!(bench.texts("a.asdf", "2"), ["1"]);
    bench.save("a.asdf", "2", "5");
    assert_eq!(bench.texts("a.asdf", "5"), ["2", "1"]);
}

#[test]
fn a_program_that_was_killed_in_a_save_that_made_a_new_file_loses_no_text() {
    let bench = Bench::new();
    bench.save("a.asdf", "1", "2");
    let file = bench.file("a.asdf");
    std::mem::forget(bench.history.keep(&Replaced { file, program: None, old: b"2", new: b"3" }));
    bench.make_new("copy");
    bench.rename("copy", "a.asdf");
    assert_eq!(bench.texts("a.asdf", "3"), ["2", "1"]);
}

#[test]
fn the_texts_of_a_file_are_found_without_those_of_others() {
    let bench = Bench::new();
    for name in ["a.asdf", "b.asdf"] {
        std::fs::write(bench.folder.path().join(name), "").unwrap();
        bench.save(name, "1", "2");
    }
    let marked = bench.state();
    // Two buckets and their marks, with `.by-path`, two paths, and `history`.
    assert_eq!(marked.len(), 8, "{marked:?}");
    bench.rename("a.asdf", "c.asdf");
    bench.save("c.asdf", "2", "3");
    assert_eq!(bench.state().len(), 8);
    // A stale mark leads to no other file's texts.
    let history = bench.history.open_dir(false).unwrap().1;
    let at_a =
        FileId { path: OsString::from("1"), ..FileId::of(bench.dir.as_fd(), "b.asdf".as_ref(), "").unwrap() };
    bucket::mark(&history, &at_a.path, &FileId::of(bench.dir.as_fd(), "c.asdf".as_ref(), "").unwrap().key)
        .unwrap();
    assert!(Bucket::others_at(&history, &at_a).unwrap().is_empty());
    // The marks go with the texts.
    drop(history);
    let state = bench.history.dir.get().0;
    bound::trim(state.as_fd(), 0, None);
    assert!(bench.state().is_empty(), "{:?}", bench.state());
}

#[test]
fn a_directory_that_can_not_be_read_is_an_error_and_never_empty() {
    let bench = Bench::new();
    bench.save("a.asdf", "1", "2");
    bench.save("a.asdf", "2", "3");
    let replaced = Replaced { file: bench.file("a.asdf"), program: None, old: b"3", new: b"2" };
    LIST_FAILS.set(Some(Errno::IO));
    assert_eq!(bench.history.keep(&replaced).unwrap_err().errno(), libc::EIO);
    let changes = bench.history.changes(replaced.file, || Ok(Digest::of(b"3")));
    let error = changes.unwrap_err();
    assert_eq!(error.errno(), libc::EIO);
    assert!(error.to_string().contains(": the history can't be read: "), "{error}");
    LIST_FAILS.set(None);
    assert_eq!(bench.texts("a.asdf", "3"), ["2", "1"]);
}

#[test]
fn names_of_one_second_differ_and_sort_by_time() {
    let bench = Bench::new();
    let texts: Vec<String> = (0..=12).map(|n| n.to_string()).collect();
    for texts in texts.windows(2) {
        bench.save("a.asdf", &texts[0], &texts[1]);
    }
    let mut names: Vec<_> = bench.changes("a.asdf", "12").into_iter().map(|change| change.name).collect();
    let listed = names.clone();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.dedup();
    assert_eq!(names, listed);
    assert_eq!(names.len(), 12);
}

#[test]
fn a_save_that_failed_leaves_nothing() {
    let bench = Bench::new();
    let replaced = Replaced { file: bench.file("a.asdf"), program: None, old: b"1", new: b"2" };
    bench.history.keep(&replaced).unwrap().withdraw();
    let state = || std::fs::read_dir(bench.folder.path().join("state")).unwrap().count();
    assert_eq!(state(), 0);
    // The program was killed: the entry is there, and is ignored because its save did not happen.
    drop(bench.history.keep(&replaced));
    assert!(bench.changes("a.asdf", "1").is_empty());
    assert_eq!(bench.texts("a.asdf", "2"), ["1"]);
}

#[test]
fn the_last_texts_of_a_file_are_kept_within_the_limits() {
    let bench = Bench::new();
    let texts: Vec<String> = (0..=MAX_TEXTS + 5).map(|n| n.to_string()).collect();
    for texts in texts.windows(2) {
        bench.save("a.asdf", &texts[0], &texts[1]);
    }
    let kept = bench.texts("a.asdf", texts.last().unwrap());
    let last: Vec<_> = texts[5..texts.len() - 1].iter().rev().cloned().collect();
    assert_eq!(kept, last);
    // Large texts.
    let large: Vec<String> = ["a", "b", "c", "d"].map(|letter| letter.repeat(7 << 20)).to_vec();
    bench.save("a.asdf", texts.last().unwrap(), &large[0]);
    for texts in large.windows(2) {
        bench.save("a.asdf", &texts[0], &texts[1]);
    }
    assert!(bench.texts("a.asdf", &large[3]) == [&large[2][..], &large[1]]);
    // A text beyond the limit is only noted, and the older ones stay.
    let huge = "x".repeat(MAX_BYTES as usize);
    bench.save("a.asdf", &large[3], &huge);
    bench.save("a.asdf", &huge, "1");
    let changes = bench.changes("a.asdf", "1");
    assert!(changes[0].is_own && changes[0].is_omitted && changes[0].old.len == MAX_BYTES);
    let error = bench.history.text(&changes[0]).unwrap_err();
    assert!(error.kind() == Kind::NotFound && error.message().contains("larger than 16 MiB"), "{error}");
    assert!(bench.history.text(&changes[1]).unwrap() == large[3].as_bytes());
}

#[test]
fn an_error_is_told_once() {
    let bench = Bench::new();
    let state = bench.folder.path().join("state");
    std::fs::remove_dir(&state).unwrap();
    std::fs::write(&state, "").unwrap();
    let replaced = Replaced { file: bench.file("a.asdf"), program: None, old: b"1", new: b"2" };
    let error = bench.history.keep(&replaced).unwrap_err().to_string();
    assert!(error.contains("not kept in the history"), "{error}");
    assert!(bench.history.warns() && !bench.history.warns());
}
