//! Integers in as many bits as they need.

use super::{GaveUp, Read, ensure};

/// The most bits of a packed integer that one unaligned word is sure to hold.
const WORD_BITS: usize = 57;

/// How many integers `unpack_blocks` reads at once.
const BLOCK: usize = 32;

type Block = [u32; BLOCK];

/// Read `count` integers of `width` bits, at most 32, the first in the lowest bits; `take` gets them
/// some at a time.
pub fn unpack_blocks(
    data: &[u8],
    width: usize,
    count: usize,
    mut take: impl FnMut(&[u32]) -> Read<()>,
) -> Read<()> {
    let unpack_block = BLOCKS.get(width).ok_or(GaveUp)?;
    let nbytes = count.checked_mul(width).ok_or(GaveUp)?.div_ceil(8);
    let data = data.get(..nbytes).ok_or(GaveUp)?;
    let mut block = [0; BLOCK];
    let whole = count / BLOCK;
    for number in 0..whole {
        unpack_block(&data[4 * width * number..], &mut block);
        take(&block)?;
    }
    let left = count % BLOCK;
    if left > 0 {
        let rest = &data[4 * width * whole..];
        let mut padded = [0; 4 * BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        unpack_block(&padded, &mut block);
        take(&block[..left])?;
    }
    Ok(())
}

macro_rules! blocks {
    ($($width:literal)*) => { [|_, block| *block = [0; BLOCK], $(unpack_block::<$width>),*] };
}

/// Unpack a block, by its integers' width.
static BLOCKS: [fn(&[u8], &mut Block); 33] = blocks!(
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
);

/// The compiler knows all shifts: the width is one of this function's constants.
fn unpack_block<const WIDTH: usize>(data: &[u8], block: &mut Block) {
    let (words, _) = data[..4 * WIDTH].as_chunks::<4>();
    let word = |index: usize| u32::from_le_bytes(words[index]);
    for (index, value) in block.iter_mut().enumerate() {
        let (first, shift) = (index * WIDTH / 32, index * WIDTH % 32);
        let mut bits = word(first) >> shift;
        if shift + WIDTH > 32 {
            bits |= word(first + 1) << (32 - shift);
        }
        *value = bits & (u32::MAX >> (32 - WIDTH));
    }
}

/// Read `count` integers of `width` bits, 1 to 64, the first in the lowest bits.
#[inline(always)]
pub fn unpack(data: &[u8], width: usize, count: usize, mut take: impl FnMut(u64)) -> Read<()> {
    let nbytes = count.checked_mul(width).ok_or(GaveUp)?.div_ceil(8);
    ensure((1..=64).contains(&width) && nbytes <= data.len())?;
    match width {
        1 => {
            for (index, &byte) in data[..nbytes].iter().enumerate() {
                for bit in 0..8.min(count - 8 * index) {
                    take(u64::from(byte >> bit & 1));
                }
            }
        }
        _ => unpack_bits(data, width, count, take),
    }
    Ok(())
}

#[inline(always)]
fn unpack_bits(data: &[u8], width: usize, count: usize, mut take: impl FnMut(u64)) {
    let mask = u64::MAX >> (64 - width);
    // Where a whole word, and a byte behind it, can be read.
    let whole = match width <= WORD_BITS {
        true => (8 * data.len().saturating_sub(8) / width).min(count),
        false => 0,
    };
    for index in 0..whole {
        let bit = index * width;
        let Some((word, _)) = data[bit / 8..].split_first_chunk::<8>() else { unreachable!() };
        take(u64::from_le_bytes(*word) >> (bit % 8) & mask);
    }
    for index in whole..count {
        let bit = index * width;
        let mut bytes = [0; 16];
        let rest = &data[bit / 8..];
        let size = rest.len().min(16);
        bytes[..size].copy_from_slice(&rest[..size]);
        take((u128::from_le_bytes(bytes) >> (bit % 8)) as u64 & mask);
    }
}

/// A stretch of Parquet's hybrid of runs and packed groups of eight.
pub enum Run<'d> {
    Equal(u32, usize),
    /// Packed values, the number of them that count, and the bytes from the first on.
    Packed(&'d [u8], usize),
}

/// Read `count` values of `width` bits, at most 32, run by run.
pub fn hybrid<'d>(
    mut data: &'d [u8],
    width: usize,
    count: usize,
    mut take: impl FnMut(Run<'d>) -> Read<()>,
) -> Read<()> {
    ensure(width <= 32)?;
    let mut left = count;
    while left > 0 {
        let (head, after) = varint32(data)?;
        data = after;
        let length = (head >> 1) as usize;
        ensure(length > 0)?;
        let used;
        if head & 1 == 1 {
            used = length * width; // both fit 32 bits
            ensure(used <= data.len())?;
            let values = left.min(8 * length);
            take(Run::Packed(data, values))?;
            left -= values;
        } else {
            used = width.div_ceil(8);
            let bytes = data.get(..used).ok_or(GaveUp)?;
            let mut value = [0; 4];
            value[..used].copy_from_slice(bytes);
            let values = left.min(length);
            take(Run::Equal(u32::from_le_bytes(value), values))?;
            left -= values;
        }
        data = &data[used..];
    }
    Ok(())
}

/// Read an unsigned integer of 32 bits; return it and what comes after it.
pub fn varint32(data: &[u8]) -> Read<(u32, &[u8])> {
    let mut value = 0;
    for (index, &byte) in data.iter().take(5).enumerate() {
        ensure(index < 4 || byte < 16)?;
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, &data[index + 1..]));
        }
    }
    Err(GaveUp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::packing::{Runs, hybrid as put_hybrid, pack};

    fn unblocked(data: &[u8], width: usize, count: usize) -> Read<Vec<u64>> {
        let mut unpacked = Vec::new();
        unpack_blocks(data, width, count, |block| {
            unpacked.extend(block.iter().map(|&value| u64::from(value)));
            Ok(())
        })?;
        Ok(unpacked)
    }

    #[test]
    fn packed_integers_of_all_widths_are_read() {
        for width in 1..=64 {
            let mask = u64::MAX >> (64 - width);
            for count in [1, 7, 8, 9, 31, 32, 100] {
                let value = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
                let values: Vec<u64> = (0..count).map(value).collect();
                let mut out = Vec::new();
                pack(&values, width, 8, &mut out);
                let mut unpacked = Vec::new();
                let nbytes = (values.len() * width).div_ceil(8);
                unpack(&out[..nbytes], width, values.len(), |number| unpacked.push(number))
                    .unwrap();
                assert_eq!(unpacked, values, "{width} {count}");
                let short = unpack(&out[..nbytes - 1], width, values.len(), |_| ());
                assert_eq!(short, Err(GaveUp));
                let blocks = unblocked(&out[..nbytes], width, values.len());
                let is_narrow = width <= 32;
                assert_eq!(blocks, if is_narrow { Ok(values) } else { Err(GaveUp) });
                let short = unblocked(&out[..nbytes - 1], width, count as usize);
                assert_eq!(short, Err(GaveUp));
            }
        }
        assert_eq!(unpack(&[], 0, 0, |_| ()), Err(GaveUp));
        assert_eq!(unpack(&[], 65, 0, |_| ()), Err(GaveUp));
        assert_eq!(unblocked(&[], 0, 40), Ok(vec![0; 40]));
        assert_eq!(unblocked(&[], 32, usize::MAX), Err(GaveUp));
        assert_eq!(unpack(&[], 64, usize::MAX, |_| ()), Err(GaveUp));
    }

    fn unhybrid(data: &[u8], width: usize, count: usize) -> Read<Vec<u32>> {
        let mut unpacked = Vec::new();
        hybrid(data, width, count, |run| match run {
            Run::Equal(value, count) => {
                unpacked.resize(unpacked.len() + count, value);
                Ok(())
            }
            Run::Packed(data, count) => unpack_blocks(data, width, count, |block| {
                unpacked.extend_from_slice(block);
                Ok(())
            }),
        })?;
        Ok(unpacked)
    }

    #[test]
    fn runs_and_packed_groups_are_read() {
        for width in 1..=32 {
            let mask = u32::MAX >> (32 - width);
            for run in [1, 3, 8, 9, 64, 200] {
                let values: Vec<u32> =
                    (0..500).map(|i| ((i / run) as u32 % 5 * 0x1234_5679) & mask).collect();
                let mut out = Vec::new();
                put_hybrid(&values, width, Runs::Short, &mut out);
                assert_eq!(unhybrid(&out, width, values.len()), Ok(values.clone()));
                assert_eq!(unhybrid(&out[..out.len() - 1], width, values.len()), Err(GaveUp));
            }
        }
    }

    #[test]
    fn a_run_without_values_or_of_too_many_bits_is_not_read() {
        assert_eq!(unhybrid(&[0, 1, 2, 1], 1, 1), Err(GaveUp));
        assert_eq!(unhybrid(&[0xff, 0xff, 0xff, 0xff, 0x1f, 0], 1, 1), Err(GaveUp));
        assert_eq!(unhybrid(&[2, 7], 0, 1), Ok(vec![0]));
        assert_eq!(unhybrid(&[2, 7, 0, 0, 0, 0], 33, 1), Err(GaveUp));
    }
}
