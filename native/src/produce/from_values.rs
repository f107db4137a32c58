//! A Python value to a leaf.

use std::ops::RangeInclusive;

use crate::produce::columns::Appending;
use crate::python::py::{Digits, Int, Ref};
use crate::values::clock;
use crate::values::decimal::Decimals;
use crate::values::half;
use crate::values::leaf::Values;
use crate::values::schema::Unit;
use crate::values::size::Size;

/// The values that a leaf takes, where its physical type does not say it.
#[repr(u8)]
pub enum Kind {
    Physical,
    Int {
        least: i32,
        most: i32,
    },
    UnsignedInt,
    UnsignedLong,
    Text,
    /// A text that is one of these, which are sorted.
    Symbol(Vec<Box<str>>),
    Date,
    Timestamp {
        unit: Unit,
        has_zone: bool,
    },
    Time {
        unit: Unit,
    },
    Duration {
        unit: Unit,
    },
    Decimal(Box<Decimals>),
    Half,
}

/// Append a value that is not null; says whether it is one that the leaf takes.
#[inline(always)]
pub fn append_value(
    kind: &Kind,
    values: &mut Values,
    value: Ref<'_>,
    appending: &mut Appending,
) -> bool {
    match (values, kind) {
        (Values::I64(out), Kind::Physical) => match value.int() {
            Some(Int::Fits(number)) => out.push(number),
            _ => return false,
        },
        (Values::F64(out), _) => match value.float().or_else(|| exact_float(value, 53)) {
            Some(number) => out.push(number),
            None => return false,
        },
        (Values::Strings(out), Kind::Text) => {
            let Some(text) = value.text() else { return false };
            match out.push_text(text, &mut appending.scratch, |_| true) {
                Some(size) => appending.size += size,
                None => return false,
            }
        }
        (Values::I32(out), Kind::Int { least, most }) => {
            match int_within(value, i64::from(*least)..=i64::from(*most)) {
                Some(number) => out.push(number as i32),
                None => return false,
            }
        }
        (Values::Bool(out), _) => match value.boolean() {
            Some(bit) => out.push(bit),
            None => return false,
        },
        (values, kind) => return append_rare(kind, values, value, appending),
    }
    true
}

#[inline(never)]
fn append_rare(
    kind: &Kind,
    values: &mut Values,
    value: Ref<'_>,
    appending: &mut Appending,
) -> bool {
    match (values, kind) {
        (Values::I32(out), Kind::UnsignedInt) => {
            push(out, int_within(value, 0..=u32::MAX.into()).map(|number| number as i32))
        }
        (Values::I32(out), Kind::Time { unit }) => {
            push(out, clock::time_of_day(value, *unit).map(|ticks| ticks as i32))
        }
        (Values::I32(out), _) => push(out, clock::days(value)),
        (Values::I64(out), Kind::Time { unit }) => push(out, clock::time_of_day(value, *unit)),
        (Values::I64(out), Kind::Duration { unit }) => push(out, clock::duration(value, *unit)),
        (Values::I64(out), Kind::UnsignedLong) => {
            push(out, value.unsigned().map(|number| number as i64))
        }
        (Values::I64(out), Kind::Timestamp { unit, has_zone }) => {
            push(out, clock::ticks(value, *unit, *has_zone))
        }
        (Values::F32(out), _) => push(out, short_float(value)),
        (Values::Strings(out), Kind::Symbol(symbols)) => {
            let is_one = |utf8: &[u8]| {
                symbols.binary_search_by(|symbol| symbol.as_bytes().cmp(utf8)).is_ok()
            };
            let scratch = &mut appending.scratch;
            let size = value.text().and_then(|text| out.push_text(text, scratch, is_one));
            count(appending, size)
        }
        (Values::Strings(out), _) => {
            count(appending, value.bytes().and_then(|bytes| out.push_bytes(bytes)))
        }
        (Values::Fixed { bytes: out, .. }, Kind::Decimal(decimals)) => match value.digits() {
            Some(Digits { is_negative, digits }) => decimals.append_int(is_negative, digits, out),
            None => value.decimal_text(|text| decimals.append(text, out)).unwrap_or(false),
        },
        (Values::Fixed { bytes: out, .. }, Kind::Half) => {
            let number = value.float().or_else(|| exact_float(value, 53));
            let bits = number.and_then(half::narrow);
            bits.map(|bits| out.extend_from_slice(&bits.to_le_bytes())).is_some()
        }
        (Values::Fixed { width, bytes: out }, _) => {
            let bytes = value.bytes().filter(|bytes| bytes.len() == *width);
            bytes.map(|bytes| out.extend_from_slice(bytes)).is_some()
        }
        _ => unreachable!("a leaf's kind goes with its values"),
    }
}

/// Append a number where there is one; says whether there is.
#[inline(always)]
fn push<T>(out: &mut Vec<T>, number: Option<T>) -> bool {
    number.map(|number| out.push(number)).is_some()
}

/// Count what was appended, if it was.
#[inline(always)]
fn count(appending: &mut Appending, size: Option<Size>) -> bool {
    size.map(|size| appending.size += size).is_some()
}

/// A float of 32 bits: rounded, but not to infinity.
#[inline(always)]
fn short_float(value: Ref<'_>) -> Option<f32> {
    let number = value.float().or_else(|| exact_float(value, 24))?;
    let short = number as f32;
    (short.is_finite() || !number.is_finite()).then_some(short)
}

#[inline(always)]
fn int_within(value: Ref<'_>, range: RangeInclusive<i64>) -> Option<i64> {
    match value.int()? {
        Int::Fits(number) => range.contains(&number).then_some(number),
        Int::TooLarge => None,
    }
}

/// An int that a float of so many bits holds exactly, as Arrow has it.
#[inline(never)]
fn exact_float(value: Ref<'_>, bits: u32) -> Option<f64> {
    match value.int()? {
        Int::Fits(number) if number.unsigned_abs() <= 1 << bits => Some(number as f64),
        _ => None,
    }
}
