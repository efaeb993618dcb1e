//! kill -9 of the daemon during saves: the file is the old or the new one, reported saves are in the file,
//! and the bytes of the blocks are unchanged.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::faults::{Fault, Faults, calls};
use crate::place::{Place, file, said, write};
use common::asdf::{Block, sample};
use common::dice::Dice;
use common::disk::run;
use common::encode::Encoding;
use common::mount::{Mounted, wait_until};

/// Random moments at which the daemon is killed for each way, in addition to each call.
const MOMENTS: usize = 14;

/// A case in which a save takes a certain plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) linked: bool,
    pub(crate) grows: bool,
}

/// Each plan, on the file systems that support it.
pub(crate) const WAYS: [Way; 9] = [
    Way { name: "in-place", kind: "ext4", linked: false, grows: false },
    Way { name: "clone", kind: "xfs", linked: false, grows: true },
    Way { name: "clone-btrfs", kind: "btrfs", linked: false, grows: true },
    Way { name: "insert", kind: "ext4", linked: false, grows: true },
    Way { name: "insert-xfs", kind: "xfs", linked: true, grows: true },
    Way { name: "copy", kind: "tmpfs", linked: false, grows: true },
    Way { name: "rewrite", kind: "tmpfs", linked: true, grows: true },
    // The file system refuses an insertion first.
    Way { name: "rewrite-ext2", kind: "ext2", linked: true, grows: true },
    Way { name: "insert-1k", kind: "ext4 of 1 KiB", linked: false, grows: true },
];

impl Way {
    /// Returns a file whose saves take this way.
    pub(crate) fn place(self) -> Place {
        let blocks = vec![
            Block::new(sample(9000, 1)),
            Block::new(sample(60_000, 2)).encoding(Encoding::Zlib),
            Block::new(sample(300_000, 3)),
        ];
        let place = Place::with(self.kind, &file(blocks));
        if self.linked {
            fs::hard_link(&place.source, place.disk.path().join("other name")).unwrap();
        }
        place
    }

    /// Returns a text whose save takes this way; `before` is the current text.
    pub(crate) fn next(self, place: &Place, before: &str, n: usize) -> String {
        let name = format!(
            "n{n} {}",
            if self.grows {
                "longer ".repeat(before.len() / 7 % 20_000 + 1200)
            } else {
                "x".repeat(n * 37 % 3000)
            }
        );
        place.named(&name)
    }
}

pub(crate) fn kill(mount: &Mounted) {
    if let Some(daemon) = mount.daemon() {
        let _ = kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), Signal::KILL);
    }
    assert!(wait_until(|| mount.daemon().is_none()));
}

/// Asserts that after the next mount, or a recovery, the file has one of these two texts, and that no
/// leftovers remain; returns the text.
#[track_caller]
fn recovered(place: &Place, by_hand: bool, texts: [&str; 2]) -> String {
    if by_hand {
        for round in 0..2 {
            let output = place.run([Path::new("--recover"), &place.source]);
            assert!(output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(round == 0 || said.contains("nothing to recover"), "a second time: {output:?}");
        }
    } else {
        let mount = place.mount();
        assert_eq!(mount.tree(), place.saved().as_bytes());
        place.shows_blocks(&mount);
    }
    place.nothing_is_beside();
    texts[place.holds_one_of(&texts)].to_owned()
}

fn at_each_call(way: Way) -> usize {
    let place = way.place();
    // Makes space for texts that fit.
    let mut before = place.named(&"room ".repeat(200));
    write(&place.mount(), &before).unwrap();
    let (mut kills, mut n) = (0, 0);
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        for at in calls() {
            let faults = Faults::new(&place.folder(), &place.disk.path());
            let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
            n += 1;
            let new = way.next(&place, &before, n);
            faults.after(at, fault);
            let answer = write(&mount, &new);
            if answer.is_ok() && mount.daemon().is_some() {
                before = new;
                break;
            }
            assert!(wait_until(|| mount.daemon().is_none()), "{way:?}, {at}");
            drop(mount);
            kills += 1;
            let found = recovered(&place, at % 2 == 0, [&before, &new]);
            assert!(answer.is_err() || found == new, "{way:?}, {at}: it was said to be saved");
            before = found;
        }
    }
    println!("{}: killed at {kills} calls", way.name);
    assert!(kills >= 14, "{way:?}: {kills}");
    kills
}

