//! Full and failing disks, closed directories, revoked permissions, limits: the program gets an error, the
//! file is unchanged, the text is kept, and the next save works.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::exchanged::Stopped;
use crate::faults::{Fault, Faults, calls};
use crate::place::{KINDS, Place, copy_program, errno, file, write, write_tree};
use common::asdf::{Block, sample};
use common::disk::run;
use common::mount::{Mounted, wait_until};
use common::namespace::script_in_namespace;

/// Returns a text so much longer that the blocks must move.
fn longer(place: &Place, bytes: usize) -> String {
    place.named(&"longer ".repeat(bytes / 7))
}

/// Fills the file system except for about `free` bytes.
fn fill(ballast: &File, free: u64) {
    ballast.set_len(0).unwrap();
    rustix::fs::syncfs(ballast).unwrap();
    let space = rustix::fs::fstatvfs(ballast).unwrap();
    let mut len = (space.f_bavail * space.f_frsize).saturating_sub(free);
    while rustix::fs::fallocate(ballast, rustix::fs::FallocateFlags::empty(), 0, len).is_err() {
        len = len.checked_sub(64 << 10).expect("some room is left");
    }
    rustix::fs::syncfs(ballast).unwrap();
}

/// Asserts that `text` was refused with this errno, reported and kept, and that the file is unchanged.
#[track_caller]
fn is_refused(place: &Place, mount: &Mounted, text: &str, before: &str) {
    place.holds(before);
    place.is_sound();
    assert_eq!(fs::read_to_string(mount.path("tree.yaml.rejected")).unwrap(), text);
    assert!(place.kept().iter().any(|kept| kept == text));
    // The kernel reports the end of a handle only after close has returned.
    assert!(wait_until(|| mount.tree() == before.as_bytes()));
    place.shows_blocks(mount);
}

#[test]
fn on_a_full_disk_the_old_file_stays_and_with_room_it_is_saved() {
    for kind in KINDS {
        for linked in [false, true] {
            let small = file(vec![Block::new(sample(9000, 1)), Block::new(sample(200, 2))]);
            let place = Place::with(kind, &small);
            if linked {
                fs::hard_link(&place.source, place.disk.path().join("other name")).unwrap();
            }
            let ballast = File::create(place.disk.path().join("ballast")).unwrap();
            let mount = place.mount();
            let (mut before, mut refused) = (place.text(), 0);
            for round in 0..4 {
                let text = longer(&place, 60_000 * (round + 1));
                for free in [0, 16 << 10, 64 << 10, 4 << 20] {
                    fill(&ballast, free);
                    match write(&mount, &text) {
                        Ok(()) => {
                            place.holds(&text);
                            before = text;
                            break;
                        }
                        error => {
                            assert_eq!(errno(error), libc::ENOSPC, "{kind}, {linked}, {free}");
                            refused += 1;
                            is_refused(&place, &mount, &text, &before);
                            place.nothing_is_beside();
                        }
                    }
                }
                // A text that fits needs no free space: the journal goes to a file system that has some.
                if kind != "btrfs" {
                    fill(&ballast, 0);
                    let fits = before.replace("a comment", &format!("{round} comment"));
                    write(&mount, &fits).unwrap();
                    place.holds(&fits);
                    before = fits;
                }
                ballast.set_len(0).unwrap();
                // btrfs counts the room as free from the next commit on.
                rustix::fs::syncfs(&ballast).unwrap();
                if place.saved() != before {
                    panic!("{kind}: neither of the texts");
                }
                let text = longer(&place, 60_000 * (round + 1) + 10);
                write(&mount, &text).unwrap_or_else(|error| panic!("{kind}, {linked}: {error}"));
                place.holds(&text);
                place.shows_blocks(&mount);
                assert!(!mount.path("tree.yaml.error").exists());
                before = text;
            }
            // btrfs never reports its free space exactly.
            assert!(refused > 0 || kind == "btrfs", "{kind}, {linked}");
            place.nothing_is_beside();
        }
    }
}

/// Returns a mounted file, with a second hard link if `linked`, on a disk that can be made to fail.
fn failing(kind: &str, linked: bool) -> (Place, Faults, Mounted) {
    let place = Place::with(kind, &file(vec![Block::new(sample(9000, 1)), Block::new(sample(200, 2))]));
    if linked {
        fs::hard_link(&place.source, place.disk.path().join("other name")).unwrap();
    }
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
    (place, faults, mount)
}

