//! `--edit`, `--set-tree` and `--recover`, as root and as an ordinary user: what they do, say and leave.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::disk::run;
use crate::faults::{Fault, Faults};
use crate::place::{BAD, Place, copy_program, said};

const USER: u32 = 65_534;

/// A file and a program, both of one user.
#[derive(Debug)]
struct Bench {
    place: Place,
    user: bool,
}

impl Bench {
    fn new(user: bool) -> Self {
        Self::on("tmpfs", user)
    }

    fn on(kind: &str, user: bool) -> Self {
        let place = Place::on(kind);
        copy_program(&place);
        fs::set_permissions(place.disk.path().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let bench = Self { place, user };
        fs::create_dir(bench.home()).unwrap();
        let names = [bench.place.disk.path(), bench.home(), bench.place.source.clone()];
        for path in names.iter().filter(|_| user) {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
        bench
    }

    /// A folder beside the disk.
    fn home(&self) -> PathBuf {
        self.place.disk.path().parent().unwrap().join("home")
    }

    fn state(&self) -> PathBuf {
        self.home().join("state/asdf-mount")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if self.user {
            chown(&path, Some(USER), Some(USER)).unwrap();
        }
        path
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let program = self.place.disk.path().join("program");
        let mut command = match self.user {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.args(arguments).current_dir(self.home()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.home().join("state")).env_remove("VISUAL").env_remove("EDITOR");
        command
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `--edit` with an editor that is this script; `$1` is the text.
    fn edit(&self, script: &str) -> Output {
        let editor = self.write("editor", format!("#!/bin/sh\nset -e\n{script}\n"));
        self.command([OsStr::new("--edit"), self.place.source.as_os_str()])
            .env("EDITOR", editor)
            .output()
            .unwrap()
    }

    /// The same on a terminal, on which these lines are typed; what is to be seen there, and the status.
    fn edit_on_terminal(&self, script: &str, typed: &str) -> (String, Option<i32>) {
        let editor = self.write("editor", format!("#!/bin/sh\nset -e\n{script}\n"));
        let command = self.command([OsStr::new("--edit"), self.place.source.as_os_str()]);
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        let mut terminal = Command::new("timeout");
        terminal.args(["60", "script", "-qec", &words.join(" "), "/dev/null"]).current_dir(self.home());
        terminal.env("XDG_STATE_HOME", self.home().join("state")).env("EDITOR", editor).env_remove("VISUAL");
        let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    /// `--set-tree` with this text.
    fn set_tree(&self, text: impl AsRef<[u8]>) -> Output {
        let tree = self.write("new", text);
        self.run([OsStr::new("--set-tree"), tree.as_os_str(), self.place.source.as_os_str()])
    }

    fn recover(&self) -> Output {
        self.run([OsStr::new("--recover"), self.place.source.as_os_str()])
    }

    #[track_caller]
    fn has_nothing_to_recover(&self) {
        let output = self.recover();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let told = format!("{}: nothing to recover\n", self.place.source.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), told);
    }

    /// The copies of texts that are kept, each in a folder that only its user may look into.
    fn copies(&self) -> Vec<String> {
        let folders = fs::read_dir(self.state()).into_iter().flatten().map(|entry| entry.unwrap().path());
        folders
            .filter(|folder| folder.is_dir())
            .map(|folder| {
                let meta = fs::metadata(&folder).unwrap();
                assert_eq!((meta.mode() & 0o777, meta.uid()), (0o700, if self.user { USER } else { 0 }));
                let text = folder.join("tree.yaml");
                assert_eq!(fs::metadata(&text).unwrap().mode() & 0o777, 0o600);
                fs::read_to_string(text).unwrap()
            })
            .collect()
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert!(fs::read(&self.place.source).unwrap() == self.place.built.bytes);
        self.place.nothing_is_beside();
    }
}

#[track_caller]
fn succeeded(output: &Output, stderr: &str) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(output), stderr);
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[track_caller]
fn failed(output: &Output, says: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = said(output);
    assert!(said.starts_with("asdf-mount: "), "{said}");
    for says in says {
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn an_edit_is_saved_or_left_alone() {
    for user in [false, true] {
        let bench = Bench::new(user);
        let longer = bench.place.named(&"longer ".repeat(3000));
        bench.write("longer", &longer);
        // The editor's variable may hold arguments, and VISUAL is asked first.
        let editor =
            bench.write("editor with a space", "#!/bin/sh\ntest \"$1\" = -x && cp ../home/longer \"$2\"\n");
        let mut command = bench.command([OsStr::new("--edit"), bench.place.source.as_os_str()]);
        command.env("VISUAL", format!("'{}' -x", editor.display())).env("EDITOR", "false");
        succeeded(&command.output().unwrap(), "");
        bench.place.holds(&longer);
        // Replaced by renaming, as editors do.
        succeeded(&bench.edit("sed -i 's/a comment/B comment/' \"$1\""), "");
        let longer = longer.replace("a comment", "B comment");
        bench.place.holds(&longer);
        let before = fs::metadata(&bench.place.source).unwrap();
        let unchanged = format!("asdf-mount: {}: not changed\n", bench.place.source.display());
        for script in ["true", "touch \"$1\"", ": > \"$1\"", "cp \"$1\" x; cat x > \"$1\""] {
            succeeded(&bench.edit(script), &unchanged);
        }
        let after = fs::metadata(&bench.place.source).unwrap();
        assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
        // What a tool dropped is put back, and told.
        let output = bench.edit("sed -i '/^%TAG/d; s/B comment/C comment/' \"$1\"");
        assert!(output.status.success() && said(&output).lines().count() == 1, "{output:?}");
        bench.place.holds(&longer.replace("B comment", "C comment"));
        assert_eq!(bench.copies(), [""; 0]);
        bench.place.nothing_is_beside();
        bench.place.is_sound();
    }
}

#[test]
fn an_edit_that_is_refused_is_kept_or_mended() {
    for user in [false, true] {
        let bench = Bench::new(user);
        let bad = bench.place.named(BAD);
        let breaks = "sed -i 's/first light/a: b: c/' \"$1\"";
        // Without a terminal there is no user to ask.
        let output = bench.edit(breaks);
        failed(&output, &["a.asdf: not saved", "line 7", "name: a: b: c", "^", "the text is kept in"]);
        assert_eq!(bench.copies(), [bad.as_str()]);
        let kept = said(&output).lines().last().unwrap().rsplit(' ').next().unwrap().to_owned();
        assert_eq!(fs::read_to_string(&kept).unwrap(), bad);
        bench.is_untouched();
        fs::remove_dir_all(Path::new(&kept).parent().unwrap()).unwrap();
        // Asked, and given up.
        let (shown, status) = bench.edit_on_terminal(breaks, "what\nq\n");
        assert_eq!(status, Some(1), "{shown}");
        assert!(
            shown.matches("(e)dit again").count() == 2 && shown.contains("the text is kept in"),
            "{shown}"
        );
        assert_eq!(bench.copies(), [bad.as_str()]);
        bench.is_untouched();
        fs::remove_dir_all(bench.state()).unwrap();
        // Asked, and mended: the refused text is there again.
        let mends = "if grep -q 'a: b: c' \"$1\"; then sed -i 's/a: b: c/mended/' \"$1\"; else sed -i 's/first light/a: b: c/' \"$1\"; fi";
        let (shown, status) = bench.edit_on_terminal(mends, "e\n");
        assert_eq!(status, Some(0), "{shown}");
        assert!(shown.contains("line 7"), "{shown}");
        bench.place.holds(&bench.place.named("mended"));
        assert_eq!(bench.copies(), [""; 0]);
    }
}

#[test]
fn an_editor_that_fails_saves_nothing() {
    for user in [false, true] {
        let bench = Bench::new(user);
        failed(&bench.edit("exit 3"), &["editor '", "' exited with status 3; nothing saved"]);
        assert_eq!(bench.copies(), [""; 0], "nothing to keep");
        let output = bench.edit("echo x >> \"$1\"; exit 3");
        failed(&output, &["the text is kept in", "exited with status 3"]);
        assert_eq!(bench.copies(), [format!("{}x\n", bench.place.text())]);
        let output = bench
            .command([OsStr::new("--edit"), bench.place.source.as_os_str()])
            .env("EDITOR", "/nowhere/editor")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains("editor '/nowhere/editor' exited with status 127"), "{output:?}");
        let output = bench.edit("rm \"$1\"");
        failed(&output, &["no such file"]);
        bench.is_untouched();
    }
}

#[test]
fn what_interrupts_the_editor_does_not_end_the_edit() {
    let bench = Bench::new(false);
    // The shell that runs the editor, and its parent.
    let script = "shell=$PPID; over=$(sed -n 's/^PPid://p' /proc/$shell/status)
        kill -INT $shell $over; kill -QUIT $shell $over
        sed -i 's/first/second/' \"$1\"";
    succeeded(&bench.edit(script), "");
    bench.place.holds(&bench.place.named("second light"));
    assert_eq!(bench.copies(), [""; 0]);
}

#[test]
fn another_programs_change_during_an_edit_is_a_conflict() {
    let bench = Bench::new(false);
    let theirs = bench.place.text().replace("a comment", "B comment");
    bench.write("theirs", &theirs);
    let source = bench.place.source.display().to_string();
    let output = bench.edit(&format!(
        "dd conv=notrunc if=theirs of='{source}' 2>/dev/null; sed -i 's/first/second/' \"$1\""
    ));
    failed(&output, &["another program changed the tree", "the text is kept in"]);
    assert_eq!(bench.place.saved(), theirs);
    assert_eq!(bench.copies(), [bench.place.named("second light")]);
}

#[test]
fn a_tree_is_set_from_a_file_or_from_stdin() {
    for user in [false, true] {
        let bench = Bench::new(user);
        let link = bench.home().join("link");
        symlink(&bench.place.source, &link).unwrap();
        let longer = bench.place.named(&"longer ".repeat(3000));
        succeeded(&bench.set_tree(&longer), "");
        bench.place.holds(&longer);
        let short = bench.place.named("short");
        let mut child = bench
            .command([OsStr::new("--set-tree"), OsStr::new("-"), link.as_os_str()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(short.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        bench.place.holds(&short);
        assert!(link.is_symlink());
        let before = fs::metadata(&bench.place.source).unwrap();
        succeeded(&bench.set_tree(&short), "");
        let after = fs::metadata(&bench.place.source).unwrap();
        assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()), "no change");
        // The options of a mount that are about saving.
        let tree = bench.write("new", bench.place.named(&"still longer ".repeat(5000)));
        let arguments = ["-o", "padding=100k", "--set-tree"].map(OsString::from);
        let arguments = arguments.into_iter().chain([tree.into(), bench.place.source.clone().into()]);
        succeeded(&bench.run(arguments), "");
        let first = crate::place::saved(&bench.place.source).len();
        let bytes = fs::read(&bench.place.source).unwrap();
        let room = bytes[first..].iter().take_while(|byte| **byte == b' ').count();
        assert!((100 << 10..(100 << 10) + 4096).contains(&room), "{room}");
    }
}

#[test]
fn a_tree_that_can_not_be_set_changes_nothing() {
    for user in [false, true] {
        let bench = Bench::new(user);
        failed(
            &bench.set_tree(bench.place.named(BAD)),
            &["a.asdf: not changed: ", "new is refused\n", "line 7", "^"],
        );
        failed(&bench.set_tree(""), &["an empty tree is never saved"]);
        failed(&bench.set_tree(b"#ASDF 1.0.0\n--- \xff\n...\n"), &["not changed"]);
        let source = bench.place.source.clone();
        let set = |tree: &Path, file: &Path| {
            let output = bench.run([OsStr::new("--set-tree"), tree.as_os_str(), file.as_os_str()]);
            assert_eq!(said(&output).lines().count(), 1, "{output:?}");
            output
        };
        let tree = bench.write("new", bench.place.named("second"));
        failed(&set(&bench.home().join("missing"), &source), &["missing: no such file"]);
        failed(&set(&tree, &bench.home().join("missing")), &["missing: no such file"]);
        failed(&set(&tree, &bench.home()), &["home"]);
        failed(&set(&tree, &bench.write("other", "no ASDF")), &["other", "not an ASDF file"]);
        failed(&set(&tree, &bench.write("empty", "")), &["empty: is empty: an ASDF file begins with"]);
        run("mkfifo", &[bench.home().join("pipe").to_str().unwrap()]);
        failed(&set(&tree, &bench.home().join("pipe")), &["pipe"]);
        let both = bench.run([OsStr::new("--set-tree"), tree.as_os_str()]);
        assert_eq!(both.status.code(), Some(2), "{both:?}");
        if user {
            chown(&source, Some(0), Some(0)).unwrap();
            fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).unwrap();
            failed(&set(&tree, &source), &["can't be written", "permission denied"]);
            failed(&bench.edit("true"), &["can't be written"]);
            failed(&bench.recover(), &["can't be written"]);
        }
        bench.is_untouched();
    }
}

#[test]
fn a_file_with_a_long_name_can_be_edited() {
    let mut bench = Bench::new(true);
    let long = bench.place.disk.path().join(format!("{}.asdf", "n".repeat(250)));
    fs::rename(&bench.place.source, &long).unwrap();
    bench.place.source = long;
    succeeded(&bench.edit("sed -i 's/first/second/' \"$1\""), "");
    let longer = bench.place.named(&"longer ".repeat(2000));
    succeeded(&bench.set_tree(&longer), "");
    bench.place.holds(&longer);
    assert_eq!(bench.copies(), [""; 0]);
    assert_eq!(fs::read_dir(bench.place.disk.path()).unwrap().count(), 2);
}

/// Has the program killed in the midst of `--set-tree`; `false` if it came to its end before.
fn interrupt(bench: &Bench, text: &str, at: i32) -> bool {
    let faults = Faults::new(&bench.home(), &bench.place.disk.path());
    faults.after(at, Fault::KilledBefore);
    let tree = bench.write("new", text);
    let mut command =
        bench.command([OsStr::new("--set-tree"), tree.as_os_str(), bench.place.source.as_os_str()]);
    fs::set_permissions(bench.home().join("faults"), fs::Permissions::from_mode(0o666)).unwrap();
    faults.under(&mut command);
    !command.status().unwrap().success()
}

/// Has `--set-tree` killed when it had begun to change the file.
fn leave_halfway(bench: &Bench, text: &str) {
    let before = fs::read(&bench.place.source).unwrap();
    for at in 0.. {
        assert!(interrupt(bench, text, at), "it was never halfway");
        if fs::read(&bench.place.source).unwrap() != before {
            return;
        }
        assert!(bench.recover().status.success());
    }
}

#[test]
fn what_was_interrupted_is_recovered_once() {
    for user in [false, true] {
        let bench = Bench::on("ext4", user);
        let (old, new) = (bench.place.text(), bench.place.named(&"longer ".repeat(3000)));
        bench.has_nothing_to_recover();
        bench.is_untouched();
        let mut seen = [0, 0];
        for closed in [false, true] {
            for at in 0.. {
                fs::write(&bench.place.source, &bench.place.built.bytes).unwrap();
                let folder = bench.place.disk.path();
                if closed {
                    run("chattr", &["+i", folder.to_str().unwrap()]);
                }
                let killed = interrupt(&bench, &new, at);
                let left = fs::read_dir(bench.state()).is_ok_and(|names| {
                    names.flatten().any(|name| name.file_name().to_string_lossy().contains("journal"))
                });
                let beside = !bench.place.ours_beside().is_empty();
                assert!(!(closed && beside), "{at}");
                let output = bench.recover();
                assert!(output.status.success(), "{output:?}");
                let told = String::from_utf8(output.stdout).unwrap();
                let found = bench.place.holds_one_of(&[&old, &new]);
                if left || beside {
                    let which = ["before", "after"][found];
                    let settled = told.contains(&format!("it is now the file {which} the interrupted save"));
                    assert!(
                        told.contains(": removed ") && settled || !told.contains("is now the file"),
                        "{told}"
                    );
                    seen[usize::from(closed)] += usize::from(settled);
                }
                bench.has_nothing_to_recover();
                bench.place.nothing_is_beside();
                if closed {
                    run("chattr", &["-i", folder.to_str().unwrap()]);
                }
                assert!(killed || found == 1);
                if !killed {
                    break;
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen >= 2), "{seen:?}");
    }
}

#[test]
fn a_foreign_journal_is_set_aside_and_reported() {
    let bench = Bench::on("ext4", false);
    let new = bench.place.named(&"longer ".repeat(3000));
    leave_halfway(&bench, &new);
    let journal = bench.place.disk.path().join(".a.asdf.asdf-mount-journal");
    let bytes = fs::read(&journal).unwrap();
    assert!(bench.recover().status.success());
    // What is no file is no journal.
    for command in ["mkdir \"$1\"", "mkfifo \"$1\"", "ln -s nowhere \"$1\""] {
        run("sh", &["-c", command, "sh", journal.to_str().unwrap()]);
        let output = bench.recover();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("it is not a file"), "{output:?}");
        assert!(journal.symlink_metadata().is_err());
        run("rm", &["-r", &format!("{}.aside", journal.display())]);
    }
    // Of this file as it was once; of another one; of none.
    for (n, foreign) in [bytes.clone(), bytes, b"ASDFJRNL and nonsense".to_vec()].into_iter().enumerate() {
        if n == 1 {
            let copy = bench.place.disk.path().join("copy");
            fs::copy(&bench.place.source, &copy).unwrap();
            fs::rename(copy, &bench.place.source).unwrap();
        }
        fs::write(&journal, &foreign).unwrap();
        let changed = fs::read(&bench.place.source).unwrap();
        let changed = [&changed[..], b"more"].concat();
        fs::write(&bench.place.source, &changed).unwrap();
        let output = bench.recover();
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("a journal was not used and is kept as"), "{told}");
        let aside = if n == 0 { ".aside".to_owned() } else { format!(".aside-{}", n + 1) };
        let aside = PathBuf::from(format!("{}{aside}", journal.display()));
        assert!(told.contains(&aside.display().to_string()), "{told}");
        assert_eq!(fs::read(aside).unwrap(), foreign);
        assert!(fs::read(&bench.place.source).unwrap() == changed);
        bench.has_nothing_to_recover();
    }
}

#[test]
fn what_is_no_asdf_file_is_not_recovered() {
    let bench = Bench::new(false);
    for (name, text, says) in [
        ("text", "hello", "is not an ASDF file"),
        ("empty", "", "is empty: an ASDF file begins with \"#ASDF\""),
    ] {
        let path = bench.write(name, text);
        let output = bench.run([OsStr::new("--recover"), path.as_os_str()]);
        failed(&output, &[name, says]);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let source = bench.place.source.clone();
    succeeded(&bench.run([OsStr::new("-q"), OsStr::new("--recover"), source.as_os_str()]), "");
}

#[test]
fn one_file_that_can_not_be_recovered_keeps_none_of_the_others_from_it() {
    let bench = Bench::on("ext4", false);
    leave_halfway(&bench, &bench.place.named(&"longer ".repeat(3000)));
    assert!(!bench.place.ours_beside().is_empty());
    let missing = bench.home().join("missing");
    let output = bench.run([OsStr::new("--recover"), missing.as_os_str(), bench.place.source.as_os_str()]);
    failed(&output, &["missing: no such file"]);
    bench.place.nothing_is_beside();
    let none = bench.run(["--recover"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
