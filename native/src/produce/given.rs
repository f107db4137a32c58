//! Values that are given as text or bytes, and become rows.

use pyo3::prelude::*;

use crate::produce::batch::NewRecord;
use crate::produce::columns::{NotTaken, Taken, each_nullable};
use crate::produce::from_rows::append_record;
use crate::produce::row_format::{Decoder, RowAppender};
use crate::python::new;
use crate::python::py::Ref;
use crate::values::leaf::Leaf;

/// What one takes besides its bytes.
const OBJECT_BYTES: usize = 48;

/// The bytes from which on a value is no record, and from which on it is kept, whether it has a report
/// or not: it may fit no segment.
#[derive(Clone, Copy)]
pub struct GivenLimits {
    pub longest: usize,
    pub kept: usize,
}

impl GivenLimits {
    pub const NONE: Self = Self { longest: usize::MAX, kept: usize::MAX };
}

/// Those of a batch that are kept, in the order of their rows.
#[derive(Default)]
pub struct Given {
    values: Vec<(usize, Py<PyAny>)>,
}

impl Given {
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A row's value as bytes, if it is kept.
    pub fn get<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(place) = self.values.binary_search_by_key(&row, |(row, _)| *row) else {
            return Ok(None);
        };
        let value = self.values[place].1.bind(py);
        let Some(text) = Ref::of(value).text() else { return Ok(Some(value.clone())) };
        text.utf8(&mut Vec::new()).map(|bytes| new::bytes(py, bytes)).transpose()
    }

    /// Keep a row's value, and return what that takes.
    pub fn keep(&mut self, row: usize, value: Ref<'_>) -> usize {
        self.values.push((row, value.to_stored()));
        value.bytes().map_or(0, <[u8]>::len) + OBJECT_BYTES
    }

    /// Keep those of the first rows only.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(self.values.partition_point(|(row, _)| *row < rows));
    }

    /// Append a value that may be no row, but text or bytes.
    #[inline(never)]
    pub fn append(
        &mut self,
        decoder: &dyn Decoder,
        appender: &mut RowAppender,
        leaves: &mut [Leaf],
        row: usize,
        record: &NewRecord<'_>,
        limits: GivenLimits,
    ) -> Taken {
        let mut scratch = Vec::new(); // empty: allocates for rare texts only
        let value = match (record.row.bytes(), record.row.text()) {
            (Some(bytes), _) => bytes,
            (None, Some(text)) => text.utf8(&mut scratch).ok_or(NotTaken)?,
            (None, None) => {
                let taken = append_row(decoder, appender, record.row, leaves);
                return settled(appender, taken);
            }
        };
        if value.len() > limits.longest {
            return Err(NotTaken);
        }
        let taken = decoder.append(value, appender, leaves);
        settled(appender, taken)?;
        if !record.callback.is_none() || value.len() >= limits.kept {
            self.values.push((row, record.row.to_stored()));
            appender.appending.size.nbytes += value.len() + OBJECT_BYTES;
        }
        Ok(())
    }
}

/// Keep what a row has decided that null says, if it is taken.
fn settled(appender: &mut RowAppender, taken: Taken) -> Taken {
    if std::mem::take(&mut appender.appending.decides) {
        each_nullable(&mut appender.columns, &mut |column| column.settle(taken.is_ok()));
    }
    taken
}

/// Append a row to columns of which the last may not be its.
fn append_row(
    decoder: &dyn Decoder,
    appender: &mut RowAppender,
    row: Ref<'_>,
    leaves: &mut [Leaf],
) -> Taken {
    let RowAppender { columns, template, appending, .. } = appender;
    let given = columns.len() - usize::from(decoder.has_rest());
    let (columns, rest) = columns.split_at_mut(given);
    append_record(columns, template, row, 0, leaves, appending)?;
    rest.iter().try_for_each(|rest| rest.append_null(0, leaves).map(drop))
}
