//! An array of a file.

use std::sync::{Arc, Mutex};

use asdf_access::{Array as Opened, Error, Kind, Selection};
use numpy::PyArray1;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use seekable::sync::locked;

use crate::file::File;
use crate::process::Own;
use crate::waiting::{exception, filled, wait};

/// An array, of which any part can be read.
#[pyclass(frozen, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct Array {
    file: Py<File>,
    path: String,
    /// Locked for moments only, with the GIL.
    array: Mutex<Arc<Own<Opened>>>,
}

impl Array {
    /// Returns the array, which a forked process finds anew.
    fn opened(&self, py: Python<'_>) -> PyResult<Arc<Own<Opened>>> {
        let array = locked(&self.array).clone();
        if array.get().is_some() {
            return Ok(array);
        }
        let found = self.file.get().with(py, |file| file.array(&self.path))?;
        let array = Arc::new(Own::new(found));
        *locked(&self.array) = array.clone();
        Ok(array)
    }

    fn with<T>(&self, py: Python<'_>, job: impl FnOnce(&Opened) -> PyResult<T>) -> PyResult<T> {
        let array = self.opened(py)?;
        match array.get() {
            Some(array) => job(array),
            None => Err(exception(py, &Error::new(Kind::Changed, "the process was forked meanwhile"))),
        }
    }
}

#[pymethods]
impl Array {
    /// Finds the array at a path; KeyError if there is none.
    #[new]
    fn new(py: Python<'_>, file: Py<File>, path: String) -> PyResult<Self> {
        let found = file.get().with(py, |file| match file.array(&path) {
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            found => found.map(Some),
        })?;
        let array = found.ok_or_else(|| PyKeyError::new_err(path.clone()))?;
        Ok(Self { file, path, array: Mutex::new(Arc::new(Own::new(array))) })
    }

    /// The type of an element as `.npy` files have it: a text in quotes, or a list of fields.
    #[getter]
    fn descr(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |array| Ok(array.datatype.descr(array.byteorder)))
    }

    /// The length of each dimension.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.with(py, |array| Ok(array.shape.clone()))
    }

    /// The offset in the file at which the elements lie as they are; None if they do not.
    #[getter]
    fn stored(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let array = self.opened(py)?;
        self.file.get().with(py, |file| array.get().map_or(Ok(None), |array| file.stored(array)))
    }

    /// The lengths of chunks of about so many bytes, for each dimension; one length if all but the last are equal.
    fn chunks(&self, py: Python<'_>, bytes: u64) -> PyResult<Vec<Vec<u64>>> {
        self.with(py, |array| wait(py, || Ok(array.chunks(bytes))))
    }

    /// Reads the elements at a start, a step and a count for each dimension, in C order.
    fn read<'py>(
        &self,
        py: Python<'py>,
        selections: Vec<(u64, i64, u64)>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let selections = selections.into_iter().map(|(start, step, count)| Selection { start, step, count });
        let selections: Vec<Selection> = selections.collect();
        self.with(py, |array| {
            let selected = array.select(&selections).map_err(|error| exception(py, &error))?;
            let len = selected.len().saturating_mul(selected.item_size());
            filled(py, len, |offset, bytes| selected.read_exact_at(offset, bytes))
        })
    }
}
