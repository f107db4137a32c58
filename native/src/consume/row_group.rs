//! Small files as the rows of one.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::consume::decoder::File;
use crate::consume::file_schema::FileSchema;
use crate::parquet::read::read_leaves;
use crate::produce::encoder::Encoder;
use crate::python::panics::entry;
use crate::values::leaf::Leaf;

/// Rows of files with the same schema, to be encoded together. One thread at a time.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct RowGroup {
    /// None once appending has failed halfway.
    leaves: Option<Vec<Leaf>>,
}

#[pymethods]
impl RowGroup {
    #[new]
    fn new() -> Self {
        Self { leaves: Some(Vec::new()) }
    }

    /// What the rows take in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.leaves.iter().flatten().map(Leaf::nbytes).sum()
    }

    /// Check and decode all columns of a file, without the GIL, and append its rows. Return False,
    /// and append none, if Arrow has to judge the file.
    fn append(
        &mut self,
        py: Python<'_>,
        file: &File,
        schema: &FileSchema,
        max_values: u64,
        max_bytes: u64,
    ) -> PyResult<bool> {
        let read =
            file.detached(py, "RowGroup.append", schema, max_values, max_bytes, read_leaves)?;
        let Some(read) = read else { return Ok(false) };
        entry(py, "RowGroup.extend", || {
            let mut leaves = self.leaves.take().ok_or_else(damaged)?;
            if leaves.is_empty() {
                leaves = read.iter().map(Leaf::none).collect();
            }
            if !leaves.iter_mut().zip(&read).all(|(leaf, more)| leaf.extend(more)) {
                return Err(damaged());
            }
            self.leaves = Some(leaves);
            Ok(true)
        })
    }

    /// Return the rows as one file, without the GIL, by an encoder of these columns, `_kafka` among
    /// them, that knows of no metadata.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        encoder: &Bound<'py, Encoder>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        entry(py, "RowGroup.encode", || {
            let leaves = self.leaves.as_deref().ok_or_else(damaged)?;
            encoder.borrow_mut().write_leaves(py, leaves)
        })
    }
}

fn damaged() -> PyErr {
    PyRuntimeError::new_err("rows were not appended as a whole")
}
