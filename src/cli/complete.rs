//! Completion of a command line, for the shells' completion scripts.
//!
//! A script asks the program, so that the scripts need no list of options. Words of the answer end with NUL,
//! because the name of a file may contain any other byte; the first one is a [`CandidateKind`].
//!
//! | call | answer after KIND |
//! |---|---|
//! | `asdf-mount --complete bash LINE LAST` | the texts that may replace LAST, the end of LINE, quoted for bash |
//! | `asdf-mount --complete zsh WORD…` | CUT, then WORD, NAME and DESCRIPTION of each candidate |
//! | `asdf-mount --complete fish WORD…` | `WORD⇥DESCRIPTION` of each candidate |
//!
//! CUT is the part of the last word before its candidates, such as `ro,cache=`; NAME is the candidate as it is
//! shown. zsh and fish quote what they insert. bash quotes names of existing files only, and not all of them.

mod bash;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use asdf_access::named;
use asdf_access::options::{self, Options};
use asdf_views::format::view_names;
use clap::{Arg, Command};
use seekable::error::one_line;

use super::Generated;
use crate::daemon;
use crate::look::Look;

/// The argument that requests completions; the only one that is not in [`super::Arguments`].
pub(super) const ASKED_BY: &str = "--complete";

const BASH: &str = include_str!("complete/asdf-mount.bash");
const ZSH: &str = include_str!("complete/asdf-mount.zsh");
const FISH: &str = include_str!("complete/asdf-mount.fish");

/// Returns the completion script of a shell.
pub(super) fn script(shell: Generated) -> &'static str {
    match shell {
        Generated::Bash => BASH,
        Generated::Zsh => ZSH,
        Generated::Fish => FISH,
        Generated::Man => "",
    }
}

/// The treatment of the candidates by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateKind {
    /// Whole words.
    Words,
    /// List items, which a comma may follow.
    List,
    /// Paths, to be quoted.
    Paths,
    /// Paths in a file; those that end in a slash can be completed further.
    Within,
    /// The shell adds file names.
    Files,
    /// The shell adds directory names.
    Folders,
}

impl CandidateKind {
    fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::List => "list",
            Self::Paths => "paths",
            Self::Within => "within",
            Self::Files => "files",
            Self::Folders => "folders",
        }
    }
}

#[derive(Debug)]
struct Answer {
    kind: CandidateKind,
    /// Length in bytes of the part of the last word that precedes a candidate.
    cut: usize,
    /// The candidates and their descriptions.
    candidates: Vec<(OsString, String)>,
}

impl Answer {
    fn of(kind: CandidateKind) -> Self {
        Self { kind, cut: 0, candidates: Vec::new() }
    }

    /// Returns the candidates that start with the unfinished part of `current`: the whole word, and the candidate
    /// with its description.
    fn fitting(&self, current: &OsStr) -> Vec<(OsString, &(OsString, String))> {
        let (before, begun) = current.as_bytes().split_at_checked(self.cut).unwrap_or_default();
        let fits = |candidate: &&(OsString, String)| candidate.0.as_bytes().starts_with(begun);
        let whole = |candidate| {
            let (value, _): &(OsString, String) = candidate;
            (OsString::from_vec([before, value.as_bytes()].concat()), candidate)
        };
        self.candidates.iter().filter(fits).map(whole).collect()
    }
}

