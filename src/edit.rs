//! From a draft of the tree's text to a save.

pub mod check;
