//! An array of a file.

use std::sync::Arc;

use asdf_access::{Array as Opened, Selection};
use numpy::PyArray1;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::file::{File, Saves};
use crate::waiting::{exception, filled, wait};

/// An array, of which any part can be read.
#[pyclass(frozen, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct Array {
    file: Py<File>,
    path: String,
    taken: Saves,
}

impl Array {
    fn with<T>(&self, py: Python<'_>, job: impl FnOnce(&Opened) -> PyResult<T>) -> PyResult<T> {
        job(&*self.find(py)?)
    }

    fn find(&self, py: Python<'_>) -> PyResult<Arc<Opened>> {
        let found = self.file.get().array(py, self.taken, &self.path)?;
        found.ok_or_else(|| PyKeyError::new_err(self.path.clone()))
    }
}

#[pymethods]
impl Array {
    /// Finds the array at a path; KeyError if there is none.
    #[new]
    fn new(py: Python<'_>, file: Py<File>, path: String) -> PyResult<Self> {
        let array = Self { taken: file.get().saves(), file, path };
        array.find(py)?;
        Ok(array)
    }

    /// The type of an element as `.npy` files have it: a text in quotes, or a list of fields.
    #[getter]
    fn descr(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |array| Ok(array.datatype.descr(array.byteorder)))
    }

    /// The length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with(py, |array| PyTuple::new(py, &array.shape))
    }

    /// The offset in the file at which the elements lie as they are; None if they do not.
    #[getter]
    fn stored(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let array = self.find(py)?;
        self.file.get().with(py, |file| file.stored(&array))
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
            let selected = array.select(&selections).map_err(|error| exception(&error))?;
            let len = selected.len().saturating_mul(selected.item_size());
            filled(py, len, |offset, bytes| selected.read_exact_at(offset, bytes))
        })
    }
}
