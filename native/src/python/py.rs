//! The boundary to CPython's objects: borrowed references, read without running Python code.
//!
//! A row is read from exact builtin types; `layout` reads objects of other classes under the same
//! rule. Most are read where CPython has their values. The few functions of CPython's that a row needs
//! (`Decimal.__str__`, `utcoffset` of Python's own zones, an object's `__dict__`) are written in C,
//! call nothing of the user's, and neither look for signals nor let go of the GIL; `without_collector`
//! keeps finalizers away. So nobody else runs in the middle of a row, and what it refers to stays alive
//! and unchanged until it has been read. All other modules rely on that. Where such a function fails,
//! its exception stays set, and the entry (`produce`, `Batch.append`) raises it.
//!
//! A `Ref` holds PyO3's proof that the GIL is held; references that are owned are PyO3's `Bound` and
//! `Py`. So the compiler checks where they may be used.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::python::dict_items::Dict;
use crate::python::text::Text;

/// A reference that its owner keeps alive for `'a`, during which the GIL is held.
///
/// ```no_run
/// pyo3::Python::attach(|py| _core::Ref::none(py).is_none());
/// ```
///
/// It cannot be kept for longer, nor used where others may have the GIL:
///
/// ```compile_fail
/// pyo3::Python::attach(|py| _core::Ref::none(py)).is_none();
/// ```
///
/// ```compile_fail
/// pyo3::Python::attach(|py| {
///     let held = _core::Ref::none(py);
///     py.detach(move || held.is_none())
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ref<'a>(NonNull<ffi::PyObject>, PhantomData<(&'a ffi::PyObject, Python<'a>)>);

/// An exact `int`.
pub enum Int {
    Fits(i64),
    TooLarge,
}

/// The digits of an exact `int`, of 30 bits each, the lowest first; none for 0.
pub struct Digits<'a> {
    pub is_negative: bool,
    pub digits: &'a [u32],
}

impl<'a> Ref<'a> {
    /// Borrow from an owned reference.
    #[inline(always)]
    pub fn of(object: &'a Bound<'_, PyAny>) -> Self {
        // SAFETY: `object` owns a reference for `'a`.
        unsafe { Self::from_ptr(object.py(), object.as_ptr()) }
    }

    /// Borrow from a reference that is stored.
    #[inline(always)]
    pub fn of_stored(py: Python<'a>, object: &'a Py<PyAny>) -> Self {
        // SAFETY: `object` owns a reference for `'a`.
        unsafe { Self::from_ptr(py, object.as_ptr()) }
    }

    #[inline(always)]
    pub fn none(py: Python<'a>) -> Self {
        // SAFETY: None lives for ever.
        unsafe { Self::from_ptr(py, ffi::Py_None()) }
    }

    /// # Safety
    /// `ptr` is not null, and its object outlives `'a`.
    #[inline(always)]
    pub unsafe fn from_ptr(_: Python<'a>, ptr: *mut ffi::PyObject) -> Self {
        debug_assert!(!ptr.is_null());
        // SAFETY: by the contract.
        Self(unsafe { NonNull::new_unchecked(ptr) }, PhantomData)
    }

    #[inline(always)]
    pub fn py(self) -> Python<'a> {
        // SAFETY: whoever made this has shown that the GIL is held for `'a`.
        unsafe { Python::assume_attached() }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn class(self) -> *mut ffi::PyTypeObject {
        // SAFETY: the object is alive.
        unsafe { ffi::Py_TYPE(self.as_ptr()) }
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        // SAFETY: None lives for ever.
        self.as_ptr() == unsafe { ffi::Py_None() }
    }

    /// Whether more than one reference to the object exists.
    #[inline(always)]
    pub fn is_shared(self) -> bool {
        // SAFETY: the object is alive.
        unsafe { ffi::Py_REFCNT(self.as_ptr()) > 1 }
    }

