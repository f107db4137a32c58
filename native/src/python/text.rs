//! Python's strings as UTF-8.

use std::slice;

use pyo3::ffi;

use crate::python::py::Ref;

/// An exact `str`.
#[derive(Clone, Copy)]
pub struct Text<'a>(Ref<'a>);

impl<'a> Text<'a> {
    /// # Safety
    /// `object` is an exact `str`.
    #[inline(always)]
    pub unsafe fn of(object: Ref<'a>) -> Self {
        Self(object)
    }

    #[inline(always)]
    pub fn object(self) -> Ref<'a> {
        self.0
    }

    /// Its UTF-8, if the object has it: ASCII, or encoded before.
    #[cfg(not(Py_3_14))]
    #[inline(always)]
    fn stored(self) -> Option<&'a [u8]> {
        // SAFETY: it is an exact str; one that is compact and ASCII has its text behind its head.
        unsafe {
            let head = self.0.as_ptr().cast::<ffi::PyASCIIObject>();
            if (*head).ascii() == 1 && (*head).compact() == 1 {
                let data = head.add(1).cast::<u8>();
                return Some(slice::from_raw_parts(data, (*head).length as usize));
            }
            if (*head).compact() == 1 {
                let wide = head.cast::<ffi::PyCompactUnicodeObject>();
                if !(*wide).utf8.is_null() {
                    let len = (*wide).utf8_length as usize;
                    return Some(slice::from_raw_parts((*wide).utf8.cast(), len));
                }
            }
            None
        }
    }

    /// Its UTF-8, if it is ASCII. From Python 3.14 on the head is not for others to read.
    #[cfg(Py_3_14)]
    #[inline(always)]
    fn stored(self) -> Option<&'a [u8]> {
        // SAFETY: it is an exact str; of this kind, each character is a byte.
        unsafe {
            let ptr = self.0.as_ptr();
            if ffi::PyUnicode_KIND(ptr) != ffi::PyUnicode_1BYTE_KIND {
                return None;
            }
            let len = ffi::PyUnicode_GET_LENGTH(ptr) as usize;
            let bytes = slice::from_raw_parts(ffi::PyUnicode_DATA(ptr).cast::<u8>(), len);
            bytes.is_ascii().then_some(bytes)
        }
    }

    /// Its UTF-8, encoded into `scratch` where the object has none; None for a lone surrogate.
    ///
    /// CPython would keep what it encodes in the object, and so in the caller's memory.
    #[inline(always)]
    pub fn utf8<'s>(self, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        match self.stored() {
            Some(bytes) => Some(bytes),
            None => self.encode(scratch),
        }
    }

    #[inline(never)]
    fn encode(self, scratch: &mut Vec<u8>) -> Option<&[u8]> {
        scratch.clear();
        // SAFETY: it is an exact str, whose kind says how wide its characters are.
        unsafe {
            let ptr = self.0.as_ptr();
            let len = ffi::PyUnicode_GET_LENGTH(ptr) as usize;
            let data = ffi::PyUnicode_DATA(ptr);
            let valid = match ffi::PyUnicode_KIND(ptr) {
                ffi::PyUnicode_1BYTE_KIND => {
                    to_utf8(slice::from_raw_parts(data.cast::<u8>(), len), scratch)
                }
                ffi::PyUnicode_2BYTE_KIND => {
                    to_utf8(slice::from_raw_parts(data.cast::<u16>(), len), scratch)
                }
                _ => to_utf8(slice::from_raw_parts(data.cast::<u32>(), len), scratch),
            };
            valid.then_some(scratch.as_slice())
        }
    }

    /// Whether its UTF-8 is this.
    #[inline(always)]
    pub fn is(self, utf8: &[u8], scratch: &mut Vec<u8>) -> bool {
        self.utf8(scratch).is_some_and(|bytes| bytes == utf8)
    }
}

fn to_utf8<C: Copy + Into<u32>>(text: &[C], out: &mut Vec<u8>) -> bool {
    out.reserve(3 * text.len());
    let mut buffer = [0; 4];
    for &code in text {
        let Some(character) = char::from_u32(code.into()) else {
            return false;
        };
        out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
    true
}
