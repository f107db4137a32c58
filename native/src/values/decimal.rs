//! Decimals: Python's as Parquet has them, big-endian integers of a fixed width, and back.

use std::iter::repeat_n;

/// As many digits as Arrow's widest decimal has.
const MAX_DIGITS: i32 = 76;
/// Digits that fit a word together.
const CHUNK: usize = 18;

/// What a column of decimals holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decimals {
    /// The bytes of each.
    pub width: usize,
    pub precision: usize,
    pub scale: i32,
    /// As many digits as values of Arrow's type may have on the way.
    pub max_digits: usize,
}

/// A decimal number.
struct Parsed {
    is_negative: bool,
    digits: Vec<u8>,
    /// Without zeros in front of the point, and with those after it.
    precision: i32,
    scale: i32,
}

impl Decimals {
    /// Append the number that a text says, as `str` writes it; false: it does not surely fit.
    ///
    /// The rules are pyarrow's: a number keeps its value, and zeros after the point count.
    pub fn append(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        parse(text).and_then(|number| self.append_parsed(number, out)).is_some()
    }

    /// Append an integer; false: it does not surely fit. `digits` are of 30 bits, the lowest first.
    pub fn append_int(&self, is_negative: bool, digits: &[u32], out: &mut Vec<u8>) -> bool {
        let number = from_bits(digits).map(|limbs| {
            let digits = to_digits(limbs);
            Parsed { is_negative, precision: digits.len() as i32, digits, scale: 0 }
        });
        number.and_then(|number| self.append_parsed(number, out)).is_some()
    }

    fn append_parsed(&self, number: Parsed, out: &mut Vec<u8>) -> Option<()> {
        let is_negative = number.is_negative;
        let mut limbs = from_digits(&self.unscaled(number)?);
        if is_negative {
            negate(&mut limbs);
        }
        let bytes = to_bytes(limbs);
        out.extend_from_slice(&bytes[bytes.len() - self.width..]);
        Some(())
    }

    /// The digits of a number with the column's scale.
    fn unscaled(&self, number: Parsed) -> Option<Vec<u8>> {
        let Parsed { mut digits, precision, scale, .. } = number;
        let further = self.scale.checked_sub(scale)?;
        let fits = precision + further <= self.precision as i32;
        let most = self.max_digits;
        if !fits || further.unsigned_abs() as usize > most || digits.len() > most {
            return None;
        }
        digits.resize(digits.len() + further.max(0) as usize, 0);
        for _ in further..0 {
            if digits.pop().is_some_and(|digit| digit != 0) {
                return None;
            }
        }
        (digits.len() <= self.max_digits).then_some(digits)
    }

    /// Whether these values have no more digits than the column's may have.
    pub fn all_fit(&self, values: &[u8]) -> bool {
        let mut limit = vec![0; self.precision + 1];
        limit[0] = 1;
        let limit = from_digits(&limit);
        values.chunks_exact(self.width).all(|value| {
            let mut limbs = from_bytes(value);
            if limbs[3] >> 63 == 1 {
                negate(&mut limbs);
            }
            limbs.iter().rev().lt(limit.iter().rev())
        })
    }

    /// A value as text that `decimal.Decimal` reads, with the column's scale.
    pub fn text(&self, value: &[u8]) -> String {
        let mut limbs = from_bytes(value);
        let is_negative = limbs[3] >> 63 == 1;
        if is_negative {
            negate(&mut limbs);
        }
        let mut text = String::from(if is_negative { "-" } else { "" });
        let digits = to_digits(limbs);
        text.extend(digits.iter().map(|&digit| char::from(b'0' + digit)));
        if digits.is_empty() {
            text.push('0');
        }
        text.push_str(&format!("E{}", -self.scale));
        text
    }

    /// Append a value as a number in JSON: with the column's scale, and without an exponent.
    pub fn push_number(&self, value: &[u8], out: &mut Vec<u8>) {
        let mut limbs = from_bytes(value);
        if limbs[3] >> 63 == 1 {
            negate(&mut limbs);
            out.push(b'-');
        }
        let digits = to_digits(limbs);
        let places = usize::try_from(self.scale).unwrap_or(0); // Parquet has no other scales
        let zeros = (places + 1).saturating_sub(digits.len());
        let whole = zeros + digits.len() - places;
        let all = repeat_n(0, zeros).chain(digits);
        for (place, digit) in all.enumerate() {
            if place == whole {
                out.push(b'.');
            }
            out.push(b'0' + digit);
        }
    }
}

