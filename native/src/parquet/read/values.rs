//! Pages to values, without nulls.

use std::ops::Range;

use super::delta;
use super::packing::{Run, hybrid, unpack};
use super::schema::LeafShape;
use super::{Budget, GaveUp, Read, ensure};
use crate::leaf::{Bits, Values};
use crate::parquet::format::{Encoding, PhysicalType};
use crate::strings::Strings;

/// What Arrow takes for a value in one of the delta encodings of bytes.
const LENGTHS: u64 = 24;
const DICTIONARY_ENTRY: u64 = 16;
const MAX_HEAP: usize = i32::MAX as usize;

const PLAIN: i32 = Encoding::Plain as i32;
const RLE: i32 = Encoding::Rle as i32;
const DELTA_BINARY_PACKED: i32 = Encoding::DeltaBinaryPacked as i32;
const DELTA_LENGTH_BYTE_ARRAY: i32 = Encoding::DeltaLengthByteArray as i32;
const DELTA_BYTE_ARRAY: i32 = Encoding::DeltaByteArray as i32;
const RLE_DICTIONARY: i32 = Encoding::RleDictionary as i32;

/// The values of a leaf, page by page.
pub enum Builder {
    Bool(Bits),
    I32(Numbers<i32>),
    I64(Numbers<i64>),
    F32(Numbers<f32>),
    F64(Numbers<f64>),
    Strings(ByteStrings),
    Fixed(FixedBytes),
}

impl Builder {
    /// For a leaf of at most `count` values, whose memory was taken from the budget.
    pub fn new(shape: &LeafShape, count: usize) -> Self {
        match shape.physical_type {
            PhysicalType::Boolean => Self::Bool(Bits::default()),
            PhysicalType::Int32 => Self::I32(Numbers::new(count)),
            PhysicalType::Int64 => Self::I64(Numbers::new(count)),
            PhysicalType::Float => Self::F32(Numbers::new(count)),
            PhysicalType::Double => Self::F64(Numbers::new(count)),
            PhysicalType::ByteArray => Self::Strings(ByteStrings::default()),
            PhysicalType::FixedLenByteArray => Self::Fixed(FixedBytes {
                width: shape.width,
                values: Vec::with_capacity(count * shape.width),
                dictionary: None,
            }),
        }
    }

    /// Read a dictionary of so many entries: before any page, and at most once.
    pub fn dictionary(&mut self, data: &[u8], count: usize, budget: &mut Budget) -> Read<()> {
        budget.take(DICTIONARY_ENTRY * count as u64)?;
        match self {
            Self::Bool(_) => Err(GaveUp),
            Self::I32(numbers) => numbers.dictionary(data, count),
            Self::I64(numbers) => numbers.dictionary(data, count),
            Self::F32(numbers) => numbers.dictionary(data, count),
            Self::F64(numbers) => numbers.dictionary(data, count),
            Self::Strings(strings) => {
                strings.plain(data, count)?;
                strings.dictionary = count;
                strings.indices = Some(Vec::new());
                Ok(())
            }
            Self::Fixed(fixed) => {
                ensure(Some(data.len()) == count.checked_mul(fixed.width))?;
                fixed.dictionary = Some(data.to_vec());
                Ok(())
            }
        }
    }

    /// Read `count` values, which end with the data.
    pub fn page(
        &mut self,
        encoding: i32,
        data: &[u8],
        count: usize,
        budget: &mut Budget,
    ) -> Read<()> {
        match self {
            Self::Bool(bits) => read_booleans(bits, encoding, data, count),
            Self::I32(numbers) => match encoding {
                DELTA_BINARY_PACKED => numbers.deltas(data, count),
                _ => numbers.page(encoding, data, count),
            },
            Self::I64(numbers) => match encoding {
                DELTA_BINARY_PACKED => numbers.deltas(data, count),
                _ => numbers.page(encoding, data, count),
            },
            Self::F32(numbers) => numbers.page(encoding, data, count),
            Self::F64(numbers) => numbers.page(encoding, data, count),
            Self::Strings(strings) => strings.page(encoding, data, count, budget),
            Self::Fixed(fixed) => fixed.page(encoding, data, count),
        }
    }

    /// Check what the leaf's type demands, and return the values.
    pub fn finish(self, shape: &LeafShape, budget: &mut Budget) -> Read<Values> {
        Ok(match self {
            Self::Bool(bits) => Values::Bool(bits),
            Self::I32(numbers) => {
                if let Some((least, most)) = shape.bounds {
                    ensure(numbers.values.iter().all(|value| (least..=most).contains(value)))?;
                }
                Values::I32(numbers.values)
            }
            Self::I64(numbers) => Values::I64(numbers.values),
            Self::F32(numbers) => Values::F32(numbers.values),
            Self::F64(numbers) => Values::F64(numbers.values),
            Self::Strings(strings) => Values::Strings(strings.finish(shape.is_text, budget)?),
            Self::Fixed(fixed) => Values::Fixed { width: fixed.width, bytes: fixed.values },
        })
    }
}

