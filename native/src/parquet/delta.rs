//! DELTA_BINARY_PACKED and the two encodings of bytes that begin with lengths in it.

use super::packing::{bit_width, pack};
use super::thrift::{varint, zigzag};

const BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK: usize = BLOCK / MINIBLOCKS;

/// The widths in which integers are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Widths {
    /// As few bits as there can be.
    Bits,
    /// Parts of a byte that compressors see again, or whole bytes: 1, 2, 4, 8, 16, 24 bits and so on.
    Bytes,
}

impl Widths {
    pub fn round(self, width: usize) -> usize {
        match self {
            Self::Bits => width,
            Self::Bytes if width <= 4 => width.next_power_of_two() * usize::from(width > 0),
            Self::Bytes => width.next_multiple_of(8),
        }
    }
}

/// A signed integer whose differences wrap around in its own width, as Parquet has it.
pub trait Integer: Copy {
    fn minus(self, other: Self) -> i64;
    fn wide(self) -> i64;
}

impl Integer for i32 {
    #[inline(always)]
    fn minus(self, other: Self) -> i64 {
        i64::from(self.wrapping_sub(other))
    }

    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
}

impl Integer for i64 {
    #[inline(always)]
    fn minus(self, other: Self) -> i64 {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}

/// Append integers in DELTA_BINARY_PACKED.
pub fn put_integers<I: Integer>(values: &[I], widths: Widths, out: &mut Vec<u8>) {
    varint(out, BLOCK as u64);
    varint(out, MINIBLOCKS as u64);
    varint(out, values.len() as u64);
    zigzag(out, values.first().map_or(0, |first| first.wide()));
    let mut deltas = [0; BLOCK];
    let mut rest = values;
    while rest.len() > 1 {
        let count = (rest.len() - 1).min(BLOCK);
        for (delta, pair) in deltas.iter_mut().zip(rest.windows(2)) {
            *delta = pair[1].minus(pair[0]);
        }
        put_block(&deltas[..count], widths, out);
        rest = &rest[count..];
    }
}

fn put_block(deltas: &[i64], widths: Widths, out: &mut Vec<u8>) {
    let least = deltas.iter().copied().min().unwrap_or(0);
    zigzag(out, least);
    let mut offsets = [0u64; BLOCK];
    for (offset, &delta) in offsets.iter_mut().zip(deltas) {
        *offset = delta.wrapping_sub(least) as u64;
    }
    let used = deltas.len().div_ceil(MINIBLOCK);
    let mut bits = [0u8; MINIBLOCKS];
    for (width, miniblock) in bits.iter_mut().zip(offsets.chunks(MINIBLOCK)) {
        let all = miniblock.iter().fold(0, |all, offset| all | offset);
        *width = widths.round(bit_width(all)) as u8;
    }
    out.extend_from_slice(&bits);
    for (&width, miniblock) in bits.iter().zip(offsets.chunks(MINIBLOCK)).take(used) {
        pack(miniblock, usize::from(width), MINIBLOCK, out);
    }
}

/// Append the lengths with which DELTA_LENGTH_BYTE_ARRAY begins; the bytes follow.
pub fn put_lengths<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    widths: Widths,
    lengths: &mut Vec<i32>,
    out: &mut Vec<u8>,
) {
    lengths.clear();
    lengths.extend(values.map(|value| value.len() as i32));
    put_integers(lengths, widths, out);
}

/// Append byte strings in DELTA_BYTE_ARRAY: each without what it begins with like the one before.
pub fn put_suffixes<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    widths: Widths,
    lengths: &mut Vec<i32>,
    out: &mut Vec<u8>,
) {
    lengths.clear();
    let mut suffixes = Vec::with_capacity(values.size_hint().0);
    for (shared, value) in prefixes(values) {
        lengths.push(shared as i32);
        suffixes.push(&value[shared..]);
    }
    put_integers(lengths, widths, out);
    put_lengths(suffixes.iter().copied(), widths, lengths, out);
    suffixes.iter().for_each(|suffix| out.extend_from_slice(suffix));
}

/// Byte strings, and how many of their first bytes are those of the one before.
fn prefixes<'a>(values: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = (usize, &'a [u8])> {
    values.scan(&[][..], |last: &mut &'a [u8], value| {
        let shared = shared_prefix(last, value);
        *last = value;
        Some((shared, value))
    })
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let different = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if different != 0 {
            return shared + different.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::naive::{undelta, undelta_bytes, undelta_lengths};

    fn round_trip<I: Integer>(values: &[I]) {
        let wide: Vec<i64> = values.iter().map(|value| value.wide()).collect();
        for widths in [Widths::Bits, Widths::Bytes] {
            let mut out = Vec::new();
            put_integers(values, widths, &mut out);
            let (read, end) = undelta(&out, size_of::<I>() == 4);
            assert_eq!((read, end), (wide.clone(), out.len()));
        }
    }

    #[test]
    fn integers_of_any_distance_are_read_back() {
        for length in [0, 1, 2, 31, 32, 33, 127, 128, 129, 130, 500] {
            round_trip(&(0..length).map(|i| i * i - 7).collect::<Vec<i32>>());
            round_trip(&(0..length as i64).map(|i| i << (i % 60)).collect::<Vec<i64>>());
        }
        round_trip(&[i32::MIN, i32::MAX, 0, i32::MIN, -1]);
        round_trip(&[i64::MIN, i64::MAX, 0, i64::MIN, -1]);
    }

    #[test]
    fn widths_of_32_bits_suffice_for_int32() {
        let mut out = Vec::new();
        put_integers(&[i32::MIN, i32::MAX, i32::MIN, 5], Widths::Bits, &mut out);
        assert!(out.len() < 4 + 5 + 5 + 4 + 4 * 32);
    }

    #[test]
    fn byte_strings_are_read_back() {
        let long = [7; 300];
        let values: Vec<&[u8]> =
            vec![b"", b"", b"abcdefghij", b"abcdefghxy", b"abc", &long, &long, b""];
        for values in [&values[..], &values[..1], &[]] {
            let (mut lengths, mut out) = (Vec::new(), Vec::new());
            put_lengths(values.iter().copied(), Widths::Bits, &mut lengths, &mut out);
            values.iter().for_each(|value| out.extend_from_slice(value));
            assert_eq!(undelta_lengths(&out), values);
            for widths in [Widths::Bits, Widths::Bytes] {
                out.clear();
                put_suffixes(values.iter().copied(), widths, &mut lengths, &mut out);
                assert_eq!(undelta_bytes(&out), values);
            }
        }
    }
}
