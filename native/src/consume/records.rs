//! The records of a segment as messages.

use pyo3::PyTraverseError;
use pyo3::exceptions::PyValueError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::consume::decoder::Lists;
use crate::python::layout::{new_object, set_slot, slot_offset};
use crate::python::new;
use crate::python::panics::entry;
use crate::python::py::{NoCollection, Ref};

/// Makes messages of one class, whose slots it sets. For any thread.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct RecordMaker {
    class: Py<PyType>,
    context_at: isize,
    position_at: isize,
    /// The slots for value, key, time and headers.
    parts_at: [isize; 4],
}

#[pymethods]
impl RecordMaker {
    #[new]
    fn new(class: Bound<'_, PyType>) -> PyResult<Self> {
        let at = |name| slot_offset(&class, name);
        let parts_at = [at("_value")?, at("_key")?, at("_time")?, at("_headers")?];
        let (context_at, position_at) = (at("_context")?, at("_position")?);
        Ok(Self { class: class.unbind(), context_at, position_at, parts_at })
    }

    /// Make the messages of consecutive records, from the position `first` on, of equally long lists.
    fn make<'py>(
        &self,
        py: Python<'py>,
        context: &Bound<'py, PyAny>,
        first: i64,
        parts: Lists<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        entry(py, "RecordMaker.make", || self.messages(py, context, first, &parts))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.class)
    }
}

impl RecordMaker {
    fn messages<'py>(
        &self,
        py: Python<'py>,
        context: &Bound<'py, PyAny>,
        first: i64,
        parts: &Lists<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let _no_collection = NoCollection::begin(py); // nothing else runs: the lists stay as they are
        let (values, keys, times, headers) = parts;
        let parts = [values, keys, times, headers].map(|part| Ref::of(part).items().unwrap_or(&[]));
        let rows = parts[0].len();
        if parts.iter().any(|part| part.len() != rows) {
            return Err(PyValueError::new_err("the lists differ in length"));
        }
        let class = self.class.bind(py);
        let mut messages = Vec::with_capacity(rows);
        for row in 0..rows {
            let message = new_object(class)?;
            // SAFETY: the offsets are those of slots of the class; each gets a reference of its own.
            unsafe {
                let position = new::int(py, first + row as i64)?;
                set_slot(&message, self.position_at, position.into_ptr());
                set_slot(&message, self.context_at, Ref::of(context).to_owned().into_ptr());
                for (part, at) in parts.iter().zip(self.parts_at) {
                    set_slot(&message, at, part[row].to_owned().into_ptr());
                }
            }
            messages.push(message);
        }
        PyList::new(py, messages)
    }
}
