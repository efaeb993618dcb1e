//! Hostile names, texts and directories do not harm the terminal, the mount or the machine.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, Dir, Mode, OFlags, RenameFlags};

use common::asdf::{AsdfBuilder, Block, sample};
use common::daemon::Bench;
use common::mount::{Mounted, fresh_folder, program};

/// True if terminals interpret the character.
fn acts(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_harmless(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|_| panic!("{what} is not UTF-8"));
    assert!(!text.contains(acts), "{what}: {text:?}");
}

#[test]
fn no_text_of_a_file_acts_on_a_terminal() {
    let folder = fresh_folder();
    let file = folder.path().join("x\u{1b}]0;y\u{7}\u{9b}2J\u{202e}.asdf");
    let tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\"\\e[31m\\a\\x9b\u{202e}\": \
                !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [100]} # \u{2066}\n...\n";
    let built = AsdfBuilder::new().tree(tree).block(Block::new(sample(100, 1))).build();
    fs::write(&file, &built.bytes).unwrap();
    let log = folder.path().join("log");
    let mounted = Mounted::new(["-vv".as_ref(), "--log-file".as_ref(), log.as_os_str(), file.as_os_str()]);
    is_harmless("stderr of the mount", mounted.stderr().as_bytes());
    for name in ["tree.json", "refs.json"] {
        is_harmless(name, &fs::read(mounted.path(name)).unwrap());
    }
    for (n, text) in [
        tree.replace("source: 0", "source: 9"),
        tree.replace("source: 0", "source: \"\\e]2;\u{202e}\""),
        tree.replace("!core/ndarray-1.1.0", "!<\u{202e}tag:x>"),
        tree.replace("...", "? *\u{202e}a\n..."),
    ]
    .into_iter()
    .enumerate()
    {
        let _ = fs::write(mounted.path("tree.yaml"), text);
        let report = fs::read(mounted.path("tree.yaml.error"));
        let report = report.unwrap_or_else(|_| fs::read(mounted.path("tree.yaml.warning")).unwrap());
        is_harmless(&format!("the report on text {n}"), &report);
        is_harmless("status.yaml", &fs::read(mounted.path(".asdf-mount/status.yaml")).unwrap());
    }
    mounted.unmount();
    is_harmless("the log", &fs::read(&log).unwrap());
    for action in ["--catalog", "--refs"] {
        let output = Command::new(program()).arg(action).arg(&file).output().unwrap();
        is_harmless(action, &output.stdout);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let chunk = || json["refs"].as_object().unwrap().values().find_map(|value| value.get(0)).unwrap();
        let uri = if action == "--refs" { chunk() } else { &json["uri"] };
        assert_eq!(uri, &format!("file://{}", file.display()), "the value is the same");
    }
    // Most of the block is missing, so that there is damage to report.
    let block = built.blocks[0].data_offset as usize;
    fs::write(&file, &built.bytes[..block + 10]).unwrap();
    let run = |arguments: &[&str], path: &Path| {
        let output = Command::new(program()).args(arguments).arg(path).output().unwrap();
        is_harmless(&format!("stderr of {arguments:?}"), &output.stderr);
        is_harmless(&format!("stdout of {arguments:?}"), &output.stdout);
        output.stdout
    };
    assert!(!run(&["--check"], &file).is_empty());
    let json: serde_json::Value = serde_json::from_slice(&run(&["--check", "--json"], &file)).unwrap();
    assert_eq!(json["file"], file.to_str().unwrap(), "the value is the same");
    fs::remove_file(&file).unwrap();
    run(&["--check"], &file);
    run(&["--recover"], &file);
    run(&["--set-tree", "/dev/null"], &file);
}

