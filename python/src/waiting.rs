//! Calls without the GIL, which a signal ends, and their errors.

use std::sync::{Arc, Mutex};

use asdf_access::{Error, Result};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView, PySlice};
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

/// Runs a job without the GIL. If the handler of a signal raises an exception, as that of Ctrl-C does, the job ends soon,
/// and the exception is returned. Python runs handlers in the main thread only.
pub(crate) fn wait<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let noted = raised.clone();
    let has_given_up = move || {
        let exception = Python::attach(|py| py.check_signals()).err();
        let mut noted = locked(&*noted);
        *noted = noted.take().or(exception);
        noted.is_some()
    };
    let done = py.detach(|| unless_given_up(has_given_up, job));
    if let Some(exception) = locked(&*raised).take() {
        return Err(exception);
    }
    done.map_err(|error| exception(py, &error))
}

/// Bytes that are read at once. After each of these pieces, Ctrl-C ends a read.
const PIECE: u64 = 1 << 20;

/// Returns `len` bytes in a new buffer; `read` fills a part of it from an offset on.
///
/// Many bytes are copied piece by piece into memory of numpy's, which is not written before: it would take long, with the
/// GIL.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    len: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let piece = |offset: u64, len: u64| {
        PyByteArray::new_with(py, usize::try_from(len)?, |bytes| wait(py, || read(offset, bytes)))
    };
    if len <= PIECE {
        return PyMemoryView::from(piece(0, len)?.as_any());
    }
    let whole = py.import("numpy")?.call_method1("empty", (len, "u1"))?;
    for offset in (0..len).step_by(PIECE as usize) {
        py.check_signals()?;
        let end = len.min(offset + PIECE);
        whole.set_item(
            PySlice::new(py, offset.try_into()?, end.try_into()?, 1),
            piece(offset, end - offset)?,
        )?;
    }
    PyMemoryView::from(&whole)
}
