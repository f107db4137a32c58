//! Segments to records.

use std::sync::Arc;
use std::vec::IntoIter;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};

use crate::arrow::c_data::ArrowArray;
use crate::consume::avro_schema::AvroSchema;
use crate::consume::file_schema::FileSchema;
use crate::consume::json_schema::JsonSchema;
use crate::consume::tables::TableSchema;
use crate::parquet::read::{Budget, Footer, GaveUp, Read, Schema, check_leaves, read_leaves};
use crate::python::panics::{self, entry};
use crate::python::py::NoCollection;
use crate::values::avro::datums::{self, DatumReader};
use crate::values::json::objects::{self, ObjectReader};
use crate::values::leaf::Leaf;
use crate::values::made::{self, MakesValues};
use crate::values::schema::{Field, Type};
use crate::values::to_rows::{ColumnReader, RowReader};

/// A Parquet file as our own writers write them. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct File {
    data: Py<PyBytes>,
    footer: Footer,
}

#[pymethods]
impl File {
    /// Read the footer of a file with this checksum; None for a file that is not read natively.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        data: Bound<'_, PyBytes>,
        crc32: u32,
        max_footer_bytes: u64,
    ) -> PyResult<Option<Self>> {
        let bytes = data.as_bytes();
        let footer = guarded(py, "File.open", || match crc32fast::hash(bytes) == crc32 {
            true => Footer::read(bytes, max_footer_bytes),
            false => Err(GaveUp),
        })?;
        Ok(footer.map(|footer| Self { data: data.unbind(), footer }))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// What files with the same schema share, and no others: bytes of the footer.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.footer.key)
    }

    /// The key-value metadata that are this file's own.
    #[getter]
    fn metadata(&self) -> Vec<(&[u8], &[u8])> {
        self.footer.metadata.iter().map(|(key, value)| (&key[..], &value[..])).collect()
    }

    /// Return the schema of this file, which Arrow says has these columns; None if that cannot be.
    fn schema(
        &self,
        py: Python<'_>,
        columns: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Option<FileSchema>> {
        let fields = columns.iter().map(Field::read).collect::<PyResult<Vec<_>>>()?;
        let schema = || Schema::new(self.footer.elements(), fields).ok().map(FileSchema::new);
        given_up(py, panics::caught("File.schema", schema))
    }

    /// Check and decode all columns, without the GIL. Return the records from row `start` on, or None
    /// if Arrow has to judge the file. `named`: of a union, a record comes with its name.
    fn read(
        &self,
        py: Python<'_>,
        schema: &FileSchema,
        start: usize,
        max_values: u64,
        max_bytes: u64,
        named: bool,
    ) -> PyResult<Option<RecordReader>> {
        let leaves = self.detached(py, "File.read", schema, max_values, max_bytes, read_leaves)?;
        self.records(py, schema, leaves, start, Form::Rows { named })
    }

    /// The same, but that the records' values are JSON, each of at most `max_bytes`.
    fn read_json(
        &self,
        py: Python<'_>,
        schema: &JsonSchema,
        start: usize,
        max_values: u64,
        max_bytes: u64,
    ) -> PyResult<Option<RecordReader>> {
        let file = schema.file_schema();
        let leaves =
            self.detached(py, "File.read_json", file, max_values, max_bytes, read_leaves)?;
        self.records(py, file, leaves, start, Form::Json(schema.template(), max_bytes as usize))
    }

    /// The same, but that the records' values are Avro.
    fn read_avro(
        &self,
        py: Python<'_>,
        schema: &AvroSchema,
        start: usize,
        max_values: u64,
        max_bytes: u64,
    ) -> PyResult<Option<RecordReader>> {
        let file = schema.file_schema();
        let leaves =
            self.detached(py, "File.read_avro", file, max_values, max_bytes, read_leaves)?;
        self.records(py, file, leaves, start, Form::Avro(schema.template(), max_bytes as usize))
    }

    /// Check and decode all columns, without the GIL. Return whether each value could be read; if not,
    /// Arrow has to judge the file.
    fn check(
        &self,
        py: Python<'_>,
        schema: &FileSchema,
        max_values: u64,
        max_bytes: u64,
    ) -> PyResult<bool> {
        let check = self.detached(py, "File.check", schema, max_values, max_bytes, check_leaves);
        Ok(check?.is_some())
    }

    /// Check the file and decode some columns, without the GIL. Return what `imported` makes of the
    /// address of a `struct ArrowArray`, from which it may take the columns, as the fields of one
    /// array. None if Arrow has to judge the file.
    fn table<'py>(
        &self,
        py: Python<'py>,
        schema: &TableSchema,
        imported: &Bound<'py, PyAny>,
        max_values: u64,
        max_bytes: u64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let data = self.data.bind(py).as_bytes();
        let of_file = schema.file_schema().get();
        let columns = guarded(py, "File.table", || {
            let budget = Budget::new(max_bytes);
            schema.read(data, &self.footer, of_file.schema(), max_values, budget)
        })?;
        let Some(columns) = columns else { return Ok(None) };
        let mut columns = ArrowArray::new(columns);
        imported.call1((&raw mut columns as usize,)).map(Some)
    }
}