/// Returns the answer to a completion script: `request` are the arguments after [`ASKED_BY`].
pub(super) fn answer(command: Command, request: &[OsString]) -> Vec<u8> {
    let mut words = Vec::new();
    match request.split_first() {
        Some((shell, [line, last])) if shell == "bash" => {
            let line = bash::CommandLine::read(line.as_bytes(), last.len());
            let current = line.words.last().cloned().unwrap_or_default();
            let answer = if line.is_redirected {
                Answer::of(CandidateKind::Files)
            } else {
                completed(command, line.words.get(1..).unwrap_or_default())
            };
            words.push(answer.kind.name().as_bytes().to_vec());
            words.extend(answer.fitting(&current).iter().filter_map(|(word, _)| line.insertion(word)));
        }
        Some((shell, typed)) => {
            let current = typed.last().cloned().unwrap_or_default();
            let answer = completed(command, typed);
            words.push(answer.kind.name().as_bytes().to_vec());
            let is_fish = shell == "fish";
            if !is_fish {
                words.push(current.as_bytes().get(..answer.cut).unwrap_or_default().to_vec());
            }
            for (word, (name, what)) in answer.fitting(&current) {
                let what = one_line(what);
                if !is_fish {
                    let name = one_line(&name.to_string_lossy());
                    words.extend([word.into_vec(), name.into_bytes(), what.into_bytes()]);
                } else if !word.as_bytes().contains(&b'\t') && !word.as_bytes().starts_with(b"~") {
                    // A description begins at the first tab, and fish does not quote a tilde.
                    words.push([word.as_bytes(), b"\t", what.as_bytes()].concat());
                }
            }
        }
        None => {}
    }
    words.into_iter().flat_map(|word| word.into_iter().chain([0])).collect()
}

/// Returns the completions at the end of `words`, the arguments of `command` up to the cursor.
fn completed(mut command: Command, words: &[OsString]) -> Answer {
    // Adds --help.
    command.build();
    let empty = OsString::new();
    let (current, before) = words.split_last().unwrap_or((&empty, &[]));
    let line = Line::read(&command, before);
    match (line.expects, value_in(&command, current)) {
        (Some(argument), _) => of_value(argument, current, 0),
        _ if line.only_paths => line.paths(current),
        (None, Some((argument, Some(at)))) => of_value(argument, current, at),
        _ if current.as_bytes().starts_with(b"-") => of_options(&command, current),
        _ => line.paths(current),
    }
}

/// Returns the number of the first path in the words of a command line.
pub(super) fn first_path(command: &Command, words: &[OsString]) -> Option<usize> {
    Line::read(command, words).first
}

/// The information in the words before the last one.
struct Line<'a> {
    /// The option that takes the last word as its value.
    expects: Option<&'a Arg>,
    /// True after `--`.
    only_paths: bool,
    unmount: bool,
    /// True after `--ls`, `--cat` or `--extract`.
    looks: bool,
    /// The number of the first path in `before`.
    first: Option<usize>,
    before: &'a [OsString],
}

impl<'a> Line<'a> {
    fn read(command: &'a Command, before: &'a [OsString]) -> Self {
        let mut line =
            Self { expects: None, only_paths: false, unmount: false, looks: false, first: None, before };
        for (n, word) in before.iter().enumerate() {
            if line.expects.take().is_some() {
                continue;
            }
            if line.only_paths || !word.as_bytes().starts_with(b"-") {
                line.first = line.first.or(Some(n));
                continue;
            }
            line.only_paths = word == "--";
            line.unmount |= is_unmount(word);
            line.looks |= ["--ls", "--cat", "--extract"].iter().any(|action| word == action);
            if let Some((argument, None)) = value_in(command, word) {
                line.expects = Some(argument);
            }
        }
        line
    }

    /// Completes a source or a mountpoint.
    fn paths(&self, current: &OsStr) -> Answer {
        if self.looks
            && let Some(file) = self.first.and_then(|n| self.before.get(n))
        {
            return within(&at_home(file), current, !self.only_paths);
        }
        if !self.unmount {
            return Answer::of(CandidateKind::Files);
        }
        let mut mounts = Answer::of(CandidateKind::Paths);
        mounts.candidates = mounted(current, self.before);
        // A mountpoint may be spelled in a way that is no candidate; the shell then offers directories.
        if mounts.candidates.is_empty() { Answer::of(CandidateKind::Folders) } else { mounts }
    }
}

fn is_unmount(word: &OsStr) -> bool {
    let short = |word: &[u8]| word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'u');
    word == "--unmount" || short(word.as_bytes())
}

