//! `--set`, `--unset` and `--filter`: change the trees of many files.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use asdf_access::files::parallel;
use asdf_access::named;
use asdf_access::options::Options;
use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::context::{EditContext, Planned, SaveTarget};
use asdf_file::edit::refusal::Refusal;
use asdf_tree::yaml::assign::{Allowed, Assignment, KeyPath, assign, remove};
use clap::Args;
use seekable::error::{Error, Kind, Result, in_shell, one_line, printable, to_json};
use seekable::source::NoReaders;

use super::action::ACTION;
use super::jobs::Jobs;
use super::revise::OpenTree;
use super::{EDIT, at_least_one, complain, dry_run, print, revise, usage};
use crate::daemon::FileMount;
use crate::{exit, log, text_diff};

/// Maximum length in bytes of the output of a filter.
const MAX_OUTPUT: u64 = 1 << 30;

/// The options of `--set`, `--unset` and `--filter`.
#[derive(Debug, Args)]
pub(super) struct ManyArguments {
    /// Set a value in the tree of each FILE: KEY is a path such as meta.exposure.filter, VALUE is YAML
    ///
    /// For several values, repeat --set. The rest of the text stays as it is, comments included. A backslash before a dot
    /// or an equals sign makes it part of a key; a number is the position in a sequence. An empty VALUE is null; 1e5 is
    /// saved as a number unless it replaces a text, and a date in place of a quoted date stays a text. A mapping, a
    /// sequence or an array is replaced with --force only. The save is checked as in a mount. A file that is mounted is
    /// saved through its mount.
    #[arg(long, help_heading = EDIT, value_name = "KEY=VALUE", action = clap::ArgAction::Append, group = ACTION)]
    pub(super) set: Vec<String>,

    /// Remove a key with its value from the tree of each FILE, or an item from a sequence
    ///
    /// KEY is written as for --set. For several keys, repeat --unset. Comments stay, except those beside the value.
    #[arg(long, help_heading = EDIT, value_name = "KEY", action = clap::ArgAction::Append, group = ACTION)]
    unset: Vec<String>,

    /// With --set: add keys that do not exist
    #[arg(long, help_heading = EDIT)]
    create: bool,

    /// Replace the tree of each FILE by the output of COMMAND, which gets the tree on its standard input
    ///
    /// The shell runs COMMAND, with the name of the file in $ASDF_MOUNT_FILE. If COMMAND fails, the file is not changed.
    #[arg(long, help_heading = EDIT, value_name = "COMMAND", group = ACTION)]
    pub(super) filter: Option<String>,

    #[command(flatten)]
    pub(super) jobs: Jobs,
}

/// Makes the new tree of a file from the old one.
type MakeTree<'m> = dyn Fn(&Path, &[u8]) -> Result<Vec<u8>> + Sync + 'm;

/// The form of the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportForm {
    pub(super) dry_run: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

impl ManyArguments {
    /// Runs `--set`.
    pub(super) fn set(
        &self,
        files: &[PathBuf],
        options: &Options,
        force: bool,
        form: ReportForm,
    ) -> Result<u8> {
        let files = at_least_one(files, "--set needs at least one FILE")?;
        let is_pair =
            |file: &&PathBuf| file.to_string_lossy().contains('=') && file.symlink_metadata().is_err();
        let assignments = self.set.iter().map(|pair| Assignment::parse(pair)).collect::<Result<Vec<_>>>()?;
        if let Some(pair) = files.iter().find(|file| is_pair(file) && named::is_local(file).unwrap_or(true)) {
            let pairs = self.set.iter().map(PathBuf::from).chain([pair.clone()]);
            let options: Vec<String> = pairs.map(|pair| format!("--set {}", in_shell(&pair))).collect();
            let options = options.join(" ");
            return Err(usage(format!(
                "{}: no such file; for several values: {options} FILE",
                pair.display()
            )));
        }
        let allowed = Allowed { create: self.create, force };
        let make = |file: &Path, text: &[u8]| {
            let file = file.display();
            assign(text, &assignments, allowed, &mut |warning| {
                complain(&format!("warning: {file}: {warning}"));
            })
        };
        self.run(files, self.jobs.count_for_saves(), "asdf-mount --set", options, form, &make)
    }

