//! `--set`, `--filter` and `--search`: many files at once.

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::daemon::{Bench, SAMPLE};
use common::site::Site;

/// Runs a command line; returns exit status, stdout and stderr.
fn shell(bench: &Bench, line: &str) -> (i32, String, String) {
    let output = bench.shell(line);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns a bench with copies of the sample, `1.asdf` to `9.asdf`.
fn nine() -> Bench {
    let bench = Bench::new();
    for n in 1..=9 {
        fs::copy(SAMPLE, bench.path(format!("{n}.asdf"))).unwrap();
    }
    bench
}

#[test]
fn a_value_is_set_in_many_files_and_all_else_stays() {
    let bench = nine();
    fs::write(bench.path("5.asdf"), "text").unwrap();
    let before = shell(&bench, "asdf-mount --cat 1.asdf tree.yaml").1;
    let line =
        "asdf-mount --set object.filter=F158 --set 'object.exposure=[1, 2]' -j 3 [1-9].asdf missing.asdf";
    let (status, out, said) = shell(&bench, line);
    assert_eq!((status, &*out), (1, ""), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("asdf-mount: 5.asdf: is not an ASDF file"), "{said}");
    assert!(lines[1].starts_with("asdf-mount: missing.asdf: "), "{said}");
    assert_eq!(lines[2..], ["10 files: 8 changed, 0 unchanged, 2 failed"], "{said}");
    let tree = shell(&bench, "asdf-mount --cat 9.asdf tree.yaml").1;
    assert!(tree.contains("\nobject: {exposure: [1, 2], filter: F158, name: Sample Galaxy}\n"), "{tree}");
    let (status, diff, _) = shell(&bench, "asdf-mount --diff 9.asdf");
    assert!(status == 0 && diff.lines().filter(|line| line.starts_with('+')).count() == 2, "{diff}");
    let log = shell(&bench, "asdf-mount --log 9.asdf").1;
    assert!(log.trim_end().ends_with("asdf-mount --set"), "{log}");
    shell(&bench, "asdf-mount --undo 1.asdf");
    assert_eq!(shell(&bench, "asdf-mount --cat 1.asdf tree.yaml").1, before);
    let again = shell(&bench, "asdf-mount --set object.filter=F158 [234].asdf");
    assert_eq!((again.0, &*again.2), (0, "3 files: 0 changed, 3 unchanged, 0 failed\n"));
}

#[test]
fn a_key_is_added_only_on_request_and_a_bad_value_is_refused() {
    let bench = nine();
    let unchanged = |line: &str, status: i32, why: &str| {
        let before = fs::read(bench.path("1.asdf")).unwrap();
        let (found, _, said) = shell(&bench, line);
        assert!(found == status && said.contains(why) && said.lines().count() == 1, "{line}: {found} {said}");
        assert_eq!(fs::read(bench.path("1.asdf")).unwrap(), before, "{line}");
    };
    unchanged("asdf-mount --set object.pupil=x 1.asdf", 1, "object has no key \"pupil\"; --create adds it");
    unchanged(
        "asdf-mount --set image.source=9 1.asdf",
        1,
        "not changed: line 15, column 8: image: its source is block 9",
    );
    unchanged("asdf-mount --set object 1.asdf", 2, "write KEY=VALUE");
    unchanged("asdf-mount --set 'object.filter=[' 1.asdf", 2, "not valid YAML");
    unchanged("asdf-mount --set object.filter=x http://127.0.0.1:9/x.asdf", 1, "on a server");
    unchanged("asdf-mount --set object.filter=x .", 1, "is a directory");
    let (status, _, said) = shell(&bench, "asdf-mount --set meta.note.by=me --create 1.asdf");
    assert_eq!((status, &*said), (0, ""));
    let tree = shell(&bench, "asdf-mount --cat 1.asdf tree.json").1;
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree["meta"]["note"]["by"], "me");
    // Two values after one --set.
    let two = "asdf-mount --set object.filter=X object.name=Y 1.asdf";
    unchanged(
        two,
        2,
        "object.name=Y: no such file; for several values: --set object.filter=X --set object.name=Y FILE",
    );
    let (status, _, said) = shell(
        &bench,
        "asdf-mount --set object.filter=X --set object.name=Y 1.asdf && asdf-mount --undo 1.asdf",
    );
    assert_eq!((status, &*said), (0, ""));
    // A key with slashes is no new key, whatever --create says.
    let slash = "object/pupil: object has no such key; write object.pupil to add it";
    unchanged("asdf-mount --set object/pupil=x --create 1.asdf", 1, slash);
    unchanged("asdf-mount --set object=X 1.asdf", 1, "object is a mapping with 3 keys; --force replaces it");
    unchanged("asdf-mount --set image=X 1.asdf", 1, "image is an array; --force replaces it");
    assert_eq!(shell(&bench, "asdf-mount --set object=X --force --dry-run 1.asdf").0, 0);
    let dry = shell(&bench, "asdf-mount --set image.source=9 --dry-run 1.asdf 2.asdf");
    assert!(dry.0 == 3 && dry.1.contains("+  source: 9\n"), "{dry:?}");
}

