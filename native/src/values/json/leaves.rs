//! Values of columns as JSON: numbers as orjson writes them, and texts for what JSON does not have.

use crate::values::clock::civil_from_days;
use crate::values::half;
use crate::values::schema::Unit;
use crate::values::time_form::TimeForm;

const DAY: i64 = 86_400;
const SECOND: i64 = 1_000_000_000;
/// So many digits tell a float of 16 or 32 bits from all others.
const HALF_DIGITS: usize = 5;
const FLOAT_DIGITS: usize = 9;
/// Integers below this have no exponent, and a double has them.
const WHOLE: i64 = 1 << 53;
/// Two digits for each number below a hundred.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

#[inline(always)]
fn pair(number: u32) -> [u8; 2] {
    let at = 2 * number as usize;
    [PAIRS[at], PAIRS[at + 1]]
}

#[inline(always)]
pub fn push_int(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    push_unsigned(number.unsigned_abs(), out);
}

#[inline(always)]
pub fn push_unsigned(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut end = start + number.checked_ilog10().map_or(1, |most| most as usize + 1);
    out.extend_from_slice(&[b'0'; 20]); // a fixed size takes no call
    out.truncate(end);
    while number >= 100 {
        end -= 2;
        out[end..end + 2].copy_from_slice(&pair((number % 100) as u32));
        number /= 100;
    }
    if number >= 10 {
        out[start..start + 2].copy_from_slice(&pair(number as u32));
    } else {
        out[start] = b'0' + number as u8;
    }
}

#[inline(always)]
pub fn push_double(number: f64, out: &mut Vec<u8>) {
    let whole = number as i64;
    if whole as f64 == number && whole.abs() < WHOLE && (whole != 0 || number.is_sign_positive()) {
        push_int(whole, out);
        out.extend_from_slice(b".0");
    } else {
        push_any_double(number, out);
    }
}

#[inline(never)]
fn push_any_double(number: f64, out: &mut Vec<u8>) {
    if !number.is_finite() {
        return out.extend_from_slice(b"null");
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(number);
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            out.extend_from_slice(digits.as_bytes());
            out.extend_from_slice(b"e+");
            out.extend_from_slice(exponent.as_bytes());
        }
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// Append the number of the fewest digits that is this float.
pub fn push_float(number: f32, out: &mut Vec<u8>) {
    let wide = f64::from(number);
    if !number.is_finite() {
        return push_double(wide, out);
    }
    // The neighbour below a power of two is closer: not each of the fewest digits is the nearest.
    let shortest = if number.to_bits() & 0x7F_FFFF == 0 {
        rounded(wide, FLOAT_DIGITS, |other| other as f32 == number)
    } else {
        ryu::Buffer::new().format_finite(number).parse().unwrap_or(wide)
    };
    push_double(shortest, out);
}

pub fn push_half(bits: u16, out: &mut Vec<u8>) {
    let number = half::widen(bits);
    let is_it = |other| half::narrow(other).is_some_and(|bits| half::widen(bits) == number);
    push_double(if number.is_finite() { rounded(number, HALF_DIGITS, is_it) } else { number }, out);
}

/// A number rounded to the fewest digits of which this is true.
fn rounded(number: f64, most: usize, is_it: impl Fn(f64) -> bool) -> f64 {
    let texts = (0..most).map(|digits| format!("{number:.digits$e}"));
    texts.filter_map(|text| text.parse().ok()).find(|&other| is_it(other)).unwrap_or(number)
}

/// Append bytes as base64.
pub fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { digit } else { b'=' });
        }
    }
    out.push(b'"');
}

pub fn push_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

/// Append a date of the years 1 to 9999, or the days since 1970.
pub fn push_date(days: i64, out: &mut Vec<u8>) {
    let Some(date) = date(days) else { return push_int(days, out) };
    out.push(b'"');
    out.extend_from_slice(&date);
    out.push(b'"');
}

/// Append a time of the years 1 to 9999, or the units since 1970.
pub fn push_timestamp(ticks: i64, unit: Unit, form: TimeForm, out: &mut Vec<u8>) {
    let per_second = unit.per_second();
    let (seconds, fraction) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let Some(date) = date(seconds.div_euclid(DAY)) else { return push_int(ticks, out) };
    out.push(b'"');
    out.extend_from_slice(&date);
    out.extend(form.separator);
    push_clock(seconds.rem_euclid(DAY), fraction, unit, form, out);
    out.extend_from_slice(form.zone().as_bytes());
    out.push(b'"');
}

/// Append a time of day.
pub fn push_time(ticks: i64, unit: Unit, form: TimeForm, out: &mut Vec<u8>) {
    let per_second = unit.per_second();
    out.push(b'"');
    push_clock(ticks / per_second, ticks % per_second, unit, form, out);
    out.push(b'"');
}

