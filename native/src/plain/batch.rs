//! Rows of plain messages of one partition, each with the identity that its offset gives it.

use std::fmt::Write as _;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::plain::format::PlainFormat;
use crate::plain::messages::{Message, PlainMessages};
use crate::produce::batch::{Filling, append_metadata, raise};
use crate::produce::block::Block;
use crate::produce::columns::{NotTaken, Taken};
use crate::produce::from_rows::append_tuple;
use crate::produce::given::GivenLimits;
use crate::produce::records::Records;
use crate::produce::row_format::RowAppender;
use crate::python::gil::{GilCell, InUse};
use crate::python::panics::{self, entry};
use crate::python::py::Ref;
use crate::values::leaf::{Leaf, Values};
use crate::values::strings::Strings;

/// Rows of plain messages, until it is sealed. Any thread may append, one at a time.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct PlainBatch(GilCell<Open>);

struct Open {
    format: Py<PlainFormat>,
    filling: Filling,
    blocks: Blocks,
    /// The offsets of the first row and of the last one.
    first: i64,
    last: i64,
    /// The checksums and the offset of each row's message.
    digests: Vec<u8>,
}

/// The names of blocks of offsets, which are the rows' segments.
struct Blocks {
    prefix: String,
    rows: i64,
    /// The block of the last row, and its name.
    number: i64,
    name: String,
}

#[pymethods]
impl PlainBatch {
    /// Rows have the names of their blocks for segments: `prefix`, and the number of a block, which has
    /// `block_rows` offsets.
    #[new]
    fn new(
        py: Python<'_>,
        format: Py<PlainFormat>,
        prefix: String,
        block_rows: i64,
    ) -> PyResult<Self> {
        entry(py, "PlainBatch.new", || {
            let rows = format.get().rows.clone_ref(py);
            Ok(Self(GilCell::new(Open {
                filling: Filling::begin(py, rows, usize::MAX, usize::MAX, GivenLimits::NONE)?,
                format,
                blocks: Blocks { prefix, rows: block_rows, number: -1, name: String::new() },
                first: -1,
                last: -1,
                digests: Vec::new(),
            })))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.filling.rows())
    }

    /// Whether no row is appended any more: the core has panicked on one.
    #[getter]
    fn is_given_up(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.format.get().rows.get().is_given_up())
    }

    /// The memory of the rows, in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.filling.nbytes())
    }

    /// The offset of the first row.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.get(py)?.first)
    }

    /// The offset of the last row.
    #[getter]
    fn last(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.get(py)?.last)
    }

    /// What identifies the messages: of each the checksums and the offset.
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.get(py)?.digests))
    }

    /// Append the messages from `start` to before `stop`; returns the index of the first that is not
    /// taken, or `stop`.
    fn take(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PlainMessages>,
        start: usize,
        stop: usize,
    ) -> PyResult<usize> {
        let rows = self.get(py)?.filling.rows();
        let take = || self.get(py)?.take(py, messages.get(), start, stop);
        let Some(end) = panics::caught("PlainBatch.take", take) else {
            let mut open = self.get(py)?;
            open.filling.give_up();
            panics::tell(py)?;
            return Ok(start + open.filling.rows() - rows);
        };
        end
    }

    /// Append a row for a message: a tuple of values, as `Columns.take` returns it. False: it does not
    /// fit the columns.
    fn append(
        &self,
        row: &Bound<'_, PyAny>,
        messages: &Bound<'_, PlainMessages>,
        index: usize,
    ) -> PyResult<bool> {
        let py = row.py();
        let append = || -> PyResult<bool> {
            let message = messages.get().get(index)?;
            let values = |appender: &mut RowAppender, records: &mut Records| {
                let RowAppender { columns, appending, .. } = appender;
                appending.plain = true;
                append_tuple(columns, Ref::of(row), 0, &mut records.leaves, appending)
            };
            Ok(self.get(py)?.add(py, message, values))
        };
        let Some(appended) = panics::caught("PlainBatch.append", append).transpose()? else {
            self.get(py)?.filling.give_up();
            panics::tell(py)?;
            return Ok(false);
        };
        if !appended {
            raise(py)?;
        }
        Ok(appended)
    }

    /// End the batch, and return its rows.
    fn seal(&self, py: Python<'_>) -> PyResult<Block> {
        entry(py, "PlainBatch.seal", || self.get(py)?.filling.seal(py))
    }
}

impl PlainBatch {
    fn get<'a>(&'a self, py: Python<'a>) -> PyResult<InUse<'a, Open>> {
        self.0.get(py).ok_or_else(|| PyRuntimeError::new_err("the batch is in use"))
    }
}

impl Open {
    fn take(
        &mut self,
        py: Python<'_>,
        messages: &PlainMessages,
        start: usize,
        stop: usize,
    ) -> PyResult<usize> {
        let format = self.format.clone_ref(py);
        for index in start..stop {
            let message = messages.get(index)?;
            let Some(value) = &message.value else { return Ok(index) };
            let value = value.as_bytes(py);
            let append = |appender: &mut RowAppender, records: &mut Records| {
                format.get().append(value, appender, records)
            };
            if !self.add(py, message, append) {
                return Ok(index);
            }
        }
        Ok(stop)
    }

    /// Append a row: its values by `append`, and the rest from its message; says whether it is taken.
    #[inline(always)]
    fn add(
        &mut self,
        py: Python<'_>,
        message: &Message,
        append: impl FnOnce(&mut RowAppender, &mut Records) -> Taken,
    ) -> bool {
        let Self { filling, blocks, .. } = self;
        let added = filling.add_by(py, |appender, records| {
            append(appender, records)?;
            let key = Ref::of_stored(py, &message.key);
            let mut headers = Ref::of_stored(py, &message.headers);
            // Kafka does not tell no headers from an empty list of them.
            if headers.items().is_some_and(<[_]>::is_empty) {
                headers = Ref::none(py);
            }
            append_metadata(appender, records, key, message.time, headers)?;
            blocks.append(message.offset, records)
        });
        if added.is_none() {
            return false;
        }
        if self.digests.is_empty() {
            self.first = message.offset;
        }
        self.last = message.offset;
        self.digests.extend_from_slice(&message.checksums.to_le_bytes());
        self.digests.extend_from_slice(&message.offset.to_le_bytes());
        true
    }
}

impl Blocks {
    /// Append the identity of a row.
    #[inline(always)]
    fn append(&mut self, offset: i64, records: &mut Records) -> Taken {
        let (number, row) = (offset / self.rows, offset % self.rows);
        if number != self.number {
            self.name.clear();
            write!(self.name, "{}{number}", self.prefix).map_err(|_| NotTaken)?;
            self.number = number;
        }
        let [segments, rows] = records.identities.get_or_insert_with(|| {
            let leaf = |values| Leaf::new(values, 0, 0, true);
            [leaf(Values::Strings(Strings::new(true))), leaf(Values::I32(Vec::new()))]
        });
        if let (Values::Strings(names), Values::I32(numbers)) =
            (&mut segments.values, &mut rows.values)
        {
            names.push_bytes(self.name.as_bytes()).ok_or(NotTaken)?;
            numbers.push(row as i32);
        }
        segments.present(0);
        rows.present(0);
        Ok(())
    }
}
