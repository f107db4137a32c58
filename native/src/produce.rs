//! `Producer.produce` as one native call, which falls back to the package's own.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::layout::slot_offset;
use crate::open_batches::{OpenBatches, Outcome};
use crate::py::{Int, Owned, Ref};

/// The arguments of `Producer.produce` that are read here.
pub struct Arguments<'a> {
    pub topic: Ref<'a>,
    pub value: Ref<'a>,
    pub key: Ref<'a>,
    pub partition: i32,
    pub callback: Ref<'a>,
    pub timestamp: i64,
    pub headers: Ref<'a>,
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
    let offset = slot_offset(cls.cast()?, slot)?;
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
            None => fall_back(method, producer, arguments, count, names),
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
    let py = slot.py();
    let batches = slot.cast::<OpenBatches>().ok()?;
    let mut open = batches.get().try_get(py)?;
    match open.produce(py, arguments)? {
        Outcome::Appended => Some(Ok(())),
        Outcome::Full(topic, partition) => {
            let filled = open.filled.clone_ref(py);
            drop(open); // it runs Python code
            Some(filled.call1(py, (topic.into_bound(py), partition)).map(drop))
        }
        Outcome::Closed(topic, partition) => {
            drop(open);
            append_first(batches, topic, partition, arguments)
        }
    }
}

/// Open a batch, and append its first record; None: Python has to look at it.
#[inline(never)]
fn append_first(
    batches: &Bound<'_, OpenBatches>,
    topic: Owned,
    partition: u32,
    arguments: &Arguments<'_>,
) -> Option<PyResult<()>> {
    let py = batches.py();
    let (opener, filled) = {
        let open = batches.get().try_get(py)?;
        (open.opener.clone_ref(py), open.filled.clone_ref(py))
    };
    let place = (topic.into_bound(py), partition);
    match opener.call1(py, place.clone()).and_then(|is_open| is_open.extract(py)) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return Some(Err(error)),
    }
    let outcome = batches.get().try_get(py)?.produce(py, arguments)?;
    match outcome {
        Outcome::Closed(..) => None,
        Outcome::Appended => Some(Ok(())),
        Outcome::Full(..) => Some(filled.call1(py, place).map(drop)),
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
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let all: Vec<_> = std::iter::once(producer)
            .chain((0..count + named).map(|index| *arguments.offset(index)))
            .collect();
        let count = all.len() - named as usize;
        ffi::PyObject_Vectorcall(method.fallback.as_ptr(), all.as_ptr(), count, names)
    }
}