/// The limit of processes rises by one in each step.
#[test]
fn where_processes_are_limited_a_mount_serves_or_says_why_not() {
    let bench = Bench::new();
    let script = r#"
        chown 65534:65534 home
        served=0 refused=0
        for limit in $(seq 1 60); do
            mkdir home/m$limit; chown 65534:65534 home/m$limit
            status=0
            timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --nproc=$limit \
                asdf-mount a.asdf home/m$limit 2>error || status=$?
            if test $status = 0; then
                user test -s home/m$limit/tree.yaml
                served=$((served + 1))
                umount home/m$limit
                test $served -lt 3 || break
            else
                test $status = 1
                grep -q 'raise the limit of processes' error
                not findmnt home/m$limit
                refused=$((refused + 1))
            fi
        done
        test $served -gt 0
        test $refused -gt 0"#;
    let output = bench.script(&format!("{}{script}", super::user::PROLOGUE));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

/// The limit of the cgroup rises by one in each step. The shell itself becomes the mount command, so that it
/// needs no process more.
#[test]
fn a_cgroup_with_few_processes_serves_a_mount_or_says_why_not() {
    let bench = Bench::of_sample();
    let script = r#"
        hierarchy() {
            awk '{ split($0, halves, " - "); split(halves[2], fs, " ") }
                fs[1] == "cgroup" && fs[3] ~ /(^|,)pids(,|$)/ { v1 = $5 }
                fs[1] == "cgroup2" { v2 = $5 }
                END { print (v1 ? v1 : v2) }' /proc/self/mountinfo
        }
        if test -z "$(hierarchy)"; then
            mkdir cgroups
            mount -t cgroup -o pids none cgroups 2>/dev/null || mount -t cgroup2 none cgroups
        fi
        parent=$(hierarchy)
        test ! -e $parent/cgroup.subtree_control || echo +pids >$parent/cgroup.subtree_control
        group=$parent/asdf-mount-test-$$
        mkdir $group
        trap 'rmdir $group' EXIT
        served=0 refused=0
        for limit in $(seq 1 60); do
            mkdir m$limit
            echo $limit >$group/pids.max
            status=0
            sh -c "echo \$\$ >$group/cgroup.procs; exec asdf-mount a.asdf m$limit" 2>error || status=$?
            if test $status = 0; then
                # From now on, no thread can be started, for decoding for example.
                cat $group/pids.current >$group/pids.max
                timeout 60 ls -R m$limit >names
                timeout 60 cat m$limit/blocks/0.bin m$limit/tree.json >bytes
                served=$((served + 1))
                umount m$limit
                for i in $(seq 600); do grep -q . $group/cgroup.procs || break; sleep 0.1; done
                test $served -lt 3 || break
            else
                test $status = 1
                grep -q 'raise the limit of processes' error
                not findmnt m$limit
                refused=$((refused + 1))
            fi
        done
        test $served -gt 0
        test $refused -gt 0"#;
    let output = bench.script(script);
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn mounts_that_lead_into_each_other_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let script = r#"
        mkdir one two m1 m2 one/sub one/dir two/dir
        echo text >one/plain
        for n in 1 2 3; do
            ln -s $T/m2/link$n one/link$n
            ln -s $T/m1/dir/link$n two/link$n
            ln -s ../../m2/link$n one/dir/link$n
            ln -s $T/m1/plain two/plain$n
        done
        printf '#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%%YAML 1.1\n%%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na: !core/ndarray-1.0.0 {source: "../m1/sub/x.asdf", datatype: uint8, byteorder: big, shape: [1]}\nb: !core/ndarray-1.0.0 {source: "../m2/plain1", datatype: uint8, byteorder: big, shape: [1]}\n...\n' >one/x.asdf
        asdf-mount -o external=anywhere one m1
        asdf-mount two m2
        mount --bind m1 one/sub
        look() { timeout -k 1 30 "$@" >/dev/null 2>&1 || test $? -lt 124; }
        for i in $(seq 8); do
            for path in m1 m2 m1/dir m1/sub m1/sub/sub; do
                look ls -lL $path & look find -L $path -maxdepth 3 &
            done
        done
        for path in m1/sub/plain m1/x.asdf/arrays/a.npy m1/x.asdf/arrays/b.npy m2/plain1; do
            look cat $path &
        done
        wait
        test "$(timeout -k 1 30 cat m1/plain)" = text
        timeout -k 1 30 ls m1/sub 2>&1 | grep -q 'Too many levels of symbolic links'
        umount one/sub
        timeout -k 1 30 asdf-mount -u m1
        timeout -k 1 30 asdf-mount -u m2"#;
    let output = bench.script(script);
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

/// The kernel or bindfs shows the mount within the mounted directory, under another device number.
#[test]
fn a_mount_that_shows_the_mount_within_its_source_is_not_entered() {
    let bench = Bench::new();
    let script = r#"
        mkdir src src/bind src/again src/over m low
        echo text >src/plain
        asdf-mount src m
        look() { timeout -k 1 30 ls "$1" 2>&1 | grep -q 'Too many levels of symbolic links'; }
        bindfs $T/m src/bind
        bindfs $T/src/bind src/again
        mount -t overlay overlay -o lowerdir=$T/m:$T/low src/over
        for path in m/bind/ m/again/ m/over/; do
            look $path
        done
        test "$(timeout -k 1 30 cat m/plain)" = text
        # A bindfs that ends holds its directory for a moment.
        for path in src/over src/again src/bind m; do
            for try in $(seq 600); do umount $path 2>/dev/null && break; sleep 0.1; done
        done"#;
    let output = bench.script(script);
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

/// A private directory replaces a user's own directory after the kernel has let the user into it.
#[test]
fn a_folder_that_is_exchanged_for_a_private_one_shows_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let build = |text: &str| {
        let tree =
            format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nname: {text}\n...\n");
        AsdfBuilder::new().tree(tree).build().bytes
    };
    for (name, mode) in [("own", 0o755), ("private", 0o700)] {
        fs::create_dir(path(name)).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        fs::write(path(name).join("data.asdf"), build(name)).unwrap();
        fs::write(path(name).join(format!("of {name}")), name).unwrap();
    }
    fs::write(path("shared.asdf"), build("shared")).unwrap();
    fs::write(path("decoy.asdf"), build("secret")).unwrap();
    fs::set_permissions(path("decoy.asdf"), fs::Permissions::from_mode(0o600)).unwrap();
    let mounted = Mounted::new(["-o".as_ref(), "allow_other".as_ref(), folder.path().as_os_str()]);
    let hold = |name: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(mounted.path(name), flags, Mode::empty()).unwrap()
    };
    let (own, data, shared) = (hold("own"), hold("own/data.asdf"), hold("shared.asdf"));
    let exchange = |one: &str, other: &str| {
        rustix::fs::renameat_with(CWD, path(one), CWD, path(other), RenameFlags::EXCHANGE).unwrap();
    };
    exchange("own", "private");
    exchange("shared.asdf", "decoy.asdf");
    let read = |dir: &OwnedFd, name: &str| -> Vec<u8> {
        let Ok(file) = rustix::fs::openat(dir, name, OFlags::RDONLY, Mode::empty()) else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        let _ = fs::File::from(file).read_to_end(&mut bytes);
        bytes
    };
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    // The kernel may use cached attributes for half a second.
    for _ in 0..8 {
        let listed = rustix::fs::openat(&own, ".", OFlags::RDONLY, Mode::empty()).map(Dir::new);
        let names = listed.ok().and_then(Result::ok).into_iter().flatten().flatten();
        assert!(!names.into_iter().any(|entry| entry.file_name().to_bytes() == b"of private"));
        assert!(!has(&read(&own, "of private"), "private"));
        assert!(!has(&read(&data, "tree.yaml"), "private"));
        assert!(!has(&read(&shared, "tree.yaml"), "secret"));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // A lookup by name finds the new directory.
    assert!(has(&fs::read(mounted.path("own/data.asdf/tree.yaml")).unwrap(), "private"));
    assert_eq!(fs::metadata(mounted.path("own")).unwrap().permissions().mode() & 0o777, 0o700);
    drop((own, data, shared));
    mounted.unmount();
}
