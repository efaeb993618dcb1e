//! File systems that do not answer, or answer nothing but errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::place::{Place, write};
use common::disk::run;
use common::mount::wait_until;

/// Time after which a save counts as held up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file system that is frozen, as for a snapshot, until this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: &Path) -> Self {
        run("fsfreeze", &["-f", path.to_str().unwrap()]);
        Self(path.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0).status();
    }
}

/// Returns the number of threads of a process that save and wait for a disk.
fn stuck(daemon: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{daemon}/task")).unwrap();
    let is_stuck = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.contains("(save)") && stat.contains(") D ")
    };
    tasks.filter(|task| task.as_ref().is_ok_and(|task| is_stuck(&task.path()))).count()
}

#[test]
fn saves_on_a_frozen_file_system_hold_up_no_save_on_another() {
    let (place, other) = (Place::on("ext4"), Place::on("ext4"));
    let (one, two) = (place.disk.path().join("one"), other.disk.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    let names: Vec<String> = (0..6).map(|n| format!("{n}.asdf")).collect();
    for name in &names {
        fs::copy(&place.source, one.join(name)).unwrap();
    }
    fs::copy(&other.source, two.join("a.asdf")).unwrap();
    let mount = place.try_mount(&one, &[two.to_str().unwrap()]).unwrap();
    let text = place.named("saved");
    let frozen = Frozen::new(&place.disk.path());
    std::thread::scope(|scope| {
        let waiting: Vec<_> = names
            .iter()
            .map(|name| {
                let (tree, text) = (mount.path(format!("one/{name}/tree.yaml")), &text);
                scope.spawn(move || fs::write(tree, text))
            })
            .collect();
        assert!(wait_until(|| stuck(mount.daemon().unwrap()) >= 4));
        let (done, is_done) = mpsc::channel();
        let (tree, new) = (mount.path("two/a.asdf/tree.yaml"), text.clone());
        std::thread::spawn(move || done.send(fs::write(tree, new)));
        let answer = is_done.recv_timeout(PATIENCE);
        drop(frozen);
        answer.expect("a save waits for a frozen file system").unwrap();
        for save in waiting {
            save.join().unwrap().unwrap();
        }
    });
    for path in names.iter().map(|name| one.join(name)).chain([two.join("a.asdf")]) {
        assert_eq!(crate::place::saved(&path), text, "{path:?}");
    }
}

#[test]
fn a_file_system_that_was_shut_down_is_an_input_or_output_error() {
    let place = Place::on("xfs");
    let folder = place.disk.path();
    fs::copy(&place.source, folder.join("b.asdf")).unwrap();
    // mkfs.btrfs of another test looks at what each mount is named after, and fails on EIO.
    let named = ["-o", "fsname=shut-down"];
    let [single, whole] = [&place.source, &folder].map(|source| place.try_mount(source, &named).unwrap());
    run("xfs_io", &["-x", "-c", "shutdown", folder.to_str().unwrap()]);
    let answers = [
        write(&single, &place.named("lost")),
        fs::write(whole.path("a.asdf/tree.yaml"), "x"),
        fs::read(whole.path("b.asdf/tree.yaml")).map(drop),
        fs::read(single.path("blocks/0.bin")).map(drop),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let errno = answer.unwrap_err().raw_os_error();
        assert_eq!(errno, Some(libc::EIO), "{n}: {}", place.log());
    }
    for command in [["--check", "a.asdf"], ["--ls", "a.asdf"], ["--recover", "a.asdf"]] {
        let output = place.run([Path::new(command[0]), &folder.join(command[1])]);
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!output.status.success() && said.contains("input/output error"), "{output:?}");
    }
}
