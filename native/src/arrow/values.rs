//! The values of a leaf to the buffers of an array, with room for its nulls.

#![forbid(unsafe_code)]

use super::Buffer;
use crate::parquet::read::{GaveUp, Read, ensure};
use crate::values::leaf::{Bits, Values};
use crate::values::schema::Type;
use crate::values::strings::Strings;

/// Strings up to so many bytes are copied without a call, and with what stands behind them.
const SHORT: usize = 16;

/// The slots of an array, and which of them have values.
pub struct Slots {
    pub len: usize,
    pub nulls: usize,
    /// None: all.
    pub present: Option<Bits>,
}

impl Slots {
    pub fn all(len: usize) -> Self {
        Self { len, nulls: 0, present: None }
    }

    /// All but these, in ascending order.
    pub fn without(len: usize, nulls: &[u32]) -> Self {
        if nulls.is_empty() {
            return Self::all(len);
        }
        let mut bytes = vec![0xff; len.div_ceil(8)];
        for &null in nulls {
            bytes[null as usize / 8] &= !(1 << (null % 8));
        }
        Self { len, nulls: nulls.len(), present: Some(Bits::from_bytes(bytes, len)) }
    }

    /// Those whose level is at least `least`.
    pub fn of_levels(levels: &[u8], least: u8) -> Self {
        let bits = levels.chunks(8).map(|levels| {
            let bit = |(place, &level): (usize, &u8)| u8::from(level >= least) << place;
            levels.iter().enumerate().map(bit).fold(0, |byte, bit| byte | bit)
        });
        Self::of(Bits::from_bytes(bits.collect(), levels.len()))
    }

    pub fn of(present: Bits) -> Self {
        let len = present.len();
        let values: usize = present.bytes().iter().map(|byte| byte.count_ones() as usize).sum();
        let nulls = len - values;
        Self { len, nulls, present: (nulls > 0).then_some(present) }
    }

    fn values(&self) -> usize {
        self.len - self.nulls
    }
}

/// The buffers of a leaf beside its validity; the values are taken from it.
pub fn buffers(
    data_type: &Type,
    bits: usize,
    values: &mut Values,
    slots: &Slots,
) -> Read<Vec<Buffer>> {
    ensure(values.len() == slots.values())?;
    let none = values.none();
    Ok(match std::mem::replace(values, none) {
        Values::Bool(bools) => vec![booleans(bools, slots)],
        Values::I32(numbers) => vec![match bits {
            8 => spread(numbers.iter().map(|&number| number as u8).collect(), slots),
            16 => spread(numbers.iter().map(|&number| number as u16).collect(), slots),
            _ => spread(numbers, slots),
        }],
        Values::I64(numbers) => vec![spread(numbers, slots)],
        Values::F32(numbers) => vec![spread(numbers, slots)],
        Values::F64(numbers) => vec![spread(numbers, slots)],
        Values::Strings(strings) => {
            let (ends, bytes) = texts(strings, slots)?;
            vec![offsets(ends, bits)?, Box::new(bytes)]
        }
        Values::Fixed { width, bytes } => vec![match data_type {
            Type::Decimal(_) => Box::new(decimals(&bytes, width, bits / 8, slots)),
            _ => Box::new(spread_bytes(bytes, width, slots)),
        }],
    })
}

/// Where lists or strings begin, and the last one ends, in integers of so many bits.
pub fn offsets(starts: Vec<u32>, bits: usize) -> Read<Buffer> {
    if bits == 64 {
        return Ok(Box::new(starts.into_iter().map(i64::from).collect::<Vec<_>>()));
    }
    ensure(starts.last().is_none_or(|&end| i32::try_from(end).is_ok()))?;
    Ok(Box::new(starts))
}

fn booleans(bools: Bits, slots: &Slots) -> Buffer {
    let Some(present) = &slots.present else { return Box::new(bools.into_bytes()) };
    let (mut spread, mut value) = (Bits::with_capacity(slots.len), 0);
    for slot in 0..slots.len {
        let is_here = present.get(slot);
        spread.push(is_here && bools.get(value));
        value += usize::from(is_here);
    }
    Box::new(spread.into_bytes())
}

