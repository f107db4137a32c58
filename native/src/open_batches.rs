//! `produce`: one call, in which a record is appended to the open batch of its partition.
//!
//! Whatever is not the common case is left to the package's own `produce`, in Python: it has every
//! rule and every error. Then it appends to the same batches.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batch::{Batch, NewRecord, RowFormat};
use crate::layout::slot_offset;
use crate::partitioner::Partitioner;
use crate::py::{Int, Owned, Ref};
use crate::usage::Usage;

/// The open batches of one producer. Any thread may append to them.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct OpenBatches {
    topics: Vec<Topic>,
    /// The topic of the last record.
    last: usize,
    usage: Py<Usage>,
    partitioner: Partitioner,
    default_callback: Option<Owned>,
    /// What has the sender's thread look for work.
    wake: Py<PyAny>,
}

struct Topic {
    name: Owned,
    row_format: Py<RowFormat>,
    sticky: Option<u32>,
    stores_keys: bool,
    stores_headers: bool,
    /// By partition; their number is the topic's number of partitions.
    batches: Vec<Option<Py<Batch>>>,
}

/// What became of a record.
enum Outcome {
    Appended,
    /// And the sender's thread has work.
    Full,
}

#[pymethods]
impl OpenBatches {
    #[new]
    #[pyo3(signature = (usage, partitioner, wake, default_callback=None))]
    fn new(
        usage: Py<Usage>,
        partitioner: &str,
        wake: Py<PyAny>,
        default_callback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            topics: Vec::new(),
            last: 0,
            usage,
            partitioner: Partitioner::named(partitioner)?,
            default_callback: default_callback.map(|callback| Ref::of(&callback).to_owned()),
            wake,
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.wake)?;
        if let Some(callback) = &self.default_callback {
            callback.visit(&visit)?;
        }
        let batches = self.topics.iter().flat_map(|topic| topic.batches.iter().flatten());
        batches.into_iter().try_for_each(|batch| visit.call(batch))
    }

    fn __clear__(&mut self, py: Python<'_>) {
        self.topics.clear();
        self.default_callback = None;
        self.wake = py.None();
    }

    /// Append records of a topic here from now on, or with another number of partitions. A new
    /// format closes the open batches.
    #[pyo3(signature = (topic, partitions, *, row_format, stores_keys, stores_headers))]
    fn set_topic(
        &mut self,
        topic: &Bound<'_, PyString>,
        partitions: usize,
        row_format: Py<RowFormat>,
        stores_keys: bool,
        stores_headers: bool,
    ) {
        let name = Ref::of(topic.as_any());
        if let Some(index) = self.find(name) {
            let known = &mut self.topics[index];
            if known.row_format.as_ptr() == row_format.as_ptr() {
                known.batches.resize_with(partitions, || None);
                return;
            }
            self.topics.swap_remove(index);
            self.last = 0;
        }
        let batches = (0..partitions).map(|_| None).collect();
        let name = name.to_owned();
        let known = Topic { name, row_format, sticky: None, stores_keys, stores_headers, batches };
        self.topics.push(known);
    }

    /// Return the partition of a record, if records of that format are appended here.
    fn place(
        &mut self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
        row_format: &Bound<'_, RowFormat>,
    ) -> Option<usize> {
        let index = self.find(Ref::of(topic.as_any()))?;
        let topic = &mut self.topics[index];
        if topic.row_format.as_ptr() != row_format.as_ptr() {
            return None;
        }
        let partition = match partition {
            -1 => topic.choose(self.partitioner, key)? as usize,
            partition => usize::try_from(partition).ok()?,
        };
        (partition < topic.batches.len()).then_some(partition)
    }

    /// Return the open batch of a partition, if it takes records.
    fn batch(
        &mut self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        partition: usize,
    ) -> Option<Py<Batch>> {
        let index = self.find(Ref::of(topic.as_any()))?;
        let batch = self.topics[index].batches.get(partition)?.as_ref()?;
        batch.try_borrow(py).is_ok_and(|batch| batch.is_open()).then(|| batch.clone_ref(py))
    }

    /// Open a batch, and append `item` to `queue`: both or, with an error, neither.
    fn open(
        &mut self,
        topic: &Bound<'_, PyString>,
        partition: usize,
        batch: Py<Batch>,
        item: &Bound<'_, PyAny>,
        queue: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let unknown = || PyRuntimeError::new_err(format!("no {topic}[{partition}] here"));
        let index = self.find(Ref::of(topic.as_any())).ok_or_else(unknown)?;
        let place = self.topics[index].batches.get_mut(partition).ok_or_else(unknown)?;
        queue.call_method1("append", (item,))?;
        *place = Some(batch);
        Ok(())
    }

    /// Return the partition of a message that is no record. The records after it go to another
    /// batch. -1: nothing is known of the topic, or of the partition.
    fn close(&mut self, topic: &Bound<'_, PyString>, partition: i64, key: Option<&[u8]>) -> i64 {
        let Some(index) = self.find(Ref::of(topic.as_any())) else { return partition };
        let topic = &mut self.topics[index];
        let chosen = match partition {
            -1 => topic.choose(self.partitioner, key).map(i64::from),
            partition => Some(partition),
        };
        if let Some(chosen) = chosen {
            topic.forget(usize::try_from(chosen).unwrap_or(usize::MAX));
        }
        chosen.unwrap_or(partition)
    }

    /// Have the next records of all partitions of a topic go to other batches.
    fn close_all(&mut self, topic: &Bound<'_, PyString>) {
        if let Some(index) = self.find(Ref::of(topic.as_any())) {
            let topic = &mut self.topics[index];
            topic.batches.iter_mut().for_each(|batch| *batch = None);
            topic.sticky = None;
        }
    }
}

