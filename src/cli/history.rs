//! `--log`, `--diff` and `--undo`: the saves of a file, and taking the last one back.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::options::Options;
use asdf_file::container::Context;
use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::Editor;
use asdf_file::edit::context::{EditContext, SaveTarget};
use asdf_file::edit::refusal::Refusal;
use asdf_file::history::{Digest, History, Save};
use asdf_file::time::instant;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, one_line, to_json};
use seekable::source::{FileSource, NoReaders};
use serde::Serialize;

use super::{complain, exit, print, revise, usage};
use crate::daemon::FileMount;
use crate::text_diff;

/// Name prefix of a replaced text in the mount.
const IN_MOUNT: &str = ".asdf-mount/history/";

/// The saves of a file, the last one first, and its present text.
struct Saves {
    history: Option<History>,
    changes: Vec<Save>,
    text: Vec<u8>,
}

impl Saves {
    /// Returns the saves of the file at a path.
    fn of_path(file: &Path) -> Result<Self> {
        let target = revise::target(file)?;
        Self::of(&target, target.open()?)
    }

    /// Returns the saves of an open file, which was found at `target`.
    fn of(target: &SaveTarget, file: Arc<FileSource>) -> Result<Self> {
        let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
        let container = format::open(file.clone(), &context)?;
        if !container.is_editable() {
            let message = format!("files of the format {} have no history", container.format());
            return Err(Error::new(Kind::Unsupported, message).of(target.label()));
        }
        let text = revise::text_in(&*container).map_err(|error| error.of(target.label()))?;
        Self::of_text(text, |history, now| {
            history.changes_of_open(file.as_fd(), (target.dir(), target.name()), || Ok(now))
        })
    }

    /// Returns the saves of the file that an editor holds.
    fn of_editor(editor: &mut Editor) -> Result<Self> {
        let text = editor.text()?;
        Self::of_text(text, |history, now| editor.saves_in(history, now))
    }

    /// Returns the saves that `find` finds in the history for the digest of the present text.
    fn of_text(text: Vec<u8>, find: impl FnOnce(&History, Digest) -> Result<Vec<Save>>) -> Result<Self> {
        let history = match History::open_existing(None) {
            Ok(history) => Some(history),
            Err(error) if error.errno() == libc::ENOENT => None,
            Err(error) => return Err(error),
        };
        let changes = match &history {
            Some(history) => find(history, Digest::of(&text))?,
            None => Vec::new(),
        };
        Ok(Self { history, changes, text })
    }

    /// Returns the saves that led to the present text.
    fn own(&self) -> impl Iterator<Item = &Save> {
        self.changes.iter().filter(|change| change.is_own)
    }

    /// Returns the text before a save.
    fn before(&self, change: &Save) -> Result<Vec<u8>> {
        match &self.history {
            Some(history) => history.text(change),
            None => Err(Error::new(Kind::NotFound, "there is no history")),
        }
    }

