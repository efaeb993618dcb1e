//! Contents that are made of others, such as an array with strides, and the file formats of the views.

pub(crate) mod array;
mod blanked;
pub(crate) mod caption;
mod datatype;
pub(crate) mod dir;
mod gather;
mod grid;
mod interleaved;
pub(crate) mod literal;
pub(crate) mod names;
pub(crate) mod npy;
pub(crate) mod numbers;
pub(crate) mod parquet;
pub(crate) mod path_dir;
mod path_items;
pub(crate) mod path_tree;
pub(crate) mod picture;
pub(crate) mod png;
mod recoded;
pub(crate) mod shared_path;
pub(crate) mod tile;
pub(crate) mod zarr;

pub(crate) use array::Array;
pub(crate) use blanked::{Blank, Blanked, FoundInteger, NullCandidates, Unused};
pub use datatype::{ByteOrder, Datatype, Field};
pub(crate) use datatype::{Scalar, ScalarKind};
pub(crate) use gather::Gather;
pub(crate) use grid::{Division, Grid, GridChunks};
pub(crate) use interleaved::Interleaved;
pub(crate) use recoded::{Conversion, Recoded, float16, half};
