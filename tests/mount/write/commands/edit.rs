//! `--edit`: texts that are saved, refused, interrupted or in conflict.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Bench, failed, succeeded};
use crate::place::{BAD, said};

#[test]
fn an_edit_is_saved_or_left_alone() {
    for user in [false, true] {
        let bench = Bench::new(user);
        let longer = bench.place.named(&"longer ".repeat(3000));
        bench.write("longer", &longer);
        // The editor's variable may contain arguments, and VISUAL takes precedence.
        let editor =
            bench.write("editor with a space", "#!/bin/sh\ntest \"$1\" = -x && cp ../home/longer \"$2\"\n");
        let mut command = bench.command([OsStr::new("--edit"), bench.place.source.as_os_str()]);
        command.env("VISUAL", format!("'{}' -x", editor.display())).env("EDITOR", "false");
        succeeded(&command.output().unwrap(), "");
        bench.place.holds(&longer);
        // The editor replaces the file by rename.
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
        // Parts that a tool dropped are restored and reported.
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
        // Without a terminal nobody can be asked.
        let output = bench.edit(breaks);
        failed(
            &output,
            &[
                "a.asdf: not changed: the text is refused",
                "line 7",
                "name: a: b: c",
                "^",
                "the \
                                                                                                       text \
                                                                                                       is \
                                                                                                       kept \
                                                                                                       in",
            ],
        );
        assert_eq!(bench.copies(), [bad.as_str()]);
        let said = said(&output);
        // The command that is advised has the text as its last argument but one.
        let kept = said.lines().last().unwrap().rsplit(' ').nth(1).unwrap().to_owned();
        assert_eq!(fs::read_to_string(&kept).unwrap(), bad);
        bench.is_untouched();
        fs::remove_dir_all(Path::new(&kept).parent().unwrap()).unwrap();
        // The user is asked and gives up.
        let (shown, status) = bench.edit_on_terminal(breaks, "what\nq\n");
        assert_eq!(status, Some(1), "{shown}");
        assert!(
            shown.matches("(e)dit again").count() == 2 && shown.contains("the text is kept in"),
            "{shown}"
        );
        assert_eq!(bench.copies(), [bad.as_str()]);
        bench.is_untouched();
        fs::remove_dir_all(bench.state()).unwrap();
        // The user is asked and corrects the text: the editor gets the refused text again.
        let mends = "if grep -q 'a: b: c' \"$1\"; then sed -i 's/a: b: c/mended/' \"$1\"; else sed -i \
                     's/first light/a: b: c/' \"$1\"; fi";
        let (shown, status) = bench.edit_on_terminal(mends, "e\n");
        assert_eq!(status, Some(0), "{shown}");
        assert!(shown.contains("line 7"), "{shown}");
        bench.place.holds(&bench.place.named("mended"));
        assert_eq!(bench.copies(), [""; 0]);
    }
}

/// Returns shell commands with which another program replaces the file; the new text is as long as the old one.
fn replaced(source: &Path, from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let source = source.display();
    format!(
        "LC_ALL=C sed '1,/^[.][.][.]$/s/{from}/{to}/' '{source}' >'{source}.other'; mv '{source}.other' '{source}'"
    )
}

