//! The changes of a text, on stdout.

use std::io::{self, IsTerminal};

use super::print;
use crate::error::{Result, printable};
use crate::text_diff;

/// Prints the unified diff of two texts, under these names. On a terminal, characters that it acts on are escaped.
pub(super) fn show(before: &[u8], after: &[u8], names: (&str, &str)) -> Result<()> {
    let mut diff = Vec::new();
    text_diff::write_unified(before, after, names, &mut diff)?;
    if io::stdout().is_terminal() {
        print(printable(&String::from_utf8_lossy(&diff)).as_bytes())
    } else {
        print(&diff)
    }
}
