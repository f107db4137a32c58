//! Footers of files that are stitched.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::consume::decoder::given_up;
use crate::parquet::{CopiedFooter, Move, copy_footer as copy};
use crate::python::panics;

type Bytes<'py> = Bound<'py, PyBytes>;
/// Version, schema, columns, rows, row groups, Arrow schema, writer, column orders.
type Parts<'py> =
    (i64, Bytes<'py>, usize, i64, Vec<Bytes<'py>>, Option<Bytes<'py>>, Bytes<'py>, Bytes<'py>);

/// Read the footer of a file whose body ends at `body_end`; None if Python has to judge it. The
/// positions in its row groups increase by `shift`, and the first of them gets the number `ordinal`.
#[pyfunction]
pub fn copy_footer<'py>(
    py: Python<'py>,
    footer: &[u8],
    body_end: i64,
    shift: i64,
    ordinal: i64,
) -> PyResult<Option<Parts<'py>>> {
    let copied = || copy(footer, Move { body_end, shift, ordinal }).ok();
    let Some(copied) = given_up(py, panics::caught("copy_footer", copied))? else {
        return Ok(None);
    };
    let CopiedFooter { version, columns, rows, row_groups, arrow_schema, .. } = copied;
    let bytes = |part: &[u8]| PyBytes::new(py, part);
    Ok(Some((
        version,
        bytes(copied.schema),
        columns,
        rows,
        row_groups.iter().map(|row_group| bytes(row_group)).collect(),
        arrow_schema.map(bytes),
        bytes(copied.created_by),
        bytes(copied.column_orders),
    )))
}
