//! Messages of confluent-kafka's consumer, read in one call.

use std::ffi::CStr;

use pyo3::exceptions::PyIndexError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};

use crate::python::new;
use crate::python::panics;
use crate::python::py::{Int, Ref};

/// The header that says that a message is a segment.
pub const ENCODING: &[u8] = b"columnar.encoding";
/// As Kafka says that a message has no time.
const NO_TIME: i64 = -1;

/// Consecutive plain messages of one partition, by ascending offset. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct PlainMessages {
    partition: i64,
    messages: Vec<Message>,
    newest: i64,
}

/// The parts of a message. They are of builtin classes, and hold nothing that could be a cycle.
pub struct Message {
    pub offset: i64,
    /// In milliseconds since 1970, or `NO_TIME`.
    pub time: i64,
    pub value: Option<Py<PyBytes>>,
    /// Bytes or None.
    pub key: Py<PyAny>,
    /// A list of pairs or None.
    pub headers: Py<PyAny>,
    /// The checksum of the value, and in the upper half that of the key.
    pub checksums: u64,
    /// What this and the messages before it have: the bytes of values, and of keys and headers too.
    value_bytes: usize,
    all_bytes: usize,
}

/// Offset, headers, value, key and time of a message.
type Parts = (i64, Py<PyAny>, Option<Py<PyBytes>>, Py<PyAny>, Option<i64>);

#[pymethods]
impl PlainMessages {
    /// Messages that have nothing but these values, with their indices for offsets.
    #[staticmethod]
    fn of_values(py: Python<'_>, values: Vec<Py<PyBytes>>) -> Self {
        let mut messages = Vec::with_capacity(values.len());
        let mut nbytes = 0;
        for (offset, value) in (0..).zip(values) {
            nbytes += value.as_bytes(py).len();
            messages.push(Message {
                offset,
                time: NO_TIME,
                value: Some(value),
                key: py.None(),
                headers: py.None(),
                checksums: 0,
                value_bytes: nbytes,
                all_bytes: nbytes,
            });
        }
        Self { partition: 0, messages, newest: NO_TIME }
    }

    fn __len__(&self) -> usize {
        self.messages.len()
    }

    #[getter]
    fn partition(&self) -> i64 {
        self.partition
    }

    /// The latest time of a message.
    #[getter]
    fn newest(&self) -> i64 {
        self.newest
    }

    /// The bytes of all values.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes_before(self.messages.len()).0
    }

    /// The offset of a message.
    fn offset(&self, index: usize) -> PyResult<i64> {
        Ok(self.get(index)?.offset)
    }

    /// The parts of a message.
    fn message<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Parts> {
        let message = self.get(index)?;
        Ok((
            message.offset,
            message.headers.clone_ref(py),
            message.value.as_ref().map(|value| value.clone_ref(py)),
            message.key.clone_ref(py),
            (message.time != NO_TIME).then_some(message.time),
        ))
    }

    /// Whether a message has a header of this name.
    fn has_header(&self, py: Python<'_>, name: &str) -> bool {
        let mut scratch = Vec::new();
        let mut is_named = |pair: &Ref<'_>| {
            let Some([found, _]) = pair.items() else { return false };
            found.text().is_some_and(|text| text.is(name.as_bytes(), &mut scratch))
        };
        self.messages.iter().any(|message| {
            let headers = Ref::of_stored(py, &message.headers).items().unwrap_or_default();
            headers.iter().any(&mut is_named)
        })
    }

    /// How far the messages from `start` on go that are no more than `rows`, have no more bytes than
    /// `all_bytes`, and values of no more than `value_bytes`; and both of these bytes.
    fn fitting(
        &self,
        start: usize,
        rows: usize,
        all_bytes: usize,
        value_bytes: usize,
    ) -> (usize, usize, usize) {
        let (values, all) = self.bytes_before(start);
        let longest = self.messages.len().min(start.saturating_add(rows));
        let rest = self.messages.get(start..longest).unwrap_or_default();
        let fitting = rest.partition_point(|message| {
            message.all_bytes - all <= all_bytes && message.value_bytes - values <= value_bytes
        });
        let stop = start + fitting;
        let end = self.bytes_before(stop);
        (stop, end.1 - all, end.0 - values)
    }

    /// The offsets of the messages from `start` to `stop`, and their checksums: 8 bytes each.
    fn identities<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let messages = self.messages.get(start..stop).ok_or_else(out_of_range)?;
        let offsets: Vec<_> =
            messages.iter().flat_map(|message| message.offset.to_ne_bytes()).collect();
        let checksums: Vec<_> =
            messages.iter().flat_map(|message| message.checksums.to_ne_bytes()).collect();
        Ok((PyBytes::new(py, &offsets), PyBytes::new(py, &checksums)))
    }
}

