//! `produce`: one call, in which a record is appended to the open batch of its partition.
//!
//! Whatever is not the common case is left to the package's own `produce`, in Python: it has every
//! rule and every error. Then it appends to the same batches.

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::produce::arguments::Arguments;
use crate::produce::batch::{Batch, NewRecord};
use crate::produce::memory_bound::Usage;
use crate::produce::partitioner::Partitioner;
use crate::python::fork;
use crate::python::gil::{GilCell, InUse};
use crate::python::panics::entry;
use crate::python::py::Ref;

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
    /// The partition of the last topic to whose batch a record is being appended.
    appending: Option<u32>,
    default_callback: Option<Py<PyAny>>,
    /// Called with topic and partition where the sender's thread has work.
    pub filled: Py<PyAny>,
    /// Called with a topic's format and a partition to open a batch there. It returns False where
    /// Python has to look at the record.
    pub opener: Py<PyAny>,
}

struct Topic {
    name: Py<PyAny>,
    /// The package's object for the format of these batches, known by its identity.
    format: Py<PyAny>,
    sticky: Option<u32>,
    stores_keys: bool,
    stores_headers: bool,
    /// By partition; their number is the topic's number of partitions, 0 while it is unknown.
    batches: Vec<Option<OpenBatch>>,
}

/// An open batch, the core's or Python's own.
pub struct OpenBatch {
    item: Py<PyAny>,
    /// Its records, if they are the core's to append.
    records: Option<Py<Batch>>,
}

impl OpenBatch {
    pub fn drop_ref(self, py: Python<'_>) {
        self.item.drop_ref(py);
        if let Some(records) = self.records {
            records.drop_ref(py);
        }
    }
}

/// What became of a record.
pub enum Outcome<'py> {
    Appended,
    /// And the batch of that topic and partition is full, or half of a bound is used.
    Full {
        topic: Bound<'py, PyAny>,
        partition: u32,
        batch: Option<OpenBatch>,
    },
    /// Not appended: no batch of that format and partition is open.
    Closed(Bound<'py, PyAny>, u32),
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
            appending: None,
            default_callback: default_callback.map(Bound::unbind),
            filled,
            opener,
        })))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit, |open| open.visit(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let gone = self.0.get(py).map(|mut open| open.clear(py));
        drop(gone);
    }

    /// Open batches of this format from now on for a topic, and those of another no more. It keeps the
    /// number of its partitions.
    #[pyo3(signature = (topic, topic_format, *, stores_keys, stores_headers))]
    fn set_format(
        &self,
        topic: &Bound<'_, PyString>,
        topic_format: Py<PyAny>,
        stores_keys: bool,
        stores_headers: bool,
    ) -> PyResult<()> {
        let py = topic.py();
        entry(py, "OpenBatches.set_format", || {
            let name = Ref::of(topic).to_stored();
            let (format, batches) = (topic_format, Vec::new());
            let topic = Topic { name, format, sticky: None, stores_keys, stores_headers, batches };
            let gone = self.get(py)?.set(py, topic);
            drop(gone);
            Ok(())
        })
    }

    /// Choose among so many partitions of a topic from now on; 0: its records wait.
    fn set_partitions(&self, topic: &Bound<'_, PyString>, partitions: usize) -> PyResult<()> {
        let py = topic.py();
        entry(py, "OpenBatches.set_partitions", || {
            let gone = self.get(py)?.topic(topic).map(|topic| topic.set_partitions(partitions));
            drop(gone);
            Ok(())
        })
    }

    /// Return the partition of a record and the batch that is open there, which may be full. None if
    /// there is no such partition, or none is known. With a format, only if that is the topic's.
    #[pyo3(signature = (topic, partition, key, topic_format=None))]
    fn find(
        &self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
        topic_format: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<(usize, Option<Py<PyAny>>)>> {
        let py = topic.py();
        entry(py, "OpenBatches.find", || {
            let mut open = self.get(py)?;
            let partitioner = open.partitioner;
            let is_of = |topic: &&mut Topic| topic_format.is_none_or(|format| topic.is_of(format));
            let Some(topic) = open.topic(topic).filter(is_of) else { return Ok(None) };
            let partition = match partition {
                -1 => topic.choose(partitioner, key).map(|partition| partition as usize),
                partition => usize::try_from(partition).ok(),
            };
            let place =
                partition.and_then(|partition| Some((partition, topic.batches.get(partition)?)));
            Ok(place.map(|(partition, batch)| {
                (partition, batch.as_ref().map(|batch| batch.item.clone_ref(py)))
            }))
        })
    }

    /// Open a batch, and append it to `queue`: both or neither. False: batches of that format are not
    /// opened there any more. `records` are the batch's, if they are the core's to append.
    fn open(
        &self,
        topic: &Bound<'_, PyString>,
        partition: usize,
        topic_format: &Bound<'_, PyAny>,
        batch: &Bound<'_, PyAny>,
        records: Option<Py<Batch>>,
        queue: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = topic.py();
        entry(py, "OpenBatches.open", || {
            let append = queue.getattr("append")?; // which makes an object
            let item = Ref::of(batch).to_stored();
            let before;
            {
                let mut open = self.get(py)?;
                let topic = open.topic(topic).filter(|topic| topic.is_of(topic_format));
                let place = topic.and_then(|topic| topic.batches.get_mut(partition));
                let Some(place) = place else { return Ok(false) };
                append.call1((batch,))?; // written in C, it makes none
                before = place.replace(OpenBatch { item, records });
            }
            drop(before);
            Ok(true)
        })
    }

    /// Append nothing more to a batch: it is full, or sealed. The next batch without keys may be of another
    /// partition.
    fn let_go(
        &self,
        topic: &Bound<'_, PyString>,
        partition: usize,
        batch: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = topic.py();
        entry(py, "OpenBatches.let_go", || {
            let gone = self.get(py)?.topic(topic).map(|topic| topic.let_go(partition, batch));
            drop(gone);
            Ok(())
        })
    }

    /// Return the partition of a message that is no record. The records after it go to another
    /// batch. -1: nothing is known of the topic, or of the partition.
    fn close(
        &self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
    ) -> PyResult<i64> {
        let py = topic.py();
        entry(py, "OpenBatches.close", || {
            let (chosen, gone) = self.get(py)?.close(topic, partition, key);
            drop(gone);
            Ok(chosen)
        })
    }

    /// Have the next records of all partitions of a topic go to other batches.
    fn close_all(&self, topic: &Bound<'_, PyString>) -> PyResult<()> {
        let py = topic.py();
        entry(py, "OpenBatches.close_all", || {
            let gone = self.get(py)?.topic(topic).map(Topic::close);
            drop(gone);
            Ok(())
        })
    }
}

