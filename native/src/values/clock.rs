//! Times: Python's datetimes as Parquet's numbers, and the time of now.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::python::new;
use crate::python::py::{Int, Ref, without_collector};
use crate::values::schema::Unit;

/// A date, or its number of days since 1970.
pub fn days(value: Ref<'_>) -> Option<i32> {
    if let Some(int) = value.int() {
        return match int {
            Int::Fits(days) => i32::try_from(days).ok(),
            Int::TooLarge => None,
        };
    }
    // SAFETY: the class, which is exact, says that the fields are there.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let ptr = value.as_ptr();
        if api.is_null() || ffi::Py_TYPE(ptr) != (*api).DateType {
            return None;
        }
        let (year, month) = (ffi::PyDateTime_GET_YEAR(ptr), ffi::PyDateTime_GET_MONTH(ptr));
        i32::try_from(days_from_civil(year, month, ffi::PyDateTime_GET_DAY(ptr))).ok()
    }
}

/// A datetime of one of Python's own zones, of a zone that is known as UTC, or without one; or its units
/// since 1970.
///
/// A naive one in a column with a zone is UTC. Other classes of zones are Python's to ask. None with an
/// exception set: a zone has raised it.
pub fn ticks(value: Ref<'_>, unit: Unit, has_zone: bool) -> Option<i64> {
    if let Some(int) = value.int() {
        return match int {
            Int::Fits(ticks) => Some(ticks),
            Int::TooLarge => None,
        };
    }
    // SAFETY: the class, which is exact, says that the fields are there.
    let micros = unsafe {
        let api = ffi::PyDateTimeAPI();
        let ptr = value.as_ptr();
        if api.is_null() || ffi::Py_TYPE(ptr) != (*api).DateTimeType {
            return None;
        }
        let zone = ffi::PyDateTime_DATE_GET_TZINFO(ptr);
        let offset = if zone == ffi::Py_None() {
            0
        } else if has_zone {
            offset(Ref::from_ptr(value.py(), zone), value)?
        } else {
            return None;
        };
        let (year, month) = (ffi::PyDateTime_GET_YEAR(ptr), ffi::PyDateTime_GET_MONTH(ptr));
        let days = days_from_civil(year, month, ffi::PyDateTime_GET_DAY(ptr));
        let (hour, minute) =
            (ffi::PyDateTime_DATE_GET_HOUR(ptr), ffi::PyDateTime_DATE_GET_MINUTE(ptr));
        let seconds = i64::from(hour * 3600 + minute * 60 + ffi::PyDateTime_DATE_GET_SECOND(ptr));
        let micros = i64::from(ffi::PyDateTime_DATE_GET_MICROSECOND(ptr));
        (days * 86_400 + seconds) * 1_000_000 + micros - offset
    };
    match unit {
        Unit::Second => Some(micros.div_euclid(1_000_000)),
        Unit::Milli => Some(micros.div_euclid(1_000)),
        Unit::Micro => Some(micros),
        Unit::Nano => micros.checked_mul(1_000),
    }
}

/// A time of day without a zone, or its number of units since midnight.
pub fn time_of_day(value: Ref<'_>, unit: Unit) -> Option<i64> {
    if let Some(int) = value.int() {
        return match int {
            Int::Fits(ticks) => (0..86_400 * unit.per_second()).contains(&ticks).then_some(ticks),
            Int::TooLarge => None,
        };
    }
    // SAFETY: the class, which is exact, says that the fields are there.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let ptr = value.as_ptr();
        if api.is_null()
            || ffi::Py_TYPE(ptr) != (*api).TimeType
            || ffi::PyDateTime_TIME_GET_TZINFO(ptr) != ffi::Py_None()
        {
            return None;
        }
        let (hour, minute) =
            (ffi::PyDateTime_TIME_GET_HOUR(ptr), ffi::PyDateTime_TIME_GET_MINUTE(ptr));
        let seconds = hour * 3600 + minute * 60 + ffi::PyDateTime_TIME_GET_SECOND(ptr);
        in_units(i64::from(seconds), ffi::PyDateTime_TIME_GET_MICROSECOND(ptr), unit)
    }
}

