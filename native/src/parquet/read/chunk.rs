//! A column chunk to a leaf.

use super::footer::ColumnChunk;
use super::packing::{Run, hybrid, unpack_blocks};
use super::page::{Decompressor, Page};
use super::schema::LeafShape;
use super::values::{Builder, PLAIN};
use super::{Budget, GaveUp, Read, ensure};
use crate::parquet::format::PageType;
use crate::parquet::packing::bit_width;
use crate::values::leaf::{Leaf, Levels};

/// What a value takes beside its bytes: levels, or its index in a dictionary.
const VALUE: u64 = 8;
/// What a list takes for each of its values, at each depth, and for each row.
const LIST_VALUE: u64 = 12;
const LIST_ROW: u64 = 8;

/// Read the pages of a column chunk that has so many rows.
pub fn read(
    file: &[u8],
    chunk: &ColumnChunk,
    shape: &LeafShape,
    rows: u64,
    budget: &mut Budget,
    decompressor: &mut Decompressor,
) -> Read<Leaf> {
    check(chunk, shape, rows, budget)?;
    let count = chunk.values as usize;
    let mut builder = Builder::new(shape, count);
    let mut levels = LevelReader::new(shape, count);
    let mut at = chunk.start;
    while at < chunk.end {
        let is_first = at == chunk.start;
        let page = Page::read(file, chunk, &mut at)?;
        let is_dictionary = page.page_type == PageType::Dictionary;
        ensure(is_dictionary == (is_first && chunk.has_dictionary))?;
        ensure(page.values <= count - levels.slots)?;
        let data = page.decompressed(chunk.codec, budget, decompressor)?;
        if is_dictionary {
            ensure(page.encoding == PLAIN)?; // not by its old name, PLAIN_DICTIONARY
            builder.dictionary(data, page.values, budget)?;
        } else {
            ensure(chunk.encodings.checked_shr(page.encoding as u32).unwrap_or(0) & 1 == 1)?;
            ensure(page.values > 0)?;
            let (values, data) = levels.page(data, page.values)?;
            builder.page(page.encoding, data, values, budget)?;
        }
    }
    ensure(levels.slots == count)?;
    let values = builder.finish(shape, budget)?;
    let levels = levels.finish(rows)?;
    let (max_def, max_rep) = (shape.max_def, shape.max_rep());
    Ok(Leaf { values, levels, max_def, max_rep, rows: rows as usize })
}

/// Check a column chunk as `read` does before it decompresses anything, and take as much.
pub fn skip(
    file: &[u8],
    chunk: &ColumnChunk,
    shape: &LeafShape,
    rows: u64,
    budget: &mut Budget,
) -> Read<()> {
    check(chunk, shape, rows, budget)?;
    let (mut at, mut values) = (chunk.start, 0);
    while at < chunk.end {
        let is_first = at == chunk.start;
        let page = Page::read(file, chunk, &mut at)?;
        let is_dictionary = page.page_type == PageType::Dictionary;
        ensure(is_dictionary == (is_first && chunk.has_dictionary))?;
        values += if is_dictionary { 0 } else { page.values as u64 };
        page.take_memory(budget)?;
    }
    ensure(values == chunk.values)
}

/// Compare what the footer says of a column chunk with its leaf, and take memory for the values.
fn check(chunk: &ColumnChunk, shape: &LeafShape, rows: u64, budget: &mut Budget) -> Read<()> {
    ensure(chunk.physical_type == shape.physical_type as i32)?;
    ensure(rows > 0 && u32::try_from(chunk.values).is_ok())?;
    for (levels, most) in chunk.histograms.iter().zip([shape.max_rep(), shape.max_def]) {
        ensure(matches!(levels, None | Some(0)) || *levels == Some(usize::from(most) + 1))?;
    }
    let depth = u64::from(shape.max_rep());
    ensure(if depth > 0 { chunk.values >= rows } else { chunk.values == rows })?;
    let sized = shape.sized.unwrap_or_default();
    let value = VALUE + LIST_VALUE * depth + shape.arrow_width.max(8);
    let value = value.saturating_add(sized.per_value);
    budget.take(chunk.values.checked_mul(value).ok_or(GaveUp)?)?;
    budget.take(rows.checked_mul(LIST_ROW.saturating_add(sized.per_row)).ok_or(GaveUp)?)
}

/// Reads the levels of a leaf's pages.
struct LevelReader<'s> {
    shape: &'s LeafShape,
    levels: Levels,
    slots: usize,
}

