//! Batches: rows that are appended one by one, and then the same rows as an immutable block.

use std::ops::Range;
use std::sync::Arc;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::parquet::Slots;
use crate::produce::columns::{Appending, NotTaken, Taken};
use crate::produce::from_rows::{append_record, append_tuple};
use crate::produce::memory_bound::Usage;
use crate::produce::row_format::{Places, RowAppender, RowFormat, headers_field};
use crate::python::gil::{GilCell, InUse};
use crate::python::new;
use crate::python::panics::{self, entry};
use crate::python::py::Ref;
use crate::values::clock;
use crate::values::leaf::{Leaf, Values};
use crate::values::size::Size;
use crate::values::to_rows::{ColumnReader, RowReader};

/// The records of a batch, as columns.
pub struct Records {
    format: Py<RowFormat>,
    /// Whether the core has panicked on them, so that they are not what was appended.
    are_damaged: bool,
    pub leaves: Vec<Leaf>,
    places: Places,
    /// Where rows have identities of their own, their segments and their rows in these.
    pub identities: Option<[Leaf; 2]>,
    /// How many of the last rows have no headers, and are not in their leaves yet: mostly all.
    bare_rows: usize,
    callbacks: Callbacks,
    /// The rows from which on the user has chosen the partition, and again has not, in turns.
    pinned: Vec<usize>,
    rows: usize,
    /// What they take decoded, once they are sealed.
    decoded: usize,
}

impl Records {
    fn begin(py: Python<'_>, row_format: &Py<RowFormat>) -> PyResult<Self> {
        let mut appender = appender(row_format.get(), py)?;
        Ok(Self {
            format: row_format.clone_ref(py),
            are_damaged: false,
            leaves: appender.begin(),
            places: appender.places.clone(),
            identities: None,
            bare_rows: 0,
            callbacks: Callbacks::default(),
            pinned: Vec::new(),
            rows: 0,
            decoded: 0,
        })
    }

    /// Whether the core has panicked on them.
    pub fn are_damaged(&self) -> bool {
        self.are_damaged
    }

    /// The leaves of the rows' columns.
    pub fn columns(&self) -> &[Leaf] {
        &self.leaves[..self.places.keys]
    }

    pub fn keys(&self) -> &Leaf {
        &self.leaves[self.places.keys]
    }

    pub fn times(&self) -> &Leaf {
        &self.leaves[self.places.times]
    }

    pub fn headers(&self) -> &[Leaf] {
        &self.leaves[self.places.headers.clone()]
    }

    /// Have the headers of all rows in their leaves.
    fn append_bare_rows(&mut self) {
        let rows = std::mem::take(&mut self.bare_rows);
        for leaf in &mut self.leaves[self.places.headers.clone()] {
            leaf.append_nulls(rows, 0);
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        Python::try_attach(|py| {
            if let Some(mut appender) = self.format.get().rows(py) {
                appender.give_back(std::mem::take(&mut self.leaves));
            }
        });
    }
}

/// The callbacks of records, by runs: mostly there is none, or one for all.
#[derive(Default)]
struct Callbacks {
    /// The row at which each run begins.
    runs: Vec<(usize, Option<Py<PyAny>>)>,
}

impl Callbacks {
    #[inline(always)]
    fn push(&mut self, row: usize, callback: Ref<'_>) {
        let last = self.runs.last().and_then(|(_, callback)| callback.as_ref());
        let same = match last {
            Some(last) => last.as_ptr() == callback.as_ptr(),
            None => callback.is_none(),
        };
        if !same {
            self.runs.push((row, (!callback.is_none()).then(|| callback.to_stored())));
        }
    }

    fn get(&self, row: usize) -> Option<&Py<PyAny>> {
        let run = self.runs.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        self.runs[run].1.as_ref()
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.runs
            .iter()
            .filter_map(|(_, callback)| callback.as_ref())
            .try_for_each(|callback| visit.call(callback))
    }
}

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
}

