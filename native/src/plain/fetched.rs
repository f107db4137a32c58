//! Plain messages that a consumer has fetched, kept outside of Python's objects until a table has them.
//!
//! A hundred thousand messages of confluent-kafka's are as many objects, and their headers more, all of
//! which Python's garbage collector visits again and again.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};

use crate::plain::messages::{ENCODING, Found, Methods, is_bytes_or_none, number};
use crate::python::new;
use crate::python::panics::{self, entry};
use crate::python::py::Ref;

/// What a message takes besides its value, as the package counts it.
const MESSAGE_BYTES: usize = 200;
/// What Kafka calls a time that is none.
const NO_TIME: i64 = 0;

/// Consecutive plain messages of one partition, by ascending offset, with the same kind of time and
/// leader epoch. For any thread.
///
/// Asked as one message it answers as the first of them, but that it is as long as all.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct FetchedMessages {
    run: Arc<Run>,
    rows: Range<usize>,
}

struct Run {
    topic: Py<PyAny>,
    partition: i64,
    leader_epoch: Py<PyAny>,
    time_kind: i64,
    offsets: Vec<i64>,
    times: Vec<i64>,
    keys: Cells,
    values: Cells,
    /// Where the headers of each message end.
    header_ends: Vec<usize>,
    names: Cells,
    contents: Cells,
}

/// Texts or bytes, one after the other; some are null.
#[derive(Default)]
struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    nulls: Vec<usize>,
}

impl Cells {
    #[inline(always)]
    fn push(&mut self, cell: Option<&[u8]>) {
        match cell {
            Some(cell) => self.bytes.extend_from_slice(cell),
            None => self.nulls.push(self.ends.len()),
        }
        self.ends.push(self.bytes.len());
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn bytes(&self, rows: &Range<usize>) -> &[u8] {
        &self.bytes[self.start(rows.start)..self.start(rows.end)]
    }

    fn nulls(&self, rows: &Range<usize>) -> impl Iterator<Item = usize> {
        let first = self.nulls.partition_point(|&null| null < rows.start);
        let rows = rows.clone();
        let nulls = self.nulls[first..].iter().copied();
        nulls.take_while(move |&null| null < rows.end).map(move |null| null - rows.start)
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let is_null = self.nulls.binary_search(&index).is_ok();
        (!is_null).then(|| &self.bytes[self.start(index)..self.ends[index]])
    }

    fn object<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.get(index).map_or_else(|| Ok(new::none(py)), |cell| new::bytes(py, cell))
    }
}

impl Run {
    fn begin(message: &Found<'_>, most: usize) -> Self {
        let cells = || Cells { ends: Vec::with_capacity(most), ..Cells::default() };
        Self {
            topic: message.topic.clone().unbind(),
            partition: message.partition,
            leader_epoch: message.leader_epoch.clone().unbind(),
            time_kind: message.time.0,
            offsets: Vec::with_capacity(most),
            times: Vec::with_capacity(most),
            keys: cells(),
            values: cells(),
            header_ends: Vec::with_capacity(most),
            names: Cells::default(),
            contents: Cells::default(),
        }
    }

    /// Whether a message belongs to these.
    fn goes_on_with(&self, py: Python<'_>, message: &Found<'_>, scratch: &mut Vec<u8>) -> bool {
        self.partition == message.partition
            && self.time_kind == message.time.0
            && self.offsets.last().is_none_or(|&last| last < message.offset)
            && (self.leader_epoch.is(&message.leader_epoch)
                || number(self.leader_epoch.bind(py)) == number(&message.leader_epoch))
            && (self.topic.is(&message.topic) || self.is_of(py, &message.topic, scratch))
    }

    fn is_of(&self, py: Python<'_>, topic: &Bound<'_, PyAny>, scratch: &mut Vec<u8>) -> bool {
        let mut own = Vec::new();
        let (mine, theirs) = (Ref::of_stored(py, &self.topic).text(), Ref::of(topic).text());
        match (mine.and_then(|text| text.utf8(&mut own)), theirs) {
            (Some(mine), Some(theirs)) => theirs.is(mine, scratch),
            _ => false,
        }
    }

