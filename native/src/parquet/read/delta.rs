//! DELTA_BINARY_PACKED.

use super::packing::{unpack, unpack_blocks};
use super::thrift::Cursor;
use super::{GaveUp, Read, ensure};

const MULTIPLE: u64 = 128;
const MAX_BLOCK: u64 = 1 << 16;

/// An integer whose differences wrap around in its own width.
pub trait Integer: Copy {
    const BITS: usize;
    fn from_i64(value: i64) -> Option<Self>;
    fn plus(self, delta: i64) -> Self;
}

impl Integer for i32 {
    const BITS: usize = 32;

    fn from_i64(value: i64) -> Option<Self> {
        Self::try_from(value).ok()
    }

    #[inline(always)]
    fn plus(self, delta: i64) -> Self {
        self.wrapping_add(delta as Self)
    }
}

impl Integer for i64 {
    const BITS: usize = 64;

    fn from_i64(value: i64) -> Option<Self> {
        Some(value)
    }

    #[inline(always)]
    fn plus(self, delta: i64) -> Self {
        self.wrapping_add(delta)
    }
}

/// Append exactly `count` integers; return where they end.
pub fn integers<I: Integer>(data: &[u8], count: usize, out: &mut Vec<I>) -> Read<usize> {
    let mut cursor = Cursor::new(data, 0, 0);
    let (block, miniblocks) = (cursor.varint()?, cursor.varint()?);
    ensure(block.is_multiple_of(MULTIPLE) && (1..=MAX_BLOCK).contains(&block))?;
    ensure(miniblocks > 0 && miniblocks <= block / 32 && block.is_multiple_of(32 * miniblocks))?;
    let (miniblocks, size) = (miniblocks as usize, (block / miniblocks) as usize);
    ensure(cursor.varint()? == count as u64)?;
    let mut value = I::from_i64(cursor.i64()?).ok_or(GaveUp)?;
    if count == 0 {
        return Ok(cursor.at);
    }
    out.push(value);
    let mut left = count - 1;
    while left > 0 {
        let least = cursor.i64()?;
        ensure(I::from_i64(least).is_some())?;
        let widths = data.get(cursor.at..cursor.at + miniblocks).ok_or(GaveUp)?;
        cursor.at += miniblocks;
        for &width in widths {
            if left == 0 {
                break;
            }
            let width = usize::from(width);
            ensure(width <= I::BITS)?;
            let end = cursor.at + size / 8 * width;
            ensure(end <= data.len())?;
            let values = left.min(size);
            let mut next = |offset: i64| {
                value = value.plus(least.wrapping_add(offset));
                value
            };
            let packed = &data[cursor.at..end];
            if width > 32 {
                unpack(packed, width, values, |offset| out.push(next(offset as i64)))?;
            } else {
                unpack_blocks(packed, width, values, |block| {
                    out.extend(block.iter().map(|&offset| next(offset.into())));
                    Ok(())
                })?;
            }
            left -= values;
            cursor.at = end;
        }
    }
    Ok(cursor.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::delta::{Integer as Written, Widths, put_integers};

    fn round_trip<I: Integer + Written + PartialEq + std::fmt::Debug>(values: &[I]) {
        for widths in [Widths::Bits, Widths::Bytes] {
            let mut out = Vec::new();
            put_integers(values, widths, &mut out);
            let mut decoded: Vec<I> = Vec::new();
            assert_eq!(integers(&out, values.len(), &mut decoded), Ok(out.len()));
            assert_eq!(decoded, values);
            for end in 0..out.len() {
                assert_eq!(integers::<I>(&out[..end], values.len(), &mut vec![]), Err(GaveUp));
            }
            let other = integers::<I>(&out, values.len() + 1, &mut vec![]);
            assert_eq!(other, Err(GaveUp));
        }
    }

    #[test]
    fn integers_of_any_distance_are_read() {
        for length in [0, 1, 2, 31, 32, 33, 127, 128, 129, 130, 500] {
            round_trip(&(0..length).map(|i| i * i - 7).collect::<Vec<i32>>());
            round_trip(&(0..length as i64).map(|i| i << (i % 60)).collect::<Vec<i64>>());
        }
        round_trip(&[i32::MIN, i32::MAX, 0, i32::MIN, -1]);
        round_trip(&[i64::MIN, i64::MAX, 0, i64::MIN, -1]);
    }
}