#[test]
fn a_dry_run_prints_the_diff_and_json_a_line_for_each_file() {
    let bench = nine();
    let before = fs::read(bench.path("1.asdf")).unwrap();
    let (status, diff, _) = shell(&bench, "asdf-mount --set object.filter=B --dry-run 1.asdf 2.asdf");
    assert_eq!(
        (status, diff.matches("\n-object: ").count(), diff.matches("\n+object: ").count()),
        (0, 2, 2),
        "{diff}"
    );
    assert_eq!(fs::read(bench.path("1.asdf")).unwrap(), before);
    let (status, lines, _) =
        shell(&bench, "asdf-mount --filter 'sed s/Galaxy/Star/' --json 1.asdf 2.asdf missing.asdf");
    assert_eq!(status, 1);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<_> =
        lines.iter().map(|line| (line["file"].as_str().unwrap(), line["status"].as_str().unwrap())).collect();
    assert_eq!(states, [("1.asdf", "saved"), ("2.asdf", "saved"), ("missing.asdf", "failed")]);
    assert!(lines[2]["error"].as_str().unwrap().contains("no such file"), "{lines:?}");
}

#[test]
fn a_filter_that_fails_changes_nothing() {
    let bench = nine();
    let before = fs::read(bench.path("1.asdf")).unwrap();
    for (command, why) in [
        ("exit 3", "the command exited with status 3"),
        ("cat; exit 1", "the command exited with status 1"),
        ("true", "the command printed nothing"),
        ("kill -9 $$", "the command ended with signal: 9"),
        ("echo text", "not changed: "),
    ] {
        let (status, _, said) = shell(&bench, &format!("asdf-mount --filter '{command}' 1.asdf"));
        assert!(status == 1 && said.contains(why), "{command}: {said}");
        assert_eq!(fs::read(bench.path("1.asdf")).unwrap(), before, "{command}");
    }
    let line =
        "asdf-mount --filter 'sed \"s/filter: V/filter: $(basename $ASDF_MOUNT_FILE .asdf)/\"' [23].asdf";
    assert_eq!(shell(&bench, line).0, 0);
    let tree = shell(&bench, "asdf-mount --cat 3.asdf tree.yaml").1;
    assert!(tree.contains("filter: 3,"), "{tree}");
}

#[test]
fn a_mounted_file_is_saved_through_its_mount() {
    let bench = Bench::of_sample();
    assert_eq!(shell(&bench, "asdf-mount a.asdf mnt").0, 0);
    let (status, _, said) = shell(&bench, "asdf-mount --set object.filter=B a.asdf");
    assert_eq!((status, &*said), (0, ""));
    let tree = fs::read_to_string(bench.path("mnt/tree.yaml")).unwrap();
    assert!(tree.contains("filter: B"), "{tree}");
    let (status, _, said) = shell(&bench, "asdf-mount --set image.source=9 a.asdf");
    assert!(status == 1 && said.contains("its source is block 9"), "{said}");
    assert_eq!(fs::read_to_string(bench.path("mnt/tree.yaml")).unwrap(), tree);
    shell(&bench, "rm -f mnt/tree.yaml.rejected; asdf-mount -u mnt");
    bench.nothing_is_left();
}