/// Returns the argument in `word` that takes a value, and the offset of the value in the word; `None` as
/// offset if the value is the next word.
fn value_in<'a>(command: &'a Command, word: &OsStr) -> Option<(&'a Arg, Option<usize>)> {
    let word = word.as_bytes();
    let takes_value = |argument: &&Arg| argument.get_action().takes_values();
    if let Some(long) = word.strip_prefix(b"--") {
        let end = long.iter().position(|&byte| byte == b'=');
        let name = long.get(..end.unwrap_or(long.len()))?;
        let named = |argument: &&Arg| argument.get_long().is_some_and(|known| known.as_bytes() == name);
        let argument = command.get_arguments().find(named).filter(takes_value)?;
        // The value of --help follows an equals sign only.
        if end.is_none() && argument.is_require_equals_set() {
            return None;
        }
        return Some((argument, end.map(|end| end + 3)));
    }
    for (at, &letter) in word.strip_prefix(b"-")?.iter().enumerate() {
        let named = |argument: &&Arg| argument.get_short() == Some(char::from(letter));
        let argument = command.get_arguments().find(named)?;
        if takes_value(&argument) && !argument.is_require_equals_set() {
            return Some((argument, Some(at + 2).filter(|value| *value < word.len())));
        }
    }
    None
}

/// Completes the value of an option, which begins at `at` in the last word.
fn of_value(argument: &Arg, current: &OsStr, at: usize) -> Answer {
    let mut answer = if argument.get_id() == "options" {
        let list = current.as_bytes().get(at..).unwrap_or_default();
        of_list(list)
    } else {
        let values = argument.get_possible_values();
        let kind = if values.is_empty() { CandidateKind::Files } else { CandidateKind::Words };
        let candidates = values.iter().map(|value| (value.get_name().into(), String::new())).collect();
        Answer { kind, cut: 0, candidates }
    };
    answer.cut += at;
    answer
}

/// Completes the last item of a list after `-o`.
fn of_list(list: &[u8]) -> Answer {
    let is_end = |at: &usize| list[*at] == b',' && (*at == 0 || list[*at - 1] != b'\\');
    let start = (0..list.len()).rev().find(is_end).map_or(0, |comma| comma + 1);
    let (before, last) = list.split_at(start);
    let mut answer = Answer { cut: start, ..Answer::of(CandidateKind::List) };
    let Some(equals) = last.iter().position(|&byte| byte == b'=') else {
        if let Some(named) = views_before(before) {
            answer.candidates = views(&named);
        }
        let given = |name: &str| {
            let names = before.split(|&byte| byte == b',');
            names
                .filter_map(|item| item.split(|&byte| byte == b'=').next())
                .any(|item| item == name.as_bytes())
        };
        for known in options::all().filter(|known| !given(known.name)) {
            let equals = if known.takes_value() { "=" } else { "" };
            answer.candidates.push((format!("{}{equals}", known.name).into(), known.what.to_owned()));
        }
        return answer;
    };
    answer.cut += equals + 1;
    let name = &last[..equals];
    if name == b"views" {
        answer.candidates = views(&[]);
        answer.candidates.extend(["all", "none"].map(|view| (view.into(), String::new())));
        return answer;
    }
    for known in options::all().filter(|known| known.takes_value() && known.name.as_bytes() == name) {
        answer.candidates.extend(known.values().map(|value| (value.into(), String::new())));
    }
    answer
}

/// Returns the views that stand at the end of a list, if its last option is `views=`.
fn views_before(before: &[u8]) -> Option<Vec<&[u8]>> {
    let mut items: Vec<_> = before.strip_suffix(b",")?.rsplit(|&byte| byte == b',').collect();
    let first = items.iter().position(|item| item.contains(&b'='))?;
    items.truncate(first + 1);
    let value = items.pop()?.strip_prefix(b"views=")?;
    items.push(value);
    let known = |item: &&[u8]| view_names().any(|name| name.as_bytes() == *item);
    items.iter().all(known).then_some(items)
}

