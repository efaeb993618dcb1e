//! `asdf_mount._native`: the crate `asdf-access` for the Python package, which adds what only Python can be.
//!
//! - `arguments`: sources and options
//! - `file`: a file
//! - `array`: an array of a file
//! - `block`: a block of a file
//! - `catalog`: the catalogue of many files
//! - `decode`: a compressed block that Python reads
//! - `waiting`: calls without the GIL, which a signal ends
//! - `process`: values that a forked process does not use
//!
//! Whatever may take long runs without the GIL. No call writes a file, but for a save, the history and the tables of the
//! user's cache.

mod arguments;
mod array;
mod block;
mod catalog;
mod decode;
mod file;
mod process;
mod waiting;

use pyo3::pymodule;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::arguments::{option_text, shown, source_text};
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::catalog::Catalog;
    #[pymodule_export]
    use crate::decode::decode;
    #[pymodule_export]
    use crate::file::File;
}