/// A timedelta, or its number of units.
pub fn duration(value: Ref<'_>, unit: Unit) -> Option<i64> {
    if let Some(int) = value.int() {
        return match int {
            Int::Fits(ticks) => Some(ticks),
            Int::TooLarge => None,
        };
    }
    // SAFETY: the class, which is exact, says that the fields are there.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let ptr = value.as_ptr();
        if api.is_null() || ffi::Py_TYPE(ptr) != (*api).DeltaType {
            return None;
        }
        let days = i64::from(ffi::PyDateTime_DELTA_GET_DAYS(ptr));
        let seconds = 86_400 * days + i64::from(ffi::PyDateTime_DELTA_GET_SECONDS(ptr));
        in_units(seconds, ffi::PyDateTime_DELTA_GET_MICROSECONDS(ptr), unit)
    }
}

/// Seconds and microseconds in units, rounded down; None if they are too many.
fn in_units(seconds: i64, micros: i32, unit: Unit) -> Option<i64> {
    let rest = i64::from(micros) * unit.per_second() / 1_000_000;
    seconds.checked_mul(unit.per_second())?.checked_add(rest)
}

/// A class of zones whose `utcoffset` is written in C, and that method.
struct ZoneClass {
    class: Py<PyType>,
    utcoffset: Py<PyAny>,
}

/// `datetime.timezone`.
static TIMEZONE: PyOnceLock<ZoneClass> = PyOnceLock::new();

/// `zoneinfo.ZoneInfo`, once it is known.
static ZONE_INFO: PyOnceLock<ZoneClass> = PyOnceLock::new();

/// Zones that are UTC at all times: `ZoneInfo("UTC")`, of which there is mostly one, and `pytz.utc`.
static UTC: [PyOnceLock<Py<PyAny>>; 2] = [PyOnceLock::new(), PyOnceLock::new()];

/// Take times of these zones: those of a class, which is `zoneinfo.ZoneInfo`, and those that are UTC. Of
/// each kind the first stays.
///
/// A row cannot find them: to import a module may run Python's code, and wait for another thread.
#[pyfunction]
pub fn learn_zones(class: &Bound<'_, PyType>, utc: [Option<Bound<'_, PyAny>>; 2]) -> PyResult<()> {
    let py = class.py();
    if ZONE_INFO.get(py).is_none()
        && let Some(zone_class) = ZoneClass::of(class)?
    {
        let _ = ZONE_INFO.set(py, zone_class);
    }
    for (known, zone) in UTC.iter().zip(utc) {
        if let Some(zone) = zone {
            let _ = known.set(py, zone.unbind());
        }
    }
    Ok(())
}

impl ZoneClass {
    /// None for a class whose method is written in Python.
    fn of(class: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let method = class.getattr("utcoffset")?;
        // SAFETY: both are alive.
        let is_in_c = unsafe { ffi::Py_TYPE(method.as_ptr()) == &raw mut ffi::PyMethodDescr_Type };
        let known = Self { class: class.clone().unbind(), utcoffset: method.unbind() };
        Ok(is_in_c.then_some(known))
    }
}

/// What a time is ahead of UTC, in microseconds; None if its zone is Python's to ask. The time is a
/// datetime.
fn offset(zone: Ref<'_>, time: Ref<'_>) -> Option<i64> {
    let py = zone.py();
    // SAFETY: the C API is there, as `import` has seen.
    let utc = unsafe { (*ffi::PyDateTimeAPI()).TimeZone_UTC };
    let is_zone = |known: &PyOnceLock<Py<PyAny>>| {
        known.get(py).is_some_and(|known| known.as_ptr() == zone.as_ptr())
    };
    if zone.as_ptr() == utc || UTC.iter().any(is_zone) {
        return Some(0);
    }
    // SAFETY: the zone is alive.
    let class = unsafe { ffi::Py_TYPE(zone.as_ptr()) };
    let mut classes = [&TIMEZONE, &ZONE_INFO].into_iter().filter_map(|class| class.get(py));
    let known = classes.find(|known| known.class.as_ptr().cast() == class)?;
    let arguments = [zone.as_ptr(), time.as_ptr()];
    // SAFETY: the method is one of the zone's class, written in C; a new reference, or null with an
    // exception.
    let delta = without_collector(py, || unsafe {
        let method = known.utcoffset.as_ptr();
        let delta = ffi::PyObject_Vectorcall(method, arguments.as_ptr(), 2, std::ptr::null_mut());
        Bound::from_owned_ptr_or_opt(py, delta)
    })?;
    duration(Ref::of(&delta), Unit::Micro)
}

