//! Leaves to Arrow arrays, and from there to pyarrow through Arrow's C data interface.
//!
//! `nested` makes an array of a field, with those inside of it, of the levels of its leaves. `values`
//! makes the buffers of a leaf: what was decoded is moved there, not copied, where Arrow has it the same
//! way. `c_data` hands arrays over; all `unsafe` is there.

pub mod c_data;
mod nested;
#[cfg(test)]
mod tests;
mod values;

pub use nested::{Layout, array, leaf_count};

use std::ffi::c_void;

/// Memory that an array owns.
pub trait Memory: Send {
    fn address(&self) -> *const c_void;
}

impl<T: Send> Memory for Vec<T> {
    fn address(&self) -> *const c_void {
        self.as_ptr().cast()
    }
}

pub type Buffer = Box<dyn Memory>;

/// An array as Arrow has it, from its first slot on.
pub struct Array {
    pub len: usize,
    pub nulls: usize,
    /// A bit for each slot that is not null; None if none is.
    pub validity: Option<Vec<u8>>,
    pub buffers: Vec<Buffer>,
    pub children: Vec<Array>,
}
