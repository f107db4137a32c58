//! Whether a number in JSON keeps all its digits in a column.

/// Numbers of so many digits are kept by a double, a float, and half a float, unless they are too
/// small for all their bits.
const DOUBLE_DIGITS: usize = 15;
const FLOAT_DIGITS: usize = 6;
const HALF_DIGITS: usize = 3;
/// No shortest text of a double has more digits.
const MOST_DIGITS: usize = 17;

/// Whether a column keeps a number; None: only Python can tell.
pub type Kept = Option<bool>;

/// Whether a double is the number that this text says, and no other has as few digits.
#[inline(always)]
pub fn double_keeps(number: f64, text: &[u8]) -> Kept {
    let is_usual = (1e-300..=1e300).contains(&number.abs());
    if text.len() <= DOUBLE_DIGITS && is_usual || matches!(text, b"0" | b"0.0") {
        return Some(true);
    }
    long_double_keeps(number, text)
}

#[inline(never)]
fn long_double_keeps(number: f64, text: &[u8]) -> Kept {
    if !number.is_finite() {
        return None;
    }
    let mut buffer = ryu::Buffer::new();
    let shortest = buffer.format_finite(number).as_bytes();
    if shortest == text {
        return Some(true);
    }
    let digits = Digits::of(text)?;
    if digits.count == 0 {
        return Some(true); // zero
    }
    if !(1e-300..=1e300).contains(&number.abs()) {
        return None;
    }
    Some(digits.count <= DOUBLE_DIGITS || digits == Digits::of(shortest)?)
}

/// The same of a float.
pub fn float_keeps(number: f32, text: &[u8]) -> Kept {
    let digits = Digits::of(text)?;
    if digits.count == 0 {
        return Some(true);
    }
    if !(1e-30..=1e38).contains(&number.abs()) {
        return None;
    }
    if digits.count <= FLOAT_DIGITS {
        return Some(true);
    }
    if number.to_bits() & 0x7F_FFFF == 0 {
        return None; // its neighbour below is closer
    }
    Some(digits == Digits::of(ryu::Buffer::new().format_finite(number).as_bytes())?)
}

/// The same of half a float.
pub fn half_keeps(text: &[u8]) -> Kept {
    let digits = Digits::of(text)?;
    let magnitude = digits.exponent + digits.count as i64;
    let is_kept = digits.count == 0 || digits.count <= HALF_DIGITS && (-3..=4).contains(&magnitude);
    is_kept.then_some(true)
}

/// The integer that is this number, if it is one: of few digits.
pub fn whole(number: f64, text: &[u8]) -> Option<i64> {
    let is_exact = text.len() <= DOUBLE_DIGITS && number.abs() < 1e15;
    (is_exact && number.fract() == 0.0 && (number != 0.0 || Digits::of(text)?.count == 0))
        .then_some(number as i64)
}

/// Whether this is an integer that a double may not have, though it is the number of the fewest digits.
#[inline(always)]
pub fn is_large_whole(number: f64, text: &[u8]) -> bool {
    const EXACT: f64 = (1_u64 << 53) as f64;
    number.abs() >= EXACT && is_whole(text)
}

/// Whether a number is written as an integer.
pub fn is_whole(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// The digits of a number from its first to its last that is not zero, and their place.
#[derive(PartialEq)]
struct Digits {
    digits: [u8; MOST_DIGITS],
    /// How many there are, which may be more than are kept: then it is none that is compared.
    count: usize,
    /// The power of ten of the last one.
    exponent: i64,
}

impl Digits {
    /// None: its exponent is very large.
    fn of(text: &[u8]) -> Option<Self> {
        let mut parsed = Self { digits: [0; MOST_DIGITS], count: 0, exponent: 0 };
        let (mut zeros, mut has_point) = (0, false);
        let mut rest = text.strip_prefix(b"-").unwrap_or(text).iter();
        for &byte in rest.by_ref() {
            match byte {
                b'.' => has_point = true,
                b'e' | b'E' => break,
                digit => {
                    parsed.exponent -= i64::from(has_point);
                    if digit == b'0' {
                        zeros += usize::from(parsed.count > 0);
                        continue;
                    }
                    // Zeros count once another digit follows.
                    parsed.count += zeros;
                    zeros = 0;
                    if let Some(place) = parsed.digits.get_mut(parsed.count) {
                        *place = digit - b'0';
                    }
                    parsed.count += 1;
                }
            }
        }
        parsed.exponent += zeros as i64;
        let exponent = rest.as_slice();
        if !exponent.is_empty() {
            let text = std::str::from_utf8(exponent).ok()?;
            parsed.exponent = parsed.exponent.checked_add(text.parse::<i32>().ok()?.into())?;
        }
        if parsed.count == 0 {
            parsed.exponent = 0;
        }
        Some(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(text: &str) -> Kept {
        double_keeps(text.parse().unwrap(), text.as_bytes())
    }

    #[test]
    fn a_double_keeps_what_is_its_shortest_text() {
        for text in ["0", "-0.0", "0e999", "0.1", "1.50", "0.30000000000000004", "1e22", "-12.5e-3"]
        {
            assert_eq!(keeps(text), Some(true), "{text}");
        }
        for text in ["0.1000000000000000055", "9007199254740993", "0.10000000000000001"] {
            assert_eq!(keeps(text), Some(false), "{text}");
        }
        for text in ["1e400", "1e-400", "1e99999999999"] {
            assert_eq!(keeps(text), None, "{text}");
        }
        assert_eq!(keeps("9007199254740992"), Some(true));
        assert_eq!(keeps("123456789012345600000"), Some(true));
    }

    #[test]
    fn a_float_keeps_what_is_its_shortest_text() {
        let keeps = |text: &str| float_keeps(text.parse().unwrap(), text.as_bytes());
        assert_eq!(keeps("0.1"), Some(true));
        assert_eq!(keeps("1.2345678"), Some(true));
        assert_eq!(keeps("1.23456789"), Some(false));
        assert_eq!(keeps("16777217"), None);
        assert_eq!(keeps("1.2345679"), Some(true));
        assert_eq!(keeps("0.10000000149"), Some(false));
    }

    #[test]
    fn an_integer_has_no_digits_behind_its_point() {
        let whole = |text: &str| whole(text.parse().unwrap(), text.as_bytes());
        assert_eq!(whole("7.0"), Some(7));
        assert_eq!(whole("-1e2"), Some(-100));
        assert_eq!(whole("70e-1"), Some(7));
        assert_eq!(whole("-0.0"), Some(0));
        assert_eq!(whole("1.5"), None);
        assert_eq!(whole("1e-400"), None);
        assert_eq!(whole("7.0000000000000001"), None);
    }
}