fn push_clock(second: i64, fraction: i64, unit: Unit, form: TimeForm, out: &mut Vec<u8>) {
    let second = second as u32;
    let ([h1, h2], [m1, m2]) = (pair(second / 3600), pair(second / 60 % 60));
    let [s1, s2] = pair(second % 60);
    out.extend_from_slice(&[h1, h2, b':', m1, m2, b':', s1, s2]);
    let nanos = fraction * (SECOND / unit.per_second());
    if nanos > 0 || form.shows_zeros == Some(true) {
        let count = match form.digits {
            Some(digits) if nanos % 10_i64.pow(9 - u32::from(digits)) == 0 => digits.into(),
            _ if nanos % 1_000 == 0 => 6,
            _ => 9_usize,
        };
        let mut left = nanos / 10_i64.pow(9 - count as u32);
        let mut digits = [b'.'; 10];
        for digit in digits[1..=count].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        out.extend_from_slice(&digits[..=count]);
    }
}

fn date(days: i64) -> Option<[u8; 10]> {
    let (year, month, day) = civil_from_days(days);
    let year = u32::try_from(year).ok().filter(|year| (1..=9999).contains(year))?;
    let ([y1, y2], [y3, y4]) = (pair(year / 100), pair(year % 100));
    let ([m1, m2], [d1, d2]) = (pair(month as u32), pair(day as u32));
    Some([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_have_all_their_digits() {
        for number in [0, 7, 10, 99, 100, 12345, -1, -100, i64::MAX, i64::MIN] {
            assert_eq!(text(|out| push_int(number, out)), number.to_string());
        }
        assert_eq!(text(|out| push_unsigned(u64::MAX, out)), u64::MAX.to_string());
    }

    #[test]
    fn a_double_has_as_few_digits_as_tell_it_from_others() {
        for (number, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (517.0, "517.0"),
            (-9007199254740991.0, "-9007199254740991.0"),
            (9007199254740992.0, "9007199254740992.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e-5, "0.00001"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (1.25e300, "1.25e+300"),
            (f64::NAN, "null"),
            (f64::NEG_INFINITY, "null"),
        ] {
            assert_eq!(text(|out| push_double(number, out)), expected);
        }
    }

    #[test]
    fn a_narrow_float_has_as_few_digits_as_tell_it_from_others_of_its_width() {
        for (number, expected) in [
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (16_777_216.0, "16777216.0"),
            (1e30, "1e+30"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
            (f32::INFINITY, "null"),
        ] {
            assert_eq!(text(|out| push_float(number, out)), expected);
        }
        assert_eq!(text(|out| push_half(half::narrow(0.1).unwrap(), out)), "0.1");
        assert_eq!(text(|out| push_half(half::narrow(65504.0).unwrap(), out)), "65500.0");
        assert_eq!(text(|out| push_half(half::narrow(f64::NAN).unwrap(), out)), "null");
    }

    #[test]
    fn bytes_are_base64() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(text(|out| push_bytes(bytes.as_bytes(), out)), format!("\"{expected}\""));
        }
        assert_eq!(text(|out| push_bytes(&[0xFB, 0xFF, 0xFE], out)), "\"+//+\"");
        let bytes: Vec<u8> = (0..16).map(|byte| 17 * byte).collect();
        let expected = "\"00112233-4455-6677-8899-aabbccddeeff\"";
        assert_eq!(text(|out| push_uuid(&bytes, out)), expected);
    }

    #[test]
    fn times_have_the_form_that_they_had() {
        let form = |text: &str| TimeForm::seen(text, true).unwrap();
        for (seen, milli, micro, whole) in [
            ("1970-01-01T00:00:00.001Z", ".001Z", ".000001Z", "Z"),
            ("1970-01-01 00:00:00.000+00:00", ".001+00:00", ".000001+00:00", ".000+00:00"),
            ("1970-01-01T00:00:00", ".001000", ".000001", ""),
        ] {
            for (nanos, end) in [(1_000_000, milli), (1_000, micro), (0, whole)] {
                let expected = format!("\"{}{end}\"", &seen[..19]);
                let written = text(|out| push_timestamp(nanos, Unit::Nano, form(seen), out));
                assert_eq!(written, expected);
            }
        }
    }

    #[test]
    fn times_are_iso_8601() {
        let time = |ticks, unit, has_zone| {
            text(|out| push_timestamp(ticks, unit, TimeForm::of(true, has_zone), out))
        };
        assert_eq!(time(0, Unit::Milli, true), "\"1970-01-01T00:00:00Z\"");
        assert_eq!(time(-1, Unit::Milli, false), "\"1969-12-31T23:59:59.999000\"");
        assert_eq!(time(1_000, Unit::Nano, true), "\"1970-01-01T00:00:00.000001Z\"");
        assert_eq!(time(1_001, Unit::Nano, true), "\"1970-01-01T00:00:00.000001001Z\"");
        let last = 253_402_300_799;
        assert_eq!(time(last, Unit::Second, false), "\"9999-12-31T23:59:59\"");
        assert_eq!(time(last + 1, Unit::Second, false), "253402300800");
        assert_eq!(time(i64::MIN, Unit::Second, true), i64::MIN.to_string());
        assert_eq!(time(-62_135_596_800, Unit::Second, true), "\"0001-01-01T00:00:00Z\"");
        assert_eq!(text(|out| push_date(-719_162, out)), "\"0001-01-01\"");
        assert_eq!(text(|out| push_date(-719_163, out)), "-719163");
        let form = TimeForm::of(false, false);
        assert_eq!(
            text(|out| push_time(86_399_999, Unit::Milli, form, out)),
            "\"23:59:59.999000\""
        );
    }
}
