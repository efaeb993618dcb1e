//! Saves: from a text to a file that is the old one or the new one, whatever happens.
//!
//! - `check` judges the text, before anything is written.
//! - `session` is the [`Editor`](crate::format::editor::Editor) of one file; `support` opens sessions and looks
//!   after interrupted saves.
//! - [`Target`] is a file that can be written: locked, recovered, its layout known. [`Locked`] is one whose
//!   layout was not read yet.
//! - `plan` computes the bytes of the new file and the ways to get there; `journal` writes down what changes
//!   within the file; `apply` carries it out.
//! - `recover` and `settle` make the file one version after a crash.

mod apply;
pub mod check;
mod index;
mod journal;
mod layout;
mod lock;
mod locked;
mod mark;
mod opened;
mod plan;
mod recover;
mod session;
mod settle;
mod sidecar;
mod support;
mod tail;
mod target;

pub use index::{Indexed, Tail};
pub use layout::Layout;
pub use lock::Holder;
pub use locked::Locked;
pub use support::Support;
pub use target::Target;

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
    /// The word for it in messages.
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

/// How a text got into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// How the text got into the file; `None` if it was there already and nothing was written.
    pub plan: Option<Plan>,
    /// By how many bytes the blocks moved.
    pub grew_by: u64,
    /// What became of the block index.
    pub indexed: Indexed,
    /// How many times something was made durable.
    pub fsyncs: u32,
}
