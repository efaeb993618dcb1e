//! `--edit`, `--set-tree` and `--recover`: changes to a file without a mount.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asdf_access::named;
use asdf_access::options::Options;
use asdf_file::container::text_version::TextVersion;
use asdf_file::container::{Container, Context};
use asdf_file::edit::Editor;
use asdf_file::edit::context::{EditContext, SaveTarget, Saved};
use asdf_file::edit::recovery::{self, Recovered, SaveSide};
use asdf_file::edit::refusal::{CONFLICT, Refusal};
use asdf_file::history::History;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::read_exact_at;
use seekable::error::{Error, Kind, Result, in_shell, one_line};
use seekable::source::NoReaders;
use seekable::user_dirs::STATE;
use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::flag::register_conditional_default;

use super::{complain, dry_run, exit, print, usage};
use crate::daemon::FileMount;
use crate::log;

/// The editor if neither `$VISUAL` nor `$EDITOR` is set.
const EDITOR: &str = "vi";
/// Editors that end before the text is edited, unless they have this option, which has a short form, too.
const NOT_WAITING: [(&str, &str, &str); 12] = [
    ("code", "--wait", "-w"),
    ("code-insiders", "--wait", "-w"),
    ("codium", "--wait", "-w"),
    ("cursor", "--wait", "-w"),
    ("windsurf", "--wait", "-w"),
    ("zed", "--wait", "-w"),
    ("subl", "--wait", "-w"),
    ("mate", "--wait", "-w"),
    ("gedit", "--wait", "-w"),
    ("gnome-text-editor", "--standalone", "-s"),
    ("kate", "--block", "-b"),
    ("gvim", "--nofork", "-f"),
];
/// Maximum characters of the file's name in the name of its edit directory.
const STEM: usize = 50;

/// Replaces the tree of `file` with the text of `tree` (`-`: standard input). A mounted file is saved through its mount.
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
    let target = target(file)?;
    if dry_run {
        dry_run::check(&target)?;
    }
    let mut saved = OpenTree::open(&target, context)?;
    saved.set_program("asdf-mount --set-tree");
    let before = saved.text(&target)?;
    if dry_run {
        return saved.plan(&target, &text, &before, context);
    }
    let why = match saved.commit(&target, &text, &before) {
        Ok(()) => return Ok(exit::OK),
        Err(NotSaved::Failed(error)) => return Err(error),
        Err(NotSaved::Conflict) => CONFLICT.to_owned(),
        Err(NotSaved::Refused(why)) => why,
    };
    complain(&format!("{}: not changed: {} is refused", file.display(), shown.display()));
    log::complain(why.trim_end());
    Ok(exit::FAILED)
}

/// Runs the editor on the tree of `file` until the text is saved, or the user gives up. A mounted file is saved
/// through its mount.
pub(super) fn edit(file: &Path, context: &EditContext, dry_run: bool) -> Result<u8> {
    let target = target(file)?;
    if dry_run {
        dry_run::check(&target)?;
    }
    let mut tree = OpenTree::open(&target, context)?;
    tree.set_program(&editor_command().to_string_lossy());
    let before = tree.text(&target)?;
    let copy = Copy::make(file, &before)?;
    let ended = edit_copy(&copy, &mut tree, file, &target, before.clone(), context, dry_run);
    match &ended {
        Ok(End::Done(_)) => copy.remove(),
        Err(_) if copy.read().is_ok_and(|text| text == before) => copy.remove(),
        Ok(End::Kept(_)) | Err(_) if copy.text.exists() => {
            let command = format!("asdf-mount --set-tree {} {}", in_shell(&copy.text), in_shell(file));
            complain(&format!("the text is kept in {}; to save it: {command}", copy.text.display()));
        }
        // The editor removed the text.
        Ok(End::Kept(_)) | Err(_) => copy.remove(),
    }
    ended.map(|end| match end {
        End::Done(status) | End::Kept(status) => status,
    })
}

