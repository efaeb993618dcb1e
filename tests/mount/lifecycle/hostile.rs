//! What strangers put into names, texts and folders does no harm to the terminal, the mount or the machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::asdf::{AsdfBuilder, Block, sample};
use crate::common::daemon::Bench;
use crate::common::mount::{Mounted, fresh_folder, program};

/// True if a terminal acts on the character.
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
    is_harmless("tree.json", &fs::read(mounted.path("tree.json")).unwrap());
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
    // Something to report: most of the block is gone.
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

/// Starts at the real limit of a user; each step beyond it leaves room for one thread more.
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
                test -s error
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