    /// An owned reference.
    #[inline(always)]
    pub fn to_owned(self) -> Bound<'a, PyAny> {
        // SAFETY: the object is alive.
        unsafe { Bound::from_borrowed_ptr(self.py(), self.as_ptr()) }
    }

    /// An owned reference to be stored.
    #[inline(always)]
    pub fn to_stored(self) -> Py<PyAny> {
        self.to_owned().unbind()
    }

    /// An exact `bool`.
    #[inline(always)]
    pub fn boolean(self) -> Option<bool> {
        // SAFETY: True and False live for ever.
        unsafe {
            if self.as_ptr() == ffi::Py_True() {
                Some(true)
            } else if self.as_ptr() == ffi::Py_False() {
                Some(false)
            } else {
                None
            }
        }
    }

    /// An exact `float`.
    #[inline(always)]
    pub fn float(self) -> Option<f64> {
        if self.class() != &raw mut ffi::PyFloat_Type {
            return None;
        }
        // SAFETY: its class says that it is a float.
        Some(unsafe { ffi::PyFloat_AS_DOUBLE(self.as_ptr()) })
    }

    /// An exact `int`; not a `bool`.
    #[inline(always)]
    pub fn int(self) -> Option<Int> {
        if self.class() != &raw mut ffi::PyLong_Type {
            return None;
        }
        // SAFETY: its class says that it is an int, so its digits are laid out as `digits` reads.
        Some(match unsafe { short_int(self.as_ptr()) } {
            Some(value) => Int::Fits(value),
            None => self.long_int(),
        })
    }

    #[inline(never)]
    fn long_int(self) -> Int {
        let number = self.digits().and_then(|digits| digits.number());
        match number.and_then(|number| i64::try_from(number).ok()) {
            Some(number) => Int::Fits(number),
            None => Int::TooLarge,
        }
    }

    /// An exact `int` that lies in an unsigned 64-bit one.
    #[inline(never)]
    pub fn unsigned(self) -> Option<u64> {
        self.digits()?.number()?.try_into().ok()
    }

    /// The digits of an exact `int`.
    pub fn digits(self) -> Option<Digits<'a>> {
        (self.class() == &raw mut ffi::PyLong_Type).then(|| {
            // SAFETY: its class says that it is an int, which never changes.
            unsafe { digits(self.as_ptr()) }
        })
    }

    /// Hand the text of an exact `Decimal` to `read`. None with an exception set: there is none.
    #[inline(never)]
    pub fn decimal_text<T>(self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let class = DECIMAL.get(self.py())?.as_ptr();
        if self.class().cast() != class {
            return None;
        }
        // SAFETY: the class, which cannot be changed, writes its text in C; a new reference, or null
        // with an exception. `PyObject_Str` would look for signals first, and collect garbage.
        let text = without_collector(self.py(), || unsafe {
            let write = (*self.class()).tp_str?;
            Bound::from_owned_ptr_or_opt(self.py(), write(self.as_ptr()))
        });
        Ref::of(&text?).text()?.utf8(&mut Vec::new()).map(read)
    }

    /// Exact `bytes`.
    #[inline(always)]
    pub fn bytes(self) -> Option<&'a [u8]> {
        if self.class() != &raw mut ffi::PyBytes_Type {
            return None;
        }
        // SAFETY: its class says that it is bytes, which never change.
        unsafe {
            let data = ffi::PyBytes_AsString(self.as_ptr());
            let len = ffi::Py_SIZE(self.as_ptr());
            Some(slice::from_raw_parts(data.cast(), len as usize))
        }
    }

    /// An exact `str`.
    #[inline(always)]
    pub fn text(self) -> Option<Text<'a>> {
        (self.class() == &raw mut ffi::PyUnicode_Type).then(|| {
            // SAFETY: its class says that it is a str.
            unsafe { Text::of(self) }
        })
    }

    /// The items of an exact `list` or `tuple`.
    #[inline(always)]
    pub fn items(self) -> Option<&'a [Ref<'a>]> {
        // SAFETY: the class says where the items are. They stay as they are while no Python code
        // runs; a `Ref` has a pointer's layout.
        unsafe {
            let first = if self.class() == &raw mut ffi::PyList_Type {
                (*self.as_ptr().cast::<ffi::PyListObject>()).ob_item
            } else if self.class() == &raw mut ffi::PyTuple_Type {
                (&raw mut (*self.as_ptr().cast::<ffi::PyTupleObject>()).ob_item).cast()
            } else {
                return None;
            };
            let len = ffi::Py_SIZE(self.as_ptr()) as usize;
            Some(if len == 0 { &[] } else { slice::from_raw_parts(first.cast(), len) })
        }
    }

    /// The items of a tuple.
    ///
    /// # Safety
    /// It is a tuple, of this class or a derived one.
    #[inline(always)]
    pub unsafe fn tuple_items(self) -> &'a [Ref<'a>] {
        // SAFETY: by the contract; tuples never change.
        unsafe {
            let first = &raw mut (*self.as_ptr().cast::<ffi::PyTupleObject>()).ob_item;
            slice::from_raw_parts(first.cast(), ffi::Py_SIZE(self.as_ptr()) as usize)
        }
    }

    /// Whether this is an exact `tuple`.
    #[inline(always)]
    pub fn is_tuple(self) -> bool {
        self.class() == &raw mut ffi::PyTuple_Type
    }

    /// An exact `dict`.
    #[inline(always)]
    pub fn dict(self) -> Option<Dict<'a>> {
        (self.class() == &raw mut ffi::PyDict_Type).then(|| {
            // SAFETY: its class says that it is a dict.
            unsafe { Dict::of(self) }
        })
    }
}

