//! Pages to values, without nulls.

use super::delta;
use super::packing::{Run, hybrid, unpack, unpack_blocks};
use super::schema::{Allowed, LeafShape};
use super::strings::ByteStrings;
use super::{Budget, GaveUp, Read, ensure};
use crate::parquet::format::{Encoding, PhysicalType};
use crate::values::leaf::{Bits, Values};

const DICTIONARY_ENTRY: u64 = 16;

pub const PLAIN: i32 = Encoding::Plain as i32;
const RLE: i32 = Encoding::Rle as i32;
const DELTA_BINARY_PACKED: i32 = Encoding::DeltaBinaryPacked as i32;
pub const DELTA_LENGTH_BYTE_ARRAY: i32 = Encoding::DeltaLengthByteArray as i32;
pub const DELTA_BYTE_ARRAY: i32 = Encoding::DeltaByteArray as i32;
pub const RLE_DICTIONARY: i32 = Encoding::RleDictionary as i32;

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
            PhysicalType::ByteArray => Self::Strings(ByteStrings::new(count)),
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
            Self::Strings(strings) => strings.dictionary(data, count),
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
                if let Allowed::Int(least, most) = shape.allowed {
                    ensure(are_all(&numbers.values, |value| (least..=most).contains(&value)))?;
                }
                Values::I32(numbers.values)
            }
            Self::I64(numbers) => {
                if let Allowed::Long(least, most) = shape.allowed {
                    ensure(are_all(&numbers.values, |value| (least..=most).contains(&value)))?;
                }
                Values::I64(numbers.values)
            }
            Self::F32(numbers) => Values::F32(numbers.values),
            Self::F64(numbers) => Values::F64(numbers.values),
            Self::Strings(strings) => {
                Values::Strings(strings.finish(shape.allowed == Allowed::Utf8, budget)?)
            }
            Self::Fixed(fixed) => {
                if let Allowed::Digits(decimals) = &shape.allowed {
                    ensure(decimals.all_fit(&fixed.values))?;
                }
                Values::Fixed { width: fixed.width, bytes: fixed.values }
            }
        })
    }
}

/// Some of the indices of values, in turn.
pub enum Indices<'a> {
    Each(&'a [u32]),
    /// One, and how often it comes.
    Equal(u32, usize),
}

