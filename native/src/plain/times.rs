//! Dates and times in ISO 8601, in the forms that the package takes.

use crate::values::clock::days_from_civil;
use crate::values::schema::Unit;

const DAY: i64 = 86_400;

/// The days since 1970 of a date such as 2026-01-31.
pub fn days(text: &str) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text.as_bytes() else { return None };
    let year = 100 * two_digits(y1, y2)? + two_digits(y3, y4)?;
    let (month, day) = (two_digits(m1, m2)?, two_digits(d1, d2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return None,
    };
    if year == 0 || day == 0 || day > most {
        return None;
    }
    Some(days_from_civil(year as i32, month as i32, day as i32))
}

/// The units since 1970 of a time such as 2026-01-31T12:00:00.000Z. One without a zone is UTC; one with
/// a zone needs a column that has one.
pub fn ticks(text: &str, unit: Unit, has_zone: bool) -> Option<i64> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone_at);
    if !zone.is_empty() && !has_zone {
        return None;
    }
    let seconds = DAY * days(date)? - zone_seconds(zone.as_bytes())?;
    seconds.checked_mul(unit.per_second())?.checked_add(time_of_day(time, unit)?)
}

/// The units since midnight of a time of day such as 12:00:00.000; finer digits are cut off.
pub fn time_of_day(text: &str, unit: Unit) -> Option<i64> {
    let (minutes, rest) = match *text.as_bytes() {
        [h1, h2, b':', m1, m2, ref rest @ ..] => {
            let (hour, minute) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
            ((hour < 24 && minute < 60).then_some(60 * hour + minute)?, rest)
        }
        _ => return None,
    };
    let (second, fraction) = match *rest {
        [] => (0, &[][..]),
        [b':', s1, s2] => (two_digits(s1, s2)?, &[][..]),
        [b':', s1, s2, b'.', ref fraction @ ..] if (1..=9).contains(&fraction.len()) => {
            (two_digits(s1, s2)?, fraction)
        }
        _ => return None,
    };
    if second > 59 {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        let digit = fraction.get(place).map_or(Some(0), |&byte| digit(byte))?;
        nanos = 10 * nanos + digit;
    }
    let per_second = unit.per_second();
    Some((60 * minutes + second) * per_second + nanos / (1_000_000_000 / per_second))
}

/// How far a zone is ahead of UTC.
fn zone_seconds(text: &[u8]) -> Option<i64> {
    let (sign, h1, h2, m1, m2) = match *text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, h1, h2, m1, m2),
        _ => return None,
    };
    let (hours, minutes) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
    let seconds = (hours < 24 && minutes < 60).then_some(3600 * hours + 60 * minutes)?;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    Some(10 * digit(tens)? + digit(ones)?)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}