    /// Append a message; false: its headers are a segment's, or not as confluent-kafka has them.
    #[inline(always)]
    fn push(&mut self, message: &Found<'_>, scratch: &mut Vec<u8>) -> bool {
        let before = (self.names.bytes.len(), self.names.ends.len(), self.contents.bytes.len());
        if !self.push_headers(Ref::of(&message.headers), scratch) {
            let (names, headers, contents) = before;
            self.names.bytes.truncate(names);
            self.names.ends.truncate(headers);
            self.contents.bytes.truncate(contents);
            self.contents.ends.truncate(headers);
            self.contents.nulls.retain(|&null| null < headers);
            return false;
        }
        self.header_ends.push(self.names.ends.len());
        self.offsets.push(message.offset);
        self.times.push(message.time.1);
        self.keys.push(Ref::of(&message.key).bytes());
        self.values.push(Ref::of(&message.value).bytes());
        true
    }

    #[inline(always)]
    fn push_headers(&mut self, headers: Ref<'_>, scratch: &mut Vec<u8>) -> bool {
        if headers.is_none() {
            return true;
        }
        let Some(pairs @ [_, ..]) = headers.items().filter(|_| !headers.is_tuple()) else {
            return false;
        };
        for pair in pairs {
            let Some([name, content]) = pair.items() else { return false };
            let Some(name) = name.text().and_then(|name| name.utf8(scratch)) else { return false };
            if !pair.is_tuple() || name == ENCODING || !is_bytes_or_none(*content) {
                return false;
            }
            self.names.push(Some(name));
            self.contents.push(content.bytes());
        }
        true
    }

    /// Keep no more memory than the messages take.
    fn shrink(&mut self) {
        for cells in [&mut self.keys, &mut self.values, &mut self.names, &mut self.contents] {
            cells.bytes.shrink_to_fit();
            cells.ends.shrink_to_fit();
            cells.nulls.shrink_to_fit();
        }
        for numbers in [&mut self.offsets, &mut self.times] {
            numbers.shrink_to_fit();
        }
        self.header_ends.shrink_to_fit();
    }

    fn headers(&self, row: usize) -> Range<usize> {
        row.checked_sub(1).map_or(0, |before| self.header_ends[before])..self.header_ends[row]
    }
}

/// Offset, key, value, headers and time of a message.
type Parts<'py> = (i64, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, (i64, i64));

#[pymethods]
impl FetchedMessages {
    /// About as many bytes as the messages take, but those that one of them takes besides its value.
    fn __len__(&self) -> usize {
        self.run.values.bytes(&self.rows).len() + MESSAGE_BYTES * (self.rows.len() - 1)
    }

    /// How many messages there are; at least one.
    #[getter]
    fn count(&self) -> usize {
        self.rows.len()
    }

    /// The offset of the last message.
    #[getter]
    fn last(&self) -> i64 {
        self.run.offsets[self.rows.end - 1]
    }

    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.run.topic.bind(py).clone()
    }

    fn partition(&self) -> i64 {
        self.run.partition
    }

    fn offset(&self) -> i64 {
        self.run.offsets[self.rows.start]
    }

    fn leader_epoch<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.run.leader_epoch.bind(py).clone()
    }

    /// None: it is no event.
    fn error(&self) -> Option<i64> {
        None
    }

    /// None: it has no headers of a segment.
    fn headers(&self) -> Option<i64> {
        None
    }

    /// The first `count` messages, and the others; not copied.
    fn split(&self, count: usize) -> PyResult<(Self, Self)> {
        if !(1..self.rows.len()).contains(&count) {
            return Err(PyIndexError::new_err("no such message"));
        }
        let middle = self.rows.start + count;
        let part = |rows| Self { run: Arc::clone(&self.run), rows };
        Ok((part(self.rows.start..middle), part(middle..self.rows.end)))
    }

    /// The parts of each message.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Parts<'py>>> {
        entry(py, "FetchedMessages.messages", || {
            self.rows.clone().map(|row| self.message(py, row)).collect()
        })
    }
}

impl FetchedMessages {
    fn message<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Parts<'py>> {
        let run = &*self.run;
        let pairs = run.headers(row).map(|header| {
            let name = new::text(py, run.names.get(header).unwrap_or_default())?;
            Ok((name, run.contents.object(py, header)?))
        });
        let pairs: Vec<_> = pairs.collect::<PyResult<_>>()?;
        let headers = match pairs.is_empty() {
            true => new::none(py),
            false => PyList::new(py, pairs)?.into_any(),
        };
        let (key, value) = (run.keys.object(py, row)?, run.values.object(py, row)?);
        Ok((run.offsets[row], key, value, headers, (run.time_kind, run.times[row])))
    }
}