impl OpenBatches {
    /// Use them.
    pub fn get<'a>(&'a self, py: Python<'a>) -> PyResult<InUse<'a, Open>> {
        self.try_get(py).ok_or_else(|| PyRuntimeError::new_err("the open batches are in use"))
    }

    /// Use them; None while somebody else does.
    #[inline(always)]
    pub fn try_get<'a>(&'a self, py: Python<'a>) -> Option<InUse<'a, Open>> {
        self.0.get(py)
    }
}

impl Topic {
    fn is_of(&self, format: &Bound<'_, PyAny>) -> bool {
        self.format.as_ptr() == format.as_ptr()
    }

    /// Have the next records of all partitions go to other batches; return those that were open.
    fn close(&mut self) -> Vec<Option<OpenBatch>> {
        self.sticky = None;
        self.batches.iter_mut().map(Option::take).collect()
    }

    /// Return the open batches of partitions that are gone.
    fn set_partitions(&mut self, partitions: usize) -> Vec<Option<OpenBatch>> {
        let gone = self.batches.split_off(partitions.min(self.batches.len()));
        self.batches.resize_with(partitions, || None);
        self.sticky = self.sticky.filter(|&sticky| (sticky as usize) < partitions);
        gone
    }

    fn let_go(&mut self, partition: usize, batch: &Bound<'_, PyAny>) -> Option<OpenBatch> {
        let place = self.batches.get(partition)?.as_ref();
        if place.is_some_and(|open| open.item.as_ptr() != batch.as_ptr()) {
            return None; // another one is open by now
        }
        self.forget(partition)
    }

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

    /// Have the next records of a partition go to another batch; return the one that was open.
    fn forget(&mut self, partition: usize) -> Option<OpenBatch> {
        if self.sticky == u32::try_from(partition).ok() {
            self.sticky = None;
        }
        self.batches.get_mut(partition).and_then(Option::take)
    }
}

fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

/// What is dropped when the open batches are in use no more: that may run code of the user's.
type Gone = (Vec<Topic>, Vec<Py<PyAny>>);

impl Open {
    fn clear(&mut self, py: Python<'_>) -> Gone {
        let mut objects: Vec<_> = self.default_callback.take().into_iter().collect();
        for object in [&mut self.filled, &mut self.opener] {
            objects.push(std::mem::replace(object, py.None()));
        }
        (std::mem::take(&mut self.topics), objects)
    }

    /// The state of a topic.
    fn topic(&mut self, topic: &Bound<'_, PyString>) -> Option<&mut Topic> {
        let index = self.find(Ref::of(topic))?;
        Some(&mut self.topics[index])
    }

