//! What is changed under the GIL.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// A value that is used by one holder at a time, with the GIL. Cheaper than PyO3's own checks, which
/// are atomic: small records would pay for them what several fields cost.
///
/// A class that has one is `frozen`.
pub struct GilCell<T> {
    value: UnsafeCell<T>,
    is_in_use: Cell<bool>,
}

// SAFETY: both cells are touched under the GIL only, by one thread at a time. A holder may let go of
// the GIL; meanwhile `is_in_use` keeps the value from others.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_in_use: Cell::new(false) }
    }

    /// Use the value; None while it is in use, by another thread or further up the stack.
    #[inline(always)]
    pub fn get<'a>(&'a self, _: Python<'a>) -> Option<InUse<'a, T>> {
        (!self.is_in_use.replace(true)).then(|| InUse { cell: self, with_gil: PhantomData })
    }

    /// Show the value to Python's garbage collector, unless it is in use.
    pub fn visit<R: Default>(&self, _: &PyVisit<'_>, visit: impl FnOnce(&T) -> R) -> R {
        if self.is_in_use.get() {
            return R::default();
        }
        // SAFETY: the collector has the GIL, which nobody takes from it, and calls no Python code.
        visit(unsafe { &*self.value.get() })
    }
}

/// The use of a `GilCell`, until it is dropped. It stays in its thread.
pub struct InUse<'a, T> {
    cell: &'a GilCell<T>,
    with_gil: PhantomData<*mut ()>,
}

impl<T> Deref for InUse<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: while this lives, nobody else gets at the value.
        unsafe { &*self.cell.value.get() }
    }
}

impl<T> DerefMut for InUse<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.cell.value.get() }
    }
}

impl<T> Drop for InUse<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.cell.is_in_use.set(false);
    }
}
