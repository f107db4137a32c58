//! The distinct values of a column, and the index of each value among them.
//!
//! They are sorted, because neighbours that begin alike are compressed to much less.

use std::cmp::Ordering;

use super::bytes;
use super::numbers::Number;
use crate::strings::{self, Strings};

/// Buffers that one column after the other uses.
#[derive(Default)]
pub struct Scratch {
    /// The index of each value in the dictionary.
    pub indices: Vec<u32>,
    /// Where in the dictionary a value may be found: its index + 1, or 0.
    table: Vec<u32>,
    hashes: Vec<u32>,
    pub lengths: Vec<i32>,
    pub bytes: Vec<u8>,
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
    let hash = |value: &N| strings::fold(value.bits() as u64, 0x9E37_79B9_7F4A_7C15);
    let is_equal = |a: &N, b: &N| a.bits() == b.bits();
    let found = hashed(values.iter().copied(), most, scratch, hash, is_equal)?;
    Some(sorted(found, scratch, |&value| value, |a, b| a.compare(*b)))
}

/// The least number's bits, and how far the greatest's are from them, if that is less than `widest`.
fn narrow_range<N: Number>(values: &[N], widest: u64) -> Option<(i64, u64)> {
    let first = values.first().map_or(0, |value| value.bits());
    let (mut least, mut greatest) = (first, first);
    for some in values.chunks(256) {
        for value in some {
            least = least.min(value.bits());
            greatest = greatest.max(value.bits());
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
    let place = |value: &N| value.bits().wrapping_sub(least) as usize;
    table.clear();
    table.resize(size, 0);
    values.iter().for_each(|value| table[place(value)] = 1);
    let mut found = Vec::new();
    for (i, entry) in table.iter_mut().enumerate().filter(|(_, entry)| **entry > 0) {
        *entry = found.len() as u32;
        found.push(N::from_bits(least.wrapping_add(i as i64)));
    }
    if found.len() > most {
        return None;
    }
    indices.clear();
    indices.extend(values.iter().map(|value| table[place(value)]));
    Some(found)
}

/// Find the distinct byte strings.
pub fn of_bytes<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<&'a [u8]>> {
    let found = hashed(values, most, scratch, |value| strings::hash(value), |a, b| a == b)?;
    Some(sorted_bytes(found, scratch))
}

fn hashed<V: Copy>(
    values: impl Iterator<Item = V>,
    most: usize,
    scratch: &mut Scratch,
    hash: impl Fn(&V) -> u64,
    is_equal: impl Fn(&V, &V) -> bool,
) -> Option<Vec<V>> {
    let mut found = Vec::new();
    let Scratch { indices, table, hashes, .. } = scratch;
    indices.clear();
    hashes.clear();
    table.clear();
    table.resize(SMALL_TABLE, 0);
    for value in values {
        let hash = (hash(&value) >> 32) as u32;
        let mask = table.len() - 1;
        let mut slot = hash as usize & mask;
        let index = loop {
            let entry = table[slot];
            if entry == 0 {
                break None;
            }
            let index = entry as usize - 1;
            if hashes[index] == hash && is_equal(&found[index], &value) {
                break Some(entry - 1);
            }
            slot = (slot + 1) & mask;
        };
        let index = match index {
            Some(index) => index,
            None if found.len() == most => return None,
            None => {
                found.push(value);
                hashes.push(hash);
                table[slot] = found.len() as u32;
                if 2 * found.len() > table.len() {
                    grow(table, hashes);
                }
                found.len() as u32 - 1
            }
        };
        indices.push(index);
    }
    Some(found)
}

#[cold]
fn grow(table: &mut Vec<u32>, hashes: &[u32]) {
    let size = 4 * table.len();
    table.clear();
    table.resize(size, 0);
    for (index, &hash) in (1..).zip(hashes) {
        let mut slot = hash as usize & (size - 1);
        while table[slot] != 0 {
            slot = (slot + 1) & (size - 1);
        }
        table[slot] = index;
    }
}

/// Find the distinct byte strings among those that `indices` select from all that are `stored`.
pub fn of_stored<'a>(
    indices: &[u32],
    strings: &'a Strings,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<&'a [u8]>> {
    let table = &mut scratch.table;
    table.clear();
    table.resize(strings.distinct(), 0);
    indices.iter().for_each(|&index| table[index as usize] = 1);
    let mut used = Vec::new();
    for (index, entry) in table.iter_mut().enumerate().filter(|(_, entry)| **entry > 0) {
        *entry = used.len() as u32;
        used.push(strings.stored(index));
    }
    if used.len() > most {
        return None;
    }
    scratch.indices.clear();
    scratch.indices.extend(indices.iter().map(|&index| table[index as usize]));
    Some(sorted_bytes(used, scratch))
}

fn sorted_bytes<'a>(found: Vec<&'a [u8]>, scratch: &mut Scratch) -> Vec<&'a [u8]> {
    let key = |value: &&'a [u8]| (bytes::start(value), *value);
    sorted(found, scratch, key, |a, b| a.cmp(b))
}