#[test]
fn an_edit_in_conflict_is_merged() {
    let bench = Bench::new(false);
    let source = &bench.place.source;
    // Different lines: the texts are merged without a further edit.
    let once = bench.home().join("once");
    let theirs = replaced(source, "block1", "blockX");
    let script = format!(
        "sed -i 's/first light/mine/' \"$1\"; test -e '{0}' || {{ touch '{0}'; {theirs}; }}",
        once.display()
    );
    let (shown, status) = bench.edit_on_terminal(&script, "m\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("(m)erge with the saved text"), "{shown}");
    bench.place.holds(&bench.place.named("mine").replace("block1", "blockX"));
    assert_eq!(bench.copies(), [""; 0]);
    // The same line: the editor gets both versions, marked.
    let bench = Bench::new(false);
    let source = &bench.place.source;
    let theirs = replaced(source, "first light", "other light");
    let script = format!(
        "if grep -q '^<<<<<<< yours' \"$1\"; then cp \"$1\" '{}'; sed -i '/^<<<<<<<\\|^|||||||/d; /^=======$/,/^>>>>>>> \
         saved/d' \"$1\"; else sed -i 's/first light/mine/' \"$1\"; {theirs}; fi",
        bench.home().join("marked").display()
    );
    let (shown, status) = bench.edit_on_terminal(&script, "m\n");
    assert_eq!(status, Some(0), "{shown}");
    let advice = "they stand between <<<<<<< yours and >>>>>>> saved, with ======= between the versions";
    assert!(shown.contains(advice), "{shown}");
    let marked = fs::read_to_string(bench.home().join("marked")).unwrap();
    assert!(marked.contains("name: mine\n=======\n") && marked.contains("other light"), "{marked}");
    bench.place.holds(&bench.place.named("mine"));
    assert_eq!(bench.copies(), [""; 0]);
}

#[test]
fn an_editor_that_does_not_wait_is_told_how_to() {
    let bench = Bench::new(false);
    let code = bench
        .write("code", "#!/bin/sh\ntest \"$1\" = --wait || exit 0\nsed -i 's/first light/waited/' \"$2\"\n");
    let edit = |editor: &str| {
        let command = bench
            .command([OsStr::new("--edit"), bench.place.source.as_os_str()])
            .env("EDITOR", editor)
            .output();
        said(&command.unwrap())
    };
    let told = edit(code.to_str().unwrap());
    let wanted = format!(
        "not changed; the editor ended before the text was edited; set EDITOR='{} --wait'\n",
        code.display()
    );
    assert!(told.ends_with(&wanted), "{told}");
    bench.is_untouched();
    // The advice works, and whoever waits gets none.
    assert_eq!(edit(&format!("{} --wait", code.display())), "");
    bench.place.holds(&bench.place.named("waited"));
    assert!(edit(&format!("{} --wait", code.display())).ends_with(": not changed\n"));
    assert!(edit("true").ends_with(": not changed\n"));
}

#[test]
fn a_text_whose_merge_fails_is_named() {
    let bench = Bench::new(false);
    let theirs = replaced(&bench.place.source, "block1", "blockX");
    // A directory in place of git's input.
    let script =
        format!("sed -i 's/first light/mine/' \"$1\"; mkdir \"$(dirname \"$1\")/base.yaml\"; {theirs}");
    let (shown, status) = bench.edit_on_terminal(&script, "m\n");
    assert_eq!(status, Some(1), "{shown}");
    let kept = shown.lines().find_map(|line| line.split_once("the text is kept in ")).expect(&shown).1;
    let (kept, _) = kept.split_once("; to save it: asdf-mount --set-tree ").unwrap();
    assert_eq!(fs::read_to_string(kept.trim_end()).unwrap(), bench.place.named("mine"));
    bench.place.holds(&bench.place.text().replace("block1", "blockX"));
}

/// Neither in a quoted text, where they are valid YAML.
#[test]
fn conflict_markers_are_not_saved_by_any_command() {
    let bench = Bench::new(false);
    let marked = bench.place.named("'a\n<<<<<<< yours\nb\n=======\nc\n>>>>>>> saved\n'");
    bench.write("marked", &marked);
    failed(&bench.edit("cp ../home/marked \"$1\""), &["conflict marker", "the text is kept in"]);
    failed(&bench.set_tree(&marked), &["conflict marker"]);
    bench.is_untouched();
    let mount = bench.place.mount();
    assert!(fs::write(mount.path("tree.yaml"), &marked).is_err() || bench.place.text() != marked);
    let why = fs::read_to_string(mount.path("tree.yaml.error")).unwrap();
    assert!(why.contains("conflict marker"), "{why}");
    failed(&bench.edit("cp ../home/marked \"$1\""), &["conflict marker", "the text is kept in"]);
    mount.unmount();
    bench.is_untouched();
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
        assert!(said(&output).contains("found no editor '/nowhere/editor'; set EDITOR"), "{output:?}");
        let output = bench.edit("rm \"$1\"");
        failed(&output, &["no such file"]);
        bench.is_untouched();
    }
}

#[test]
fn what_interrupts_the_editor_does_not_end_the_edit() {
    let bench = Bench::new(false);
    // The editor's shell, and the parent of that shell.
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
fn a_mounted_file_is_edited_through_its_mount() {
    let bench = Bench::new(false);
    let mount = bench.place.mount();
    succeeded(&bench.edit("sed -i 's/first/second/' \"$1\""), "");
    assert_eq!(mount.tree(), bench.place.named("second light").as_bytes());
    bench.place.holds(&bench.place.named("second light"));
    let refused = bench.edit("sed -i 's/second.*/[/' \"$1\"");
    failed(&refused, &["not changed: the text is refused", "the text is kept in"]);
    // Another program writes the tree in the mount while the editor runs.
    let theirs = bench.place.text().replace("a comment", "B comment");
    bench.write("theirs", &theirs);
    let tree = mount.path("tree.yaml").display().to_string();
    let output = bench.edit(&format!("cat theirs >'{tree}'; sed -i 's/second/third/' \"$1\""));
    failed(&output, &["another program changed the tree", "the text is kept in"]);
    assert_eq!(bench.place.saved(), theirs);
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
