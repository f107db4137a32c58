//! One column's values and levels as encoded pages.

use super::Error;
use super::column::{Bounds, Choice, Column, Order};
use super::dictionary::Scratch;
use super::levels::{Slots, Span};
use super::page::Pages;
use crate::parquet::delta::Widths;
use crate::parquet::format::{Encoding, PageType};
use crate::parquet::packing::{Runs, bit_width};

/// Readers decode a page at a time; a longer column chunk has several, as Arrow's have.
const PAGE_BYTES: usize = 1 << 20;
/// A larger dictionary must be much smaller than the values: readers keep all of it in memory.
const LARGE_DICTIONARY: usize = 1 << 20;
/// About the header of a dictionary page and its entry in the footer.
const DICTIONARY_OVERHEAD: usize = 30;

/// The pages of a column chunk, and what encoding them needs.
pub struct Chunk {
    pub pages: Pages,
    runs: Runs,
    scratch: Scratch,
    levels: Vec<u8>,
}

impl Chunk {
    pub fn new(runs: Runs) -> Self {
        Self { pages: Pages::default(), runs, scratch: Scratch::default(), levels: Vec::new() }
    }

    /// Encode the slots of a span, whose values are `column`; return the bounds of the values.
    pub fn encode<C: Column>(
        &mut self,
        column: C,
        slots: Slots<'_>,
        span: &Span,
        choice: Choice,
        order: Order,
    ) -> Result<Option<Bounds>, Error> {
        self.pages.clear();
        if choice.encoding == Encoding::RleDictionary
            && let Some(values) = self.dictionary(column, choice.widths)?
        {
            self.put_indices(slots, span, values.len(), choice.widths)?;
            return Ok(column.bounds_of(&values, order));
        }
        let Self { pages, scratch, levels, runs, .. } = self;
        let bytes = if span.slots.len() > PAGE_BYTES / 16 { column.plain_size() } else { 0 };
        let layout = Layout { slots, span, runs: *runs, bytes };
        put_pages(pages, &layout, levels, |from, to, out| {
            column.slice(from, to).encode(choice, scratch, out)
        })?;
        Ok(column.bounds(order))
    }

    /// Put the dictionary page, if a dictionary makes the column smaller; return its values.
    fn dictionary<C: Column>(
        &mut self,
        column: C,
        widths: Widths,
    ) -> Result<Option<Vec<C::Value>>, Error> {
        let Some(values) = column.dictionary(column.len(), &mut self.scratch) else {
            return Ok(None);
        };
        let mut entries = std::mem::take(&mut self.scratch.bytes);
        entries.clear();
        column.put_all(&values, &mut entries);
        let indices = self.scratch.indices.len() * index_width(values.len(), widths) / 8;
        let size = entries.len();
        let pays = |plain| {
            let is_smaller = size + indices + DICTIONARY_OVERHEAD < plain;
            is_smaller && (size <= LARGE_DICTIONARY || size <= plain / 2)
        };
        let pays = pays(column.least_plain_size()) || pays(column.plain_size());
        let added = pays && !values.is_empty();
        if added {
            self.pages.add(PageType::Dictionary, values.len(), |out| {
                out.extend_from_slice(&entries);
                Encoding::Plain
            })?;
        }
        self.scratch.bytes = entries;
        Ok(added.then_some(values))
    }

    fn put_indices(
        &mut self,
        slots: Slots<'_>,
        span: &Span,
        entries: usize,
        widths: Widths,
    ) -> Result<(), Error> {
        let Self { pages, scratch, levels, runs } = self;
        let width = index_width(entries, widths);
        let bytes = span.slots.len() * width / 8;
        let layout = Layout { slots, span, runs: *runs, bytes };
        put_pages(pages, &layout, levels, |from, to, out| {
            out.push(width as u8);
            scratch.indices.put(from..to, width, layout.runs, out);
            Encoding::RleDictionary
        })
    }
}

/// The bits of an index into a dictionary. (Not all readers expect 0, where there is one entry.)
fn index_width(entries: usize, widths: Widths) -> usize {
    widths.round(bit_width(entries.saturating_sub(1) as u64).max(1))
}

/// What is put into the data pages of a column chunk besides its values.
struct Layout<'a> {
    slots: Slots<'a>,
    span: &'a Span,
    runs: Runs,
    /// What the values take in all.
    bytes: usize,
}

/// Add data pages of about `PAGE_BYTES`.
///
/// `encode` appends the values from one to another, counted from the first one of the span.
fn put_pages(
    pages: &mut Pages,
    layout: &Layout<'_>,
    levels: &mut Vec<u8>,
    mut encode: impl FnMut(usize, usize, &mut Vec<u8>) -> Encoding,
) -> Result<(), Error> {
    let Layout { slots, span, runs, bytes } = *layout;
    let number = bytes.div_ceil(PAGE_BYTES).max(1);
    let per_page = span.slots.len().div_ceil(number);
    let mut rest = span.clone();
    loop {
        let page = slots.first(&rest, per_page);
        pages.add(PageType::Data, page.slots.len(), |out| {
            slots.encode(&page, runs, levels, out);
            let first = span.values.start;
            encode(page.values.start - first, page.values.end - first, out)
        })?;
        rest = Span {
            slots: page.slots.end..rest.slots.end,
            values: page.values.end..rest.values.end,
        };
        if rest.slots.is_empty() {
            return Ok(());
        }
    }
}
