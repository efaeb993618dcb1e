//! Tests of a directory as the source.

use super::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn files_that_a_format_knows_are_folders_and_others_themselves() {
    let test = Test::new();
    test.write("s/a.asdf", FILE);
    test.write("s/named.asdf", "not one");
    test.write("s/empty", "");
    test.write("s/sub/deep/b.dat", FILE);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, test.path("s/fifo"), kind, rustix::fs::Mode::RUSR, 0).unwrap();
    let tree = test.tree("s");
    assert_eq!(tree.names(""), ["a.asdf", "empty", "fifo", "named.asdf", "sub"]);
    assert_eq!(test.counts.opened.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(tree.at("a.asdf").unwrap().kind, FileKind::Directory);
    assert_eq!(tree.read("named.asdf"), b"not one");
    assert_eq!(tree.at("empty").unwrap().size, 0);
    assert_eq!(tree.at("fifo").unwrap().kind, FileKind::Fifo);
    assert_eq!(tree.read("sub/deep/b.dat/blocks/0.bin"), b"hello");
    assert_eq!(tree.errno("sub/none"), libc::ENOENT);
    assert_eq!(tree.errno("named.asdf/x"), libc::ENOTDIR);
}

#[test]
fn names_may_be_any_bytes_of_any_length() {
    let test = Test::new();
    let odd = OsString::from_vec(b"\xff\xfe \n.asdf".to_vec());
    let long = OsString::from("n".repeat(255));
    test.write(Path::new("s").join(&odd), FILE);
    test.write(Path::new("s").join(&long), "x");
    let tree = test.tree("s");
    assert_eq!(tree.at(Path::new(&odd).join("blocks/0.bin")).unwrap().size, 5);
    assert_eq!(tree.at(&long).unwrap().size, 1);
    assert_eq!(tree.errno("n".repeat(256)), libc::ENAMETOOLONG);
}

