//! Records of a batch that is sealed: reports read them, and segments are encoded from them.

use std::ops::Range;
use std::sync::Arc;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::parquet::Slots;
use crate::produce::records::Records;
use crate::produce::row_format::headers_field;
use crate::python::new;
use crate::python::panics::entry;
use crate::values::leaf::Values;
use crate::values::to_rows::{ColumnReader, RowReader};

/// Consecutive records of a sealed batch. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct Block {
    pub records: Arc<Records>,
    pub rows: Range<usize>,
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(&self.records) > 1 {
            return Ok(()); // the collector counts each reference once
        }
        self.records.callbacks.visit(&visit)
    }

    /// The records from `start` to `stop`, not copied.
    fn slice(&self, start: usize, stop: usize) -> PyResult<Self> {
        let rows = self.rows(start, stop)?;
        Ok(Self { records: Arc::clone(&self.records), rows })
    }

    /// The records from `start` to `stop` as dicts.
    fn values<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        entry(py, "Block.values", || {
            let rows = self.rows(start, stop)?;
            let fields = self.records.format.get().given_fields();
            let mut leaves = self.records.columns().iter();
            let mut reader = RowReader::new(py, fields, &mut leaves, rows.start, false)?;
            list_of(py, rows.len(), |out| reader.read(py, rows.len(), out))
        })
    }

    /// The key of a record, or None.
    fn key<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        entry(py, "Block.key", || {
            let row = self.row(row)?;
            let keys = self.records.keys();
            let (_, value) = keys.position(row);
            let Values::Strings(strings) = &keys.values else { return Ok(None) };
            if keys.position(row + 1).1 == value {
                return Ok(None);
            }
            new::bytes(py, strings.get(value)).map(Some)
        })
    }

    /// The time of a record, in milliseconds since 1970.
    fn timestamp(&self, py: Python<'_>, row: usize) -> PyResult<i64> {
        entry(py, "Block.timestamp", || Ok(self.times()[self.row(row)?]))
    }

    /// The headers of the records from `start` to `stop`: of each a list of pairs, or None.
    fn headers<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        entry(py, "Block.headers", || {
            let rows = self.rows(start, stop)?;
            // After a panic the last rows may not be in their leaves: those without headers.
            let end = rows.end.min(self.records.rows - self.records.bare_rows);
            let start = rows.start.min(end);
            let mut leaves = self.records.headers().iter();
            let reader = ColumnReader::new(py, &headers_field(), &mut leaves, start)?;
            let mut reader = reader.with_tuples();
            list_of(py, rows.len(), |out| {
                reader.read(py, end - start, out)?;
                out.resize_with(rows.len(), || new::none(py));
                Ok(())
            })
        })
    }

    /// The callback of a record, or None.
    fn callback<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        entry(py, "Block.callback", || {
            let row = self.row(row)?;
            Ok(self.records.callbacks.get(row).map(|callback| callback.bind(py).clone()))
        })
    }

    /// Whether the user has chosen the partition of a record.
    fn is_pinned(&self, row: usize) -> PyResult<bool> {
        let row = self.row(row)?;
        Ok(self.records.pinned.partition_point(|start| *start <= row) % 2 == 1)
    }

    /// The value of a record as it was given, if it was no row and is kept.
    fn given<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        entry(py, "Block.given", || self.records.given.get(py, self.row(row)?))
    }

    /// Whether there are such values.
    #[getter]
    fn has_given(&self) -> bool {
        !self.records.given.is_empty()
    }

    /// Whether the last column is none of the rows': that of what was left of values.
    #[getter]
    fn has_rest(&self) -> bool {
        let format = self.records.format.get();
        format.given_fields().len() < format.fields.len()
    }

    /// Whether no record has a callback.
    #[getter]
    fn is_silent(&self) -> bool {
        self.records.callbacks.are_none()
    }

    /// Whether every consumer decodes the records, whatever encodings add.
    fn is_decodable(&self, py: Python<'_>) -> PyResult<bool> {
        entry(py, "Block.is_decodable", || {
            let most = self.records.format.get().most_decoded;
            // What all of the batch take, these do not exceed.
            Ok(self.records.decoded <= most || self.decoded()? <= most)
        })
    }

    /// The earliest and the latest time of a record.
    fn time_bounds(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        entry(py, "Block.time_bounds", || {
            let times = self.times()[self.rows.clone()].iter();
            Ok(times.fold((i64::MAX, i64::MIN), |(least, most), &time| {
                (least.min(time), most.max(time))
            }))
        })
    }
}

impl Block {
    /// The callback of a record.
    pub fn callback_of<'py>(&self, py: Python<'py>, row: usize) -> Option<Bound<'py, PyAny>> {
        self.records.callbacks.get(self.rows.start + row).map(|callback| callback.bind(py).clone())
    }

    /// What the records take decoded, without what encodings add.
    fn decoded(&self) -> PyResult<usize> {
        let mut decoded = 0;
        for (leaf, size) in self.records.leaves.iter().zip(&self.records.format.get().leaf_sizes) {
            let span = Slots::of_rows(leaf, self.rows.clone())
                .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            decoded += self.rows.len() * size.per_row + span.slots.len() * size.per_slot;
            if let Values::Strings(strings) = &leaf.values {
                decoded += span.values.map(|value| strings.get(value).len()).sum::<usize>();
            }
        }
        Ok(decoded)
    }

    /// Rows of the batch.
    fn rows(&self, start: usize, stop: usize) -> PyResult<Range<usize>> {
        if start > stop || stop > self.rows.len() {
            return Err(PyIndexError::new_err(format!("{start} to {stop} of {}", self.rows.len())));
        }
        Ok(self.rows.start + start..self.rows.start + stop)
    }

    fn row(&self, row: usize) -> PyResult<usize> {
        if row >= self.rows.len() {
            return Err(PyIndexError::new_err(format!("record {row} of {}", self.rows.len())));
        }
        Ok(self.rows.start + row)
    }

    fn times(&self) -> &[i64] {
        match &self.records.times().values {
            Values::I64(times) => times,
            _ => &[],
        }
    }
}

/// A list of so many objects, which `read` appends.
fn list_of<'py>(
    py: Python<'py>,
    count: usize,
    read: impl FnOnce(&mut Vec<Bound<'py, PyAny>>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyList>> {
    let mut objects = Vec::with_capacity(count);
    read(&mut objects)?;
    PyList::new(py, objects)
}
