//! Reasons why a text did not become the tree: one type from the check of a text to the editor's errno.
//!
//! All refusals are worded in this file. `Display` of [`Refusal`] is the line for the log and for
//! `status.yaml`; [`Refusal::report`] is the text of `tree.yaml.error`.

use std::fmt::Write as _;

use seekable::error::{Error, Kind, one_line};

/// Message of a conflict; editors make errors of [`Kind::Conflict`] with it.
pub const CONFLICT: &str = "another program changed the tree since this edit began";
/// Message of a missing source, for errors of [`Kind::Busy`].
pub const GONE: &str = "the file was removed or moved by another program";
/// The message if another file has the name of the file now.
pub const REPLACED: &str = "the file was replaced by another program";
/// Maximum number of problems reported besides the first.
pub(crate) const MAX_FURTHER: usize = 9;

/// The reason why a text did not become the tree. The file is unchanged, unless the refusal is
/// [half-saved](Self::is_half_saved).
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The format does not accept the text.
    Text(Box<Problems>),
    /// Another program changed the tree since the text was begun.
    Conflict,
    /// The program was killed while it wrote the text.
    WriterKilled,
    /// The file can't be opened for reading or writing.
    Unopened(Error),
    /// The text could not be checked or written.
    Failed(Error),
    /// asdf-mount panicked: it has a bug.
    Panicked,
}

/// The problems of a text, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The first problem.
    pub first: Problem,
    /// Further problems, in text order; at most [`MAX_FURTHER`].
    pub further: Vec<Problem>,
}

/// A problem of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The class, which determines the errno.
    pub class: Class,
    /// The message.
    pub what: String,
    /// Advice to the user.
    pub to_do: String,
    /// Location in the text, unless the problem concerns all of it.
    pub position: Option<Position>,
}

/// The kind of a problem, as the saving program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The text is invalid: EINVAL.
    Invalid,
    /// The text is too large: EFBIG.
    TooLarge,
}

/// A location in the text as the user's program wrote it, before lost parts were restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Byte offset in the text.
    pub offset: u64,
    /// Line number, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// The line, and a caret below the location.
    pub excerpt: Excerpt,
}

/// A line of text, and a line with a caret below a location in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, or a part of it around the location, without tabs and control characters.
    pub line: String,
    /// Blanks and a caret.
    pub caret: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = one_line(&self.what);
        match &self.position {
            Some(position) => {
                write!(out, "line {}, column {}: {what}", position.line, position.column)
            }
            None => out.write_str(&what),
        }
    }
}

impl Problems {
    /// Collects the first problems; `None` if there is no problem.
    pub fn of(problems: impl IntoIterator<Item = Problem>) -> Option<Self> {
        let mut problems = problems.into_iter();
        let first = problems.next()?;
        Some(Self { first, further: problems.take(MAX_FURTHER).collect() })
    }

    /// Returns a few lines of plain text: the problem, its location, and advice.
    pub fn report(&self) -> String {
        let mut report = String::new();
        // Writing to a String can't fail.
        let _ = writeln!(report, "{}", self.first);
        if let Some(position) = &self.first.position {
            let _ = write!(report, "\n    {}\n    {}\n\n", position.excerpt.line, position.excerpt.caret);
        }
        let _ = writeln!(report, "What to do: {}", one_line(&self.first.to_do));
        if !self.further.is_empty() {
            let _ = writeln!(report, "\nAlso:");
        }
        for problem in &self.further {
            let _ = writeln!(report, "  {problem}");
        }
        report
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Conflict => Self::Conflict,
            _ => Self::Failed(error),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match &refusal {
            Refusal::Failed(error) | Refusal::Unopened(error) => return error.clone(),
            Refusal::Text(problems) => match problems.first.class {
                Class::Invalid => Kind::Refused,
                Class::TooLarge => Kind::TooLarge,
            },
            Refusal::Conflict => Kind::Conflict,
            Refusal::WriterKilled => Kind::Refused,
            Refusal::Panicked => Kind::System(libc::EIO),
        };
        match refusal {
            Refusal::Text(problems) => {
                Self::new(kind, problems.first.to_string()).advise(&problems.first.to_do)
            }
            other => Self::new(kind, other.to_string()),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(problems) => problems.first.fmt(out),
            Self::Conflict => out.write_str(CONFLICT),
            Self::WriterKilled => out.write_str("the program was killed while it wrote the text"),
            Self::Unopened(error) | Self::Failed(error) => error.fmt(out),
            Self::Panicked => out.write_str("the text was not saved because of a bug in asdf-mount"),
        }
    }
}