    fn set(&mut self, py: Python<'_>, mut topic: Topic) -> Option<Topic> {
        let Some(index) = self.find(Ref::of_stored(py, &topic.name)) else {
            self.topics.push(topic);
            return None;
        };
        let known = &mut self.topics[index];
        topic.set_partitions(known.batches.len());
        Some(std::mem::replace(known, topic))
    }

    fn close(
        &mut self,
        topic: &Bound<'_, PyString>,
        partition: i64,
        key: Option<&[u8]>,
    ) -> (i64, Option<OpenBatch>) {
        let partitioner = self.partitioner;
        let Some(topic) = self.topic(topic) else { return (partition, None) };
        let chosen = match partition {
            -1 => topic.choose(partitioner, key).map(i64::from),
            partition => Some(partition),
        };
        let Some(chosen) = chosen else { return (partition, None) };
        (chosen, topic.forget(usize::try_from(chosen).unwrap_or(usize::MAX)))
    }

    /// Give up the row in which the core has panicked; says whether there is one.
    #[cold]
    pub fn give_up(&mut self, py: Python<'_>) -> bool {
        let Some(partition) = self.appending.take() else { return false };
        let batch =
            self.topics.get(self.last).and_then(|topic| topic.batches.get(partition as usize));
        let records = batch.and_then(|batch| batch.as_ref()?.records.as_ref());
        if let Some(mut filling) = records.and_then(|records| records.get().filling(py)) {
            filling.give_up();
        }
        true
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Option<Result<(), PyTraverseError>> {
        let batches = self.topics.iter().flat_map(|topic| topic.batches.iter().flatten());
        let formats = self.topics.iter().map(|topic| &topic.format);
        let mut objects = [&self.filled, &self.opener].into_iter().chain(formats);
        let result = (objects.try_for_each(|object| visit.call(object)))
            .and_then(|()| {
                self.default_callback.iter().try_for_each(|callback| visit.call(callback))
            })
            .and_then(|()| {
                batches.into_iter().try_for_each(|batch| {
                    visit.call(&batch.item)?;
                    batch.records.iter().try_for_each(|records| visit.call(records))
                })
            });
        Some(result)
    }

    /// The index of a topic's state.
    #[inline(always)]
    fn find(&self, topic: Ref<'_>) -> Option<usize> {
        let last = self.topics.get(self.last)?; // it is there, if any is
        if last.name.as_ptr() == topic.as_ptr() {
            return Some(self.last);
        }
        self.look_up(topic)
    }

    #[inline(never)]
    fn look_up(&self, topic: Ref<'_>) -> Option<usize> {
        let py = topic.py();
        let (mut scratch, mut other) = (Vec::new(), Vec::new());
        let name = topic.text()?.utf8(&mut scratch)?;
        self.topics.iter().position(|topic| {
            let known = Ref::of_stored(py, &topic.name);
            known.text().is_some_and(|text| text.is(name, &mut other))
        })
    }

    /// Append a record; None: Python has to look at it.
    #[inline(always)]
    pub fn produce<'py>(
        &mut self,
        py: Python<'py>,
        arguments: &Arguments<'_>,
    ) -> Option<Outcome<'py>> {
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
        let name = |topic: &Topic| topic.name.bind(py).clone();
        let closed =
            |topic: &Topic| Some(Outcome::Closed(topic.format.bind(py).clone(), partition as u32));
        let Some(batch) = topic.batches.get(partition)? else { return closed(topic) };
        let mut batch = batch.records.as_ref()?.get().filling(py)?;
        if !batch.is_open() {
            return closed(topic);
        }
        let default = self.default_callback.as_ref().map(|callback| Ref::of_stored(py, callback));
        let mut callback = arguments.callback;
        if let Some(default) = default.filter(|_| callback.is_none()) {
            callback = default;
        }
        let timestamp = arguments.timestamp;
        let pinned = arguments.partition != -1;
        let row = arguments.value;
        let record = NewRecord { row, key, timestamp, headers, callback, pinned, given: None };
        self.appending = Some(partition as u32);
        let added = batch.add(py, record, false, |nbytes| usage.has_room(nbytes));
        self.appending = None;
        let nbytes = added?;
        let was_half_used = usage.is_half_used();
        usage.charge(nbytes as i64, 1);
        let is_full = batch.is_full();
        drop(batch);
        let full = if is_full { topic.forget(partition) } else { None };
        Some(if is_full || (usage.is_half_used() && !was_half_used) {
            Outcome::Full { topic: name(topic), partition: partition as u32, batch: full }
        } else {
            Outcome::Appended
        })
    }
}
