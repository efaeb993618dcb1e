//! Endings of file names, which decide how a server's listing is shown.

use std::ffi::OsStr;

use super::FORMATS;

/// Returns the name of the format that uses the extension of this file name.
pub fn by_ending(name: &OsStr) -> Option<&'static str> {
    let name = name.as_encoded_bytes().to_ascii_lowercase();
    let has = |ending: &&str| name.len() > ending.len() && name.ends_with(ending.as_bytes());
    FORMATS.iter().find(|format| format.endings().iter().any(has)).map(|format| format.name())
}
