//! Delivery reports: the callbacks of a block's records, called one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::PyTraverseError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::produce::block::Block;
use crate::python::layout::{new_object, set_slot, slot_offset};
use crate::python::panics::entry;
use crate::python::py::{Ref, call2};

/// Append a plain message's report, to be run later: here no signal handler runs before it is kept.
#[pyfunction]
#[pyo3(signature = (append, callback, error, source, /))]
pub fn relay(
    append: &Bound<'_, PyAny>,
    callback: Py<PyAny>,
    error: Py<PyAny>,
    source: Py<PyAny>,
) -> PyResult<()> {
    append.call1(((callback, error, source),))?;
    Ok(())
}

/// How many records are reported between two looks for a signal.
const SIGNAL_ROWS: usize = 1024;

/// What is raised in place of the next report, once it is set: in a forked child.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct Abandoned {
    #[pyo3(get, set)]
    error: Option<Py<PyAny>>,
}

#[pymethods]
impl Abandoned {
    #[new]
    fn new() -> Self {
        Self { error: None }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.error.as_ref().map_or(Ok(()), |error| visit.call(error))
    }

    fn __clear__(&mut self) {
        self.error = None;
    }
}

/// The reports of one block. One thread at a time runs them.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct Reports {
    block: Py<Block>,
    /// The class of the messages, and its slots for the context and for the record's index.
    class: Py<PyType>,
    context_at: isize,
    index_at: isize,
    context: Py<PyAny>,
    error: Py<PyAny>,
    reported: AtomicUsize,
}

#[pymethods]
impl Reports {
    /// Report each record of `block` with `error` and a message of `class`, whose slots `_context` and
    /// `_index` are set to `context` and the record's index.
    #[new]
    fn new(
        block: Py<Block>,
        class: &Bound<'_, PyType>,
        context: Py<PyAny>,
        error: Py<PyAny>,
    ) -> PyResult<Self> {
        let context_at = slot_offset(class, "_context")?;
        let index_at = slot_offset(class, "_index")?;
        let class = class.clone().unbind();
        let reported = AtomicUsize::new(0);
        Ok(Self { block, class, context_at, index_at, context, error, reported })
    }

    /// How many records are reported: also while their callbacks run.
    #[getter]
    fn reported(&self) -> usize {
        self.reported.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_reported(&self, count: usize) {
        self.reported.store(count, Ordering::Relaxed);
    }

    /// Call the callbacks of all records that are not reported yet.
    ///
    /// A callback's exception ends it, and so does `abandoned`: the rest is for the next call.
    fn run(&self, py: Python<'_>, abandoned: &Bound<'_, Abandoned>) -> PyResult<()> {
        entry(py, "Reports.run", || self.run_rest(py, abandoned))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.block)?;
        visit.call(&self.class)?;
        visit.call(&self.context)?;
        visit.call(&self.error)
    }
}

impl Reports {
    fn run_rest(&self, py: Python<'_>, abandoned: &Bound<'_, Abandoned>) -> PyResult<()> {
        let block = self.block.get();
        let mut kept: Option<Bound<'_, PyAny>> = None;
        for index in self.reported()..block.rows.len() {
            let Some(callback) = block.callback_of(py, index) else {
                self.set_reported(index + 1);
                continue;
            };
            if index % SIGNAL_ROWS == 0 {
                py.check_signals()?;
            }
            // A message that nobody has kept becomes the next one.
            let message = match kept.take().filter(|message| !Ref::of(message).is_shared()) {
                Some(message) => message,
                None => new_object(self.class.bind(py))?,
            };
            self.fill(py, &message, index)?;
            if let Some(error) = &abandoned.borrow().error {
                return Err(PyErr::from_value(error.bind(py).clone()));
            }
            self.set_reported(index + 1); // right before the call: once, and not never
            call2(&callback, self.error.bind(py), &message)?;
            kept = Some(message);
        }
        Ok(())
    }

    fn fill(&self, py: Python<'_>, message: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
        // SAFETY: a new reference, or null with an exception; both slots are the class's own.
        unsafe {
            let index = Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromSize_t(index))?;
            set_slot(message, self.index_at, index.into_ptr());
            set_slot(message, self.context_at, self.context.clone_ref(py).into_ptr());
        }
        Ok(())
    }
}
