//! The keys and values of a dict, read without running Python code.

use pyo3::ffi;

use crate::python::py::Ref;

/// An exact `dict`.
#[derive(Clone, Copy)]
pub struct Dict<'a>(Ref<'a>);

impl<'a> Dict<'a> {
    /// # Safety
    /// `object` is an exact `dict`.
    #[inline(always)]
    pub unsafe fn of(object: Ref<'a>) -> Self {
        Self(object)
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        // SAFETY: it is an exact dict.
        unsafe { (*self.0.as_ptr().cast::<ffi::PyDictObject>()).ma_used as usize }
    }

    /// Its keys and values, in order. Nothing may change it meanwhile.
    #[inline(always)]
    pub fn iter(self) -> DictItems<'a> {
        DictItems { dict: self.0, position: 0 }
    }

    /// The same, read where CPython has them, if it is laid out as known and none was deleted.
    #[cfg(all(Py_3_11, not(Py_3_14), not(Py_GIL_DISABLED)))]
    #[inline(always)]
    pub fn entries(self) -> Option<Entries<'a>> {
        const GENERAL_KEYS: u8 = 0;

        // SAFETY: it is an exact dict, whose keys are laid out like this from Python 3.11 to 3.13:
        // behind the head comes the index, and then the entries, of which `entries` are in use. As
        // many as the dict has items: so each is a key and a value, behind a hash if not all keys
        // are strings. They stay as they are while no Python code runs.
        unsafe {
            let dict = self.0.as_ptr().cast::<ffi::PyDictObject>();
            let keys = (*dict).ma_keys.cast::<Keys>();
            if !(*dict).ma_values.is_null() || (*keys).entries != (*dict).ma_used {
                return None;
            }
            let entries = keys.add(1).cast::<u8>().add(1 << (*keys).log2_index_bytes);
            let len = (*dict).ma_used as usize;
            match (*keys).kind {
                UNICODE_KEYS => {
                    Some(Entries::Plain(std::slice::from_raw_parts(entries.cast(), len)))
                }
                GENERAL_KEYS => {
                    Some(Entries::Hashed(std::slice::from_raw_parts(entries.cast(), len)))
                }
                _ => None,
            }
        }
    }

    #[cfg(not(all(Py_3_11, not(Py_3_14), not(Py_GIL_DISABLED))))]
    pub fn entries(self) -> Option<Entries<'a>> {
        None
    }
}

/// How the keys of a dict begin, from Python 3.11 on.
#[cfg(all(Py_3_11, not(Py_GIL_DISABLED)))]
#[repr(C)]
pub struct Keys {
    references: ffi::Py_ssize_t,
    log2_size: u8,
    pub log2_index_bytes: u8,
    pub kind: u8,
    version: u32,
    usable: ffi::Py_ssize_t,
    /// Those of removed keys included.
    pub entries: ffi::Py_ssize_t,
}

/// The kind of a dict whose keys are all strings.
#[cfg(all(Py_3_11, not(Py_GIL_DISABLED)))]
pub const UNICODE_KEYS: u8 = 1;

/// The keys and values of a dict, one after the other.
pub enum Entries<'a> {
    Plain(&'a [Item<'a>]),
    Hashed(&'a [HashedItem<'a>]),
}

#[repr(C)]
pub struct HashedItem<'a> {
    hash: ffi::Py_hash_t,
    pub item: Item<'a>,
}

/// A key and its value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Item<'a> {
    pub key: Ref<'a>,
    pub value: Ref<'a>,
}

#[derive(Clone)]
pub struct DictItems<'a> {
    dict: Ref<'a>,
    position: ffi::Py_ssize_t,
}

impl<'a> Iterator for DictItems<'a> {
    type Item = Item<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: it is an exact dict that stays as it is; the references are the dict's own.
        unsafe {
            let dict = self.dict.as_ptr();
            if ffi::PyDict_Next(dict, &raw mut self.position, &raw mut key, &raw mut value) == 0 {
                return None;
            }
            let py = self.dict.py();
            Some(Item { key: Ref::from_ptr(py, key), value: Ref::from_ptr(py, value) })
        }
    }
}
