//! What reads values that are given to `produce` as bytes, and can be made again.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::plain::avro;
use crate::plain::format::marked;
use crate::plain::lenient::Rules;
use crate::produce::columns::{NotTaken, Taken};
use crate::produce::row_format::{Decoder, RowAppender, RowFormat};
use crate::python::panics::entry;
use crate::values::avro::Plan;
use crate::values::leaf::Leaf;

/// Read values that are JSON objects into rows, of which equal objects can be made again. `has_rest`:
/// the last column is for what finds no column; `json_texts` are the places of the leaves of JSON text.
#[pyfunction]
pub fn read_json(
    py: Python<'_>,
    rows: &Bound<'_, RowFormat>,
    has_rest: bool,
    json_texts: Vec<usize>,
) -> PyResult<()> {
    entry(py, "read_json", || {
        let rows = rows.get();
        let json_texts = marked(json_texts, rows.leaf_sizes.len());
        rows.decode(py, Box::new(Rules::reversible(has_rest, json_texts)))?;
        rows.ask_nulls(py)
    })
}

/// What stands in front of every Avro datum of a topic, once the first of them has settled it. For any
/// thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct AvroHeader(OnceLock<Vec<u8>>);

#[pymethods]
impl AvroHeader {
    #[new]
    fn new() -> Self {
        Self(OnceLock::new())
    }

    /// What it is; None: nothing has settled it.
    #[getter]
    fn settled<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.get().map(|header| PyBytes::new(py, header))
    }

    /// Have it be this, unless it is settled; return what it is.
    fn settle<'py>(&self, py: Python<'py>, header: Vec<u8>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.get_or_init(|| header))
    }
}

/// Read values that are Avro datums into rows, of which the same bytes can be made again; `fields`
/// describes the type of each field. The package settles the header.
#[pyfunction]
pub fn read_avro(
    py: Python<'_>,
    rows: &Bound<'_, RowFormat>,
    fields: Vec<Bound<'_, PyAny>>,
    header: Py<AvroHeader>,
) -> PyResult<()> {
    entry(py, "read_avro", || {
        let plans = fields.iter().map(Plan::read).collect::<PyResult<_>>()?;
        rows.get().decode(py, Box::new(Datums { plans, header }))
    })
}

/// Avro datums that the same bytes are made of again.
struct Datums {
    plans: Vec<Plan>,
    header: Py<AvroHeader>,
}

impl Decoder for Datums {
    fn has_rest(&self) -> bool {
        false
    }

    fn append(&self, value: &[u8], appender: &mut RowAppender, leaves: &mut [Leaf]) -> Taken {
        let header = self.header.get().0.get().ok_or(NotTaken)?;
        let datum = value.strip_prefix(&header[..]).ok_or(NotTaken)?;
        avro::append_row(datum, &self.plans, true, appender, leaves).ok_or(NotTaken)
    }
}