impl File {
    fn records(
        &self,
        py: Python<'_>,
        schema: &FileSchema,
        leaves: Option<Vec<Leaf>>,
        start: usize,
        form: Form<'_>,
    ) -> PyResult<Option<RecordReader>> {
        let Some(leaves) = leaves else { return Ok(None) };
        let rows = self.footer.rows as usize;
        let reader = || RecordReader::new(py, schema, leaves, start, rows, form);
        given_up(py, panics::caught("RecordReader.new", reader).transpose()?.map(Some))
    }

    /// Go through all columns, without the GIL.
    pub fn detached<T: Send>(
        &self,
        py: Python<'_>,
        name: &'static str,
        schema: &FileSchema,
        max_values: u64,
        max_bytes: u64,
        read: fn(&[u8], &Footer, &Schema, u64, Budget) -> Read<T>,
    ) -> PyResult<Option<T>> {
        let data = self.data.bind(py).as_bytes();
        guarded(py, name, || {
            let budget = Budget::new(max_bytes);
            read(data, &self.footer, schema.schema(), max_values, budget)
        })
    }
}

/// Read without the GIL. A panic is a mistake in the reader: the file is given up then, too.
fn guarded<T: Send>(
    py: Python<'_>,
    name: &'static str,
    read: impl FnOnce() -> Read<T> + Send,
) -> PyResult<Option<T>> {
    given_up(py, py.detach(|| panics::caught(name, read).map(Result::ok)))
}

/// Tell of a panic, after which a file is given up.
pub fn given_up<T>(py: Python<'_>, read: Option<Option<T>>) -> PyResult<Option<T>> {
    if read.is_none() {
        panics::tell(py)?;
    }
    Ok(read.flatten())
}