/// Return messages with the plain ones of each partition that follow each other put together.
///
/// `class` is confluent-kafka's `Message`. What is not surely read as Python reads it stays.
#[pyfunction]
pub fn fetched_messages(
    messages: &Bound<'_, PyList>,
    class: &Bound<'_, PyType>,
) -> PyResult<Py<PyList>> {
    let put = || {
        let Some(methods) = Methods::of(class) else { return Ok(messages.clone().unbind()) };
        let mut putting = Putting::default();
        for (index, message) in messages.iter().enumerate() {
            if !putting.put(&methods, &message, messages.len() - index)? {
                putting.end(messages.py())?;
                putting.out.push(message.unbind());
            }
        }
        putting.end(messages.py())?;
        PyList::new(messages.py(), putting.out).map(Bound::unbind)
    };
    let Some(together) = panics::caught("fetched_messages", put) else {
        panics::tell(messages.py())?;
        return Ok(messages.clone().unbind());
    };
    together
}

/// What messages are put into.
#[derive(Default)]
struct Putting {
    open: Option<Run>,
    out: Vec<Py<PyAny>>,
    scratch: Vec<u8>,
}

impl Putting {
    /// Put a message into a run, with up to `most` of those that follow; false: it stays.
    #[inline(always)]
    fn put<'py>(
        &mut self,
        methods: &Methods<'py>,
        message: &Bound<'py, PyAny>,
        most: usize,
    ) -> PyResult<bool> {
        let py = message.py();
        let Some(found) = methods.read(message)? else { return Ok(false) };
        let scratch = &mut self.scratch;
        if !self.open.as_ref().is_some_and(|run| run.goes_on_with(py, &found, scratch)) {
            self.end(py)?;
        }
        let run = self.open.get_or_insert_with(|| Run::begin(&found, most));
        Ok(run.push(&found, &mut self.scratch))
    }

    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(mut run) = self.open.take().filter(|run| !run.offsets.is_empty()) else {
            return Ok(());
        };
        run.shrink();
        let rows = 0..run.offsets.len();
        self.out.push(Py::new(py, FetchedMessages { run: Arc::new(run), rows })?.into_any());
        Ok(())
    }
}

/// Some `FetchedMessages`, as columns. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct FetchedColumns {
    parts: Vec<(Arc<Run>, Range<usize>)>,
    rows: usize,
}

/// The buffers of an array as Arrow has them: bits of what is not null, or None; ends; bytes.
type Buffers<'py> = (Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Bits of the lists that are not null, or None; their ends; how many items they have; the buffers of
/// the items' names and contents.
type HeaderBuffers<'py> =
    (Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>, usize, Buffers<'py>, Buffers<'py>);

/// See `FetchedColumns::json_lines`.
type JsonLines<'py> = (Bound<'py, PyBytes>, usize, usize, usize);

