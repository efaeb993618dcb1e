//! An ASDF file, in all three generations of its layout.
//!
//! A file consists of a head (header line, comments, tree), padding, blocks, and an optional block index.
//! Opening reads the head. The blocks are found when a program first asks for one.
//!
//! `scripts/imports.py` lists which modules may import which.
//!
//! | module | content |
//! |---|---|
//! | [`head`], [`header`], [`block`], [`index`], [`checksum`], [`growth`] | the layout of a file |
//! | [`chain`], [`quantize`] | encoded blocks |
//! | [`stored`] | a file as it is stored: head and blocks |
//! | [`decode`] | a compressed block that a program has in memory |
//! | [`in_fits`] | a FITS file with an ASDF file in it |
//! | [`view`], [`computed`] | the trait of all views; a file with the results computed from its tree |
//! | [`kept_document`] | the document of a file's tree, and how long it is kept |
//! | [`arrays`] | the survey of the tree, the elements of arrays, and the view `arrays/` |
//! | [`check`] | `--check` |
//! | [`container`] | the file as the mount sees it: blocks and views |

pub mod arrays;
pub mod block;
pub mod chain;
mod check;
pub mod checksum;
pub mod computed;
mod container;
pub mod decode;
pub mod defect;
pub mod external;
mod facts;
mod growth;
pub mod head;
pub mod header;
pub mod image_facts;
pub mod in_fits;
pub mod index;
pub mod kept_document;
pub mod ndarray;
pub mod quantize;
pub mod sources;
pub mod stored;
pub mod units;
pub mod view;
