//! Views that every format has: the directory of a file, its status, and the table of its blocks.

pub mod block_files;
pub mod blocks;
pub mod history;
pub mod root;
pub mod shown;
pub mod status;

/// Names in the directory of a file.
pub(crate) const TREE: &str = "tree.yaml";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const ABOUT: &str = ".asdf-mount";
pub(crate) const STATUS: &str = "status.yaml";
pub(crate) use crate::info::page::NAME as PAGE;
pub(crate) const INFO: &str = "info.txt";
pub(crate) const STATISTICS: &str = "stats.yaml";
pub(crate) const TABLE: &str = "blocks.yaml";
pub(crate) const HISTORY: &str = "history";

pub use crate::info::page::PageMemo;
pub use shown::ShownViews;
