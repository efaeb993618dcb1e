//! `--info`, and `.asdf-mount/info.txt`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::daemon::{Bench, SAMPLE, failed, succeeded};
use common::mount::{Mounted, wait_until};
use common::site::Site;

fn printed(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_file_is_described_on_one_screen_with_and_without_a_mount() {
    let bench = Bench::of_sample();
    let source = bench.source();
    let name = source.file_name().unwrap().to_str().unwrap();
    let here = printed(&bench, &["--info", source.to_str().unwrap()]);
    for line in
        ["\nfilter     V\n", "\nimage: ndarray int16 (160, 160) bzp2 18.0 kB\n", "\n  magnitude: float32\n"]
    {
        assert!(here.contains(line), "{line}{here}");
    }
    let daemon = bench.mount(&bench.mountpoint());
    let path = bench.mountpoint().join(".asdf-mount/info.txt");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), text.len() as u64);
    assert_eq!(text, here.replacen(source.to_str().unwrap(), name, 1));
    succeeded(&bench.run(["-u".as_ref(), bench.mountpoint().as_os_str()]));
    daemon.ends();
    // Nothing is coloured or cut beside a terminal; 20 columns are kept.
    let narrow =
        bench.command(["--info".as_ref(), source.as_os_str()]).env("COLUMNS", "20").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 20) && !narrow.contains('\u{1b}'), "{narrow}");
}

#[test]
fn a_file_without_a_name_is_read_by_its_descriptor() {
    let bench = Bench::of_sample();
    bench.runs(
        r#"
        exec 4<a.asdf; rm a.asdf
        asdf-mount --check /dev/fd/4
        asdf-mount --info /dev/fd/4 | grep -q '^filter     V$'
        not sh -c 'echo | asdf-mount --check /dev/stdin' 2>said
        grep -q 'is not a regular file' said"#,
    );
}

/// tar cuts a copy off, or fills it up, if it is told another length than it reads.
#[test]
fn an_open_info_has_the_length_that_the_system_says_whatever_another_program_writes() {
    let bench = Bench::of_sample();
    let source = bench.source();
    let mounted = Mounted::new(["-r".as_ref(), source.as_os_str()]);
    let path = mounted.path(".asdf-mount/info.txt");
    let bytes = fs::read(&source).unwrap();
    let at = bytes.windows(13).position(|part| part == b"Sample Galaxy").unwrap();
    for name in [&b"M 31         "[..], b"Sample Galaxy"].repeat(3) {
        let len = fs::metadata(&path).unwrap().len();
        fs::OpenOptions::new().write(true).open(&source).unwrap().write_all_at(name, at as u64).unwrap();
        let is_new = wait_until(|| {
            let mut text = String::new();
            let mut file = fs::File::open(&path).unwrap();
            let told = file.metadata().unwrap().len();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(told, text.len() as u64, "{text}");
            told != len
        });
        assert!(is_new);
    }
    mounted.unmount();
}

#[test]
fn a_terminal_has_colours_unless_they_are_unwanted() {
    let bench = Bench::of_sample();
    let on_terminal = |environment: &str| {
        let line = format!(
            "env {environment} TERM=xterm script -qec '{} --info {}' /dev/null </dev/null",
            env!("CARGO_BIN_EXE_asdf-mount"),
            bench.source().display()
        );
        String::from_utf8(bench.shell(&line).stdout).unwrap()
    };
    assert!(on_terminal("-u NO_COLOR").contains("\u{1b}[36m"));
    assert!(!on_terminal("NO_COLOR=1").contains('\u{1b}'));
}

