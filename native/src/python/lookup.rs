//! Finds strings that were seen before: by their object, or by their hash.

use pyo3::prelude::*;

use crate::python::py::Ref;

/// Strings known by their object: what many rows share is mostly the same object.
const CACHE: usize = 256;
/// With fewer strings nobody needs that.
const CACHE_FROM: usize = 16;
const LEAST_TABLE: usize = 64;
/// A table with so many slots for each string was made for a larger batch.
const MOST_SLOTS: usize = 16;

/// The indices of a column's distinct strings, while it grows.
#[derive(Default)]
pub struct Lookup {
    /// A string's hash and its index + 1; 0: nothing. At most every second one is used.
    table: Vec<u64>,
    used: usize,
    cache: Vec<Option<(Py<PyAny>, u32)>>,
}

/// Where in the table a string belongs that is not in it.
pub struct Slot(usize);

impl Lookup {
    /// The index of a string that had the same object.
    #[inline(always)]
    pub fn known(&self, object: Ref<'_>) -> Option<u32> {
        match self.cache.get(cache_slot(object)) {
            Some(Some((known, index))) if known.as_ptr() == object.as_ptr() => Some(*index),
            _ => None,
        }
    }

    /// Know a string's object from now on.
    #[inline(always)]
    pub fn know(&mut self, object: Ref<'_>, index: u32) {
        if self.cache.is_empty() {
            if self.used < CACHE_FROM {
                return;
            }
            self.cache.resize_with(CACHE, || None);
        }
        let known = self.cache[cache_slot(object)].replace((object.to_stored(), index));
        if let Some((known, _)) = known {
            known.drop_ref(object.py());
        }
    }

    /// Find a string by its hash, among those with the same one by `is_equal`.
    #[inline(always)]
    pub fn find(&mut self, hash: u32, is_equal: impl Fn(u32) -> bool) -> Result<u32, Slot> {
        if self.table.len() < 2 * (self.used + 1) {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.table[slot];
            if entry == 0 {
                return Err(Slot(slot));
            }
            let index = entry as u32 - 1;
            if (entry >> 32) as u32 == hash && is_equal(index) {
                return Ok(index);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Put a string there.
    #[inline(always)]
    pub fn insert(&mut self, slot: Slot, hash: u32, index: u32) {
        self.table[slot.0] = u64::from(hash) << 32 | u64::from(index + 1);
        self.used += 1;
    }

    /// Forget a string, if it is here.
    pub fn remove(&mut self, hash: u32, index: u32) {
        let mask = self.table.len() - 1;
        let mut hole = hash as usize & mask;
        while self.table[hole] as u32 != index + 1 {
            if self.table[hole] == 0 {
                return;
            }
            hole = (hole + 1) & mask;
        }
        // What comes after it moves up, unless it is where its hash says already.
        let mut slot = (hole + 1) & mask;
        while self.table[slot] != 0 {
            let home = (self.table[slot] >> 32) as usize & mask;
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[slot];
                hole = slot;
            }
            slot = (slot + 1) & mask;
        }
        self.table[hole] = 0;
        self.used -= 1;
    }

    /// Know no objects any more of the strings from an index on.
    pub fn forget_objects(&mut self, from: u32) {
        for known in &mut self.cache {
            if known.as_ref().is_some_and(|&(_, index)| index >= from) {
                *known = None;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(LEAST_TABLE);
        let table = std::mem::replace(&mut self.table, vec![0; size]);
        for entry in table.into_iter().filter(|&entry| entry != 0) {
            let mut slot = (entry >> 32) as usize & (size - 1);
            while self.table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = entry;
        }
    }

    /// Forget everything, and keep the memory for the next batch. The GIL has to be held.
    pub fn clear(&mut self) {
        self.cache.fill_with(|| None);
        if self.table.len() > LEAST_TABLE.max(self.used * MOST_SLOTS) {
            self.table = Vec::new();
        }
        if self.used > 0 {
            self.table.fill(0);
        }
        self.used = 0;
    }

    pub fn nbytes(&self) -> usize {
        size_of_val(&self.table[..]) + size_of_val(&self.cache[..])
    }
}

#[inline(always)]
fn cache_slot(object: Ref<'_>) -> usize {
    let address = object.as_ptr() as usize;
    (address >> 4 ^ address >> 12) & (CACHE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_by_their_hash_until_all_are_forgotten() {
        let mut lookup = Lookup::default();
        let hash = |index: u32| (index / 2).wrapping_mul(0x9E37_79B9); // two of each
        for round in 0..2 {
            for index in 0..1_000 {
                let Err(slot) = lookup.find(hash(index), |known| known == index) else {
                    panic!("{index} is known in round {round}")
                };
                lookup.insert(slot, hash(index), index);
            }
            for index in 0..1_000 {
                assert_eq!(lookup.find(hash(index), |known| known == index).ok(), Some(index));
            }
            lookup.clear();
        }
    }

    #[test]
    fn a_table_of_a_large_batch_is_not_kept_for_small_ones() {
        let mut lookup = Lookup::default();
        for (used, nbytes) in [(1_000, 16_384), (300, 16_384), (1, 0)] {
            for index in 0..used {
                let Err(slot) = lookup.find(index, |_| false) else { panic!("{index} is known") };
                lookup.insert(slot, index, index);
            }
            lookup.clear();
            assert_eq!(lookup.nbytes(), nbytes);
        }
    }
}