/// In a mounted directory, a half-saved file is recovered as soon as a program accesses it, even if its first
/// bytes match no format.
#[test]
fn in_a_folder_of_files() {
    let way = WAYS[3];
    let mut halfway = 0;
    for at in calls() {
        let place = way.place();
        let faults = Faults::new(&place.folder(), &place.disk.path());
        let folder = place.disk.path();
        let mount = place.try_mount_as(&folder, &[], |command| faults.under(command)).unwrap();
        let (old, new) = (place.text(), place.named(&"longer ".repeat(2000)));
        fs::read(mount.path("a.asdf/tree.yaml")).unwrap();
        faults.after(at, Fault::KilledBefore);
        let answer = fs::write(mount.path("a.asdf/tree.yaml"), &new);
        if mount.daemon().is_some() {
            answer.unwrap();
            break;
        }
        drop(mount);
        let broken = !fs::read(&place.source).unwrap().starts_with(b"#ASDF");
        halfway += usize::from(broken);
        if broken {
            let refused = place.try_mount(&place.source, &["-o", "ro"]).unwrap_err();
            assert!(crate::place::said(&refused).contains("--recover"), "{refused:?}");
        }
        let mount = place.try_mount(&folder, &[]).unwrap();
        let shown = fs::read_to_string(mount.path("a.asdf/tree.yaml")).unwrap();
        assert_eq!(shown, [&old, &new][place.holds_one_of(&[&old, &new])].as_str());
        for (n, block) in place.built.blocks.iter().enumerate() {
            assert!(fs::read(mount.path(format!("a.asdf/blocks/{n}.bin"))).unwrap() == block.data);
        }
        // The next save removes a new file that was never put in place.
        fs::write(mount.path("a.asdf/tree.yaml"), place.named("next")).unwrap();
        place.nothing_is_beside();
    }
    assert!(halfway > 0);
}

#[test]
fn of_a_file_that_is_half_of_both_no_reader_sees_anything_on_ext() {
    no_reader_sees_half_of_both(|kind| kind.starts_with("ext"));
}

#[test]
fn of_a_file_that_is_half_of_both_no_reader_sees_anything_on_xfs_and_btrfs() {
    no_reader_sees_half_of_both(|kind| ["xfs", "btrfs"].contains(&kind));
}

#[test]
fn of_a_file_that_is_half_of_both_no_reader_sees_anything_on_tmpfs() {
    no_reader_sees_half_of_both(|kind| kind == "tmpfs");
}

/// A read-only mount shows the old file or the new one, or nothing.
fn no_reader_sees_half_of_both(is_wanted: fn(&str) -> bool) {
    for way in WAYS.into_iter().filter(|way| is_wanted(way.kind)) {
        let mut halfway = 0;
        for at in calls() {
            let place = way.place();
            // The text is so long that it takes several writes.
            let old = place.named(&if way.grows { "room ".repeat(200) } else { "a".repeat(150_000) });
            write(&place.mount(), &old).unwrap();
            let faults = Faults::new(&place.folder(), &place.disk.path());
            let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
            let new = if way.grows { way.next(&place, &old, 3) } else { old.replace("aaaa", "bbbb") };
            faults.after(at, Fault::KilledBefore);
            let answer = write(&mount, &new);
            if answer.is_ok() && mount.daemon().is_some() {
                break;
            }
            assert!(wait_until(|| mount.daemon().is_none()), "{way:?}, {at}");
            drop(mount);
            let texts = [old.as_str(), &new];
            let whole = place.is_whole(&texts);
            halfway += u32::from(!whole);
            assert_never_both(&place, whole, texts);
            recovered(&place, at % 2 == 0, texts);
        }
        let makes_new_file = ["clone", "clone-btrfs", "copy"].contains(&way.name);
        assert_eq!(halfway == 0, makes_new_file, "{way:?}: {halfway}");
    }
}