/// Sort what was found, by a key of each value, and change the indices accordingly.
fn sorted<V: Copy, K>(
    found: Vec<V>,
    scratch: &mut Scratch,
    key: impl Fn(&V) -> K,
    compare: impl Fn(&K, &K) -> Ordering,
) -> Vec<V> {
    let mut order: Vec<(K, u32)> = found.iter().map(key).zip(0..).collect();
    order.sort_unstable_by(|a, b| compare(&a.0, &b.0));
    let Scratch { table, indices, .. } = scratch;
    table.clear();
    table.resize(found.len(), 0);
    for (rank, (_, index)) in (0..).zip(&order) {
        table[*index as usize] = rank;
    }
    indices.iter_mut().for_each(|index| *index = table[*index as usize]);
    order.into_iter().map(|(_, index)| found[index as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<N: Number + std::fmt::Debug>(values: &[N], distinct: usize) {
        let mut scratch = Scratch::default();
        assert!(distinct == 0 || of_numbers(values, distinct - 1, &mut scratch).is_none());
        let found = of_numbers(values, distinct, &mut scratch).unwrap();
        assert_eq!(found.len(), distinct);
        let read: Vec<i64> = scratch.indices.iter().map(|&i| found[i as usize].bits()).collect();
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
        check(&(0..20_000).map(|i| i % 7_919 * 1_000_003).collect::<Vec<i64>>(), 7_919);
    }

    #[test]
    fn dictionaries_are_sorted() {
        let mut scratch = Scratch::default();
        for far in [7, i64::MAX] {
            let found = of_numbers(&[far, -3, far, 0], 9, &mut scratch).unwrap();
            assert_eq!((found, &scratch.indices[..]), (vec![-3, 0, far], &[2, 0, 2, 1][..]));
        }
        let values = [&b"b"[..], b"", b"12345678a", b"b", b"12345678"];
        let found = of_bytes(values.into_iter(), 9, &mut scratch).unwrap();
        assert_eq!(found, [&b""[..], b"12345678", b"12345678a", b"b"]);
        assert_eq!(scratch.indices, [3, 0, 2, 3, 1]);
    }

    #[test]
    fn what_is_stored_and_unused_is_left_out() {
        let mut scratch = Scratch::default();
        let stored = Strings::from_parts(b"edcba".to_vec(), vec![1, 2, 3, 4, 5], Some(vec![]));
        let found = of_stored(&[4, 2, 4], &stored, 2, &mut scratch);
        assert_eq!(found, Some(vec![&b"a"[..], b"c"]));
        assert_eq!(scratch.indices, [0, 1, 0]);
        assert_eq!(of_stored(&[4, 2, 4], &stored, 1, &mut scratch), None);
    }
}