#[test]
fn a_pattern_is_searched_in_keys_and_values() {
    let bench = nine();
    fs::write(bench.path("notes.txt"), "filter").unwrap();
    let (status, found, _) = shell(&bench, "asdf-mount --search 'object.filter' 2.asdf 1.asdf");
    assert_eq!((status, &*found), (0, "2.asdf:object.filter: V\n1.asdf:object.filter: V\n"));
    let (status, found, said) =
        shell(&bench, "mkdir d; cp notes.txt 1.asdf d; asdf-mount --search '^Sample' d");
    assert_eq!((status, &*found, &*said), (0, "d/1.asdf:object.name: Sample Galaxy\n", ""));
    let found = shell(&bench, "asdf-mount --search '(?i)galaxy' --json 1.asdf").1;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found, serde_json::json!({"file": "1.asdf", "path": "object.name", "value": "Sample Galaxy"}));
    assert_eq!(shell(&bench, "asdf-mount --search nothing-like-it 1.asdf").0, 1);
    let (status, found, said) = shell(&bench, "asdf-mount --search Galaxy missing.asdf 1.asdf");
    assert!(status == 2 && said.contains("missing.asdf") && found.lines().count() == 1, "{found}{said}");
    let (status, _, said) = shell(&bench, "asdf-mount --search '(' 1.asdf");
    assert!(status == 2 && said.lines().count() == 1, "{said}");
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", fs::read(Path::new(SAMPLE)).unwrap());
    let url = site.server.url("/x.asdf");
    let (status, found, said) = shell(&bench, &format!("asdf-mount --search stars.*ucs4\\|magnitude {url}"));
    assert!(status == 0 && found == format!("{url}:stars.datatype[3].name: magnitude\n"), "{found}{said}");
}

#[test]
fn a_pattern_has_a_key_and_its_value_or_ignores_case() {
    let bench = nine();
    for pattern in [
        "'filter: V'",
        "filter=V",
        "filter:V",
        "-i OBJECT.FILTER=v",
        "'object.filter: [VB]$'",
        "'filter = V'",
        "\"filter: 'V'\"",
        "object/filter=V",
    ] {
        let (status, found, _) = shell(&bench, &format!("asdf-mount --search {pattern} 1.asdf"));
        assert_eq!((status, &*found), (0, "1.asdf:object.filter: V\n"), "{pattern}");
    }
    for pattern in ["'filter: X'", "filter=v", "galaxy", "=V", "'[x:]V'"] {
        assert_eq!(shell(&bench, &format!("asdf-mount --search {pattern} 1.asdf")).0, 1, "{pattern}");
    }
    let found = shell(&bench, "asdf-mount --search -i galaxy 1.asdf; asdf-mount -i --search galaxy 1.asdf").1;
    assert_eq!(found, "1.asdf:object.name: Sample Galaxy\n".repeat(2));
}

/// Returns what a message says after `before`, up to the end of its line.
fn advised(said: &str, before: &str) -> String {
    let (_, advice) = said.split_once(before).unwrap_or_else(|| panic!("{before}: {said}"));
    advice.lines().next().unwrap().to_owned()
}

#[test]
fn what_a_message_advises_works() {
    let bench = nine();
    let said = |line: &str| {
        let (status, _, said) = shell(&bench, line);
        assert_ne!(status, 0, "{line}: {said}");
        said
    };
    let works = |line: &str| {
        let (status, found, said) = shell(&bench, line);
        assert_eq!(status, 0, "{line}: {said}");
        found
    };
    let option = advised(&said("asdf-mount info 1.asdf"), "actions are options: ");
    let (option, _) = option.split_once(';').unwrap();
    assert!(works(&format!("{option} 1.asdf")).contains("Sample Galaxy"));
    let options = advised(&said("asdf-mount --set object.filter=B object.name=X 1.asdf"), "several values: ");
    works(&format!("asdf-mount {}", options.replace("FILE", "1.asdf")));
    assert_eq!(works("asdf-mount --get object.filter --get object.name 1.asdf"), {
        "1.asdf:object.filter: B\n1.asdf:object.name: X\n"
    });
    let key = advised(&said("asdf-mount --create --set new/key=1 1.asdf"), "write ");
    let (key, _) = key.split_once(" to add it").unwrap();
    works(&format!("asdf-mount --create --set {key}=1 1.asdf"));
    assert_eq!(works("asdf-mount --get new/key 1.asdf"), "1\n");
    let option = advised(&said("asdf-mount --set object=X 1.asdf"), "3 keys; ");
    assert_eq!(option, "--force replaces it");
    works("asdf-mount --force --set object=X 1.asdf");
    let command = advised(&said("asdf-mount -o nonsense 1.asdf m"), "nonsense; ");
    assert!(works(command.strip_suffix(" lists all options").unwrap()).contains("read-timeout=SECONDS"));
    let command = advised(&said("asdf-mount"), "required; ");
    assert!(works(command.strip_suffix(" shows examples").unwrap()).contains("Examples:"));
    let command = advised(&said("mkdir d; asdf-mount d"), "too: ");
    works(&format!("{} && asdf-mount -u m", command.replace("MOUNTPOINT", "m")));
    let command = advised(&said("mkdir 'd e'; asdf-mount 'd e'"), "too: ");
    works(&format!("{} && asdf-mount -u m", command.replace("MOUNTPOINT", "m")));
    let command = advised(&said("cp 3.asdf 'd e/x y'; asdf-mount 'd e/x y'"), "MOUNTPOINT: ");
    works(&format!("{} && asdf-mount -u m", command.replace("MOUNTPOINT", "m")));
    let said_of_three = said(
        "cp 3.asdf 'd e/x y.asdf'; asdf-mount 1.asdf && asdf-mount 2.asdf && rm 'd e/x y' &&
        asdf-mount 'd e/x y.asdf' && asdf-mount -u",
    );
    let commands = advised(&said_of_three, "name one: ");
    // Mounts of other tests are named, too.
    let own = bench.path("").display().to_string();
    let own: Vec<&str> = commands.split(", ").filter(|command| command.contains(&own)).collect();
    assert_eq!(own.len(), 3, "{commands}");
    let again = advised(&said("asdf-mount 'd e/x y.asdf'"), "unmount it first: ");
    assert!(own.contains(&&*again), "{again}: {commands}");
    for command in own {
        works(command);
    }
    let in_use = said(
        "asdf-mount 4.asdf 'm n' && { sleep 100 <'m n/tree.yaml' >out 2>&1 & echo $! >pid; } &&
        timeout 60 asdf-mount -u 'm n'",
    );
    works(&format!("kill $(cat pid); {}", advised(&in_use, "; or: ")));
    let options = said("asdf-mount --set 'object.filter=B C' 'object.name=X Y' 2.asdf");
    let options = advised(&options, "several values: ");
    works(&format!("asdf-mount {}", options.replace("FILE", "2.asdf")));
    assert_eq!(works("asdf-mount --get object.name 2.asdf"), "X Y\n");
    bench.nothing_is_left();
}