impl Topic {
    #[inline(always)]
    fn choose(&mut self, partitioner: Partitioner, key: Option<&[u8]>) -> Option<u32> {
        let partitions = self.batches.len() as u32;
        if partitions == 0 {
            return None;
        }
        partitioner.choose(key, partitions).or_else(|| {
            // Any will do, and the next records stay with it, so that its batch fills.
            let sticky = *self.sticky.get_or_insert_with(|| random() % partitions);
            Some(sticky)
        })
    }

    fn forget(&mut self, partition: usize) {
        if let Some(place) = self.batches.get_mut(partition) {
            *place = None;
        }
        if self.sticky == u32::try_from(partition).ok() {
            self.sticky = None;
        }
    }
}

fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

impl OpenBatches {
    /// The index of a topic's state.
    #[inline(always)]
    fn find(&self, topic: Ref<'_>) -> Option<usize> {
        if self.topics.get(self.last)?.name.as_ptr() == topic.as_ptr() {
            return Some(self.last);
        }
        self.look_up(topic)
    }

    #[inline(never)]
    fn look_up(&self, topic: Ref<'_>) -> Option<usize> {
        let (mut scratch, mut other) = (Vec::new(), Vec::new());
        let name = topic.text()?.utf8(&mut scratch)?;
        self.topics.iter().position(|topic| {
            topic.name.borrow().text().is_some_and(|text| text.is(name, &mut other))
        })
    }

    /// Append a record; None: Python has to look at it.
    #[inline(always)]
    fn produce(&mut self, py: Python<'_>, arguments: &Arguments<'_>) -> Option<Outcome> {
        let index = self.find(arguments.topic)?;
        self.last = index;
        let topic = &mut self.topics[index];
        let (key, headers) = (arguments.key, arguments.headers);
        if !(topic.stores_keys || key.is_none()) || !(topic.stores_headers || headers.is_none()) {
            return None;
        }
        let partition = match arguments.partition {
            -1 if key.is_none() => topic.choose(self.partitioner, None)?,
            -1 => {
                let mut scratch = Vec::new(); // empty: allocates for rare texts only
                let bytes = match key.text() {
                    Some(text) => text.utf8(&mut scratch)?,
                    None => key.bytes()?,
                };
                topic.choose(self.partitioner, Some(bytes))?
            }
            partition => u32::try_from(partition).ok()?,
        };
        let partition = partition as usize;
        let mut batch = topic.batches.get(partition)?.as_ref()?.try_borrow_mut(py).ok()?;
        let default = self.default_callback.as_ref().map(Owned::borrow);
        let mut callback = arguments.callback;
        if let Some(default) = default.filter(|_| callback.is_none()) {
            callback = default;
        }
        let timestamp = arguments.timestamp;
        let record = NewRecord { row: arguments.value, key, timestamp, headers, callback };
        let usage = self.usage.get();
        if !usage.accepts() {
            return None;
        }
        let nbytes = batch.add(record, |nbytes| usage.has_room(nbytes))?;
        let was_half_used = usage.is_half_used();
        usage.charge(nbytes);
        let is_full = batch.is_full();
        drop(batch);
        if is_full {
            topic.forget(partition);
        }
        Some(if is_full || (usage.is_half_used() && !was_half_used) {
            Outcome::Full
        } else {
            Outcome::Appended
        })
    }
}

// --- the method -----------------------------------------------------------------------------------

/// The arguments of `Producer.produce` that are read here.
struct Arguments<'a> {
    topic: Ref<'a>,
    value: Ref<'a>,
    key: Ref<'a>,
    partition: i32,
    callback: Ref<'a>,
    timestamp: i64,
    headers: Ref<'a>,
}

const NAMES: [&CStr; 8] = [
    c"topic",
    c"value",
    c"key",
    c"partition",
    c"callback",
    c"on_delivery",
    c"timestamp",
    c"headers",
];

const SIGNATURE: &str = "produce($self, topic, value=None, key=None, partition=-1, callback=None, \
                         on_delivery=None, timestamp=0, headers=None)";

/// The names as interned strings, which is what callers pass.
static INTERNED: OnceLock<[Owned; 8]> = OnceLock::new();