/// The end of an edit, with the exit status.
enum End {
    Done(u8),
    /// The text of the editor is kept.
    Kept(u8),
}

/// Runs the editor on a copy of the tree, which is `before`, and saves it.
fn edit_copy(
    copy: &Copy,
    tree: &mut OpenTree,
    file: &Path,
    target: &SaveTarget,
    mut before: Vec<u8>,
    context: &EditContext,
    dry_run: bool,
) -> Result<End> {
    let mut question = Question::Edit;
    loop {
        if question == Question::Edit {
            copy.edit()?;
            let text = copy.read()?;
            if text == before || text.is_empty() {
                let hint = waiting_editor().map_or_else(String::new, |editor| {
                    format!("; the editor ended before the text was edited; set {editor}")
                });
                complain(&format!("{}: not changed{hint}", file.display()));
                return Ok(End::Done(exit::OK));
            }
        }
        let text = copy.read()?;
        if dry_run {
            return tree.plan(target, &text, &before, context).map(End::Kept);
        }
        let refused = tree.commit(target, &text, &before);
        let is_conflict = matches!(refused, Err(NotSaved::Conflict));
        match refused {
            Ok(()) => return Ok(End::Done(exit::OK)),
            Err(NotSaved::Conflict) => {
                complain(&format!("{}: not changed: {CONFLICT}", file.display()));
            }
            Err(NotSaved::Failed(error)) => complain(&error.to_string()),
            Err(NotSaved::Refused(why)) => {
                complain(&format!("{}: not changed: the text is refused", file.display()));
                log::complain(why.trim_end());
            }
        }
        question = ask(is_conflict)?;
        match question {
            Question::Edit => {}
            Question::Merge => {
                let theirs = tree.text(target)?;
                if copy.merge(&before, &theirs)? {
                    complain(
                        "both changed the same lines: they stand between <<<<<<< yours and >>>>>>> saved, with ======= \
                         between the versions; keep one of the two, and remove these lines",
                    );
                    question = Question::Edit;
                }
                before = theirs;
            }
            Question::Quit => return Ok(End::Kept(exit::FAILED)),
        }
    }
}

/// A tree that can be saved: that of a file, or that of a mount of the file.
pub(super) enum OpenTree {
    File(Box<Editor>),
    Mount(FileMount),
}

impl OpenTree {
    /// Opens and locks a file; if it is mounted, finds its mount.
    pub(super) fn open(target: &SaveTarget, context: &EditContext) -> Result<Self> {
        match open(target, context) {
            Err(error) if error.kind() == Kind::Busy => match FileMount::of(&*target.open()?)? {
                Some(mount) => Ok(Self::Mount(mount)),
                None => Err(error),
            },
            opened => Ok(Self::File(Box::new(opened?))),
        }
    }

    /// Sets the program for the history.
    pub(super) fn set_program(&mut self, program: &str) {
        if let Self::File(editor) = self {
            editor.set_program(Some(program.to_owned()));
        }
    }

    /// Returns the saved text.
    pub(super) fn text(&mut self, target: &SaveTarget) -> Result<Vec<u8>> {
        match self {
            Self::File(editor) => editor.text(),
            Self::Mount(_) => tree_text(target),
        }
    }

    /// Shows how `text` would be saved in place of `before`. Returns the exit status.
    fn plan(&mut self, target: &SaveTarget, text: &[u8], before: &[u8], context: &EditContext) -> Result<u8> {
        match self {
            Self::File(editor) => {
                dry_run::report(editor, target.label(), text, &TextVersion::of_bytes(before))
            }
            Self::Mount(mount) => dry_run::report_in_mount(mount, target, before, text, context),
        }
    }

