//! Programs that read `tree.yaml` while others save it: each reader gets a complete text that a program
//! wrote.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use common::case::{Case, NEW, OLD, close};
use common::mount::wait_until;

/// Two savers run concurrently, each with its own `$NAME`.
const SAVER: &str = "for n in $(seq $COUNT); do \
    sed -i \"s/^name: .*/name: $NAME $n $(printf %*s $((n % 60)) | tr ' ' x)/\" tree.yaml || echo refused; done";

/// Asserts that a text is the original one, or was written by a saver.
#[track_caller]
fn is_written(case: &Case, text: &str) {
    let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or_default();
    assert_eq!(text.replacen(name, OLD, 1), case.text, "{} bytes", text.len());
    let mut words = name.split_whitespace();
    let is_savers = matches!(words.next(), Some("one" | "two"))
        && words
            .next()
            .and_then(|n| n.parse::<usize>().ok())
            .is_some_and(|n| words.next().unwrap_or_default() == "x".repeat(n % 60));
    assert!(name == OLD || is_savers, "{name:?}");
}

#[test]
fn readers_beside_two_sed_loops_get_whole_texts() {
    const COUNT: &str = "120";
    let case = Case::new();
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let savers = ["one", "two"]
            .map(|name| scope.spawn(|| case.sh_with(SAVER, &[("NAME", name), ("COUNT", COUNT)])));
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    is_written(&case, &fs::read_to_string(case.tree()).unwrap());
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outputs = savers.map(|saver| saver.join().unwrap());
        done.store(true, Ordering::Relaxed);
        for output in outputs {
            assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
            assert!(output.stderr.is_empty(), "{output:?}");
        }
    });
    assert!(reads.load(Ordering::Relaxed) > 100);
    is_written(&case, &case.saved());
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert_eq!(case.saved(), case.named(NEW));
}

#[test]
fn a_replaced_file_can_be_opened_as_long_as_the_kernel_knows_it() {
    let case = Case::new();
    // Each thread holds a node without an open handle of the mount.
    let path = |name: &str| {
        let flags = rustix::fs::OFlags::PATH;
        rustix::fs::open(case.path(name), flags, rustix::fs::Mode::empty()).unwrap()
    };
    let opened = |node: &rustix::fd::OwnedFd| {
        use std::os::fd::AsRawFd;
        fs::read_to_string(format!("/proc/self/fd/{}", node.as_raw_fd()))
    };
    fs::write(case.path("new"), case.named(NEW)).unwrap();
    fs::rename(case.path("new"), case.tree()).unwrap();
    let replaced = path("tree.yaml");
    fs::write(case.path("note"), "a note").unwrap();
    let removed = path("note");
    fs::write(case.path("new"), case.named("third")).unwrap();
    fs::rename(case.path("new"), case.tree()).unwrap();
    fs::remove_file(case.path("note")).unwrap();
    assert_eq!(opened(&replaced).unwrap(), case.named(NEW));
    assert_eq!(opened(&removed).unwrap(), "a note");
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.named("third"));
}

#[test]
fn a_handle_reads_one_text_to_its_end_and_another_one_from_the_start() {
    for writing in [false, true] {
        let case = Case::new();
        let mut file = File::options().read(true).write(writing).open(case.tree()).unwrap();
        let mut start = [0; 150];
        file.read_exact(&mut start).unwrap();
        // Another program replaces the source.
        let (bytes, changed) = (fs::read(&case.source).unwrap(), case.named(&"longer ".repeat(200)));
        let other = case.source.with_extension("other");
        fs::write(&other, [changed.as_bytes(), &bytes[case.text.len()..]].concat()).unwrap();
        fs::rename(&other, &case.source).unwrap();
        assert!(wait_until(|| fs::read_to_string(case.tree()).is_ok_and(|text| text == changed)));
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!([std::str::from_utf8(&start).unwrap(), &rest].concat(), case.text, "writing: {writing}");
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut anew = String::new();
        file.read_to_string(&mut anew).unwrap();
        assert_eq!(anew, changed, "writing: {writing}");
    }
}

#[test]
fn a_handle_reads_what_it_wrote_and_a_draft_that_is_given_up() {
    let case = Case::new();
    let mut file = File::options().read(true).write(true).open(case.tree()).unwrap();
    let mut start = [0; 100];
    file.read_exact(&mut start).unwrap();
    file.write_all_at(b"FIRST", 110).unwrap();
    file.read_exact(&mut start).unwrap();
    assert_eq!(&start[10..15], b"FIRST");
    drop(file);
    // Another handle reads a draft while its writer truncates it and saves another text.
    let mut draft = File::create(case.tree()).unwrap();
    draft.write_all(case.named(NEW).as_bytes()).unwrap();
    let mut reader = File::open(case.tree()).unwrap();
    reader.read_exact(&mut start).unwrap();
    close(draft).unwrap();
    fs::write(case.tree(), case.named("third")).unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!([std::str::from_utf8(&start).unwrap(), &rest].concat(), case.named(NEW));
}