type Leaves = IntoIter<Box<Leaf>>;
/// Values, keys, timestamps and headers of consecutive records.
pub type Lists<'py> =
    (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// What the values of records are; as bytes how they are written, and the most bytes of one.
enum Form<'t> {
    /// `named`: records of unions are tuples of their names and themselves.
    Rows {
        named: bool,
    },
    Json(&'t Arc<objects::Template>, usize),
    Avro(&'t Arc<datums::Template>, usize),
}

/// What makes the records' values.
enum ValueReader {
    Rows(RowReader<Box<Leaf>>),
    Bytes(Box<dyn MakesValues>),
}

/// Makes the records of a file, in order. One thread at a time.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct RecordReader {
    values: ValueReader,
    keys: Option<ColumnReader<Box<Leaf>>>,
    timestamps: Option<ColumnReader<Box<Leaf>>>,
    headers: Option<ColumnReader<Box<Leaf>>>,
    left: usize,
    /// The memory of the columns, for each row.
    row_bytes: usize,
}

impl RecordReader {
    fn new(
        py: Python<'_>,
        schema: &FileSchema,
        leaves: Vec<Leaf>,
        start: usize,
        rows: usize,
        form: Form<'_>,
    ) -> PyResult<Self> {
        let start = start.min(rows);
        let nbytes: usize = leaves.iter().map(Leaf::nbytes).sum();
        let boxed: Vec<_> = leaves.into_iter().map(Box::new).collect();
        let mut leaves: Leaves = boxed.into_iter();
        let (user, kafka) = schema.columns();
        let values = match form {
            Form::Rows { named } => {
                ValueReader::Rows(RowReader::new(py, user, &mut leaves, start, named)?)
            }
            Form::Json(template, most) => {
                let maker = ObjectReader::new(template, &mut leaves, start, most);
                ValueReader::Bytes(Box::new(maker))
            }
            Form::Avro(template, most) => {
                let maker = DatumReader::new(template, &mut leaves, start, most);
                ValueReader::Bytes(Box::new(maker))
            }
        };
        let mut reader = Self {
            values,
            keys: None,
            timestamps: None,
            headers: None,
            left: rows - start,
            row_bytes: nbytes / rows.max(1),
        };
        if let Some(Field { data_type: Type::Struct(members), .. }) = kafka {
            reader.add_members(py, members, &mut leaves, start)?;
        }
        Ok(reader)
    }

    fn add_members(
        &mut self,
        py: Python<'_>,
        members: &[Field],
        leaves: &mut Leaves,
        start: usize,
    ) -> PyResult<()> {
        for member in members {
            // The metadata of records are numbers of milliseconds.
            let is_time = matches!(member.data_type, Type::Timestamp { .. });
            let data_type = if is_time { Type::Long } else { member.data_type.clone() };
            let field = Field { data_type, ..member.clone() };
            let column = ColumnReader::new(py, &field, leaves, start)?;
            match &*member.name {
                "key" => self.keys = Some(column),
                "timestamp" => self.timestamps = Some(column),
                "headers" => self.headers = Some(column.with_tuples()),
                _ => {}
            }
        }
        Ok(())
    }
}

#[pymethods]
impl RecordReader {
    /// How many records are left.
    fn __len__(&self) -> usize {
        self.left
    }

    /// Return values, keys, timestamps and headers of the next records: at most so many, and about so
    /// many bytes in columns, and as bytes, but at least one. `timestamp` is that of records without
    /// one. None: the package has to make these and all that follow.
    fn next<'py>(
        &mut self,
        py: Python<'py>,
        max_rows: usize,
        max_bytes: usize,
        timestamp: i64,
    ) -> PyResult<Option<Lists<'py>>> {
        entry(py, "RecordReader.next", || self.read(py, max_rows, max_bytes, timestamp))
    }
}

impl RecordReader {
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        max_rows: usize,
        max_bytes: usize,
        timestamp: i64,
    ) -> PyResult<Option<Lists<'py>>> {
        let _no_collection = NoCollection::begin(py);
        let rows = max_rows.min(max_bytes / self.row_bytes.max(1)).max(1).min(self.left);
        let mut values = Vec::with_capacity(rows);
        let are_made = match &mut self.values {
            ValueReader::Rows(reader) => reader.read(py, rows, &mut values).map(|()| true)?,
            ValueReader::Bytes(maker) => {
                made::read(&mut **maker, py, rows, max_bytes, &mut values)?
            }
        };
        if !are_made {
            return Ok(None);
        }
        let rows = values.len();
        self.left -= rows;
        let read = |column: &mut Option<ColumnReader<_>>| {
            let mut objects = Vec::with_capacity(rows);
            match column {
                Some(column) => column.read(py, rows, &mut objects).map(|()| Some(objects)),
                None => Ok(None),
            }
        };
        let (keys, timestamps, headers) =
            (read(&mut self.keys)?, read(&mut self.timestamps)?, read(&mut self.headers)?);
        let list = |objects: Vec<Bound<'py, PyAny>>| PyList::new(py, objects);
        let timestamp = PyInt::new(py, timestamp);
        let same_time = || PyList::new(py, (0..rows).map(|_| &timestamp));
        let nulls = || PyList::new(py, (0..rows).map(|_| py.None()));
        Ok(Some((
            list(values)?,
            keys.map_or_else(nulls, list)?,
            timestamps.map_or_else(same_time, list)?,
            headers.map_or_else(nulls, list)?,
        )))
    }
}
