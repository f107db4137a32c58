//! A Python value to a leaf.

use std::ops::RangeInclusive;

use crate::clock;
use crate::columns::Appending;
use crate::decimal::Decimals;
use crate::half;
use crate::leaf::Values;
use crate::py::{Int, Ref};
use crate::schema::Unit;

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
                Some(nbytes) => appending.nbytes += nbytes,
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
        (Values::I32(out), Kind::UnsignedInt) => match int_within(value, 0..=u32::MAX.into()) {
            Some(number) => out.push(number as i32),
            None => return false,
        },
        (Values::I32(out), Kind::Time { unit }) => match clock::time_of_day(value, *unit) {
            Some(ticks) => out.push(ticks as i32),
            None => return false,
        },
        (Values::I64(out), Kind::Time { unit }) => match clock::time_of_day(value, *unit) {
            Some(ticks) => out.push(ticks),
            None => return false,
        },
        (Values::I64(out), Kind::Duration { unit }) => match clock::duration(value, *unit) {
            Some(ticks) => out.push(ticks),
            None => return false,
        },
        (Values::I32(out), _) => match clock::days(value) {
            Some(days) => out.push(days),
            None => return false,
        },
        (Values::I64(out), Kind::UnsignedLong) => match value.unsigned() {
            Some(number) => out.push(number as i64),
            None => return false,
        },
        (Values::I64(out), Kind::Timestamp { unit, has_zone }) => {
            match clock::ticks(value, *unit, *has_zone) {
                Some(ticks) => out.push(ticks),
                None => return false,
            }
        }
        (Values::F32(out), _) => {
            let Some(number) = value.float().or_else(|| exact_float(value, 24)) else {
                return false;
            };
            if number.is_finite() && !(number as f32).is_finite() {
                return false;
            }
            out.push(number as f32);
        }
        (Values::Strings(out), Kind::Symbol(symbols)) => {
            let Some(text) = value.text() else { return false };
            let is_one = |utf8: &[u8]| {
                symbols.binary_search_by(|symbol| symbol.as_bytes().cmp(utf8)).is_ok()
            };
            match out.push_text(text, &mut appending.scratch, is_one) {
                Some(nbytes) => appending.nbytes += nbytes,
                None => return false,
            }
        }
        (Values::Strings(out), _) => match value.bytes().and_then(|bytes| out.push_bytes(bytes)) {
            Some(nbytes) => appending.nbytes += nbytes,
            None => return false,
        },
        (Values::Fixed { bytes: out, .. }, Kind::Decimal(decimals)) => {
            return value.number_text(|text| decimals.append(text, out)).unwrap_or(false);
        }
        (Values::Fixed { bytes: out, .. }, Kind::Half) => {
            let number = value.float().or_else(|| exact_float(value, 53));
            match number.and_then(half::narrow) {
                Some(bits) => out.extend_from_slice(&bits.to_le_bytes()),
                None => return false,
            }
        }
        (Values::Fixed { width, bytes: out }, _) => match value.bytes() {
            Some(bytes) if bytes.len() == *width => out.extend_from_slice(bytes),
            _ => return false,
        },
        _ => unreachable!("a leaf's kind goes with its values"),
    }
    true
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
