//! The distinct values of a column, and the index of each value among them.
//!
//! They are sorted, because neighbours that begin alike are compressed to much less.

use std::ops::Range;

use super::bytes;
use super::numbers::Number;
use crate::parquet::packing::{Runs, hybrid};
use crate::values::strings::{self, Strings};

/// Buffers that one column after the other uses.
#[derive(Default)]
pub struct Scratch {
    /// The index of each value in the dictionary.
    pub indices: Indices,
    /// By what is found of a value: its number among the distinct ones, or whether there is one.
    table: Vec<u32>,
    /// What is found of each value: its number among the distinct ones, before they are sorted.
    numbers: Vec<u32>,
    pub lengths: Vec<i32>,
    pub bytes: Vec<u8>,
}

/// Indices into a dictionary, in as few bytes as those of its last entry.
#[derive(Default)]
pub struct Indices {
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
}

impl Indices {
    /// Replace them by those into a dictionary of so many entries.
    pub fn set(&mut self, entries: usize, indices: impl Iterator<Item = u32>) {
        let Self { bytes, shorts, words } = self;
        bytes.clear();
        shorts.clear();
        words.clear();
        match entries {
            0..=0x100 => bytes.extend(indices.map(|index| index as u8)),
            0x101..=0x1_0000 => shorts.extend(indices.map(|index| index as u16)),
            _ => words.extend(indices),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len() + self.shorts.len() + self.words.len() // two of them are empty
    }

    /// Append some of them in `width` bits, which is enough for the last entry's.
    pub fn put(&self, range: Range<usize>, width: usize, runs: Runs, out: &mut Vec<u8>) {
        match width {
            0..=8 => hybrid(&self.bytes[range], width, runs, out),
            9..=16 => hybrid(&self.shorts[range], width, runs, out),
            _ => hybrid(&self.words[range], width, runs, out),
        }
    }
}

/// A range of integers at most so many times as wide as there are values is a table.
const DENSE: usize = 4;
const SMALL_TABLE: usize = 1024;

/// Find the distinct numbers.
pub fn of_numbers<N: Number>(values: &[N], most: usize, scratch: &mut Scratch) -> Option<Vec<N>> {
    let widest = values.len().saturating_mul(DENSE).max(SMALL_TABLE) as u64;
    if let Some((least, range)) = narrow_range(values, widest) {
        return of_range(values, least, range as usize + 1, most, scratch);
    }
    let hash = |value: &N| strings::fold(value.bits(), 0x9E37_79B9_7F4A_7C15);
    let is_equal = |a: &N, b: &N| a.bits() == b.bits();
    let distinct = hashed(values.iter().copied(), most, scratch, hash, is_equal)?;
    let mut order: Vec<_> = distinct.iter().map(|value| value.rank()).zip(0..).collect();
    order.sort_unstable_by_key(|(rank, _)| *rank);
    scratch.rank(&order);
    Some(order.into_iter().map(|(_, number)| distinct[number as usize]).collect())
}

/// The least number, and how far the greatest is from it: if all are whole, and that is less than
/// `widest`.
fn narrow_range<N: Number>(values: &[N], widest: u64) -> Option<(i64, u64)> {
    let first = values.first().map_or(Some(0), |value| value.whole())?;
    let (mut least, mut greatest) = (first, first);
    for some in values.chunks(256) {
        for value in some {
            let whole = value.whole()?;
            least = least.min(whole);
            greatest = greatest.max(whole);
        }
        if greatest.abs_diff(least) >= widest {
            return None;
        }
    }
    Some((least, greatest.abs_diff(least)))
}

fn of_range<N: Number>(
    values: &[N],
    least: i64,
    size: usize,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<N>> {
    let Scratch { table, indices, .. } = scratch;
    let place = |value: &N| value.as_whole().wrapping_sub(least) as usize;
    table.clear();
    table.resize(size, 0);
    values.iter().for_each(|value| table[place(value)] = 1);
    let mut distinct = Vec::new();
    for (i, entry) in table.iter_mut().enumerate().filter(|(_, entry)| **entry > 0) {
        *entry = distinct.len() as u32;
        distinct.push(N::from_whole(least.wrapping_add(i as i64)));
    }
    if distinct.len() > most {
        return None;
    }
    indices.set(distinct.len(), values.iter().map(|value| table[place(value)]));
    Some(distinct)
}

/// Find the distinct byte strings.
pub fn of_bytes<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<&'a [u8]>> {
    let is_equal = |a: &&[u8], b: &&[u8]| strings::is_equal(a, b);
    let distinct = hashed(values, most, scratch, |value| strings::hash(value), is_equal)?;
    let order = sorted_bytes(0..distinct.len() as u32, |number| distinct[number as usize]);
    scratch.rank(&order);
    Some(order.into_iter().map(|(_, number)| distinct[number as usize]).collect())
}

/// Return the distinct values in the order in which they come, and number each value by them.
fn hashed<V: Copy>(
    values: impl Iterator<Item = V>,
    most: usize,
    scratch: &mut Scratch,
    hash: impl Fn(&V) -> u64,
    is_equal: impl Fn(&V, &V) -> bool,
) -> Option<Vec<V>> {
    let mut distinct = Vec::new();
    let Scratch { numbers, table, .. } = scratch;
    numbers.clear();
    table.clear();
    table.resize(SMALL_TABLE, 0);
    for value in values {
        let mask = table.len() - 1;
        let mut slot = (hash(&value) >> 32) as usize & mask;
        let number = loop {
            let entry = table[slot];
            if entry == 0 {
                break None;
            }
            if is_equal(&distinct[entry as usize - 1], &value) {
                break Some(entry - 1);
            }
            slot = (slot + 1) & mask;
        };
        let number = match number {
            Some(number) => number,
            None if distinct.len() == most => return None,
            None => {
                distinct.push(value);
                table[slot] = distinct.len() as u32;
                if 2 * distinct.len() > table.len() {
                    grow(table, distinct.iter().map(&hash));
                }
                distinct.len() as u32 - 1
            }
        };
        numbers.push(number);
    }
    Some(distinct)
}

#[cold]
fn grow(table: &mut Vec<u32>, hashes: impl Iterator<Item = u64>) {
    let size = 4 * table.len();
    table.clear();
    table.resize(size, 0);
    for (entry, hash) in (1..).zip(hashes) {
        let mut slot = (hash >> 32) as usize & (size - 1);
        while table[slot] != 0 {
            slot = (slot + 1) & (size - 1);
        }
        table[slot] = entry;
    }
}

/// Find the distinct byte strings among those that `numbers` select from all that are `stored`.
pub fn of_stored<'a>(
    numbers: &[u32],
    strings: &'a Strings,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<&'a [u8]>> {
    let Scratch { table, indices, .. } = scratch;
    table.clear();
    table.resize(strings.distinct(), 0);
    numbers.iter().for_each(|&number| table[number as usize] = 1);
    let used = (0..).zip(&table[..]).filter(|(_, used)| **used > 0).map(|(number, _)| number);
    let order = sorted_bytes(used, |number| strings.stored(number as usize));
    if order.len() > most {
        return None;
    }
    (0..).zip(&order).for_each(|(rank, (_, number))| table[*number as usize] = rank);
    indices.set(order.len(), numbers.iter().map(|&number| table[number as usize]));
    Some(order.into_iter().map(|(_, number)| strings.stored(number as usize)).collect())
}

impl Scratch {
    /// Set the indices, given the numbers in the order of the dictionary.
    fn rank<K>(&mut self, order: &[(K, u32)]) {
        let Self { table, numbers, indices, .. } = self;
        table.clear();
        table.resize(order.len(), 0);
        (0..).zip(order).for_each(|(rank, (_, number))| table[*number as usize] = rank);
        indices.set(order.len(), numbers.iter().map(|&number| table[number as usize]));
    }
}

/// Sort the numbers of byte strings by their values. Mostly the first bytes tell.
fn sorted_bytes<'a>(
    numbers: impl Iterator<Item = u32>,
    value: impl Fn(u32) -> &'a [u8],
) -> Vec<(u128, u32)> {
    let mut order: Vec<_> =
        numbers.map(|number| (bytes::long_start(value(number)), number)).collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| value(a.1).cmp(value(b.1))));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Indices {
        fn iter(&self) -> impl Iterator<Item = u32> {
            let (bytes, shorts) = (self.bytes.iter(), self.shorts.iter());
            let (bytes, shorts) =
                (bytes.map(|&index| index.into()), shorts.map(|&index| index.into()));
            bytes.chain(shorts).chain(self.words.iter().copied())
        }
    }

    fn all(scratch: &Scratch) -> Vec<u32> {
        scratch.indices.iter().collect()
    }

    fn check<N: Number + std::fmt::Debug>(values: &[N], distinct: usize) {
        let mut scratch = Scratch::default();
        assert!(distinct == 0 || of_numbers(values, distinct - 1, &mut scratch).is_none());
        let dictionary = of_numbers(values, distinct, &mut scratch).unwrap();
        assert_eq!(dictionary.len(), distinct);
        let read: Vec<u64> =
            scratch.indices.iter().map(|index| dictionary[index as usize].bits()).collect();
        assert_eq!(read, values.iter().map(|value| value.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_are_found_by_their_bits() {
        check::<i32>(&[], 0);
        check(&[5i32; 100], 1);
        check(&[i32::MIN, i32::MAX, 0, i32::MIN], 3);
        check(&[i64::MIN, i64::MAX, 0, i64::MIN], 3);
        check(&[0.0f64, -0.0, f64::NAN, f64::NAN, 1.5], 4);
        check(&[0.0f32, -0.0, f32::NAN, 1.5, -1.5], 5);
        check(&[3.0f64, -2.0, 3.0, 0.0], 3);
        check(&[0.0f64, -0.0, 1.0], 3);
        check(&[i64::MAX as f64, f64::INFINITY, i64::MIN as f64, 9_007_199_254_740_993.0], 4);
        check(&(0..20_000).map(|i| i % 7_919 * 1_000_003).collect::<Vec<i64>>(), 7_919);
        check(&(0..70_000).collect::<Vec<i32>>(), 70_000);
    }

    #[test]
    fn dictionaries_are_sorted() {
        let mut scratch = Scratch::default();
        for far in [7, i64::MAX] {
            let dictionary = of_numbers(&[far, -3, far, 0], 9, &mut scratch).unwrap();
            assert_eq!((dictionary, all(&scratch)), (vec![-3, 0, far], vec![2, 0, 2, 1]));
            let dictionary = of_numbers(&[far as f64, -3.0, 0.0], 9, &mut scratch).unwrap();
            assert_eq!((dictionary, all(&scratch)), (vec![-3.0, 0.0, far as f64], vec![2, 0, 1]));
        }
        let values = [&b"b"[..], b"", b"12345678a", b"b", b"12345678"];
        let dictionary = of_bytes(values.into_iter(), 9, &mut scratch).unwrap();
        assert_eq!(dictionary, [&b""[..], b"12345678", b"12345678a", b"b"]);
        assert_eq!(all(&scratch), [3, 0, 2, 3, 1]);
    }

    #[test]
    fn what_is_stored_and_unused_is_left_out() {
        let mut scratch = Scratch::default();
        let stored = Strings::from_parts(b"edcba".to_vec(), vec![1, 2, 3, 4, 5], Some(vec![]));
        let dictionary = of_stored(&[4, 2, 4], &stored, 2, &mut scratch);
        assert_eq!(dictionary, Some(vec![&b"a"[..], b"c"]));
        assert_eq!(all(&scratch), [0, 1, 0]);
        assert_eq!(of_stored(&[4, 2, 4], &stored, 1, &mut scratch), None);
    }
}