/// Returns the names of all views except those in `named`.
fn views(named: &[&[u8]]) -> Vec<(OsString, String)> {
    let names: BTreeSet<_> = view_names().filter(|name| !named.contains(&name.as_bytes())).collect();
    names.into_iter().map(|name| (name.into(), String::new())).collect()
}

/// Completes the name of an option.
fn of_options(command: &Command, current: &OsStr) -> Answer {
    let mut answer = Answer::of(CandidateKind::Words);
    for argument in command.get_arguments() {
        let what = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let long = argument.get_long().map(|long| format!("--{long}"));
        // A short option can't be completed further.
        let short = argument.get_short().filter(|_| current.len() <= 2).map(|short| format!("-{short}"));
        answer.candidates.extend(short.into_iter().chain(long).map(|name| (name.into(), what.clone())));
    }
    answer
}

/// Replaces `~` at the start of a path, as a shell does.
fn at_home(path: &OsStr) -> PathBuf {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match (home, path.as_bytes().strip_prefix(b"~/")) {
        (Some(home), Some(path)) => Path::new(&home).join(OsStr::from_bytes(path)),
        _ => path.into(),
    }
}

/// Completes a path in a file, as a mount would show it. With `dashes_are_options`, a name that begins with a
/// dash gets `./` before it.
fn within(file: &Path, current: &OsStr, dashes_are_options: bool) -> Answer {
    let end = current.as_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, begun) = current.as_bytes().split_at(end);
    // A server is not asked for a completion.
    let is_local = named::is_local(file).unwrap_or(false);
    let look = is_local.then(|| Look::open(file, &Options::default()).ok()).flatten();
    let names = look.and_then(|look| look.names_in(Path::new(OsStr::from_bytes(directory))).ok());
    let names = names.unwrap_or_default();
    let mut answer = Answer { cut: end, ..Answer::of(CandidateKind::Within) };
    for (name, is_directory) in names.into_iter().filter(|(name, _)| name.as_bytes().starts_with(begun)) {
        let mut path = OsString::new();
        if end == 0 && dashes_are_options && name.as_bytes().starts_with(b"-") {
            path.push("./");
        }
        path.push(name);
        if is_directory {
            path.push("/");
        }
        answer.candidates.push((path, String::new()));
    }
    answer
}

