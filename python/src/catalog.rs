//! The catalogue of many files.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

use asdf_access::catalog::{self, Request};
use asdf_access::options::Options;
use asdf_access::{Error, Kind, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekable::sync::locked;
use seekable::workers::caller::{LOOK, is_gone};

use crate::arguments::{list_of_options, source_of};
use crate::process::Own;
use crate::waiting::{exception, wait};

/// Number of lines that wait for the reader.
const AHEAD: usize = 64;

type Lines = Receiver<Result<Vec<u8>>>;

/// The lines of the catalogue, as an iterator.
#[pyclass(frozen, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct Catalog {
    lines: Own<Mutex<Lines>>,
}

#[pymethods]
impl Catalog {
    /// Begins to describe files: paths, directories and addresses.
    #[new]
    fn new(
        paths: Vec<Bound<'_, PyAny>>,
        since: Option<PathBuf>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let paths = paths.iter().map(source_of).collect::<PyResult<Vec<PathBuf>>>()?;
        let list = list_of_options(options, None)?;
        let options = Options::parse([&list.into()]).map_err(|error| exception(&error))?;
        let request = Request { since, remote: options.remote, ..Request::default() };
        let (sender, lines) = sync_channel(AHEAD);
        let describe = move || {
            let lines = sender.clone();
            // An iterator that is not read to its end hangs up.
            let hung_up = |_| Error::new(Kind::Changed, "the reader has ended");
            let done = catalog::each(paths, &request, &mut |line| lines.send(Ok(line.text)).map_err(hung_up));
            if let Err(error) = done {
                let _ = sender.send(Err(error));
            }
        };
        let started = thread::Builder::new().name("catalog".into()).spawn(describe);
        started.map_err(|error| exception(&error.into()))?;
        Ok(Self { lines: Own::new(Mutex::new(lines)) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let forked = || Error::new(Kind::Changed, "the process was forked; begin the catalogue anew");
        let lines = self.lines.get().ok_or_else(|| exception(&forked()))?;
        let line = wait(py, || {
            loop {
                match locked(lines).recv_timeout(LOOK) {
                    Ok(line) => return line.map(Some),
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                    Err(RecvTimeoutError::Timeout) if is_gone() => return Ok(None),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })?;
        Ok(line.map(|line| PyBytes::new(py, &line)))
    }
}