    /// Returns the numbers of lines that save `n` (0 is the last save) removed and added; `None` if a text is
    /// not in the history, or no longer.
    fn changed_lines(&self, n: usize) -> Result<Option<(u64, u64)>> {
        let Some(change) = self.changes.get(n) else { return Ok(None) };
        let texts = self.before(change).and_then(|before| Ok((before, self.after(n)?.0)));
        match texts {
            Ok((before, after)) => Ok(Some(text_diff::changed_lines(&before, &after))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the text after save `n` (0 is the last save), and the name of that text.
    fn after(&self, n: usize) -> Result<(Vec<u8>, String)> {
        let later = n.checked_sub(1).and_then(|later| self.changes.get(later));
        match later.filter(|later| later.is_own || self.changes.get(n).is_some_and(|change| !change.is_own)) {
            Some(later) => Ok((self.before(later)?, format!("{IN_MOUNT}{}", later.name))),
            None => Ok((self.text.clone(), "tree.yaml".to_owned())),
        }
    }

    /// Fails if a text is the present one: a save and one that took it back, for instance.
    fn check_is_another(&self, text: &[u8], file: &Path, wanted: usize) -> Result<()> {
        if text != self.text {
            return Ok(());
        }
        let saves = if wanted == 1 { "save".to_owned() } else { format!("{wanted} saves") };
        let message =
            format!("not changed: the text before the last {saves} is the present one; --log lists them");
        Err(Error::new(Kind::Refused, message).of(file))
    }

    /// Returns the error for a save that the history does not have.
    fn missing(&self, file: &Path, wanted: usize) -> Error {
        let message = match (self.own().count(), self.changes.is_empty()) {
            (0, true) => "has no saves in its history".to_owned(),
            (0, false) => {
                "another program has changed the tree since the saves in its history; --log lists them"
                    .to_owned()
            }
            (1, _) => format!("has 1 save in its history, not {wanted}"),
            (count, _) => format!("has {count} saves in its history, not {wanted}"),
        };
        Error::new(Kind::NotFound, message).of(file)
    }
}

/// A save in the output of `--log`.
#[derive(Serialize)]
struct Row {
    /// Number for `--diff`; `None` for a save that did not lead to the present text.
    n: Option<usize>,
    time: String,
    file: Option<String>,
    size: u64,
    /// Numbers of changed lines; `None` if the text before or after the save is not known.
    removed: Option<u64>,
    added: Option<u64>,
    program: Option<String>,
    own: bool,
}

/// Lists the saves of a file.
pub(super) fn log(file: &Path, json: bool) -> Result<u8> {
    let saves = Saves::of_path(file)?;
    let mut rows = Vec::new();
    for (at, change) in saves.changes.iter().enumerate() {
        let own = change.is_own;
        // If a save did not lead to the present text, the text that it wrote is known only if the next save
        // replaced that text.
        let known = own || at > 0 && saves.changes.get(at - 1).is_some_and(|later| later.old == change.new);
        let lines = if known { saves.changed_lines(at)? } else { None };
        let (removed, added) = lines.unzip();
        rows.push(Row {
            n: own.then_some(at + 1),
            time: instant(change.time),
            file: (own && !change.is_omitted).then(|| change.name.clone()),
            size: change.old.len,
            removed,
            added,
            program: change.program.clone(),
            own,
        });
    }
    if rows.is_empty() && !json {
        complain(&format!("{}: has no saves in its history", revise::shown(file)));
    }
    let lines = if json { rows.iter().map(|row| to_json(row) + "\n").collect() } else { in_columns(&rows) };
    print(lines.as_bytes())?;
    Ok(exit::OK)
}

fn in_columns(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        [
            row.n.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            row.size.to_string(),
            row.removed.map_or_else(|| "?".to_owned(), |lines| format!("-{lines}")),
            row.added.map_or_else(|| "?".to_owned(), |lines| format!("+{lines}")),
        ]
    };
    let width = |at: usize| rows.iter().map(|row| cells(row)[at].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let line = |row: &Row| {
        let [n, size, removed, added] = cells(row);
        let program = row.program.as_deref().unwrap_or("-");
        let note = if row.own { "" } else { "  (of another text)" };
        format!(
            "{n:>0$}  {time}  {size:>1$}  {removed:>2$} {added:>3$}  {program}{note}\n",
            widths[0],
            widths[1],
            widths[2],
            widths[3],
            time = row.time,
            program = one_line(program),
        )
    };
    rows.iter().map(line).collect()
}

/// Shows a save as a unified diff: the last one, or the one with this number.
pub(super) fn diff(file: &Path, number: Option<&PathBuf>) -> Result<u8> {
    let wanted = wanted_save(number)?;
    let saves = Saves::of_path(file)?;
    let change = saves.own().nth(wanted - 1).ok_or_else(|| saves.missing(file, wanted))?;
    let before = saves.before(change)?;
    let (after, name) = saves.after(wanted - 1)?;
    super::diff::show(&before, &after, (&format!("{IN_MOUNT}{}", change.name), &name))?;
    Ok(exit::OK)
}

/// Returns the number of a save; 1 is the last one.
fn wanted_save(number: Option<&PathBuf>) -> Result<usize> {
    let Some(number) = number else { return Ok(1) };
    let parsed = number.to_str().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    parsed.ok_or_else(|| usage(format!("{}: give the number of a save, as --log shows it", number.display())))
}

/// Takes the last save of each file back, or the last `number` saves, continuing after errors.
pub(super) fn undo(
    files: &[PathBuf],
    number: Option<&PathBuf>,
    options: &Options,
    quiet: bool,
) -> Result<u8> {
    let wanted = wanted_save(number)?;
    let context = revise::context(options)?;
    if let [file] = files {
        return undo_one(file, wanted, &context, quiet);
    }
    let mut status = exit::OK;
    for file in files {
        status = undo_one(file, wanted, &context, quiet)
            .unwrap_or_else(|error| {
                complain(&error.of(file).to_string());
                exit::FAILED
            })
            .max(status);
    }
    Ok(status)
}

fn undo_one(file: &Path, wanted: usize, context: &EditContext, quiet: bool) -> Result<u8> {
    revise::refuse_address(file)?;
    let target = revise::target(file)?;
    let undone = match undo_here(&target, wanted, context) {
        Err(error) if error.kind() == Kind::Busy => {
            let open = target.open()?;
            match FileMount::of(&*open)? {
                Some(mount) => undo_in(&mount, wanted, &target, open)?,
                None => return Err(error),
            }
        }
        undone => undone?,
    };
    match undone {
        Some(change) if !quiet => {
            let program = change.program.map_or_else(String::new, |program| format!(" by {program}"));
            let time = instant(change.time);
            let what = match wanted {
                1 => format!("the save of {time}{program} is taken back; another --undo restores it"),
                count => format!(
                    "the last {count} saves are taken back, from that of {time}{program} on; another --undo restores \
                     them"
                ),
            };
            print(format!("{}: {}\n", revise::shown(file), one_line(&what)).as_bytes()).map(|()| exit::OK)
        }
        Some(_) => Ok(exit::OK),
        None => Ok(exit::FAILED),
    }
}

/// Takes the last save back and returns it. `None` if the older text is refused; the refusal is printed.
fn undo_here(target: &SaveTarget, wanted: usize, context: &EditContext) -> Result<Option<Save>> {
    let file = target.label();
    let mut editor = revise::open(target, context)?;
    editor.set_program(Some("asdf-mount --undo".to_owned()));
    // Otherwise another --undo would take back one save more, instead of this one.
    editor.require_history();
    let saves = Saves::of_editor(&mut editor)?;
    let change = saves.own().nth(wanted - 1).ok_or_else(|| saves.missing(file, wanted))?;
    let base = TextVersion::of_bytes(&saves.text);
    let text = saves.before(change)?;
    saves.check_is_another(&text, file, wanted)?;
    match editor.commit(&text, &base, &mut NoReaders) {
        Ok(saved) => {
            revise::tell(file, &editor, &saved);
            Ok(Some(change.clone()))
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(refusal) => {
            complain(&format!("{}: not changed: the text before its last save is refused", file.display()));
            revise::complain_of(&refusal);
            Ok(None)
        }
    }
}

/// Takes the last save of a mounted file back, by writing the older text to the mount, which has `open` open.
fn undo_in(
    mount: &FileMount,
    wanted: usize,
    target: &SaveTarget,
    open: Arc<FileSource>,
) -> Result<Option<Save>> {
    let file = target.label();
    let saves = Saves::of(target, open)?;
    let change = saves.own().nth(wanted - 1).ok_or_else(|| saves.missing(file, wanted))?;
    let text = saves.before(change)?;
    saves.check_is_another(&text, file, wanted)?;
    if let Err(error) = mount.replace_tree(&saves.text, &text) {
        complain(&error.to_string());
        if let Some(why) = mount.refusal() {
            crate::log::complain(why.trim_end());
        }
        return Ok(None);
    }
    if revise::tree_text(target)? != text {
        let message = format!("not changed: the mount on {} did not save it", mount.mountpoint().display());
        return Err(Error::new(Kind::System(libc::EIO), message).of(file));
    }
    Ok(Some(change.clone()))
}
