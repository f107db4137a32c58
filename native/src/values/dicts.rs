//! Dicts with the same keys: copies of one, whose values are then replaced.
//!
//! That is faster than adding key after key: nothing is hashed, compared or resized.

use pyo3::ffi;
use pyo3::prelude::*;

#[cfg(all(Py_3_11, not(Py_GIL_DISABLED)))]
use crate::python::dict_items::{Keys, UNICODE_KEYS};
use crate::python::new::{self, owned};

pub struct DictMaker {
    names: Vec<Py<PyAny>>,
    /// A dict with these keys, and each for its value.
    template: Py<PyAny>,
    /// Whether values may be lists or dicts, which the garbage collector has to see.
    is_tracked: bool,
}

impl DictMaker {
    /// For these keys, in their order; each is another one.
    pub fn new<'n>(
        py: Python<'_>,
        keys: impl Iterator<Item = &'n str>,
        has_containers: bool,
    ) -> PyResult<Self> {
        let mut names = Vec::new();
        // SAFETY: a new dict, whose keys and values are alive; the name is owned before and after.
        let template = unsafe {
            let template = owned(py, ffi::PyDict_New())?;
            for key in keys {
                let mut name = new::text(py, key.as_bytes())?.into_ptr();
                ffi::PyUnicode_InternInPlace(&raw mut name);
                let name = owned(py, name)?;
                set(&template, &name, &name)?; // not None: counting it so often is slow
                names.push(name.unbind());
            }
            template.unbind()
        };
        Ok(Self { names, template, is_tracked: has_containers })
    }

    /// Make a dict of values, one for each key.
    #[inline(always)]
    pub fn make<'py>(
        &self,
        py: Python<'py>,
        values: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dict = self.copy(py)?;
        let slots = self.slots(&dict);
        for (key, value) in (0..self.names.len()).zip(values) {
            self.put(&dict, slots, key, value?)?;
        }
        self.track(&dict);
        Ok(dict)
    }

    /// Begin so many dicts, whose values are to be set key by key.
    pub fn begin<'m, 'py>(&'m self, py: Python<'py>, count: usize) -> PyResult<Dicts<'m, 'py>> {
        let dicts = (0..count).map(|_| self.copy(py)).collect::<PyResult<Vec<_>>>()?;
        let slots = dicts.iter().map(|dict| self.slots(dict)).collect();
        Ok(Dicts { maker: self, dicts, slots })
    }

    #[inline(always)]
    fn put<'py>(
        &self,
        dict: &Bound<'py, PyAny>,
        slots: Option<*mut Slot>,
        key: usize,
        value: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let Some(slots) = slots else { return set(dict, self.names[key].bind(dict.py()), &value) };
        // SAFETY: there is a slot for each name. What is in it is that name, which the maker has, so
        // nothing is destroyed; the dict gets the reference to the value.
        unsafe {
            let slot = &raw mut (*slots.add(key)).value;
            ffi::Py_DECREF(slot.replace(value.into_ptr()));
        }
        Ok(())
    }

    #[inline(always)]
    fn track(&self, dict: &Bound<'_, PyAny>) {
        // SAFETY: it is a dict, and whole.
        unsafe {
            if self.is_tracked && ffi::PyObject_GC_IsTracked(dict.as_ptr()) == 0 {
                ffi::PyObject_GC_Track(dict.as_ptr().cast());
            }
        }
    }

    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the template is a dict.
        unsafe { owned(py, ffi::PyDict_Copy(self.template.as_ptr())) }
    }

    /// Where a copy has its keys and values; None if that is not known of this version of Python.
    #[cfg(all(Py_3_11, not(Py_GIL_DISABLED)))]
    #[inline(always)]
    fn slots(&self, dict: &Bound<'_, PyAny>) -> Option<*mut Slot> {
        // SAFETY: a dict is a head that points to its keys, and these begin as `Keys` says. Behind
        // that is an index of so many bytes, and then a slot for each key. The last one is there if
        // there are as many as names, and the layout is the known one if it has the last name.
        unsafe {
            let keys = (*dict.as_ptr().cast::<ffi::PyDictObject>()).ma_keys.cast::<Keys>();
            let (head, last) = (&*keys, self.names.last()?);
            if head.kind != UNICODE_KEYS || head.entries != self.names.len() as isize {
                return None;
            }
            let index = keys.add(1).cast::<u8>();
            let slots = index.add(1 << head.log2_index_bytes).cast::<Slot>();
            ((*slots.add(self.names.len() - 1)).key == last.as_ptr()).then_some(slots)
        }
    }

    #[cfg(not(all(Py_3_11, not(Py_GIL_DISABLED))))]
    fn slots(&self, _: &Bound<'_, PyAny>) -> Option<*mut Slot> {
        None
    }
}

/// Dicts whose values are set key by key. Python must not see them before.
pub struct Dicts<'m, 'py> {
    maker: &'m DictMaker,
    dicts: Vec<Bound<'py, PyAny>>,
    slots: Vec<Option<*mut Slot>>,
}

impl<'py> Dicts<'_, 'py> {
    /// Set the value of one key in all of the dicts.
    #[inline(always)]
    pub fn set(&self, key: usize, values: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        for ((dict, &slots), value) in self.dicts.iter().zip(&self.slots).zip(values) {
            self.maker.put(dict, slots, key, value)?;
        }
        Ok(())
    }

    /// Append the dicts, which are whole.
    pub fn finish(self, out: &mut Vec<Bound<'py, PyAny>>) {
        self.dicts.iter().for_each(|dict| self.maker.track(dict));
        out.extend(self.dicts);
    }
}

#[repr(C)]
struct Slot {
    key: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
}

/// Set the value of a key of a dict.
#[inline(always)]
pub fn set<'py>(
    dict: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    // SAFETY: a dict; key and value are alive.
    match unsafe { ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(dict.py())),
    }
}
