//! `--edit`, `--set-tree` and `--recover`: changes to a file without a mount.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::flag::register_conditional_default;

use super::{complain, dry_run, exit, print, usage};
use crate::error::one_line;
use crate::error::{Error, Kind, Result};
use crate::format;
use crate::format::editor::{EditContext, Editor, SaveTarget, Saved, TextVersion};
use crate::format::recovery::{self, Recovered, SaveSide};
use crate::format::refusal::Refusal;
use crate::history::History;
use crate::log;
use crate::named;
use crate::options::Options;
use crate::source::NoReaders;
use crate::user_dirs::STATE;

/// The editor if neither `$VISUAL` nor `$EDITOR` is set.
const EDITOR: &str = "vi";
/// Maximum characters of the file's name in the name of its edit directory.
const STEM: usize = 50;

/// Replaces the tree of `file` with the text of `tree` (`-`: standard input).
pub(super) fn set_tree(tree: &Path, file: &Path, context: &EditContext, dry_run: bool) -> Result<u8> {
    let mut text = Vec::new();
    let is_stdin = tree == Path::new("-");
    let shown = if is_stdin { Path::new("standard input") } else { tree };
    let read = if is_stdin {
        io::stdin().lock().read_to_end(&mut text).map(|_| ())
    } else {
        std::fs::read(tree).map(|bytes| text = bytes)
    };
    read.map_err(|error| Error::from(error).of(shown))?;
    if text.is_empty() {
        return Err(Error::new(Kind::Refused, "is empty: an empty tree is never saved").of(shown));
    }
    if dry_run {
        dry_run::check(file)?;
    }
    let mut editor = open(file, context)?;
    editor.set_program(Some("asdf-mount --set-tree".to_owned()));
    let base = editor.version()?;
    if dry_run {
        return dry_run::report(&mut *editor, file, &text, &base);
    }
    match editor.commit(&text, &base, &mut NoReaders) {
        Ok(saved) => {
            tell(file, &*editor, &saved);
            Ok(exit::OK)
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(refusal) => {
            complain(&format!("{}: not changed: {} is refused", file.display(), shown.display()));
            complain_of(&refusal);
            Ok(exit::FAILED)
        }
    }
}

/// Runs the editor on the tree of `file` until the text is saved, or the user gives up.
pub(super) fn edit(file: &Path, context: &EditContext, dry_run: bool) -> Result<u8> {
    if dry_run {
        dry_run::check(file)?;
    }
    let mut editor = open(file, context)?;
    editor.set_program(Some(editor_command().to_string_lossy().into_owned()));
    let before = editor.text()?;
    let base = TextVersion::of_bytes(&before);
    let copy = Copy::make(file, &before)?;
    loop {
        let edited = copy.edit();
        let text = std::fs::read(&copy.text).map_err(|error| Error::from(error).of(&copy.text))?;
        if let Err(error) = edited {
            if text == before {
                copy.remove();
            } else {
                complain(&format!("the text is kept in {}", copy.text.display()));
            }
            return Err(error);
        }
        if text == before || text.is_empty() {
            complain(&format!("{}: not changed", file.display()));
            return Ok(copy.done());
        }
        if dry_run {
            let status = dry_run::report(&mut *editor, file, &text, &base)?;
            complain(&format!("the text is kept in {}", copy.text.display()));
            return Ok(status);
        }
        match editor.commit(&text, &base, &mut NoReaders) {
            Ok(saved) => {
                tell(file, &*editor, &saved);
                return Ok(copy.done());
            }
            Err(Refusal::Failed(error)) => complain(&error.to_string()),
            Err(refusal) => {
                complain(&format!("{}: not changed: the text is refused", file.display()));
                complain_of(&refusal);
            }
        }
        if !again()? {
            complain(&format!("the text is kept in {}", copy.text.display()));
            return Ok(exit::FAILED);
        }
    }
}

/// Refuses a file on a server, which can't be saved and has no history.
pub(super) fn refuse_address(file: &Path) -> Result<()> {
    if named::is_local(file)? {
        return Ok(());
    }
    let shown = named::shown(file);
    let message =
        "is on a server, where files are read-only and have no history; download the file and use the copy";
    Err(usage(format!("{}: {message}", shown.display())))
}

/// Recovers each file, continuing after errors; unless `quiet`, prints what was done.
pub(super) fn recover(files: &[PathBuf], quiet: bool) -> Result<u8> {
    if files.is_empty() {
        return Err(usage("--recover needs at least one FILE"));
    }
    tell_of_state_directory();
    let mut status = exit::OK;
    for file in files {
        if let Err(error) = recover_one(file, quiet) {
            complain(&error.to_string());
            status = exit::FAILED;
        }
    }
    Ok(status)
}

fn recover_one(file: &Path, quiet: bool) -> Result<()> {
    refuse_address(file)?;
    if std::fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return Err(Error::new(Kind::Unrecognised, "is not a regular file; give an ASDF file").of(file));
    }
    let recovered = SaveTarget::of_path(file).and_then(|target| recovery::recover(&target));
    let recovered = recovered.map_err(|error| if_busy(error).of(file))?;
    let report: String = what_was_done(&recovered)
        .iter()
        .map(|line| format!("{}: {}\n", shown(file), one_line(line)))
        .collect();
    if !quiet {
        print(report.as_bytes())?;
    }
    if recovered.outcome.is_none() {
        // The format is checked only if there was no journal: a file with a journal was saved by this
        // program.
        format::check_kind(file)?;
    }
    if recovered.is_nothing() && !quiet {
        print(format!("{}: nothing to recover\n", shown(file)).as_bytes())?;
    }
    Ok(())
}

