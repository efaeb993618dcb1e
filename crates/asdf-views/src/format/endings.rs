//! Endings of file names, which decide how a server's listing is shown.

use std::ffi::OsStr;

use super::FORMATS;

/// Returns the name of the format that uses the extension of this file name.
pub fn by_ending(name: &OsStr) -> Option<&'static str> {
    let format = FORMATS.iter().find(|format| has_any(name, format.endings()));
    format.map(|format| format.name())
}

/// True if a file with this name must be looked at to tell its format.
pub fn is_unsure(name: &OsStr) -> bool {
    FORMATS.iter().any(|format| has_any(name, format.unsure_endings()))
}

/// True if a file name has an extension, in any case, and more.
fn has_any(name: &OsStr, endings: &[&str]) -> bool {
    let name = name.as_encoded_bytes().to_ascii_lowercase();
    endings.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending.as_bytes()))
}
