//! The records of a batch.

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::produce::given::Given;
use crate::produce::row_format::{Places, RowAppender, RowFormat};
use crate::python::gil::InUse;
use crate::python::py::Ref;
use crate::values::leaf::Leaf;

/// The records of a batch, as columns.
pub struct Records {
    pub format: Py<RowFormat>,
    /// Whether the core has panicked on them, so that they are not what was appended.
    pub are_damaged: bool,
    pub leaves: Vec<Leaf>,
    pub places: Places,
    /// Where rows have identities of their own, their segments and their rows in these.
    pub identities: Option<[Leaf; 2]>,
    /// How many of the last rows have no headers, and are not in their leaves yet: mostly all.
    pub bare_rows: usize,
    pub callbacks: Callbacks,
    /// The rows from which on the user has chosen the partition, and again has not, in turns.
    pub pinned: Vec<usize>,
    pub given: Given,
    pub rows: usize,
    /// What they take decoded, once they are sealed.
    pub decoded: usize,
}

impl Records {
    pub fn begin(py: Python<'_>, row_format: &Py<RowFormat>) -> PyResult<Self> {
        let mut appender = appender(row_format.get(), py)?;
        Ok(Self {
            format: row_format.clone_ref(py),
            are_damaged: false,
            leaves: appender.begin(),
            places: appender.places.clone(),
            identities: None,
            bare_rows: 0,
            callbacks: Callbacks::default(),
            pinned: Vec::new(),
            given: Given::default(),
            rows: 0,
            decoded: 0,
        })
    }

    /// Whether the core has panicked on them.
    pub fn are_damaged(&self) -> bool {
        self.are_damaged
    }

    /// The leaves of the rows' columns.
    pub fn columns(&self) -> &[Leaf] {
        &self.leaves[..self.places.keys]
    }

    pub fn keys(&self) -> &Leaf {
        &self.leaves[self.places.keys]
    }

    pub fn times(&self) -> &Leaf {
        &self.leaves[self.places.times]
    }

    pub fn headers(&self) -> &[Leaf] {
        &self.leaves[self.places.headers.clone()]
    }

    /// Have the headers of all rows in their leaves.
    pub fn append_bare_rows(&mut self) {
        let rows = std::mem::take(&mut self.bare_rows);
        for leaf in &mut self.leaves[self.places.headers.clone()] {
            leaf.append_nulls(rows, 0);
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        Python::try_attach(|py| {
            if let Some(mut appender) = self.format.get().rows(py) {
                appender.give_back(std::mem::take(&mut self.leaves));
            }
        });
    }
}

/// The callbacks of records, by runs: mostly there is none, or one for all.
#[derive(Default)]
pub struct Callbacks {
    /// The row at which each run begins.
    runs: Vec<(usize, Option<Py<PyAny>>)>,
}

impl Callbacks {
    #[inline(always)]
    pub fn push(&mut self, row: usize, callback: Ref<'_>) {
        let last = self.runs.last().and_then(|(_, callback)| callback.as_ref());
        let same = match last {
            Some(last) => last.as_ptr() == callback.as_ptr(),
            None => callback.is_none(),
        };
        if !same {
            self.runs.push((row, (!callback.is_none()).then(|| callback.to_stored())));
        }
    }

    pub fn get(&self, row: usize) -> Option<&Py<PyAny>> {
        let run = self.runs.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        self.runs[run].1.as_ref()
    }

    /// Whether there is none.
    pub fn are_none(&self) -> bool {
        self.runs.iter().all(|(_, callback)| callback.is_none())
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.runs
            .iter()
            .filter_map(|(_, callback)| callback.as_ref())
            .try_for_each(|callback| visit.call(callback))
    }
}

impl Records {
    /// Whether the partition of the last row was chosen by the user.
    #[inline(always)]
    pub fn is_pinned_at_end(&self) -> bool {
        self.pinned.len() % 2 == 1
    }

    /// Remove what was appended of a row that is not taken.
    #[cold]
    pub fn undo(&mut self) {
        let rows = self.rows;
        self.identities.iter_mut().flatten().for_each(|leaf| leaf.truncate(rows));
        let headers = self.places.headers.clone();
        let appended = rows.min(self.leaves[headers.start].rows);
        self.leaves[..headers.start].iter_mut().for_each(|leaf| leaf.truncate(rows));
        self.leaves[headers].iter_mut().for_each(|leaf| leaf.truncate(appended));
        self.given.truncate(rows);
        self.bare_rows = rows - appended;
    }
}

/// Use a format's appender.
pub fn appender<'a>(format: &'a RowFormat, py: Python<'a>) -> PyResult<InUse<'a, RowAppender>> {
    format.rows(py).ok_or_else(|| PyRuntimeError::new_err("the row format is in use"))
}
