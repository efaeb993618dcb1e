//! Calls without the GIL, which a signal ends, and their errors.

use std::sync::{Arc, Mutex};

use asdf_access::{Error, Result};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use seekable::sync::locked;
use seekable::workers::caller::unless_given_up;

pyo3::create_exception!(
    asdf_mount,
    AsdfMountError,
    PyOSError,
    "A file can't be read or saved; the text says why."
);

/// Returns the exception for an error. Its `errno` is that with which a mount answers.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let exception = AsdfMountError::new_err(error.to_string());
    // An exception without the attribute is still the right one.
    let _ = exception.value(py).setattr("errno", error.errno());
    exception
}

/// Runs a job as [`without_gil`] does. Its error is an `AsdfMountError`.
pub(crate) fn wait<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    without_gil(py, job)?.map_err(|error| exception(py, &error))
}

/// Runs a job without the GIL. If the handler of a signal raises an exception, as that of Ctrl-C does, the job ends soon,
/// and the exception is returned. Python runs handlers in the main thread only.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    job: impl FnOnce() -> Result<T> + Send,
) -> PyResult<Result<T>> {
    let raised = Arc::new(Mutex::new(None));
    let noted = raised.clone();
    let has_given_up = move || {
        let exception = Python::attach(|py| py.check_signals()).err();
        let mut noted = locked(&*noted);
        *noted = noted.take().or(exception);
        noted.is_some()
    };
    let done = py.detach(|| unless_given_up(has_given_up, job));
    let exception = locked(&*raised).take();
    exception.map_or(Ok(done), Err)
}

/// Bytes that are read at once. After each of these pieces, Ctrl-C ends a read.
const PIECE: usize = 1 << 20;

/// Returns `len` bytes in a new array; `read` fills a part of it from an offset on.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    len: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    // numpy takes the memory from the system, so that clearing it costs nothing. Called from Python, it raises MemoryError;
    // `PyArray1::zeros` would panic.
    let array = py.import("numpy")?.call_method1("zeros", (len, "u1"))?.cast_into::<PyArray1<u8>>()?;
    let mut writable = array.try_readwrite()?;
    let mut offset = 0;
    for piece in writable.as_slice_mut()?.chunks_mut(PIECE) {
        py.check_signals()?;
        wait(py, || read(offset, piece))?;
        offset += piece.len() as u64;
    }
    drop(writable);
    Ok(array)
}
