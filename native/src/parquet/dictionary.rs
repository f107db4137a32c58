//! The distinct values of a column, and the index of each value among them.

use super::numbers::Number;
use crate::strings;

/// The distinct values; the indices are in the scratch.
pub struct Dictionary<V> {
    pub values: Vec<V>,
}

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

/// Find the distinct numbers; integers of a narrow range come sorted.
pub fn of_numbers<N: Number>(
    values: &[N],
    most: usize,
    scratch: &mut Scratch,
) -> Option<Dictionary<N>> {
    let bits = || values.iter().map(|value| value.bits());
    let least = bits().min().unwrap_or(0);
    let range = bits().max().unwrap_or(0).abs_diff(least);
    if range < values.len().saturating_mul(DENSE).max(SMALL_TABLE) as u64 {
        return of_range(values, least, range as usize + 1, most, scratch);
    }
    let mut found = Vec::new();
    let hash = |value: &N| strings::fold(value.bits() as u64, 0x9E37_79B9_7F4A_7C15);
    hashed(values.iter().copied(), most, scratch, &mut found, hash, |a, b| a.bits() == b.bits())?;
    Some(Dictionary { values: found })
}

fn of_range<N: Number>(
    values: &[N],
    least: i64,
    size: usize,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Dictionary<N>> {
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
    Some(Dictionary { values: found })
}

/// Find the distinct byte strings.
pub fn of_bytes<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Dictionary<&'a [u8]>> {
    let mut found = Vec::new();
    let hash = |value: &&[u8]| strings::hash(value);
    hashed(values, most, scratch, &mut found, hash, |a, b| a == b)?;
    Some(Dictionary { values: found })
}

fn hashed<V: Copy>(
    values: impl Iterator<Item = V>,
    most: usize,
    scratch: &mut Scratch,
    found: &mut Vec<V>,
    hash: impl Fn(&V) -> u64,
    is_equal: impl Fn(&V, &V) -> bool,
) -> Option<()> {
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
    Some(())
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

/// Take the indices of some values among all that are stored, and leave out what is stored and unused.
///
/// Returns where the dictionary's values are stored.
pub fn of_stored(
    indices: &[u32],
    stored: usize,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Vec<u32>> {
    let table = &mut scratch.table;
    table.clear();
    table.resize(stored, 0);
    indices.iter().for_each(|&index| table[index as usize] = 1);
    let mut used = Vec::new();
    for (index, entry) in (0..).zip(table.iter_mut()).filter(|(_, entry)| **entry > 0) {
        *entry = used.len() as u32;
        used.push(index);
    }
    if used.len() > most {
        return None;
    }
    scratch.indices.clear();
    if used.len() == stored {
        scratch.indices.extend_from_slice(indices);
    } else {
        scratch.indices.extend(indices.iter().map(|&index| table[index as usize]));
    }
    Some(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<N: Number + std::fmt::Debug>(values: &[N], distinct: usize) {
        let mut scratch = Scratch::default();
        assert!(distinct == 0 || of_numbers(values, distinct - 1, &mut scratch).is_none());
        let found = of_numbers(values, distinct, &mut scratch).unwrap().values;
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
        check(&(0..20_000).map(|i| i * 1_000_003 % 7_919_000).collect::<Vec<i64>>(), 7_919);
    }

    #[test]
    fn a_narrow_range_comes_sorted() {
        let mut scratch = Scratch::default();
        let found = of_numbers(&[7i64, -3, 7, 0], 9, &mut scratch).unwrap().values;
        assert_eq!((found, &scratch.indices[..]), (vec![-3, 0, 7], &[2, 0, 2, 1][..]));
    }

    #[test]
    fn what_is_stored_and_unused_is_left_out() {
        let mut scratch = Scratch::default();
        assert_eq!(of_stored(&[4, 2, 4], 6, 2, &mut scratch), Some(vec![2, 4]));
        assert_eq!(scratch.indices, [1, 0, 1]);
        assert_eq!(of_stored(&[4, 2, 4], 6, 1, &mut scratch), None);
    }
}