#[test]
fn the_directory_of_a_file_whose_headers_cant_be_read_ends_with_the_error() {
    let blocks = (0..3).map(|n| Block::new(sample(200_000, n)));
    let place = Place::with("tmpfs", &file(blocks.collect()));
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
    faults.after(0, Fault::Unreadable(libc::EIO));
    let ls = || Command::new("ls").arg(mount.root()).env("LC_ALL", "C").output().unwrap();
    let output = ls();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Input/output error"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().any(|name| name == "tree.yaml"), "{output:?}");
    faults.none();
    assert!(wait_until(|| ls().status.success()));
    place.shows_blocks(&mount);
}

/// A disk that fails at any call of a save leaves the old file or the new one.
mod at_any_call {
    use super::fails_at_any_call;

    #[test]
    fn of_a_save_in_place() {
        fails_at_any_call("ext4", false, false);
    }

    #[test]
    fn of_an_insertion() {
        assert!(fails_at_any_call("ext4", false, true) > 0);
    }

    #[test]
    fn of_a_clone_on_xfs() {
        fails_at_any_call("xfs", false, true);
    }

    #[test]
    fn of_a_clone_on_btrfs() {
        fails_at_any_call("btrfs", false, true);
    }

    #[test]
    fn of_a_copy() {
        fails_at_any_call("tmpfs", false, true);
    }

    #[test]
    fn of_a_rewriting() {
        assert!(fails_at_any_call("tmpfs", true, true) > 0);
    }
}

/// Lets each call of a save fail in turn. Returns the number of saves that left a journal.
#[allow(clippy::too_many_lines)] // the cases, in chronological order
fn fails_at_any_call(kind: &str, linked: bool, grows: bool) -> usize {
    let mut halfway = 0;
    let faults = [
        Fault::Once(libc::EIO),
        Fault::Lasting(libc::EIO),
        Fault::Once(libc::ENOSPC),
        Fault::Lasting(libc::EDQUOT),
        Fault::Reading(libc::EIO),
    ];
    for fault in faults {
        let (mut place, mut faults, mut mount) = failing(kind, linked);
        let mut before = longer(&place, 9000);
        write(&mount, &before).unwrap();
        let mut at = 0;
        let mut refused = 0;
        let mut left = 0;
        loop {
            assert!(at < 2000, "{kind}, {fault:?}: no save comes to its end");
            if place.room() > 300_000 {
                // The space before the blocks grows with each save; start again.
                (place, faults, mount) = failing(kind, linked);
            }
            let shown = format!("{kind}, {linked}, {grows}, {fault:?} at call {at}");
            let text = if grows {
                longer(&place, place.room())
            } else {
                before
                    .replace("a comment", &format!("{at:03}omment"))
                    .replace(&format!("{:03}omment", at - 1), &format!("{at:03}omment"))
            };
            assert_ne!(text, before);
            faults.after(at, fault);
            let answer = write(&mount, &text);
            let calls = faults.none();
            if let Err(error) = &answer {
                refused += 1;
                let number = error.raw_os_error().unwrap();
                assert!(
                    [libc::EIO, libc::ENOSPC, libc::EDQUOT].contains(&number),
                    "{shown}: {error}, {}",
                    place.log()
                );
                assert!(place.kept().contains(&text), "{shown}");
                left += usize::from(place.has_journal());
                // If the file is half-saved now, the next read or the next save recovers it.
                if at % 2 == 0 {
                    place.shows_blocks(&mount);
                    assert!(wait_until(|| mount.tree() == place.saved().as_bytes()), "{shown}");
                    place.is_sound();
                }
                let next = text.replace("a comment", "mended").replace("omment", "mmend");
                write(&mount, &next).unwrap_or_else(|error| panic!("{shown}: {error}\n{}", place.log()));
                place.holds(&next);
                write(&mount, &text).unwrap();
            }
            place.holds(&text);
            assert_eq!(mount.tree(), text.as_bytes(), "{shown}");
            place.shows_blocks(&mount);
            if answer.is_ok() && !place.ours_beside().is_empty() {
                // The next save removes files that could not be removed.
                write(&mount, &place.text()).unwrap();
                write(&mount, &text).unwrap();
            }
            place.nothing_is_beside();
            if calls <= at {
                break;
            }
            before = text;
            at += 1;
        }
        // If there is no space for a journal, another place is tried.
        let least = if fault == Fault::Once(libc::ENOSPC) { 1 } else { 4 };
        assert!(refused >= least, "{kind}, {fault:?}: {refused} refused of {at}");
        halfway += left;
    }
    halfway
}

