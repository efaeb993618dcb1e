//! `--check` and `--index` of many files: progress on a terminal, and files that can't be read.

use std::fs;

use crate::user::PROLOGUE;
use common::asdf::{AsdfBuilder, Block};
use common::daemon::Bench;
use common::encode::Encoding;

/// Makes a directory `many` of 2000 files, one of them damaged.
fn bench() -> Bench {
    let bench = Bench::new();
    let block = Block::new(b"data".repeat(9)).encoding(Encoding::Zlib);
    let built = AsdfBuilder::new().block(block).build();
    fs::write(bench.path("a.asdf"), &built.bytes).unwrap();
    fs::create_dir(bench.path("many")).unwrap();
    for n in 0..2000 {
        fs::hard_link(bench.path("a.asdf"), bench.path(format!("many/{n:04}.asdf"))).unwrap();
    }
    let mut broken = built.bytes.clone();
    let in_the_data = built.tree().len() + 54 + 10;
    broken[in_the_data] ^= 0xff;
    fs::remove_file(bench.path("many/1999.asdf")).unwrap();
    fs::write(bench.path("many/1999.asdf"), broken).unwrap();
    bench
}

/// Returns the terminal output of a command that is paused, once it has opened a file, until it has taken more than a
/// second.
fn shown(bench: &Bench, command: &str) -> String {
    let script = format!(
        "cat >held.sh <<'END'\n{command} &\nprogram=$!\n\
         for i in $(seq 300); do ! ls -l /proc/$program/fd 2>/dev/null | grep -q many || break; done\n\
         kill -STOP $program; sleep 1.1; kill -CONT $program; \
         wait $program || echo \"status $?\"; wait\nEND\n\
         timeout 120 script -qec 'stty cols 80; sh ./held.sh' /dev/null </dev/null"
    );
    let output = bench.script(&script);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

/// Returns the text that remains on the terminal: for each line, the text after the last erase.
fn left(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.rsplit("\r\u{1b}[2K").next().unwrap()).collect()
}

const DAMAGE: &str = "many/1999.asdf: byte";
const SUMMARY: &str = "2000 files, 2000 blocks, 1 damaged";

#[test]
fn a_terminal_shows_progress_and_then_only_the_outcome() {
    let bench = bench();
    for check in ["--check", "--index"] {
        let shown = shown(&bench, &format!("asdf-mount {check} many"));
        // The progress shows a count of files, or a bar for the file at which it was paused.
        assert!(shown.contains("file ") || shown.contains(" read: "), "{shown:?}");
        let drawn = shown.matches('\r').count();
        assert!(drawn < 700, "drawn {drawn} times for 2000 files");
        let left = left(&shown);
        let [told @ .., summary, status] = &left[..] else { panic!("{left:?}") };
        assert!(!told.is_empty() && told.iter().all(|line| line.contains("1999.asdf: ")), "{left:?}");
        assert!(
            summary.starts_with("2000 files, 2000 blocks, ") && summary.ends_with("1 damaged"),
            "{left:?}"
        );
        assert_eq!(*status, "status 1");
    }
}

#[test]
fn an_extraction_shows_progress_and_leaves_no_line() {
    let bench = bench();
    let shown = shown(&bench, "asdf-mount --extract -o views=none many -C out");
    assert!(shown.contains("file ") || shown.contains(" read: "), "{shown:?}");
    let left = left(&shown);
    let [told, sum, status] = &left[..] else { panic!("{left:?}") };
    assert!(told.starts_with("asdf-mount: many: 1999.asdf/blocks/0.bin: "), "{told}");
    assert!(sum.ends_with("files extracted into out, 1 not") && *status == "status 1", "{left:?}");
}

#[test]
fn neither_a_pipe_nor_quiet_shows_progress() {
    let bench = bench();
    let piped =
        shown(&bench, "mkfifo pipe; cat pipe & asdf-mount --check many >pipe 2>&1 || { wait; false; }");
    assert!(!piped.contains(['\r', '\u{1b}']) && piped.contains(DAMAGE), "{piped:?}");
    assert!(piped.contains(&format!("\n{SUMMARY}\n")), "{piped:?}");
    let quiet = shown(&bench, "asdf-mount -q --check many");
    assert!(!quiet.contains(['\r', '\u{1b}']), "{quiet:?}");
    assert!(quiet.starts_with(DAMAGE) && quiet.ends_with("\nstatus 1\n"), "{quiet:?}");
    assert!(!quiet.contains("files"), "{quiet:?}");
}

#[test]
fn what_an_ordinary_user_can_not_read_is_told_and_the_rest_is_checked() {
    let bench = Bench::new();
    let script = r#"
        mkdir -p data/locked data/open
        for at in data/a data/b data/locked/c data/open/d; do cp a.asdf $at.asdf; done
        printf '#ASDF 1.0.0\nrubbish' >data/open/broken.asdf
        chown -R 65534:65534 data; chmod 0 data/b.asdf data/locked
        export XDG_CACHE_HOME=$T/home/cache XDG_STATE_HOME=$T/home/state
        for option in --check --index; do
            user asdf-mount $option data >out 2>error || status=$?
            test $status = 2
            cat out error
            grep -q '^asdf-mount: data/b.asdf: permission denied' error
            grep -q '^asdf-mount: data/locked: permission denied' error
            tail -n 1 error | grep -q '^5 files, .* unreadable$'
            test $(wc -l <error) -le 4
        done
        user asdf-mount --check --json data >out 2>error || test $? = 2
        test $(wc -l <out) = 5
        grep -q '"file":"data/open/d.asdf","status":"sound"' out
        grep -q '"file":"data/b.asdf","status":"unreadable"' out
    "#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
}
