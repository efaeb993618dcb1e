//! `--dry-run`: shows what a save would do, without a change to the file.

use std::path::Path;

use super::{complain, diff, exit};
use crate::error::{Error, Kind, Result, one_line};
use crate::format::editor::{SaveTarget, TextVersion};
use crate::format::refusal::Refusal;
use crate::format::{Editor, recovery};
use crate::log;

/// Refuses a file whose save was interrupted, because opening it for an edit would recover it.
pub(super) fn check(target: &SaveTarget) -> Result<()> {
    if recovery::is_interrupted(target)? {
        let message =
            "a save was interrupted, and a dry run recovers nothing; run asdf-mount --recover first";
        Err(Error::new(Kind::Unfinished, message).of(target.label()))
    } else {
        Ok(())
    }
}

/// Writes to stdout how `text` differs from the saved text, and to stderr how the changes would be saved or
/// why they would be refused. Returns the exit status.
pub(super) fn report(editor: &mut Editor, file: &Path, text: &[u8], base: &TextVersion) -> Result<u8> {
    let before = editor.text()?;
    let name = one_line(&file.display().to_string());
    let saved = format!("{name}\tsaved");
    let new = format!("{name}\tnew");
    let names = (&*saved, &*new);
    match editor.plan(text, base) {
        Ok(planned) => {
            diff::show(&before, &planned.text, names)?;
            for restored in &planned.restored {
                complain(restored);
            }
            for warning in &planned.warnings {
                complain(&format!("warning: {warning}"));
            }
            complain(&match planned.way {
                Some(way) => format!("{name}: would be saved ({way}); nothing is changed"),
                None => format!("{name}: nothing would change"),
            });
            Ok(exit::OK)
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(refusal) => {
            diff::show(&before, text, names)?;
            complain(&format!("{name}: the text would be refused"));
            log::complain(refusal.report().trim_end());
            Ok(exit::REFUSED)
        }
    }
}
