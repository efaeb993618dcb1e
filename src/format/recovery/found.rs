//! What is found out about a file that a save may have left halfway.

use std::path::PathBuf;

/// The file before a save, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The file before the save.
    Old,
    /// The file after the save.
    New,
}

/// Whether a file is one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The file is one version, as far as can be told.
    Whole,
    /// The file is partly old and partly new, or this can't be ruled out: why, and what to do.
    Halfway(String),
}

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// What the file is now, if a save had been interrupted.
    pub outcome: Option<Side>,
    /// Journals that do not belong to the file as it is, under their new names, with the reason.
    pub set_aside: Vec<(PathBuf, String)>,
    /// Leftovers that were removed.
    pub removed: Vec<PathBuf>,
    /// Files that have a name which saves need and that can't be moved away, with the reason why they do
    /// not belong to a save. In a folder such as /tmp any user can make them. Saves use the state directory
    /// then.
    pub in_the_way: Vec<(PathBuf, String)>,
}

impl Recovered {
    /// Whether there was nothing to recover.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What the user should know about files that were set aside or are in the way, a line each.
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
        set_aside.chain(in_the_way).collect()
    }

    /// What became of the interrupted save, if there was one.
    pub fn outcome_notice(&self) -> Option<&'static str> {
        self.outcome.map(|side| match side {
            Side::Old => "a save that was interrupted is undone",
            Side::New => "a save that was interrupted is finished",
        })
    }

    /// Adds what the recovery of another format found.
    pub(super) fn add(&mut self, other: Self) {
        self.outcome = self.outcome.or(other.outcome);
        self.set_aside.extend(other.set_aside);
        self.removed.extend(other.removed);
        self.in_the_way.extend(other.in_the_way);
    }
}