    /// Saves `text` in place of `before`.
    fn commit(
        &mut self,
        target: &SaveTarget,
        text: &[u8],
        before: &[u8],
    ) -> std::result::Result<(), NotSaved> {
        match self {
            Self::File(editor) => match editor.commit(text, &TextVersion::of_bytes(before), &mut NoReaders) {
                Ok(saved) => {
                    tell(target.label(), editor, &saved);
                    Ok(())
                }
                Err(Refusal::Conflict) => Err(NotSaved::Conflict),
                Err(Refusal::Failed(error)) => Err(NotSaved::Failed(error)),
                Err(refusal) => Err(NotSaved::Refused(refusal.report())),
            },
            Self::Mount(mount) => match save_in_mount(mount, target, before, text) {
                Ok(None) => Ok(()),
                Ok(Some(why)) => Err(NotSaved::Refused(why)),
                Err(error) if error.kind() == Kind::Conflict => Err(NotSaved::Conflict),
                Err(error) if error.kind() == Kind::Busy => match mount.refusal() {
                    Some(why) if !why.starts_with(CONFLICT) => Err(NotSaved::Refused(why)),
                    _ => Err(NotSaved::Conflict),
                },
                Err(error) => Err(NotSaved::Failed(error)),
            },
        }
    }
}

/// The reason why a text was not saved.
enum NotSaved {
    /// Another program has changed the tree since the text was begun.
    Conflict,
    /// The report on a text that is refused.
    Refused(String),
    Failed(Error),
}

/// Returns the text of the tree of a file, without a lock.
pub(super) fn tree_text(target: &SaveTarget) -> Result<Vec<u8>> {
    let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
    text_in(&*format::open(target.open()?, &context)?).map_err(|error| error.of(target.label()))
}

/// Returns the text of the tree of an open file.
pub(super) fn text_in(container: &dyn Container) -> Result<Vec<u8>> {
    let tree = container.tree();
    let mut text = vec![0; usize::try_from(tree.len()).unwrap_or(usize::MAX)];
    read_exact_at(&*tree, 0, &mut text)?;
    Ok(text)
}

/// Saves a text into a mounted file, whose tree has to be `old`, by writing it to the mount. Returns the reason of a
/// refusal.
pub(super) fn save_in_mount(
    mount: &FileMount,
    target: &SaveTarget,
    old: &[u8],
    new: &[u8],
) -> Result<Option<String>> {
    if old == new {
        return Ok(None);
    }
    if let Err(error) = mount.replace_tree(old, new) {
        let refusal = mount.refusal().filter(|_| error.errno() == libc::EINVAL);
        return refusal.map_or(Err(error), |why| Ok(Some(why)));
    }
    // The mount may have restored a lost part of the text.
    if tree_text(target)? == old {
        let message = format!("not changed: the mount on {} did not save it", mount.mountpoint().display());
        return Err(Error::new(Kind::System(libc::EIO), message).of(target.label()));
    }
    Ok(None)
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
    let target = SaveTarget::of_path(file).map_err(|error| error.of(file))?;
    let recovered = recovery::recover_by_hand(&target).map_err(|error| if_busy(error).of(file))?;
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
        format::check_kind(&*target.open()?)?;
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
///
/// # Errors
/// The schemas can't be read.
pub(super) fn context(options: &Options) -> Result<EditContext> {
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
    let schemas = options.read_schemas()?;
    Ok(EditContext { options: options.edit, history, schemas, ..EditContext::default() })
}

/// Finds the file at a path, and holds its directory. The path must not be resolved again: another user may have
/// exchanged a directory in it.
pub(super) fn target(file: &Path) -> Result<SaveTarget> {
    named::refuse_mount(file)?;
    if file.is_dir() {
        let each = file.join("*.asdf");
        let message = format!("is a directory: name the files, for instance {}", each.display());
        return Err(Error::new(Kind::Unrecognised, message).of(file));
    }
    SaveTarget::of_path(file)
}

/// Opens and locks a file, and prints the editor's notices.
pub(super) fn open(target: &SaveTarget, context: &EditContext) -> Result<Editor> {
    tell_of_state_directory();
    let editor = format::open_editor(target.clone(), context).map_err(if_busy)?;
    tell_notices(target.label(), editor.notices());
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
pub(super) fn tell(file: &Path, editor: &Editor, saved: &Saved) {
    tell_notices(file, editor.later_notices());
    let name = shown(file);
    for restored in &saved.restored {
        complain(&format!("{name}: {restored}"));
    }
    for warning in &saved.warnings {
        complain(&format!("warning: {name}: {warning}"));
    }
}

pub(super) fn complain_of(refusal: &Refusal) {
    log::complain(refusal.report().trim_end());
}

pub(super) fn shown(path: &Path) -> String {
    one_line(&path.display().to_string()).to_string()
}

/// The user's answer after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Edit,
    /// Merge the text with the one that another program has saved.
    Merge,
    Quit,
}

/// Asks whether to edit again, or to merge after a conflict; without a terminal the answer is to quit.
fn ask(is_conflict: bool) -> Result<Question> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Question::Quit);
    }
    loop {
        let merge = if is_conflict { "(m)erge with the saved text, " } else { "" };
        let _ = write!(log::Complaints, "{merge}(e)dit again, or (q)uit and keep the text? ");
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            return Ok(Question::Quit);
        }
        match answer.trim() {
            "m" | "merge" if is_conflict => return Ok(Question::Merge),
            "" if is_conflict => return Ok(Question::Merge),
            "e" | "edit" | "" => return Ok(Question::Edit),
            "q" | "quit" => return Ok(Question::Quit),
            _ => {}
        }
    }
}