/// The days since 1970 of a date of the Gregorian calendar (Howard Hinnant's algorithm).
pub fn days_from_civil(year: i32, month: i32, day: i32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year =
        (153 * (i64::from(month) + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date so many days after 1970, or the number where Python has none.
pub fn date(py: Python<'_>, days: i32) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = civil_from_days(i64::from(days));
    if !(1..=9999).contains(&year) {
        return new::int(py, i64::from(days));
    }
    // SAFETY: the C API is there, as `import` has seen; a new reference, or null with an exception.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let object = ((*api).Date_FromDate)(year as i32, month, day, (*api).DateType);
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// The datetime so many microseconds after 1970, in UTC or without a zone; None outside its years.
pub fn datetime(py: Python<'_>, micros: i64, has_zone: bool) -> Option<PyResult<Bound<'_, PyAny>>> {
    let (seconds, micro) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as i32);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as i32);
    let (year, month, day) = civil_from_days(days);
    if !(1..=9999).contains(&year) {
        return None;
    }
    // SAFETY: as in `date`.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let zone = if has_zone { (*api).TimeZone_UTC } else { ffi::Py_None() };
        let object = ((*api).DateTime_FromDateAndTime)(
            year as i32,
            month,
            day,
            second / 3600,
            second / 60 % 60,
            second % 60,
            micro,
            zone,
            (*api).DateTimeType,
        );
        Some(Bound::from_owned_ptr_or_err(py, object))
    }
}

/// The time so many microseconds after midnight.
pub fn time(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let (second, micro) = ((micros / 1_000_000) as i32, (micros % 1_000_000) as i32);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    // SAFETY: as in `date`.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let (none, class) = (ffi::Py_None(), (*api).TimeType);
        let object = ((*api).Time_FromTime)(hour, minute, second % 60, micro, none, class);
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// The timedelta of so many units, or None where Python has none that is exact.
pub fn timedelta(py: Python<'_>, ticks: i64, unit: Unit) -> Option<PyResult<Bound<'_, PyAny>>> {
    let per_second = unit.per_second();
    let (seconds, rest) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let micros = i128::from(rest) * 1_000_000;
    if micros % i128::from(per_second) != 0 {
        return None;
    }
    let micros = (micros / i128::from(per_second)) as i32;
    let (days, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as i32);
    let days = i32::try_from(days).ok().filter(|days| days.abs() <= 999_999_999)?;
    // SAFETY: as in `date`.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        let object = ((*api).Delta_FromDelta)(days, seconds, micros, 0, (*api).DeltaType);
        Some(Bound::from_owned_ptr_or_err(py, object))
    }
}

/// Year, month and day of the Gregorian calendar (the same algorithm, backwards).
pub fn civil_from_days(days: i64) -> (i64, i32, i32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as i32;
    let month = (shifted_month + if shifted_month < 10 { 3 } else { -9 }) as i32;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Load the C API of datetimes, and find Python's own class of zones.
pub fn import(py: Python<'_>) -> PyResult<()> {
    // SAFETY: without the API an exception is set; its class of zones lives for ever.
    let timezone = unsafe {
        ffi::PyDateTime_IMPORT();
        if ffi::PyDateTimeAPI().is_null() {
            return Err(PyErr::fetch(py));
        }
        let utc = (*ffi::PyDateTimeAPI()).TimeZone_UTC;
        Bound::from_borrowed_ptr(py, utc).get_type()
    };
    if let Some(zone_class) = ZoneClass::of(&timezone)? {
        let _ = TIMEZONE.set(py, zone_class);
    }
    Ok(())
}

/// The time of now, in milliseconds since 1970.
#[cfg(unix)]
pub fn now_ms() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to a place of that type; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    #[allow(clippy::unnecessary_cast)] // fewer bits on some platforms
    let (seconds, nanos) = (now.tv_sec as i64, now.tv_nsec as i64);
    seconds * 1_000 + nanos / 1_000_000
}

/// The time of now, in milliseconds since 1970.
#[cfg(not(unix))]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