impl<'a> Arguments<'a> {
    /// Read the arguments; None where they are not what is read here.
    ///
    /// # Safety
    /// These are the arguments of a vectorcall, and the GIL is held.
    #[inline(always)]
    unsafe fn read(
        arguments: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        names: *mut ffi::PyObject,
    ) -> Option<Self> {
        let count = usize::try_from(count).ok()?;
        if count > NAMES.len() {
            return None;
        }
        // SAFETY: None lives for ever, there are `count` arguments, and as many more as names.
        unsafe {
            let none: Ref<'a> = Ref::from_ptr(ffi::Py_None());
            let mut found = [none; NAMES.len()];
            for (index, place) in found.iter_mut().enumerate().take(count) {
                *place = Ref::from_ptr(*arguments.add(index));
            }
            if !names.is_null() {
                let interned = INTERNED.get()?;
                for (index, &name) in Ref::from_ptr(names).items()?.iter().enumerate() {
                    let place = interned.iter().position(|known| known.borrow() == name)?;
                    if place < count {
                        return None;
                    }
                    found[place] = Ref::from_ptr(*arguments.add(count + index));
                }
            }
            let [topic, value, key, partition, callback, on_delivery, timestamp, headers] = found;
            let number = |given: Ref<'_>, default| match given.int() {
                Some(Int::Fits(number)) => Some(number),
                _ => given.is_none().then_some(default),
            };
            Some(Self {
                topic,
                value,
                key,
                partition: i32::try_from(number(partition, -1)?).ok()?,
                callback: if callback.is_none() { on_delivery } else { callback },
                timestamp: number(timestamp, 0)?,
                headers,
            })
        }
    }
}

/// A method descriptor of a class, and what it needs: see `install`.
struct Method {
    fallback: Owned,
    /// Where an instance has its `OpenBatches`: the offset of a slot.
    offset: isize,
}

static METHOD: OnceLock<Method> = OnceLock::new();

static mut DEFINITION: ffi::PyMethodDef = ffi::PyMethodDef {
    ml_name: c"produce".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: produce },
    ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    ml_doc: std::ptr::null(), // see `produce_method`
};

/// Return a method for `cls` that does what `fallback` does, which it calls in all but the common
/// case. An instance's `OpenBatches` is in the slot `slot` of `cls`. Once a process.
#[pyfunction]
pub fn produce_method(
    cls: &Bound<'_, PyAny>,
    slot: &str,
    fallback: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let py = cls.py();
    let offset = slot_offset(cls, slot)?;
    // SAFETY: `cls` is a class.
    unsafe {
        let fallback_doc = fallback.getattr("__doc__")?.extract::<Option<String>>()?;
        let fallback = Ref::of(fallback).to_owned();
        if METHOD.set(Method { fallback, offset }).is_err() {
            return Err(PyRuntimeError::new_err("there is a method already"));
        }
        let _ = INTERNED.set(NAMES.map(|name| {
            let name = ffi::PyUnicode_InternFromString(name.as_ptr());
            Owned::steal(name).expect("there is memory for eight names")
        }));
        // Python reads the signature out of the text; both live as long as the class.
        let doc: String = fallback_doc.unwrap_or_default();
        DEFINITION.ml_doc = CString::new(format!("{SIGNATURE}\n--\n\n{doc}"))?.into_raw();
        let method = ffi::PyDescr_NewMethod(cls.as_ptr().cast(), &raw mut DEFINITION);
        Bound::from_owned_ptr_or_err(py, method).map(Bound::unbind)
    }
}

/// `Producer.produce`.
unsafe extern "C" fn produce(
    producer: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls this as a method of the class that it was made for, with the GIL.
    unsafe {
        let py = Python::assume_attached();
        let Some(method) = METHOD.get() else { return std::ptr::null_mut() };
        let slot = *producer.cast::<u8>().offset(method.offset).cast::<*mut ffi::PyObject>();
        let taken = Arguments::read(arguments, count, names)
            .and_then(|read| append(Bound::from_borrowed_ptr_or_opt(py, slot)?, &read));
        match taken {
            None => fall_back(py, method, producer, arguments, count, names),
            Some(Ok(())) => py.None().into_ptr(),
            Some(Err(error)) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    }
}

/// Append a record to a producer's open batches; None: Python has to look at it.
#[inline(always)]
fn append(slot: Bound<'_, PyAny>, arguments: &Arguments<'_>) -> Option<PyResult<()>> {
    let mut open = slot.cast::<OpenBatches>().ok()?.try_borrow_mut().ok()?;
    Some(match open.produce(slot.py(), arguments)? {
        Outcome::Appended => Ok(()),
        Outcome::Full => {
            let wake = open.wake.clone_ref(slot.py());
            drop(open); // it runs Python code
            wake.call0(slot.py()).map(drop)
        }
    })
}

/// Call the package's own `produce` with the same arguments.
///
/// # Safety
/// As `produce`.
#[inline(never)]
unsafe fn fall_back(
    _: Python<'_>,
    method: &Method,
    producer: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the arguments are alive; they are passed on behind the producer.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let all: Vec<_> = std::iter::once(producer)
            .chain((0..count + named).map(|index| *arguments.offset(index)))
            .collect();
        let count = all.len() - named as usize;
        ffi::PyObject_Vectorcall(method.fallback.as_ptr(), all.as_ptr(), count, names)
    }
}
