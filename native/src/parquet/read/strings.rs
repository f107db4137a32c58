//! Pages of byte strings.

use std::ops::Range;

use super::delta;
use super::values::{
    DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, Indices, PLAIN, RLE_DICTIONARY, indices,
};
use super::{Budget, GaveUp, Read, ensure};
use crate::values::strings::Strings;

/// What Arrow takes for a value in one of the delta encodings of bytes.
const LENGTHS: u64 = 24;
const MAX_HEAP: usize = i32::MAX as usize;

/// Byte strings: those of the dictionary first, then those that pages hold themselves.
#[derive(Default)]
pub struct ByteStrings {
    heap: Vec<u8>,
    ends: Vec<u32>,
    /// How many entries the dictionary has.
    entries: usize,
    /// With a dictionary: each value's number among all.
    indices: Option<Vec<u32>>,
    /// How many values there are at most.
    count: usize,
}

impl ByteStrings {
    /// For at most `count` values, for whose indices memory was taken from the budget.
    pub fn new(count: usize) -> Self {
        Self { count, ..Self::default() }
    }

    pub fn page(
        &mut self,
        encoding: i32,
        data: &[u8],
        count: usize,
        budget: &mut Budget,
    ) -> Read<()> {
        let before = self.ends.len();
        match encoding {
            PLAIN => self.plain(data, count)?,
            DELTA_LENGTH_BYTE_ARRAY => {
                budget.take(LENGTHS * count as u64)?;
                self.lengths(data, count)?;
            }
            DELTA_BYTE_ARRAY => {
                budget.take(LENGTHS * count as u64)?;
                self.suffixes(data, count, budget)?;
            }
            RLE_DICTIONARY => {
                let values = self.indices.as_mut().ok_or(GaveUp)?;
                return indices(data, count, self.entries, |some| match some {
                    Indices::Each(block) => values.extend_from_slice(block),
                    Indices::Equal(index, times) => values.resize(values.len() + times, index),
                });
            }
            _ => return Err(GaveUp),
        }
        if let Some(indices) = &mut self.indices {
            indices.extend(before as u32..self.ends.len() as u32);
        }
        Ok(())
    }

    /// Read a dictionary of so many entries, which come before all others.
    pub fn dictionary(&mut self, data: &[u8], count: usize) -> Read<()> {
        self.plain(data, count)?;
        self.entries = count;
        self.indices = Some(Vec::with_capacity(self.count));
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Read<()> {
        self.heap.extend_from_slice(bytes);
        ensure(self.heap.len() <= MAX_HEAP)?;
        self.ends.push(self.heap.len() as u32);
        Ok(())
    }

    /// Each string has its length before it.
    fn plain(&mut self, mut data: &[u8], count: usize) -> Read<()> {
        for _ in 0..count {
            let (size, rest) = data.split_first_chunk::<4>().ok_or(GaveUp)?;
            let size = u32::from_le_bytes(*size) as usize;
            self.push(rest.get(..size).ok_or(GaveUp)?)?;
            data = &rest[size..];
        }
        ensure(data.is_empty())
    }

    /// All lengths come first.
    fn lengths(&mut self, data: &[u8], count: usize) -> Read<()> {
        for string in read_lengths(data, count)? {
            self.push(&data[string])?;
        }
        Ok(())
    }

    /// Each string begins as the one before, for so many bytes as its first length says.
    fn suffixes(&mut self, data: &[u8], count: usize, budget: &mut Budget) -> Read<()> {
        let mut prefixes = Vec::new();
        let at = delta::integers::<i32>(data, count, &mut prefixes)?;
        ensure(prefixes.iter().all(|&size| size >= 0))?;
        let total: u64 = prefixes.iter().map(|&size| size as u64).sum();
        budget.take(2 * total)?;
        let rest = &data[at..];
        let mut last = 0..0;
        for (string, prefix) in read_lengths(rest, count)?.into_iter().zip(prefixes) {
            let prefix = prefix as usize;
            ensure(prefix <= last.len())?;
            let start = self.heap.len();
            self.heap.extend_from_within(last.start..last.start + prefix);
            self.push(&rest[string])?;
            last = start..self.heap.len();
        }
        Ok(())
    }

    pub fn finish(self, is_text: bool, budget: &mut Budget) -> Read<Strings> {
        if is_text {
            let text = std::str::from_utf8(&self.heap).map_err(|_| GaveUp)?;
            ensure(self.ends.iter().all(|&end| text.is_char_boundary(end as usize)))?;
        }
        let strings = Strings::from_parts(self.heap, self.ends, self.indices);
        if let Some(indices) = strings.indices() {
            let size = |index: usize| strings.stored(index).len() as u64;
            let longest = (0..strings.distinct()).map(size).max().unwrap_or(0);
            let at_most = longest.saturating_mul(indices.len() as u64);
            budget.take(match budget.has(at_most) {
                true => at_most,
                false => indices.iter().map(|&index| size(index as usize)).sum(),
            })?;
        }
        Ok(strings)
    }
}

/// Where in the data the strings are whose lengths come first; the last one ends it.
fn read_lengths(data: &[u8], count: usize) -> Read<Vec<Range<usize>>> {
    let mut lengths = Vec::new();
    let mut at = delta::integers::<i32>(data, count, &mut lengths)?;
    let mut ranges = Vec::with_capacity(lengths.len());
    for length in lengths {
        let end = at + usize::try_from(length).map_err(|_| GaveUp)?;
        ensure(end <= data.len())?;
        ranges.push(at..end);
        at = end;
    }
    ensure(at == data.len())?;
    Ok(ranges)
}