#[track_caller]
fn assert_never_both(place: &Place, whole: bool, texts: [&str; 2]) {
    let before = fs::read(&place.source).unwrap();
    let is_one = |text: &[u8]| texts.iter().any(|one| one.as_bytes() == text);
    match place.try_mount(&place.source, &["-o", "ro"]) {
        Ok(mount) => {
            assert!(whole && is_one(&mount.tree()));
            place.shows_blocks(&mount);
        }
        Err(output) => {
            assert!(!whole, "{output:?}");
            assert!(said(&output).contains("--recover"), "{output:?}");
        }
    }
    let checked = place.run([Path::new("--check"), &place.source]);
    let told = [checked.stdout, checked.stderr].concat();
    assert_eq!(checked.status.success(), whole, "{}", String::from_utf8_lossy(&told));
    assert_eq!(String::from_utf8_lossy(&told).contains("--recover"), !whole);
    let folder = place.try_mount(&place.disk.path(), &["-o", "ro"]).unwrap();
    let tree = folder.path("a.asdf/tree.yaml");
    assert!(fs::read(folder.path("a.asdf")).is_err(), "not as it is, either");
    match fs::read(&tree) {
        Ok(text) => assert!(whole && is_one(&text)),
        Err(error) => {
            assert!(!whole && error.raw_os_error() == Some(libc::EIO), "{error}");
            assert!(place.log().contains("a mixture of the old version and the new one"), "{}", place.log());
        }
    }
    assert!(fs::read(&place.source).unwrap() == before, "a reader changes nothing");
    if !whole {
        // A file that can't be written can't be recovered.
        if made_immutable(place) {
            let output = place.try_mount(&place.source, &[]).unwrap_err();
            run("chattr", &["-i", place.source.to_str().unwrap()]);
            assert!(said(&output).contains("--recover"), "{output:?}");
        }
        assert!(place.run([Path::new("--recover"), &place.source]).status.success());
        assert!(wait_until(|| fs::read(&tree).is_ok_and(|text| is_one(&text))));
    }
}

/// Makes the source immutable, if the file system supports it.
fn made_immutable(place: &Place) -> bool {
    std::process::Command::new("chattr").arg("+i").arg(&place.source).output().unwrap().status.success()
}

fn at_random(way: Way, moments: usize) -> usize {
    let place = way.place();
    let mut dice = Dice(way.name.len() as u64 + 4711);
    let mut before = place.named(&"room ".repeat(200));
    write(&place.mount(), &before).unwrap();
    let mut cut = 0;
    for moment in 0..moments {
        let mount = place.mount();
        let (said, heard) = mpsc::channel();
        let (last, tried) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut last, said) = (before.clone(), said);
                // Far more saves than finish before the daemon is killed.
                for n in 0..10_000 {
                    let new = way.next(&place, &last, moment * 1000 + n);
                    let answer = write(&mount, &new);
                    let failed = answer.is_err();
                    said.send((answer.is_ok().then(|| new.clone()), new.clone())).unwrap();
                    if failed {
                        return;
                    }
                    last = new;
                }
            });
            std::thread::sleep(Duration::from_micros(1500 + dice.below(25_000)));
            kill(&mount);
            let (mut last, mut tried) = (before.clone(), before.clone());
            for (saved, new) in heard {
                last = saved.unwrap_or(last);
                tried = new;
            }
            (last, tried)
        });
        drop(mount);
        cut += usize::from(!place.ours_beside().is_empty());
        before = recovered(&place, moment % 3 == 0, [&last, &tried]);
        // Each entry of the history leads to the next one, and the last one to the text of the file.
        let logged = place.run([Path::new("--log"), &place.source]);
        let listed = String::from_utf8_lossy(&logged.stdout).into_owned();
        assert!(logged.status.success() && !listed.contains("of another text"), "{logged:?}");
    }
    println!("{}: {cut} of {moments} left something halfway", way.name);
    moments
}

#[test]
fn at_any_call_of_a_save() {
    let kills: usize = WAYS.into_iter().map(at_each_call).sum();
    assert!(kills > 140, "{kills}");
}

/// The journal of a long head takes several writes, so a kill leaves an incomplete journal. On ext2 the
/// refused insertion has already changed the source's time.
#[test]
fn of_a_journal_that_is_not_whole_nothing_stays() {
    let mut unfinished = 0;
    for at in calls() {
        let place = WAYS[7].place();
        let old = place.named(&"room ".repeat(80_000));
        write(&place.mount(), &old).unwrap();
        let faults = Faults::new(&place.folder(), &place.disk.path());
        let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
        let new = place.named(&"longer ".repeat(100_000));
        faults.after(at, Fault::KilledBefore);
        let answer = write(&mount, &new);
        if answer.is_ok() && mount.daemon().is_some() {
            break;
        }
        assert!(wait_until(|| mount.daemon().is_none()), "{at}");
        drop(mount);
        let journal = fs::metadata(place.source.with_file_name(".a.asdf.asdf-mount-journal"));
        unfinished +=
            usize::from(journal.is_ok_and(|journal| (1..old.len() as u64).contains(&journal.len())));
        recovered(&place, at % 2 == 0, [&old, &new]);
    }
    assert!(unfinished > 0);
}

#[test]
fn at_random_moments_of_many_saves() {
    for way in WAYS {
        at_random(way, MOMENTS);
    }
}
