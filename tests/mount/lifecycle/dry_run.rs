//! `--dry-run` prints what a save would do, and changes nothing.

use std::fs;

use common::daemon::Bench;

/// Returns exit status, stdout and stderr of a command line; the file must not change.
#[track_caller]
fn dry(bench: &Bench, line: &str) -> (i32, String, String) {
    let before = fs::read(bench.source()).unwrap();
    let modified = fs::metadata(bench.source()).unwrap().modified().unwrap();
    let output = bench.shell(line);
    assert_eq!(fs::read(bench.source()).unwrap(), before);
    assert_eq!(fs::metadata(bench.source()).unwrap().modified().unwrap(), modified);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn sample() -> Bench {
    let bench = Bench::of_sample();
    let tree = bench.shell("asdf-mount a.asdf mnt && cat mnt/tree.yaml && asdf-mount -u mnt").stdout;
    fs::write(bench.path("tree"), tree).unwrap();
    bench
}

const SET: &str = "asdf-mount --set-tree - --dry-run a.asdf";

#[test]
fn the_changes_and_the_way_are_printed() {
    let bench = sample();
    let (status, diff, said) = dry(&bench, &format!("sed 's/filter: V/filter: B/' tree | {SET}"));
    assert_eq!((status, &*said), (0, "asdf-mount: a.asdf: would be saved (in place); nothing is changed\n"));
    let changed: Vec<_> = diff.lines().filter(|line| line.starts_with(['-', '+'])).collect();
    assert_eq!(
        changed,
        [
            "--- a.asdf\tsaved",
            "+++ a.asdf\tnew",
            "-object: {exposure: 1200.0, filter: V, name: Sample Galaxy}",
            "+object: {exposure: 1200.0, filter: B, name: Sample Galaxy}",
        ]
    );
    // The diff leads from the old text to the new one.
    fs::write(bench.path("diff"), diff).unwrap();
    let output = bench.shell("cp tree patched && patch -s patched <diff && cat patched");
    assert!(String::from_utf8(output.stdout).unwrap().contains("filter: B"));
    // A text that does not fit before the first block moves the blocks.
    let grown = format!("(grep -v '^[.]' tree; seq -f '# %050.0f' 3000; echo ...) | {SET}");
    let (status, _, said) = dry(&bench, &grown);
    assert_eq!(status, 0, "{said}");
    assert!(["clone", "insert", "copy"].iter().any(|way| said.contains(&format!("({way})"))), "{said}");
    fs::hard_link(bench.source(), bench.path("link.asdf")).unwrap();
    let (_, _, said) = dry(&bench, &grown);
    assert!(["insert", "rewrite"].iter().any(|way| said.contains(&format!("({way})"))), "{said}");
}

#[test]
fn the_exit_status_tells_a_refusal_from_a_failure() {
    let bench = sample();
    let (status, diff, said) = dry(&bench, &format!("cat tree | {SET}"));
    assert_eq!((status, &*diff, &*said), (0, "", "asdf-mount: a.asdf: nothing would change\n"));
    let (status, diff, said) = dry(&bench, &format!("sed 's/source: 0/source: 9/' tree | {SET}"));
    assert_eq!(status, 3);
    assert!(diff.contains("+  source: 9\n"), "{diff}");
    assert!(said.contains("a.asdf: the text would be refused\n"), "{said}");
    assert!(said.contains("its source is block 9, and the file has blocks 0 to 2"), "{said}");
    let (status, _, said) = dry(&bench, &format!("sed 's/source: 0/source: 9/' tree | {SET} --force"));
    assert_eq!(status, 0);
    assert!(said.contains("warning: ") && said.contains("would be saved"), "{said}");
    // The reason is printed once.
    let (status, _, said) = dry(&bench, &format!("echo '#ASDF 1.0.0' | {SET}"));
    assert_eq!(status, 3);
    assert!(said.contains("the tree is gone") && !said.contains("Also:"), "{said}");
    assert_eq!(dry(&bench, &format!("{SET} </dev/null")).0, 1);
    assert_eq!(dry(&bench, "asdf-mount --set-tree missing --dry-run a.asdf").0, 1);
}

#[test]
fn an_edited_text_is_kept_and_not_saved() {
    let bench = sample();
    let edit = "EDITOR=\"sed -i 's/filter: V/filter: B/'\" asdf-mount --edit --dry-run a.asdf";
    let (status, diff, said) = dry(&bench, edit);
    assert_eq!(status, 0, "{said}");
    assert!(diff.contains("+object: {exposure: 1200.0, filter: B"), "{diff}");
    let kept = said.lines().find_map(|line| line.split_once("the text is kept in ")).unwrap().1;
    let (kept, _) = kept.split_once("; to save it: ").unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("filter: B"));
    let (status, _, said) = dry(&bench, "EDITOR=true asdf-mount --edit --dry-run a.asdf");
    assert_eq!((status, &*said), (0, "asdf-mount: a.asdf: not changed\n"));
}

