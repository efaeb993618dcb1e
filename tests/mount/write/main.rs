//! Saving through real mounts, on real file systems and from the command line.
//!
//! | file | subject |
//! |---|---|
//! | `requests` | the system calls with which programs write files |
//! | `commit` | when a save is attempted |
//! | `refusals`, `warnings`, `levels` | refused texts, and the messages to the user |
//! | `schemas` | texts that break the schemas of a package |
//! | `scratch`, `beside`, `ends`, `leaving` | other files beside `tree.yaml`; the end of a mount |
//! | `directories` | directories beside `tree.yaml`, as git, jupyter and vim make them |
//! | `mirror`, `many` | directories of files |
//! | `noticed` | the source as other programs see it |
//! | `preserved` | properties that a save preserves: holes, owners, ACLs, links |
//! | `kinds` | files of every kind and layout |
//! | `moving` | reading while blocks move |
//! | `readers` | reading `tree.yaml` while other programs save it |
//! | `exchanged` | directories and files that another user exchanges during a save of root's |
//! | `writers`, `shared` | two writers of one file, and changes by other programs and users |
//! | `frozen` | file systems that do not answer, or were shut down |
//! | `failures` | full and failing disks, closed directories, limits |
//! | `power` | power cuts, by images of every write and flush of ext4, XFS and btrfs |
//! | `room` | many saves at once on a disk that becomes full |
//! | `remote` | files behind bindfs, replaced on the server |
//! | `unshared` | writers of one file that share no locks |
//! | `killed` | kill -9 during saves, for each plan |
//! | `half_saved` | files and journals that are copied, changed, truncated or lost after a kill |
//! | `random_edits` | edits, refusals, kills and remounts, compared with a model |
//! | `plans`, `halfway` | saves by the library on ext2, ext3, ext4, XFS, btrfs and tmpfs: full disks, kills |
//! | `opened_by_python` | the saves of each plan, opened by Python asdf |
//! | `rare` | sshfs, mergerfs, exFAT, NTFS, an older Python asdf, fsx, pjdfstest, power cuts after each flush; only with `scripts/test --all` |
//! | `commands` | `--edit`, `--set-tree`, `--recover` |
//!
//! Needs root, `/dev/fuse`, loop devices and a C compiler.

#![allow(unsafe_code)] // close(2), for its result; mmap(2), truncate(2)
#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "../../crash/files.rs"]
mod files;

mod beside;
mod commands;
mod commit;
mod directories;
mod ends;
mod exchanged;
mod failures;
mod faults;
mod frozen;
mod generations;
mod half_saved;
mod halfway;
mod killed;
mod kinds;
mod leaving;
mod levels;
mod many;
mod mirror;
mod moving;
mod noticed;
mod opened_by_python;
mod place;
mod plans;
mod power;
mod preserved;
mod random_edits;
mod rare;
mod readers;
mod refusals;
mod remote;
mod requests;
mod room;
mod schemas;
mod scratch;
mod shared;
mod unshared;
mod warnings;
mod writers;
