//! Values of columns as Avro, in the form in which fastavro writes them.

use crate::values::avro::Plan;
use crate::values::leaf::Values;

#[inline(always)]
pub fn push_long(number: i64, out: &mut Vec<u8>) {
    let mut bits = (number << 1 ^ number >> 63) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

#[inline(always)]
pub fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// Append a value of a leaf; None: no value of this type is it, and some bytes may be appended.
#[inline(always)]
pub fn push_value(plan: &Plan, values: &Values, at: usize, out: &mut Vec<u8>) -> Option<()> {
    match (plan, values) {
        (Plan::Long, Values::I64(values)) => push_long(values[at], out),
        (Plan::Int, Values::I32(values)) => push_long(values[at].into(), out),
        (Plan::Double, Values::F64(values)) => out.extend_from_slice(&values[at].to_le_bytes()),
        (Plan::Float, Values::F32(values)) => out.extend_from_slice(&values[at].to_le_bytes()),
        (Plan::Boolean, Values::Bool(bits)) => out.push(bits.get(at).into()),
        (Plan::Text | Plan::Bytes, Values::Strings(strings)) => push_bytes(strings.get(at), out),
        _ => return push_rare(plan, values, at, out),
    }
    Some(())
}

#[inline(never)]
fn push_rare(plan: &Plan, values: &Values, at: usize, out: &mut Vec<u8>) -> Option<()> {
    match (plan, values) {
        (Plan::Int, Values::I64(values)) => push_long(i32::try_from(values[at]).ok()?.into(), out),
        (Plan::Enum(symbols), Values::Strings(strings)) => {
            push_long(symbols.place(strings.get(at))? as i64, out);
        }
        (Plan::Fixed(width), Values::Strings(strings)) => {
            let bytes = strings.get(at);
            out.extend_from_slice((bytes.len() == *width).then_some(bytes)?);
        }
        (Plan::Fixed(width), Values::Fixed { width: stored, bytes }) => {
            push_fixed(*width, &bytes[stored * at..][..*stored], out)?;
        }
        (Plan::Bytes, Values::Fixed { width, bytes }) => {
            push_decimal(&bytes[width * at..][..*width], out);
        }
        _ => return None,
    }
    Some(())
}

/// Append bytes of a fixed width, or a decimal as an integer of another width than the column's.
fn push_fixed(width: usize, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xFF } else { 0 };
    let spare = bytes.len().saturating_sub(width);
    let (cut, kept) = bytes.split_at(spare);
    let is_same_number = kept.first().is_some_and(|first| (*first >= 0x80) == (sign == 0xFF));
    if spare > 0 && !(is_same_number && cut.iter().all(|&byte| byte == sign)) {
        return None;
    }
    out.resize(out.len() + width - kept.len(), sign);
    out.extend_from_slice(kept);
    Some(())
}

/// Append a decimal as the integer that it is: in as few bytes as hold its sign and its absolute value.
fn push_decimal(bytes: &[u8], out: &mut Vec<u8>) {
    let is_spare = |two: &[u8]| two[0] == if two[1] < 0x80 { 0 } else { 0xFF };
    let spare = bytes.windows(2).take_while(|two| is_spare(two)).count();
    let kept = &bytes[spare..];
    let is_power = is_power(kept);
    push_long((kept.len() + usize::from(is_power)) as i64, out);
    if is_power {
        out.push(0xFF);
    }
    out.extend_from_slice(kept);
}

/// Whether the fewest bytes of a negative number do not hold its absolute value.
fn is_power(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, rest @ ..] if rest.iter().all(|&byte| byte == 0))
}

/// Whether `push_decimal` would write these bytes.
pub fn is_written_decimal(bytes: &[u8]) -> bool {
    match bytes {
        [0, next, ..] => *next >= 0x80,
        [0xFF, rest @ ..] if !rest.is_empty() => rest[0] < 0x80 || is_power(rest),
        _ => !is_power(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out);
        out
    }

    #[test]
    fn longs_are_zigzag_in_as_few_bytes_as_they_need() {
        for (number, expected) in
            [(0, &[0][..]), (-1, &[1]), (63, &[126]), (64, &[0x80, 1]), (-65, &[0x81, 1])]
        {
            assert_eq!(written(|out| push_long(number, out)), expected);
        }
        let least = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(written(|out| push_long(i64::MIN, out)), least);
    }

    #[test]
    fn decimals_have_the_bytes_that_fastavro_writes() {
        for (number, expected) in [
            (0_i32, &[2, 0][..]),
            (127, &[2, 0x7F]),
            (128, &[4, 0, 0x80]),
            (-127, &[2, 0x81]),
            (-128, &[4, 0xFF, 0x80]),
            (-129, &[4, 0xFF, 0x7F]),
            (-32768, &[6, 0xFF, 0x80, 0]),
            (i32::MAX, &[8, 0x7F, 0xFF, 0xFF, 0xFF]),
        ] {
            assert_eq!(written(|out| push_decimal(&number.to_be_bytes(), out)), expected);
            assert!(is_written_decimal(&expected[1..]));
        }
        for other in [&[0x80][..], &[0, 0], &[0, 0x7F], &[0xFF, 0xFF], &[0xFF, 0x81], &[0x80, 0]] {
            assert!(!is_written_decimal(other), "{other:?}");
        }
    }

    #[test]
    fn a_decimal_keeps_its_number_in_any_width_or_is_refused() {
        let push = |width, bytes: &[u8]| {
            let mut out = Vec::new();
            push_fixed(width, bytes, &mut out).map(|()| out)
        };
        assert_eq!(push(2, &[0, 0, 0x7F]), Some(vec![0, 0x7F]));
        assert_eq!(push(3, &[0x80]), Some(vec![0xFF, 0xFF, 0x80]));
        assert_eq!(push(1, &[0, 0x80]), None);
        assert_eq!(push(1, &[0xFF, 0x7F]), None);
        assert_eq!(push(0, &[0]), None);
        assert_eq!(push(2, &[7, 8]), Some(vec![7, 8]));
    }
}