#[test]
fn a_directory_is_answered_with_the_names_of_its_files() {
    let bench = nine();
    let (status, _, said) = shell(&bench, "asdf-mount --set object.filter=B .");
    assert_eq!(
        (status, &said[..]),
        (1, "asdf-mount: .: is a directory: name the files, for instance ./*.asdf\n")
    );
    assert_eq!(shell(&bench, "asdf-mount --set object.filter=B ./[1-9].asdf").0, 0);
}

#[test]
fn a_value_is_printed_and_a_key_removed() {
    let bench = nine();
    assert_eq!(shell(&bench, "asdf-mount --get object.filter 1.asdf"), (0, "V\n".to_owned(), String::new()));
    let (status, found, said) = shell(&bench, "asdf-mount --get object/filter 2.asdf missing.asdf 1.asdf");
    assert_eq!((status, &*found), (2, "2.asdf:object/filter: V\n1.asdf:object/filter: V\n"), "{said}");
    let found = shell(&bench, "asdf-mount --get 'stars.datatype[1]' 1.asdf").1;
    assert_eq!(found, "{byteorder: little, datatype: float32, name: x}\n");
    let (status, found, said) = shell(&bench, "asdf-mount --get object.pupil 1.asdf");
    assert_eq!((status, &*found), (1, ""));
    assert_eq!(said, "asdf-mount: 1.asdf: object.pupil: object has no key \"pupil\"\n");
    let json = shell(&bench, "asdf-mount --get object.name --json 1.asdf").1;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, serde_json::json!({"file": "1.asdf", "path": "object.name", "value": "Sample Galaxy"}));
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", fs::read(Path::new(SAMPLE)).unwrap());
    let url = site.server.url("/x.asdf");
    assert_eq!(shell(&bench, &format!("asdf-mount --get object.name {url}")).1, "Sample Galaxy\n");
    // Several keys of a mapping that is new.
    let line = "asdf-mount --create --set new.a=1 --set new.b=2 3.asdf && asdf-mount --get new 3.asdf";
    assert_eq!(shell(&bench, line).1, "{a: 1, b: 2}\n");
    // A removal is a save as any other.
    let line = "asdf-mount --unset object.filter --unset mask 1.asdf 2.asdf";
    let (status, _, said) = shell(&bench, line);
    assert!(status == 0 && said.ends_with("2 files: 2 changed, 0 unchanged, 0 failed\n"), "{said}");
    let tree = shell(&bench, "asdf-mount --cat 2.asdf tree.yaml").1;
    assert!(
        tree.contains("\nobject: {exposure: 1200.0, name: Sample Galaxy}\n") && !tree.contains("mask"),
        "{tree}"
    );
    assert_eq!(shell(&bench, "asdf-mount --check -q 1.asdf 2.asdf").0, 0);
    let (status, _, said) = shell(&bench, line);
    assert!(status == 1 && said.contains("1.asdf: object.filter: object has no key \"filter\"\n"), "{said}");
    // A number in the history would be that of all files.
    let (status, told, said) = shell(&bench, "asdf-mount --undo 1.asdf 9.asdf 2.asdf");
    assert!(status == 1 && told.matches("is taken back").count() == 2, "{told}");
    assert!(said.contains("9.asdf: has no saves in its history"), "{said}");
    assert_eq!(shell(&bench, "asdf-mount --get object.filter 2.asdf").1, "V\n");
    let (status, _, said) = shell(&bench, "asdf-mount --undo 1.asdf 2.asdf 2");
    assert!(status == 1 && said.matches("is the present one").count() == 2, "{said}");
}