#[test]
fn a_very_deep_path_can_be_reached() {
    let test = Test::new();
    let name = "d".repeat(250);
    fs::create_dir(test.path("s")).unwrap();
    let mut dir = fs::File::open(test.path("s")).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&dir, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::RDONLY;
        dir = rustix::fs::openat(&dir, name.as_str(), flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    let tree = test.tree("s");
    let path: PathBuf = std::iter::repeat_n(&name, 20).collect();
    assert!(path.as_os_str().len() > 4096);
    assert_eq!(tree.at(&path).unwrap().kind, FileKind::Directory);
    assert_eq!(tree.errno(path.join("x")), libc::ENOENT);
}

#[test]
fn links_inside_stay_links_and_links_to_files_outside_are_followed() {
    let test = Test::new();
    test.write("s/a.asdf", FILE);
    test.write("s/d/plain", "p");
    test.write("out/o.asdf", FILE);
    test.write("out/sub/p", "q");
    let link = |target: &Path, name: &str| symlink(target, test.path(name)).unwrap();
    link(Path::new("a.asdf"), "s/inside");
    link(Path::new("../a.asdf"), "s/d/up");
    link(&test.path("s/a.asdf"), "s/d/absolute");
    link(&test.path("s"), "s/d/top");
    link(Path::new("../s/d/plain"), "s/strays");
    link(Path::new("../out/o.asdf"), "s/file");
    link(&test.path("out"), "s/dir");
    link(Path::new("dir/sub/../o.asdf"), "s/through");
    link(Path::new("../s/a.asdf"), "out/back");
    link(Path::new("none"), "s/broken");
    link(Path::new("round"), "s/round");
    let tree = test.tree("s");
    assert_eq!(tree.link_text("inside"), "a.asdf");
    assert_eq!(tree.link_text("d/up"), "../a.asdf");
    assert_eq!(tree.link_text("d/absolute"), "../a.asdf");
    assert_eq!(tree.link_text("d/top"), "../");
    assert_eq!(tree.link_text("strays"), "d/plain");
    assert_eq!(tree.link_text("broken"), "none");
    assert_eq!(tree.link_text("round"), "round");
    assert_eq!(tree.read("file/blocks/0.bin"), b"hello");
    assert_eq!(tree.read("through/blocks/0.bin"), b"hello");
    // A link to a directory could lead a program that walks the mount out of it, or into an endless loop.
    assert_eq!(tree.link_text("dir"), test.path("out").to_str().unwrap());
}

#[test]
fn with_other_users_looking_no_link_leads_outside() {
    let mut test = Test::new();
    test.write("s/a", "");
    test.write("out/o.asdf", FILE);
    symlink("../out/o.asdf", test.path("s/file")).unwrap();
    symlink(test.path("s/a"), test.path("s/absolute")).unwrap();
    test.options.allow_other = true;
    let tree = test.tree("s");
    assert_eq!(tree.link_text("file"), test.path("s/../out/o.asdf").to_str().unwrap());
    assert_eq!(tree.link_text("absolute"), "a");
}

#[test]
fn a_link_that_leaves_the_mirror_means_the_same_wherever_the_mount_is() {
    let test = Test::new();
    test.write("s/d/x", "");
    test.write("out/y", "");
    for (text, name) in [
        ("../out", "s/out"),
        ("../../out/../out", "s/d/out"),
        ("..", "s/above"),
        ("../gone", "s/gone"),
        ("../../s/gone", "s/d/gone"),
        ("../gone", "s/d/stays"),
        ("d/../none", "s/none"),
    ] {
        symlink(text, test.path(name)).unwrap();
    }
    let tree = test.tree("s");
    let text = |name: &str| PathBuf::from(tree.link_text(name));
    assert_eq!(text("out"), test.path("s/../out"));
    assert_eq!(text("d/out"), test.path("s/d/../../out/../out"));
    assert_eq!(text("above"), test.path("s/.."));
    assert_eq!(text("gone"), test.path("s/../gone"));
    assert_eq!(text("d/gone"), test.path("s/d/../../s/gone"));
    assert_eq!(text("d/stays"), Path::new("../gone"));
    assert_eq!(text("none"), Path::new("d/../none"));
}

#[test]
fn a_directory_that_became_a_link_is_not_walked_through() {
    let test = Test::new();
    test.write("s/d/e/f", "inside");
    test.write("out/e/f", "outside");
    let tree = test.tree("s");
    let e = tree.at("d/e").unwrap().ino;
    fs::rename(test.path("s/d"), test.path("s/old")).unwrap();
    symlink("../out", test.path("s/d")).unwrap();
    assert!(tree.lookup(e, OsStr::new("f")).is_err());
}

#[test]
fn a_directory_that_another_one_replaced_is_stale() {
    let test = Test::new();
    test.write("s/d/f", "old");
    test.write("s/new/f", "new");
    let tree = test.tree("s");
    let d = tree.at("d").unwrap().ino;
    fs::rename(test.path("s/d"), test.path("s/old")).unwrap();
    fs::rename(test.path("s/new"), test.path("s/d")).unwrap();
    assert_eq!(tree.lookup(d, OsStr::new("f")).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.attr(d).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.read("d/f"), b"new");
}

#[test]
fn a_link_to_a_directory_above_stays_a_link() {
    let test = Test::new();
    test.write("s/d/x", "");
    symlink(test.dir.path(), test.path("s/d/up")).unwrap();
    assert_eq!(test.tree("s").at("d/up").unwrap().kind, FileKind::Link);
}

#[test]
fn the_mount_itself_is_hidden_however_one_gets_there() {
    let mut test = Test::new();
    test.write("s/d/mnt/x", "");
    test.write("s/d/other", "");
    symlink(test.path("s/d/mnt"), test.path("s/to")).unwrap();
    test.options.mountpoint = Some(test.path("s/d/mnt"));
    let tree = test.tree("s");
    assert_eq!(tree.names("d"), ["other"]);
    assert_eq!(tree.errno("d/mnt"), libc::ENOENT);
    assert_eq!(tree.at("to").unwrap().kind, FileKind::Link);
}

#[test]
fn links_are_walked_under_a_mount_that_covers_the_source() {
    let mut test = Test::new();
    test.write("m/s/a.asdf", FILE);
    test.write("m/other/o.asdf", FILE);
    for name in ["m", "m/s"] {
        let _ = fs::remove_file(test.path("m/s/absolute"));
        symlink(test.path("m/s/a.asdf"), test.path("m/s/absolute")).unwrap();
        test.options.mountpoint = Some(test.path(name));
        let tree = test.tree("m/s");
        assert_eq!(tree.link_text("absolute"), "a.asdf", "mounted on {name}");
    }
    test.options.mountpoint = Some(test.path("m"));
    symlink(test.path("m/other/o.asdf"), test.path("m/s/outside")).unwrap();
    assert_eq!(test.tree("m/s").read("outside/blocks/0.bin"), b"hello");
}

#[test]
fn files_come_and_go_and_change() {
    let test = Test::new();
    test.write("s/a", "one");
    let tree = test.tree("s");
    let a = tree.at("a").unwrap();
    assert_eq!(tree.errno("b"), libc::ENOENT);
    test.write("s/b", "two");
    assert_eq!(tree.read("b"), b"two");
    test.write("s/a", "longer");
    assert_eq!(tree.at("a").unwrap().ino, a.ino);
    assert_eq!(tree.attr(a.ino).unwrap().size, 6);
    // Another file under the name is another node. The old node is gone, except for open handles.
    let reader = tree.open(a.ino).unwrap();
    test.write("s/new", "newer!!");
    fs::rename(test.path("s/new"), test.path("s/a")).unwrap();
    assert_ne!(tree.at("a").unwrap().ino, a.ino);
    assert_eq!(tree.attr(a.ino).unwrap().size, 6);
    assert_eq!(read(&reader).unwrap(), b"longer");
    drop(reader);
    assert_eq!(tree.attr(a.ino).unwrap_err().errno(), libc::ESTALE);
    test.write("s/a", FILE);
    assert_eq!(tree.at("a").unwrap().kind, FileKind::Directory);
    fs::remove_file(test.path("s/a")).unwrap();
    assert_eq!(tree.errno("a"), libc::ENOENT);
}

#[test]
fn what_the_kernel_forgets_is_dropped_and_its_number_not_used_again() {
    let test = Test::new();
    test.write("s/d/a", "");
    let tree = test.tree("s");
    let d = tree.lookup(Ino::ROOT, OsStr::new("d")).unwrap();
    let a = tree.lookup(d.ino, OsStr::new("a")).unwrap();
    assert_eq!(tree.lookup(d.ino, OsStr::new("a")).unwrap(), a);
    assert_eq!(tree.known.len(), 3);
    tree.forget(a.ino, 1);
    assert!(tree.attr(a.ino).is_ok());
    tree.forget(a.ino, 1);
    assert_eq!(tree.attr(a.ino).unwrap_err().errno(), libc::ESTALE);
    assert_ne!(tree.lookup(d.ino, OsStr::new("a")).unwrap().ino, a.ino);
    tree.forget(Ino::ROOT, u64::MAX);
    assert!(tree.attr(Ino::ROOT).is_ok());
}

#[test]
fn a_directory_is_read_by_positions_that_stay() {
    let test = Test::new();
    for n in 0..1000 {
        test.write(format!("s/{n}"), "");
    }
    let tree = test.tree("s");
    let listing = tree.open_dir(Ino::ROOT).unwrap();
    let some = |from: u64, count: usize| {
        let mut names = Vec::new();
        let mut next = from;
        let take = &mut |item: DirItem<'_>| {
            if names.len() == count {
                return true;
            }
            names.push(item.name.to_owned());
            next = item.next;
            false
        };
        tree.read_dir(&listing, from, true, take).unwrap();
        (names, next)
    };
    let (first, next) = some(0, 10);
    assert_eq!((first.len(), next, tree.known.len()), (10, 10, 9));
    assert!(!listing.ends_at(0) && !listing.ends_at(next));
    let (rest, end) = some(next, usize::MAX);
    assert_eq!((rest.len(), end, tree.known.len()), (992, 1002, 1001));
    assert!(listing.ends_at(end), "the last request of a listing needs no look at the directory");
    assert_eq!(some(end, 1), (Vec::new(), end));
    some(0, 10);
    assert!(!listing.ends_at(end), "the entries may be others after a rewind");
    assert_eq!(some(u64::MAX, 1).0, Vec::<OsString>::new());
    // A read from the start shows the current entries; a read from any other position shows the old ones.
    test.write("s/more", "");
    fs::remove_file(test.path("s/5")).unwrap();
    assert_eq!(some(2, usize::MAX).0.len(), 999);
    let again = some(0, usize::MAX).0;
    assert_eq!(again.len(), 1002);
    assert!(again.contains(&"more".into()) && !again.contains(&"5".into()));
}

