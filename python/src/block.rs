//! A block of a file.

use asdf_access::Block as Opened;
use asdf_file::container::FactValue;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::file::{File, Saves};
use crate::waiting::filled;

/// A block: its facts, and its decoded bytes.
#[pyclass(frozen, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct Block {
    file: Py<File>,
    number: usize,
    taken: Saves,
}

impl Block {
    fn with<T>(&self, py: Python<'_>, job: impl FnOnce(&Opened) -> PyResult<T>) -> PyResult<T> {
        job(&self.file.get().block(py, self.taken, self.number)?)
    }
}

#[pymethods]
impl Block {
    /// Finds a block by its number.
    #[new]
    fn new(py: Python<'_>, file: Py<File>, number: usize) -> PyResult<Self> {
        let block = Self { taken: file.get().saves(), file, number };
        block.with(py, |_| Ok(()))?;
        Ok(block)
    }

    /// The number of the block, from 0.
    #[getter]
    fn number(&self) -> usize {
        self.number
    }

    /// The facts of its header, by the keys of `blocks.yaml`.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |block| {
            let facts = PyDict::new(py);
            for fact in block.typed_facts().iter() {
                match &fact.value {
                    FactValue::Number(number) | FactValue::Size(number) => {
                        facts.set_item(fact.key(), number)?
                    }
                    FactValue::Word(text) | FactValue::Quoted(text) => facts.set_item(fact.key(), text)?,
                }
            }
            Ok(facts)
        })
    }

    /// The number of decoded bytes.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |block| Ok(usize::try_from(block.len())?))
    }

    /// Reads decoded bytes from an offset on: fewer than `length` only at the end of the block.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyArray1<u8>>> {
        self.with(py, |block| {
            let length = length.min(block.len().saturating_sub(offset));
            filled(py, length, |at, bytes| block.read_exact_at(offset + at, bytes))
        })
    }
}