#[test]
fn a_directory_has_a_line_for_each_file() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    fs::copy(SAMPLE, bench.path("data/galaxy.asdf")).unwrap();
    fs::write(bench.path("data/empty.asdf"), "#ASDF 1.0.0\n").unwrap();
    fs::write(bench.path("data/notes.txt"), "text").unwrap();
    let data = bench.path("data");
    let rows = printed(&bench, &["--info", data.to_str().unwrap()]);
    let words: Vec<Vec<&str>> = rows.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["FILE", "SIZE", "PRODUCT", "FILTER", "EXPOSURE", "TARGET"], "{rows}");
    assert_eq!(words[1][3..], ["asdf", "-", "-", "-"], "{rows}");
    assert_eq!(words[2][3..], ["asdf", "V", "1200.0", "s", "Sample", "Galaxy"], "{rows}");
    assert_eq!(words.len(), 3);
    // In a narrow terminal, other columns are cut before the filter; a program gets all of a long line.
    let tree = format!(
        "meta: {{model_type: {}, telescope: ROMAN, instrument: {{name: WFI, filter: F158}}}}\n",
        "Long".repeat(40)
    );
    let head = "#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n";
    fs::write(bench.path("data/long.asdf"), format!("{head}{tree}...\n")).unwrap();
    let rows = printed(&bench, &["--info", data.to_str().unwrap()]);
    assert!(
        rows.contains(&"Long".repeat(30)) && rows.contains("F158") && rows.contains("ROMAN WFI"),
        "{rows}"
    );
    let narrow = bench.command(["--info", "data"]).env("COLUMNS", "60").output().unwrap();
    let rows = String::from_utf8(narrow.stdout).unwrap();
    assert!(rows.contains("F158") && rows.lines().all(|row| row.chars().count() <= 60), "{rows}");
    let missing = bench.run(["--info", "missing.asdf"]);
    assert!(failed(&missing, 1).contains("missing.asdf"));
    failed(&bench.run(["--info"]), 2);
    failed(&bench.run(["--info", "-L", "0", "x"]), 2);
}

#[test]
fn a_directory_tells_its_damaged_files() {
    let bench = Bench::new();
    let sound = fs::read(SAMPLE).unwrap();
    let text = String::from_utf8_lossy(&sound).into_owned();
    let end = text.find("\n...").unwrap();
    fs::create_dir_all(bench.path("data/below")).unwrap();
    fs::write(bench.path("data/sound.asdf"), &sound).unwrap();
    // Cut off in a block, between two blocks, and in the tree; a tree that is not valid; a block that is not there.
    fs::write(bench.path("data/below/block.asdf"), &sound[..5000]).unwrap();
    let blocks = [0, 1].map(|n| text[..].match_indices("\u{fffd}BLK").nth(n).is_some());
    assert_eq!(blocks, [true; 2]);
    let second = sound.windows(4).enumerate().filter(|(_, four)| *four == b"\xd3BLK").nth(1).unwrap().0;
    fs::write(bench.path("data/between.asdf"), &sound[..second]).unwrap();
    fs::write(bench.path("data/tree.asdf"), &sound[..end]).unwrap();
    let at = text.find("\nobject: {").unwrap() + 9;
    fs::write(bench.path("data/yaml.asdf"), [&sound[..at], b"[", &sound[at + 1..]].concat()).unwrap();
    let names = ["below/block", "between", "tree", "yaml"];
    // Without its first bytes, a file is still known by its name.
    fs::write(bench.path("data/empty.asdf"), "").unwrap();
    fs::write(bench.path("data/zeros.asdf"), vec![0; sound.len()]).unwrap();
    let output = bench.run(["--info", "data"]);
    let (rows, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    let count = "7 files, 4 damaged, 2 unreadable; --info FILE says how, --check reads the data";
    assert_eq!(said.lines().last(), Some(format!("asdf-mount: {count}").as_str()), "{said}");
    assert!(said.contains("data/empty.asdf: is empty: it is not an ASDF file"), "{said}");
    for line in rows.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "data/sound.asdf" => assert_eq!(words[3], "-", "{rows}"),
            "data/empty.asdf" | "data/zeros.asdf" => assert_eq!(words[2], "unreadable", "{rows}"),
            _ => assert_eq!(words[3], "damaged", "{rows}"),
        }
    }
    // As --info says it of each.
    for name in names {
        let output = bench.run(["--info", &format!("data/{name}.asdf")]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("\ndamage     ") && !text.contains("\nstate "), "{text}");
        assert_eq!(bench.run(["--check", "-q", &format!("data/{name}.asdf")]).status.code(), Some(1));
        let page = printed(&bench, &["--cat", &format!("data/{name}.asdf"), "index.html"]);
        assert!(page.contains("aria-label=\"Damage\"") && !page.contains("No damage found"), "{page}");
    }
    let sound = bench.run(["--info", "data/sound.asdf", "data/below/../sound.asdf"]);
    succeeded(&sound);
    // A damaged file has a thumbnail, which is not that of the sound one.
    let mut pictures = vec![bench.run(["--thumbnail", "data/sound.asdf", "-"]).stdout];
    for name in ["below/block", "between"] {
        let output = bench.run(["--thumbnail", &format!("data/{name}.asdf"), "-"]);
        succeeded(&output);
        assert!(output.stdout.starts_with(b"\x89PNG") && !pictures.contains(&output.stdout), "{name}");
        pictures.push(output.stdout);
    }
}