    /// Runs `--unset`.
    pub(super) fn unset(&self, files: &[PathBuf], options: &Options, form: ReportForm) -> Result<u8> {
        let files = at_least_one(files, "--unset needs at least one FILE")?;
        let keys = self.unset.iter().map(|key| KeyPath::parse(key)).collect::<Result<Vec<_>>>()?;
        let make = |_: &Path, text: &[u8]| remove(text, &keys);
        self.run(files, self.jobs.count_for_saves(), "asdf-mount --unset", options, form, &make)
    }

    /// Runs `--filter`.
    pub(super) fn filter(&self, files: &[PathBuf], options: &Options, form: ReportForm) -> Result<u8> {
        let files = at_least_one(files, "--filter needs at least one FILE")?;
        let command = self.filter.as_deref().unwrap_or_default();
        self.run(files, self.jobs.count(), command, options, form, &|file, text| {
            filtered(command, file, text)
        })
    }

    fn run(
        &self,
        files: &[PathBuf],
        threads: usize,
        program: &str,
        options: &Options,
        form: ReportForm,
        make: &MakeTree<'_>,
    ) -> Result<u8> {
        let context = revise::context(options)?;
        let change = Change { context: &context, program, dry_run: form.dry_run, make };
        let mut counts = [0_u64; 3];
        let mut status = exit::OK;
        let report = |(file, outcome): (&PathBuf, Outcome)| {
            counts[outcome.class()] += 1;
            match outcome {
                Outcome::Failed(_) => status = exit::FAILED,
                Outcome::Refused(..) if form.dry_run => status = status.max(exit::REFUSED),
                Outcome::Refused(..) => status = exit::FAILED,
                _ => {}
            }
            outcome.report(file, form)
        };
        parallel::each(files, |_| threads, &|file: &PathBuf| (file, change.apply(file)), report)?;
        if files.len() > 1 && !form.quiet && !form.json {
            let [changed, same, failed] = counts;
            let verb = if form.dry_run { "would change" } else { "changed" };
            log::complain(format_args!(
                "{} files: {changed} {verb}, {same} unchanged, {failed} failed",
                files.len()
            ));
        }
        // A failure counts more than a refusal in a dry run.
        Ok(if counts[2] > 0 && status == exit::OK { exit::FAILED } else { status })
    }
}

/// A change of the tree of each file.
struct Change<'c> {
    context: &'c EditContext,
    program: &'c str,
    dry_run: bool,
    make: &'c MakeTree<'c>,
}

/// The result for one file.
#[derive(Debug)]
enum Outcome {
    Unchanged,
    Saved,
    /// A dry run: the diff.
    Planned(Vec<u8>),
    /// The reason of the refusal, and the diff of a dry run.
    Refused(String, Vec<u8>),
    Failed(Error),
}

impl Change<'_> {
    fn apply(&self, file: &Path) -> Outcome {
        self.try_apply(file).unwrap_or_else(Outcome::Failed)
    }

    fn try_apply(&self, file: &Path) -> Result<Outcome> {
        revise::refuse_address(file)?;
        let target = revise::target(file)?;
        if self.dry_run {
            dry_run::check(&target)?;
        }
        let mut editor = match OpenTree::open(&target, self.context)? {
            OpenTree::File(editor) => editor,
            OpenTree::Mount(mount) => return self.in_mount(&mount, &target),
        };
        editor.set_program(Some(self.program.to_owned()));
        let before = editor.text()?;
        let base = TextVersion::of_bytes(&before);
        let text = (self.make)(file, &before)?;
        if text == before {
            return Ok(Outcome::Unchanged);
        }
        if self.dry_run {
            let planned = editor.plan(&text, &base);
            return Self::planned(file, &before, &text, planned);
        }
        match editor.commit(&text, &base, &mut NoReaders) {
            Ok(saved) => {
                revise::tell(file, &editor, &saved);
                Ok(if saved.written { Outcome::Saved } else { Outcome::Unchanged })
            }
            Err(Refusal::Failed(error)) => Err(error),
            Err(refusal) => Ok(Outcome::Refused(refusal.report(), Vec::new())),
        }
    }

    /// Returns the outcome of a dry run.
    fn planned(
        file: &Path,
        before: &[u8],
        text: &[u8],
        planned: std::result::Result<Planned, Refusal>,
    ) -> Result<Outcome> {
        match planned {
            Ok(planned) => Ok(Outcome::Planned(diff(file, before, &planned.text)?)),
            Err(Refusal::Failed(error)) => Err(error),
            Err(refusal) => Ok(Outcome::Refused(refusal.report(), diff(file, before, text)?)),
        }
    }

    /// Changes a file that is mounted, by writing its new tree to the mount.
    fn in_mount(&self, mount: &FileMount, target: &SaveTarget) -> Result<Outcome> {
        let file = target.label();
        let before = revise::tree_text(target)?;
        let text = (self.make)(file, &before)?;
        if text == before {
            return Ok(Outcome::Unchanged);
        }
        if self.dry_run {
            let planned = dry_run::plan_in_mount(mount, target, &before, &text, self.context);
            return Self::planned(file, &before, &text, planned);
        }
        Ok(match revise::save_in_mount(mount, target, &before, &text)? {
            None => Outcome::Saved,
            Some(refusal) => Outcome::Refused(refusal, Vec::new()),
        })
    }
}

