//! How the values of a topic's plain messages are encoded.

use pyo3::prelude::*;

use crate::plain::avro;
use crate::plain::json;
use crate::plain::lenient::{self, Rules};
use crate::produce::columns::{NotTaken, Taken};
use crate::produce::records::Records;
use crate::produce::row_format::{RowAppender, RowFormat};
use crate::python::panics::entry;
use crate::values::avro::Plan;

/// The encoding of values, and the columns of their rows. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct PlainFormat {
    pub rows: Py<RowFormat>,
    values: Values,
}

enum Values {
    /// `is_exact`: numbers with a point are `Decimal`s to the package.
    Json { is_exact: bool },
    /// JSON objects that may differ.
    Lenient(Rules),
    /// `prefix`: what every value begins with.
    Avro { fields: Vec<Plan>, prefix: Vec<u8> },
}

#[pymethods]
impl PlainFormat {
    /// JSON objects.
    #[staticmethod]
    fn json(py: Python<'_>, rows: Py<RowFormat>, is_exact: bool) -> PyResult<Self> {
        entry(py, "PlainFormat.json", || Ok(Self { rows, values: Values::Json { is_exact } }))
    }

    /// JSON objects that may differ from the columns. `path` are the names on the path to the row,
    /// `keeps` says whether the rest has unknown fields and whether it has values that do not fit,
    /// `grows` whether what has unknown fields is left to the package, and `json_texts` are the places of
    /// the leaves of JSON text.
    #[staticmethod]
    fn lenient_json(
        py: Python<'_>,
        rows: Py<RowFormat>,
        path: Vec<String>,
        keeps: (bool, bool),
        grows: bool,
        coerces: bool,
        json_texts: Vec<usize>,
    ) -> PyResult<Self> {
        entry(py, "PlainFormat.lenient_json", || {
            let json_texts = marked(json_texts, rows.get().leaf_sizes.len());
            let (keeps_unknown, keeps_misfits) = keeps;
            let rules = Rules {
                path,
                keeps_unknown,
                grows,
                keeps_misfits,
                coerces,
                reverses: false,
                json_texts,
                time_forms: Vec::new(),
            };
            Ok(Self { rows, values: Values::Lenient(rules) })
        })
    }

    /// Avro datums of a record; `fields` describes the type of each field.
    #[staticmethod]
    fn avro(
        py: Python<'_>,
        rows: Py<RowFormat>,
        fields: Vec<Bound<'_, PyAny>>,
        prefix: Vec<u8>,
    ) -> PyResult<Self> {
        entry(py, "PlainFormat.avro", || {
            let fields = fields.iter().map(Plan::read).collect::<PyResult<_>>()?;
            Ok(Self { rows, values: Values::Avro { fields, prefix } })
        })
    }
}

/// Which of so many leaves are these.
pub fn marked(places: Vec<usize>, leaves: usize) -> Vec<bool> {
    let mut marks = vec![false; leaves];
    places.into_iter().for_each(|place| marks[place] = true);
    marks
}

impl PlainFormat {
    /// Append a value to the columns of a row.
    #[inline(always)]
    pub fn append(&self, value: &[u8], appender: &mut RowAppender, records: &mut Records) -> Taken {
        match &self.values {
            Values::Json { is_exact } => {
                json::append_row(value, *is_exact, appender, &mut records.leaves)
            }
            Values::Lenient(rules) => {
                lenient::append_row(value, rules, appender, &mut records.leaves)
            }
            Values::Avro { fields, prefix } => {
                let value = value.strip_prefix(&prefix[..]).ok_or(NotTaken)?;
                avro::append_row(value, fields, false, appender, &mut records.leaves)
                    .ok_or(NotTaken)
            }
        }
    }
}
