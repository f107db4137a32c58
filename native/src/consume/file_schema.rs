//! The columns of files.

use pyo3::prelude::*;

use crate::parquet::read::Schema;

/// The columns of files with the same schema. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct FileSchema(Schema);

impl FileSchema {
    pub fn new(schema: Schema) -> Self {
        Self(schema)
    }

    pub fn schema(&self) -> &Schema {
        &self.0
    }
}
