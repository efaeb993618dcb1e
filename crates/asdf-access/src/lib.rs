//! Reads and changes ASDF files, GSD trajectories, Bloscpack and Blosc2 files: the library of the program `asdf-mount`,
//! which mounts such files as directories. With the feature `remote`, also files on servers.
//!
//! ## The model
//!
//! A [`File`] has a *tree*, which is a YAML text, *arrays* at paths of that tree, and *blocks* of binary data.
//! [`File::open`] reads the head of the file only. An [`Array`] or [`Block`] is read when bytes of it are asked
//! for, at any offset: compressed data are decoded in parts, on all cores, through one cache for all files, and
//! later reads start decoding where a checkpoint lies.
//!
//! A `File` is a snapshot. Reads never return bytes of two versions: once another program has changed the file,
//! they fail with [`Kind::Changed`], and the file is opened again. [`File::set_tree`] replaces the tree, and
//! [`File::set`] sets values in it; the blocks stay as they are. A save checks the text as a mount does, and a
//! journal makes it atomic, even if the machine loses power: afterwards the file has the old tree or the new one.
//!
//! [`files`] walks over many files, [`catalog`] describes each of them in a line of JSON, and [`File::search`] finds keys
//! and values.
//!
//! Wrong bytes are never returned as right ones. Damage is an error ([`Kind::Damaged`]) that names block and
//! offset, and [`File::check`] finds all of it.
//!
//! ## Limits
//!
//! - Only the tree of ASDF files can be changed: neither the data of blocks nor files of other formats.
//! - Files on servers are read-only.
//! - The text of the tree and the elements of [`Array::to_vec`] must fit in memory; [`Array::read`] and the
//!   `read_at` methods read parts.
//! - Linux only.
//! - Reads block the calling thread, and the first one starts threads that decode. A program that forks does
//!   so before it opens a file.
//! - Seek tables go to the user's cache directory, replaced trees to the history in the user's state directory,
//!   as those of a mount do; [`OpenOptions`] can turn off both.
//!
//! ## Examples
//!
//! Read an array:
//!
//! ```
//! # fn main() -> asdf_access::Result<()> {
//! let file = asdf_access::File::open("examples/sample.asdf")?;
//! let image = file.array("image")?;
//! assert_eq!(image.shape, [160, 160]);
//! let pixels: Vec<i16> = image.to_vec()?;
//! assert_eq!(pixels.len(), 160 * 160);
//! # Ok(())
//! # }
//! ```
//!
//! Read some bytes of a block, in the middle of compressed data:
//!
//! ```
//! # fn main() -> asdf_access::Result<()> {
//! # let file = asdf_access::File::open("examples/sample.asdf")?;
//! let block = file.block(0)?;
//! let mut bytes = [0; 100];
//! assert_eq!(block.read_at(51_150, &mut bytes)?, 50);
//! # Ok(())
//! # }
//! ```
//!
//! Change a key:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let copy = folder.path().join("galaxy.asdf");
//! # std::fs::copy("examples/sample.asdf", &copy)?;
//! # let options = asdf_access::OpenOptions::parse("history=off")?;
//! let mut file = options.open(&copy)?;
//! file.set(&[("object.filter", "B")], asdf_access::Allowed::default())?;
//! # assert!(asdf_access::File::open(&copy)?.tree()?.contains("filter: B"));
//! # Ok(())
//! # }
//! ```
//!
//! Find damage:
//!
//! ```
//! # fn main() -> asdf_access::Result<()> {
//! # let file = asdf_access::File::open("examples/sample.asdf")?;
//! for defect in file.check()? {
//!     println!("byte {}: {}", defect.offset, defect.what);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` of the source has programs that read an array, change a key, and catalogue a
//! directory.

pub mod catalog;
pub mod files;
pub mod library;
pub mod local;
pub mod named;
pub mod options;
pub mod search;

pub use asdf_file::asdf::decode::decode;
pub use asdf_file::container::{ArrayFacts, ArraySource, Defect, ElementType, FieldType, Severity, Verified};
pub use library::{
    Allowed, Array, Block, ByteOrder, CheckProgress, Datatype, Element, Field, File, OpenOptions, SaveReport,
    Scalar, Selection,
};
pub use seekable::{Error, Kind, Result};
