//! `asdf_mount._native`: the crate `asdf-access` for the Python package, which adds what only Python can be.
//!
//! - `arguments`: sources and options
//! - `file`: a file
//! - `array`: an array of a file
//! - `block`: a block of a file
//! - `catalog`: the catalogue of many files
//! - `decode`: a compressed block that Python reads
//! - `waiting`: calls without the GIL, which a signal ends
//! - `ending`: the end of Python while other threads read
//! - `process`: values that a forked process does not use
//!
//! Whatever may take long runs without the GIL. No call writes a file, but for a save, the history and the tables of the
//! user's cache.

mod arguments;
mod array;
mod block;
mod catalog;
mod decode;
mod ending;
mod file;
mod process;
mod waiting;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    /// Lets the crate `numpy` find numpy's interfaces while Python imports the module. It looks for them once, by running
    /// Python, and panics if a signal ends that, as Ctrl-C would in the first read.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().import("numpy")?;
        let array = PyArray1::<u8>::zeros(module.py(), 0, false);
        array.try_readwrite()?;
        let ends = wrap_pyfunction!(crate::ending::ends, module)?;
        module.py().import("atexit")?.call_method1("register", (ends,))?;
        Ok(())
    }

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
