//! The boundary to CPython's objects: borrowed references, read without running Python code.
//!
//! Everything here is read under the GIL and from exact builtin types only, whose C functions call
//! nothing of the user's; `layout` reads objects of other classes under the same rule. So nobody else
//! runs between two of these calls, and what a row refers to stays alive and unchanged until the row
//! has been read. All other modules rely on that.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;

use pyo3::PyTraverseError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::dict_items::Dict;
use crate::text::Text;

/// A reference that its owner keeps alive for `'a`, during which the GIL is held.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ref<'a>(NonNull<ffi::PyObject>, PhantomData<&'a ffi::PyObject>);

/// An exact `int`.
pub enum Int {
    Fits(i64),
    TooLarge,
}

impl<'a> Ref<'a> {
    /// Borrow from a reference of PyO3's.
    #[inline(always)]
    pub fn of(object: &'a Bound<'_, PyAny>) -> Self {
        // SAFETY: `object` owns a reference, and holds the GIL, for `'a`.
        unsafe { Self::from_ptr(object.as_ptr()) }
    }

    /// # Safety
    /// `ptr` is not null, and its object outlives `'a`, during which the GIL is held.
    #[inline(always)]
    pub unsafe fn from_ptr(ptr: *mut ffi::PyObject) -> Self {
        debug_assert!(!ptr.is_null());
        // SAFETY: by the contract.
        Self(unsafe { NonNull::new_unchecked(ptr) }, PhantomData)
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
    pub fn to_owned(self) -> Owned {
        // SAFETY: the object is alive, and the GIL is held.
        unsafe { ffi::Py_INCREF(self.as_ptr()) };
        Owned(self.0)
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
        let mut overflow = 0;
        // SAFETY: it is an exact int: no exception but overflow, which is told, not raised.
        let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(self.as_ptr(), &raw mut overflow) };
        if overflow == 0 { Int::Fits(value) } else { Int::TooLarge }
    }

    /// An exact `int` that lies in an unsigned 64-bit one.
    #[inline(never)]
    pub fn unsigned(self) -> Option<u64> {
        match self.int()? {
            Int::Fits(value) => u64::try_from(value).ok(),
            Int::TooLarge => {
                // SAFETY: it is an exact int; an exception is cleared at once.
                unsafe {
                    let value = ffi::PyLong_AsUnsignedLongLong(self.as_ptr());
                    if value == u64::MAX && !ffi::PyErr_Occurred().is_null() {
                        ffi::PyErr_Clear();
                        return None;
                    }
                    Some(value)
                }
            }
        }
    }

    /// Hand the text of an exact `Decimal` or `int` to `read`.
    #[inline(never)]
    pub fn number_text<T>(self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let decimal = DECIMAL.get().map_or(std::ptr::null_mut(), Owned::as_ptr);
        if self.class().cast() != decimal && self.class() != &raw mut ffi::PyLong_Type {
            return None;
        }
        // SAFETY: both classes write their text in C; an exception is cleared at once.
        let text = without_collector(|| unsafe { Owned::steal(ffi::PyObject_Str(self.as_ptr())) });
        let Some(text) = text else {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyErr_Clear() };
            return None;
        };
        text.borrow().text()?.utf8(&mut Vec::new()).map(read)
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

/// A reference that is owned. It may only be dropped while the GIL is held.
pub struct Owned(NonNull<ffi::PyObject>);

// SAFETY: a pointer may go from thread to thread; its object is touched under the GIL only.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    /// # Safety
    /// `ptr` is null or a reference that the caller gives away.
    pub unsafe fn steal(ptr: *mut ffi::PyObject) -> Option<Self> {
        NonNull::new(ptr).map(Self)
    }

    /// Take a reference over from PyO3.
    pub fn of(object: Bound<'_, PyAny>) -> Self {
        // SAFETY: an object is not null; the reference is owned.
        Self(unsafe { NonNull::new_unchecked(object.into_ptr()) })
    }

    #[inline(always)]
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn borrow(&self) -> Ref<'_> {
        Ref(self.0, PhantomData)
    }

    /// Show the reference to Python's garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: `Py` is a pointer like this one, and transparent; it is not dropped.
        visit.call(unsafe { &*(&raw const self.0).cast::<Py<PyAny>>() })
    }

    /// Hand the reference over to PyO3.
    pub fn into_bound(self, py: Python<'_>) -> Bound<'_, PyAny> {
        // SAFETY: the reference is owned, and is given away.
        unsafe { Bound::from_owned_ptr(py, self.into_ptr()) }
    }

    /// Give the reference away.
    #[inline(always)]
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        let ptr = self.as_ptr();
        std::mem::forget(self);
        ptr
    }
}

impl Drop for Owned {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and the GIL is held, as the type demands.
        unsafe { ffi::Py_DECREF(self.as_ptr()) }
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
static DECIMAL: OnceLock<Owned> = OnceLock::new();

/// Find the classes that are not builtin.
pub fn import(py: Python<'_>) -> PyResult<()> {
    if let Ok(module) = py.import("_decimal") {
        let _ = DECIMAL.set(Ref::of(&module.getattr("Decimal")?).to_owned());
    }
    Ok(())
}

/// Call what makes objects. Before Python 3.12 the garbage collector runs wherever one is made, and
/// with it code of the user's: so it waits.
#[inline(always)]
pub fn without_collector<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: the GIL is held.
    let begin = || NoCollection::begin(unsafe { Python::assume_attached() });
    let _none = cfg!(not(Py_3_12)).then(begin);
    make()
}

/// Have the processor load an object. Of most objects the value is in the same cache line as the head,
/// or in the next one.
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

/// An int of at most two digits; None for a longer one.
///
/// # Safety
/// `ptr` is an exact int.
#[cfg(not(Py_3_12))]
#[inline(always)]
unsafe fn short_int(ptr: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: an int is a head with the signed number of its digits, and then the digits.
    unsafe {
        let size = ffi::Py_SIZE(ptr);
        let digits = ptr.cast::<u8>().add(size_of::<ffi::PyVarObject>()).cast::<u32>();
        match size {
            0 => Some(0),
            1 => Some(i64::from(*digits)),
            -1 => Some(-i64::from(*digits)),
            2 => Some(i64::from(*digits) | i64::from(*digits.add(1)) << DIGIT),
            _ => None,
        }
    }
}

/// An int of at most two digits; None for a longer one.
///
/// # Safety
/// `ptr` is an exact int.
#[cfg(Py_3_12)]
#[inline(always)]
unsafe fn short_int(ptr: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: an int is a head, a word with its sign (two bits) and number of digits (from the
    // fourth bit on), and then the digits.
    unsafe {
        let tag = *ptr.cast::<u8>().add(size_of::<ffi::PyObject>()).cast::<usize>();
        let digits = ptr.cast::<u8>().add(size_of::<ffi::PyObject>() + size_of::<usize>());
        let digits = digits.cast::<u32>();
        let magnitude = match tag >> 3 {
            0 | 1 => i64::from(*digits),
            2 => i64::from(*digits) | i64::from(*digits.add(1)) << DIGIT,
            _ => return None,
        };
        Some((1 - (tag & 3) as i64) * magnitude)
    }
}
