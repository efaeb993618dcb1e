//! What the program's exit status says.

use crate::error::{Error, Kind};

/// Done: for a mount, it answers requests.
pub const OK: u8 = 0;
/// It could not be done; one line on stderr says why. No mount, no daemon and no folder is left.
pub const FAILED: u8 = 1;
/// The arguments make no sense, or an option is unknown.
pub const USAGE: u8 = 2;

/// `--check`: every file is sound.
pub const SOUND: u8 = 0;
/// `--check`: at least one file is damaged.
pub const DAMAGED: u8 = 1;
/// `--check`: at least one file could not be read, or is of no format that is known, or the report
/// could not be written.
pub const UNREADABLE: u8 = 2;

/// Chooses the exit status that goes with an error.
pub fn of(error: &Error) -> u8 {
    match error.kind() {
        Kind::Usage => USAGE,
        _ => FAILED,
    }
}
