//! What is derived from a container: its status, the table of its blocks.

pub mod block_files;
pub mod blocks;
pub mod root;
pub mod shown;
pub mod status;

/// The names in the folder of a file.
pub(crate) const TREE: &str = "tree.yaml";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const ABOUT: &str = ".asdf-mount";
pub(crate) const STATUS: &str = "status.yaml";
pub(crate) const TABLE: &str = "blocks.yaml";

pub use shown::ShownViews;