#[test]
fn an_empty_directory_is_said_to_be_empty() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("empty/below")).unwrap();
    fs::write(bench.path("empty/notes.txt"), "text").unwrap();
    fs::create_dir(bench.path("data")).unwrap();
    fs::copy(SAMPLE, bench.path("data/a.asdf")).unwrap();
    for arguments in [&["--info", "empty"][..], &["--info", "data", "empty/", "a.asdf"]] {
        let output = bench.run(arguments);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said,
            format!(
                "asdf-mount: {}: no files of a known format\n",
                if arguments.len() > 2 { "empty/" } else { "empty" }
            )
        );
    }
    let site = Site::web(|_, reply| reply);
    site.put("data/notes.txt", "text");
    let said = bench.run(["--info", &site.server.url("/data/")]);
    assert!(
        String::from_utf8_lossy(&said.stderr).ends_with("/data/: no files of a known format\n"),
        "{said:?}"
    );
}

#[test]
fn columns_are_those_of_a_terminal() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    let head = "#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n";
    for (name, filter) in [("銀河", "V"), ("e\u{301}t", "明るい"), ("longer-name", "F158")] {
        let tree = format!("{head}meta: {{filter: {filter}, target: {name}}}\n...\n");
        fs::write(bench.path("data").join(format!("{name}.asdf")), tree).unwrap();
    }
    let rows = printed(&bench, &["--info", "data"]);
    // Python's unicodedata tells the width of a character.
    let script = "import sys, unicodedata as u
width = lambda text: sum(0 if u.combining(c) else 1 + (u.east_asian_width(c) in 'WF') for c in text)
rows = sys.stdin.read().splitlines()
print({tuple(width(row[:row.index(' ' + cell)]) for cell in row.split()[-2:]) for row in rows})";
    fs::write(bench.path("columns.py"), script).unwrap();
    fs::write(bench.path("rows"), &rows).unwrap();
    let output = bench.shell("LC_ALL=C.UTF-8 python3 -X utf8 columns.py <rows");
    let columns = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        columns.matches('(').count(),
        1,
        "{columns} {rows} {:?}",
        String::from_utf8_lossy(&output.stderr)
    );
    let narrow = bench.command(["--info", "data"]).env("COLUMNS", "50").output().unwrap();
    assert!(narrow.status.success());
}

#[test]
fn sixteen_files_of_a_server_are_asked_for_at_once_and_shown_as_they_come() {
    let bench = Bench::new();
    let open = Arc::new((Mutex::new((0_usize, false)), Condvar::new()));
    let shared = open.clone();
    let site = Site::web(move |request, reply| {
        // The last file is answered only once the first ones are shown, and the others once 16 are asked for.
        let (lock, changed) = &*shared;
        let mut state = lock.lock().unwrap();
        if request.target.ends_with("/z15.asdf") {
            state = changed.wait_timeout_while(state, Duration::from_secs(60), |state| !state.1).unwrap().0;
        } else if request.target.ends_with(".asdf") {
            state.0 += 1;
            changed.notify_all();
            state =
                changed.wait_timeout_while(state, Duration::from_secs(60), |state| state.0 < 15).unwrap().0;
        }
        drop(state);
        reply
    });
    let sample = fs::read(SAMPLE).unwrap();
    for n in 0..15 {
        site.put(&format!("data/f{n:02}.asdf"), sample.clone());
    }
    site.put("data/z15.asdf", &sample[..sample.len() - 600]);
    let mut command = bench.command(["--info", &site.server.url("/data/")]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Vec<String> = (0..16).map(|_| lines.next().unwrap().unwrap()).collect();
    assert!(first[0].starts_with("FILE ") && first[15].contains("/data/f14.asdf "), "{first:?}");
    assert!(open.0.lock().unwrap().0 >= 15);
    open.0.lock().unwrap().1 = true;
    open.1.notify_all();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.len() == 1 && rest[0].contains("/data/z15.asdf "), "{rest:?}");
    // A state that only the last one has is below its title, too.
    assert_eq!(rest[0].find("damaged"), first[1].find(" -").map(|at| at + 1), "{first:?} {rest:?}");
    assert!(first.iter().skip(1).chain(&rest).all(|row| row.contains(" V ")), "{first:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_file_on_a_server_is_described() {
    let bench = Bench::new();
    let site = Site::web(|_, reply| reply);
    site.put("galaxy.asdf", fs::read(SAMPLE).unwrap());
    let url = site.server.url("/galaxy.asdf");
    let text = printed(&bench, &["--info", &url]);
    assert!(text.contains("\nmask: ndarray uint8 (160, 160) zlib 77 B\n"), "{text}");
    let requests = site.asked().len();
    assert!(requests <= 3, "{requests}");
}