#[test]
fn a_number_stays_one_for_python() {
    let bench = nine();
    let line = "asdf-mount --set object.exposure=1e5 --set object.name=1e5 1.asdf && asdf-mount --set object.exposure=1e5x 2.asdf
        python3 -c 'import asdf; print([asdf.open(f).tree[\"object\"][\"exposure\"] for f in (\"1.asdf\", \"2.asdf\")])'";
    let (status, out, said) = shell(&bench, line);
    assert_eq!((status, &*out), (0, "[100000.0, '1e5x']\n"), "{said}");
    let warning = "asdf-mount: warning: 2.asdf: object.exposure: it was a number, and Python reads \"1e5x\" as a text\n";
    assert_eq!(said, warning);
}

#[test]
fn two_directories_are_compared_file_by_file() {
    let bench = nine();
    let line = "mkdir -p one/s two/s; cp 1.asdf one; cp 1.asdf two; cp 1.asdf one/s; cp 1.asdf two/s; echo x >one/notes.txt";
    assert_eq!(
        shell(&bench, &format!("{line}; asdf-mount --diff one two")),
        (0, String::new(), String::new())
    );
    let line = "asdf-mount --set object.filter=B two/s/1.asdf; cp 2.asdf one; asdf-mount --diff one two";
    let (status, out, said) = shell(&bench, line);
    assert_eq!((status, &*said), (1, ""));
    let start =
        "Only in one: 2.asdf\ndiff one/s/1.asdf two/s/1.asdf\n--- one/s/1.asdf\n+++ two/s/1.asdf\n@@ ";
    assert!(out.starts_with(start), "{out}");
    let (status, _, said) =
        shell(&bench, "echo text >two/2.asdf; asdf-mount --diff one missing; asdf-mount --diff one two");
    assert!(status == 2 && said.contains("missing: no such file"), "{said}");
}

#[test]
fn the_name_of_an_action_is_answered_with_its_option() {
    let bench = nine();
    let actions = [
        "info", "edit", "ls", "diff", "extract", "cat", "search", "set", "get", "unset", "log", "undo",
        "check", "unmount",
    ];
    for action in actions {
        for rest in [
            "1.asdf",
            "1.asdf x",
            "",
            "-R 1.asdf",
            "--json 1.asdf",
            "1.asdf -C d",
            "-l 1.asdf",
            "-u 1.asdf",
            "-n 3 x",
        ] {
            let (status, out, said) = shell(&bench, &format!("asdf-mount {action} {rest}"));
            let advice =
                format!("asdf-mount: {action}: no such file; actions are options: asdf-mount --{action};");
            assert!(
                status == 2 && said.starts_with(&advice) && said.lines().count() == 1,
                "{action} {rest}: {said}"
            );
            assert_eq!(out, "");
        }
    }
    for options in ["-q", "-vv", "-r", "-a", "-L 2", "-rf", "-o ro", "--json", "-j2", "--depth=3", "-s 64"] {
        let said = shell(&bench, &format!("asdf-mount {options} info 1.asdf")).2;
        let advice = "asdf-mount: info: no such file; actions are options: asdf-mount --info;";
        assert!(said.starts_with(advice), "{options}: {said}");
    }
    let said = shell(&bench, "asdf-mount validate 1.asdf").2;
    assert_eq!(said, "asdf-mount: validate: no such file or directory\n");
    // After an action, it is a file.
    for action in ["--check", "-q --info", "--get=k", "--set a=1"] {
        let said = shell(&bench, &format!("asdf-mount {action} info")).2;
        assert!(said.starts_with("asdf-mount: info: no such file or directory\n"), "{action}: {said}");
    }
    assert_eq!(shell(&bench, "asdf-mount --info 1.asdf").0, 0);
    let said = shell(&bench, "asdf-mount mount 1.asdf m").2;
    assert!(said.contains("leave the word out: asdf-mount SOURCE MOUNTPOINT"), "{said}");
    // A file of this name is a file.
    let (status, _, said) = shell(&bench, "cp 1.asdf info; asdf-mount info m && asdf-mount -u m");
    assert_eq!((status, &*said), (0, ""));
    bench.nothing_is_left();
}

