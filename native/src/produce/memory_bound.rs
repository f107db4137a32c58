//! The memory and the number of accepted records, against their bounds.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use pyo3::intern;
use pyo3::prelude::*;

/// Counts what is accepted and not yet released. Changed under the GIL only.
#[pyclass(frozen, module = "columnar_kafka.native._core")]
pub struct Usage {
    bytes: AtomicI64,
    records: AtomicI64,
    encoded: AtomicI64,
    max_bytes: i64,
    max_records: i64,
    accepts: AtomicBool,
    stops: AtomicU64,
}

#[pymethods]
impl Usage {
    #[new]
    #[pyo3(signature = (max_bytes, max_records=None))]
    fn new(max_bytes: i64, max_records: Option<i64>) -> Self {
        Self {
            bytes: AtomicI64::new(0),
            records: AtomicI64::new(0),
            encoded: AtomicI64::new(0),
            max_bytes,
            max_records: max_records.unwrap_or(i64::MAX),
            accepts: AtomicBool::new(false),
            stops: AtomicU64::new(0),
        }
    }

    /// The memory of all of them.
    #[getter]
    fn bytes(&self) -> i64 {
        self.bytes.load(Relaxed)
    }

    /// How many there are.
    #[getter]
    fn records(&self) -> i64 {
        self.records.load(Relaxed)
    }

    /// Append `item` to `items`, and charge its memory and its number of records: both or neither, with
    /// no signal in between. Return whether half of a bound is used since then.
    fn accept(
        &self,
        items: &Bound<'_, PyAny>,
        item: &Bound<'_, PyAny>,
        nbytes: i64,
        records: i64,
    ) -> PyResult<bool> {
        items.call_method1(intern!(items.py(), "append"), (item,))?;
        let was_half_used = self.is_half_used();
        self.charge(nbytes, records);
        Ok(self.is_half_used() && !was_half_used)
    }

    /// Charge so many bytes and records more, or fewer.
    ///
    /// The GIL is held meanwhile, so nothing is lost between reading and writing; an atomic addition
    /// would cost what several fields of a row do.
    #[pyo3(signature = (nbytes, records=0))]
    #[inline(always)]
    pub fn charge(&self, nbytes: i64, records: i64) {
        self.bytes.store(self.bytes() + nbytes, Relaxed);
        self.records.store(self.records() + records, Relaxed);
    }

    /// Whether half of a bound is used.
    #[getter]
    #[inline(always)]
    pub fn is_half_used(&self) -> bool {
        2 * self.bytes() >= self.max_bytes || 2 * self.records() >= self.max_records
    }

    /// Give back what `held` has charged, and set that to 0: both, with no signal in between.
    fn release(&self, held: &Bound<'_, PyAny>) -> PyResult<()> {
        let (nbytes, records) =
            (intern!(held.py(), "charged_bytes"), intern!(held.py(), "records"));
        let charged: i64 = held.getattr(nbytes)?.extract()?;
        let count: i64 = held.getattr(records)?.extract()?;
        held.setattr(nbytes, 0)?;
        held.setattr(records, 0)?;
        self.charge(-charged, -count);
        Ok(())
    }

    /// The encoded bytes, which have a bound of their own.
    #[getter]
    fn encoded_bytes(&self) -> i64 {
        self.encoded.load(Relaxed)
    }

    /// Charge encoded bytes.
    fn encode(&self, nbytes: i64) {
        self.encoded.fetch_add(nbytes, Relaxed);
    }

    /// Give the encoded bytes of `held` back, and set them to 0: both, with no signal in between.
    fn release_encoded(&self, held: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = intern!(held.py(), "encoded_bytes");
        let charged: i64 = held.getattr(name)?.extract()?;
        held.setattr(name, 0)?;
        self.encode(-charged);
        Ok(())
    }

    #[getter]
    fn max_bytes(&self) -> i64 {
        self.max_bytes
    }

    #[getter]
    fn max_records(&self) -> Option<i64> {
        (self.max_records != i64::MAX).then_some(self.max_records)
    }

    /// Whether records are accepted without Python's checks: not outside a transaction, say.
    #[getter]
    #[inline(always)]
    pub fn accepts(&self) -> bool {
        self.accepts.load(Relaxed)
    }

    /// How often that has ended.
    #[getter]
    fn stops(&self) -> u64 {
        self.stops.load(Relaxed)
    }

    /// Have Python check every record from now on.
    fn stop(&self) {
        self.accepts.store(false, Relaxed);
        self.stops.store(self.stops() + 1, Relaxed);
    }

    /// Accept records without that again, unless there was another stop since the `stops`-th.
    fn resume(&self, stops: u64) {
        self.accepts.store(stops == self.stops(), Relaxed);
    }
}

impl Usage {
    /// Whether another record of so many bytes has room, which the only one always has.
    #[inline(always)]
    pub fn has_room(&self, nbytes: usize) -> bool {
        let (bytes, records) = (self.bytes(), self.records());
        records == 0 || (bytes + nbytes as i64 <= self.max_bytes && records < self.max_records)
    }
}