#[pymethods]
impl Batch {
    /// Take records until there are `max_rows`, they take `max_bytes`, or a few more would be too
    /// many for a consumer.
    #[new]
    fn new(
        py: Python<'_>,
        row_format: Py<RowFormat>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Self> {
        entry(py, "Batch.new", || {
            Ok(Self(GilCell::new(Filling::begin(py, row_format, max_rows, max_bytes)?)))
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
    /// `pinned`: the user has chosen the partition.
    #[pyo3(signature = (row, key, timestamp, headers, callback, usage, pinned=false))]
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
    ) -> PyResult<bool> {
        let py = row.py();
        let record = NewRecord {
            row: Ref::of(row),
            key: Ref::of(key),
            timestamp,
            headers: Ref::of(headers),
            callback: Ref::of(callback),
            pinned,
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
        let append = |appender: &mut RowAppender, records: &mut Records| {
            appender.appending.plain = plain;
            append_parts(appender, records, &record)?;
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
) -> Result<(), NotTaken> {
    let RowAppender { columns, template, appending, .. } = appender;
    let leaves = &mut records.leaves[..];
    if appending.plain {
        append_tuple(columns, record.row, 0, leaves, appending)?;
    } else {
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

impl Records {
    /// Whether the partition of the last row was chosen by the user.
    #[inline(always)]
    fn is_pinned_at_end(&self) -> bool {
        self.pinned.len() % 2 == 1
    }

    /// Remove what was appended of a row that is not taken.
    #[cold]
    fn undo(&mut self) {
        let rows = self.rows;
        self.identities.iter_mut().flatten().for_each(|leaf| leaf.truncate(rows));
        let headers = self.places.headers.clone();
        let appended = rows.min(self.leaves[headers.start].rows);
        self.leaves[..headers.start].iter_mut().for_each(|leaf| leaf.truncate(rows));
        self.leaves[headers].iter_mut().for_each(|leaf| leaf.truncate(appended));
        self.bare_rows = rows - appended;
    }
}

/// Use a format's appender.
fn appender<'a>(format: &'a RowFormat, py: Python<'a>) -> PyResult<InUse<'a, RowAppender>> {
    format.rows(py).ok_or_else(|| PyRuntimeError::new_err("the row format is in use"))
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

/// A list of so many objects, which `read` appends.
fn list_of<'py>(
    py: Python<'py>,
    count: usize,
    read: impl FnOnce(&mut Vec<Bound<'py, PyAny>>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyList>> {
    let mut objects = Vec::with_capacity(count);
    read(&mut objects)?;
    PyList::new(py, objects)
}

/// Consecutive records of a sealed batch. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct Block {
    pub records: Arc<Records>,
    pub rows: Range<usize>,
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(&self.records) > 1 {
            return Ok(()); // the collector counts each reference once
        }
        self.records.callbacks.visit(&visit)
    }

    /// The records from `start` to `stop`, not copied.
    fn slice(&self, start: usize, stop: usize) -> PyResult<Self> {
        let rows = self.rows(start, stop)?;
        Ok(Self { records: Arc::clone(&self.records), rows })
    }

    /// The records from `start` to `stop` as dicts.
    fn values<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        entry(py, "Block.values", || {
            let rows = self.rows(start, stop)?;
            let fields = &self.records.format.get().fields;
            let mut leaves = self.records.columns().iter();
            let mut reader = RowReader::new(py, fields, &mut leaves, rows.start)?;
            list_of(py, rows.len(), |out| reader.read(py, rows.len(), out))
        })
    }

    /// The key of a record, or None.
    fn key<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        entry(py, "Block.key", || {
            let row = self.row(row)?;
            let keys = self.records.keys();
            let (_, value) = keys.position(row);
            let Values::Strings(strings) = &keys.values else { return Ok(None) };
            if keys.position(row + 1).1 == value {
                return Ok(None);
            }
            new::bytes(py, strings.get(value)).map(Some)
        })
    }

    /// The time of a record, in milliseconds since 1970.
    fn timestamp(&self, py: Python<'_>, row: usize) -> PyResult<i64> {
        entry(py, "Block.timestamp", || Ok(self.times()[self.row(row)?]))
    }

    /// The headers of the records from `start` to `stop`: of each a list of pairs, or None.
    fn headers<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        entry(py, "Block.headers", || {
            let rows = self.rows(start, stop)?;
            let mut leaves = self.records.headers().iter();
            let reader = ColumnReader::new(py, &headers_field(), &mut leaves, rows.start)?;
            let mut reader = reader.with_tuples();
            list_of(py, rows.len(), |out| reader.read(py, rows.len(), out))
        })
    }

    /// The callback of a record, or None.
    fn callback<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        entry(py, "Block.callback", || {
            let row = self.row(row)?;
            Ok(self.records.callbacks.get(row).map(|callback| callback.bind(py).clone()))
        })
    }

    /// Whether the user has chosen the partition of a record.
    fn is_pinned(&self, row: usize) -> PyResult<bool> {
        let row = self.row(row)?;
        Ok(self.records.pinned.partition_point(|start| *start <= row) % 2 == 1)
    }

    /// Whether no record has a callback.
    #[getter]
    fn is_silent(&self) -> bool {
        self.records.callbacks.runs.iter().all(|(_, callback)| callback.is_none())
    }

    /// Whether every consumer decodes the records, whatever encodings add.
    fn is_decodable(&self, py: Python<'_>) -> PyResult<bool> {
        entry(py, "Block.is_decodable", || {
            let most = self.records.format.get().most_decoded;
            // What all of the batch take, these do not exceed.
            Ok(self.records.decoded <= most || self.decoded()? <= most)
        })
    }

    /// The earliest and the latest time of a record.
    fn time_bounds(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        entry(py, "Block.time_bounds", || {
            let times = self.times()[self.rows.clone()].iter();
            Ok(times.fold((i64::MAX, i64::MIN), |(least, most), &time| {
                (least.min(time), most.max(time))
            }))
        })
    }
}

impl Block {
    /// The callback of a record.
    pub fn callback_of<'py>(&self, py: Python<'py>, row: usize) -> Option<Bound<'py, PyAny>> {
        self.records.callbacks.get(self.rows.start + row).map(|callback| callback.bind(py).clone())
    }

    /// What the records take decoded, without what encodings add.
    fn decoded(&self) -> PyResult<usize> {
        let mut decoded = 0;
        for (leaf, size) in self.records.leaves.iter().zip(&self.records.format.get().leaf_sizes) {
            let span = Slots::of_rows(leaf, self.rows.clone())
                .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            decoded += self.rows.len() * size.per_row + span.slots.len() * size.per_slot;
            if let Values::Strings(strings) = &leaf.values {
                decoded += span.values.map(|value| strings.get(value).len()).sum::<usize>();
            }
        }
        Ok(decoded)
    }

    /// Rows of the batch.
    fn rows(&self, start: usize, stop: usize) -> PyResult<Range<usize>> {
        if start > stop || stop > self.rows.len() {
            return Err(PyIndexError::new_err(format!("{start} to {stop} of {}", self.rows.len())));
        }
        Ok(self.rows.start + start..self.rows.start + stop)
    }

    fn row(&self, row: usize) -> PyResult<usize> {
        if row >= self.rows.len() {
            return Err(PyIndexError::new_err(format!("record {row} of {}", self.rows.len())));
        }
        Ok(self.rows.start + row)
    }

    fn times(&self) -> &[i64] {
        match &self.records.times().values {
            Values::I64(times) => times,
            _ => &[],
        }
    }
}
