//! Directories beside `tree.yaml`, and the files in them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use common::case::{BAD, Case, NEW, errno};
use common::mount::wait_until;

/// Returns the names in a directory, sorted.
fn names(dir: impl AsRef<Path>) -> Vec<String> {
    common::names(dir.as_ref())
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn directories_behave_as_on_other_file_systems() {
    let case = Case::new();
    let path = |name: &str| case.path(name);
    fs::create_dir_all(path("a/b/c")).unwrap();
    let before = fs::metadata(path("a/b")).unwrap();
    assert!(before.is_dir() && before.permissions().mode() & 0o777 == 0o755);
    std::thread::sleep(std::time::Duration::from_millis(5));
    fs::write(path("a/b/x"), "one").unwrap();
    fs::write(path("a/b/tree.yaml"), "no tree").unwrap();
    assert!(fs::metadata(path("a/b")).unwrap().modified().unwrap() > before.modified().unwrap());
    assert_eq!(
        (names(path("a")), names(path("a/b"))),
        (vec!["b".to_owned()], vec!["c".into(), "tree.yaml".into(), "x".into()])
    );
    assert_eq!(fs::read_to_string(path("a/b/x")).unwrap(), "one");
    fs::set_permissions(path("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fs::metadata(path("a/b")).unwrap().mode() & 0o777, 0o700);

    for (result, wanted) in [
        (fs::create_dir(path("a")), libc::EEXIST),
        (fs::create_dir(path("tree.yaml")), libc::EEXIST),
        (fs::create_dir(path("a/b/x/y")), libc::ENOTDIR),
        (fs::create_dir(path("none/y")), libc::ENOENT),
        (fs::remove_dir(path("a/b")), libc::ENOTEMPTY),
        (fs::remove_dir(path("a/b/x")), libc::ENOTDIR),
        (fs::remove_file(path("a/b/c")), libc::EISDIR),
        (fs::remove_dir(path("none")), libc::ENOENT),
        (fs::write(path("a/b"), "x"), libc::EISDIR),
        (fs::rename(path("a"), path("a/b/c/d")), libc::EINVAL),
        (fs::rename(path("a"), path("tree.yaml")), libc::ENOTDIR),
        (fs::rename(path("a/b/x"), path("a/b/c")), libc::EISDIR),
        (fs::hard_link(path("a"), path("d")), libc::EPERM),
        (fs::remove_file(path(&"n".repeat(256))), libc::ENAMETOOLONG),
    ] {
        assert_eq!(errno(result), wanted);
    }
    let exchanged = renameat_with(CWD, path("a"), CWD, path("tree.yaml"), RenameFlags::EXCHANGE);
    assert_eq!(exchanged.unwrap_err(), rustix::io::Errno::INVAL);

    // Files keep their inode numbers and their texts when a directory above them is renamed.
    let open = fs::File::open(path("a/b/x")).unwrap();
    fs::create_dir(path("d")).unwrap();
    fs::rename(path("a/b"), path("d/e")).unwrap();
    assert_eq!(open.metadata().unwrap().ino(), fs::metadata(path("d/e/x")).unwrap().ino());
    assert_eq!(
        (names(path("a")).len(), names(path("d/e"))),
        (0, vec!["c".to_owned(), "tree.yaml".into(), "x".into()])
    );
    fs::hard_link(path("d/e/x"), path("a/x")).unwrap();
    symlink("x", path("a/link")).unwrap();
    fs::write(path("a/link"), "two").unwrap();
    assert_eq!(fs::read_to_string(path("d/e/x")).unwrap(), "two");
    fs::create_dir(path("f")).unwrap();
    renameat_with(CWD, path("f"), CWD, path("d"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!((names(path("d")).len(), fs::read_to_string(path("f/e/x")).unwrap()), (0, "two".to_owned()));
    // An empty directory is replaced.
    fs::rename(path("f"), path("d")).unwrap();
    assert_eq!(fs::read_to_string(path("d/e/tree.yaml")).unwrap(), "no tree");
    succeeded(&case.sh("cd d/e && echo three >y && mv y ../z && cd ../.. && rm -r a d && ! ls a"));
    assert!(!case.in_state().iter().any(|path| path.is_dir()));
    case.is_saved(&case.text, 0);
}

#[test]
fn a_file_from_a_directory_becomes_the_tree_by_a_save() {
    let case = Case::new();
    fs::create_dir_all(case.path(".trash/files")).unwrap();
    fs::write(case.path(".trash/files/new"), case.named(BAD)).unwrap();
    assert_eq!(errno(fs::rename(case.path(".trash/files/new"), case.tree())), libc::EINVAL);
    assert_eq!(case.saves(), 0);
    fs::write(case.path(".trash/files/new"), case.named(NEW)).unwrap();
    fs::rename(case.path(".trash/files/new"), case.tree()).unwrap();
    assert_eq!((case.saved(), case.saves()), (case.named(NEW), 1));
    assert!(names(case.path(".trash/files")).is_empty());
    // The tree is moved away, as a file manager does it, and comes back by another save.
    fs::rename(case.tree(), case.path(".trash/files/old")).unwrap();
    assert_eq!(fs::read_to_string(case.path(".trash/files/old")).unwrap(), case.named(NEW));
    fs::write(case.tree(), &case.text).unwrap();
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 2));
    assert_eq!(fs::read_to_string(case.path(".trash/files/old")).unwrap(), case.named(NEW));
    case.blocks_are_whole();
}

#[test]
fn git_commits_jupyter_has_its_checkpoint_and_vim_its_backups() {
    let case = Case::new();
    let git = "git -c user.name=me -c user.email=me@example.org -c maintenance.auto=false";
    succeeded(&case.sh(&format!(
        "git init -q . && git add tree.yaml && {git} commit -qm one && git status --short -uno"
    )));
    // Jupyter copies the file with its times, under another name.
    succeeded(
        &case.sh("mkdir .ipynb_checkpoints && cp -p tree.yaml .ipynb_checkpoints/tree-checkpoint.yaml"),
    );
    let vim = "mkdir -p .bak && vim -Nnes -u NONE -c 'set backup writebackup backupdir=.bak' -c '%s/first light/by vim/' -c 'wq' tree.yaml";
    succeeded(&case.sh(vim));
    assert_eq!(case.saved(), case.named("by vim"));
    assert_eq!(fs::read_to_string(case.path(".bak/tree.yaml~")).unwrap(), case.text);
    let changed =
        succeeded(&case.sh(&format!(
            "{git} commit -qam two && git log --format=%s && git diff HEAD~ | grep '^[+-]name'"
        )));
    assert_eq!(changed, "two\none\n-name: first light\n+name: by vim\n");
    succeeded(&case.sh("git checkout -q HEAD~ -- tree.yaml && git fsck --strict"));
    assert_eq!(case.saved(), case.text);
    // The files that stay are named by their directory, which is a repository.
    let output = case.unmount();
    let said = String::from_utf8(output.stderr).unwrap();
    let dir =
        case.in_state().into_iter().find(|path| path.extension().is_some_and(|end| end == "files")).unwrap();
    let line = format!("files made beside tree.yaml are kept: .git/ in {}", dir.display());
    assert!(said.contains(&line), "{said}");
    assert_eq!(names(&dir), [".git"]);
    let mut log = Command::new("git");
    log.arg("--git-dir").arg(dir.join(".git")).args(["log", "--format=%s"]);
    assert_eq!(succeeded(&log.output().unwrap()), "two\none\n");
}

#[test]
fn after_a_kill_the_files_are_there_and_the_next_mount_names_their_directory() {
    let case = Case::new();
    fs::create_dir_all(case.path("notes/deep")).unwrap();
    fs::create_dir(case.path("empty")).unwrap();
    fs::write(case.path("notes/deep/one"), "1").unwrap();
    fs::rename(case.path("notes"), case.path("kept")).unwrap();
    fs::write(case.path("kept/two"), "2").unwrap();
    case.ends_by(Signal::KILL);
    let left = case.in_state().into_iter().find(|path| path.is_dir()).unwrap();
    let next = case.next(&[], &case.source);
    let said = next.stderr();
    assert!(said.contains(&format!("has left kept/ in {}", left.display())), "{said}");
    assert_eq!(fs::read_to_string(left.join("kept/deep/one")).unwrap(), "1");
    assert_eq!(fs::read_to_string(left.join("kept/two")).unwrap(), "2");
    next.unmount();
    assert!(wait_until(|| left.exists()));
}

#[test]
fn directories_count_in_the_quota() {
    let case = Case::new();
    let mut made = 0;
    let full = (0..2000).find_map(|n| {
        let result = fs::create_dir(case.path(&format!("d{n}")));
        made += 1;
        result.err()
    });
    assert_eq!(full.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC), "{made}");
    // The tree can be saved all the same.
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert_eq!(case.saved(), case.named(NEW));
    fs::remove_dir(case.path("d0")).unwrap();
    fs::create_dir(case.path("e")).unwrap();
}
