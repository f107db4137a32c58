//! The Python objects of a leaf's values.

use std::ops::Range;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::python::new::{self, owned};
use crate::values::clock;
use crate::values::half;
use crate::values::leaf::Values;
use crate::values::schema::{Type, Unit, Zone};
use crate::values::strings::Strings;

/// Makes the objects of a leaf's values.
pub struct Objects {
    data_type: Type,
    /// Those of strings that are stored once.
    strings: Vec<Option<Py<PyAny>>>,
    recent: Recent,
}

impl Objects {
    pub fn new(values: &Values, data_type: &Type) -> Self {
        let strings = match values {
            Values::Strings(strings) if strings.indices().is_some() => strings.distinct(),
            _ => 0,
        };
        let data_type = match data_type {
            Type::Text { .. } => Type::Text { symbols: None },
            other => other.clone(),
        };
        let strings = (0..strings).map(|_| None).collect();
        Self { data_type, strings, recent: Recent::default() }
    }

    /// Append the objects of some values.
    pub fn read<'py>(
        &mut self,
        py: Python<'py>,
        values: &Values,
        range: Range<usize>,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let Self { data_type, strings, recent } = self;
        match (values, data_type) {
            (Values::I32(values), Type::Int { .. }) => append(out, &values[range], |&value| {
                let number = i64::from(value);
                recent.get(py, number, || new::int(py, number))
            }),
            (Values::I64(values), Type::Long) => append(out, &values[range], |&number| {
                recent.get(py, number, || new::int(py, number))
            }),
            // SAFETY: a new reference, or null with an exception set.
            (Values::F64(values), _) => append(out, &values[range], |&value| unsafe {
                owned(py, ffi::PyFloat_FromDouble(value))
            }),
            (Values::Strings(values), data_type) if values.indices().is_some() => {
                append(out, &values.indices().unwrap_or_default()[range], |&index| {
                    string(py, values, index as usize, data_type, strings)
                })
            }
            _ => range.into_iter().try_for_each(|value| {
                out.push(self.get(py, values, value)?);
                Ok(())
            }),
        }
    }

    #[inline(always)]
    pub fn get<'py>(
        &mut self,
        py: Python<'py>,
        values: &Values,
        value: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: each function returns a new reference, or null with an exception set.
        unsafe {
            match values {
                Values::Bool(bits) => owned(py, ffi::PyBool_FromLong(i64::from(bits.get(value)))),
                Values::I32(values) => {
                    let number = values[value];
                    self.recent.get(py, number.into(), || match &self.data_type {
                        Type::Date => clock::date(py, number),
                        Type::Time { .. } => clock::time(py, 1_000 * i64::from(number)),
                        Type::UnsignedInt => new::int(py, i64::from(number as u32)),
                        _ => new::int(py, i64::from(number)),
                    })
                }
                Values::I64(values) => {
                    let number = values[value];
                    self.recent.get(py, number, || match &self.data_type {
                        Type::Timestamp { unit, has_zone } => time(py, number, *unit, *has_zone),
                        Type::ZonedTimestamp { unit, zone } => zoned_time(py, number, *unit, zone),
                        Type::Time { unit } => time_of_day(py, number, *unit),
                        Type::Duration { unit } => clock::timedelta(py, number, *unit)
                            .unwrap_or_else(|| new::int(py, number)),
                        Type::UnsignedLong => {
                            owned(py, ffi::PyLong_FromUnsignedLongLong(number as u64))
                        }
                        _ => new::int(py, number),
                    })
                }
                Values::F32(values) => owned(py, ffi::PyFloat_FromDouble(f64::from(values[value]))),
                Values::F64(values) => owned(py, ffi::PyFloat_FromDouble(values[value])),
                Values::Fixed { width, bytes } => {
                    let bytes = &bytes[width * value..][..*width];
                    match &self.data_type {
                        Type::Decimal(decimals) => decimal(py, &decimals.text(bytes)),
                        Type::Half => {
                            let number = half::widen(u16::from_le_bytes([bytes[0], bytes[1]]));
                            owned(py, ffi::PyFloat_FromDouble(number))
                        }
                        _ => new::bytes(py, bytes),
                    }
                }
                Values::Strings(values) => match values.indices() {
                    Some(indices) => {
                        let index = indices[value] as usize;
                        string(py, values, index, &self.data_type, &mut self.strings)
                    }
                    None => new_string(py, values.get(value), &self.data_type),
                },
            }
        }
    }
}

