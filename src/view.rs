//! Views that every format has: the directory of a file, its status, and the table of its blocks.

pub(crate) mod block_files;
pub(crate) mod blocks;
pub(crate) mod history;
pub mod root;
pub(crate) mod status;

/// Names in the directory of a file.
pub(crate) const TREE: &str = "tree.yaml";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const ABOUT: &str = ".asdf-mount";
pub(crate) const STATUS: &str = "status.yaml";
pub(crate) use asdf_views::format::PAGE;
pub(crate) const INFO: &str = "info.txt";
pub(crate) const STATISTICS: &str = "stats.yaml";
pub(crate) const TABLE: &str = "blocks.yaml";
pub(crate) const HISTORY: &str = "history";

pub(crate) use asdf_views::info::page::PageMemo;
