//! Properties that a save preserves in each plan: holes, owner, group, mode, ACLs, extended attributes, hard
//! links, and the symbolic link to the source.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{SeekFrom, XattrFlags, getxattr, listxattr, seek, setxattr};

use crate::killed::WAYS;
use crate::place::{Place, file, write};
use common::asdf::{Block, sample};
use common::disk::{ACL, acl, write_sparse};

const DEFAULT_ACL: &str = "system.posix_acl_default";
/// The owner of a file that does not belong to root.
const OWNER: u32 = 1234;
const GROUP: u32 = 4321;

/// Returns all extended attributes of a file.
fn attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = [0; 1024];
    let len = listxattr(path, &mut names).unwrap();
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut all: Vec<_> = names
        .map(|name| {
            let name = String::from_utf8_lossy(name).into_owned();
            let mut value = [0; 1024];
            let len = getxattr(path, &name, &mut value).unwrap();
            (name, value[..len].to_vec())
        })
        .collect();
    all.sort();
    all
}

/// Returns the number of bytes outside of holes.
fn data(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    let (mut at, mut data) = (0, 0);
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).unwrap();
        data += at - start;
    }
    data
}

#[test]
fn in_each_plan_all_stays_but_the_text() {
    for way in WAYS {
        let mut sparse = vec![0; 8 << 20];
        sparse[3 << 20..(3 << 20) + 10_000].copy_from_slice(&sample(10_000, 9));
        let blocks = vec![Block::new(sample(9000, 1)), Block::new(sparse), Block::new(sample(200, 2))];
        let place = Place::with(way.kind, &file(blocks));
        write_sparse(&place.source, &place.built.bytes);
        let other = place.disk.path().join("other name");
        if way.linked {
            fs::hard_link(&place.source, &other).unwrap();
        }
        let link = place.folder().join("link");
        symlink(&place.source, &link).unwrap();
        // The group and mode that a new file in this directory would inherit.
        chown(place.disk.path(), Some(0), Some(99)).unwrap();
        fs::set_permissions(place.disk.path(), fs::Permissions::from_mode(0o2777)).unwrap();
        setxattr(place.disk.path(), DEFAULT_ACL, &acl(), XattrFlags::empty()).unwrap();
        for with_acl in [false, true] {
            chown(&place.source, Some(OWNER), Some(GROUP)).unwrap();
            fs::set_permissions(&place.source, fs::Permissions::from_mode(0o604)).unwrap();
            setxattr(&place.source, "user.note", b"kept", XattrFlags::empty()).unwrap();
            setxattr(&place.source, "trusted.note", b"kept too", XattrFlags::empty()).unwrap();
            if with_acl {
                setxattr(&place.source, ACL, &acl(), XattrFlags::empty()).unwrap();
            }
            let before =
                (fs::metadata(&place.source).unwrap(), attributes(&place.source), data(&place.source));
            let mount = place.try_mount(&link, &[]).unwrap();
            let text = way.next(&place, &place.saved(), usize::from(with_acl) + 1);
            write(&mount, &text).unwrap();
            place.holds(&text);
            place.shows_blocks(&mount);
            let after = fs::metadata(&place.source).unwrap();
            let shown = format!("{way:?}, {with_acl}");
            assert_eq!((after.uid(), after.gid()), (OWNER, GROUP), "{shown}");
            assert_eq!(after.mode(), before.0.mode(), "{shown}");
            assert_eq!(attributes(&place.source), before.1, "{shown}");
            assert!(after.mtime_nsec() != before.0.mtime_nsec() || after.mtime() > before.0.mtime());
            assert!(link.is_symlink());
            assert_eq!(fs::canonicalize(&link).unwrap(), fs::canonicalize(&place.source).unwrap());
            if way.linked {
                assert_eq!(fs::metadata(&other).unwrap().ino(), after.ino(), "{shown}");
                assert_eq!(crate::place::saved(&other), text);
            }
            let moved = !way.name.starts_with("clone") && way.name != "copy";
            assert_eq!(after.ino() == before.0.ino(), moved, "{shown}");
            // The text may have grown, and a page is never partly a hole.
            let now = data(&place.source);
            assert!(now <= before.2 + 300_000, "{shown}: {now} bytes, {} before", before.2);
        }
    }
}

/// An ordinary user can't give a file away: if the new file would belong to him, the old file is rewritten
/// instead.
#[test]
fn an_ordinary_user_changes_no_owner_and_no_group() {
    for kind in ["ext4", "xfs", "btrfs", "tmpfs"] {
        for (uid, gid, mode, labelled) in [
            (65_534, GROUP, 0o664, false),
            (OWNER, GROUP, 0o666, false),
            (65_534, 65_534, 0o644, false),
            (65_534, 65_534, 0o644, true),
        ] {
            let place = Place::on(kind);
            for folder in [place.disk.path().parent().unwrap(), &place.disk.path()] {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            }
            chown(&place.source, Some(uid), Some(gid)).unwrap();
            fs::set_permissions(&place.source, fs::Permissions::from_mode(mode)).unwrap();
            // The user can set neither attribute. Only btrfs lists `trusted.mark` for the user, who can't
            // read it.
            for (name, there) in [("security.label", true), ("trusted.mark", kind == "btrfs")] {
                if labelled && there {
                    setxattr(&place.source, name, b"x", XattrFlags::empty()).unwrap();
                }
            }
            let before = attributes(&place.source);
            let tree = place.disk.path().join("tree");
            let text = place.named(&"longer ".repeat(2000));
            fs::write(&tree, &text).unwrap();
            let output = place.set_tree_as_nobody(&tree);
            assert!(output.status.success(), "{kind}, {uid}: {output:?}");
            place.holds(&text);
            let after = fs::metadata(&place.source).unwrap();
            assert_eq!((after.uid(), after.gid(), after.mode() & 0o7777), (uid, gid, mode), "{kind}");
            assert_eq!(attributes(&place.source), before, "{kind}");
            place.nothing_is_beside();
        }
    }
}
