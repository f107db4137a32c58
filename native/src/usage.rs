//! The memory and the number of accepted records, against their bounds.

use pyo3::prelude::*;

/// Counts what is accepted and not yet released. Changed under the GIL only.
#[pyclass(module = "columnar_kafka.native._core")]
pub struct Usage {
    #[pyo3(get, set)]
    pub bytes: i64,
    #[pyo3(get, set)]
    pub records: i64,
    #[pyo3(get)]
    pub max_bytes: i64,
    pub max_records: i64,
    /// Whether records are accepted without Python's checks: not outside a transaction, say.
    #[pyo3(get)]
    pub accepts: bool,
    /// How often that has ended.
    #[pyo3(get)]
    stops: u64,
}

#[pymethods]
impl Usage {
    #[new]
    #[pyo3(signature = (max_bytes, max_records=None))]
    fn new(max_bytes: i64, max_records: Option<i64>) -> Self {
        let max_records = max_records.unwrap_or(i64::MAX);
        Self { bytes: 0, records: 0, max_bytes, max_records, accepts: false, stops: 0 }
    }

    /// Have Python check every record from now on.
    fn stop(&mut self) {
        self.accepts = false;
        self.stops += 1;
    }

    /// Accept records without that again, unless there was another stop since the `stops`-th.
    fn resume(&mut self, stops: u64) {
        self.accepts = stops == self.stops;
    }

    #[getter]
    fn max_records(&self) -> Option<i64> {
        (self.max_records != i64::MAX).then_some(self.max_records)
    }
}

impl Usage {
    /// Whether another record of so many bytes has room, which the only one always has.
    #[inline(always)]
    pub fn has_room(&self, nbytes: usize) -> bool {
        self.records == 0
            || (self.bytes + nbytes as i64 <= self.max_bytes && self.records < self.max_records)
    }

    #[inline(always)]
    pub fn charge(&mut self, nbytes: usize) {
        self.bytes += nbytes as i64;
        self.records += 1;
    }

    /// Whether half of a bound is used.
    #[inline(always)]
    pub fn is_half_used(&self) -> bool {
        2 * self.bytes >= self.max_bytes || self.records >= self.max_records / 2
    }
}