/// Call an object with some arguments; `names` is a tuple of the last ones' names, or null.
///
/// Python code may run, and others may have the GIL meanwhile.
///
/// # Safety
/// The arguments are alive, and as many as `names` has more.
pub unsafe fn call<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &[*mut ffi::PyObject],
    names: *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    unsafe extern "C-unwind" {
        fn PyObject_Vectorcall(
            callable: *mut ffi::PyObject,
            arguments: *const *mut ffi::PyObject,
            count: usize,
            names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject;
    }
    let hangs = Hangs;
    // SAFETY: by the contract; a new reference, or null with an exception.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) as usize };
        let (first, count) = (arguments.as_ptr(), arguments.len() - named);
        let result = PyObject_Vectorcall(callable.as_ptr(), first, count, names);
        std::mem::forget(hangs);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// Call an object with two arguments.
pub fn call2<'py>(
    callable: &Bound<'py, PyAny>,
    one: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are alive.
    unsafe { call(callable, &[one.as_ptr(), other.as_ptr()], std::ptr::null_mut()) }
}

/// A thread that lets go of this hangs for ever.
///
/// When the interpreter ends, Python up to 3.13 ends a daemon thread that asks for the GIL, by
/// unwinding its stack: that must not go through Rust's frames, or the process would be aborted. PyO3
/// does the same where it takes the GIL itself.
struct Hangs;

impl Drop for Hangs {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Keeps Python's garbage collector from running, as long as the GIL is held.
///
/// It would run again and again while many objects are made, and find nothing: all are in use. From
/// Python 3.12 on it only runs between Python's own instructions.
pub struct NoCollection {
    was_enabled: bool,
}

impl NoCollection {
    pub fn begin(_: Python<'_>) -> Self {
        // SAFETY: the GIL is held.
        Self { was_enabled: unsafe { ffi::PyGC_Disable() } != 0 }
    }
}

impl Drop for NoCollection {
    fn drop(&mut self) {
        if self.was_enabled {
            // SAFETY: the GIL is held, as the type demands.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// The class `Decimal`, where it is the one written in C.
static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Find the classes that are not builtin.
pub fn import(py: Python<'_>) -> PyResult<()> {
    match py.import("_decimal") {
        Ok(module) => {
            let _ = DECIMAL.set(py, module.getattr("Decimal")?.unbind());
            Ok(())
        }
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Call what makes objects. Before Python 3.12 the garbage collector runs wherever one is made, and
/// with it code of the user's: so it waits.
#[inline(always)]
pub fn without_collector<T>(py: Python<'_>, make: impl FnOnce() -> T) -> T {
    let _none = cfg!(not(Py_3_12)).then(|| NoCollection::begin(py));
    make()
}

/// Have the processor load an object. Most objects have their value in the same cache line as the
/// head, or in the next one.
#[inline(always)]
pub fn prefetch(object: Ref<'_>) {
    let head = object.as_ptr().cast::<u8>();
    prefetch_line(head);
    prefetch_line(head.wrapping_add(32));
}

#[inline(always)]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, wherever it points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

const DIGIT: u32 = 30;

impl Digits<'_> {
    /// The number, if it has at most three digits.
    fn number(&self) -> Option<i128> {
        if self.digits.len() > 3 {
            return None;
        }
        let magnitude =
            self.digits.iter().rev().fold(0, |number, &digit| number << DIGIT | i128::from(digit));
        Some(if self.is_negative { -magnitude } else { magnitude })
    }
}

/// An int of at most two digits; None for a longer one.
///
/// # Safety
/// `ptr` is an exact int.
#[inline(always)]
unsafe fn short_int(ptr: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: by the contract.
    let Digits { is_negative, digits } = unsafe { digits(ptr) };
    let magnitude = match *digits {
        [] => 0,
        [low] => i64::from(low),
        [low, high] => i64::from(low) | i64::from(high) << DIGIT,
        _ => return None,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

/// # Safety
/// `ptr` is an exact int, which outlives `'a`.
#[cfg(not(Py_3_12))]
#[inline(always)]
unsafe fn digits<'a>(ptr: *mut ffi::PyObject) -> Digits<'a> {
    // SAFETY: an int is a head with the signed number of its digits, and then the digits.
    unsafe {
        let size = ffi::Py_SIZE(ptr);
        let first = ptr.cast::<u8>().add(size_of::<ffi::PyVarObject>()).cast::<u32>();
        Digits { is_negative: size < 0, digits: slice::from_raw_parts(first, size.unsigned_abs()) }
    }
}

/// # Safety
/// `ptr` is an exact int, which outlives `'a`.
#[cfg(Py_3_12)]
#[inline(always)]
unsafe fn digits<'a>(ptr: *mut ffi::PyObject) -> Digits<'a> {
    // SAFETY: an int is a head, a word with its sign (the lowest two bits: 2 for a negative one) and
    // its number of digits (from the fourth bit on), and then the digits.
    unsafe {
        let tag = ptr.cast::<u8>().add(size_of::<ffi::PyObject>()).cast::<usize>();
        let first = tag.add(1).cast::<u32>();
        Digits { is_negative: *tag & 3 == 2, digits: slice::from_raw_parts(first, *tag >> 3) }
    }
}
