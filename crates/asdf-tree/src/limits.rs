//! Limits on what one tree may cost.
//!
//! A tree comes from anywhere, and aliases make a short text stand for a long one. A [document](crate::yaml::document)
//! has at most [`MAX_NODES`] nodes and [`MAX_TEXT`] bytes; the others bound what is computed from it. What goes beyond is
//! left out, and the view says so.
//!
//! `docs/performance.md` has the costs that they lead to: the goal is 1 s of CPU time a MB of tree, and 200 MiB.

/// Nodes of a document, which take 448 MiB.
pub const MAX_NODES: usize = 16 << 20;
/// Bytes of a document's text, and of its unescaped texts.
pub const MAX_TEXT: usize = 256 << 20;
/// Nesting of collections: libyaml's time is quadratic in it.
pub const MAX_DEPTH: usize = 1000;

/// Results of one kind, such as arrays, links, or units: `ls arrays` takes 134 to 145 MiB for so many.
pub const MAX_ITEMS: usize = 1 << 17;
/// Columns of tables, and images with a header: each is described by a text.
pub const MAX_DESCRIBED: usize = 1 << 15;
/// Bytes of the texts of one kind that are made, such as the targets of links, headers, or what merge keys add to
/// `tree.json`.
pub const MAX_MADE: usize = 16 << 20;
/// Nodes that merge keys bring into other mappings, and parts of arrays that aliases lead to.
pub const MAX_EXPANDED: u64 = 1 << 20;
/// Steps to resolve all aliases, as each may lead through others.
pub const MAX_STEPS: usize = 1 << 26;
/// Links, aliases or references that lead through each other, as many as the kernel follows.
pub const MAX_CHAIN: usize = 40;
/// Nodes that are searched for one answer: a column's array, a reference, the `meta` of a table, an array in the tree.
pub const MAX_SEARCHED: usize = 4 << 10;
/// Bytes, nodes or values of one value that is kept: a table of some thousand columns.
pub const MAX_VALUE: usize = 64 << 10;
/// Bytes of one element, and elements of one row, which are made as a whole.
pub const MAX_ELEMENT: u64 = 1 << 20;
/// Bytes of a path, a unit, or another name. Linux refuses paths of 4096 bytes.
pub const MAX_NAME: usize = 3000;
/// Arrays in other files that are checked: each opens a file.
pub const MAX_EXTERNALS: usize = 256;
/// Notes on what is left out, and findings of a check: there may be as many as nodes.
pub const MAX_NOTES: usize = 1000;
