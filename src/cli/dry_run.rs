//! `--dry-run`: shows what a save would do, without a change to the file.

use std::io::{self, IsTerminal};
use std::path::Path;

use super::{complain, exit, print};
use crate::error::{Error, Kind, Result, one_line, printable};
use crate::format::editor::{Editor, SaveTarget, TextVersion};
use crate::format::recovery;
use crate::format::refusal::Refusal;
use crate::{log, text_diff};

/// Refuses a file whose save was interrupted, because opening it for an edit would recover it.
pub(super) fn check(file: &Path) -> Result<()> {
    match recovery::is_interrupted(&SaveTarget::of_path(file)?, None)? {
        true => {
            let message =
                "a save was interrupted, and a dry run recovers nothing; run asdf-mount --recover first";
            Err(Error::new(Kind::Unfinished, message).of(file))
        }
        false => Ok(()),
    }
}

/// Writes to stdout how `text` differs from the saved text, and to stderr how the changes would be saved or
/// why they would be refused. Returns the exit status.
pub(super) fn report(editor: &mut dyn Editor, file: &Path, text: &[u8], base: &TextVersion) -> Result<u8> {
    let before = editor.text()?;
    let name = one_line(&file.display().to_string());
    let (saved, new) = (format!("{name}\tsaved"), format!("{name}\tnew"));
    let names = (&*saved, &*new);
    match editor.plan(text, base) {
        Ok(planned) => {
            show_diff(&before, &planned.text, names)?;
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
            show_diff(&before, text, names)?;
            complain(&format!("{name}: the text would be refused"));
            log::complain(refusal.report().trim_end());
            Ok(exit::REFUSED)
        }
    }
}

/// Prints the unified diff of two texts, under these names. On a terminal, characters that it acts on are escaped.
pub(super) fn show_diff(before: &[u8], after: &[u8], names: (&str, &str)) -> Result<()> {
    let mut diff = Vec::new();
    text_diff::write_unified(before, after, names, &mut diff)?;
    match io::stdout().is_terminal() {
        true => print(printable(&String::from_utf8_lossy(&diff)).as_bytes()),
        false => print(&diff),
    }
}