/// Read a text such as `-12.50` or `1E+3`; None for NaN, infinity, or a number that is too long.
fn parse(text: &[u8]) -> Option<Parsed> {
    let (is_negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let mut parts = text.splitn(2, |&byte| byte == b'E');
    let number = parts.next()?;
    let exponent = match parts.next() {
        Some(exponent) => std::str::from_utf8(exponent).ok()?.parse::<i32>().ok()?,
        None => 0,
    };
    let mut halves = number.splitn(2, |&byte| byte == b'.');
    let (whole, fraction) = (halves.next()?, halves.next().unwrap_or_default());
    let zeros = whole.iter().take_while(|&&byte| byte == b'0').count();
    let digits = whole[zeros..].iter().chain(fraction);
    let digits = digits.map(|byte| byte.is_ascii_digit().then(|| byte - b'0'));
    let mut digits = digits.collect::<Option<Vec<_>>>()?;
    let mut precision = digits.len() as i32;
    let mut scale = (fraction.len() as i32).checked_sub(exponent)?;
    if scale < 0 {
        if scale < -MAX_DIGITS {
            return None;
        }
        digits.resize(digits.len() + scale.unsigned_abs() as usize, 0);
        precision -= scale;
        scale = 0;
    }
    Some(Parsed { is_negative, digits, precision, scale })
}

/// A number of 256 bits, the lowest first.
type Limbs = [u64; 4];

fn from_digits(digits: &[u8]) -> Limbs {
    let mut limbs = [0; 4];
    for chunk in digits.chunks(CHUNK) {
        let factor = 10u64.pow(chunk.len() as u32);
        let chunk = chunk.iter().fold(0, |number, &digit| 10 * number + u64::from(digit));
        let mut carry = u128::from(chunk);
        for limb in &mut limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
    }
    limbs
}

/// The digits of a number, without zeros in front.
fn to_digits(mut limbs: Limbs) -> Vec<u8> {
    let mut digits = Vec::new();
    while limbs != [0; 4] {
        let mut chunk = divide(&mut limbs, 10u64.pow(CHUNK as u32));
        for _ in 0..CHUNK {
            digits.push((chunk % 10) as u8);
            chunk /= 10;
        }
    }
    let zeros = digits.iter().rev().take_while(|&&digit| digit == 0).count();
    digits.truncate(digits.len() - zeros);
    digits.reverse();
    digits
}

/// A number of so many bits in each digit, the lowest first; None if it has more than 256.
fn from_bits(digits: &[u32]) -> Option<Limbs> {
    const BITS: usize = 30;
    let mut limbs = [0; 4];
    for (place, &digit) in digits.iter().enumerate() {
        let (limb, shift) = (place * BITS / 64, place * BITS % 64);
        let wide = u128::from(digit) << shift;
        let (low, high) = (wide as u64, (wide >> 64) as u64);
        *limbs.get_mut(limb)? |= low;
        if high > 0 {
            *limbs.get_mut(limb + 1)? |= high;
        }
    }
    Some(limbs)
}

/// Divide a number; return the remainder.
fn divide(limbs: &mut Limbs, by: u64) -> u64 {
    let mut rest = 0;
    for limb in limbs.iter_mut().rev() {
        let number = rest << 64 | u128::from(*limb);
        *limb = (number / u128::from(by)) as u64;
        rest = number % u128::from(by);
    }
    rest as u64
}

fn negate(limbs: &mut Limbs) {
    let mut carry = true;
    for limb in limbs {
        (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
    }
}

fn to_bytes(limbs: Limbs) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(limbs.iter().rev()) {
        *place = limb.to_be_bytes();
    }
    bytes
}

/// A big-endian number of at most 32 bytes.
fn from_bytes(bytes: &[u8]) -> Limbs {
    let is_negative = bytes.first().is_some_and(|first| first >> 7 == 1);
    let mut wide = [if is_negative { 0xFF } else { 0 }; 32];
    wide[32 - bytes.len()..].copy_from_slice(bytes);
    let mut limbs = [0; 4];
    for (limb, place) in limbs.iter_mut().rev().zip(wide.as_chunks::<8>().0) {
        *limb = u64::from_be_bytes(*place);
    }
    limbs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(width: usize, precision: usize, scale: i32, max_digits: usize) -> Decimals {
        Decimals { width, precision, scale, max_digits }
    }

    fn stored(text: &str, of: &Decimals) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        of.append(text.as_bytes(), &mut out).then_some(out)
    }

    #[test]
    fn numbers_are_big_endian_with_the_scale_of_their_column() {
        let of = decimals(3, 5, 2, 38);
        assert_eq!(stored("1.5", &of), Some(vec![0, 0, 150]));
        assert_eq!(stored("-1", &of), Some(vec![0xFF, 0xFF, 0x9C]));
        assert_eq!(stored("1E+2", &of), Some(vec![0, 0x27, 0x10]));
        assert_eq!(stored("-0.00", &of), Some(vec![0, 0, 0]));
        assert_eq!(stored("999.9900", &of), Some(vec![0x01, 0x86, 0x9F]));
        assert_eq!(stored("5E-2", &of), Some(vec![0, 0, 5]));
    }

    #[test]
    fn what_would_change_or_may_not_fit_is_not_taken() {
        let of = decimals(3, 5, 2, 38);
        for text in ["1000", "0.001", "1E+4", "NaN", "-Infinity", "sNaN", "", "0E-99", "0E+99"] {
            assert_eq!(stored(text, &of), None, "{text}");
        }
        assert_eq!(stored("1E-2147483647", &decimals(1, 1, -3, 38)), None);
        assert_eq!(stored("1E-2147483648", &decimals(1, 1, -3, 38)), None);
        assert_eq!(stored("0.05", &decimals(1, 1, 2, 38)), None);
        assert_eq!(stored(&"9".repeat(77), &decimals(32, 76, 0, 76)), None);
    }

    #[test]
    fn an_integer_is_stored_as_its_text_would_be() {
        let mut number = 1_u128;
        for of in [decimals(3, 5, 2, 38), decimals(16, 38, 0, 38), decimals(32, 76, -3, 76)] {
            for step in 0..400 {
                for is_negative in [false, true] {
                    let bits = |place: u32| number.checked_shr(30 * place).unwrap_or(0) as u32;
                    let mut digits: Vec<_> =
                        (0..5).map(|place| bits(place) & ((1 << 30) - 1)).collect();
                    digits.truncate(
                        digits.iter().rposition(|&digit| digit > 0).map_or(0, |at| at + 1),
                    );
                    let sign = if is_negative { "-" } else { "" };
                    let mut out = Vec::new();
                    let taken = of.append_int(is_negative, &digits, &mut out);
                    assert_eq!(taken.then_some(out), stored(&format!("{sign}{number}"), &of));
                }
                number = number.wrapping_mul(if step % 2 == 0 { 1_000 } else { 7 }) >> (step % 3);
            }
            number = 5_000;
        }
        let of = decimals(32, 76, 0, 76);
        let mut out = Vec::new();
        assert!(of.append_int(false, &[], &mut out));
        assert_eq!(out, [0; 32]);
        assert!(!of.append_int(false, &[(1 << 30) - 1; 9], &mut out));
        assert!(!of.append_int(false, &[1; 90], &mut out));
        assert!(of.append_int(true, &[1; 8], &mut out));
    }

    #[test]
    fn values_with_too_many_digits_do_not_fit() {
        for (digits, width) in [(1, 1), (5, 3), (18, 8), (38, 16), (76, 32)] {
            let of = decimals(width, digits, 2, 76);
            for is_negative in [false, true] {
                let stored = |digits: &[u8]| {
                    let mut limbs = from_digits(digits);
                    if is_negative {
                        negate(&mut limbs);
                    }
                    to_bytes(limbs)[32 - width..].to_vec()
                };
                let most = stored(&vec![9; digits]);
                let mut one = vec![0; digits + 1];
                one[0] = 1;
                assert!(of.all_fit(&most));
                assert!(!of.all_fit(&[most, stored(&one)].concat()));
            }
        }
        assert!(!decimals(1, 2, 0, 38).all_fit(&[0x80]));
        assert!(!decimals(32, 76, 0, 76).all_fit(&to_bytes([0, 0, 0, 1 << 63])));
    }

    #[test]
    fn a_number_in_json_has_the_scale_of_its_column() {
        let number = |text: &str, scale| {
            let of = decimals(9, 18, scale, 38);
            let mut out = Vec::new();
            of.push_number(&stored(text, &of).unwrap(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(number("1.5", 2), "1.50");
        assert_eq!(number("-0.05", 2), "-0.05");
        assert_eq!(number("0", 3), "0.000");
        assert_eq!(number("123456", 3), "123456.000");
        assert_eq!(number("-7", 0), "-7");
    }

    #[test]
    fn every_width_is_read_back() {
        for digits in 1..=76 {
            for sign in ["", "-"] {
                let bits = (digits as f64 * 10f64.log2()).ceil() as usize + 1;
                let of = decimals(bits.div_ceil(8), digits, 3, 76);
                let number = "9876543210".repeat(8)[..digits].to_string();
                let text = format!("{sign}{number}E-3");
                assert_eq!(of.text(&stored(&text, &of).unwrap()), text);
            }
        }
        assert_eq!(decimals(2, 3, -2, 38).text(&[0, 0]), "0E2");
        let of = decimals(9, 20, 0, 38);
        let text = "10000000000000000000E0";
        assert_eq!(of.text(&stored("1E+19", &of).unwrap()), text);
    }
}
