//! Groups changed lines into the hunks of a unified diff, and writes the hunks.

use std::io::{self, Write};

use super::{ChangedLines, lines};

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Maximum changes of one hunk. Beyond it, the hunk shows all lines between its changes as replaced.
const MAX_CHANGES: usize = 1 << 16;

/// A writer of hunks. It collects the changes of one hunk, because the hunk's header counts their lines.
pub(super) struct Hunks<'a, W> {
    old: &'a [u8],
    new: &'a [u8],
    out: &'a mut W,
    changes: Vec<ChangedLines>,
}

impl<'a, W: Write> Hunks<'a, W> {
    pub(super) fn new(old: &'a [u8], new: &'a [u8], out: &'a mut W) -> Self {
        Self { old, new, out, changes: Vec::new() }
    }

    /// Adds the next change.
    pub(super) fn add(&mut self, change: ChangedLines) -> io::Result<()> {
        let full = self.changes.len() >= MAX_CHANGES;
        if let Some(last) = self.changes.last_mut() {
            let between = change.old_line - (last.old_line + last.removed);
            if between > 2 * CONTEXT as u64 {
                self.finish()?;
            } else if full {
                last.old.end = change.old.end;
                last.new.end = change.new.end;
                last.removed = change.old_line + change.removed - last.old_line;
                last.added = change.new_line + change.added - last.new_line;
                return Ok(());
            }
        }
        self.changes.push(change);
        Ok(())
    }

    /// Writes the hunk of the changes so far.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let changes = std::mem::take(&mut self.changes);
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(()) };
        let before = lines_before(part(self.old, 0, first.old.start));
        let after: Vec<_> = lines(part(self.old, last.old.end, self.old.len())).take(CONTEXT).collect();
        let before_count = lines(before).count() as u64;
        let after_count = after.len() as u64;
        let counts = |start: u64, end: u64| {
            let (start, count) = (start - before_count, end + after_count - (start - before_count));
            match count {
                0 => format!("{start},0"),
                1 => format!("{}", start + 1),
                _ => format!("{},{count}", start + 1),
            }
        };
        let old = counts(first.old_line, last.old_line + last.removed);
        let new = counts(first.new_line, last.new_line + last.added);
        writeln!(self.out, "@@ -{old} +{new} @@")?;
        self.write(b' ', lines(before))?;
        let mut here = first.old.start;
        for change in &changes {
            self.write(b' ', lines(part(self.old, here, change.old.start)))?;
            self.write(b'-', lines(part(self.old, change.old.start, change.old.end)))?;
            self.write(b'+', lines(part(self.new, change.new.start, change.new.end)))?;
            here = change.old.end;
        }
        self.write(b' ', after.into_iter())
    }

    fn write<'t>(&mut self, sign: u8, lines: impl Iterator<Item = &'t [u8]>) -> io::Result<()> {
        for line in lines {
            self.out.write_all(&[sign])?;
            self.out.write_all(line)?;
            if !line.ends_with(b"\n") {
                self.out.write_all(b"\n\\ No newline at end of file\n")?;
            }
        }
        Ok(())
    }
}

/// Returns the last lines of a text, for context.
fn lines_before(text: &[u8]) -> &[u8] {
    let breaks = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    // Line breaks are counted from the end. Break 0 ends the text, so the last `CONTEXT` lines begin after
    // break `CONTEXT`.
    let start = breaks.map(|(at, _)| at + 1).nth(CONTEXT).unwrap_or(0);
    part(text, start, text.len())
}

fn part(text: &[u8], from: usize, to: usize) -> &[u8] {
    text.get(from..to).unwrap_or_default()
}