fn what_was_done(recovered: &Recovered) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(outcome) = recovered.outcome {
        let which = match outcome {
            SaveSide::Old => "before",
            SaveSide::New => "after",
        };
        lines.push(format!("recovered: it is now as {which} the interrupted save"));
    }
    lines.extend(recovered.notices());
    for path in &recovered.removed {
        lines.push(format!("removed {}, which an interrupted save left", path.display()));
    }
    lines
}

/// Returns the context for saves with these options.
pub(super) fn context(options: &Options) -> EditContext {
    let history = options.history.then(|| History::open(None));
    let history = history.and_then(|opened| {
        let log = |error: &Error| {
            // `tell_of_state_directory` reports a state directory that is not safe to use (`Kind::Refused`).
            if error.kind() != Kind::Refused {
                complain(&format!("the replaced text is not kept in the history: {error}"));
            }
        };
        opened.inspect_err(log).ok().map(Arc::new)
    });
    EditContext { options: options.edit, history, ..EditContext::default() }
}

/// Opens and locks a file, and prints the editor's notices.
pub(super) fn open(file: &Path, context: &EditContext) -> Result<Box<dyn Editor>> {
    named::refuse_mount(file)?;
    tell_of_state_directory();
    let editor = format::open_editor(file, context).map_err(if_busy)?;
    tell_notices(file, editor.notices());
    Ok(editor)
}

fn tell_notices(file: &Path, notices: &[String]) {
    for notice in notices {
        complain(&format!("{}: {notice}", file.display()));
    }
}

/// Prints why an existing state directory is not used.
fn tell_of_state_directory() {
    if let Err(error) = STATE.usable()
        && error.kind() == Kind::Refused
    {
        complain(&error.to_string());
    }
}

/// Adds advice to an error about a file that another program has locked.
fn if_busy(error: Error) -> Error {
    match error.kind() {
        Kind::Busy => error.advise("unmount it, or try again when that program has ended"),
        _ => error,
    }
}

