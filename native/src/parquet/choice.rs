//! Which encoding suits a column: the candidates are tried on its first rows.

use super::Error;
use super::chunk::Chunk;
use super::column::{Choice, Column, Order};
use super::compression::Compressor;
use super::format::{Encoding, PhysicalType};
use super::levels::{Slots, Span};

/// Reading text takes six times as long without a dictionary. Another encoding must save a byte for
/// every so many rows.
const WORTH_ROWS: usize = 100;

/// Find the choice with the fewest bytes for the slots of a span, whose values are `column`.
pub fn choose<C: Column>(
    chunk: &mut Chunk,
    compressor: &mut Compressor,
    column: C,
    slots: Slots<'_>,
    span: &Span,
) -> Result<Choice, Error> {
    let is_text = column.physical_type() == PhysicalType::ByteArray;
    let mut best = Choice::PLAIN;
    let mut least = usize::MAX;
    for &choice in [Choice::PLAIN].iter().chain(C::CANDIDATES) {
        chunk.encode(column, slots, span, choice, Order::Undefined)?;
        if choice.encoding == Encoding::RleDictionary && !chunk.pages.has_dictionary() {
            continue;
        }
        let mut size = chunk.pages.compressed_size(compressor)?;
        if is_text && choice.encoding != Encoding::RleDictionary {
            size += span.slots.len() / WORTH_ROWS;
        }
        if size < least {
            (best, least) = (choice, size);
        }
    }
    Ok(best)
}