#[test]
fn two_files_are_compared_by_tree_and_elements() {
    let bench = nine();
    assert_eq!(shell(&bench, "asdf-mount --diff 1.asdf 2.asdf"), (0, String::new(), String::new()));
    shell(&bench, "asdf-mount --set object.filter=B 2.asdf");
    let (status, out, said) = shell(&bench, "asdf-mount --diff 1.asdf 2.asdf");
    assert_eq!((status, &*said), (1, ""));
    assert!(
        out.starts_with("--- 1.asdf\n+++ 2.asdf\n@@")
            && out.contains("\n+object: {exposure: 1200.0, filter: B"),
        "{out}"
    );
    // The array `stars` lies in block 2, uncompressed, and begins with a 32-bit integer.
    let offset = "asdf-mount --cat 1.asdf .asdf-mount/blocks.yaml | grep -c .";
    assert_eq!(shell(&bench, offset).0, 0);
    let tree = "x: !core/ndarray-1.1.0 {data: [1.0, 2.5, 3.0], datatype: float64, shape: [3]}\n";
    for (name, values, shape) in
        [("a", "1.0, 2.5, 3.0", "[3]"), ("b", "1.0, 2.0, .nan", "[3]"), ("c", "1.0, 2.0", "[2]")]
    {
        let text = tree.replace("1.0, 2.5, 3.0", values).replace("[3]", shape);
        let head = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";
        fs::write(bench.path(format!("{name}.asdf")), format!("{head}{text}...\n")).unwrap();
    }
    let (status, out, _) = shell(&bench, "asdf-mount --diff a.asdf b.asdf");
    // The checksums are those of `numpy.array([1.0, 2.5, 3.0]).tobytes()` and so on.
    let wanted = "@@ arrays/x.npy @@\n-<f8 (3,) md5 14bf63a0aa55419021c2f5435231862a\n+<f8 (3,) md5 a4161b9cc57ba6fbc13a45135fc84a1e\n 2 of 3 elements \
                  differ, by at most 0.5, 1 NaN in one file only; the first at [1]: 2.5 → 2\n";
    assert!(status == 1 && out.ends_with(wanted), "{out}");
    let (status, out, _) = shell(&bench, "asdf-mount --diff a.asdf c.asdf");
    let wanted = "@@ arrays/x.npy @@\n-<f8 (3,) md5 14bf63a0aa55419021c2f5435231862a\n+<f8 (2,) md5 a0e3efbd7ed4640a5e23bba9321a926d\n";
    assert!(status == 1 && out.ends_with(wanted), "{out}");
    let (status, out, _) = shell(&bench, "asdf-mount --diff a.asdf 1.asdf");
    assert!(status == 1 && out.contains("\n@@ arrays/image.npy @@\n+<i2 (160, 160) md5 "), "{out}");
    let coloured =
        "script -qec 'env -u NO_COLOR TERM=xterm asdf-mount --diff a.asdf b.asdf' /dev/null </dev/null";
    let (_, out, _) = shell(&bench, coloured);
    assert!(
        out.contains("\u{1b}[36m@@ arrays/x.npy @@\u{1b}[0m") && out.contains("\u{1b}[31m-<f8 (3,)"),
        "{out}"
    );
    let (status, _, said) = shell(&bench, "mkdir empty; asdf-mount --diff a.asdf empty");
    assert!(status == 2 && said.starts_with("asdf-mount: empty: is a directory; give two"), "{said}");
    let (status, _, said) = shell(&bench, "asdf-mount --diff a.asdf missing.asdf");
    assert!(status == 2 && said.contains("missing.asdf"), "{said}");
    assert_eq!(shell(&bench, "asdf-mount --diff tests.gsd tests.gsd").0, 2);
}

#[test]
fn several_saves_are_taken_back_at_once() {
    let bench = nine();
    let before = fs::read(bench.path("1.asdf")).unwrap();
    for filter in ["A", "B", "C"] {
        shell(&bench, &format!("asdf-mount --set object.filter={filter} 1.asdf"));
    }
    assert_eq!(shell(&bench, "asdf-mount --undo 1.asdf 4").0, 1);
    let (status, said, _) = shell(&bench, "asdf-mount --undo 1.asdf 3");
    assert!(status == 0 && said.contains("the last 3 saves are taken back"), "{said}");
    assert_eq!(fs::read(bench.path("1.asdf")).unwrap(), before);
    shell(&bench, "asdf-mount --undo 1.asdf");
    assert!(shell(&bench, "asdf-mount --cat 1.asdf tree.yaml").1.contains("filter: C"));
}

