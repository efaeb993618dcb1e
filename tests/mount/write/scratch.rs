//! Scratch files beside `tree.yaml`: any name, bounded size, and never in the source or its directory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use common::case::{Case, errno};
use common::mount::wait_until;

#[test]
fn any_name_lives_for_as_long_as_the_mount_and_nowhere_near_the_source() {
    let case = Case::new();
    let beside = || fs::read_dir(case.source.parent().unwrap()).unwrap().count();
    let before = beside();
    let names = [
        ".tree.yaml.swp",
        "4913",
        "tree.yaml~",
        "#tree.yaml#",
        "sedA1b2C3",
        "ä ö",
        "tree.yaml.orig",
        &"n".repeat(255),
    ];
    for name in names {
        fs::write(case.path(name), name).unwrap();
    }
    symlink("user@host.1:2", case.path(".#tree.yaml")).unwrap();
    assert_eq!(fs::read_link(case.path(".#tree.yaml")).unwrap().to_str(), Some("user@host.1:2"));
    for name in names {
        assert_eq!(fs::read_to_string(case.path(name)).unwrap(), name);
    }
    assert_eq!(case.names().len(), names.len() + 2);
    assert_eq!(errno(File::create_new(case.path("4913"))), libc::EEXIST);
    assert_eq!(errno(fs::write(case.path(&"n".repeat(256)), "")), libc::ENAMETOOLONG);
    fs::rename(case.path("4913"), case.path("tree.yaml~")).unwrap();
    assert_eq!(fs::read_to_string(case.path("tree.yaml~")).unwrap(), "4913");
    fs::remove_file(case.path(".#tree.yaml")).unwrap();
    assert_eq!(case.names().len(), names.len());
    assert_eq!(beside(), before);
    assert_eq!(case.saves(), 0);
    // The files are in the state directory under their own names, in case the daemon is killed.
    let drawer = case.drawer();
    assert_eq!(fs::metadata(&drawer).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read(drawer.join("tree.yaml~")).unwrap(), b"4913");
    assert!(!drawer.join("4913").exists());
}

#[test]
fn an_open_file_lives_on_without_a_name() {
    use std::os::unix::fs::FileExt;
    let case = Case::new();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(case.path("x"))
        .unwrap();
    fs::remove_file(case.path("x")).unwrap();
    file.write_all_at(b"still here", 0).unwrap();
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let tree = fs::OpenOptions::new().read(true).write(true).open(case.tree()).unwrap();
    fs::remove_file(case.tree()).unwrap();
    tree.write_all_at(b"no tree any more", 0).unwrap();
    drop(tree);
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
}

/// A backup by hard link (rsync, cp -l) is found by its new status-change time.
#[test]
fn a_change_of_the_number_of_links_changes_the_ctime() {
    let case = Case::new();
    let [one, two, other] = ["one", "two", "other"].map(|name| case.path(name));
    for path in [&one, &other] {
        fs::write(path, "x").unwrap();
    }
    let attributes = |path: &Path| {
        std::thread::sleep(Duration::from_millis(5));
        let stat = fs::metadata(path).unwrap();
        (stat.nlink(), (stat.ctime(), stat.ctime_nsec()))
    };
    let made = attributes(&one);
    fs::hard_link(&one, &two).unwrap();
    let linked = attributes(&one);
    assert!(linked.0 == 2 && linked.1 > made.1, "{made:?} {linked:?}");
    fs::rename(&other, &two).unwrap();
    let replaced = attributes(&one);
    assert!(replaced.0 == 1 && replaced.1 > linked.1, "{linked:?} {replaced:?}");
}

#[test]
fn too_much_is_refused_with_a_word_in_the_log_and_can_be_removed() {
    let case = Case::new();
    let mut file = File::create(case.path("big")).unwrap();
    file.set_len(255 << 20).unwrap();
    assert_eq!(errno(file.set_len(300 << 20)), libc::ENOSPC);
    let piece = vec![1; 1 << 20];
    let mut other = File::create(case.path("other")).unwrap();
    let full = (0..3).find_map(|_| other.write_all(&piece).err());
    assert_eq!(full.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
    assert!(case.log().contains("refused (ENOSPC); remove some"), "{}", case.log());
    file.write_all(b"x").unwrap();
    // The tree can still be written.
    fs::remove_file(case.path("big")).unwrap();
    drop(file);
    assert!(wait_until(|| other.write_all(&piece).is_ok()));
    fs::write(case.tree(), case.named("x")).unwrap();
    assert_eq!(case.saves(), 1);
}

#[test]
fn so_many_files_are_refused() {
    let case = Case::new();
    let made = (0..600).take_while(|n| fs::write(case.path(&format!("f{n}")), "").is_ok()).count();
    assert!((400..600).contains(&made), "{made}");
    assert_eq!(errno(fs::write(case.path("one more"), "")), libc::ENOSPC);
    fs::remove_file(case.path("f7")).unwrap();
    fs::write(case.path("one more"), "").unwrap();
    assert!(case.sh("rm -f f[0-9]* one*").status.success());
    assert_eq!(case.names(), ["tree.yaml"]);
}
