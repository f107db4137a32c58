//! The columns of files.

use pyo3::prelude::*;

use crate::parquet::read::Schema;
use crate::values::schema::Field;

/// The column of the records' metadata, which comes last.
const KAFKA_COLUMN: &str = "_kafka";

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

    /// The columns of the user's, and that of the records' metadata.
    pub fn columns(&self) -> (&[Field], Option<&Field>) {
        match self.0.fields.split_last() {
            Some((last, user)) if &*last.name == KAFKA_COLUMN => (user, Some(last)),
            _ => (&self.0.fields, None),
        }
    }
}
