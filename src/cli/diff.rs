//! The changes of a text, on stdout.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use asdf_views::info::wants_colour;
use seekable::error::{Result, printable};

use super::print;
use crate::text_diff;

/// Prints the unified diff of two texts, under these names.
pub(super) fn show(before: &[u8], after: &[u8], names: (&str, &str)) -> Result<()> {
    let mut diff = Vec::new();
    text_diff::write_unified(before, after, names, &mut diff)?;
    print(&for_stdout(&diff))
}

/// Returns a diff as stdout shows it. On a terminal, the lines are coloured, and characters that it acts on are
/// escaped.
pub(super) fn for_stdout(diff: &[u8]) -> Cow<'_, [u8]> {
    if !io::stdout().is_terminal() {
        return Cow::Borrowed(diff);
    }
    let text = printable(&String::from_utf8_lossy(diff)).into_owned();
    Cow::Owned(if wants_colour(true) { coloured(&text) } else { text }.into_bytes())
}

/// Colours the lines of a diff as git does.
fn coloured(diff: &str) -> String {
    let mut out = String::with_capacity(diff.len());
    for line in diff.lines() {
        let colour = match line.as_bytes() {
            [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => "1",
            [b'-', ..] => "31",
            [b'+', ..] => "32",
            [b'@', ..] => "36",
            _ => "",
        };
        if colour.is_empty() {
            out += line;
        } else {
            out += &format!("\x1b[{colour}m{line}\x1b[0m");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_coloured_as_by_git() {
        let text = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n";
        let wanted = "\u{1b}[1m--- a\u{1b}[0m\n\u{1b}[1m+++ b\u{1b}[0m\n\u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m-x\u{1b}[0m\n\
                      \u{1b}[32m+y\u{1b}[0m\n z\n";
        assert_eq!(coloured(text), wanted);
    }
}
