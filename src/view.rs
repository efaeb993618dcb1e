//! What is derived from a container: its status, the table of its blocks.

pub mod blocks;
pub mod status;
