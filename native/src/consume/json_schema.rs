//! The columns of files whose records are handed out as JSON.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pyo3::prelude::*;

use crate::consume::file_schema::FileSchema;
use crate::python::panics::entry;
use crate::values::json::objects::{Said, Template};
use crate::values::time_form::Described;

/// How the records of files with the same schema are written as JSON. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct JsonSchema {
    schema: Py<FileSchema>,
    template: Arc<Template>,
}

#[pymethods]
impl JsonSchema {
    /// The name of the column of the rest; the paths of the fields whose null says null, None for all,
    /// of the columns of JSON text, and of those of UUIDs; the forms of columns of times.
    #[new]
    fn new(
        schema: Bound<'_, FileSchema>,
        rest: Option<String>,
        nulls: Option<HashSet<String>>,
        texts: HashSet<String>,
        uuids: HashSet<String>,
        times: HashMap<String, Described>,
    ) -> PyResult<Self> {
        entry(schema.py(), "JsonSchema.new", || {
            let (columns, _) = schema.get().columns();
            let template = Template::new(columns, &Said { rest, nulls, texts, uuids, times });
            Ok(Self { schema: schema.clone().unbind(), template: Arc::new(template) })
        })
    }
}

impl JsonSchema {
    pub fn file_schema(&self) -> &FileSchema {
        self.schema.get()
    }

    pub fn template(&self) -> &Arc<Template> {
        &self.template
    }
}
