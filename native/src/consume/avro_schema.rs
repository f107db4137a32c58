//! The columns of files whose records are handed out as Avro.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::consume::file_schema::FileSchema;
use crate::python::panics::entry;
use crate::values::avro::Plan;
use crate::values::avro::datums::Template;

/// How the records of files with the same schema are written as Avro. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct AvroSchema {
    schema: Py<FileSchema>,
    template: Arc<Template>,
}

#[pymethods]
impl AvroSchema {
    /// `fields` describes the type of each of the user's columns, and the header stands in front of each
    /// datum.
    #[new]
    fn new(
        schema: Bound<'_, FileSchema>,
        fields: Vec<Bound<'_, PyAny>>,
        header: Vec<u8>,
    ) -> PyResult<Self> {
        entry(schema.py(), "AvroSchema.new", || {
            let plans = fields.iter().map(Plan::read).collect::<PyResult<_>>()?;
            let (columns, _) = schema.get().columns();
            let template = Template::new(columns, plans, header)
                .ok_or_else(|| PyValueError::new_err("an Avro type is not the column's"))?;
            Ok(Self { schema: schema.clone().unbind(), template: Arc::new(template) })
        })
    }
}

impl AvroSchema {
    pub fn file_schema(&self) -> &FileSchema {
        self.schema.get()
    }

    pub fn template(&self) -> &Arc<Template> {
        &self.template
    }
}