/// Read the indices of `count` values; `each` gets them, or one and how often it comes in turn.
fn indices(
    data: &[u8],
    count: usize,
    entries: usize,
    mut each: impl FnMut(usize, usize),
) -> Read<()> {
    let Some((&width, runs)) = data.split_first() else {
        return ensure(count == 0);
    };
    let width = usize::from(width);
    ensure(width <= 32 && (count == 0 || entries > 0))?;
    hybrid(runs, width, count, |run| match run {
        Run::Equal(index, length) => {
            ensure((index as usize) < entries)?;
            each(index as usize, length);
            Ok(())
        }
        Run::Packed(packed, length) => {
            let mut greatest = 0;
            unpack(packed, width, length, |index| {
                greatest = greatest.max(index);
                each((index as usize).min(entries - 1), 1);
            })?;
            ensure((greatest as usize) < entries)
        }
    })
}

fn read_booleans(bits: &mut Bits, encoding: i32, data: &[u8], count: usize) -> Read<()> {
    match encoding {
        PLAIN => {
            ensure(data.len() == count.div_ceil(8))?;
            unpack(data, 1, count, |bit| bits.push(bit == 1))
        }
        RLE => {
            let (size, runs) = data.split_first_chunk::<4>().ok_or(GaveUp)?;
            let size = u32::from_le_bytes(*size) as usize;
            ensure(size == runs.len())?;
            hybrid(runs, 1, count, |run| match run {
                Run::Equal(bit, length) => {
                    ensure(bit <= 1)?;
                    (0..length).for_each(|_| bits.push(bit == 1));
                    Ok(())
                }
                Run::Packed(packed, length) => unpack(packed, 1, length, |bit| bits.push(bit == 1)),
            })
        }
        _ => Err(GaveUp),
    }
}

pub trait Number: Copy {
    /// Append the numbers in little-endian bytes, if there are exactly so many.
    fn read_all(data: &[u8], count: usize, out: &mut Vec<Self>) -> Read<()>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            fn read_all(data: &[u8], count: usize, out: &mut Vec<Self>) -> Read<()> {
                let (numbers, rest) = data.as_chunks::<{ size_of::<$number>() }>();
                ensure(rest.is_empty() && numbers.len() == count)?;
                out.extend(numbers.iter().map(|bytes| <$number>::from_le_bytes(*bytes)));
                Ok(())
            }
        }
    )*};
}

numbers!(i32 i64 f32 f64);

pub struct Numbers<N> {
    values: Vec<N>,
    dictionary: Option<Vec<N>>,
}

impl<N: Number> Numbers<N> {
    fn new(count: usize) -> Self {
        Self { values: Vec::with_capacity(count), dictionary: None }
    }

    fn dictionary(&mut self, data: &[u8], count: usize) -> Read<()> {
        let mut entries = Vec::new();
        N::read_all(data, count, &mut entries)?;
        self.dictionary = Some(entries);
        Ok(())
    }

    fn page(&mut self, encoding: i32, data: &[u8], count: usize) -> Read<()> {
        let values = &mut self.values;
        match encoding {
            PLAIN => N::read_all(data, count, values),
            RLE_DICTIONARY => {
                let entries = self.dictionary.as_ref().ok_or(GaveUp)?;
                indices(data, count, entries.len(), |index, times| match times {
                    1 => values.push(entries[index]),
                    _ => values.resize(values.len() + times, entries[index]),
                })
            }
            _ => Err(GaveUp),
        }
    }
}

impl<N: Number + delta::Integer> Numbers<N> {
    fn deltas(&mut self, data: &[u8], count: usize) -> Read<()> {
        ensure(delta::integers(data, count, &mut self.values)? == data.len())
    }
}

pub struct FixedBytes {
    width: usize,
    values: Vec<u8>,
    dictionary: Option<Vec<u8>>,
}

impl FixedBytes {
    fn page(&mut self, encoding: i32, data: &[u8], count: usize) -> Read<()> {
        let (width, values) = (self.width, &mut self.values);
        match encoding {
            PLAIN => {
                ensure(Some(data.len()) == count.checked_mul(width))?;
                values.extend_from_slice(data);
                Ok(())
            }
            RLE_DICTIONARY => {
                let entries = self.dictionary.as_ref().ok_or(GaveUp)?;
                indices(data, count, entries.len() / width, |index, times| {
                    let entry = &entries[index * width..][..width];
                    (0..times).for_each(|_| values.extend_from_slice(entry));
                })
            }
            _ => Err(GaveUp),
        }
    }
}

/// Byte strings: those of the dictionary first, then those that pages hold themselves.
#[derive(Default)]
pub struct ByteStrings {
    heap: Vec<u8>,
    ends: Vec<u32>,
    /// The entries of the dictionary.
    dictionary: usize,
    /// With a dictionary: each value's number among all.
    indices: Option<Vec<u32>>,
}

impl ByteStrings {
    fn page(&mut self, encoding: i32, data: &[u8], count: usize, budget: &mut Budget) -> Read<()> {
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
                return indices(data, count, self.dictionary, |index, times| match times {
                    1 => values.push(index as u32),
                    _ => values.resize(values.len() + times, index as u32),
                });
            }
            _ => return Err(GaveUp),
        }
        if let Some(indices) = &mut self.indices {
            indices.extend(before as u32..self.ends.len() as u32);
        }
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

    fn finish(self, is_text: bool, budget: &mut Budget) -> Read<Strings> {
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
    let mut found = Vec::with_capacity(lengths.len());
    for length in lengths {
        let end = at + usize::try_from(length).map_err(|_| GaveUp)?;
        ensure(end <= data.len())?;
        found.push(at..end);
        at = end;
    }
    ensure(at == data.len())?;
    Ok(found)
}
