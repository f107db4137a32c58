//! Segments to Arrow tables.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrow::{Array, Layout, array, leaf_count};
use crate::consume::file_schema::FileSchema;
use crate::parquet::read::{Budget, Footer, Keys, LeafReader, Read, Schema};
use crate::python::panics::entry;
use crate::values::schema::{Field, Type};

/// Some columns of files with the same schema. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct TableSchema {
    schema: Py<FileSchema>,
    columns: Vec<Column>,
}

struct Column {
    field: Field,
    layout: Layout,
    /// The numbers of its leaves.
    leaves: Vec<usize>,
}

#[pymethods]
impl TableSchema {
    /// Each column is the number of a field, the numbers of the members that are read of it, None for
    /// all, and its layout. All numbers ascend.
    #[new]
    fn new(schema: Bound<'_, FileSchema>, columns: Vec<Bound<'_, PyTuple>>) -> PyResult<Self> {
        entry(schema.py(), "TableSchema.new", || {
            let known = schema.get().schema();
            let columns = columns
                .iter()
                .map(|column| Column::read(known, column))
                .collect::<PyResult<_>>()?;
            Ok(Self { schema: schema.clone().unbind(), columns })
        })
    }
}

impl TableSchema {
    pub fn file_schema(&self) -> &Py<FileSchema> {
        &self.schema
    }

    /// Check a whole file, and decode these columns of it.
    pub fn read(
        &self,
        file: &[u8],
        footer: &Footer,
        schema: &Schema,
        max_values: u64,
        budget: Budget,
    ) -> Read<Array> {
        let mut reader = LeafReader::new(file, footer, schema, max_values, budget)?;
        let mut children = Vec::with_capacity(self.columns.len());
        for Column { field, layout, leaves } in &self.columns {
            let mut leaves = reader.read(field, leaves.iter().copied(), Keys::Any)?;
            children.push(array(field, layout, &mut leaves)?);
        }
        reader.finish()?;
        let len = footer.rows as usize;
        Ok(Array { len, nulls: 0, validity: None, buffers: vec![], children })
    }
}

impl Column {
    fn read(schema: &Schema, described: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (number, members, layout): (usize, Option<Vec<usize>>, Bound<'_, PyAny>) =
            described.extract()?;
        let absent = || PyIndexError::new_err("no such column");
        let (field, leaves) = schema.columns().nth(number).ok_or_else(absent)?;
        let (mut field, mut leaves) = (field.clone(), leaves.collect::<Vec<_>>());
        if let (Some(numbers), Type::Struct(members)) = (members, &mut field.data_type) {
            let mut next = leaves.into_iter();
            let mut kept = (Vec::new(), Vec::new());
            for (number, member) in std::mem::take(members).into_iter().enumerate() {
                let own: Vec<_> = next.by_ref().take(leaf_count(&member)).collect();
                if numbers.contains(&number) {
                    kept.0.push(member);
                    kept.1.extend(own);
                }
            }
            (*members, leaves) = kept;
        }
        Ok(Self { field, layout: read_layout(&layout)?, leaves })
    }
}

fn read_layout(described: &Bound<'_, PyAny>) -> PyResult<Layout> {
    let (bits, children): (usize, Vec<Bound<'_, PyAny>>) = described.extract()?;
    Ok(Layout { bits, children: children.iter().map(read_layout).collect::<PyResult<_>>()? })
}
