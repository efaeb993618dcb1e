//! Saves a text into an ASDF file. Whatever happens, the file on disk is the old one or the new one.
//!
//! - `check` checks the text before anything is written.
//! - [`Editor`] locks one file, checks and saves its texts. `interrupted` recovers a file after an interrupted save.
//! - [`Target`] is a file that is locked and recovered, ready to be written.
//! - `plan` computes the bytes of the new file and lists the ways to write it. `journal` records the changes
//!   within the file. `apply` writes them.
//! - `repair` makes a sound file of a damaged one, and `repack` a tidy file of a sound one.
//! - `recover` and `half_saved` finish or undo an interrupted save after a crash.

mod apply;
pub mod check;
pub mod context;
mod editor;
mod half_saved;
mod image;
mod index;
mod interrupted;
mod journal;
mod layout;
mod lock;
mod mark;
mod opened;
mod plan;
mod recover;
mod recovered;
pub mod recovery;
pub mod refusal;
pub mod repack;
pub mod repair;
mod saver;
mod sidecar;
mod tail;
mod target;
mod unsupported;
mod ways;

pub use editor::Editor;
pub use image::is_sidecar;
pub use index::Indexed;
pub use interrupted::{condition, recover, recover_by_hand, traces};
pub use target::NewHead;
pub use target::Target;

/// A way to write a text into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SavePlan {
    /// The text fits before the first block: text and spaces are written there.
    InPlace,
    /// A new file shares the blocks' extents with the old one, and takes its name.
    Clone,
    /// The file system inserts room before the blocks, in the same file.
    Insert,
    /// The blocks are copied to a new file, which takes the old one's name.
    Copy,
    /// The blocks are copied to another file, and from there to their new place in the same file.
    Rewrite,
}

impl SavePlan {
    /// Returns the plan's name for messages.
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

/// The options of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveOptions {
    /// Padding after a text that has grown, in bytes. By default a tenth of the text, at least 4096.
    pub padding: Option<u64>,
    /// The only plan to try if the blocks have to move.
    pub only: Option<SavePlan>,
}

/// The outcome of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The plan that was used; `None` if the file had this text already and nothing was written.
    pub plan: Option<SavePlan>,
    /// The distance by which the blocks moved, in bytes.
    pub grew_by: u64,
    /// The outcome for the block index.
    pub indexed: Indexed,
    /// The number of fsyncs.
    pub fsyncs: u32,
    /// The file that the text was saved into, as it was before.
    pub from: seekable::source::Identity,
    /// The file as the save left it.
    pub saved: seekable::source::Identity,
}
