//! The results of examining and recovering a file that may be half-saved.

use std::path::PathBuf;

/// A version of the file: before or after a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveSide {
    /// The file before the save.
    Old,
    /// The file after the save.
    New,
}

/// The traces of an interrupted save of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traces {
    /// There is no journal, and the file has no mark of a save.
    None,
    /// There are only files that saves of this user would not have left.
    OfOthers,
    /// A save was interrupted, or is in progress.
    Left,
}

/// The state of a file with respect to interrupted saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The file is complete, as far as can be determined.
    Whole,
    /// The file is half-saved, or this can't be ruled out; the text says why, and what to do.
    Halfway(String),
}

/// The result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The version that the file has now, if a save was interrupted.
    pub outcome: Option<SaveSide>,
    /// Journals that do not belong to the current file: their new names, and the reason.
    pub set_aside: Vec<(PathBuf, String)>,
    /// Leftover files that were removed.
    pub removed: Vec<PathBuf>,
    /// Leftover files that were not removed, because they have other blocks than the file: another program put them in
    /// the file's place in the moment of a save.
    pub kept: Vec<PathBuf>,
    /// Files that occupy a name which saves need and can't be moved away, with the reason why they do not
    /// belong to a save. In a directory such as /tmp any user can create them. Saves then use the state
    /// directory.
    pub in_the_way: Vec<(PathBuf, String)>,
}

impl Recovered {
    /// True if there was nothing to recover.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Returns notices for the user about files that were set aside or are in the way, a line each.
    pub fn notices(&self) -> Vec<String> {
        let set_aside = self.set_aside.iter().map(|(journal, why)| {
            format!("a journal was not used and is kept as {}: {why}", journal.display())
        });
        let in_the_way = self.in_the_way.iter().map(|(lying, why)| {
            format!(
                "{} is in the way of saves and can't be moved away: {why}; saves use the state directory \
                 instead; remove it, or have it removed",
                lying.display()
            )
        });
        let kept = self.kept.iter().map(|kept| {
            format!(
                "{} was in the file's place for a moment, beside a save that was interrupted, and has other blocks: use \
                 it or remove it",
                kept.display()
            )
        });
        set_aside.chain(in_the_way).chain(kept).collect()
    }

    /// Returns the notice about the outcome of an interrupted save, if there was one.
    pub fn outcome_notice(&self) -> Option<&'static str> {
        self.outcome.map(|side| match side {
            SaveSide::Old => "a save that was interrupted is undone",
            SaveSide::New => "a save that was interrupted is finished",
        })
    }
}
