//! Batches: rows that are appended one by one, until they are sealed.

use std::sync::Arc;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::produce::block::Block;
use crate::produce::columns::{Appending, NotTaken, Taken};
use crate::produce::from_rows::{append_record, append_tuple};
use crate::produce::given::GivenLimits;
use crate::produce::memory_bound::Usage;
use crate::produce::records::{Records, appender};
use crate::produce::row_format::{RowAppender, RowFormat};
use crate::python::gil::{GilCell, InUse};
use crate::python::panics::{self, entry};
use crate::python::py::Ref;
use crate::values::clock;
use crate::values::leaf::{Leaf, Values};
use crate::values::size::Size;

/// An open batch: rows are appended until it is sealed. Any thread may, one at a time.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct Batch(GilCell<Filling>);

pub struct Filling {
    format: Py<RowFormat>,
    records: Option<Records>,
    /// The bytes of all rows as they were appended.
    nbytes: usize,
    /// And in the memory of who decodes them, without what encodings add.
    decoded: usize,
    max_rows: usize,
    max_bytes: usize,
    max_decoded: usize,
    given_limits: GivenLimits,
}

#[pymethods]
impl Batch {
    /// Take records until there are `max_rows`, they take `max_bytes`, or a few more would be too
    /// many for a consumer. Of values that are no rows, take those of `longest_value` bytes at most, and
    /// keep those from `kept_value` on.
    #[new]
    #[pyo3(signature = (
        row_format, max_rows, max_bytes, *, longest_value=usize::MAX, kept_value=usize::MAX
    ))]
    fn new(
        py: Python<'_>,
        row_format: Py<RowFormat>,
        max_rows: usize,
        max_bytes: usize,
        longest_value: usize,
        kept_value: usize,
    ) -> PyResult<Self> {
        entry(py, "Batch.new", || {
            let limits = GivenLimits { longest: longest_value, kept: kept_value };
            Ok(Self(GilCell::new(Filling::begin(py, row_format, max_rows, max_bytes, limits)?)))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.rows())
    }

    /// The memory of the rows, in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.nbytes)
    }

    /// Whether the batch takes no more records.
    #[getter]
    fn is_full(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.is_full())
    }

    /// Append a record, and charge it to `usage`; False: it does not fit the columns.
    ///
    /// `row` has a tuple of values, as `Columns.take` returns it. The caller has seen to the bounds.
    /// `pinned`: the user has chosen the partition. `given`: what the row was given as, if it is kept.
    #[pyo3(signature = (row, key, timestamp, headers, callback, usage, pinned=false, given=None))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a record")]
    fn append(
        &self,
        row: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
        timestamp: i64,
        headers: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        usage: &Bound<'_, Usage>,
        pinned: bool,
        given: Option<&Bound<'_, PyBytes>>,
    ) -> PyResult<bool> {
        let py = row.py();
        let record = NewRecord {
            row: Ref::of(row),
            key: Ref::of(key),
            timestamp,
            headers: Ref::of(headers),
            callback: Ref::of(callback),
            pinned,
            given: given.map(|given| Ref::of(given.as_any())),
        };
        let add = || self.get(py).map(|mut filling| filling.add(py, record, true, |_| true));
        let Some(appended) = panics::caught("Batch.append", add).transpose()? else {
            self.get(py)?.give_up();
            panics::tell(py)?;
            return Ok(false);
        };
        match appended {
            Some(nbytes) => usage.get().charge(nbytes as i64, 1),
            None => raise(py)?,
        }
        Ok(appended.is_some())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visit_all = |filling: &Filling| Some(filling.records.as_ref()?.callbacks.visit(&visit));
        self.0.visit(&visit, visit_all).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let records = self.0.get(py).and_then(|mut filling| filling.records.take());
        drop(records); // it may run code of the user's
    }

    /// End the batch, and return its records. With an error it goes on.
    fn seal(&self, py: Python<'_>) -> PyResult<Block> {
        let block = entry(py, "Batch.seal", || self.get(py)?.seal(py))?;
        if block.records.are_damaged
            && let Err(error) = panics::tell(py)
        {
            error.write_unraisable(py, None); // the records must not be lost
        }
        Ok(block)
    }
}