/// A mount that has left a file half-saved does not take the journal of the program that saves it next for its own.
#[test]
fn after_a_save_that_was_left_halfway_a_reader_waits_for_the_next_program_that_saves() {
    let place = Place::with("ext4", &file(vec![Block::new(sample(9000, 1)), Block::new(sample(200, 2))]));
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mount = place.try_mount_as(&place.disk.path(), &[], |command| faults.under(command)).unwrap();
    let [tree, block] = ["a.asdf/tree.yaml", "a.asdf/blocks/0.bin"].map(|name| mount.path(name));
    let before = fs::read(&place.source).unwrap();
    let folder = place.folder().join("command");
    fs::create_dir(&folder).unwrap();
    let of_command = Faults::new(&folder, &place.disk.path());
    let text = folder.join("text");
    let mut stopped_beside_a_journal = 0;
    let mut call = 0;
    for at in calls() {
        loop {
            faults.after(call, Fault::Lasting(libc::EIO));
            write_tree(&tree, &longer(&place, 20_000)).expect_err("no save is left halfway");
            if fs::read(&block).is_err() {
                break;
            }
            faults.none();
            call += 1;
        }
        fs::write(&text, longer(&place, 30_000 + at as usize)).unwrap();
        let command = place.command([Path::new("--set-tree"), &text, &place.source]);
        let stopped = Stopped::at_call(at, &of_command, command);
        let is_stopped = stopped.is_stopped;
        stopped_beside_a_journal += usize::from(is_stopped && place.has_journal());
        let path = block.clone();
        let begun = Instant::now();
        let reader = std::thread::spawn(move || (fs::read(path), begun.elapsed()));
        std::thread::sleep(Duration::from_millis(20));
        let (succeeded, said) = stopped.ends();
        of_command.none();
        assert!(succeeded, "{at}: {said}");
        let (read, waited) = reader.join().unwrap();
        match read {
            Ok(bytes) => assert!(bytes == sample(9000, 1), "{at}"),
            // The file was opened before the save, and read after it; or the save took too long.
            error => {
                let errno = errno(error);
                let is_late = errno == libc::EIO && waited >= Duration::from_secs(1);
                assert!(errno == libc::ESTALE || is_late, "{at}: errno {errno} after {waited:?}");
            }
        }
        if !is_stopped {
            break;
        }
        faults.none();
        fs::write(&place.source, &before).unwrap();
    }
    assert!(stopped_beside_a_journal > 4, "{stopped_beside_a_journal}");
}

/// After a failure that could not be undone, the mount ends; the next mount or a recovery settles the file.
#[test]
fn what_a_failing_disk_left_halfway_is_settled_by_the_next_mount() {
    let mut halfway = 0;
    for (kind, linked) in [("ext4", false), ("tmpfs", true)] {
        for at in 0..30 {
            let (place, faults, mount) = failing(kind, linked);
            let (old, new) = (place.text(), longer(&place, 20_000));
            faults.after(at, Fault::Lasting(libc::EIO));
            let answer = write(&mount, &new);
            mount.unmount();
            let left = place.ours_beside();
            halfway += usize::from(!left.is_empty());
            if at % 2 == 0 {
                let recovered = place.run([std::path::Path::new("--recover"), &place.source]);
                assert!(recovered.status.success(), "{recovered:?}");
                place.nothing_is_beside();
            }
            let again = place.mount();
            let found = place.holds_one_of(&[&old, &new]);
            assert!(found == 1 || answer.is_err(), "{kind}, {at}");
            place.nothing_is_beside();
            place.shows_blocks(&again);
        }
    }
    assert!(halfway > 4, "{halfway}");
}