impl Refusal {
    /// Returns the errno for the saving program. It is never EPERM or EACCES, as editors then offer to retry
    /// as another user.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::Text(problems) => problems.first.class.errno(),
            Self::Conflict => libc::EBUSY,
            Self::WriterKilled => libc::EINVAL,
            Self::Unopened(error) => error.errno(),
            Self::Failed(error) => failure(error).0,
            Self::Panicked => libc::EIO,
        };
        match errno {
            libc::EPERM | libc::EACCES => libc::EROFS,
            errno => errno,
        }
    }

    /// True if the same text would be refused again, so that a retry is useless.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Conflict | Self::WriterKilled)
    }

    /// True if the file may be half-saved until it is recovered.
    pub fn is_half_saved(&self) -> bool {
        matches!(self, Self::Failed(error) if error.kind() == Kind::Unfinished)
    }

    /// Returns a few lines of plain text: the reason, its location, and advice.
    pub fn report(&self) -> String {
        match self {
            Self::Text(problems) => problems.report(),
            Self::Conflict => format!(
                "{self}.\n\nNothing was saved. Look at the tree as it is now, and make your changes there.\n"
            ),
            Self::WriterKilled => {
                format!("{self}.\n\nNothing was saved: half of a tree may be a valid tree.\n")
            }
            Self::Unopened(_) => format!("{self}.\n\nNothing was saved.\n"),
            Self::Failed(error) => format!("{self}\n\nWhat to do: {}\n", failure(error).1),
            Self::Panicked => format!("{self}\n"),
        }
    }
}

impl Class {
    /// Returns the errno for the saving program.
    pub fn errno(self) -> i32 {
        match self {
            Self::Invalid => libc::EINVAL,
            Self::TooLarge => libc::EFBIG,
        }
    }
}

/// Returns the errno for a failed save, and advice.
fn failure(error: &Error) -> (i32, &'static str) {
    match error.kind() {
        // The daemon lacks the right; the saving user can't change that.
        Kind::System(libc::EPERM | libc::EACCES) => (libc::EIO, "check that the file can still be written"),
        Kind::System(libc::ENOSPC | libc::EDQUOT) => (libc::ENOSPC, "make room on the disk, and save again"),
        Kind::TooLarge | Kind::System(libc::EFBIG) => {
            (libc::EFBIG, "shorten the text, or save again when the limit no longer applies")
        }
        Kind::Refused => (libc::EINVAL, "resolve the problem above, and save again"),
        // The kernel, and programs, would take ESTALE for a property of their own handle.
        Kind::Busy | Kind::Changed | Kind::System(libc::ESTALE) => (
            libc::EBUSY,
            "save again when the other program is done; if the file is gone for good, asdf-mount --set-tree \
             writes the text to another file",
        ),
        _ => (error.errno(), "save again; the log may tell more"),
    }
}

/// Returns the text of `tree.yaml.warning`: the warnings of a save, and advice; empty if there are none.
pub fn report_of_warnings(warnings: &[Problem]) -> String {
    let mut report = String::new();
    let mut steps: Vec<&str> = Vec::new();
    for warning in warnings {
        let _ = writeln!(report, "{warning}");
        if !warning.to_do.is_empty() && !steps.contains(&warning.to_do.as_str()) {
            steps.push(&warning.to_do);
        }
    }
    for to_do in steps {
        let _ = writeln!(report, "\nWhat to do: {}", one_line(to_do));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_told_in_full() {
        let failed = |kind| Refusal::Failed(Error::new(kind, "it failed"));
        for (refusal, report) in [
            (
                Refusal::Conflict,
                "another program changed the tree since this edit began.\n\nNothing was saved. Look at the tree as \
                 it is now, and make your changes there.\n",
            ),
            (
                Refusal::WriterKilled,
                "the program was killed while it wrote the text.\n\nNothing was saved: half of a tree may be a valid \
                 tree.\n",
            ),
            (Refusal::Unopened(Error::new(Kind::Refused, "it failed")), "it failed.\n\nNothing was saved.\n"),
            (Refusal::Panicked, "the text was not saved because of a bug in asdf-mount\n"),
            (
                failed(Kind::System(libc::EACCES)),
                "it failed\n\nWhat to do: check that the file can still be written\n",
            ),
            (
                failed(Kind::System(libc::ENOSPC)),
                "it failed\n\nWhat to do: make room on the disk, and save again\n",
            ),
            (
                failed(Kind::TooLarge),
                "it failed\n\nWhat to do: shorten the text, or save again when the limit no longer applies\n",
            ),
            (failed(Kind::Refused), "it failed\n\nWhat to do: resolve the problem above, and save again\n"),
            (
                failed(Kind::Busy),
                "it failed\n\nWhat to do: save again when the other program is done; if the file is gone for good, \
                 asdf-mount --set-tree writes the text to another file\n",
            ),
            (failed(Kind::System(libc::EIO)), "it failed\n\nWhat to do: save again; the log may tell more\n"),
        ] {
            assert_eq!(refusal.report(), report);
        }
    }
}