impl PlainMessages {
    pub fn get(&self, index: usize) -> PyResult<&Message> {
        self.messages.get(index).ok_or_else(out_of_range)
    }

    /// The bytes of the values, and all, of the messages before one.
    fn bytes_before(&self, index: usize) -> (usize, usize) {
        let before = index.checked_sub(1).and_then(|last| self.messages.get(last));
        before.map_or((0, 0), |message| (message.value_bytes, message.all_bytes))
    }
}

fn out_of_range() -> PyErr {
    PyIndexError::new_err("no such message")
}

/// Read the plain messages from `start` on that belong together; None: the first is not one that is
/// surely read as Python reads it. They end with the one whose value makes `room` bytes full.
///
/// `class` is confluent-kafka's `Message`.
#[pyfunction]
pub fn read_messages(
    messages: &Bound<'_, PyList>,
    start: usize,
    class: &Bound<'_, PyType>,
    room: usize,
) -> PyResult<Option<PlainMessages>> {
    let read = || {
        let Some(methods) = Methods::of(class) else { return Ok(None) };
        let mut stretch = PlainMessages { partition: 0, messages: Vec::new(), newest: NO_TIME };
        for index in start..messages.len() {
            let Ok(message) = messages.get_item(index) else { break }; // code of others may run
            if !methods.append(&message, &mut stretch)? || stretch.nbytes() >= room {
                break;
            }
        }
        Ok((!stretch.messages.is_empty()).then_some(stretch))
    };
    let Some(stretch) = panics::caught("read_messages", read) else {
        panics::tell(messages.py())?;
        return Ok(None);
    };
    stretch
}

type Method = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// A plain message of confluent-kafka's as it was read.
pub struct Found<'py> {
    pub topic: Bound<'py, PyAny>,
    pub partition: i64,
    pub offset: i64,
    /// Its kind, and milliseconds since 1970.
    pub time: (i64, i64),
    pub leader_epoch: Bound<'py, PyAny>,
    /// Bytes or None.
    pub key: Bound<'py, PyAny>,
    /// Bytes or None.
    pub value: Bound<'py, PyAny>,
    /// A list of pairs or None.
    pub headers: Bound<'py, PyAny>,
}

/// The methods of confluent-kafka's `Message`, which are written in C and take no arguments.
pub struct Methods<'py> {
    class: &'py Bound<'py, PyType>,
    error: Method,
    topic: Method,
    leader_epoch: Method,
    partition: Method,
    offset: Method,
    timestamp: Method,
    value: Method,
    key: Method,
    headers: Method,
}

impl<'py> Methods<'py> {
    /// None for a class that has other ones.
    pub fn of(class: &'py Bound<'py, PyType>) -> Option<Self> {
        let method = |name: &CStr| find(class, name);
        Some(Self {
            class,
            error: method(c"error")?,
            topic: method(c"topic")?,
            leader_epoch: method(c"leader_epoch")?,
            partition: method(c"partition")?,
            offset: method(c"offset")?,
            timestamp: method(c"timestamp")?,
            value: method(c"value")?,
            key: method(c"key")?,
            headers: method(c"headers")?,
        })
    }