fn diff(file: &Path, before: &[u8], after: &[u8]) -> Result<Vec<u8>> {
    let name = one_line(&file.display().to_string());
    let mut diff = Vec::new();
    let names = (&*format!("{name}\tsaved"), &*format!("{name}\tnew"));
    text_diff::write_unified(before, after, names, &mut diff)?;
    Ok(diff)
}

impl Outcome {
    /// Returns 0 for a change, 1 for none, 2 for a failure.
    fn class(&self) -> usize {
        match self {
            Self::Saved | Self::Planned(_) => 0,
            Self::Unchanged => 1,
            Self::Refused(..) | Self::Failed(_) => 2,
        }
    }

    fn report(self, file: &Path, form: ReportForm) -> Result<()> {
        let (status, error, diff) = match self {
            Self::Saved => ("saved", None, Vec::new()),
            Self::Unchanged => ("unchanged", None, Vec::new()),
            Self::Planned(diff) => ("would be saved", None, diff),
            Self::Refused(why, diff) => ("refused", Some(reason(&why)), diff),
            Self::Failed(error) => ("failed", Some(error.of(file).to_string()), Vec::new()),
        };
        if form.json {
            let mut object = serde_json::json!({ "file": file.to_string_lossy(), "status": status });
            if let Some(error) = error {
                object["error"] = error.into();
            }
            if !diff.is_empty() {
                object["diff"] = String::from_utf8_lossy(&diff).into();
            }
            return print(format!("{}\n", to_json(&object)).as_bytes());
        }
        if io::IsTerminal::is_terminal(&io::stdout()) {
            print(printable(&String::from_utf8_lossy(&diff)).as_bytes())?;
        } else {
            print(&diff)?;
        }
        match error {
            Some(error) if status == "refused" => {
                complain(&format!("{}: not changed: {error}", file.display()));
            }
            Some(error) => complain(&error),
            None => {}
        }
        Ok(())
    }
}

/// Returns a refusal in one line: its first problem.
fn reason(report: &str) -> String {
    let lines: Vec<&str> = report.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.first().copied().unwrap_or("the text is refused").to_owned()
}

/// Returns the output of a command that gets `text` on its standard input.
fn filtered(command: &str, file: &Path, text: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: io::Error| Error::from(error).within("can't run the command");
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("ASDF_MOUNT_FILE", file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut output = Vec::new();
    let read = thread::scope(|scope| {
        // A command may end without reading its input, such as cat of another file.
        scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(text)));
        stdout.map_or(Ok(0), |stdout| stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output))
    });
    let status = child.wait().map_err(failed)?;
    read.map_err(failed)?;
    let refused = |why: String| Err(Error::new(Kind::Refused, why));
    if !status.success() {
        return match status.code() {
            Some(code) => refused(format!("not changed: the command exited with status {code}")),
            None => refused(format!("not changed: the command ended with {status}")),
        };
    }
    if output.is_empty() {
        return refused(
            "not changed: the command printed nothing, and an empty tree is never saved".to_owned(),
        );
    }
    if output.len() as u64 > MAX_OUTPUT {
        return refused("not changed: the command printed more than 1 GiB".to_owned());
    }
    Ok(output)
}
