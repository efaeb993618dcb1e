//! Exit statuses of the program.

use seekable::error::{Error, Kind};

/// Success. If a mount was requested, it is ready.
pub(crate) const OK: u8 = 0;
/// Failure, with one line on stderr that gives the reason. No mount, daemon or directory is left.
pub(crate) const FAILED: u8 = 1;
/// Invalid arguments, or an unknown option.
pub(crate) const USAGE: u8 = 2;

/// `--ls`: something in a directory could not be shown, as in `ls`.
pub(crate) const LS_INCOMPLETE: u8 = 1;
/// `--ls`: FILE or a PATH could not be shown, as in `ls`.
pub(crate) const LS_FAILED: u8 = 2;
/// `--diff A B`: the files differ, as in `diff`.
pub(crate) const DIFFERENT: u8 = 1;
/// `--diff A B`: a file can't be read.
pub(crate) const DIFF_FAILED: u8 = 2;
/// `--search`: nothing is found, as in `grep`.
pub(crate) const NOT_FOUND: u8 = 1;
/// `--dry-run`: the text would be refused.
pub(crate) const REFUSED: u8 = 3;

/// `--check`: every file is sound.
pub(crate) const SOUND: u8 = 0;
/// `--check`: at least one file is damaged.
pub(crate) const DAMAGED: u8 = 1;
/// `--check`: at least one file could not be read or has an unknown format, or the report could not be
/// written.
pub(crate) const UNREADABLE: u8 = 2;

/// Returns the exit status for an error.
pub(crate) fn of(error: &Error) -> u8 {
    match error.kind() {
        Kind::Usage => USAGE,
        _ => FAILED,
    }
}
