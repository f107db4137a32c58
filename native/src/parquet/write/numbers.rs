//! Columns of integers, floats and booleans.

use std::cmp::Ordering;

use super::column::{Bounds, Choice, Column, DICTIONARIES, Order};
use super::dictionary::{self, Scratch};
use crate::parquet::delta::{self, Integer, Widths};
use crate::parquet::format::{Encoding, PhysicalType};
use crate::parquet::packing;
use crate::values::leaf::Bits;

/// A number of fixed width.
pub trait Number: Copy + PartialOrd + 'static {
    const PHYSICAL_TYPE: PhysicalType;
    const CANDIDATES: &'static [Choice];
    const WIDTH: usize;

    /// Append numbers, little-endian.
    fn put_all(values: &[Self], out: &mut Vec<u8>);

    /// Append numbers in DELTA_BINARY_PACKED; false if the type has no such encoding.
    fn put_deltas(values: &[Self], widths: Widths, out: &mut Vec<u8>) -> bool;

    /// The number's bits: equal ones for equal bytes.
    fn bits(self) -> u64;

    /// The number without its fraction, in the range of an integer.
    fn as_whole(self) -> i64;

    /// What `as_whole` is made of.
    fn from_whole(whole: i64) -> Self;

    /// The integer that the number is exactly: negative zero is none.
    #[inline(always)]
    fn whole(self) -> Option<i64> {
        let whole = self.as_whole();
        (Self::from_whole(whole).bits() == self.bits()).then_some(whole)
    }

    /// What compares as the unsigned number of the same bits does.
    fn unsigned(self) -> Self;

    /// What compares as numbers do, where every number has a place.
    fn rank(self) -> i64;

    fn is_nan(self) -> bool;

    /// The number itself, or the zero that compares as the least and the greatest zero do.
    fn as_bound(self, sign: Ordering) -> Self;
}

const INTEGERS: &[Choice] = &[
    DICTIONARIES[0],
    DICTIONARIES[1],
    Choice::new(Encoding::DeltaBinaryPacked, Widths::Bits),
    Choice::new(Encoding::DeltaBinaryPacked, Widths::Bytes),
];

macro_rules! numbers {
    ($number:ty, $physical:ident, $candidates:expr; $($method:item)*) => {
        impl Number for $number {
            const PHYSICAL_TYPE: PhysicalType = PhysicalType::$physical;
            const CANDIDATES: &'static [Choice] = $candidates;
            const WIDTH: usize = size_of::<$number>();

            fn put_all(values: &[Self], out: &mut Vec<u8>) {
                const WIDTH: usize = size_of::<$number>();
                let start = out.len();
                out.resize(start + WIDTH * values.len(), 0);
                for (place, value) in out[start..].as_chunks_mut::<WIDTH>().0.iter_mut().zip(values) {
                    *place = value.to_le_bytes();
                }
            }

            $($method)*
        }
    };
}

macro_rules! integers {
    ($number:ty, $physical:ident) => {
        numbers! { $number, $physical, INTEGERS;
            fn put_deltas(values: &[Self], widths: Widths, out: &mut Vec<u8>) -> bool {
                delta::put_integers(values, widths, out);
                true
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self.wide() as u64
            }

            #[inline(always)]
            fn as_whole(self) -> i64 {
                self.wide()
            }

            #[inline(always)]
            fn from_whole(whole: i64) -> Self {
                whole as Self
            }

            fn unsigned(self) -> Self {
                self ^ <$number>::MIN
            }

            #[inline(always)]
            fn rank(self) -> i64 {
                self.wide()
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }

            fn as_bound(self, _: Ordering) -> Self {
                self
            }
        }
    };
}

