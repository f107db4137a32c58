//! Where the objects of a class have their fields, so that these are read without Python.
//!
//! `columns/from_rows/row_objects.py` has the rules: it judges a class when Python meets one of its objects,
//! and the result stays here until the class is changed.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::python::dict_items::Dict;
use crate::python::panics::entry;
use crate::python::py::{Ref, without_collector};

/// What Python says of a class: the names of its fields, the place of each, and slots of others.
type Judged<'py> = (Vec<String>, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// As `lru_cache` in `row_objects.py`.
const MAX_CLASSES: usize = 256;

/// None: objects of this class are Python's to read.
static CLASSES: LazyLock<Mutex<HashMap<Version, Option<Arc<Layout>>>>> =
    LazyLock::new(Mutex::default);

/// A class as it is: CPython gives each class a number, and a new one when it or a base is changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    class: usize,
    tag: u32,
}

/// The fields of a class.
pub struct Layout {
    version: Version,
    names: Vec<Box<str>>,
    places: Places,
    /// The offsets of slots for more fields: the objects that have some are Python's.
    more: Vec<isize>,
}

enum Places {
    /// In the object's `__dict__`.
    Attributes,
    /// In slots, at these offsets.
    Slots(Vec<isize>),
    /// At these indices of the tuple that it is.
    Items(Vec<usize>),
}

/// Have the objects of a class read here, if `judge` returns a layout; it is asked once.
#[pyfunction]
pub fn learn_class(cls: &Bound<'_, PyType>, judge: &Bound<'_, PyAny>) -> PyResult<()> {
    entry(cls.py(), "learn_class", || {
        cls.getattr("__getattribute__")?; // looking it up gives the class a number
        let Some(version) = Version::of(cls.as_type_ptr()) else { return Ok(()) };
        if known(version).is_some() {
            return Ok(());
        }
        let judged: Option<Judged<'_>> = judge.call1((cls,))?.extract()?;
        let layout = judged.and_then(|judged| Layout::new(cls, version, judged));
        if Version::of(cls.as_type_ptr()) == Some(version) {
            let mut classes = classes();
            if classes.len() >= MAX_CLASSES {
                classes.clear();
            }
            classes.insert(version, layout.map(Arc::new));
        }
        Ok(())
    })
}

fn classes() -> MutexGuard<'static, HashMap<Version, Option<Arc<Layout>>>> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a class; None: nothing yet.
fn known(version: Version) -> Option<Option<Arc<Layout>>> {
    classes().get(&version).cloned()
}

impl Version {
    fn of(class: *mut ffi::PyTypeObject) -> Option<Self> {
        // SAFETY: the class is alive, as its object is.
        unsafe {
            #[cfg(not(Py_3_12))]
            if (*class).tp_flags & ffi::Py_TPFLAGS_VALID_VERSION_TAG == 0 {
                return None;
            }
            let tag = (*class).tp_version_tag;
            (tag != 0).then_some(Self { class: class as usize, tag })
        }
    }

    /// The class of an object; None if it has changed, and nobody has looked at it since.
    #[inline(always)]
    pub fn of_object(object: Ref<'_>) -> Option<Self> {
        // SAFETY: the object is alive.
        Self::of(unsafe { ffi::Py_TYPE(object.as_ptr()) })
    }
}

impl Layout {
    fn new(cls: &Bound<'_, PyType>, version: Version, judged: Judged<'_>) -> Option<Self> {
        let (names, places, more) = judged;
        let slots = |places: &[Bound<'_, PyAny>]| {
            places.iter().map(|place| offset(cls, place)).collect::<Option<Vec<_>>>()
        };
        let places = if places.iter().all(|place| place.is_none()) {
            Places::Attributes
        } else if let Some(offsets) = slots(&places) {
            Places::Slots(offsets)
        } else if cls.is_subclass_of::<pyo3::types::PyTuple>().ok()? {
            let items = places.iter().map(|place| place.extract::<usize>().ok());
            Places::Items(items.collect::<Option<_>>()?)
        } else {
            return None;
        };
        let names = names.into_iter().map(String::into_boxed_str).collect();
        Some(Self { version, names, places, more: slots(&more)? })
    }

    /// The layout of a class, with the fields in the order of `names`; None: nothing is known of it.
    /// Some(None): Python has to look at its objects.
    pub fn find(version: Version, names: &[Box<str>]) -> Option<Option<Self>> {
        known(version).map(|layout| layout?.ordered(names))
    }

    fn ordered(&self, names: &[Box<str>]) -> Option<Self> {
        if self.names.len() != names.len() {
            return None;
        }
        let order = names
            .iter()
            .map(|name| self.names.iter().position(|known| known == name))
            .collect::<Option<Vec<_>>>()?;
        let places = match &self.places {
            Places::Attributes => Places::Attributes,
            Places::Slots(offsets) => Places::Slots(order.iter().map(|&i| offsets[i]).collect()),
            Places::Items(indices) => Places::Items(order.iter().map(|&i| indices[i]).collect()),
        };
        Some(Self { version: self.version, names: names.to_vec(), places, more: self.more.clone() })
    }

