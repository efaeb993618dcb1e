//! `--edit`, `--set-tree` and `--recover`: changing a file without a mount.

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

use super::{complain, exit, print, usage};
use crate::error::{Error, Kind, Result};
use crate::format;
use crate::format::editor::{EditContext, EditOptions, Editor, SaveTarget, Saved, TextVersion};
use crate::format::recovery::{self, Recovered, Side};
use crate::format::refusal::Refusal;
use crate::log::{self, one_line};
use crate::user_dirs::STATE;

/// What is run when neither `$VISUAL` nor `$EDITOR` says otherwise.
const EDITOR: &str = "vi";
/// So many characters of a file's name are taken into that of a directory.
const STEM: usize = 50;

/// Makes the text of `tree` (`-`: standard input) the tree of `file`.
pub(super) fn set_tree(tree: &Path, file: &Path, options: EditOptions) -> Result<u8> {
    let mut text = Vec::new();
    let read = match tree == Path::new("-") {
        true => io::stdin().lock().read_to_end(&mut text).map(|_| ()),
        false => std::fs::read(tree).map(|bytes| text = bytes),
    };
    read.map_err(|error| Error::from(error).of(tree))?;
    if text.is_empty() {
        return Err(Error::new(Kind::Refused, "is empty: an empty tree is never saved").of(tree));
    }
    let mut editor = open(file, options)?;
    let base = editor.version()?;
    match editor.commit(&text, &base, &mut || {}) {
        Ok(saved) => {
            tell(&saved);
            Ok(exit::OK)
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(refusal) => {
            complain(&format!("{}: not changed: {} is refused", file.display(), tree.display()));
            complain_of(&refusal);
            Ok(exit::FAILED)
        }
    }
}

/// Lets the user edit the tree of `file`, until it is saved or given up.
pub(super) fn edit(file: &Path, options: EditOptions) -> Result<u8> {
    let mut editor = open(file, options)?;
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
                complain(&format!("your text is kept in {}", copy.text.display()));
            }
            return Err(error);
        }
        if text == before || text.is_empty() {
            complain(&format!("{}: not changed", file.display()));
            return Ok(copy.done());
        }
        match editor.commit(&text, &base, &mut || {}) {
            Ok(saved) => {
                tell(&saved);
                return Ok(copy.done());
            }
            Err(Refusal::Failed(error)) => complain(&error.to_string()),
            Err(refusal) => {
                complain(&format!("{}: not saved", file.display()));
                complain_of(&refusal);
            }
        }
        if !again()? {
            complain(&format!("your text is kept in {}", copy.text.display()));
            return Ok(exit::FAILED);
        }
    }
}

/// Recovers each file, also after one that can't be; unless `quiet`, says what was done.
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
    let recovered = SaveTarget::of_path(file).and_then(|target| recovery::recover(&target, None));
    let recovered = recovered.map_err(|error| if_busy(error).of(file))?;
    let told: String = what_was_done(&recovered)
        .iter()
        .map(|line| format!("{}: {}\n", shown(file), one_line(line)))
        .collect();
    if !quiet {
        print(told.as_bytes())?;
    }
    if recovered.outcome.is_none() {
        // What was halfway is known to be ours, whatever it looks like.
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
            Side::Old => "before",
            Side::New => "after",
        };
        lines.push(format!("is the file {which} the save that was interrupted"));
    }
    lines.extend(recovered.notices());
    for left in &recovered.removed {
        lines.push(format!("removed {}, left by a save that was interrupted", left.display()));
    }
    lines
}

fn open(file: &Path, options: EditOptions) -> Result<Box<dyn Editor>> {
    tell_of_state_directory();
    let context = EditContext { options, ..EditContext::default() };
    let editor = format::open_editor(file, &context).map_err(if_busy)?;
    for notice in editor.notices() {
        complain(&format!("{}: {notice}", file.display()));
    }
    Ok(editor)
}

/// Says why there is a state directory and nothing is written there.
fn tell_of_state_directory() {
    if let Err(error) = STATE.usable()
        && error.kind() == Kind::Refused
    {
        complain(&error.to_string());
    }
}

/// Says what to do about a file that another program has.
fn if_busy(error: Error) -> Error {
    match error.kind() {
        Kind::Busy => error.advise("unmount it, or try again when that program is done"),
        _ => error,
    }
}

fn tell(saved: &Saved) {
    for restored in &saved.restored {
        complain(restored);
    }
    for warning in &saved.warnings {
        complain(&format!("warning: {warning}"));
    }
}

fn complain_of(refusal: &Refusal) {
    log::complain(refusal.report().trim_end());
}

fn shown(path: &Path) -> String {
    one_line(&path.display().to_string()).to_string()
}

/// Asks whether to edit once more; without a terminal the answer is no.
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

/// The user's own copy of the tree, in a directory that nobody else can look into.
struct Copy {
    dir: PathBuf,
    text: PathBuf,
    /// Whether no editor runs: while one does, what is typed to interrupt it must not end this program.
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
        // In a directory that others may write to, one that is there already may be theirs.
        builder.recursive(false).create(&dir).map_err(|error| Error::from(error).of(&dir))?;
        // Locked, so that no mount takes it for one that was left long ago.
        let lock = File::open(&dir).map_err(|error| Error::from(error).of(&dir))?;
        let _ = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        let (text_path, alone) = (dir.join("tree.yaml"), Arc::new(AtomicBool::new(true)));
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

    /// Runs the editor and waits for its end.
    fn edit(&self) -> Result<()> {
        let editor =
            ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
        let editor = editor.unwrap_or_else(|| OsString::from(EDITOR));
        // As git and visudo do: the variable may hold arguments. The shell outlives what interrupts the
        // editor.
        let mut script = OsString::from("trap : INT QUIT\n");
        script.push(&editor);
        script.push(" \"$1\"");
        self.alone.store(false, Ordering::Relaxed);
        let status = Command::new("/bin/sh").arg("-c").arg(script).arg("sh").arg(&self.text).status();
        self.alone.store(true, Ordering::Relaxed);
        let status = status.map_err(|error| Error::from(error).within("the editor can't be started"))?;
        if !status.success() {
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