/// In an immutable directory no file can be created; from an append-only directory no file can be removed.
#[test]
fn in_a_closed_folder_the_journal_goes_to_the_state_directory() {
    for (kind, attribute) in ["ext4", "xfs", "btrfs"].into_iter().flat_map(|kind| [(kind, 'i'), (kind, 'a')])
    {
        let place = Place::on(kind);
        let folder = place.disk.path();
        let folder = folder.to_str().unwrap();
        run("chattr", &[&format!("+{attribute}"), folder]);
        let before = fs::metadata(&place.source).unwrap();
        let mount = place.mount();
        for text in [longer(&place, 5000), place.named("shorter"), longer(&place, 50_000)] {
            write(&mount, &text).unwrap_or_else(|error| panic!("{kind}: {error}, {}", place.log()));
            place.holds(&text);
            place.shows_blocks(&mount);
            assert_eq!(mount.tree(), text.as_bytes());
            place.nothing_is_beside();
        }
        assert_eq!(fs::metadata(&place.source).unwrap().ino(), before.ino());
        mount.unmount();
        run("chattr", &[&format!("-{attribute}"), folder]);
        place.nothing_is_beside();
        place.is_sound();
        let left: Vec<_> =
            fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "history"), "{left:?}");
    }
}

/// The directory becomes append-only during the mount.
#[test]
fn a_folder_that_becomes_append_only_is_left_for_the_state_directory() {
    let place = Place::on("ext4");
    let folder = place.disk.path();
    let mount = place.mount();
    write(&mount, &longer(&place, 100)).unwrap();
    run("chattr", &["+a", folder.to_str().unwrap()]);
    for text in [longer(&place, 5000), place.named("shorter"), longer(&place, 50_000)] {
        write(&mount, &text).unwrap_or_else(|error| panic!("{error}, {}", place.log()));
        place.holds(&text);
        place.nothing_is_beside();
    }
    run("chattr", &["-a", folder.to_str().unwrap()]);
}

#[test]
fn a_file_that_could_never_be_saved_is_mounted_for_reading_and_says_why() {
    let place = Place::on("ext4");
    let (folder, source) = (place.disk.path(), place.source.to_str().unwrap().to_owned());
    let folder = folder.to_str().unwrap();
    let bound = place.folder().join("bound");
    fs::create_dir(&bound).unwrap();
    let bound = bound.to_str().unwrap();
    let chattr = |to: &str, path: &str| run("chattr", &[to, path]);
    let is_read_only = |source: &str, why: &str| {
        let mount = place
            .try_mount_as(Path::new(source), &[], |command| {
                command.env("XDG_STATE_HOME", "/dev/null/there/is/none");
            })
            .unwrap_or_else(|output| panic!("{why}: {output:?}"));
        let status = fs::read_to_string(mount.path(".asdf-mount/status.yaml")).unwrap();
        assert!(status.contains("writable: false") && status.contains(why), "{status}");
        let error = write(&mount, &longer(&place, 5000)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EROFS), "{why}");
        place.shows_blocks(&mount);
        mount.unmount();
        assert!(fs::read(&place.source).unwrap() == place.built.bytes, "{why}");
        place.nothing_is_beside();
    };
    for attribute in ['a', 'i'] {
        chattr(&format!("+{attribute}"), folder);
        is_read_only(&source, "no file can be created and removed beside it");
        chattr(&format!("-{attribute}"), folder);
        chattr(&format!("+{attribute}"), &source);
        is_read_only(&source, "be written");
        chattr(&format!("-{attribute}"), &source);
    }
    run("mount", &["--bind", folder, bound]);
    run("mount", &["-o", "remount,bind,ro", bound]);
    is_read_only(&format!("{bound}/a.asdf"), "be written");
    run("umount", &[bound]);
}

/// A script that opens tree.yaml, waits until the test has changed the file, and writes; exits with the errno of close.
const WRITER: &str = r#"
use strict;
open(my $tree, '>', 'home/m/tree.yaml') or die "tree: $!";
open(my $file, '<', $ARGV[0]) or die "text: $!";
my $text = do { local $/; <$file> };
open(my $opened, '>', 'home/opened') or die "opened: $!";
for (1 .. 6000) { last if -e 'home/go'; select(undef, undef, undef, 0.01) }
unlink 'home/go';
my $done = 0;
while ($done < length $text) {
    my $more = syswrite($tree, $text, length($text) - $done, $done) or exit($! + 0);
    $done += $more;
}
close($tree) or exit($! + 0);
"#;

