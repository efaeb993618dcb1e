use std::fs::File;

use super::*;

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
    std::fs::write(bench.folder.path().join("restored"), "").unwrap();
    bench.rename("restored", "a.asdf");
    assert_eq!(bench.texts("a.asdf", "2"), ["1"]);
    assert!(bench.changes("a.asdf", "other").is_empty());
    bench.save("a.asdf", "2", "3");
    assert_eq!(bench.texts("a.asdf", "3"), ["2", "1"]);
}

#[test]
fn names_of_one_second_differ_and_sort_by_time() {
    let bench = Bench::new();
    let texts: Vec<String> = (0..=12).map(|n| n.to_string()).collect();
    texts.windows(2).for_each(|texts| bench.save("a.asdf", &texts[0], &texts[1]));
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
    let texts: Vec<String> = (0..=MOST_TEXTS + 5).map(|n| n.to_string()).collect();
    texts.windows(2).for_each(|texts| bench.save("a.asdf", &texts[0], &texts[1]));
    let kept = bench.texts("a.asdf", texts.last().unwrap());
    let last: Vec<_> = texts[5..texts.len() - 1].iter().rev().cloned().collect();
    assert_eq!(kept, last);
    // Large texts.
    let large: Vec<String> = ["a", "b", "c", "d"].map(|letter| letter.repeat(7 << 20)).to_vec();
    bench.save("a.asdf", texts.last().unwrap(), &large[0]);
    large.windows(2).for_each(|texts| bench.save("a.asdf", &texts[0], &texts[1]));
    assert!(bench.texts("a.asdf", &large[3]) == [&large[2][..], &large[1]]);
    let huge = "x".repeat(MOST_BYTES as usize);
    let replaced = Replaced { file: bench.file("a.asdf"), program: None, old: huge.as_bytes(), new: b"1" };
    assert!(bench.history.keep(&replaced).is_none() && bench.history.trouble().is_none());
}

#[test]
fn an_error_is_told_once() {
    let bench = Bench::new();
    let state = bench.folder.path().join("state");
    std::fs::remove_dir(&state).unwrap();
    std::fs::write(&state, "").unwrap();
    let replaced = Replaced { file: bench.file("a.asdf"), program: None, old: b"1", new: b"2" };
    assert!(bench.history.keep(&replaced).is_none() && bench.history.keep(&replaced).is_none());
    let trouble = bench.history.trouble().unwrap().to_string();
    assert!(trouble.contains("not kept in the history"), "{trouble}");
    assert!(bench.history.keep(&replaced).is_none() && bench.history.trouble().is_none());
}
