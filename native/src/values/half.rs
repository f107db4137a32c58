//! Floats of 16 bits.

/// The nearest float of 16 bits, to even ones in the middle; None: it would not be finite.
pub fn narrow(value: f64) -> Option<u16> {
    let bits = value.to_bits();
    let sign = (bits >> 48 & 0x8000) as u16;
    if value.is_nan() {
        return Some(sign | 0x7E00);
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return Some(sign | 0x7C00);
    }
    // The least step there is at this size; the quotient is exact, and so is its rounding.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
    let steps = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u32;
    let rounded = ((exponent + 14) as u32) * 0x400 + steps;
    (rounded < 0x7C00).then_some(sign | rounded as u16)
}

pub fn widen(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_read_back() {
        for bits in 0..=u16::MAX {
            let value = widen(bits);
            if value.is_nan() {
                assert!(widen(narrow(value).unwrap()).is_nan());
            } else {
                assert_eq!(narrow(value), Some(bits));
            }
        }
    }

    #[test]
    fn others_are_rounded_to_even() {
        assert_eq!(narrow(2049.0).map(widen), Some(2048.0));
        assert_eq!(narrow(2051.0).map(widen), Some(2052.0));
        assert_eq!(narrow(65519.99).map(widen), Some(65504.0));
        assert_eq!(narrow(65520.0), None);
        assert_eq!(narrow(-1e300), None);
        assert_eq!(narrow(2f64.powi(-25)).map(widen), Some(0.0));
        assert_eq!(narrow(1.5 * 2f64.powi(-25)).map(widen), Some(2f64.powi(-24)));
        assert_eq!(narrow(2f64.powi(-14) * (1.0 - 2f64.powi(-12))), Some(0x400));
    }
}
