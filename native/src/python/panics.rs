//! Panics. One is a mistake in the core: the entry that it ends raises `PanicError` instead, and a line
//! in the log asks for a report.
//!
//! No panic may leave an entry: it would be a `BaseException` to Python, and end the process where there
//! is no frame of PyO3's around it.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pyo3::create_exception!(
    columnar_kafka.native._core,
    PanicError,
    PyRuntimeError,
    "The native core has panicked, which is a mistake in it."
);

/// What the last panic said, and where it was.
static LAST: Mutex<String> = Mutex::new(String::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Keep what a panic says; only the first one is printed.
pub fn import() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = text;
        if COUNT.fetch_add(1, Relaxed) == 0 {
            // The process may end here. Nobody may be reading, at which `eprintln` would panic.
            let _ = writeln!(io::stderr(), "columnar-kafka's native core {info}");
        }
    }));
}

/// How often the core has panicked in this process.
#[pyfunction]
pub fn panic_count() -> usize {
    COUNT.load(Relaxed)
}

/// Run one of the entries that Python calls.
#[inline(always)]
pub fn entry<T>(
    py: Python<'_>,
    name: &'static str,
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    caught(name, run).unwrap_or_else(|| Err(error(py)))
}

/// Run what may panic; None: it did.
#[inline(always)]
pub fn caught<T>(name: &'static str, run: impl FnOnce() -> T) -> Option<T> {
    let run = || {
        point(name);
        run()
    };
    // What it was about to change is given up by whoever calls this.
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}

/// The error that says what the last panic was.
#[cold]
pub fn error(py: Python<'_>) -> PyErr {
    match tell(py) {
        Ok(()) => PanicError::new_err(text()),
        Err(error) => error,
    }
}

fn text() -> String {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    format!("the native core {last}. Please report it: it is a mistake in columnar-kafka")
}

/// Log the first panic of the process, if there was one. It calls Python's code.
#[cold]
pub fn tell(py: Python<'_>) -> PyResult<()> {
    if panic_count() == 0 || IS_TOLD.swap(true, Relaxed) {
        return Ok(());
    }
    let log = py.import("logging")?.call_method1("getLogger", ("columnar_kafka.native",))?;
    log.call_method1("error", ("%s", text())).map(drop)
}

/// Where tests have the core panic.
#[cfg(not(feature = "panics"))]
#[inline(always)]
fn point(_: &'static str) {}

#[cfg(feature = "panics")]
use injected::point;

#[cfg(feature = "panics")]
pub mod injected {
    use std::collections::{BTreeSet, HashMap};

    use super::{Mutex, PoisonError};
    use pyo3::prelude::*;

    /// The entries that have been called.
    static CALLED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    /// How often each entry is to panic, after how many calls.
    static ARMED: Mutex<Option<HashMap<String, (u32, u32)>>> = Mutex::new(None);

    pub fn point(name: &'static str) {
        CALLED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((calls, times)) = armed.get_or_insert_default().get_mut(name) else { return };
        if *calls > 0 {
            *calls -= 1;
        } else if *times > 0 {
            *times -= 1;
            drop(armed);
            panic!("as a test wants it, in {name}");
        }
    }

    /// Have an entry panic so many times, after so many calls.
    #[pyfunction]
    #[pyo3(signature = (entry, times=1, after=0))]
    pub fn panic_at(entry: String, times: u32, after: u32) {
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        armed.get_or_insert_default().insert(entry, (after, times));
    }

    /// Whether an entry has panicked as often as it was to.
    #[pyfunction]
    pub fn has_panicked(entry: &str) -> bool {
        let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        armed.as_ref().and_then(|armed| armed.get(entry)).is_some_and(|(_, times)| *times == 0)
    }

    /// The entries that have been called.
    #[pyfunction]
    pub fn called_entries() -> Vec<&'static str> {
        CALLED.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
