//! `asdf_mount._native`: the crate `asdf-access` for the Python package, which adds what only Python can be.
//!
//! - `decode`: a compressed block that Python has in memory

mod decode;

use pyo3::pymodule;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::decode::decode;
}