/// A user's mount, with permissions on the file revoked step by step.
#[test]
fn what_a_user_may_no_longer_write_is_saved_all_the_same_or_refused_and_kept() {
    for kind in KINDS {
        let place = Place::on(kind);
        let texts: Vec<_> = (1..=5).map(|n| longer(&place, 6000 * n)).collect();
        for (n, text) in texts.iter().enumerate() {
            fs::write(place.disk.path().join(format!("text{n}")), text).unwrap();
        }
        copy_program(&place);
        fs::write(place.disk.path().join("writer.pl"), WRITER).unwrap();
        let script = r#"
            chmod 755 .. . ; chmod 644 text* writer.pl
            mkdir dev home data
            mount -t tmpfs -o dev none dev
            mknod -m 666 dev/fuse c 10 229
            chmod 666 dev/fuse
            mount --bind dev/fuse /dev/fuse
            mv a.asdf data/
            chown -R 65534:65534 home data
            user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
            # A daemon that stays would keep the mounts of other tests, which are also in this namespace.
            trap 'test -z "${daemon-}" || kill -9 $daemon' EXIT
            is() { cmp -n $(stat -c %s $1) $1 data/a.asdf; }
            user mkdir home/m
            user ./program -v --log-file home/log data/a.asdf home/m
            daemon=$(user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/m)
            save() {
                user perl writer.pl $1 &
                for i in $(seq 500); do test ! -e home/opened || break; sleep 0.02; done
                rm home/opened
                eval "$2"
                touch home/go
                wait $!
            }
            save text0 'chmod 444 data/a.asdf'; is text0
            test $(stat -c %a data/a.asdf) = 444
            chmod 644 data/a.asdf; sleep 0.3  # a source is not looked at all the time
            save text1 'chown 0:0 data/a.asdf'; is text1
            test "$(stat -c %u:%a data/a.asdf)" = 0:644
            chmod 666 data/a.asdf; sleep 0.3
            # No file can be made in the folder.
            save text2 'chown 0:0 data'; is text2
            # The folder can't be looked into: it is refused, and neither EPERM nor EACCES.
            status=0; save text3 'chmod 700 data' || status=$?
            case $status in 0|1|13) exit 7;; esac
            is text2
            grep -q 'tree.yaml was not saved' home/log
            cmp text3 home/state/asdf-mount/*.rejected.yaml
            # Given back, it works again.
            chmod 755 data; sleep 0.3
            user sh -c 'cat text4 > home/m/tree.yaml'; is text4
            user cmp text4 home/m/tree.yaml
            user fusermount3 -u home/m
            for i in $(seq 100); do kill -0 $daemon 2>/dev/null || break; sleep 0.1; done
            daemon=
            chown 65534:65534 data/a.asdf
            mv data/a.asdf .
            rm -rf home data; umount /dev/fuse dev; rmdir dev
        "#;
        let output = script_in_namespace(&place.disk.path(), 60, script)
            .env("XDG_STATE_HOME", place.disk.path().join("home/state"))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .unwrap();
        assert!(output.status.success(), "{kind}: {output:?}");
        place.holds(&texts[4]);
        place.nothing_is_beside();
    }
}

#[test]
fn beyond_the_limit_of_file_sizes_it_is_refused_as_too_large() {
    for kind in KINDS {
        let place = Place::on(kind);
        let mount = place.mount();
        let daemon = mount.daemon().unwrap();
        let limit = |bytes: &str| {
            let status = Command::new("prlimit").args(["--pid", &daemon.to_string(), bytes]).status();
            assert!(status.unwrap().success());
        };
        // The limit is sufficient for the journal, but not for the file.
        limit("--fsize=1000000:unlimited");
        let text = longer(&place, 30_000);
        assert_eq!(errno(write(&mount, &text)), libc::EFBIG, "{kind}: {}", place.log());
        is_refused(&place, &mount, &text, &place.text());
        place.nothing_is_beside();
        // The limit is too small even for a scratch file.
        limit("--fsize=1000:unlimited");
        let answer = fs::write(mount.path("scratch"), vec![1; 5000]);
        assert_eq!(errno(answer), libc::EFBIG, "{kind}");
        assert_eq!(mount.daemon(), Some(daemon));
        limit("--fsize=unlimited:unlimited");
        write(&mount, &text).unwrap();
        place.holds(&text);
    }
}
