//! File systems, suites of tests and a version of Python asdf that few people have. `scripts/test --all` runs these tests.

mod suites;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::half_saved::leave_half;
use crate::place::{Place, said, write};
use crate::{opened_by_python, power, remote, unshared};
use common::python::old_python;

/// Inode numbers change with each mount, or all files are writable by everyone.
#[test]
fn on_file_systems_with_odd_inodes_and_modes() {
    for kind in ["sshfs", "mergerfs", "exfat", "ntfs"] {
        let place = Place::on(kind);
        let (old, new) = (place.text(), place.named(&"longer ".repeat(3000)));
        write(&place.mount(), &new).unwrap();
        place.holds(&new);
        for by_mount in [false, true] {
            write(&place.mount(), &old).unwrap();
            leave_half(&place, &old, &new);
            let inode = fs::metadata(&place.source).unwrap().ino();
            place.disk.mount_again(kind);
            println!("{kind}: inode {inode}, now {}", fs::metadata(&place.source).unwrap().ino());
            let refused = place.try_mount(&place.source, &["-o", "ro"]).map(drop).unwrap_err();
            assert!(said(&refused).contains("--recover"), "{kind}: {refused:?}");
            let checked = place.run([OsStr::new("--check"), place.source.as_os_str()]);
            assert!(!checked.status.success(), "{kind}: {checked:?}");
            if by_mount {
                place.shows_blocks(&place.mount());
            } else {
                let output = place.run([OsStr::new("--recover"), place.source.as_os_str()]);
                assert!(output.status.success(), "{kind}: {output:?}");
            }
            place.holds_one_of(&[&old, &new]);
            place.nothing_is_beside();
        }
    }
}

#[test]
fn what_is_saved_is_in_the_file_that_has_the_name_behind_sshfs() {
    remote::saves_into_the_named_file("sshfs");
}

#[test]
fn the_file_has_one_of_the_texts_whatever_two_writers_behind_sshfs_do() {
    unshared::has_one_of_the_texts(["sshfs", "sshfs"]);
}

#[test]
fn files_of_each_plan_are_opened_by_an_older_asdf() {
    opened_by_python::opens_files_of_each_plan(&old_python());
}

#[test]
fn an_older_asdf_opens_files_with_an_index_among_junk() {
    opened_by_python::opens_files_with_junk(&old_python());
}

#[test]
fn after_each_flush_of_ext4_each_file_is_the_old_one_or_the_new_one() {
    power::after_each_flush("ext4", 32);
}

#[test]
fn after_each_flush_of_xfs_each_file_is_the_old_one_or_the_new_one() {
    power::after_each_flush("xfs", 320);
}

#[test]
fn after_each_flush_of_btrfs_each_file_is_the_old_one_or_the_new_one() {
    power::after_each_flush("btrfs", 128);
}
