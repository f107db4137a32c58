//! New objects of Python's builtin types.

use pyo3::ffi;
use pyo3::prelude::*;

/// Take over a new reference, or the error that came instead.
///
/// # Safety
/// `ptr` is what a function of CPython returned: null with an exception set, or a new reference.
#[inline(always)]
pub unsafe fn owned(py: Python<'_>, ptr: *mut ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: by the contract.
    unsafe { Bound::from_owned_ptr_or_err(py, ptr) }
}

pub fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    py.None().into_bound(py)
}

pub fn int(py: Python<'_>, value: i64) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a new reference, or null with an exception set.
    unsafe { owned(py, ffi::PyLong_FromLongLong(value)) }
}

pub fn text<'py>(py: Python<'py>, utf8: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the text is `len` bytes long; a new reference, or null with an exception set.
    unsafe {
        owned(py, ffi::PyUnicode_FromStringAndSize(utf8.as_ptr().cast(), utf8.len() as isize))
    }
}

pub fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: there are `len` bytes; a new reference, or null with an exception set.
    unsafe {
        owned(py, ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))
    }
}
