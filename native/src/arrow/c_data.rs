//! Arrow's C data interface: <https://arrow.apache.org/docs/format/CDataInterface.html>.

use std::ffi::c_void;
use std::ptr::null_mut;

use super::{Array, Buffer};

/// `struct ArrowArray`.
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    /// None once somebody else has taken the array over, or it is gone.
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// What an array points to, until it is released.
struct Private {
    _owners: Vec<Buffer>,
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

impl ArrowArray {
    pub fn new(array: Array) -> Self {
        let Array { len, nulls, validity, buffers, children } = array;
        let mut pointers = Vec::with_capacity(1 + buffers.len());
        pointers.push(std::ptr::null());
        let mut owners = Vec::with_capacity(pointers.capacity());
        if let Some(validity) = validity {
            let validity: Buffer = Box::new(validity);
            pointers[0] = validity.address();
            owners.push(validity);
        }
        pointers.extend(buffers.iter().map(|buffer| buffer.address()));
        owners.extend(buffers);
        let child = |array| Box::into_raw(Box::new(Self::new(array)));
        let mut private = Box::new(Private {
            _owners: owners,
            pointers,
            children: children.into_iter().map(child).collect(),
        });
        Self {
            length: len as i64,
            null_count: nulls as i64,
            offset: 0,
            n_buffers: private.pointers.len() as i64,
            n_children: private.children.len() as i64,
            buffers: private.pointers.as_mut_ptr(),
            children: private.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release),
            private_data: Box::into_raw(private).cast(),
        }
    }

    /// Take one of the children over, as a consumer may.
    #[cfg(test)]
    pub fn take_child(&self, number: usize) -> Self {
        // SAFETY: there are as many children as the array says; this one is marked as taken.
        unsafe {
            let child = *self.children.add(number);
            let taken = std::ptr::read(child);
            (*child).release = None;
            taken
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: nobody has released the array, or taken it over.
            unsafe { release(self) }
        }
    }
}

/// Free what an array points to. Whoever has taken over one of the children has set its `release` to
/// null, and releases it itself.
///
/// # Safety
/// `array` was made by `ArrowArray::new`, and perhaps moved; it is released once.
unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: by the contract `private_data` is what `new` has put there, and so are the children,
    // whose `Drop` releases those that are still ours.
    unsafe {
        (*array).release = None;
        let private = Box::from_raw((*array).private_data.cast::<Private>());
        for &child in &private.children {
            drop(Box::from_raw(child));
        }
    }
}