/// Read the indices of `count` values, each of which has an entry.
pub fn indices(
    data: &[u8],
    count: usize,
    entries: usize,
    mut take: impl FnMut(Indices<'_>),
) -> Read<()> {
    let Some((&width, runs)) = data.split_first() else {
        return ensure(count == 0);
    };
    let width = usize::from(width);
    ensure(width <= 32 && (count == 0 || entries > 0))?;
    hybrid(runs, width, count, |run| match run {
        Run::Equal(index, length) => {
            ensure((index as usize) < entries)?;
            take(Indices::Equal(index, length));
            Ok(())
        }
        Run::Packed(packed, length) => unpack_blocks(packed, width, length, |block| {
            let greatest = block.iter().fold(0, |greatest, &index| index.max(greatest));
            ensure((greatest as usize) < entries)?;
            take(Indices::Each(block));
            Ok(())
        }),
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

/// Whether something is so of all values; it looks at all of them, for that is quicker.
fn are_all<N: Copy>(values: &[N], is_so: impl Fn(N) -> bool) -> bool {
    values.iter().fold(true, |so_far, &value| so_far & is_so(value))
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
                indices(data, count, entries.len(), |some| match some {
                    Indices::Each(block) => {
                        values.extend(block.iter().map(|&index| entries[index as usize]));
                    }
                    Indices::Equal(index, times) => {
                        values.resize(values.len() + times, entries[index as usize]);
                    }
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
                let entry = |index: u32| &entries[index as usize * width..][..width];
                indices(data, count, entries.len() / width, |some| match some {
                    Indices::Each(block) => {
                        block.iter().for_each(|&index| values.extend_from_slice(entry(index)));
                    }
                    Indices::Equal(index, times) => {
                        (0..times).for_each(|_| values.extend_from_slice(entry(index)));
                    }
                })
            }
            _ => Err(GaveUp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::delta::{Widths, put_lengths, put_suffixes};
    use crate::parquet::packing::{Runs, bit_width, hybrid as put_hybrid};

    fn shape(physical_type: PhysicalType, is_text: bool) -> LeafShape {
        LeafShape {
            physical_type,
            width: 2,
            arrow_width: 2,
            allowed: if is_text { Allowed::Utf8 } else { Allowed::All },
            max_def: 0,
            element_defs: vec![],
            is_flat: false,
            sized: None,
        }
    }

    /// Read a dictionary, if there is one, and then pages: encodings, bytes and counts.
    fn read(
        shape: &LeafShape,
        dictionary: Option<(&[u8], usize)>,
        pages: &[(i32, &[u8], usize)],
    ) -> Read<Values> {
        let mut budget = Budget::new(1 << 20);
        let mut builder = Builder::new(shape, 100);
        if let Some((data, count)) = dictionary {
            builder.dictionary(data, count, &mut budget)?;
        }
        for &(encoding, data, count) in pages {
            builder.page(encoding, data, count, &mut budget)?;
        }
        builder.finish(shape, &mut budget)
    }

    fn strings(values: &Values) -> Vec<&[u8]> {
        let Values::Strings(strings) = values else { panic!("no strings") };
        (0..strings.len()).map(|value| strings.get(value)).collect()
    }

    fn plain(strings: &[&[u8]]) -> Vec<u8> {
        let with_length = |string: &&[u8]| [&(string.len() as u32).to_le_bytes(), *string].concat();
        strings.iter().flat_map(with_length).collect()
    }

    fn indices_of(indices: &[u32], entries: usize) -> Vec<u8> {
        let width = bit_width(entries as u64 - 1).max(1);
        let mut out = vec![width as u8];
        put_hybrid(indices, width, Runs::Short, &mut out);
        out
    }

    const STRINGS: [&[u8]; 5] = [b"", b"abcdefghij", b"abcdefghxy", b"abc", b"\xc3\xa9"];

    #[test]
    fn strings_in_all_encodings() {
        let shape = shape(PhysicalType::ByteArray, true);
        let data = plain(&STRINGS);
        let mut lengths = Vec::new();
        let (mut delta_lengths, mut suffixes) = (Vec::new(), Vec::new());
        put_lengths(STRINGS.into_iter(), Widths::Bits, &mut lengths, &mut delta_lengths);
        STRINGS.iter().for_each(|string| delta_lengths.extend_from_slice(string));
        put_suffixes(STRINGS.into_iter(), Widths::Bits, &mut lengths, &mut suffixes);
        for (encoding, data) in
            [(PLAIN, data), (DELTA_LENGTH_BYTE_ARRAY, delta_lengths), (DELTA_BYTE_ARRAY, suffixes)]
        {
            let values = read(&shape, None, &[(encoding, &data, 5), (encoding, &data, 5)]).unwrap();
            assert_eq!(strings(&values), [STRINGS, STRINGS].concat());
            assert!(read(&shape, None, &[(encoding, &data, 4)]).is_err());
            assert!(read(&shape, None, &[(encoding, &data, 6)]).is_err());
            for end in 0..data.len() {
                assert!(read(&shape, None, &[(encoding, &data[..end], 5)]).is_err());
            }
        }
    }

    #[test]
    fn pages_without_the_dictionary_may_follow_those_with_it() {
        let shape = shape(PhysicalType::ByteArray, false);
        let dictionary = plain(&STRINGS);
        let indices = indices_of(&[4, 0, 0, 1], 5);
        let more = plain(&[b"more", b"abc"]);
        let pages = [(RLE_DICTIONARY, &indices[..], 4), (PLAIN, &more[..], 2)];
        let values = read(&shape, Some((&dictionary, 5)), &pages).unwrap();
        let expected: [&[u8]; 6] = [b"\xc3\xa9", b"", b"", b"abcdefghij", b"more", b"abc"];
        assert_eq!(strings(&values), expected);
    }

    #[test]
    fn an_index_without_an_entry_is_given_up() {
        let shape = shape(PhysicalType::ByteArray, true);
        let dictionary = plain(&STRINGS[..4]);
        for last in [3, 4] {
            let packed = indices_of(&[0, 1, 2, last], 8);
            let run = indices_of(&[last; 20], 8);
            for (data, count) in [(packed, 4), (run, 20)] {
                let result =
                    read(&shape, Some((&dictionary, 4)), &[(RLE_DICTIONARY, &data, count)]);
                assert_eq!(result.is_ok(), last == 3);
            }
        }
        assert!(read(&shape, None, &[(RLE_DICTIONARY, &[1, 3, 0], 1)]).is_err());
        assert!(read(&shape, Some((&[], 0)), &[(RLE_DICTIONARY, &[0, 2], 1)]).is_err());
        assert!(read(&shape, Some((&[], 0)), &[(RLE_DICTIONARY, &[], 0)]).is_ok());
    }

    #[test]
    fn text_is_utf8_string_by_string() {
        let halves = plain(&[b"\xc3", b"\xa9"]);
        let pages = [(PLAIN, &halves[..], 2)];
        assert!(read(&shape(PhysicalType::ByteArray, false), None, &pages).is_ok());
        assert!(read(&shape(PhysicalType::ByteArray, true), None, &pages).is_err());
    }

    #[test]
    fn numbers_in_all_encodings() {
        let shape = shape(PhysicalType::Int32, false);
        let data: Vec<u8> = [7i32, -1].iter().flat_map(|number| number.to_le_bytes()).collect();
        let indices = indices_of(&[1, 0, 1], 2);
        let mut deltas = Vec::new();
        crate::parquet::delta::put_integers(&[5i32, 3], Widths::Bits, &mut deltas);
        let pages = [
            (RLE_DICTIONARY, &indices[..], 3),
            (PLAIN, &data[..], 2),
            (DELTA_BINARY_PACKED, &deltas[..], 2),
        ];
        let Ok(Values::I32(numbers)) = read(&shape, Some((&data, 2)), &pages) else { panic!() };
        assert_eq!(numbers, [-1, 7, -1, 7, -1, 5, 3]);
        let small = LeafShape { allowed: Allowed::Int(-1, 6), ..shape };
        assert!(read(&small, None, &[(PLAIN, &data, 2)]).is_err());
        assert!(read(&small, None, &[(PLAIN, &data[..7], 2)]).is_err());
        assert!(read(&small, None, &[(DELTA_LENGTH_BYTE_ARRAY, &data, 2)]).is_err());
    }

    #[test]
    fn booleans_and_bytes_of_fixed_size() {
        let bools = shape(PhysicalType::Boolean, false);
        let runs = [2, 0, 0, 0, 3, 0b101];
        let pages = [(PLAIN, &[0b110u8][..], 3), (RLE, &runs[..], 3)];
        let Ok(Values::Bool(bits)) = read(&bools, None, &pages) else { panic!() };
        let flags: Vec<bool> = (0..bits.len()).map(|bit| bits.get(bit)).collect();
        assert_eq!(flags, [false, true, true, true, false, true]);
        let fixed = shape(PhysicalType::FixedLenByteArray, false);
        let indices = indices_of(&[1, 1, 0], 2);
        let pages = [(RLE_DICTIONARY, &indices[..], 3), (PLAIN, &b"xy"[..], 1)];
        let values = read(&fixed, Some((b"abcd", 2)), &pages);
        let Ok(Values::Fixed { bytes, .. }) = values else { panic!() };
        assert_eq!(bytes, b"cdcdabxy");
        assert!(read(&fixed, None, &[(PLAIN, b"abc", 1)]).is_err());
    }
}