/// Raise the exception that has kept a record from being appended, if it was one.
#[inline(always)]
pub fn raise(py: Python<'_>) -> PyResult<()> {
    PyErr::take(py).map_or(Ok(()), Err)
}

/// The arguments of one `produce`.
pub struct NewRecord<'a> {
    pub row: Ref<'a>,
    pub key: Ref<'a>,
    /// In milliseconds; 0: now.
    pub timestamp: i64,
    pub headers: Ref<'a>,
    pub callback: Ref<'a>,
    /// Whether the user has chosen the partition.
    pub pinned: bool,
    /// What the row was given as, if it is not that.
    pub given: Option<Ref<'a>>,
}

impl Batch {
    /// Use it.
    fn get<'a>(&'a self, py: Python<'a>) -> PyResult<InUse<'a, Filling>> {
        self.filling(py).ok_or_else(|| PyRuntimeError::new_err("the batch is in use"))
    }

    /// Use it; None while somebody else does.
    #[inline(always)]
    pub fn filling<'a>(&'a self, py: Python<'a>) -> Option<InUse<'a, Filling>> {
        self.0.get(py)
    }
}

impl Filling {
    /// See `Batch`.
    pub fn begin(
        py: Python<'_>,
        row_format: Py<RowFormat>,
        max_rows: usize,
        max_bytes: usize,
        given_limits: GivenLimits,
    ) -> PyResult<Self> {
        let most = row_format.get().most_decoded;
        let records = Some(Records::begin(py, &row_format)?);
        Ok(Self {
            format: row_format,
            records,
            nbytes: 0,
            decoded: 0,
            max_rows,
            max_bytes,
            max_decoded: most - most / 8,
            given_limits,
        })
    }

    pub fn rows(&self) -> usize {
        self.records.as_ref().map_or(0, |records| records.rows)
    }

    /// The bytes of all rows as they were appended.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Whether the batch takes no more records.
    pub fn is_full(&self) -> bool {
        self.nbytes >= self.max_bytes
            || self.rows() >= self.max_rows
            || self.decoded >= self.max_decoded
    }

    /// Whether the batch takes records: it is neither full nor sealed.
    pub fn is_open(&self) -> bool {
        self.records.is_some() && !self.is_full()
    }

    /// Append a record wholly, and return the bytes that it takes, or not at all.
    ///
    /// `plain`: its values are as `Columns.take` returns them.
    #[inline(always)]
    pub fn add(
        &mut self,
        py: Python<'_>,
        record: NewRecord<'_>,
        plain: bool,
        has_room: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let limits = self.given_limits;
        let append = |appender: &mut RowAppender, records: &mut Records| {
            appender.appending.plain = plain;
            append_parts(appender, records, &record, limits)?;
            if !has_room(appender.appending.size.nbytes) {
                return Err(NotTaken);
            }
            records.callbacks.push(records.rows, record.callback);
            if record.pinned != records.is_pinned_at_end() {
                records.pinned.push(records.rows);
            }
            Ok(())
        };
        self.add_by(py, append)
    }

    /// Append a row by `append` wholly, and return the bytes that it takes, or not at all.
    #[inline(always)]
    pub fn add_by(
        &mut self,
        py: Python<'_>,
        append: impl FnOnce(&mut RowAppender, &mut Records) -> Taken,
    ) -> Option<usize> {
        let records = self.records.as_mut()?;
        let format = self.format.get();
        if format.is_given_up() {
            return None;
        }
        let mut appender = format.rows(py)?;
        appender.appending.size = format.row_size;
        if append(&mut appender, records).is_err() {
            records.undo();
            return None;
        }
        let Size { nbytes, decoded } = appender.appending.size;
        records.rows += 1;
        self.nbytes += nbytes;
        self.decoded += decoded;
        Some(nbytes)
    }
}