#[test]
fn an_unused_block_is_told_and_a_pattern_names_files() {
    let bench = nine();
    let (status, _, said) = shell(&bench, "asdf-mount --set stars=null --force 2.asdf");
    assert!(
        status == 0
            && said.contains("block 2 (640 bytes) is not used by any array now; it stays in the file"),
        "{said}"
    );
    let (status, out, _) = shell(&bench, "asdf-mount --cat 3.asdf 'arrays/[im]*.npy' | wc -c");
    assert_eq!((status, out.trim()), (0, "77056"));
    let (status, _, said) = shell(&bench, "asdf-mount --cat 3.asdf 'arrays/x*'");
    assert!(status == 1 && said.contains("arrays/x*"), "{said}");
    assert_eq!(shell(&bench, "asdf-mount --extract 3.asdf 'arrays/s*' -C d && ls d/arrays").1, "stars.npy\n");
    let on_terminal = |path: &str| {
        shell(&bench, &format!("script -qec 'asdf-mount --cat 3.asdf {path}' /dev/null </dev/null"))
    };
    let (status, out, _) = on_terminal("arrays/image.npy");
    assert!(status == 1 && out.contains("it is a terminal, and the data are binary"), "{out}");
    assert!(on_terminal("tree.yaml").1.contains("Sample Galaxy"));
}

#[test]
fn a_file_has_a_thumbnail() {
    let bench = nine();
    let (status, _, said) = shell(&bench, "asdf-mount --thumbnail -s 64 1.asdf out.png");
    assert_eq!((status, &*said), (0, ""));
    let picture = fs::read(bench.path("out.png")).unwrap();
    assert_eq!(picture[16..24], [0, 0, 0, 64, 0, 0, 0, 64]);
    assert_eq!(shell(&bench, "asdf-mount --thumbnail -s 64 1.asdf - | cmp - out.png").0, 0);
    // A thumbnailer runs in a sandbox, without FUSE and without a home.
    let line = "env -i HOME=/nowhere $(command -v asdf-mount) --thumbnail -s 64 1.asdf other.png && cmp out.png other.png";
    assert_eq!(shell(&bench, line).0, 0);
    fs::copy(Path::new(SAMPLE).with_file_name("trajectory.gsd"), bench.path("t.gsd")).unwrap();
    // Without a picture, it is the text of --info.
    assert_eq!(shell(&bench, "asdf-mount --thumbnail t.gsd text.png").0, 0);
    let text = fs::read(bench.path("text.png")).unwrap();
    assert_eq!(text[16..24], [0, 0, 1, 0, 0, 0, 1, 0]);
    // The filter is below the picture: the same file with another one has another thumbnail.
    let line = "asdf-mount --thumbnail 1.asdf one.png && asdf-mount --set object.filter=F555W 1.asdf && asdf-mount --thumbnail 1.asdf other.png && ! cmp -s one.png other.png";
    let (status, _, said) = shell(&bench, line);
    assert_eq!((status, &*said), (0, ""));
    // A picture is replaced, a file of data or a link never.
    let before = fs::read(bench.path("2.asdf")).unwrap();
    let line = "ln -s 2.asdf link.png; : >empty; for out in 2.asdf link.png; do asdf-mount --thumbnail 1.asdf $out || echo $?; done; asdf-mount --thumbnail 1.asdf one.png; asdf-mount --thumbnail 1.asdf empty && cmp one.png empty";
    let (status, out, said) = shell(&bench, line);
    assert_eq!((status, &*out), (0, "1\n1\n"), "{said}");
    assert!(said.contains("2.asdf: exists and is not a PNG picture"), "{said}");
    assert!(fs::read(bench.path("2.asdf")).unwrap() == before && bench.path("link.png").is_symlink());
    // The filter of another image is not.
    let image = "data: !core/ndarray-1.0.0 [[1, 2], [3, 4]]";
    for (name, sky) in [("a.asdf", "filter: F555W, "), ("b.asdf", "")] {
        let tree = format!("sky: {{{sky}{image}}}\n{image}\n");
        let text =
            format!("#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{tree}...\n");
        fs::write(bench.path(name), text).unwrap();
    }
    let line = "asdf-mount --thumbnail a.asdf one.png && asdf-mount --thumbnail b.asdf other.png && cmp one.png other.png";
    let (status, _, said) = shell(&bench, line);
    assert_eq!((status, &*said), (0, ""));
    let (status, _, said) = shell(&bench, "asdf-mount --thumbnail . none.png");
    assert!(status == 1 && said.contains("directory") && !bench.path("none.png").exists(), "{said}");
}