#[pymethods]
impl FetchedColumns {
    #[new]
    fn new(py: Python<'_>, messages: Vec<Bound<'_, FetchedMessages>>) -> PyResult<Self> {
        entry(py, "FetchedColumns.new", || {
            let part = |messages: &Bound<'_, FetchedMessages>| {
                (Arc::clone(&messages.get().run), messages.get().rows.clone())
            };
            let parts: Vec<_> = messages.iter().map(part).collect();
            let rows = parts.iter().map(|(_, rows)| rows.len()).sum();
            Ok(Self { parts, rows })
        })
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// The buffers of the keys.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Buffers<'py>> {
        entry(py, "FetchedColumns.keys", || self.cells(py, |run, rows| (&run.keys, rows.clone())))
    }

    /// The buffers of the values.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Buffers<'py>> {
        entry(py, "FetchedColumns.values", || {
            self.cells(py, |run, rows| (&run.values, rows.clone()))
        })
    }

    /// The keys, or else the values, as bytes or None.
    fn objects<'py>(&self, py: Python<'py>, keys: bool) -> PyResult<Bound<'py, PyList>> {
        entry(py, "FetchedColumns.objects", || {
            let mut objects = Vec::with_capacity(self.rows);
            for (run, rows) in &self.parts {
                let cells = if keys { &run.keys } else { &run.values };
                for row in rows.clone() {
                    objects.push(cells.object(py, row)?);
                }
            }
            PyList::new(py, objects)
        })
    }

    /// The keys, or else the values, as JSON objects with one field, each in a line; the bytes of all
    /// values; and how many of the first lines have no more than `cells` fields in all, times their
    /// number, one at least, and their bytes. Line breaks inside of values become blanks.
    ///
    /// None: a value is null, or it has more than `brackets` bytes and as many brackets.
    fn json_lines<'py>(
        &self,
        py: Python<'py>,
        keys: bool,
        brackets: usize,
        cells: usize,
    ) -> PyResult<Option<JsonLines<'py>>> {
        entry(py, "FetchedColumns.json_lines", || {
            let parts = self
                .parts
                .iter()
                .map(|(run, rows)| (if keys { &run.keys } else { &run.values }, rows.clone()));
            let mut lines =
                Lines { data: Vec::new(), nbytes: 0, brackets, cells, fields: 0, first: None };
            let mut count = 0;
            for (cells, rows) in parts {
                for row in rows {
                    let Some(value) = cells.get(row) else { return Ok(None) };
                    count += 1;
                    if !lines.push(value, count) {
                        return Ok(None);
                    }
                }
            }
            lines.data.pop(); // the last line break
            let (first, first_bytes) = lines.first.unwrap_or((count, lines.data.len()));
            Ok(Some((PyBytes::new(py, &lines.data), lines.nbytes, first, first_bytes)))
        })
    }

    /// The buffers of the times in milliseconds: bits of what is not null, or None, and numbers.
    fn times<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>)> {
        entry(py, "FetchedColumns.times", || {
            let (mut nulls, mut first) = (Vec::new(), 0);
            for (run, rows) in &self.parts {
                let next = first + rows.len();
                nulls.extend((first..next).filter(|_| run.time_kind == NO_TIME));
                first = next;
            }
            let time = |run: &Run, row| if run.time_kind == NO_TIME { 0 } else { run.times[row] };
            let numbers = self.numbers(py, |run, row| i64::to_ne_bytes(time(run, row)))?;
            Ok((self.validity(py, self.rows, nulls.into_iter())?, numbers))
        })
    }

    /// The numbers of the partitions, of 4 bytes.
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        entry(py, "FetchedColumns.partitions", || {
            self.numbers(py, |run, _| (run.partition as i32).to_ne_bytes())
        })
    }

    /// The numbers of the positions, of 8 bytes; an offset has `rows` of them.
    fn positions<'py>(&self, py: Python<'py>, rows: i64) -> PyResult<Bound<'py, PyBytes>> {
        entry(py, "FetchedColumns.positions", || {
            let position = |offset: i64| offset.wrapping_add(1).wrapping_mul(rows).wrapping_sub(1);
            self.numbers(py, |run, row| position(run.offsets[row]).to_ne_bytes())
        })
    }

    /// The buffers of the headers; None: no message has any.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Option<HeaderBuffers<'py>>> {
        entry(py, "FetchedColumns.headers", || {
            let (mut ends, mut nulls, mut count) = (vec![0i32], Vec::new(), 0);
            for (run, rows) in &self.parts {
                for row in rows.clone() {
                    let headers = run.headers(row).len();
                    if headers == 0 {
                        nulls.push(ends.len() - 1);
                    }
                    count += headers;
                    ends.push(i32::try_from(count)?);
                }
            }
            if count == 0 {
                return Ok(None);
            }
            let pairs = |run: &Run, rows: &Range<usize>| {
                run.headers(rows.start).start..run.headers(rows.end - 1).end
            };
            let validity = self.validity(py, self.rows, nulls.into_iter())?;
            let ends = filled(py, ends.iter().map(|end| end.to_ne_bytes()))?;
            let names = self.cells(py, |run, rows| (&run.names, pairs(run, rows)))?;
            let contents = self.cells(py, |run, rows| (&run.contents, pairs(run, rows)))?;
            Ok(Some((validity, ends, count, names, contents)))
        })
    }
}

