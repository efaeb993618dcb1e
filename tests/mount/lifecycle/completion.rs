//! Completions when Tab is pressed: bash with and without the package bash-completion, zsh and fish.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::daemon::{Bench, succeeded};

/// Key that inserts all candidates into the command line.
const ALL: &str = "\x14";
/// Key that prints the command line between `<@` and `@>`.
const SHOW: &str = "\x07";
const CLEAR: &str = "\x15";

const BASH: &str = r#"
    bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; bind '"\C-t": insert-completions'
    bind -x '"\C-g": printf "<@%s@>" "$READLINE_LINE"'
"#;
const BASH_COMPLETION: &str = ". /usr/share/bash-completion/bash_completion; ";
const ZSH: &str = r#"
    autoload -U compinit; fpath=($PWD/completions $fpath); compinit -u -d $PWD/zcompdump
    show() { print -rn -- "<@$BUFFER@>" }; zle -N show; bindkey '^G' show; bindkey '^U' kill-whole-line
    zle -C all complete-word _generic; bindkey '^T' all
    zstyle ':completion:all:*' completer _all_matches _complete; zstyle ':completion:all:*' insert true
"#;

/// A shell on its own terminal.
struct Shell {
    script: Child,
}

impl Shell {
    /// Starts a shell that reads `setup` first.
    fn start(bench: &Bench, shell: &str, setup: &str) -> Self {
        // zsh prints this prompt once it reads single keys.
        fs::write(bench.path(".zshrc"), format!("{setup}\nPS1='READY>'\n")).unwrap();
        let mut script = Command::new("timeout");
        script.args(["120", "script", "-qec", shell, "/dev/null"]).current_dir(bench.path(""));
        script
            .env("PATH", path())
            .env("TERM", "dumb")
            // In the locale C, zsh inserts nothing but ASCII within quotes.
            .env("LANG", "C.UTF-8")
            .env_remove("LC_ALL")
            .env_remove("LC_CTYPE")
            .env("ZDOTDIR", bench.path(""))
            .env("HOME", bench.path(""));
        script.env("XDG_DATA_HOME", bench.path("data"));
        let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut shell = Self { script };
        shell.shown_until("READY>");
        shell
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn shown_until(&mut self, mark: &str) -> String {
        let (mut shown, mut byte) = (Vec::new(), [0]);
        while !shown.ends_with(mark.as_bytes()) {
            let read = self.script.stdout.as_mut().unwrap().read(&mut byte).unwrap();
            assert_eq!(read, 1, "no {mark} in {}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Returns the command line after these keys.
    fn line_after(&mut self, keys: &str) -> String {
        self.press(&format!("{keys}{SHOW}"));
        let shown = self.shown_until("@>");
        self.press(CLEAR);
        let line = shown.rsplit_once("<@").unwrap().1;
        line.trim_end_matches("@>").to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Returns a `PATH` that contains the program.
fn path() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_asdf-mount")).parent().unwrap();
    std::env::join_paths([program, Path::new("/usr/bin"), Path::new("/bin")]).unwrap()
}

/// Makes a directory with files, mounts, and the completion scripts where each shell searches for them.
fn bench() -> Bench {
    let bench = Bench::new();
    for (shell, at) in [
        ("bash", "data/bash-completion/completions/asdf-mount"),
        ("zsh", "completions/_asdf-mount"),
        ("fish", "completions/asdf-mount.fish"),
    ] {
        let output = bench.run(["--generate", shell]);
        succeeded(&output);
        fs::create_dir_all(bench.path(at).parent().unwrap()).unwrap();
        fs::write(bench.path(at), output.stdout).unwrap();
    }
    fs::write(bench.path("two words.asdf"), "").unwrap();
    fs::create_dir(bench.path("gal")).unwrap();
    for mountpoint in ["mnt", "m n:1", "gal/axy"] {
        succeeded(&bench.run(["-r", "a.asdf", mountpoint]));
    }
    bench
}

/// Completions that are equal in every shell.
const EVERYWHERE: [(&str, &str); 19] = [
    ("asdf-mount tw", "asdf-mount two\\ words.asdf "),
    ("asdf-mount -r tw", "asdf-mount -r two\\ words.asdf "),
    ("asdf-mount --check a.a", "asdf-mount --check a.asdf "),
    ("asdf-mount --set-tree a.a", "asdf-mount --set-tree a.asdf "),
    ("asdf-mount --log-file=a.a", "asdf-mount --log-file=a.asdf "),
    ("asdf-mount --cat a.asdf tree.y", "asdf-mount --cat a.asdf tree.yaml "),
    ("asdf-mount --ls a.asdf blo", "asdf-mount --ls a.asdf blocks/"),
    ("asdf-mount --fore", "asdf-mount --foreground "),
    ("asdf-mount --generate zs", "asdf-mount --generate zsh "),
    ("asdf-mount -o cac", "asdf-mount -o cache="),
    ("asdf-mount -o ro,cac", "asdf-mount -o ro,cache="),
    ("asdf-mount -oro,cac", "asdf-mount -oro,cache="),
    ("asdf-mount -r -o cache=1G,verify=fi", "asdf-mount -r -o cache=1G,verify=first-read"),
    ("asdf-mount -o ro,validate=w", "asdf-mount -o ro,validate=warn"),
    ("asdf-mount -o nosuchname", "asdf-mount -o nosuchname"),
    ("asdf-mount -u gal/a", "asdf-mount -u gal/axy "),
    ("asdf-mount -u $T/m\\ n", "asdf-mount -u $T/m\\ n:1 "),
    ("true; asdf-mount -u $T/mn", "true; asdf-mount -u $T/mnt "),
    ("asdf-mount -u ./ga", "asdf-mount -u ./gal/"),
];

fn tab_completes(bench: &Bench, shell: &mut Shell) {
    let here = bench.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    for (typed, wanted) in EVERYWHERE {
        let line = shell.line_after(&format!("{}\t", typed.replace("$T", here)));
        // bash appends a slash to a directory and quotes a colon.
        let line = line
            .replace("\\:", ":")
            .replace("n:1/", "n:1 ")
            .replace("axy/", "axy ")
            .replace("/mnt/", "/mnt ");
        assert_eq!(line, wanted.replace("$T", here), "{typed}");
    }
    for (typed, wanted) in [
        ("asdf-mount -o verify=", &["off", "first-read", "always"][..]),
        ("asdf-mount -o ro,validate=", &["strict", "warn", "off"]),
        ("asdf-mount -o n", &["noexec", "noatime", "nosuid", "nofail", "norelatime"]),
        ("asdf-mount -", &["--check", "--unmount", "--help", "-u"]),
        ("asdf-mount -u ", &["/mnt", "/gal/axy"]),
        ("asdf-mount -u mnt ", &["/gal/axy"]),
        ("asdf-mount ", &["a.asdf", "gal"]),
    ] {
        let line = shell.line_after(&format!("{typed}{ALL}"));
        let words = typed.rfind(' ').map_or(0, |at| at + 1);
        let offered: Vec<_> = line[words..].split(' ').collect();
        for wanted in wanted {
            let found = offered.iter().any(|offered| offered.trim_end_matches('/').ends_with(wanted));
            assert!(found, "{wanted} after {typed:?}: {line}");
        }
    }
    let line = shell.line_after(&format!("asdf-mount -u mnt {ALL}"));
    assert!(!line.contains(&format!("{here}/mnt")), "{line}");
}

#[test]
fn bash_completes() {
    let bench = bench();
    let setup = format!("{BASH} . data/bash-completion/completions/asdf-mount\n");
    tab_completes(&bench, &mut Shell::start(&bench, "bash --noprofile --rcfile .zshrc -i", &setup));
}

#[test]
fn bash_with_its_package_completes() {
    let bench = bench();
    // bash-completion finds the script by itself.
    let setup = format!("{BASH_COMPLETION} {BASH}");
    tab_completes(&bench, &mut Shell::start(&bench, "bash --noprofile --rcfile .zshrc -i", &setup));
}

#[test]
fn zsh_completes() {
    let bench = bench();
    tab_completes(&bench, &mut Shell::start(&bench, "zsh -d -i", ZSH));
}

#[test]
fn fish_completes() {
    let bench = bench();
    let here = bench.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    let offered = |line: &str| {
        let mut fish = Command::new("timeout");
        fish.args(["60", "fish", "--no-config", "-c"])
            .current_dir(here)
            .env("PATH", path())
            .env("HOME", here);
        fish.arg("source completions/asdf-mount.fish; complete -C $argv[1]").arg(line);
        let output = fish.output().unwrap();
        succeeded(&output);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (typed, wanted) in EVERYWHERE {
        let (line, typed) = (wanted.replace("$T", here), typed.replace("$T", here));
        let mut wanted = line.trim_end().replace("\\ ", "\t").rsplit(' ').next().unwrap().replace('\t', " ");
        if typed.ends_with("nosuchname") {
            wanted = String::new();
        }
        assert_eq!(offered(&typed).join(" "), wanted, "{typed}");
    }
    for (typed, wanted) in [
        ("asdf-mount -o ro,verify=", "ro,verify=always ro,verify=first-read ro,verify=off".to_owned()),
        ("asdf-mount -u mnt g", "gal/axy".to_owned()),
        ("asdf-mount -u gal/axy m", "m n:1 mnt".to_owned()),
        ("asdf-mount -u mnt /", format!("{here}/gal/axy {here}/m n:1")),
    ] {
        let all = offered(typed).into_iter().filter(|one| !one.starts_with('/') || one.starts_with(here));
        assert_eq!(all.collect::<Vec<_>>().join(" "), wanted, "{typed}");
    }
}

/// Names of files with every character that a shell or terminal acts on.
const HOSTILE: [&[u8]; 38] = [
    b"`touch pwned`",
    b"$HOME",
    b"$(touch pwned)",
    b"a;touch pwned",
    b"a&b",
    b"a|b",
    b"say \"x\"",
    b"it's",
    b"two  words",
    b"a\nb",
    b"*",
    b"[ab]?",
    b"-dash",
    b"--help",
    b"~",
    b"~root",
    b"!!",
    b"a!b",
    b"end!",
    b"back\\slash",
    b"end\\",
    b"ta\tb",
    b"end\n",
    b"\xc3\xa9\xe2\x82\xac",
    b"\xff\xfe",
    b"\x01\x1b[31m",
    b"x\xe2\x80\xaey",
    b"#x",
    b"{a,b}",
    b"<x>",
    b"^x^y",
    b"=ls",
    b"(x)",
    b"%1",
    b"end'",
    b"end\"",
    b"a:b=c,d",
    b"$'x'",
];

/// Types TAB where the only completion is one of [`HOSTILE`], then Enter: the command prints that file, and nothing
/// else is run.
fn hostile_names_are_inert(
    bench: &Bench,
    shell: &mut Shell,
    quotes: &[&str],
    skips: impl Fn(&str, &[u8], bool) -> bool,
) {
    for (n, name) in HOSTILE.iter().enumerate() {
        let dir = bench.path(format!("d{n}"));
        fs::create_dir_all(dir.join("s")).unwrap();
        for dir in [&dir, &dir.join("s")] {
            fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), format!("text {n}.")).unwrap();
        }
        // At the top there is only the one name.
        fs::rename(dir.join("s"), bench.path(format!("e{n}"))).unwrap();
    }
    for quote in quotes {
        for (n, name) in HOSTILE.iter().enumerate() {
            for typed in [format!("--cat d{n} {quote}"), format!("--cat . {quote}e{n}/")] {
                let is_first = !typed.ends_with('/');
                if skips(quote, name, is_first) {
                    continue;
                }
                shell.press(&format!("asdf-mount {typed}\t\r"));
                shell.shown_until(&format!("text {n}."));
            }
        }
    }
    for dir in fs::read_dir(bench.path("")).unwrap() {
        let dir = dir.unwrap().path();
        assert!(!dir.ends_with("pwned") && !dir.join("pwned").exists(), "{}", dir.display());
    }
}

#[test]
fn bash_runs_nothing_that_a_name_holds() {
    let bench = bench();
    let setup = format!("{BASH} . data/bash-completion/completions/asdf-mount\n");
    let mut shell = Shell::start(&bench, "bash --noprofile --rcfile .zshrc -i", &setup);
    hostile_names_are_inert(&bench, &mut shell, &["", "'", "\"", "$'"], |_, _, _| false);
}

#[test]
fn zsh_runs_nothing_that_a_name_holds() {
    let bench = bench();
    let mut shell = Shell::start(&bench, "zsh -d -i", ZSH);
    // Within quotes, zsh can't insert names that are not UTF-8.
    let skips = |quote: &str, name: &[u8], _| !quote.is_empty() && std::str::from_utf8(name).is_err();
    hostile_names_are_inert(&bench, &mut shell, &["", "'", "\""], skips);
}

/// Takes longest. Only `scripts/test --all` runs it.
mod rare {
    use super::*;

    #[test]
    fn fish_runs_nothing_that_a_name_holds() {
        let bench = bench();
        let setup =
            "source completions/asdf-mount.fish; set fish_greeting; function fish_prompt; echo READY\\>; end";
        let command = format!("fish --no-config -i -C '{setup}'");
        let mut shell = Shell::start(&bench, &command, "");
        // In fish, a description begins at the first tab of a completion; a tilde is not quoted, and "./-dash" is hidden.
        let skips = |_: &str, name: &[u8], is_first: bool| {
            name.contains(&b'\t') || is_first && (name.starts_with(b"~") || name.starts_with(b"-"))
        };
        hostile_names_are_inert(&bench, &mut shell, &["", "'", "\""], skips);
    }
}
