//! The source as seen by other programs: a save changes it, and nothing else does.

use std::fs::{self, File};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use common::case::{Case, NEW};

/// Returns the inotify events of the source since the watch began.
fn events(watch: &impl std::os::fd::AsFd) -> ReadFlags {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut all = ReadFlags::empty();
    while let Ok(event) = reader.next() {
        all |= event.events();
    }
    all
}

fn time(case: &Case) -> (i64, i64) {
    let meta = fs::metadata(&case.source).unwrap();
    (meta.mtime(), meta.mtime_nsec())
}

#[test]
fn a_save_in_place_is_a_change_of_the_source() {
    let case = Case::new();
    // Makes space, so that the next text fits.
    fs::write(case.tree(), case.named(&"long ".repeat(100))).unwrap();
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &case.source, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).unwrap();
    let before = time(&case);
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert!(time(&case) > before);
    assert_eq!(events(&watch), ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE);
}

#[test]
fn make_sees_a_save_that_grows_the_file() {
    let case = Case::new();
    let folder = case.source.parent().unwrap().to_owned();
    fs::write(folder.join("Makefile"), "made: a.asdf\n\tcp a.asdf made\n").unwrap();
    let script = format!("make -s -C {0} && cmp {0}/a.asdf {0}/made", folder.display());
    let make = || case.sh(&script);
    for length in [10, 1000, 10_000] {
        assert!(make().status.success());
        fs::write(case.tree(), case.named(&"long ".repeat(length))).unwrap();
        let output = make();
        assert!(output.status.success(), "{output:?}");
    }
}

/// `:w` without a change, a text with a restored ending, a refusal, and reads of the file's facts.
#[test]
fn what_is_no_save_is_no_change() {
    let case = Case::new();
    let open_ended = case.named("open").replace("\n...\n", "");
    fs::write(case.tree(), &open_ended).unwrap();
    let before = (time(&case), fs::read(&case.source).unwrap());
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    let flags = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF;
    inotify::add_watch(&watch, &case.source, flags).unwrap();
    fs::write(case.tree(), &open_ended).unwrap();
    let script = "cp tree.yaml x; cp x tree.yaml; mv x tree.yaml; touch tree.yaml; chmod 600 tree.yaml; \
                  sed -i s/open/open/ tree.yaml; : > tree.yaml; rm tree.yaml; cat $BAD > tree.yaml";
    assert!(!case.sh(script).status.success());
    assert_eq!(case.saves(), 1, "{}", case.log());
    assert_eq!(events(&watch), ReadFlags::empty());
    assert!((time(&case), fs::read(&case.source).unwrap()) == before);
}

/// A program that asks for the length first would cut the text off.
#[test]
fn an_open_after_the_source_was_replaced_has_the_length_of_the_new_text() {
    let case = Case::new();
    let old = fs::metadata(case.tree()).unwrap().len();
    let mut bytes = fs::read(&case.source).unwrap();
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes.splice(line..line, b"# another program's line\n".repeat(9));
    let beside = case.source.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    fs::rename(&beside, &case.source).unwrap();
    let mut file = File::open(case.tree()).unwrap();
    let told = file.metadata().unwrap().len();
    let read = file.read_to_end(&mut Vec::new()).unwrap() as u64;
    assert!(told == read && read > old, "{told} bytes are told, {read} are read, {old} were there");
}
