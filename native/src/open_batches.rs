//! `produce`: one call, in which a record is appended to the open batch of its partition.
//!
//! Whatever is not the common case is left to the package's own `produce`, in Python: it has every
//! rule and every error. Then it appends to the same batches.

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batch::{Batch, NewRecord};
use crate::fork;
use crate::gil::{GilCell, InUse};
use crate::partitioner::Partitioner;
use crate::produce::Arguments;
use crate::py::{Owned, Ref};
use crate::row_format::RowFormat;
use crate::usage::Usage;

/// The open batches of one producer. Any thread may append to them.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct OpenBatches(GilCell<Open>);

pub struct Open {
    topics: Vec<Topic>,
    /// The topic of the last record.
    last: usize,
    usage: Py<Usage>,
    /// `fork::count` of the process that they belong to.
    forks: u32,
    partitioner: Partitioner,
    default_callback: Option<Owned>,
    /// Called with topic and partition where the sender's thread has work.
    pub filled: Py<PyAny>,
    /// Called with topic and partition to open a batch there. It returns False where Python has to
    /// look at the record.
    pub opener: Py<PyAny>,
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
pub enum Outcome {
    Appended,
    /// And the batch of that topic and partition is full, or half of a bound is used.
    Full(Owned, u32),
    /// Not appended: no batch of that topic and partition is open.
    Closed(Owned, u32),
}

#[pymethods]
impl OpenBatches {
    #[new]
    #[pyo3(signature = (usage, partitioner, filled, opener, default_callback=None))]
    fn new(
        usage: Py<Usage>,
        partitioner: &str,
        filled: Py<PyAny>,
        opener: Py<PyAny>,
        default_callback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self(GilCell::new(Open {
            topics: Vec::new(),
            last: 0,
            usage,
            forks: fork::count(),
            partitioner: Partitioner::named(partitioner)?,
            default_callback: default_callback.map(|callback| Ref::of(&callback).to_owned()),
            filled,
            opener,
        })))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit, |open| open.visit(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Some(mut open) = self.0.get(py) {
            open.topics.clear();
            open.default_callback = None;
            open.filled = py.None();
            open.opener = py.None();
        }
    }

    /// Append records of a topic here from now on, or with another number of partitions. A new
    /// format closes the open batches.
    #[pyo3(signature = (topic, partitions, *, row_format, stores_keys, stores_headers))]
    fn set_topic(
        &self,
        topic: &Bound<'_, PyString>,
        partitions: usize,
        row_format: Py<RowFormat>,
        stores_keys: bool,
        stores_headers: bool,
    ) -> PyResult<()> {
        let mut open = self.get(topic.py())?;
        let name = Ref::of(topic.as_any());
        if let Some(index) = open.find(name) {
            let known = &mut open.topics[index];
            if known.row_format.as_ptr() == row_format.as_ptr() {
                known.batches.resize_with(partitions, || None);
                known.sticky = known.sticky.filter(|&sticky| (sticky as usize) < partitions);
                return Ok(());
            }
            open.topics.swap_remove(index);
            open.last = 0;
        }
        let batches = (0..partitions).map(|_| None).collect();
        let name = name.to_owned();
        let known = Topic { name, row_format, sticky: None, stores_keys, stores_headers, batches };
        open.topics.push(known);
        Ok(())
    }

    /// Return the partition of a record, if records of that format are appended here.
    fn place(
        &self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
        row_format: &Bound<'_, RowFormat>,
    ) -> PyResult<Option<usize>> {
        let mut open = self.get(topic.py())?;
        let partitioner = open.partitioner;
        let Some(index) = open.find(Ref::of(topic.as_any())) else { return Ok(None) };
        let topic = &mut open.topics[index];
        if topic.row_format.as_ptr() != row_format.as_ptr() {
            return Ok(None);
        }
        let partition = match partition {
            -1 => topic.choose(partitioner, key).map(|partition| partition as usize),
            partition => usize::try_from(partition).ok(),
        };
        Ok(partition.filter(|&partition| partition < topic.batches.len()))
    }

    /// Return the open batch of a partition, if it takes records.
    fn batch(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        partition: usize,
    ) -> PyResult<Option<Py<Batch>>> {
        let open = self.get(py)?;
        let Some(index) = open.find(Ref::of(topic.as_any())) else { return Ok(None) };
        let batch = open.topics[index].batches.get(partition).and_then(Option::as_ref);
        Ok(batch.filter(|batch| batch.get().is_open(py)).map(|batch| batch.clone_ref(py)))
    }