impl Filling {
    pub fn seal(&mut self, py: Python<'_>) -> PyResult<Block> {
        let format = self.format.get();
        let mut appender = appender(format, py)?;
        let Some(mut records) = self.records.take() else {
            return Err(PyRuntimeError::new_err("the batch is sealed"));
        };
        records.decoded = self.decoded;
        let finished = panics::caught("finish", || {
            records.append_bare_rows();
            appender.finish(&mut records.leaves);
            for leaf in records.identities.iter_mut().flatten() {
                if let Values::Strings(strings) = &mut leaf.values {
                    strings.finish();
                }
            }
        });
        if finished.is_none() {
            format.give_up();
            records.are_damaged = true;
        }
        let rows = 0..records.rows;
        Ok(Block { records: Arc::new(records), rows })
    }

    /// Remove what was appended of a row in which the core has panicked, and append no other.
    #[cold]
    pub fn give_up(&mut self) {
        self.format.get().give_up();
        if let Some(records) = &mut self.records {
            records.are_damaged |= panics::caught("undo", || records.undo()).is_none();
        }
    }
}

#[inline(always)]
fn append_parts(
    appender: &mut RowAppender,
    records: &mut Records,
    record: &NewRecord<'_>,
    limits: GivenLimits,
) -> Result<(), NotTaken> {
    let leaves = &mut records.leaves[..];
    if appender.appending.plain {
        let RowAppender { columns, appending, .. } = appender;
        append_tuple(columns, record.row, 0, leaves, appending)?;
        if let Some(given) = record.given {
            appender.appending.size.nbytes += records.given.keep(records.rows, given);
        }
    } else if let Some(decoder) = records.format.get().decoder() {
        records.given.append(decoder, appender, leaves, records.rows, record, limits)?;
    } else {
        let RowAppender { columns, template, appending, .. } = appender;
        append_record(columns, template, record.row, 0, leaves, appending)?;
    }
    let time = if record.timestamp == 0 { clock::now_ms() } else { record.timestamp };
    append_metadata(appender, records, record.key, time, record.headers)
}

/// Append what a record has besides its value; `headers` are a list or None.
#[inline(always)]
pub fn append_metadata(
    appender: &mut RowAppender,
    records: &mut Records,
    key: Ref<'_>,
    time: i64,
    headers: Ref<'_>,
) -> Taken {
    let RowAppender { appending, places, .. } = appender;
    append_key(&mut records.leaves[places.keys], key, appending)?;
    let times = &mut records.leaves[places.times];
    if let Values::I64(times) = &mut times.values {
        times.push(time);
    }
    times.present(0);
    if headers.is_none() {
        records.bare_rows += 1;
    } else {
        records.append_bare_rows();
        append_headers(appender, headers, &mut records.leaves)?;
    }
    Ok(())
}

#[inline(always)]
fn append_key(keys: &mut Leaf, key: Ref<'_>, appending: &mut Appending) -> Result<(), NotTaken> {
    if key.is_none() {
        keys.absent(0, 0);
        return Ok(());
    }
    let Values::Strings(strings) = &mut keys.values else { return Err(NotTaken) };
    let size = match key.text() {
        Some(text) => strings.push_text(text, &mut appending.scratch, |_| true),
        None => key.bytes().and_then(|bytes| strings.push_bytes(bytes)),
    };
    appending.size += size.ok_or(NotTaken)?;
    keys.present(0);
    Ok(())
}

/// Append headers: a list of tuples, each a text and bytes or None. Other forms are Python's to read.
#[inline(always)]
fn append_headers(
    appender: &mut RowAppender,
    value: Ref<'_>,
    leaves: &mut [Leaf],
) -> Result<(), NotTaken> {
    let is_pair = |pair: &Ref<'_>| match pair.items() {
        Some([key, _]) => pair.is_tuple() && key.text().is_some(),
        _ => false,
    };
    match value.items() {
        Some(pairs @ [_, ..]) if !value.is_tuple() && pairs.iter().all(is_pair) => {}
        _ => return Err(NotTaken),
    }
    appender.appending.plain = true; // pairs are tuples
    appender.headers.append(value, 0, leaves, &mut appender.appending)
}