/// Append the objects of some values.
#[inline(always)]
fn append<'py, T>(
    out: &mut Vec<Bound<'py, PyAny>>,
    values: &[T],
    mut object: impl FnMut(&T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    for value in values {
        out.push(object(value)?);
    }
    Ok(())
}

/// A string that is stored once has one object.
#[inline(always)]
fn string<'py>(
    py: Python<'py>,
    values: &Strings,
    index: usize,
    data_type: &Type,
    objects: &mut [Option<Py<PyAny>>],
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(object) = &objects[index] {
        return Ok(object.bind(py).clone());
    }
    let object = new_string(py, values.stored(index), data_type)?;
    objects[index] = Some(object.clone().unbind());
    Ok(object)
}

fn new_string<'py>(
    py: Python<'py>,
    string: &[u8],
    data_type: &Type,
) -> PyResult<Bound<'py, PyAny>> {
    match data_type {
        Type::Text { .. } => new::text(py, string),
        _ => new::bytes(py, string),
    }
}

/// The objects of numbers and times that came before: many come again.
#[derive(Default)]
struct Recent {
    /// One for each remainder; empty at first, and where it does not pay.
    objects: Vec<Option<(i64, Py<PyAny>)>>,
    made: usize,
    found: usize,
}

impl Recent {
    const OBJECTS: usize = 256;
    /// So many objects are made before the first is remembered, and before it is decided.
    const BEGIN: usize = 64;
    const DECIDE: usize = Self::BEGIN + 2 * Self::OBJECTS;

    #[inline(always)]
    fn get<'py>(
        &mut self,
        py: Python<'py>,
        number: i64,
        make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.objects.is_empty() {
            if self.made <= Self::BEGIN {
                self.begin();
            }
            return make();
        }
        // Times are multiples of an hour or a day: their lowest bits are the same.
        let place = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 56;
        if let Some((known, object)) = &self.objects[place]
            && *known == number
        {
            self.found += 1;
            return Ok(object.bind(py).clone());
        }
        let object = make()?;
        self.objects[place] = Some((number, object.clone().unbind()));
        self.made += 1;
        if self.made == Self::DECIDE && self.found < Self::OBJECTS {
            self.objects = Vec::new();
        }
        Ok(object)
    }

    /// Remember objects from now on, if there were some.
    fn begin(&mut self) {
        self.made += 1;
        if self.made == Self::BEGIN {
            self.objects = (0..Self::OBJECTS).map(|_| None).collect();
        }
    }
}

/// A datetime, or the number where Python has none that is exact.
fn time(py: Python<'_>, ticks: i64, unit: Unit, has_zone: bool) -> PyResult<Bound<'_, PyAny>> {
    match in_micros(ticks, unit).and_then(|micros| clock::datetime(py, micros, has_zone)) {
        Some(object) => object,
        None => new::int(py, ticks),
    }
}

fn in_micros(ticks: i64, unit: Unit) -> Option<i64> {
    match unit {
        Unit::Second => ticks.checked_mul(1_000_000),
        Unit::Milli => ticks.checked_mul(1_000),
        Unit::Micro => Some(ticks),
        Unit::Nano => (ticks % 1_000 == 0).then_some(ticks / 1_000),
    }
}

/// A datetime in a zone, or the number where the zone has none, or none that is exact.
fn zoned_time<'py>(
    py: Python<'py>,
    ticks: i64,
    unit: Unit,
    zone: &Zone,
) -> PyResult<Bound<'py, PyAny>> {
    let micros = in_micros(ticks, unit);
    let Some(utc) = micros.and_then(|micros| clock::datetime(py, micros, true)) else {
        return new::int(py, ticks);
    };
    let utc = utc?;
    let time = || utc.call_method1("astimezone", (&*zone.0,));
    match time() {
        Err(error) if error.is_instance_of::<PyException>(py) => match time() {
            Err(again) if again.is_instance_of::<PyException>(py) => new::int(py, ticks),
            // The zone has this time: a signal handler has raised the error.
            Ok(_) => Err(error),
            other => other,
        },
        other => other,
    }
}

/// A time of day, or the number where Python has none that is exact.
fn time_of_day(py: Python<'_>, ticks: i64, unit: Unit) -> PyResult<Bound<'_, PyAny>> {
    in_micros(ticks, unit).map_or_else(|| new::int(py, ticks), |micros| clock::time(py, micros))
}

fn decimal<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "decimal", "Decimal")?;
    class.call1((text,))
}