macro_rules! floats {
    ($number:ty, $physical:ident) => {
        numbers! { $number, $physical, &DICTIONARIES;
            fn put_deltas(_: &[Self], _: Widths, _: &mut Vec<u8>) -> bool {
                false
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn as_whole(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn from_whole(whole: i64) -> Self {
                whole as Self
            }

            fn unsigned(self) -> Self {
                self
            }

            #[inline(always)]
            fn rank(self) -> i64 {
                let bits = f64::from(self).to_bits() as i64;
                bits ^ ((bits >> 63) as u64 >> 1) as i64 // as `total_cmp` has it
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$number>::is_nan(self)
            }

            fn as_bound(self, sign: Ordering) -> Self {
                match sign {
                    _ if self != 0.0 => self,
                    Ordering::Less => -0.0,
                    _ => 0.0,
                }
            }
        }
    };
}

integers! { i32, Int32 }
integers! { i64, Int64 }
floats! { f32, Float }
floats! { f64, Double }

impl<N: Number> Column for &[N] {
    type Value = N;

    const CANDIDATES: &'static [Choice] = N::CANDIDATES;

    fn physical_type(self) -> PhysicalType {
        N::PHYSICAL_TYPE
    }

    fn len(self) -> usize {
        <[N]>::len(self)
    }

    fn slice(self, from: usize, to: usize) -> Self {
        &self[from..to]
    }

    fn plain_size(self) -> usize {
        size_of_val(self)
    }

    fn put_all(self, values: &[N], out: &mut Vec<u8>) {
        N::put_all(values, out);
    }

    fn encode(self, choice: Choice, _: &mut Scratch, out: &mut Vec<u8>) -> Encoding {
        if choice.encoding == Encoding::DeltaBinaryPacked && N::put_deltas(self, choice.widths, out)
        {
            return choice.encoding;
        }
        N::put_all(self, out);
        Encoding::Plain
    }

    fn dictionary(self, most: usize, scratch: &mut Scratch) -> Option<Vec<N>> {
        dictionary::of_numbers(self, most, scratch)
    }

    fn bounds(self, order: Order) -> Option<Bounds> {
        self.bounds_of(self, order)
    }

    fn bounds_of(self, values: &[N], order: Order) -> Option<Bounds> {
        match order {
            Order::Signed | Order::Float => extremes(values, |value| value),
            Order::Unsigned => extremes(values, N::unsigned),
            Order::Bytes | Order::Text | Order::Undefined => None,
        }
    }
}

/// Bounds in the order of `key(value)`. `key` is its own inverse.
fn extremes<N: Number>(values: &[N], key: impl Fn(N) -> N) -> Option<Bounds> {
    let first = key(*values.first()?);
    let (mut min, mut max, mut has_nan) = (first, first, false);
    for &value in values {
        let value = key(value);
        min = if value < min { value } else { min };
        max = if value > max { value } else { max };
        has_nan |= value.is_nan();
    }
    if has_nan {
        return None; // readers differ on where it stands
    }
    let bytes = |value: N, sign| {
        let mut bytes = Vec::with_capacity(N::WIDTH);
        N::put_all(&[key(value).as_bound(sign)], &mut bytes);
        bytes
    };
    Some(Bounds::exact(bytes(min, Ordering::Less), bytes(max, Ordering::Greater)))
}

/// Booleans from one place in some bits to another.
#[derive(Clone, Copy)]
pub struct Booleans<'a> {
    bits: &'a Bits,
    from: usize,
    to: usize,
}

impl<'a> Booleans<'a> {
    pub fn new(bits: &'a Bits) -> Self {
        Self { bits, from: 0, to: bits.len() }
    }
}

impl Column for Booleans<'_> {
    type Value = bool;

    const CANDIDATES: &'static [Choice] = &[];

    fn physical_type(self) -> PhysicalType {
        PhysicalType::Boolean
    }

    fn len(self) -> usize {
        self.to - self.from
    }

    fn slice(self, from: usize, to: usize) -> Self {
        Self { from: self.from + from, to: self.from + to, ..self }
    }

    fn plain_size(self) -> usize {
        self.len().div_ceil(8)
    }

    fn put_all(self, values: &[bool], out: &mut Vec<u8>) {
        out.extend(values.iter().map(|&value| u8::from(value)));
    }

    fn encode(self, _: Choice, scratch: &mut Scratch, out: &mut Vec<u8>) -> Encoding {
        if self.from == 0 && self.to == self.bits.len() {
            out.extend_from_slice(self.bits.bytes());
            return Encoding::Plain;
        }
        let bytes = &mut scratch.bytes;
        bytes.clear();
        bytes.extend((self.from..self.to).map(|i| u8::from(self.bits.get(i))));
        let end = out.len() + bytes.len().div_ceil(8);
        packing::pack(bytes, 1, 8, out);
        out.truncate(end);
        Encoding::Plain
    }

    fn dictionary(self, _: usize, _: &mut Scratch) -> Option<Vec<bool>> {
        None
    }

    fn bounds(self, order: Order) -> Option<Bounds> {
        let trues = (self.from..self.to).filter(|&i| self.bits.get(i)).count();
        let (has_false, has_true) = (trues < self.len(), trues > 0);
        let values = [has_false.then_some(false), has_true.then_some(true)];
        self.bounds_of(&values.into_iter().flatten().collect::<Vec<_>>(), order)
    }

    fn bounds_of(self, values: &[bool], order: Order) -> Option<Bounds> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let bytes = |value| vec![u8::from(value)];
        (order == Order::Unsigned).then(|| Bounds::exact(bytes(min), bytes(max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds<N: Number>(values: &[N], order: Order) -> Option<(Vec<u8>, Vec<u8>)> {
        values.bounds(order).map(|bounds| (bounds.min, bounds.max))
    }

    #[test]
    fn integers_have_the_bounds_of_their_order() {
        let values = [-1i32, 5, i32::MIN];
        let le = |value: i32| value.to_le_bytes().to_vec();
        assert_eq!(bounds(&values, Order::Signed), Some((le(i32::MIN), le(5))));
        assert_eq!(bounds(&values, Order::Unsigned), Some((le(5), le(-1))));
        assert_eq!(bounds(&values, Order::Undefined), None);
        assert_eq!(bounds::<i64>(&[], Order::Signed), None);
    }

    #[test]
    fn zeros_of_either_sign_lie_within_the_bounds_of_floats() {
        let le = |value: f64| value.to_le_bytes().to_vec();
        for zero in [0.0, -0.0] {
            assert_eq!(bounds(&[zero], Order::Float), Some((le(-0.0), le(0.0))));
        }
        assert_eq!(bounds(&[f64::INFINITY, 1.5], Order::Float), Some((le(1.5), le(f64::INFINITY))));
    }

    #[test]
    fn floats_with_a_nan_have_no_bounds() {
        assert_eq!(bounds(&[f64::NAN, 1.0], Order::Float), None);
        assert_eq!(bounds(&[1.0, f32::NAN], Order::Float), None);
    }

    #[test]
    fn booleans_of_any_place_are_packed_from_the_first_bit() {
        let mut bits = Bits::default();
        (0..20).for_each(|i| bits.push(i % 3 == 0));
        let column = Booleans::new(&bits);
        let mut out = Vec::new();
        column.encode(Choice::PLAIN, &mut Scratch::default(), &mut out);
        assert_eq!(out, bits.bytes());
        out.clear();
        column.slice(3, 13).encode(Choice::PLAIN, &mut Scratch::default(), &mut out);
        assert_eq!(out, [0b0100_1001, 0b10]);
        let bounds = column.slice(1, 3).bounds(Order::Unsigned);
        assert_eq!(bounds, Some(Bounds::exact(vec![0], vec![0])));
    }
}
