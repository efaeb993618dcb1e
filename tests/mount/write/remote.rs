//! Files reached through FUSE or a server, and replaced there unseen: an accepted save is in the file that
//! has the name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::{OLD, Place, errno, file, tree, write};
use common::asdf::{AsdfBuilder, Block, sample};
use common::disk::run;
use common::mount::wait_until;

/// A directory shown through another program; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Through(pub(crate) PathBuf);

impl Through {
    /// Shows the disk of `place` through `program`, in a directory of this name.
    pub(crate) fn new(program: &str, place: &Place, name: &str) -> Self {
        let (served, shown) = (place.disk.path(), place.folder().join(name));
        fs::create_dir(&shown).unwrap();
        let (served, shown) = (served.to_str().unwrap(), shown.to_str().unwrap());
        match program {
            "sshfs" => {
                // This script replaces ssh: sshfs talks to the server without a network.
                let server = place.folder().join("server");
                fs::write(&server, "#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n").unwrap();
                fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
                let server = format!("ssh_command={}", server.display());
                let cached = "dcache_timeout=1";
                run("sshfs", &["-o", &server, "-o", cached, &format!("host:{served}"), shown]);
            }
            _ => run(program, &[served, shown]),
        }
        Self(shown.into())
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// Replaces the served file with another text, by rename.
fn replace(place: &Place, name: &str) {
    let new = place.source.with_extension("other");
    let blocks = vec![Block::new(sample(9000, 1)), Block::new(sample(200, 2))];
    let built = AsdfBuilder::new().tree(tree(&blocks).replace(OLD, name)).blocks(blocks).build();
    fs::write(&new, &built.bytes).unwrap();
    fs::rename(&new, &place.source).unwrap();
}

#[test]
fn what_is_saved_is_in_the_file_that_has_the_name_on_the_server() {
    saves_into_the_named_file("bindfs");
}

pub(crate) fn saves_into_the_named_file(program: &str) {
    let place = Place::with("tmpfs", &file(vec![Block::new(sample(9000, 1)), Block::new(sample(200, 2))]));
    let through = Through::new(program, &place, "shown");
    let mount = place.try_mount(&through.0.join("a.asdf"), &[]).unwrap();
    let mut saved = 0;
    for round in 0..8 {
        if round > 0 {
            replace(&place, &format!("{round} by another program"));
        }
        // A text that fits, one that grows, and a retry after a refusal.
        for name in [format!("fits {round}"), "longer ".repeat(900 * (round + 1)), "short".to_owned()] {
            let text = place.named(&name);
            match write(&mount, &text) {
                Ok(()) => {
                    assert_eq!(place.saved(), text, "{program}, {round}: {}", place.log());
                    saved += 1;
                }
                error => {
                    assert_eq!(errno(error), libc::EBUSY, "{program}, {round}: {}", place.log());
                    assert_ne!(place.saved(), text, "{program}, {round}");
                }
            }
        }
    }
    // How many texts are saved before the cache of sshfs forgets the replaced files is a matter of time.
    assert!(saved > 3, "{program}: {saved}: {}", place.log());
    let last = place.named("at last");
    assert!(wait_until(|| write(&mount, &last).is_ok()), "{program}: {}", place.log());
    assert_eq!(place.saved(), last, "{program}: {}", place.log());
    place.nothing_is_beside();
    drop((mount, through));
}

/// A program on the server may write to the stream unseen.
#[test]
fn the_tree_of_a_stream_behind_a_program_does_not_grow() {
    let blocks = vec![Block::new(sample(5000, 2)).streamed()];
    let place = Place::with("tmpfs", &AsdfBuilder::new().tree(tree(&blocks)).blocks(blocks));
    let through = Through::new("bindfs", &place, "shown");
    let text = place.folder().join("text");
    fs::write(&text, place.named(&"z".repeat(9000))).unwrap();
    let before = fs::read(&place.source).unwrap();
    let output = place.run([Path::new("--set-tree"), &text, &through.0.join("a.asdf")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(crate::place::said(&output).contains("can't be found out on this file system"), "{output:?}");
    assert!(fs::read(&place.source).unwrap() == before);
}
