//! Calls without the GIL, which a signal ends, and their errors.

use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use asdf_access::{Error, Result};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use seekable::cache::has_room;
use seekable::sync::locked;
use seekable::workers::caller::unless_given_up;

use crate::ending::{detached, is_over};

pyo3::import_exception!(asdf_mount._error, AsdfMountError);

/// Returns the exception for an error. Its `errno` is that with which a mount answers.
pub(crate) fn exception(error: &Error) -> PyErr {
    AsdfMountError::new_err((error.errno(), error.to_string()))
}

/// Runs a job as [`without_gil`] does. Its error is an `AsdfMountError`.
pub(crate) fn wait<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    without_gil(py, job)?.map_err(|error| exception(&error))
}

/// Memory that a job may take beside its result, and that it may take for each thread that decodes.
const ROOM: u64 = 96 << 20;
const ROOM_OF_THREAD: u64 = 32 << 20;
/// Memory that a further piece of a read may take. The threads have theirs.
const ROOM_OF_PIECE: u64 = 32 << 20;

/// Returns the memory that a job may take beside its result.
fn room_of_job() -> u64 {
    static ROOM_OF_JOB: OnceLock<u64> = OnceLock::new();
    let threads = || thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    *ROOM_OF_JOB.get_or_init(|| ROOM + threads() * ROOM_OF_THREAD)
}

/// Raises MemoryError unless there is so much memory, as under `ulimit -v`: a failed allocation ends the process.
fn check_room(needed: u64) -> PyResult<()> {
    if has_room(needed) {
        return Ok(());
    }
    let message = format!("less than {} MiB of memory are left, which decoding may need", needed >> 20);
    Err(PyMemoryError::new_err(message))
}

/// Runs a job without the GIL. If the handler of a signal raises an exception, as that of Ctrl-C does, the job ends soon,
/// and the exception is returned. Python runs handlers in the main thread only.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    job: impl FnOnce() -> Result<T> + Send,
) -> PyResult<Result<T>> {
    check_room(room_of_job())?;
    run(py, job)
}

fn run<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<Result<T>> {
    let raised = Arc::new(Mutex::new(None));
    let noted = raised.clone();
    let has_given_up = move || {
        if is_over() {
            return true;
        }
        let exception = Python::attach(|py| py.check_signals()).err();
        let mut noted = locked(&*noted);
        *noted = noted.take().or(exception);
        noted.is_some()
    };
    let done = detached(py, || unless_given_up(has_given_up, job));
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
    check_room(room_of_job())?;
    for piece in writable.as_slice_mut()?.chunks_mut(PIECE) {
        py.check_signals()?;
        check_room(ROOM_OF_PIECE)?;
        run(py, || read(offset, piece))?.map_err(|error| exception(&error))?;
        offset += piece.len() as u64;
    }
    drop(writable);
    Ok(array)
}
