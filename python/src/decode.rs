//! A compressed block that Python reads.

use std::path::Path;
use std::sync::Arc;

use numpy::PyReadwriteArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use seekable::content::{Content, Slice, copy_from};
use seekable::source::FileSource;
use seekable::workers::caller;

use crate::waiting::without_gil;

/// The stored bytes of a block.
#[derive(Debug, FromPyObject)]
pub(crate) enum Stored {
    Bytes(PyBackedBytes),
    /// A range of a file: its descriptor, offset, and length.
    File(i32, u64, u64),
}

impl Stored {
    /// Returns the bytes. A file is opened again, so that its position stays.
    fn content(self) -> seekable::Result<Arc<dyn Content>> {
        Ok(match self {
            Self::Bytes(bytes) => Arc::new(BytesOfPython(bytes)),
            Self::File(fd, offset, len) => {
                let file = FileSource::open(Path::new(&format!("/proc/self/fd/{fd}")))?;
                Arc::new(Slice::new(Arc::new(file), offset, len))
            }
        })
    }
}

/// A `bytes` object.
#[derive(Debug)]
struct BytesOfPython(PyBackedBytes);

impl Content for BytesOfPython {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> seekable::Result<usize> {
        Ok(copy_from(&self.0, offset, buf))
    }
}

/// Decode a block with this compression into all of `out`, without the GIL. `stored` are its bytes, or descriptor, offset and
/// length in an open file. A `ValueError` says why they can't be decoded here; `out` is undefined then.
#[pyfunction]
#[pyo3(signature = (label, stored, out, /))]
pub(crate) fn decode(
    py: Python<'_>,
    label: &str,
    stored: Stored,
    mut out: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let out = out.as_slice_mut()?;
    let decoded = without_gil(py, || asdf_access::decode(label, stored.content()?, out, &mut caller::look))?;
    decoded.map_err(|error| PyValueError::new_err(error.to_string()))
}