    /// Read a message; None: it is an event, or not surely read as Python reads it. Its headers are
    /// still to be looked at.
    #[inline(always)]
    pub fn read(&self, message: &Bound<'py, PyAny>) -> PyResult<Option<Found<'py>>> {
        if !message.get_type().is(self.class) {
            return Ok(None);
        }
        let call = |method| call(message, method);
        if !call(self.error)?.is_none() {
            return Ok(None);
        }
        let (topic, leader_epoch) = (call(self.topic)?, call(self.leader_epoch)?);
        let (partition, offset) = (call(self.partition)?, call(self.offset)?);
        let timestamp = call(self.timestamp)?;
        let (key, value, headers) = (call(self.key)?, call(self.value)?, call(self.headers)?);
        let numbers = (number(&partition), number(&offset), numbers(&timestamp));
        let (Some(partition), Some(offset @ 0..), Some(time)) = numbers else { return Ok(None) };
        let are_usual = i32::try_from(partition).is_ok()
            && Ref::of(&topic).text().is_some()
            && is_bytes_or_none(Ref::of(&key))
            && is_bytes_or_none(Ref::of(&value));
        let found = Found { topic, partition, offset, time, leader_epoch, key, value, headers };
        Ok(are_usual.then_some(found))
    }

    /// Append a message to those that it belongs to; says whether it does.
    fn append(&self, message: &Bound<'py, PyAny>, stretch: &mut PlainMessages) -> PyResult<bool> {
        if !message.get_type().is(self.class) {
            return Ok(false);
        }
        let call = |method| call(message, method);
        if !call(self.error)?.is_none() {
            return Ok(false);
        }
        let (partition, offset) = (call(self.partition)?, call(self.offset)?);
        let (Some(partition), Some(offset)) = (number(&partition), number(&offset)) else {
            return Ok(false);
        };
        let last = stretch.messages.last();
        let follows =
            last.is_none_or(|last| stretch.partition == partition && last.offset < offset);
        if !follows || offset < 0 {
            return Ok(false);
        }
        let Some(time) = time(&call(self.timestamp)?) else { return Ok(false) };
        let (value, key, headers) = (call(self.value)?, call(self.key)?, call(self.headers)?);
        let (value_part, key_part) = (Ref::of(&value), Ref::of(&key));
        if !is_bytes_or_none(value_part) || !is_bytes_or_none(key_part) {
            return Ok(false);
        }
        let Some(header_bytes) = header_bytes(Ref::of(&headers)) else { return Ok(false) };
        let (value_bytes, key_bytes) =
            (value_part.bytes().unwrap_or_default(), key_part.bytes().unwrap_or_default());
        let checksum = |bytes| u64::from(crc32fast::hash(bytes));
        let (values, all) = last.map_or((0, 0), |last| (last.value_bytes, last.all_bytes));
        let message = Message {
            offset,
            time,
            checksums: checksum(value_bytes) | checksum(key_bytes) << 32,
            value_bytes: values + value_bytes.len(),
            all_bytes: all + value_bytes.len() + key_bytes.len() + header_bytes,
            value: value.cast_into().ok().map(Bound::unbind),
            key: key.unbind(),
            headers: headers.unbind(),
        };
        stretch.partition = partition;
        stretch.newest = stretch.newest.max(time);
        stretch.messages.push(message);
        Ok(true)
    }
}

/// A method of a class written in C that takes no arguments.
fn find(class: &Bound<'_, PyType>, name: &CStr) -> Option<Method> {
    // SAFETY: a class has no methods there, or a list that ends with one without a name.
    unsafe {
        let mut method = (*class.as_type_ptr()).tp_methods;
        while !method.is_null() && !(*method).ml_name.is_null() {
            if CStr::from_ptr((*method).ml_name) == name {
                let takes_none = (*method).ml_flags == ffi::METH_NOARGS;
                return takes_none.then_some((*method).ml_meth.PyCFunction);
            }
            method = method.add(1);
        }
    }
    None
}

#[inline(always)]
fn call<'py>(message: &Bound<'py, PyAny>, method: Method) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the method is one of the message's class and takes no arguments.
    unsafe { new::owned(message.py(), method(message.as_ptr(), std::ptr::null_mut())) }
}

pub fn number(object: &Bound<'_, PyAny>) -> Option<i64> {
    match Ref::of(object).int()? {
        Int::Fits(number) => Some(number),
        Int::TooLarge => None,
    }
}

/// Two numbers in a tuple.
fn numbers(pair: &Bound<'_, PyAny>) -> Option<(i64, i64)> {
    let Some([one, other]) = Ref::of(pair).items() else { return None };
    match (one.int()?, other.int()?) {
        (Int::Fits(one), Int::Fits(other)) => Some((one, other)),
        _ => None,
    }
}

/// The time of a message, of which this is the kind and the milliseconds; None: it is neither.
fn time(timestamp: &Bound<'_, PyAny>) -> Option<i64> {
    match numbers(timestamp)? {
        (0, _) => Some(NO_TIME),
        (_, time) if time != NO_TIME => Some(time),
        _ => None,
    }
}

pub fn is_bytes_or_none(part: Ref<'_>) -> bool {
    part.is_none() || part.bytes().is_some()
}

/// The bytes of a plain message's headers, names in characters; None: it is no plain message, or has
/// them in another form.
fn header_bytes(headers: Ref<'_>) -> Option<usize> {
    if headers.is_none() {
        return Some(0);
    }
    let mut nbytes = 0;
    let mut scratch = Vec::new();
    for pair in headers.items().filter(|_| !headers.is_tuple())? {
        let Some([name, value]) = pair.items() else { return None };
        let name = std::str::from_utf8(name.text()?.utf8(&mut scratch)?).ok()?;
        if !pair.is_tuple() || name.as_bytes() == ENCODING || !is_bytes_or_none(*value) {
            return None;
        }
        nbytes += name.chars().count() + value.bytes().unwrap_or_default().len();
    }
    Some(nbytes)
}
