//! Integers in as many bits as they need.

use super::thrift::varint;

/// Which runs of equal values are written as runs. The others stay among the packed values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// Those that are shorter so.
    Short,
    /// Long ones: a compressor does better with one long stretch of packed values.
    Long,
}

impl Runs {
    /// The bytes that a run must have when it is packed.
    fn shortest(self) -> usize {
        match self {
            Self::Short => 4,
            Self::Long => 128,
        }
    }
}

/// The bits that `greatest` needs.
pub fn bit_width(greatest: u64) -> usize {
    64 - greatest.leading_zeros() as usize
}

/// An unsigned integer that is packed.
pub trait Code: Copy + Default + PartialEq {
    fn wide(self) -> u64;
}

macro_rules! codes {
    ($($code:ty)*) => {$(
        impl Code for $code {
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
        }
    )*};
}

codes!(u8 u16 u32 u64);

/// Append values of `width` bits, the first in the lowest bits of the first byte, filled up with
/// zeros to a multiple of `multiple` values, which is one of 8.
pub fn pack<C: Code>(values: &[C], width: usize, multiple: usize, out: &mut Vec<u8>) {
    let nbytes = values.len().next_multiple_of(multiple) / 8 * width;
    let end = out.len() + nbytes;
    match width {
        0 => {}
        8 => out.extend(values.iter().map(|value| value.wide() as u8)),
        16 => put_each(values, out, |value| (value as u16).to_le_bytes()),
        32 => put_each(values, out, |value| (value as u32).to_le_bytes()),
        64 => put_each(values, out, u64::to_le_bytes),
        1..16 => pack_eights(values, width, nbytes, out),
        _ => pack_bits(values, width, nbytes, out),
    }
    out.resize(end, 0);
}

/// Append each value in `N` bytes.
pub fn put_each<C: Code, const N: usize>(
    values: &[C],
    out: &mut Vec<u8>,
    bytes: impl Fn(u64) -> [u8; N],
) {
    let start = out.len();
    out.resize(start + N * values.len(), 0);
    for (place, value) in out[start..].as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *place = bytes(value.wide());
    }
}

/// Append values of fewer than 16 bits: eight of them are as many bytes as one has bits.
fn pack_eights<C: Code>(values: &[C], width: usize, nbytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + nbytes + size_of::<u128>(), 0);
    let mut at = start;
    let mut put = |eight: &[C; 8]| {
        let half = |some: &[C]| some.iter().rev().fold(0, |all, value| all << width | value.wide());
        let (first, last) = (half(&eight[..4]), half(&eight[4..]));
        let packed = u128::from(first) | u128::from(last) << (4 * width);
        out[at..at + size_of::<u128>()].copy_from_slice(&packed.to_le_bytes());
        at += width;
    };
    let (eights, rest) = values.as_chunks::<8>();
    eights.iter().for_each(&mut put);
    if !rest.is_empty() {
        put(&std::array::from_fn(|i| rest.get(i).copied().unwrap_or_default()));
    }
}

fn pack_bits<C: Code>(values: &[C], width: usize, nbytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + nbytes.next_multiple_of(8), 0);
    let mut words = out[start..].as_chunks_mut::<8>().0.iter_mut();
    let (mut word, mut used) = (0u64, 0);
    for value in values {
        let value = value.wide();
        word |= value << used;
        used += width;
        if used >= 64 {
            if let Some(place) = words.next() {
                *place = word.to_le_bytes();
            }
            used -= 64;
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    if let Some(place) = words.next() {
        *place = word.to_le_bytes();
    }
}

/// Append values of `width` bits as Parquet's hybrid of runs and packed groups of eight.
pub fn hybrid<C: Code>(values: &[C], width: usize, runs: Runs, out: &mut Vec<u8>) {
    let shortest = (8 * runs.shortest()).div_ceil(width).max(8);
    let (mut packed_from, mut at) = (0, 0);
    while let Some(group) = values[at..].first_chunk::<8>() {
        let first = group[0];
        if !group.iter().fold(true, |equal, &value| equal & (value == first)) {
            at += 8;
            continue;
        }
        let rest = &values[at + 8..];
        let length = 8 + rest.iter().position(|&value| value != first).unwrap_or(rest.len());
        if length >= shortest || packed_from == at && length == values.len() - at {
            put_packed(&values[packed_from..at], width, out);
            put_run(first, length, width, out);
            at += length;
            packed_from = at;
        } else {
            at += length / 8 * 8; // packed values come in groups of eight
        }
    }
    put_packed(&values[packed_from..], width, out);
}

fn put_packed<C: Code>(values: &[C], width: usize, out: &mut Vec<u8>) {
    if !values.is_empty() {
        varint(out, (values.len().div_ceil(8) as u64) << 1 | 1);
        pack(values, width, 8, out);
    }
}

/// Append a run of equal values.
pub fn put_run<C: Code>(value: C, length: usize, width: usize, out: &mut Vec<u8>) {
    varint(out, (length as u64) << 1);
    out.extend_from_slice(&value.wide().to_le_bytes()[..width.div_ceil(8)]);
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::parquet::naive::unhybrid;

    #[test]
    fn packed_values_have_the_bits_of_the_specification() {
        let mut out = Vec::new();
        pack(&[0u8, 1, 2, 3, 4, 5, 6, 7], 3, 8, &mut out);
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn the_hybrid_of_any_values_is_read_back() {
        for width in 1..=32 {
            let mask = u32::MAX >> (32 - width);
            for run in [1, 3, 7, 8, 9, 20, 63, 64, 200] {
                for length in [0, 1, 7, 8, 9, 64, 65, 1000] {
                    let value = |i: usize| ((i / run) as u32 % 5 * 0x1234_5679) & mask;
                    let values: Vec<u32> = (0..length).map(value).collect();
                    for runs in [Runs::Short, Runs::Long] {
                        let mut out = Vec::new();
                        hybrid(&values, width, runs, &mut out);
                        assert_eq!(unhybrid(&out, width, length), values, "{width} {run} {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn equal_values_are_one_run() {
        let mut out = Vec::new();
        hybrid(&[9u8; 10], 8, Runs::Long, &mut out);
        assert_eq!(out, [20, 9]);
    }
}
