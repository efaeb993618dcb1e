//! `--dry-run`: shows what a save would do, without a change to the file.

use std::path::Path;

use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::context::{EditContext, Planned, SaveTarget};
use asdf_file::edit::refusal::Refusal;
use asdf_file::edit::{Editor, recovery};
use seekable::error::{Error, Kind, Result, in_shell, one_line};

use super::{complain, diff, exit};
use crate::daemon::FileMount;
use crate::log;

/// Refuses a file whose save was interrupted, because opening it for an edit would recover it.
pub(super) fn check(target: &SaveTarget) -> Result<()> {
    if recovery::is_interrupted(target)? {
        let command = format!("asdf-mount --recover {}", in_shell(target.label()));
        let message =
            format!("a save was interrupted, and a dry run recovers nothing; recover it first: {command}");
        Err(Error::new(Kind::Unfinished, message).of(target.label()))
    } else {
        Ok(())
    }
}

/// Writes to stdout how `text` differs from the saved text, and to stderr how the changes would be saved or
/// why they would be refused. Returns the exit status.
pub(super) fn report(editor: &mut Editor, file: &Path, text: &[u8], base: &TextVersion) -> Result<u8> {
    let before = editor.text()?;
    let planned = editor.plan(text, base);
    report_planned(file, &before, text, planned, None)
}

/// Reports as [`report`] does, for a file that is saved through its mount.
pub(super) fn report_in_mount(
    mount: &FileMount,
    target: &SaveTarget,
    before: &[u8],
    text: &[u8],
    context: &EditContext,
) -> Result<u8> {
    let planned = plan_in_mount(mount, target, before, text, context);
    report_planned(target.label(), before, text, planned, Some(mount))
}

/// Checks a text as the mount of a file would, and whether the mount would take it in place of `before`.
pub(super) fn plan_in_mount(
    mount: &FileMount,
    target: &SaveTarget,
    before: &[u8],
    text: &[u8],
    context: &EditContext,
) -> std::result::Result<Planned, Refusal> {
    mount.may_replace_tree(before).map_err(Refusal::Failed)?;
    Editor::check_beside(target, text, &TextVersion::of_bytes(before), context)
}

fn report_planned(
    file: &Path,
    before: &[u8],
    text: &[u8],
    planned: std::result::Result<Planned, Refusal>,
    mount: Option<&FileMount>,
) -> Result<u8> {
    let name = one_line(&file.display().to_string());
    let saved = format!("{name}\tsaved");
    let new = format!("{name}\tnew");
    let names = (&*saved, &*new);
    match planned {
        Ok(planned) => {
            diff::show(before, &planned.text, names)?;
            for restored in &planned.restored {
                complain(&format!("{name}: {restored}"));
            }
            for warning in &planned.warnings {
                complain(&format!("warning: {name}: {warning}"));
            }
            complain(&match (mount, planned.way) {
                _ if planned.text == before => format!("{name}: nothing would change"),
                (Some(mount), _) => {
                    let mountpoint = mount.mountpoint().display();
                    format!("{name}: would be saved through the mount on {mountpoint}; nothing is changed")
                }
                (None, Some(way)) => format!("{name}: would be saved ({way}); nothing is changed"),
                (None, None) => format!("{name}: nothing would change"),
            });
            Ok(exit::OK)
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(refusal) => {
            diff::show(before, text, names)?;
            complain(&format!("{name}: the text would be refused"));
            log::complain(refusal.report().trim_end());
            Ok(exit::REFUSED)
        }
    }
}