    /// Open a batch, and append `item` to `queue`: both or, with an error, neither.
    fn open(
        &self,
        topic: &Bound<'_, PyString>,
        partition: usize,
        batch: Py<Batch>,
        item: &Bound<'_, PyAny>,
        queue: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut open = self.get(topic.py())?;
        let unknown = || PyRuntimeError::new_err(format!("no {topic}[{partition}] here"));
        let index = open.find(Ref::of(topic.as_any())).ok_or_else(unknown)?;
        let place = open.topics[index].batches.get_mut(partition).ok_or_else(unknown)?;
        queue.call_method1("append", (item,))?;
        *place = Some(batch);
        Ok(())
    }

    /// Return the partition of a message that is no record. The records after it go to another
    /// batch. -1: nothing is known of the topic, or of the partition.
    fn close(
        &self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
    ) -> PyResult<i64> {
        let mut open = self.get(topic.py())?;
        let partitioner = open.partitioner;
        let Some(index) = open.find(Ref::of(topic.as_any())) else { return Ok(partition) };
        let topic = &mut open.topics[index];
        let chosen = match partition {
            -1 => topic.choose(partitioner, key).map(i64::from),
            partition => Some(partition),
        };
        if let Some(chosen) = chosen {
            topic.forget(usize::try_from(chosen).unwrap_or(usize::MAX));
        }
        Ok(chosen.unwrap_or(partition))
    }

    /// Have the next records of all partitions of a topic go to other batches.
    fn close_all(&self, topic: &Bound<'_, PyString>) -> PyResult<()> {
        let mut open = self.get(topic.py())?;
        if let Some(index) = open.find(Ref::of(topic.as_any())) {
            let topic = &mut open.topics[index];
            topic.batches.iter_mut().for_each(|batch| *batch = None);
            topic.sticky = None;
        }
        Ok(())
    }
}

impl OpenBatches {
    /// Use them.
    fn get<'a>(&'a self, py: Python<'a>) -> PyResult<InUse<'a, Open>> {
        self.try_get(py).ok_or_else(|| PyRuntimeError::new_err("the open batches are in use"))
    }

    /// Use them; None while somebody else does.
    #[inline(always)]
    pub fn try_get<'a>(&'a self, py: Python<'a>) -> Option<InUse<'a, Open>> {
        self.0.get(py)
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

impl Open {
    fn visit(&self, visit: &PyVisit<'_>) -> Option<Result<(), PyTraverseError>> {
        let batches = self.topics.iter().flat_map(|topic| topic.batches.iter().flatten());
        let mut objects = [&self.filled, &self.opener].into_iter();
        let result = (objects.try_for_each(|object| visit.call(object)))
            .and_then(|()| self.default_callback.iter().try_for_each(|each| each.visit(visit)))
            .and_then(|()| batches.into_iter().try_for_each(|batch| visit.call(batch)));
        Some(result)
    }

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
    pub fn produce(&mut self, py: Python<'_>, arguments: &Arguments<'_>) -> Option<Outcome> {
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
        let usage = self.usage.get();
        if !usage.accepts() || fork::count() != self.forks {
            return None;
        }
        let closed =
            |topic: &Topic| Some(Outcome::Closed(topic.name.borrow().to_owned(), partition as u32));
        let Some(batch) = topic.batches.get(partition)? else { return closed(topic) };
        let mut batch = batch.get().filling(py)?;
        if !batch.is_open() {
            return closed(topic);
        }
        let default = self.default_callback.as_ref().map(Owned::borrow);
        let mut callback = arguments.callback;
        if let Some(default) = default.filter(|_| callback.is_none()) {
            callback = default;
        }
        let timestamp = arguments.timestamp;
        let pinned = arguments.partition != -1;
        let record = NewRecord { row: arguments.value, key, timestamp, headers, callback, pinned };
        let nbytes = batch.add(py, record, false, |nbytes| usage.has_room(nbytes))?;
        let was_half_used = usage.is_half_used();
        usage.charge(nbytes);
        let is_full = batch.is_full();
        drop(batch);
        if is_full {
            topic.forget(partition);
        }
        Some(if is_full || (usage.is_half_used() && !was_half_used) {
            Outcome::Full(topic.name.borrow().to_owned(), partition as u32)
        } else {
            Outcome::Appended
        })
    }
}