    /// Look at an object; None if it is of another class, or has more fields than its class.
    #[inline(always)]
    pub fn look<'l, 'o>(&'l self, object: Ref<'o>) -> Option<Fields<'l, 'o>> {
        if Version::of_object(object) != Some(self.version) {
            return None;
        }
        for &offset in &self.more {
            // SAFETY: the offset is that of a slot of the object's class.
            let more = unsafe { slot(object, offset) }?;
            if !more.is_none() && more.dict().is_none_or(|more| more.len() > 0) {
                return None;
            }
        }
        Some(match &self.places {
            Places::Attributes => Fields::Attributes(attributes(object)?),
            Places::Slots(offsets) => Fields::Slots(Slots { object, offsets }),
            Places::Items(indices) => {
                // SAFETY: the class is one of tuples, as `new` has seen.
                let items = unsafe { object.tuple_items() };
                Fields::Items(Items { items, indices })
            }
        })
    }
}

/// The fields of an object.
pub enum Fields<'l, 'o> {
    Attributes(Dict<'o>),
    Slots(Slots<'l, 'o>),
    Items(Items<'l, 'o>),
}

pub struct Slots<'l, 'o> {
    object: Ref<'o>,
    offsets: &'l [isize],
}

pub struct Items<'l, 'o> {
    items: &'o [Ref<'o>],
    indices: &'l [usize],
}

impl<'o> Slots<'_, 'o> {
    /// The values, in order; None for one that was never set.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = Option<Ref<'o>>> {
        // SAFETY: the offsets are those of slots of the object's class: `Layout::look`.
        self.offsets.iter().map(|&offset| unsafe { slot(self.object, offset) })
    }
}

impl<'o> Items<'_, 'o> {
    /// The values, in order; None for one that the tuple is too short for.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = Option<Ref<'o>>> {
        self.indices.iter().map(|&index| self.items.get(index).copied())
    }
}

/// The offset of the slot `name` in the objects of a class.
pub fn slot_offset(cls: &Bound<'_, PyType>, name: &str) -> PyResult<isize> {
    offset(cls, &cls.getattr(name)?)
        .ok_or_else(|| PyRuntimeError::new_err(format!("{name} is not a slot")))
}

/// The offset of a slot in the objects of a class, if `member` is one.
fn offset(cls: &Bound<'_, PyType>, member: &Bound<'_, PyAny>) -> Option<isize> {
    const READ_ONLY: i32 = 1;
    // SAFETY: the class of `member` says that it is a member descriptor.
    unsafe {
        if ffi::Py_TYPE(member.as_ptr()) != &raw mut ffi::PyMemberDescr_Type {
            return None;
        }
        let descriptor = member.as_ptr().cast::<MemberDescriptor>();
        let member = &*(*descriptor).member;
        let is_object = member.type_code == ffi::Py_T_OBJECT_EX && member.flags & !READ_ONLY == 0;
        let is_of_class = ffi::PyType_IsSubtype(cls.as_type_ptr(), (*descriptor).class) != 0;
        (is_object && is_of_class).then_some(member.offset)
    }
}

/// As CPython has it since 2.2.
#[repr(C)]
struct MemberDescriptor {
    head: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut ffi::PyObject,
    qualname: *mut ffi::PyObject,
    member: *mut ffi::PyMemberDef,
}

/// What a slot holds.
///
/// # Safety
/// `offset` is that of a slot of the object's class.
#[inline(always)]
unsafe fn slot(object: Ref<'_>, offset: isize) -> Option<Ref<'_>> {
    // SAFETY: by the contract there is a reference, or null; the object keeps what it refers to.
    unsafe {
        let value = *object.as_ptr().cast::<u8>().offset(offset).cast::<*mut ffi::PyObject>();
        (!value.is_null()).then(|| Ref::from_ptr(object.py(), value))
    }
}

/// Set a slot to a reference, which is given away.
///
/// # Safety
/// The object has a slot there: a reference, or null.
#[inline(always)]
pub unsafe fn set_slot(object: &Bound<'_, PyAny>, offset: isize, value: *mut ffi::PyObject) {
    // SAFETY: by the contract.
    unsafe {
        let place = object.as_ptr().cast::<u8>().offset(offset).cast::<*mut ffi::PyObject>();
        ffi::Py_XDECREF(place.replace(value));
    }
}

/// Return a new object of a class, with empty slots; nothing of the class is called.
#[inline(always)]
pub fn new_object<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let class_ptr = class.as_type_ptr();
    // SAFETY: a class that has slots has an allocator, which returns a new object, or null with an
    // exception.
    unsafe {
        let Some(allocate) = (*class_ptr).tp_alloc else {
            return Err(PyTypeError::new_err("the class has no objects"));
        };
        Bound::from_owned_ptr_or_err(class.py(), allocate(class_ptr, 0))
    }
}

/// The attributes of an object, if they are in an exact dict. None with an exception set: there is
/// no memory for it.
fn attributes(object: Ref<'_>) -> Option<Dict<'_>> {
    // SAFETY: a new reference, or null with an exception; the object keeps its dict, also one that is
    // made here for it.
    unsafe {
        let dict = without_collector(object.py(), || {
            let dict = ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_opt(object.py(), dict)
        })?;
        Ref::from_ptr(object.py(), dict.as_ptr()).dict()
    }
}
