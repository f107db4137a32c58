//! `Producer.produce` as one native call, which falls back to the package's own.

use std::ffi::CString;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::produce::arguments::{Arguments, INTERNED, NAMES, SIGNATURE};
use crate::produce::open_batches::{OpenBatches, Outcome};
use crate::python::layout::slot_offset;
use crate::python::panics;
use crate::python::py;

/// A method descriptor of a class, and what it needs: see `install`.
struct Method {
    fallback: Py<PyAny>,
    /// Where an instance has its `OpenBatches`: the offset of a slot.
    offset: isize,
}

static METHOD: PyOnceLock<Method> = PyOnceLock::new();

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
    let offset = slot_offset(cls.cast()?, slot)?;
    // SAFETY: `cls` is a class.
    unsafe {
        let fallback_doc = fallback.getattr("__doc__")?.extract::<Option<String>>()?;
        let method = Method { fallback: fallback.clone().unbind(), offset };
        if METHOD.set(py, method).is_err() {
            return Err(PyRuntimeError::new_err("there is a method already"));
        }
        let _ = INTERNED.set(
            py,
            NAMES.map(|name| {
                let name = ffi::PyUnicode_InternFromString(name.as_ptr());
                Bound::from_owned_ptr(py, name).unbind()
            }),
        );
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
    // SAFETY: Python calls this as a method of the class that it was made for, with the GIL. No panic
    // leaves it: that would end the process.
    unsafe {
        let py = Python::assume_attached();
        let Some(method) = METHOD.get(py) else { return std::ptr::null_mut() };
        let slot = *producer.cast::<u8>().offset(method.offset).cast::<*mut ffi::PyObject>();
        let batches = Bound::from_borrowed_ptr_or_opt(py, slot);
        let appended = batches.as_ref().and_then(|batches| {
            let append = || append(batches, &Arguments::read(py, arguments, count, names)?);
            panics::caught("produce", append).unwrap_or_else(|| give_up(batches))
        });
        match appended {
            Some(Ok(())) => py.None().into_ptr(),
            Some(Err(error)) => {
                error.restore(py);
                std::ptr::null_mut()
            }
            None if ffi::PyErr_Occurred().is_null() => {
                fall_back(method, producer, arguments, count, names)
            }
            None => std::ptr::null_mut(),
        }
    }
}

/// After a panic: None if the record is not accepted, and so Python's to accept.
#[cold]
fn give_up(batches: &Bound<'_, PyAny>) -> Option<PyResult<()>> {
    let py = batches.py();
    let batches = batches.cast::<OpenBatches>().ok()?;
    let is_pythons = batches.get().try_get(py)?.give_up(py); // in use no more: what follows logs
    match is_pythons {
        true => panics::tell(py).err().map(Err),
        false => Some(Err(panics::error(py))),
    }
}

/// Append a record to a producer's open batches; None: Python has to look at it, or to raise the
/// exception that is set.
#[inline(always)]
fn append(batches: &Bound<'_, PyAny>, arguments: &Arguments<'_>) -> Option<PyResult<()>> {
    let py = batches.py();
    let batches = batches.cast::<OpenBatches>().ok()?;
    let outcome = batches.get().try_get(py)?.produce(py, arguments)?;
    match outcome {
        Outcome::Appended => Some(Ok(())),
        Outcome::Full { topic, partition, batch } => {
            batch.into_iter().for_each(|batch| batch.drop_ref(py));
            Some(filled(batches, &topic, partition))
        }
        Outcome::Closed(format, partition) => append_first(batches, &format, partition, arguments),
    }
}

/// Have the sender's thread look at a batch. That runs Python code.
#[inline(never)]
fn filled(
    batches: &Bound<'_, OpenBatches>,
    topic: &Bound<'_, PyAny>,
    partition: u32,
) -> PyResult<()> {
    let py = batches.py();
    let filled = batches.get().get(py)?.filled.bind(py).clone();
    py::call2(&filled, topic, partition.into_pyobject(py)?.as_any()).map(drop)
}

/// Open a batch, and append its first record; None: Python has to look at it.
#[inline(never)]
fn append_first(
    batches: &Bound<'_, OpenBatches>,
    format: &Bound<'_, PyAny>,
    partition: u32,
    arguments: &Arguments<'_>,
) -> Option<PyResult<()>> {
    let py = batches.py();
    let opener = batches.get().try_get(py)?.opener.bind(py).clone();
    let number = partition.into_pyobject(py).ok()?;
    match py::call2(&opener, format, number.as_any()).and_then(|is_open| is_open.extract()) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return Some(Err(error)),
    }
    let outcome = batches.get().try_get(py)?.produce(py, arguments)?;
    match outcome {
        Outcome::Closed(..) => None,
        Outcome::Appended => Some(Ok(())),
        Outcome::Full { topic, partition, batch } => {
            batch.into_iter().for_each(|batch| batch.drop_ref(py));
            Some(filled(batches, &topic, partition))
        }
    }
}

/// Call the package's own `produce` with the same arguments.
///
/// # Safety
/// As `produce`.
#[inline(never)]
unsafe fn fall_back(
    method: &Method,
    producer: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the arguments are alive; they are passed on behind the producer.
    unsafe {
        let py = Python::assume_attached();
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let all: Vec<_> = std::iter::once(producer)
            .chain((0..count + named).map(|index| *arguments.offset(index)))
            .collect();
        match py::call(method.fallback.bind(py), &all, names) {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    }
}