/// Returns the command that starts the user's editor.
fn editor_command() -> OsString {
    named_editor().map_or_else(|| OsString::from(EDITOR), |(_, command)| command)
}

/// Returns the variable that names the user's editor, and its value.
fn named_editor() -> Option<(&'static str, OsString)> {
    let named = |name: &'static str| Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?));
    ["VISUAL", "EDITOR"].into_iter().find_map(named)
}

/// Returns the assignment to the variable with which the user's editor ends only once the text is edited: `EDITOR='code
/// --wait'`. `None` if it is not known to end earlier.
fn waiting_editor() -> Option<String> {
    let (variable, command) = named_editor()?;
    let command = command.to_str()?;
    let words: Vec<&str> =
        command.split_ascii_whitespace().map(|word| word.trim_matches(['\'', '"'])).collect();
    let name = Path::new(words.first()?).file_name()?;
    let (_, option, short) = NOT_WAITING.iter().find(|(known, ..)| name == *known)?;
    let waits = words.iter().any(|word| word == option || word == short);
    (!waits).then(|| format!("{variable}='{command} {option}'"))
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
                let variable = if std::env::var_os("VISUAL").is_some() { "VISUAL" } else { "EDITOR" };
                let message = format!(
                    "found no editor '{}'; set {variable}, as in {variable}=nano asdf-mount --edit FILE; nothing saved",
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

    /// Returns the edited text.
    fn read(&self) -> Result<Vec<u8>> {
        std::fs::read(&self.text).map_err(|error| Error::from(error).of(&self.text))
    }

    /// Merges the changes from `base` to `theirs` into the edited text, with git. Returns true if both changed the same
    /// lines; these are then marked.
    fn merge(&self, base: &[u8], theirs: &[u8]) -> Result<bool> {
        let path = |name: &str| self.dir.join(name);
        for (name, text) in [("base.yaml", base), ("theirs.yaml", theirs)] {
            std::fs::write(path(name), text).map_err(|error| Error::from(error).of(path(name)))?;
        }
        let mut git = Command::new("git");
        git.args(["merge-file", "-L", "yours", "-L", "base", "-L", "saved"]);
        git.arg(&self.text).arg(path("base.yaml")).arg(path("theirs.yaml"));
        let status = git.status().map_err(|error| {
            Error::from(error)
                .within("can't run git merge-file")
                .advise("merge by hand: base.yaml and theirs.yaml are beside the text")
        })?;
        match status.code() {
            Some(0) => Ok(false),
            // The number of conflicts.
            Some(1..=127) => Ok(true),
            _ => Err(Error::new(Kind::System(libc::EIO), "git merge-file failed")),
        }
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