/// Prints the messages of a save.
pub(super) fn tell(file: &Path, editor: &dyn Editor, saved: &Saved) {
    tell_notices(file, editor.later_notices());
    for restored in &saved.restored {
        complain(restored);
    }
    for warning in &saved.warnings {
        complain(&format!("warning: {warning}"));
    }
}

pub(super) fn complain_of(refusal: &Refusal) {
    log::complain(refusal.report().trim_end());
}

pub(super) fn shown(path: &Path) -> String {
    one_line(&path.display().to_string()).to_string()
}

/// Asks whether to edit again; without a terminal the answer is no.
fn again() -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    loop {
        let _ = write!(log::Complaints, "(e)dit again, or (q)uit and keep the text? ");
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            return Ok(false);
        }
        match answer.trim() {
            "e" | "edit" | "" => return Ok(true),
            "q" | "quit" => return Ok(false),
            _ => {}
        }
    }
}

/// Returns the command that starts the user's editor.
fn editor_command() -> OsString {
    let mut named = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os);
    named.find(|value| !value.is_empty()).unwrap_or_else(|| OsString::from(EDITOR))
}

/// A copy of the tree for the editor, in a directory that other users can't read.
struct Copy {
    dir: PathBuf,
    text: PathBuf,
    /// True while no editor runs. During an edit Ctrl-C is for the editor and must not end this program.
    alone: Arc<AtomicBool>,
    _lock: File,
}

impl Copy {
    fn make(file: &Path, text: &[u8]) -> Result<Self> {
        let base = STATE.usable().unwrap_or_else(|_| std::env::temp_dir());
        let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy();
        let stem: String = stem.chars().take(STEM).collect();
        let dir = base.join(format!("edit-{}-{}", stem, std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        builder.recursive(true).create(&base).map_err(|error| Error::from(error).of(&base))?;
        // An existing directory of this name may belong to another user, so it is an error.
        builder.recursive(false).create(&dir).map_err(|error| Error::from(error).of(&dir))?;
        // The lock keeps mounts from removing this directory as an abandoned one.
        let lock = File::open(&dir).map_err(|error| Error::from(error).of(&dir))?;
        let _ = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        let text_path = dir.join("tree.yaml");
        let alone = Arc::new(AtomicBool::new(true));
        let copy = Self { text: text_path, dir, alone, _lock: lock };
        for signal in [SIGINT, SIGQUIT] {
            register_conditional_default(signal, copy.alone.clone())?;
        }
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy.text);
        written
            .and_then(|mut written| written.write_all(text))
            .map_err(|error| Error::from(error).of(&copy.text))?;
        Ok(copy)
    }

    /// Runs the editor, and waits until it ends.
    fn edit(&self) -> Result<()> {
        let editor = editor_command();
        // `$VISUAL` and `$EDITOR` may contain arguments, as for git and visudo. The shell ignores Ctrl-C,
        // which is for the editor.
        let mut script = OsString::from("trap : INT QUIT\n");
        script.push(&editor);
        script.push(" \"$1\"");
        self.alone.store(false, Ordering::Relaxed);
        let status = Command::new("/bin/sh").arg("-c").arg(script).arg("sh").arg(&self.text).status();
        self.alone.store(true, Ordering::Relaxed);
        let status = status.map_err(|error| Error::from(error).within("can't start the editor"))?;
        if !status.success() {
            // The shell has already printed which program is missing.
            if status.code() == Some(127) {
                let message = format!(
                    "found no editor '{}'; set EDITOR, as in EDITOR=nano asdf-mount --edit FILE; nothing saved",
                    editor.display()
                );
                return Err(Error::new(Kind::System(libc::ENOENT), message));
            }
            let ended = match status.code() {
                Some(code) => format!("exited with status {code}"),
                None => format!("ended with {status}"),
            };
            let message = format!("editor '{}' {ended}; nothing saved", editor.display());
            return Err(Error::new(Kind::System(libc::ECANCELED), message));
        }
        Ok(())
    }

    fn done(&self) -> u8 {
        self.remove();
        exit::OK
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