#[test]
fn sources_stand_side_by_side_under_their_names() {
    let test = Test::new();
    let a = test.write("s/a.asdf", FILE);
    test.write("d/x", "x");
    symlink(test.path("d/x"), test.path("d/l")).unwrap();
    let tree = Vfs::new(&[a.clone().into(), test.path("d").into()], &test.options).unwrap();
    assert_eq!(tree.names(""), ["a.asdf", "d"]);
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"hello");
    assert_eq!(tree.read("d/x"), b"x");
    assert_eq!(tree.link_text("d/l"), "x");
    assert_eq!(tree.errno("e"), libc::ENOENT);
    let again = test.write("other/a.asdf", FILE);
    let error = Vfs::new(&[a.into(), again.into()], &test.options).unwrap_err();
    assert!(
        error.to_string().contains(
            "another source has the same name, \"a.asdf\": mount them \
                                        separately"
        ),
        "{error}"
    );
}

#[test]
fn a_source_that_makes_no_sense_is_refused_by_name() {
    let test = Test::new();
    let plain = test.write("plain", "text");
    let refused = |path: &Path| Vfs::new(&[path.to_owned().into()], &test.options).unwrap_err();
    assert!(refused(&plain).to_string().contains("plain: is not a fake file"));
    assert_eq!(refused(&test.path("none")).errno(), libc::ENOENT);
    let broken = test.write("broken", "#ASDF fake\nBROKEN\n");
    assert!(refused(&broken).to_string().contains("is broken on purpose"));
    assert!(Vfs::new(&[], &test.options).is_err());
}

#[test]
fn a_file_that_may_not_be_read_says_so_when_it_is_opened() {
    let test = Test::new();
    let path = test.write("s/secret", FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let tree = test.tree("s");
    // Root can open a file of any mode, so nothing is asserted for root.
    if fs::File::open(&path).is_err() {
        let attr = tree.at("secret").unwrap();
        assert_eq!((attr.kind, attr.mode), (FileKind::File, 0));
        assert_eq!(tree.open(attr.ino).unwrap_err().errno(), libc::EACCES);
    }
}