impl FetchedColumns {
    /// Make the buffers of cells of all messages, by where those of some are.
    fn cells<'py>(
        &self,
        py: Python<'py>,
        of: impl for<'r> Fn(&'r Run, &Range<usize>) -> (&'r Cells, Range<usize>),
    ) -> PyResult<Buffers<'py>> {
        let parts: Vec<_> = self.parts.iter().map(|(run, rows)| of(run, rows)).collect();
        let total: usize = parts.iter().map(|(cells, rows)| cells.bytes(rows).len()).sum();
        let count = parts.iter().map(|(_, rows)| rows.len()).sum();
        if i32::try_from(total).is_err() {
            return Err(PyOverflowError::new_err("more bytes than an array has"));
        }
        let (mut nulls, mut first) = (Vec::new(), 0);
        for (cells, rows) in &parts {
            nulls.extend(cells.nulls(rows).map(|null| first + null));
            first += rows.len();
        }
        let mut base = 0;
        let ends = parts.iter().flat_map(|(cells, rows)| {
            let shift = base - cells.start(rows.start) as i64;
            base += cells.bytes(rows).len() as i64;
            let ends = &cells.ends[rows.clone()];
            ends.iter().map(move |&end| (end as i64 + shift) as i32)
        });
        let ends = std::iter::once(0).chain(ends).map(i32::to_ne_bytes);
        let ends = filled_to(py, 4 * (count + 1), ends)?;
        let bytes = PyBytes::new_with(py, total, |mut out| {
            for (cells, rows) in &parts {
                let bytes = cells.bytes(rows);
                let (here, rest) = out.split_at_mut(bytes.len());
                here.copy_from_slice(bytes);
                out = rest;
            }
            Ok(())
        })?;
        Ok((self.validity(py, count, nulls.into_iter())?, ends, bytes))
    }

    fn numbers<'py, const WIDTH: usize>(
        &self,
        py: Python<'py>,
        of: impl Fn(&Run, usize) -> [u8; WIDTH],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let rows =
            self.parts.iter().flat_map(|(run, rows)| rows.clone().map(move |row| (run, row)));
        filled_to(py, WIDTH * self.rows, rows.map(|(run, row)| of(run, row)))
    }

    /// A bit for each of `count` cells that is not null; None if none is.
    fn validity<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        mut nulls: impl Iterator<Item = usize>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(first) = nulls.next() else { return Ok(None) };
        let mut bits = vec![0xFF; count.div_ceil(8)];
        for null in std::iter::once(first).chain(nulls) {
            bits[null / 8] &= !(1u8 << (null % 8));
        }
        Ok(Some(PyBytes::new(py, &bits)))
    }
}

/// See `FetchedColumns::json_lines`.
struct Lines {
    data: Vec<u8>,
    nbytes: usize,
    brackets: usize,
    cells: usize,
    fields: usize,
    first: Option<(usize, usize)>,
}

impl Lines {
    /// Append the value of this number, counted from 1; false: it is not for a line.
    #[inline(always)]
    fn push(&mut self, value: &[u8], number: usize) -> bool {
        let (mut colons, mut brackets, mut breaks) = (0, 0, 0);
        for byte in value {
            colons += usize::from(*byte == b':');
            brackets += usize::from(matches!(byte, b'[' | b'{'));
            breaks += usize::from(matches!(byte, b'\n' | b'\r'));
        }
        if value.len() > self.brackets && brackets > self.brackets {
            return false;
        }
        self.fields += colons + 1;
        let is_more = self.first.is_none() && number * self.fields > self.cells;
        if is_more && number > 1 {
            self.first = Some((number - 1, self.data.len() - 1));
        }
        self.data.extend_from_slice(b"{\"value\":");
        let start = self.data.len();
        self.data.extend_from_slice(value);
        if breaks > 0 {
            for byte in &mut self.data[start..] {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        self.data.extend_from_slice(b"}\n");
        self.nbytes += value.len();
        if is_more && number == 1 {
            self.first = Some((1, self.data.len() - 1));
        }
        true
    }
}

fn filled<'py, const WIDTH: usize>(
    py: Python<'py>,
    numbers: impl ExactSizeIterator<Item = [u8; WIDTH]>,
) -> PyResult<Bound<'py, PyBytes>> {
    filled_to(py, WIDTH * numbers.len(), numbers)
}

/// Make bytes of so many in all.
fn filled_to<'py, const WIDTH: usize>(
    py: Python<'py>,
    len: usize,
    numbers: impl Iterator<Item = [u8; WIDTH]>,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, len, |out| {
        for (place, number) in out.chunks_exact_mut(WIDTH).zip(numbers) {
            place.copy_from_slice(&number);
        }
        Ok(())
    })
}