impl<'s> LevelReader<'s> {
    fn new(shape: &'s LeafShape, count: usize) -> Self {
        let levels = if shape.max_def == 0 {
            Levels::Required
        } else if shape.is_flat {
            Levels::Flat { nulls: Vec::new() }
        } else {
            let rep = (shape.max_rep() > 0).then(|| Vec::with_capacity(count));
            Levels::Nested { def: Vec::with_capacity(count), rep }
        };
        Self { shape, levels, slots: 0 }
    }

    /// Read a page's levels; return how many of its slots have values, and the bytes of these.
    fn page<'d>(&mut self, mut data: &'d [u8], slots: usize) -> Read<(usize, &'d [u8])> {
        let first = self.slots;
        self.slots += slots;
        match &mut self.levels {
            Levels::Required => Ok((slots, data)),
            Levels::Flat { nulls } => {
                let runs = split_levels(&mut data)?;
                let before = nulls.len();
                read_nulls(runs, slots, first, nulls)?;
                Ok((slots - (nulls.len() - before), data))
            }
            Levels::Nested { def, rep } => {
                if let Some(rep) = rep {
                    let max_rep = self.shape.max_rep();
                    read_levels(split_levels(&mut data)?, max_rep, slots, rep)?;
                }
                let max_def = self.shape.max_def;
                read_levels(split_levels(&mut data)?, max_def, slots, def)?;
                let values = def[first..].iter().filter(|&&level| level == max_def).count();
                Ok((values, data))
            }
        }
    }

    /// Check that the levels are those of so many rows.
    fn finish(self, rows: u64) -> Read<Levels> {
        if let Levels::Nested { rep: Some(rep), .. } = &self.levels
            && rep.iter().all(|&level| level == 0)
        {
            ensure(rep.len() as u64 == rows)?;
        } else if let Levels::Nested { def, rep: Some(rep) } = &self.levels {
            // What goes on with a list comes after one that has elements, and is one.
            let least = [&[0], &*self.shape.element_defs].concat();
            let (mut row_count, mut last, mut are_good) = (0, 0, true);
            for (&def, &rep) in def.iter().zip(rep) {
                row_count += u64::from(rep == 0);
                are_good &= def.min(last) >= least[usize::from(rep)];
                last = def;
            }
            ensure(are_good)?;
            ensure(row_count == rows)?;
        }
        Ok(self.levels)
    }
}

/// Take the levels off the front of a page: their number of bytes is before them.
fn split_levels<'d>(data: &mut &'d [u8]) -> Read<&'d [u8]> {
    let (size, rest) = data.split_first_chunk::<4>().ok_or(GaveUp)?;
    let levels = rest.get(..u32::from_le_bytes(*size) as usize).ok_or(GaveUp)?;
    *data = &rest[levels.len()..];
    Ok(levels)
}

fn read_levels(runs: &[u8], most: u8, count: usize, out: &mut Vec<u8>) -> Read<()> {
    let width = bit_width(most.into());
    hybrid(runs, width, count, |run| match run {
        Run::Equal(level, length) => {
            ensure(level <= u32::from(most))?;
            out.resize(out.len() + length, level as u8);
            Ok(())
        }
        Run::Packed(packed, length) => {
            let mut greatest = 0;
            unpack_blocks(packed, width, length, |block| {
                greatest = block.iter().fold(greatest, |greatest, &level| level.max(greatest));
                out.extend(block.iter().map(|&level| level as u8));
                Ok(())
            })?;
            ensure(greatest <= u32::from(most))
        }
    })
}

/// Read levels of one bit; append the numbers of the slots that have 0, counted from `first`.
fn read_nulls(runs: &[u8], count: usize, first: usize, nulls: &mut Vec<u32>) -> Read<()> {
    let mut slot = first as u32; // chunks have at most 2^32 slots
    hybrid(runs, 1, count, |run| {
        match run {
            Run::Equal(level, length) => {
                ensure(level <= 1)?;
                let end = slot + length as u32;
                if level == 0 {
                    nulls.extend(slot..end);
                }
                slot = end;
            }
            Run::Packed(packed, length) => {
                for (place, &byte) in packed[..length.div_ceil(8)].iter().enumerate() {
                    let bits = (length - 8 * place).min(8);
                    let mut absent = !byte & (0xff >> (8 - bits));
                    while absent != 0 {
                        nulls.push(slot + (8 * place) as u32 + absent.trailing_zeros());
                        absent &= absent - 1;
                    }
                }
                slot += length as u32;
            }
        }
        Ok(())
    })
}
