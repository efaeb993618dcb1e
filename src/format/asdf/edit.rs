//! From an accepted text to a save: the file on disk is then the old one or the new one, whatever
//! happens.
//!
//! [`Target`] is a source that may be written: it holds the lock, knows the layout and what the tree
//! was when it was last read or saved; [`Locked`] is one before it was read. A save is planned (`plan`), written down in a journal where the
//! file itself is changed (`journal`), and carried out (`apply`). After a crash, [`mod@recover`] makes the
//! file one of the two again; opening a target does it too.
//!
//! What the text says is judged before that ([`check`]).

mod apply;
pub mod check;
mod index;
mod journal;
mod layout;
mod lock;
mod opened;
mod place;
mod plan;
mod recover;
pub mod session;
mod settle;
mod tail;
mod target;

use std::path::Path;

pub use apply::Refusals;
pub use index::{Indexed, Tail};
pub use layout::Layout;
pub use lock::Holder;
pub(crate) use place::is_sidecar;
pub use recover::{Condition, Outcome, Recovered};
pub use target::{Locked, Target};

use crate::error::Result;

/// How a text gets into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// It fits before the first block: text and spaces are written there.
    InPlace,
    /// A new file shares the blocks' place on the disk with the old one, and takes its name.
    Clone,
    /// The file system inserts room before the blocks, in the same file.
    Insert,
    /// The blocks are copied to a new file, which takes the old one's name.
    Copy,
    /// The blocks are copied to another file and from there to where they belong in the same file.
    Rewrite,
}

impl Plan {
    /// The word for it in logs and status files.
    pub fn word(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Clone => "clone",
            Self::Insert => "insert",
            Self::Copy => "copy",
            Self::Rewrite => "rewrite",
        }
    }
}

/// What may be chosen about a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveOptions {
    /// Bytes of room left behind a text that has grown; by default a tenth of it, at least 4096.
    pub padding: Option<u64>,
    /// Takes this plan or none where the blocks have to move.
    pub only: Option<Plan>,
}

/// What a save did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// How the text got into the file; `None` if it was there already and nothing was written.
    pub plan: Option<Plan>,
    /// By how many bytes the blocks moved.
    pub grew_by: u64,
    /// What became of the block index.
    pub indexed: Indexed,
    /// How many times something was made durable.
    pub fsyncs: u32,
}

/// Finishes or undoes a save of the file at `path` that a crash interrupted; harmless otherwise.
///
/// # Errors
///
/// [`Busy`](crate::Kind::Busy) if another program has the file, [`ReadOnly`](crate::Kind::ReadOnly) if
/// it can't be written.
pub fn recover(path: &Path) -> Result<Recovered> {
    target::recover_at(path)
}

/// The same for a path that is absolute and without links, and another state directory.
pub fn recover_in(path: &Path, state: Option<&Path>) -> Result<Recovered> {
    target::recover_in(path, state)
}

/// What is said of a file that has a name which saves need; see [`Recovered::in_the_way`].
pub fn in_the_way(lying: &Path, why: &str) -> String {
    format!(
        "{} is in the way of saves and can't be moved away: {why}; saves use the state directory instead; \
         remove it, or have it removed",
        lying.display()
    )
}

/// Whether the file at `path`, absolute and without links, is one file, for those who may only read it:
/// nothing is changed. Where another program is saving it just now, that is waited for a while.
///
/// # Errors
///
/// Whatever keeps that from being found out.
pub fn condition(path: &Path, state: Option<&Path>) -> Result<Condition> {
    target::condition(path, state)
}

/// Whether something tells that a save of the file at `path`, absolute and without links, was
/// interrupted, or is being made.
pub fn is_interrupted(path: &Path, state: Option<&Path>) -> bool {
    target::is_interrupted(path, state)
}