#[test]
fn an_interrupted_save_is_not_recovered() {
    let bench = sample();
    let journal = bench.path(".a.asdf.asdf-mount-journal");
    fs::write(&journal, "left by a save").unwrap();
    let (status, _, said) = dry(&bench, &format!("cat tree | {SET}"));
    assert_eq!(status, 1);
    assert!(
        said.contains("a dry run recovers nothing; recover it first: asdf-mount --recover a.asdf\n"),
        "{said}"
    );
    assert!(journal.exists());
}

/// A text is checked as the mount would check it, and nothing is saved.
#[test]
fn of_a_mounted_file_it_checks_what_a_save_would() {
    let bench = sample();
    assert!(bench.shell("asdf-mount a.asdf mnt").status.success());
    let edit = |script: &str| format!("EDITOR=\"sed -i '{script}'\" asdf-mount --edit --dry-run a.asdf");
    let (status, diff, said) = dry(&bench, &edit("s/filter: V/filter: B/"));
    assert_eq!(status, 0, "{said}");
    assert!(diff.contains("+object: {exposure: 1200.0, filter: B"), "{diff}");
    assert!(said.contains("would be saved through the mount on"), "{said}");
    let (status, diff, said) = dry(&bench, &edit("s/source: 0/source: 9/"));
    assert_eq!(status, 3, "{said}");
    assert!(
        diff.contains("+  source: 9\n") && said.contains("a.asdf: the text would be refused\n"),
        "{said}"
    );
    assert!(said.contains("its source is block 9, and the file has blocks 0 to 2"), "{said}");
    let kept = said.lines().find_map(|line| line.split_once("the text is kept in ")).unwrap().1;
    let (kept, _) = kept.split_once("; to save it: ").unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("source: 9"));
    // Lost parts are restored, as by the mount.
    let (status, diff, said) = dry(&bench, &edit("/^%TAG/d"));
    assert_eq!((status, &*diff), (0, ""), "{said}");
    bench.shell("sed 's/filter: V/filter: B/' tree >good; sed 's/source: 0/source: 9/' tree >bad");
    for (line, expected) in [
        ("--set object.filter=B", 0),
        ("--set image.source=9", 3),
        ("--filter \"sed 's/source: 0/source: 9/'\"", 3),
        ("--set-tree good", 0),
        ("--set-tree bad", 3),
    ] {
        let (status, diff, said) = dry(&bench, &format!("asdf-mount {line} --dry-run a.asdf"));
        assert_eq!(status, expected, "{line}: {said}");
        assert!(diff.contains("+++ a.asdf\tnew"), "{line}: {diff}");
    }
    assert!(bench.shell("cmp mnt/tree.yaml tree").status.success());
    // Without --dry-run, it saves through the mount.
    let refused = bench.shell("asdf-mount --set-tree bad a.asdf");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("its source is block 9"), "{said}");
    assert!(bench.shell("cmp mnt/tree.yaml tree && asdf-mount --set-tree good a.asdf").status.success());
    assert!(bench.shell("cmp mnt/tree.yaml good && asdf-mount -u mnt").status.success());
}
