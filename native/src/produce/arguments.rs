//! The arguments of `Producer.produce`, as a vectorcall has them.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::python::py::{Int, Ref};

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

pub const NAMES: [&CStr; 8] = [
    c"topic",
    c"value",
    c"key",
    c"partition",
    c"callback",
    c"on_delivery",
    c"timestamp",
    c"headers",
];

pub const SIGNATURE: &str = "produce($self, topic, value=None, key=None, partition=-1, callback=None, \
                         on_delivery=None, timestamp=0, headers=None)";

/// The names as interned strings, which is what callers pass.
pub static INTERNED: PyOnceLock<[Py<PyAny>; 8]> = PyOnceLock::new();

impl<'a> Arguments<'a> {
    /// Read the arguments; None where they are not what is read here.
    ///
    /// # Safety
    /// These are the arguments of a vectorcall.
    #[inline(always)]
    pub unsafe fn read(
        py: Python<'a>,
        arguments: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        names: *mut ffi::PyObject,
    ) -> Option<Self> {
        let count = usize::try_from(count).ok()?;
        if count > NAMES.len() {
            return None;
        }
        let none = Ref::none(py);
        // SAFETY: there are `count` arguments, and as many more as names.
        unsafe {
            let mut objects = [None; NAMES.len()];
            for (index, place) in objects.iter_mut().enumerate().take(count) {
                *place = Some(Ref::from_ptr(py, *arguments.add(index)));
            }
            if !names.is_null() {
                let interned = INTERNED.get(py)?;
                for (index, &name) in Ref::from_ptr(py, names).items()?.iter().enumerate() {
                    let place =
                        interned.iter().position(|known| known.as_ptr() == name.as_ptr())?;
                    if place < count {
                        return None;
                    }
                    objects[place] = Some(Ref::from_ptr(py, *arguments.add(count + index)));
                }
            }
            let [topic, value, key, partition, callback, on_delivery, timestamp, headers] = objects;
            let object = |given: Option<Ref<'a>>| given.unwrap_or(none);
            let number = |given: Option<Ref<'_>>, default| match given.map(Ref::int) {
                None => Some(default),
                Some(Some(Int::Fits(number))) => Some(number),
                Some(_) => None,
            };
            let callback = object(callback);
            Some(Self {
                topic: object(topic),
                value: object(value),
                key: object(key),
                partition: i32::try_from(number(partition, -1)?).ok()?,
                callback: if callback.is_none() { object(on_delivery) } else { callback },
                timestamp: number(timestamp, 0)?,
                headers: object(headers),
            })
        }
    }
}