/// Move values to their slots, in place: the last ones first, eight at a time where none is missing.
fn spread<T: Copy + Default + Send + 'static>(mut values: Vec<T>, slots: &Slots) -> Buffer {
    if let Some(present) = &slots.present {
        let mut from = values.len();
        values.resize(slots.len, T::default());
        for (place, &byte) in present.bytes().iter().enumerate().rev() {
            let first = 8 * place;
            if byte == 0xff {
                from -= 8;
                let eight = *values[from..].first_chunk::<8>().expect("as many as there are bits");
                values[first..first + 8].copy_from_slice(&eight);
                continue;
            }
            for bit in (0..8.min(slots.len - first)).rev() {
                let is_here = byte >> bit & 1 == 1;
                from -= usize::from(is_here);
                values[first + bit] = if is_here { values[from] } else { T::default() };
            }
        }
    }
    Box::new(values)
}

fn spread_bytes(bytes: Vec<u8>, width: usize, slots: &Slots) -> Vec<u8> {
    let Some(present) = &slots.present else { return bytes };
    let mut spread = vec![0; width * slots.len];
    let mut values = bytes.chunks_exact(width);
    for (slot, place) in spread.chunks_exact_mut(width).enumerate() {
        if present.get(slot)
            && let Some(value) = values.next()
        {
            place.copy_from_slice(value);
        }
    }
    spread
}

/// Parquet's decimals are big-endian, and as short as their digits permit.
fn decimals(bytes: &[u8], width: usize, arrow_width: usize, slots: &Slots) -> Vec<u8> {
    let mut out = vec![0; arrow_width * slots.len];
    let mut values = bytes.chunks_exact(width);
    for (slot, place) in out.chunks_exact_mut(arrow_width).enumerate() {
        if slots.present.as_ref().is_none_or(|present| present.get(slot))
            && let Some(value) = values.next()
        {
            place.fill(if value[0] >> 7 == 1 { 0xff } else { 0 });
            for (to, &from) in place.iter_mut().zip(value.iter().rev()) {
                *to = from;
            }
        }
    }
    out
}

/// Where each string begins, and the last one ends, and their bytes. A null has none.
fn texts(strings: Strings, slots: &Slots) -> Read<(Vec<u32>, Vec<u8>)> {
    let (mut heap, mut ends, indices) = strings.into_parts();
    let Some(indices) = indices else {
        ends.insert(0, 0);
        let sizes = ends.windows(2).map(|ends| ends[1] - ends[0]);
        return match slots.present {
            Some(_) => Ok((starts(sizes, slots)?, heap)),
            None => Ok((ends, heap)),
        };
    };
    let mut begin = 0;
    let begins = |end: u32| (std::mem::replace(&mut begin, end), end);
    let stored: Vec<(u32, u32)> =
        ends.into_iter().map(begins).map(|(begin, end)| (begin, end - begin)).collect();
    let starts = starts(indices.iter().map(|&index| stored[index as usize].1), slots)?;
    if let [(_, size)] = stored[..] {
        return Ok((starts, heap[..size as usize].repeat(indices.len())));
    }
    let size = *starts.last().ok_or(GaveUp)? as usize;
    let mut bytes = vec![0; size + SHORT];
    let mut at = 0;
    heap.resize(heap.len() + SHORT, 0);
    let head = |&(begin, _): &(u32, u32)| heap[begin as usize..].first_chunk::<SHORT>().copied();
    let heads: Vec<[u8; SHORT]> = stored.iter().filter_map(head).collect();
    for &index in &indices {
        let (begin, size) = stored[index as usize];
        let (begin, size) = (begin as usize, size as usize);
        bytes[at..at + SHORT].copy_from_slice(&heads[index as usize]);
        if size > SHORT {
            bytes[at..at + size].copy_from_slice(&heap[begin..begin + size]);
        }
        at += size;
    }
    bytes.truncate(size);
    Ok((starts, bytes))
}

/// Where slots begin whose values have these sizes.
fn starts(mut sizes: impl Iterator<Item = u32>, slots: &Slots) -> Read<Vec<u32>> {
    let mut starts = Vec::with_capacity(slots.len + 1);
    let mut end = 0u64;
    starts.push(0);
    match &slots.present {
        None => starts.extend(sizes.map(|size| {
            end += u64::from(size);
            end as u32
        })),
        Some(present) => {
            for slot in 0..slots.len {
                if present.get(slot) {
                    end += u64::from(sizes.next().ok_or(GaveUp)?);
                }
                starts.push(end as u32);
            }
        }
    }
    ensure(u32::try_from(end).is_ok())?;
    Ok(starts)
}