#[test]
fn a_mount_is_found_by_its_file_or_alone() {
    let bench = Bench::of_sample();
    assert_eq!(shell(&bench, "asdf-mount a.asdf mnt && asdf-mount -u a.asdf").0, 0);
    bench.nothing_is_left();
    let (status, _, said) = shell(&bench, "asdf-mount -u a.asdf");
    assert!(status == 1 && said.lines().count() == 1, "{said}");
    let (status, _, said) =
        shell(&bench, "ASDF_MOUNT_OPTIONS=ro,views=arrays,fits asdf-mount a.asdf mnt && ls mnt");
    assert_eq!(status, 0, "{said}");
    assert_eq!(shell(&bench, "ls mnt").1, "arrays\nblocks\nfits\ntree.yaml\n");
    assert_eq!(shell(&bench, "asdf-mount -u mnt").0, 0);
    // Other actions take only the options that they accept.
    assert_eq!(shell(&bench, "ASDF_MOUNT_OPTIONS=ro,views=arrays asdf-mount --ls a.asdf fits").0, 2);
    let (status, _, said) = shell(&bench, "ASDF_MOUNT_OPTIONS=nonsense asdf-mount a.asdf mnt");
    assert!(status == 2 && said.contains("ASDF_MOUNT_OPTIONS"), "{said}");
    bench.nothing_is_left();
}

#[test]
fn who_is_in_a_mount_is_told_to_leave_it() {
    let bench = Bench::of_sample();
    assert_eq!(shell(&bench, "asdf-mount a.asdf 'm t'").0, 0);
    let (status, _, said) = shell(&bench, "asdf-mount -u 'm t/blocks'");
    assert!(
        status == 1 && said.contains("not a mountpoint, but a part of the mount: asdf-mount -u '/"),
        "{said}"
    );
    let (status, _, said) = shell(&bench, "cd 'm t/blocks' && asdf-mount -u .");
    assert!(
        status == 1 && said.contains("a part of the mount: cd /") && said.contains(" && asdf-mount -u '/"),
        "{said}"
    );
    for place in ["m t", "m t/blocks"] {
        let here = if place == "m t" { "." } else { ".." };
        let (status, _, said) = shell(&bench, &format!("cd '{place}' && asdf-mount -u {here}"));
        assert!(
            status == 1 && said.contains("in use: it is your working directory; leave it: cd "),
            "{said}"
        );
    }
    // The advice works.
    let line = "cd 'm t'; said=$(asdf-mount -u . 2>&1); eval \"${said#*leave it: }\"";
    assert_eq!(shell(&bench, line), (0, String::new(), String::new()));
    bench.nothing_is_left();
    assert_eq!(shell(&bench, "asdf-mount a.asdf 'm t'").0, 0);
    let line = "cd 'm t/blocks'; said=$(asdf-mount -u . 2>&1); eval \"${said#*part of the mount: }\"";
    assert_eq!(shell(&bench, line), (0, String::new(), String::new()));
    bench.nothing_is_left();
}

#[test]
fn options_take_the_address_of_a_file() {
    let bench = nine();
    let line = "asdf-mount --cat file://$PWD/1.asdf tree.yaml | sed 's/filter: V/filter: Q/' >'t r' &&
        asdf-mount --set-tree file://$PWD/t%20r 1.asdf && asdf-mount --get object.filter 1.asdf &&
        asdf-mount --extract 1.asdf tree.yaml -C file://$PWD && grep -c 'filter: Q' tree.yaml";
    assert_eq!(shell(&bench, line), (0, "Q\n1\n".to_owned(), String::new()));
}

#[test]
fn a_text_that_is_no_yaml_is_refused_with_advice() {
    let bench = Bench::of_sample();
    for (old, new, advice) in [
        ("  source: 0", "\tsource: 0", "replace the tab by blanks"),
        ("filter: V, name: Sample Galaxy}", "name: x}\nnote: a: b", "put the value in quotes"),
        ("filter: V", "filter: %V", "put the value in quotes"),
    ] {
        let line = format!(
            "asdf-mount --cat a.asdf tree.yaml >t; python3 -c 'import sys; o, n = sys.argv[1:]; \
                            print(open(\"t\").read().replace(o, n), end=\"\")' '{old}' '{new}' >u; asdf-mount --set-tree u a.asdf"
        );
        let (status, _, said) = shell(&bench, &line);
        assert!(status == 1 && said.contains(advice), "{said}");
    }
}
