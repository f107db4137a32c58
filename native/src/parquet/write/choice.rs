//! Which encoding suits a column: the candidates are tried on its first rows.

use super::Error;
use super::chunk::Chunk;
use super::column::{Choice, Column, Order};
use super::compression::Compressor;
use super::levels::{Slots, Span};
use crate::parquet::delta::Widths;
use crate::parquet::format::{Codec, Encoding, PhysicalType};

/// Reading text takes six times as long without a dictionary. Another encoding must save a byte for
/// every so many rows.
const WORTH_ROWS: usize = 100;

/// The compressor must save one byte of so many.
const WORTH_COMPRESSING: usize = 64;
/// And so many at least: compressing a few hundred bytes takes more time than encoding them does.
const PRICE: usize = 16;

/// Find the choice with the fewest bytes for the slots of a span, whose values are `column`.
pub fn choose<C: Column>(
    chunk: &mut Chunk,
    compressor: &mut Compressor,
    column: C,
    slots: Slots<'_>,
    span: &Span,
) -> Result<Choice, Error> {
    let is_text = column.physical_type() == PhysicalType::ByteArray;
    let compresses = compressor.codec() != Codec::Uncompressed;
    let mut best = Choice::PLAIN;
    let mut least = usize::MAX;
    let mut last = Trial { encoding: Encoding::Plain, encoded_size: 0, size: 0 };
    for &choice in [Choice::PLAIN].iter().chain(C::CANDIDATES) {
        let is_wider = choice.widths == Widths::Bytes;
        // Only a compressor makes up for wider integers, and not for a bad encoding.
        if is_wider
            && (!compresses || last.encoding != choice.encoding || last.size / 5 > least / 4)
        {
            continue;
        }
        chunk.encode(column, slots, span, choice, Order::Undefined)?;
        if choice.encoding == Encoding::RleDictionary && !chunk.pages.has_dictionary() {
            continue;
        }
        let encoded_size = chunk.pages.encoded_size();
        if is_wider && encoded_size == last.encoded_size {
            continue; // the narrowest widths are whole bytes
        }
        let compressed_size = chunk.pages.compressed_size(compressor)?;
        let saved = encoded_size - compressed_size;
        let is_worth_it = saved >= PRICE.max(encoded_size / WORTH_COMPRESSING);
        let compresses = is_worth_it || encoded_size < compressor.least; // too few to tell
        let mut size = if is_worth_it { compressed_size + PRICE } else { encoded_size };
        if is_text && choice.encoding != Encoding::RleDictionary {
            size += span.slots.len() / WORTH_ROWS;
        }
        last = Trial { encoding: choice.encoding, encoded_size, size };
        if size < least {
            (best, least) = (Choice { compresses, ..choice }, size);
        }
    }
    Ok(best)
}

/// How a candidate did.
struct Trial {
    encoding: Encoding,
    encoded_size: usize,
    size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::packing::Runs;
    use crate::parquet::write::compression::Compression;

    fn compresses(values: &[i64]) -> bool {
        let mut chunk = Chunk::new(Runs::Long);
        let mut compressor = Compressor::new(Compression::Zstd, 128).unwrap();
        let span = Span { slots: 0..values.len(), values: 0..values.len() };
        choose(&mut chunk, &mut compressor, values, Slots::REQUIRED, &span).unwrap().compresses
    }

    #[test]
    fn what_does_not_become_smaller_is_not_compressed() {
        let noise = |i: i64| crate::values::strings::hash(&i.to_le_bytes()) as i64;
        assert!(!compresses(&(0..1_000).map(noise).collect::<Vec<_>>()));
        assert!(compresses(&(0..1_000).map(|i| noise(i % 10)).collect::<Vec<_>>()));
        assert!(!compresses(&(0..16).map(noise).collect::<Vec<_>>()));
        assert!(compresses(&(0..15).map(noise).collect::<Vec<_>>()), "too few to tell");
    }
}
