//! Saving through real mounts, on real file systems and from the command line.
//!
//! | file | what is tried |
//! |---|---|
//! | `requests` | the system calls by which programs write a file |
//! | `commit` | when a text is tried as a save |
//! | `refusals`, `warnings`, `levels` | texts that are refused, and what the user reads |
//! | `scratch`, `beside`, `ends`, `leaving` | other files beside `tree.yaml`; the end of a mount |
//! | `mirror`, `many` | folders of files |
//! | `noticed` | what other programs see of the source |
//! | `preserved` | what a save leaves as it was: holes, owners, ACLs, links |
//! | `kinds` | files of every kind and layout |
//! | `moving` | reading while blocks move |
//! | `readers` | reading `tree.yaml` while others save it |
//! | `writers`, `shared` | two writers of one file, and changes by other programs and users |
//! | `trouble` | full disks, failing ones, closed directories, limits |
//! | `remote` | files behind sshfs and bindfs, replaced on the server |
//! | `killed` | kill -9 during saves, for each plan |
//! | `half_saved` | files and journals that are copied, changed, cut, lost after a kill |
//! | `random_edits` | edits, refusals, kills and remounts against a model |
//! | `plans`, `halfway` | saves by the library on ext2, ext3, ext4, XFS, btrfs and tmpfs: full disks, kills |
//! | `opened_by_python` | Python asdf opens what each plan saved |
//! | `commands` | `--edit`, `--set-tree`, `--recover` |
//!
//! Needs root, `/dev/fuse`, loop devices and a C compiler.

#![allow(unsafe_code)] // close(2) for its answer, mmap(2), truncate(2)
#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../../common/mod.rs"]
mod common;
#[path = "../../crash/files.rs"]
mod files;

mod beside;
mod commands;
mod commit;
mod ends;
mod faults;
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
mod preserved;
mod random_edits;
mod readers;
mod refusals;
mod remote;
mod requests;
mod scratch;
mod shared;
mod trouble;
mod warnings;
mod writers;