/// Returns this program's mountpoints that complete `current`, except those named already.
fn mounted(current: &OsStr, named: &[OsString]) -> Vec<(OsString, String)> {
    let here = std::env::current_dir().unwrap_or_default();
    let begins = |path: &Path| path.as_os_str().as_bytes().starts_with(current.as_bytes());
    let mut candidates = Vec::new();
    for (path, source) in daemon::mounted().unwrap_or_default() {
        // join returns an absolute name unchanged.
        if named.iter().any(|name| here.join(name) == path) {
            continue;
        }
        let relative = path.strip_prefix(&here).ok().map(PathBuf::from);
        let relative = relative.filter(|path| !path.as_os_str().as_bytes().starts_with(b"-"));
        let written = [Some(path), relative].into_iter().flatten().find(|path| begins(path));
        candidates.extend(written.map(|path| (path.into_os_string(), source.display().to_string())));
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns kind and cut of the answer, and the candidates.
    fn answered(line: &str) -> (String, Vec<String>) {
        let words: Vec<OsString> = line.split(' ').skip(1).map(OsString::from).collect();
        let request = [vec![OsString::from("zsh")], words].concat();
        let text = String::from_utf8(answer(super::super::command(), &request)).unwrap();
        let words: Vec<&str> = text.split_terminator('\0').collect();
        let names = words[2..].chunks(3).map(|candidate| candidate[1].to_owned());
        (format!("{}\t{}", words[0], words[1]), names.collect())
    }

    #[test]
    fn the_last_of_a_list_is_completed() {
        for (line, head, candidates) in [
            ("asdf-mount -o cac", "list\t", &["cache="][..]),
            ("asdf-mount -o ro,cac", "list\tro,", &["cache="]),
            ("asdf-mount -oro,cac", "list\t-oro,", &["cache="]),
            ("asdf-mount -vfo ro,cac", "list\tro,", &["cache="]),
            ("asdf-mount a.asdf m -o ro,verify=", "list\tro,verify=", &["off", "first-read", "always"]),
            ("asdf-mount -o verify=f", "list\tverify=", &["first-read"]),
            ("asdf-mount -o validate=", "list\tvalidate=", &["strict", "warn", "off"]),
            ("asdf-mount -o ro,index-cache=o", "list\tro,index-cache=", &["on", "off"]),
            ("asdf-mount -o cache=", "list\tcache=", &[]),
            ("asdf-mount -o views=ar", "list\tviews=", &["arrays"]),
            ("asdf-mount -o ro,views=n", "list\tro,views=", &["none"]),
            ("asdf-mount -o views=arrays,f", "list\tviews=arrays,", &["fits", "fsname="]),
            ("asdf-mount -o views=arrays,fits,ar", "list\tviews=arrays,fits,", &[]),
            ("asdf-mount -o views=arrays,ro,f", "list\tviews=arrays,ro,", &["fsname="]),
            (r"asdf-mount -o fsname=a\,b,cac", "list\tfsname=a\\,b,", &["cache="]),
            ("asdf-mount -o nonsense=", "list\tnonsense=", &[]),
            ("asdf-mount -o cache=1G,cac", "list\tcache=1G,", &[]),
        ] {
            assert_eq!(
                answered(line),
                (head.to_owned(), candidates.iter().map(ToString::to_string).collect()),
                "{line}"
            );
        }
        let (_, all) = answered("asdf-mount -o ");
        assert!(options::all().all(|known| all.iter().any(|name| name.trim_end_matches('=') == known.name)));
    }

    #[test]
    fn it_is_told_where_files_options_and_values_stand() {
        for (line, head, some) in [
            ("asdf-mount ", "files\t", ""),
            ("asdf-mount", "files\t", ""),
            ("asdf-mount a.asdf ", "files\t", ""),
            ("asdf-mount --check ", "files\t", ""),
            ("asdf-mount --log-file ", "files\t", ""),
            ("asdf-mount --log-file=/t", "files\t--log-file=", ""),
            ("asdf-mount --set-tree ", "files\t", ""),
            ("asdf-mount --log-file -u ", "files\t", ""),
            ("asdf-mount -- -", "files\t", ""),
            ("asdf-mount -", "words\t", "-u"),
            ("asdf-mount --", "words\t", "--help"),
            ("asdf-mount --fore", "words\t", "--foreground"),
            ("asdf-mount -u --q", "words\t", "--quiet"),
            ("asdf-mount --generate ", "words\t", "zsh"),
            ("asdf-mount --generate=m", "words\t--generate=", "man"),
            ("asdf-mount -u /nowhere/at/all", "folders\t", ""),
            ("asdf-mount --cat ", "files\t", ""),
            ("asdf-mount --extract -C ", "files\t", ""),
            ("asdf-mount --extract -C /tmp examples/sample.asdf ar", "within\t", "arrays/"),
            (
                "asdf-mount --cat --range 1-2 examples/sample.asdf tree.yaml arrays/im",
                "within\tarrays/",
                "image.npy",
            ),
            ("asdf-mount --ls examples/sample.asdf nowhere/", "within\tnowhere/", ""),
            ("asdf-mount --ls nowhere.asdf ", "within\t", ""),
        ] {
            let (kind, candidates) = answered(line);
            assert_eq!(kind, head, "{line}");
            assert!(some.is_empty() || candidates.iter().any(|one| one == some), "{line}: {candidates:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(words in proptest::collection::vec("[-o=,u\\\\é a]{0,8}", 0..5)) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            for shell in ["bash", "zsh", "fish"] {
                answer(super::super::command(), &[vec![OsString::from(shell)], words.clone()].concat());
            }
        }
    }
}
