//! Why a text is refused, in words for whoever wrote it.

use std::fmt::Write as _;

use super::Fault;
use super::excerpt::Excerpt;

/// What a refusal is to be told as to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The text is not what it should be: EINVAL.
    Invalid,
    /// There is too much of it: EFBIG.
    TooLarge,
}

impl Class {
    /// The errno that an editor is given.
    pub fn errno(self) -> i32 {
        match self {
            Self::Invalid => libc::EINVAL,
            Self::TooLarge => libc::EFBIG,
        }
    }
}

/// Where a problem is, in the text as it was written (before anything was put back).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the text.
    pub offset: u64,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// The line and a caret below the place.
    pub excerpt: Excerpt,
}

/// One thing that is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What a program is told.
    pub class: Class,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub to_do: String,
    /// Where, if it is at a place.
    pub place: Option<Place>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(out, "line {}, column {}: {}", place.line, place.column, self.what),
            None => out.write_str(&self.what),
        }
    }
}

/// Why a text is not saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first}")]
pub struct Refusal {
    /// The first problem.
    pub first: Problem,
    /// Further ones, in the order of the text; not more than [`MOST_FURTHER`].
    pub further: Vec<Problem>,
}

/// What a text that is saved is warned of, in a few lines of plain text; empty if it is nothing.
pub fn report_of_warnings(warnings: &[Problem]) -> String {
    let mut report = String::new();
    let mut to_do: Vec<&str> = Vec::new();
    for warning in warnings {
        let _ = writeln!(report, "{warning}");
        if !warning.to_do.is_empty() && !to_do.contains(&warning.to_do.as_str()) {
            to_do.push(&warning.to_do);
        }
    }
    for to_do in to_do {
        let _ = writeln!(report, "\nWhat to do: {to_do}");
    }
    report
}

/// Problems told beside the first.
pub const MOST_FURTHER: usize = 9;

impl Refusal {
    /// A refusal for these faults of a text; `None` if there are none.
    pub(super) fn of(text: &[u8], faults: Vec<Fault>) -> Option<Self> {
        let mut problems = faults.into_iter().map(|fault| fault.into_problem(text));
        let first = problems.next()?;
        Some(Self { first, further: problems.take(MOST_FURTHER).collect() })
    }

    /// The errno that an editor is given: the first problem's.
    pub fn errno(&self) -> i32 {
        self.first.class.errno()
    }

    /// A few lines of plain text: what is wrong, where, and what to do.
    pub fn report(&self) -> String {
        let mut report = String::new();
        // Writing to a String can't fail.
        let _ = writeln!(report, "{}", self.first);
        if let Some(place) = &self.first.place {
            let _ = write!(report, "\n    {}\n    {}\n\n", place.excerpt.line, place.excerpt.caret);
        }
        let _ = writeln!(report, "What to do: {}", self.first.to_do);
        if !self.further.is_empty() {
            let _ = writeln!(report, "\nAlso:");
        }
        for problem in &self.further {
            let _ = writeln!(report, "  {problem}");
        }
        report
    }
}
