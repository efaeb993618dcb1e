//! What the program says about itself.

use std::fs;
use std::process::Command;

use crate::daemon::{Bench, succeeded};

fn text(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_has_examples_options_and_statuses() {
    let bench = Bench::new();
    let help = text(&bench, &["--help"]);
    for wanted in [
        "Usage: asdf-mount",
        "Examples:",
        "asdf-mount -u /mnt/x",
        "allow_other",
        "Exit status:",
        "cache=SIZE",
        "--generate <WHAT>",
    ] {
        assert!(help.contains(wanted), "{wanted} is not in\n{help}");
    }
    assert!(text(&bench, &["-h"]).lines().count() < 40);
    assert_eq!(text(&bench, &["--version"]), format!("asdf-mount {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_man_page_is_sound_roff() {
    let bench = Bench::new();
    fs::write(bench.path("asdf-mount.1"), text(&bench, &["--generate", "man"])).unwrap();
    let page =
        Command::new("man").args(["--warnings", "-l"]).arg(bench.path("asdf-mount.1")).output().unwrap();
    succeeded(&page);
    let page = String::from_utf8(page.stdout).unwrap();
    for title in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "MOUNT OPTIONS (-o)",
        "EXAMPLES",
        "EXIT STATUS",
        "FILES",
    ] {
        assert!(page.lines().any(|line| line == title), "{title} is not in\n{page}");
    }
    assert!(page.contains(r"written '\,'"), "{page}");
}

#[test]
fn the_completions_are_sound_bash() {
    let bench = Bench::new();
    fs::write(bench.path("completions"), text(&bench, &["--generate", "bash"])).unwrap();
    let script = ". ./completions; COMP_WORDS=(asdf-mount --fore); COMP_CWORD=1; \
                  _asdf__mount asdf-mount --fore asdf-mount; echo ${COMPREPLY[@]}";
    let output = Command::new("bash").args(["-c", script]).current_dir(bench.path("")).output().unwrap();
    succeeded(&output);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "--foreground\n");
    assert!(text(&bench, &["--generate", "zsh"]).starts_with("#compdef asdf-mount"));
    assert!(text(&bench, &["--generate", "fish"]).contains("complete -c asdf-mount"));
}

/// Owner and time in a line of `ls -l` are those of the file, and its columns as wide as they need.
fn without_owner_and_time(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [mode, links, _, _, size, _, _, _, name] if mode.len() == 10 => {
            format!("{mode} {links} {size} {name}")
        }
        _ => line.to_owned(),
    }
}

#[test]
fn the_first_commands_of_the_readme_print_what_it_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```console\n").nth(1).and_then(|text| text.split("```").next()).unwrap();
    let bench = Bench::new();
    std::fs::create_dir(bench.path("examples")).unwrap();
    std::fs::copy(root.join("examples/sample.asdf"), bench.path("examples/sample.asdf")).unwrap();
    let mut seen = 0;
    for step in shown.split("$ ").filter(|step| !step.is_empty()) {
        let (command, wanted) = step.split_once('\n').unwrap();
        if command.starts_with("python3") && !bench.script("python3 -c 'import numpy'").status.success() {
            continue;
        }
        // One namespace for each would be one mount for each.
        let output = bench.shell(command);
        assert!(output.status.success(), "{command}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let lines = |text: &str| text.lines().map(without_owner_and_time).collect::<Vec<_>>();
        assert_eq!(lines(&printed), lines(wanted), "{command}");
        seen += 1;
    }
    assert!(seen >= 5, "{shown}");
    bench.nothing_is_left();
}
