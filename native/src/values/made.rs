//! The bytes of records, one after the other.

use pyo3::prelude::*;

use crate::python::new;

/// Makes them of the rows of columns.
pub trait MakesValues: Send + Sync {
    /// Make the next row's; None: the package has to make it, and those after it.
    fn next(&mut self) -> Option<&[u8]>;
}

/// Append the next rows as bytes: at most so many, and about so many bytes of them, but at least one.
/// False: the package has to make them, and the rows after them.
pub fn read<'py>(
    maker: &mut dyn MakesValues,
    py: Python<'py>,
    rows: usize,
    max_bytes: usize,
    out: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<bool> {
    let mut nbytes = 0;
    for _ in 0..rows {
        let Some(value) = maker.next() else { return Ok(false) };
        out.push(new::bytes(py, value)?);
        nbytes += value.len();
        if nbytes >= max_bytes {
            break;
        }
    }
    Ok(true)
}
