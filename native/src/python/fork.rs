//! Whether this process is a forked child: also of a fork in C, of which Python is not told.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::prelude::*;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Count forks from now on.
pub fn watch() -> PyResult<()> {
    #[cfg(unix)]
    {
        unsafe extern "C" fn in_child() {
            FORKS.fetch_add(1, Relaxed);
        }
        // SAFETY: the handler only adds to a number, which it may at any time.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            return Err(std::io::Error::from_raw_os_error(failed).into());
        }
    }
    Ok(())
}

/// How many forks lie between this process and the one that began to count.
#[pyfunction]
pub fn forks() -> u32 {
    count()
}

/// See `forks`.
#[inline(always)]
pub fn count() -> u32 {
    FORKS.load(Relaxed)
}
